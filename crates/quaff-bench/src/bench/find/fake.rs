//! A simulated machine: rivals with a throughput and a buffer, and a generator with a limit.

use super::{Measurer, Workload};
use crate::bench::plan::{Find, Method, Plan, Wanted};
use crate::bench::result::Report;
use crate::method::Run;
use crate::{Error, Result};
use quaff_lab::tool::Setting;
use quaff_lab::traffic::Size;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub(super) struct Ability {
    /// Frames/s that it captures indefinitely.
    pub(super) throughput_pps: f64,
    /// Buffer, frames.
    pub(super) buffer: f64,
    /// Rate at which it crashes, frames/s.
    pub(super) crashes_at: f64,
}

pub(super) struct Machine {
    pub(super) rivals: BTreeMap<&'static str, Ability>,
    /// Highest rate without a capturer, frames/s.
    pub(super) null_pps: f64,
    /// Highest unpaced rate with a capturer, frames/s.
    pub(super) offered_pps: f64,
    /// Highest paced rate with a capturer, frames/s.
    pub(super) paced_pps: f64,
    pub(super) frames_max: Option<u64>,
    /// Number of runs after which all abilities change by a factor, and the factor.
    pub(super) changes: Option<(usize, f64)>,
    /// Interrupts after this number of runs.
    pub(super) interrupted_after: Option<usize>,
    /// Share of the lost frames that are lost before the socket.
    pub(super) receiver_share: f64,
    pub(super) runs: Vec<(String, Option<u64>, u64)>,
    pub(super) said: Vec<String>,
    /// Number of searches in each published report.
    pub(super) shown: Vec<usize>,
}

pub(super) fn machine<const N: usize>(rivals: [(&'static str, f64); N]) -> Machine {
    let ability = |throughput_pps| Ability { throughput_pps, buffer: 0.0, crashes_at: f64::INFINITY };
    Machine {
        rivals: rivals.into_iter().map(|(name, throughput_pps)| (name, ability(throughput_pps))).collect(),
        null_pps: 3e6,
        offered_pps: 1.5e6,
        paced_pps: f64::INFINITY,
        frames_max: None,
        changes: None,
        interrupted_after: None,
        receiver_share: 0.0,
        runs: Vec::new(),
        said: Vec::new(),
        shown: Vec::new(),
    }
}

impl Measurer for Machine {
    fn measure(&mut self, workload: &Workload<'_>) -> Result<Run> {
        if self.interrupted_after.is_some_and(|after| self.runs.len() >= after) {
            return Err(Error::Interrupted);
        }
        assert!(self.frames_max.is_none_or(|max| workload.count <= max), "there is no room: {workload:?}");
        let change = self.changes.filter(|(after, _)| self.runs.len() >= *after).map_or(1.0, |(_, by)| by);
        self.runs.push((workload.rival.into(), workload.pps, workload.count));
        let ability = self.rivals[workload.rival];
        let (throughput, count) = (ability.throughput_pps * change, workload.count as f64);
        let pps = workload
            .pps
            .map_or(self.offered_pps, |pps| (pps as f64).min(self.offered_pps).min(self.paced_pps));
        let captured = (ability.buffer + throughput * count / pps).min(count).round();
        let failed = (pps >= ability.crashes_at).then(|| "segmentation fault".to_owned());
        Ok(Run {
            intended: workload.count,
            offered: workload.count,
            captured: Some(captured as u64),
            counted_by: "file".into(),
            loss: Some(1.0 - captured / count),
            seconds: count / pps,
            cpu_user_s: 0.25 * count / pps,
            receiver_drops: ((count - captured) * self.receiver_share) as u64,
            failed,
            ..Run::default()
        })
    }

    fn max_pps(&mut self, _size: &Size) -> Result<f64> {
        Ok(self.null_pps)
    }

    fn frames_max(&mut self, _size: &Size, _setting: &Setting) -> Option<u64> {
        self.frames_max
    }

    fn found(&mut self, report: &Report) {
        self.shown.push(report.searches.len());
    }

    fn about(&mut self, words: &str) {
        self.said.push(words.into());
    }
}

pub(super) fn wanted(what: Wanted) -> Find {
    Find {
        what,
        method: Method::Mlr,
        sizes: vec![Size::Bytes(64)],
        setting: Setting::default(),
        rivals: Vec::new(),
        seconds: 3.0,
        goal_loss: 0.0,
        width: 0.05,
        repeats: None,
    }
}

pub(super) fn plan(machine: &Machine, finds: Vec<Find>) -> Plan {
    let rivals: Vec<_> = machine.rivals.keys().collect();
    let plan = serde_json::json!({ "name": "test", "title": "A test", "rivals": rivals });
    let mut plan: Plan = serde_json::from_value(plan).expect("a plan");
    plan.finds = finds;
    plan
}

pub(super) fn report(plan: &Plan) -> Report {
    Report::new(plan, &[])
}
