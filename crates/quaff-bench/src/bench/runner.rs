//! Runs a bench: the generator alone, one warm-up, then round after round.

use super::eta::Eta;
use super::jobs::{Jobs, room};
use super::limit::limit;
use super::plan::Plan;
use super::result::{Calibration, Case, Report};
use super::summary::summarise;
use crate::experiment;
use crate::method::Run;
use crate::{Error, Result};
use quaff_lab::tool::Setting;
use quaff_lab::topology::{Sent, Stage, Watch};
use quaff_lab::traffic::Traffic;
use std::time::{Duration, Instant};

/// A case is abandoned after this number of failed runs, if no run succeeded.
const CASE_STRIKES: usize = 2;
/// A tool is abandoned after this number of failed runs, if no run succeeded.
const RIVAL_STRIKES: usize = 5;
/// Tolerated relative deviation of the generator alone from the requested rate.
const PACE_TOLERANCE: f64 = 0.01;
/// Tolerated relative drift of the generator alone from start to end.
const DRIFT_TOLERANCE: f64 = 0.1;
/// Maximum number of frames of a warm-up, which lasts at most a second.
const WARM_FRAMES: u64 = 100_000;
/// Interval of partial reports.
const SO_FAR: Duration = Duration::from_secs(10);
/// Tolerated share of a core's time that the host of a virtual machine takes.
const STEAL_TOLERANCE: f64 = 0.02;

/// Receives the progress of a bench.
pub trait Events: experiment::Events<Report> {
    /// Called once, with the number of runs without warm-ups.
    fn begins(&mut self, _runs_total: usize) {}

    /// Called after each run of a case, with the estimated remaining time.
    fn run_done(&mut self, _case: &Case, _run: &Run, _left: Duration) {}
}

/// Runs single cases: a session, or a fake in tests.
pub(super) trait CaseRunner {
    /// Sends frames without a capturer.
    fn null(&mut self, traffic: &Traffic, interface: usize, watch: Watch<'_>) -> Result<Sent>;

    /// One run of `rival`; a failure of the tool is part of the run.
    fn run(
        &mut self,
        rival: &str,
        traffic: &Traffic,
        setting: &Setting,
        interface: usize,
        watch: Watch<'_>,
    ) -> Result<Run>;

    /// An error with a sentence if `rival` does not support `setting`.
    fn can(&self, rival: &str, setting: &Setting) -> Result<(), String>;

    /// Free bytes for files, and their location.
    fn free(&self) -> Result<(u64, String)>;
}

/// Runs `jobs` and fills the report, which keeps the completed runs after an error.
pub(super) fn rounds(
    plan: &Plan,
    jobs: Jobs,
    runner: &mut dyn CaseRunner,
    report: &mut Report,
    events: &mut dyn Events,
) -> Result<()> {
    let mut rounds = Rounds {
        plan,
        jobs,
        runner,
        report,
        events,
        nulls: Vec::new(),
        wanted: Vec::new(),
        left: Eta::default(),
        limits: Vec::new(),
        stolen: Vec::new(),
        strikes: Vec::new(),
        faults: Vec::new(),
        shown: Instant::now(),
    };
    let done = rounds.all();
    if let Err(Error::Interrupted) = done {
        rounds.conclude();
    }
    done
}

struct Rounds<'a> {
    plan: &'a Plan,
    jobs: Jobs,
    runner: &'a mut dyn CaseRunner,
    report: &'a mut Report,
    events: &'a mut dyn Events,
    /// Null calibration of each workload, frames/s; `None`: failed.
    nulls: Vec<Option<f64>>,
    /// True for each case that is to be run.
    wanted: Vec<bool>,
    left: Eta,
    /// For each case the last notes on its limit, and on stolen time.
    limits: Vec<Vec<String>>,
    stolen: Vec<String>,
    /// For each case the failures of the tool, and of the setup.
    strikes: Vec<usize>,
    faults: Vec<usize>,
    /// Time of the last partial report.
    shown: Instant,
}

impl Rounds<'_> {
    fn all(&mut self) -> Result<()> {
        self.report.body.cases = std::mem::take(&mut self.jobs.cases);
        self.strikes = vec![0; self.report.cases.len()];
        self.faults = self.strikes.clone();
        for note in std::mem::take(&mut self.jobs.notes) {
            self.note(note);
        }
        self.calibrate()?;
        let fits = self.room()?;
        let sends = |case: usize| self.nulls[self.jobs.jobs[case].workload].is_some();
        self.wanted = fits.iter().enumerate().map(|(case, fits)| *fits && sends(case)).collect();
        let runs_total = self.wanted.iter().filter(|wanted| **wanted).count() * self.plan.runs as usize;
        self.events.begins(runs_total);
        for round in 1..=self.plan.runs {
            let mut order = self.jobs.order(self.plan.seed, round);
            order.retain(|case| self.wanted[*case]);
            if round == 1 {
                self.warm_up(&order)?;
            }
            for (at, case) in order.iter().enumerate() {
                self.run(*case, round, &order[at + 1..])?;
            }
            self.show();
        }
        self.calibrate_again()
    }

    /// Measures the null calibration of each workload.
    fn calibrate(&mut self) -> Result<()> {
        for at in 0..self.jobs.workloads.len() {
            let workload = self.jobs.workloads[at].clone();
            self.events.stage("the generator sends without a capturer");
            let events = &mut *self.events;
            let sent = self.runner.null(&workload.traffic, workload.interface, &mut |_| events.continues());
            let null_pps = match sent {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    self.note(format!("{}: {error}; its cases are skipped.", words(&workload.traffic)));
                    None
                }
                Ok(sent) => {
                    let calibration = calibration(&workload.traffic, &sent);
                    if let Some(doubt) = doubt(&workload.traffic, &calibration) {
                        let interface = self.jobs.interface(at).map(|name| format!("{name}: "));
                        self.note(interface.unwrap_or_default() + &doubt);
                    }
                    let null_pps = calibration.offered_pps;
                    self.report.calibration.push(calibration);
                    Some(null_pps)
                }
            };
            self.nulls.push(null_pps);
        }
        Ok(())
    }

    /// For each case: true if its files fit on the disk.
    fn room(&mut self) -> Result<Vec<bool>> {
        let (free, place) = self.runner.free()?;
        let (mut fits, mut notes) = (Vec::new(), Vec::new());
        for case in 0..self.jobs.jobs.len() {
            let traffic = self.traffic(case);
            let needed = room(&traffic, &self.report.cases[case].setting);
            fits.push(needed <= free / 10 * 9);
            if needed > free / 10 * 9 {
                let what = format!("{}, {} frames", words(&traffic), traffic.count);
                notes.push(format!(
                    "{what}: {} needed in {place}, {} free; skipped.",
                    gib(needed),
                    gib(free)
                ));
            }
        }
        notes.dedup();
        if !fits.is_empty() && !fits.contains(&true) {
            return Err(Error::Place(format!("{} Choose another `dir`, or fewer frames", notes[0])));
        }
        notes.into_iter().for_each(|note| self.note(note));
        Ok(fits)
    }

    /// The first, short run of each rival is not counted: it loads programs and files from the disk and touches memory.
    fn warm_up(&mut self, order: &[usize]) -> Result<()> {
        let mut warm = Vec::new();
        for case in order {
            let rival = self.report.cases[*case].rival.clone();
            if warm.contains(&rival) {
                continue;
            }
            let traffic = self.traffic(*case);
            let most = traffic.pps.map_or(WARM_FRAMES, |pps| pps.min(WARM_FRAMES));
            let count = traffic.count.min(most.max(1));
            if let Err(Error::Interrupted) = self.measure(*case, Traffic { count, ..traffic }) {
                return Err(Error::Interrupted);
            }
            warm.push(rival);
        }
        Ok(())
    }

    fn run(&mut self, case: usize, round: u32, rest: &[usize]) -> Result<()> {
        if self.is_abandoned(case) {
            return Ok(());
        }
        let begun = Instant::now();
        let run = match self.measure(case, self.traffic(case)) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The rival did not cause it.
            Err(error) => {
                self.faults[case] += 1;
                Run { failed: Some(error.to_string()), failed_outside: true, ..Run::default() }
            }
            Ok(run) => {
                self.strikes[case] += usize::from(run.failed.is_some());
                run
            }
        };
        self.left.took(case, begun.elapsed());
        let took = &mut self.report.body.cases[case];
        if let Some(why) = &run.failed {
            let note = format!("{}.", why.trim_end_matches('.'));
            if !took.notes.contains(&note) {
                took.notes.push(note);
            }
        }
        took.runs.push(Run { round, ..run });
        summarise(took);
        let left = self.left(rest, round);
        let took = &self.report.cases[case];
        if let Some(run) = took.runs.last() {
            self.events.run_done(took, run, left);
        }
        if self.shown.elapsed() > SO_FAR {
            self.show();
        }
        Ok(())
    }

    fn measure(&mut self, case: usize, traffic: Traffic) -> Result<Run> {
        let (free, place) = self.runner.free()?;
        let Case { rival, setting, .. } = &self.report.cases[case];
        if room(&traffic, setting) > free {
            return Err(Error::Place(format!("no room left in {place}")));
        }
        let interface = self.jobs.workloads[self.jobs.jobs[case].workload].interface;
        let events = &mut *self.events;
        let mut watch = |stage: Stage| {
            events.stage(&format!("{rival} {}", stage.describe()));
            events.continues()
        };
        self.runner.run(rival, &traffic, setting, interface, &mut watch)
    }

    fn traffic(&self, case: usize) -> Traffic {
        let job = &self.jobs.jobs[case];
        let traffic = &self.jobs.workloads[job.workload].traffic;
        let null_pps = self.nulls[job.workload].unwrap_or(0.0);
        Traffic { count: job.frames(traffic.pps, null_pps), ..traffic.clone() }
    }

    /// Abandons a case or tool that never works.
    fn is_abandoned(&mut self, case: usize) -> bool {
        let works = |case: &Case| case.runs.iter().any(|run| run.failed.is_none());
        let this = &self.report.cases[case];
        let same = |at: &usize| self.report.cases[*at].rival == this.rival;
        let all: Vec<_> = (0..self.report.cases.len()).filter(same).collect();
        let strikes: usize = all.iter().map(|at| self.strikes[*at]).sum();
        let never = !all.iter().any(|at| works(&self.report.cases[*at]));
        let ends_case = self.strikes[case] + self.faults[case] >= CASE_STRIKES && !works(this);
        let is_over = ends_case || strikes >= RIVAL_STRIKES && never;
        let note = "Abandoned: no run was completed.".to_owned();
        if is_over && !this.notes.contains(&note) {
            self.report.cases[case].notes.push(note);
        }
        is_over
    }

    /// Repeats the null calibration of the first workload, to detect drift of the machine.
    fn calibrate_again(&mut self) -> Result<()> {
        let Some(at) = self.nulls.iter().position(Option::is_some) else { return Ok(()) };
        let (workload, before) = (self.jobs.workloads[at].clone(), self.nulls[at].unwrap_or(0.0));
        let events = &mut *self.events;
        events.stage("the generator sends without a capturer, again");
        let sent = self.runner.null(&workload.traffic, workload.interface, &mut |_| events.continues());
        let after = match sent {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(_) => return Ok(()),
            Ok(sent) => calibration(&workload.traffic, &sent).offered_pps,
        };
        let drift = (after / before.max(1e-9) - 1.0).abs();
        if drift > DRIFT_TOLERANCE {
            self.note(format!(
                "{}: without a capturer {before:.0} frames/s arrived at the start and {after:.0} at the end: the \
                 machine is not the same all the time.",
                words(&workload.traffic)
            ));
        }
        Ok(())
    }

    fn show(&mut self) {
        self.conclude();
        self.events.so_far(self.report);
        self.shown = Instant::now();
    }

    fn left(&self, rest: &[usize], round: u32) -> Duration {
        let one = |case: usize| {
            let traffic = self.traffic(case);
            let null_pps = self.nulls[self.jobs.jobs[case].workload].unwrap_or(0.0);
            let pps = traffic.pps.map_or(null_pps, |pps| pps as f64).max(1.0);
            self.left.of(case, traffic.count as f64 / pps)
        };
        let rounds = self.plan.runs.saturating_sub(round);
        let all: Duration = (0..self.wanted.len()).filter(|case| self.wanted[*case]).map(one).sum();
        rest.iter().map(|case| one(*case)).sum::<Duration>() + all * rounds
    }

    /// Updates the limit of each case, and the notes on disturbances by the machine.
    fn conclude(&mut self) {
        self.limits.resize(self.report.cases.len(), Vec::new());
        for (case, said) in self.report.body.cases.iter_mut().zip(&mut self.limits) {
            let (limited_by, notes) = limit(case);
            case.limited_by = limited_by;
            replace(&mut case.notes, said, notes);
        }
        let runs = self.report.cases.iter().flat_map(|case| &case.runs);
        let stolen = runs.flat_map(|run| &run.cores).map(|core| core.steal).fold(0.0, f64::max);
        let note = (stolen > STEAL_TOLERANCE).then(|| {
            let percent = 100.0 * stolen;
            format!(
                "The host of this virtual machine took up to {percent:.0} % of a core's time in a run: compare \
                 only what lies far apart."
            )
        });
        replace(&mut self.report.notes, &mut self.stolen, note.into_iter().collect());
    }

    fn note(&mut self, note: String) {
        self.events.note(&note);
        self.report.notes.push(note);
    }
}

/// Replaces the earlier notes `said` by `now`.
fn replace(notes: &mut Vec<String>, said: &mut Vec<String>, now: Vec<String>) {
    notes.retain(|note| !said.contains(note));
    notes.extend_from_slice(&now);
    *said = now;
}

/// The result of a null calibration.
pub(super) fn calibration(traffic: &Traffic, sent: &Sent) -> Calibration {
    let seconds = sent.seconds.max(1e-9);
    let sent_pps = sent.sent as f64 / seconds;
    Calibration {
        size: traffic.frame_bytes,
        mix: traffic.size.mix().map(str::to_owned),
        pps: traffic.pps,
        offered_pps: sent.offered as f64 / seconds,
        lost: sent.sent.saturating_sub(sent.offered) as f64 / sent.sent.max(1) as f64,
        pace_error: traffic.pps.map(|pps| (sent_pps / pps as f64 - 1.0).abs()),
    }
}

/// Explains why the cases of a workload are of limited value.
fn doubt(traffic: &Traffic, calibration: &Calibration) -> Option<String> {
    let what = format!("{}: without a capturer", words(traffic));
    if calibration.lost > 0.001 {
        return Some(format!("{what} {:.2} % of the frames do not arrive.", 100.0 * calibration.lost));
    }
    let slow = calibration.pace_error.filter(|error| *error > PACE_TOLERANCE)?;
    Some(format!("{what} the generator deviates from that rate by {:.1} %.", 100.0 * slow))
}

fn words(traffic: &Traffic) -> String {
    let rate = traffic.pps.map_or_else(|| "as fast as possible".to_owned(), |pps| format!("{pps} frames/s"));
    format!("{} B, {rate}", traffic.frame_bytes)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests;
