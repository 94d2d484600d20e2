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
pub mod find;
mod finder;
mod jobs;
mod left;
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

pub(crate) use machine::interface as interface_facts;

use crate::{Error, Result};
use finder::Finder;
use jobs::Jobs;
use plan::{Plan, Setting};
use result::{FORMAT, Report};
use runner::Booth as _;
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
    let setting = plan.sweeps.first().map_or_else(Setting::default, |sweep| sweep.setting.clone());
    let mut report = Report {
        format: FORMAT,
        plan: plan.clone(),
        command: context.command.clone(),
        begun: format!("{begun:.0}"),
        seconds: 0.0,
        interrupted: false,
        machine: session.machine(),
        rivals: session.rivals(&setting),
        calibration: Vec::new(),
        cases: Vec::new(),
        searches: Vec::new(),
        bursts: Vec::new(),
        notes: Vec::new(),
    };
    runner::rounds(plan, jobs, &mut session, &mut report, events)?;
    if !report.interrupted {
        match find::find(plan, &mut Finder::new(&mut session, events), &mut report) {
            Err(Error::Interrupted) => report.interrupted = true,
            done => done?,
        }
    }
    report.seconds = clock.elapsed().as_secs_f64();
    Ok(report)
}
