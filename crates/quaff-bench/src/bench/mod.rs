//! The bench: capturers measured by the book, one case after the other, and a report of all of it.
//!
//! ```text
//!    plan ──▶ null calibration ──▶ round 1: every rival on every case, in turns ──▶ … ──▶ report
//!    (data)   (nobody listens)     round 2: the same, …                            (data)
//! ```
//!
//! A [`plan::Plan`] says what to run, a [`result::Report`] what came of it; both are plain data. What is
//! measured of one run is counted by us: what was offered at the receiving interface, what was captured in
//! the file. What a tool says of itself stands beside it as its own word.

pub mod compare;
mod eta;
pub mod find;
mod finder;
mod jobs;
mod limit;
mod machine;
pub mod plan;
pub mod preset;
pub mod result;
mod runner;
mod session;
pub mod summary;

pub use runner::Events;
pub use session::{Context, Session};

pub(crate) use machine::machine as machine_facts;

use crate::{Error, Result};
use finder::Finder;
use jobs::Jobs;
use plan::Plan;
use result::{Calibration, FORMAT, Report};
use runner::CaseRunner as _;
use std::time::Instant;

/// Runs all of a plan. What was measured is returned also when it was interrupted.
///
/// # Errors
/// Nothing could be measured: no lab, no place on a disk, a capturer or a mix that nobody knows.
pub fn run(plan: &Plan, context: &Context, events: &mut dyn Events) -> Result<Report> {
    let (begun, clock) = (jiff::Timestamp::now(), Instant::now());
    let mut session = Session::open(plan, context)?;
    let jobs = Jobs::of(plan, &session.present(), session.interfaces(), &|rival, setting| {
        session.can(rival, setting)
    })?;
    let mut report = Report {
        format: FORMAT,
        plan: plan.clone(),
        command: context.command.clone(),
        begun: format!("{begun:.0}"),
        seconds: 0.0,
        interrupted: false,
        machine: session.machine(),
        rivals: session.rivals(plan),
        calibration: Vec::new(),
        cases: Vec::new(),
        searches: Vec::new(),
        bursts: Vec::new(),
        notes: Vec::new(),
    };
    runner::rounds(plan, jobs, &mut session, &mut report, events)?;
    if !report.interrupted {
        search(plan, &mut session, &mut report, events)?;
    }
    report.seconds = clock.elapsed().as_secs_f64();
    Ok(report)
}

/// Each of a plan's searches; what was found so far is shown after each.
fn search(plan: &Plan, session: &mut Session, report: &mut Report, events: &mut dyn Events) -> Result<()> {
    if let ([_, _, ..], false) = (session.interfaces(), plan.finds.is_empty()) {
        let first = session.interfaces()[0].as_deref().unwrap_or_default();
        report.notes.push(format!("Searches were made on {first} alone."));
    }
    let of = find::count(plan, report);
    let mut finder = Finder::new(session, events, of);
    let found = find::find(plan, &mut finder, report);
    for null in finder.calibrations() {
        let is_known =
            |known: &Calibration| (known.size, &known.mix, known.pps) == (null.size, &null.mix, null.pps);
        if !report.calibration.iter().any(is_known) {
            report.calibration.push(null);
        }
    }
    match found {
        Err(Error::Interrupted) => report.interrupted = true,
        found => found?,
    }
    events.so_far(report);
    Ok(())
}
