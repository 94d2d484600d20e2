//! The plan of a bench of flow meters as plain data: traffic, rates, meters and their settings. Nothing runs here.

use crate::experiment::{
    Method, PlanFile, Preset, Source, check_count, check_seconds, check_seed, check_width, ensure, number,
};
use serde::{Deserialize, Serialize};

/// Maxima of settings: a day; 10^9 flows; 1 GiB, since some meters hold the size in 31 bits.
const TIMEOUT_S_MAX: u32 = 86_400;
const FLOWS_MAX: u64 = 1_000_000_000;
const BUFFER_MIB_MAX: u64 = 1024;
/// Maximum of flows/s; no generator sends more.
const FPS_MAX: f64 = 1e9;
/// Maximum number of passes through the file for the meters.
const LOOPS_MAX: u32 = 100_000;
/// Estimated durations, s: overhead of a run (start, settling, export); a run over the preset's file; the calibration.
const AROUND_S: f64 = 6.0;
const FILE_S: f64 = 8.0;
const NULL_S: f64 = 3.0;
/// Estimated number of trials of a search.
const TRIALS: f64 = 12.0;

/// All that a bench of flow meters measures and how, as a preset or a file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name of the preset, or `custom`.
    pub name: String,
    /// The heading of the report.
    pub title: String,
    pub source: Option<Source>,
    /// Names of the meters, in the order of the tables.
    pub meters: Vec<String>,
    /// Number of runs of each case.
    #[serde(default = "number::<5, _>")]
    pub runs: u32,
    /// Random seed of the order within a round.
    #[serde(default)]
    pub seed: u64,
    /// A capture that is replayed with new addresses in each pass; `None`: generated traffic.
    pub replay: Option<String>,
    /// Flows/s, with each direction of addresses, ports and protocol as one flow; empty: no runs on an interface.
    #[serde(default)]
    pub rates: Vec<f64>,
    /// Duration of a run on an interface, s; whole passes through the capture are sent. The default is that of the
    /// how-to at 100,000 flows/s.
    #[serde(default = "number::<20, _>")]
    pub seconds: f64,
    /// Passes through the capture in the file for the meters; 0: no runs on a file.
    #[serde(default)]
    pub file_loops: u32,
    /// Timeouts of all meters, s; the defaults are those of nProbe.
    #[serde(default = "number::<120, _>")]
    pub active_s: u32,
    #[serde(default = "number::<30, _>")]
    pub idle_s: u32,
    /// Maximum number of flows in a meter's table.
    #[serde(default = "number::<4_000_000, _>")]
    pub flows_max: u64,
    /// Buffer between the kernel and a meter, MiB.
    #[serde(default = "number::<256, _>")]
    pub buffer_mib: u64,
    /// A search for the highest rate without loss, run after the others.
    pub find: Option<Find>,
    /// Notes for the reader: parts of a source that are missing or replaced, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A search for the highest rate without loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    #[serde(default)]
    pub method: Method,
    /// Duration of a full-length trial, s.
    #[serde(default = "number::<5, _>")]
    pub seconds: f64,
    /// (upper − lower) / upper at which the search ends.
    #[serde(default = "width_default")]
    pub width: f64,
    /// Largest loss ratio that counts as no loss.
    #[serde(default)]
    pub goal_loss: f64,
}

impl PlanFile for Plan {
    const PRESETS: &'static [Preset] =
        &[("flow-appliance", include_str!("../../flows/flow-appliance.toml"), None)];

    fn name(&self) -> &str {
        &self.name
    }

    fn validate(&self) -> Result<(), String> {
        let Self { meters, rates, file_loops, .. } = self;
        ensure(!meters.is_empty(), || "there are no meters to measure".into())?;
        let twice = meters.iter().enumerate().find(|(at, name)| meters[..*at].contains(name));
        ensure(twice.is_none(), || format!("{} is named twice", twice.map_or("", |(_, name)| name)))?;
        check_count("each case is run", self.runs)?;
        check_seed(self.seed)?;
        let has_work = !rates.is_empty() || *file_loops > 0 || self.find.is_some();
        ensure(has_work, || "nothing is to be run: there is no rate, no file and no search".into())?;
        let is_rate = |rate: &f64| *rate > 0.0 && *rate <= FPS_MAX;
        ensure(rates.iter().all(is_rate), || format!("a rate is above 0 and at most {FPS_MAX} flows/s"))?;
        check_seconds(self.seconds)?;
        ensure(*file_loops <= LOOPS_MAX, || format!("a file has at most {LOOPS_MAX} passes"))?;
        let timeouts = [self.active_s, self.idle_s];
        ensure(timeouts.iter().all(|time| (1..=TIMEOUT_S_MAX).contains(time)), || {
            format!("a timeout is 1 to {TIMEOUT_S_MAX} s")
        })?;
        ensure((1..=FLOWS_MAX).contains(&self.flows_max), || format!("a table has 1 to {FLOWS_MAX} flows"))?;
        ensure((1..=BUFFER_MIB_MAX).contains(&self.buffer_mib), || {
            format!("a buffer has 1 to {BUFFER_MIB_MAX} MiB")
        })?;
        self.find.as_ref().map_or(Ok(()), |find| {
            check_seconds(find.seconds)?;
            check_width(find.width)?;
            ensure((0.0..1.0).contains(&find.goal_loss), || "a goal is a loss from 0 to below 1".into())
        })
    }
}

impl Plan {
    /// Number of runs, without searches.
    pub fn runs_total(&self) -> usize {
        let parts = self.rates.len() + usize::from(self.file_loops > 0);
        parts * self.meters.len() * self.runs as usize
    }

    /// Estimated duration, s.
    pub fn cost_s(&self) -> f64 {
        let (meters, runs) = (self.meters.len() as f64, f64::from(self.runs));
        let live = self.rates.len() as f64 * (NULL_S + meters * runs * (self.seconds + AROUND_S));
        let files = if self.file_loops > 0 { meters * runs * FILE_S } else { 0.0 };
        let found = self.find.as_ref().map_or(0.0, |find| meters * TRIALS * (find.seconds + AROUND_S));
        live + files + found
    }
}

fn width_default() -> f64 {
    0.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset() -> Plan {
        Plan::preset("flow-appliance", false).expect("it is shipped")
    }

    #[test]
    fn the_preset_has_the_rates_of_the_how_to_and_survives_toml() {
        let plan = preset();
        assert_eq!(plan.rates, [50_000.0, 100_000.0]);
        assert_eq!((plan.active_s, plan.idle_s, plan.runs_total()), (120, 30, 3 * 6 * 5));
        assert!(plan.cost_s() > 600.0);
        let text = plan.to_toml().expect("TOML");
        assert_eq!(Plan::from_toml("again", &text).expect("a plan"), plan);
    }

    #[test]
    fn a_plan_without_sense_is_refused_with_a_sentence() {
        let refused = |change: &dyn Fn(&mut Plan)| {
            let mut plan = preset();
            change(&mut plan);
            plan.validate().expect_err("no sense")
        };
        assert!(refused(&|plan| plan.meters.clear()).contains("no meters"));
        assert!(refused(&|plan| plan.meters.push("quaff".into())).contains("quaff is named twice"));
        assert!(refused(&|plan| plan.rates[0] = 0.0).contains("a rate is above 0"));
        assert!(refused(&|plan| plan.idle_s = 0).contains("a timeout is 1 to"));
        assert!(refused(&|plan| plan.seed = 1 << 63).contains("a seed is 0 to 9223372036854775807"));
        assert!(refused(&|plan| plan.flows_max = 0).contains("a table has"));
        assert!(refused(&|plan| plan.buffer_mib = 0).contains("a buffer has"));
        assert!(refused(&|plan| plan.seconds = 0.0).contains("more than 0 s"));
        let nothing = |plan: &mut Plan| {
            plan.rates.clear();
            plan.file_loops = 0;
            plan.find = None;
        };
        assert!(refused(&nothing).contains("nothing is to be run"));
        let find = Find { method: Method::Mlr, seconds: 1.0, width: 1.0, goal_loss: 0.0 };
        assert!(refused(&|plan| plan.find = Some(find.clone())).contains("width"));
    }
}
