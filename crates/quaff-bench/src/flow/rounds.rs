//! Runs a bench of flow meters: the generator alone, then in each round every meter at every rate and on the file, in a
//! random order from the seed, so that changes of the machine affect all meters alike.

use super::plan::Plan;
use super::result::{FlowCalibration, FlowCase, Report, summarise};
use super::session::{Session, describe};
use crate::bench::Draw;
use crate::experiment;
use crate::method::MeterRun;
use crate::{Error, Result};
use quaff::format::count;
use std::time::{Duration, Instant};

/// A case is abandoned after this number of failed runs, if no run succeeded.
const STRIKES: usize = 2;
/// Tolerated relative deviation of the generator alone from the requested rate.
const PACE_TOLERANCE: f64 = 0.02;

/// Receives the progress of a bench of flow meters.
pub trait Events: experiment::Events<Report> {
    /// Called once, with the number of runs.
    fn begins(&mut self, _runs_total: usize) {}

    /// Called after each run of a case, with the estimated remaining time.
    fn run_done(&mut self, _case: &FlowCase, _run: &MeterRun, _left: Duration) {}
}

/// A case, by its index in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Live(usize),
    File(usize),
}

/// Runs all cases and fills the report, which keeps the completed runs after an error.
pub(super) fn rounds(
    plan: &Plan,
    session: &Session,
    report: &mut Report,
    events: &mut dyn Events,
) -> Result<()> {
    make_cases(plan, session, report);
    for rate in plan.rates.iter().copied().map(Some).chain(plan.find.iter().map(|_| None)) {
        calibrate(session, rate, report, events)?;
    }
    let jobs = jobs(report);
    let (mut left, begun) = (jobs.iter().map(Vec::len).sum::<usize>() * plan.runs as usize, Instant::now());
    let total = left;
    events.begins(total);
    for round in 1..=plan.runs {
        for job in order(&jobs, plan.seed, round) {
            let case = case(report, job);
            let is_hopeless = case.runs.len() >= STRIKES && case.runs.iter().all(|run| run.failed.is_some());
            left -= 1;
            if is_hopeless {
                continue;
            }
            let run = run(plan, session, case, job, round, events)?;
            let each = begun.elapsed().div_f64((total - left) as f64);
            events.run_done(case, &run, each.mul_f64(left as f64));
            case.runs.push(run);
        }
        summarise(report);
        events.so_far(report);
    }
    Ok(())
}

/// Creates the cases of the plan without runs.
fn make_cases(plan: &Plan, session: &Session, report: &mut Report) {
    let new = |meter: &str, fps| FlowCase { meter: meter.to_owned(), fps, ..FlowCase::default() };
    for name in session.present() {
        report.body.cases.extend(plan.rates.iter().map(|fps| new(name, Some(*fps))));
        if plan.file_loops > 0 && session.reads_files(name) {
            report.body.files.push(new(name, None));
        }
    }
}

/// Measures the generator alone.
fn calibrate(
    session: &Session,
    fps: Option<f64>,
    report: &mut Report,
    events: &mut dyn Events,
) -> Result<()> {
    events.stage("the generator sends without a meter");
    let sent = session.null(fps, &mut |_| events.continues())?;
    if sent.skipped > 0 {
        // Fewer frames per pass than were counted would arrive.
        let what = "frames of the capture are too long or too short to be sent; choose another capture";
        return Err(Error::Place(format!("{} {what}", count(sent.skipped))));
    }
    let offered_pps = sent.offered as f64 / sent.seconds.max(1e-9);
    let offered_fps = offered_pps * session.pass.flows as f64 / session.pass.frames as f64;
    if let Some(fps) = fps.filter(|fps| offered_fps < fps * (1.0 - PACE_TOLERANCE)) {
        let (asked, got) = (fps.round(), offered_fps.round());
        let note =
            format!("The generator alone sends {got} flows/s instead of {asked}: it limits that rate.");
        events.note(&note);
        report.notes.push(note);
    }
    report.body.calibration.push(FlowCalibration { fps, offered_fps, offered_pps });
    Ok(())
}

/// Groups of cases that are measured in succession: those at the same rate, and those on the file.
fn jobs(report: &Report) -> Vec<Vec<Job>> {
    let mut groups: Vec<(Option<u64>, Vec<Job>)> = Vec::new();
    let live = report.cases.iter().enumerate().map(|(at, case)| (case.fps.map(f64::to_bits), Job::Live(at)));
    let files = report.files.iter().enumerate().map(|(at, _)| (None, Job::File(at)));
    for (key, job) in live.chain(files) {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(job),
            None => groups.push((key, vec![job])),
        }
    }
    groups.into_iter().map(|(_, jobs)| jobs).collect()
}

/// The order of a round: rates in random order, and at each rate the meters in random order.
fn order(jobs: &[Vec<Job>], seed: u64, round: u32) -> Vec<Job> {
    let mut draw = Draw(seed ^ (u64::from(round) << 32));
    let mut jobs = jobs.to_vec();
    draw.shuffle(&mut jobs);
    jobs.iter_mut().for_each(|group| draw.shuffle(group));
    jobs.concat()
}

fn case(report: &mut Report, job: Job) -> &mut FlowCase {
    match job {
        Job::Live(at) => &mut report.body.cases[at],
        Job::File(at) => &mut report.body.files[at],
    }
}

/// Performs one run. A failure of the generator, which may not affect the next run, is recorded as a failed run.
fn run(
    plan: &Plan,
    session: &Session,
    case: &FlowCase,
    job: Job,
    round: u32,
    events: &mut dyn Events,
) -> Result<MeterRun> {
    let name = &case.meter;
    let watch = &mut |stage| {
        events.stage(&format!("{name} {}", describe(stage)));
        events.continues()
    };
    let done = match job {
        Job::Live(_) => session.live(plan, name, case.fps.unwrap_or_default(), plan.seconds, watch),
        Job::File(_) => session.read(plan, name, watch),
    };
    match done {
        Ok(run) => Ok(MeterRun { round, ..run }),
        Err(Error::Tool { name, what }) => {
            Ok(MeterRun { round, failed: Some(format!("{name}: {what}")), ..MeterRun::default() })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::PlanFile as _;

    #[test]
    fn each_round_has_every_case_once_and_meters_of_a_rate_follow_each_other() {
        let plan = Plan::preset("flow-appliance", false).expect("it is shipped");
        let mut report = Report::new(&plan, &[]);
        for fps in [50_000.0, 100_000.0] {
            for meter in ["quaff", "softflowd", "nfpcapd"] {
                let case = FlowCase { meter: meter.into(), fps: Some(fps), ..FlowCase::default() };
                report.body.cases.push(case);
            }
        }
        report.body.files.extend(
            ["quaff", "nfpcapd"].map(|meter| FlowCase { meter: meter.into(), ..FlowCase::default() }),
        );
        let jobs = jobs(&report);
        assert_eq!(jobs.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2]);
        let mut orders = Vec::new();
        for round in 1..=8 {
            let order = order(&jobs, 7, round);
            assert_eq!(order, super::order(&jobs, 7, round), "the seed decides");
            let mut rest: &[Job] = &order;
            while let Some(first) = rest.first() {
                let group = jobs.iter().find(|group| group.contains(first)).expect("known");
                let (now, next) = rest.split_at(group.len());
                assert!(group.iter().all(|job| now.contains(job)), "{order:?}");
                rest = next;
            }
            orders.push(order);
        }
        orders.dedup();
        assert!(orders.len() > 1, "rounds differ");
    }
}
