//! The bench: capturers measured under the same conditions, one case after the other, and one report.
//!
//! ```text
//!    plan ──▶ null calibration ──▶ round 1: every capturer on every case, in turn ──▶ … ──▶ report
//!    (data)   (no capturer)        round 2: the same, …                              (data)
//! ```
//!
//! A [`plan::Plan`] and a [`result::Report`] are plain data. Offered frames are counted at the receiving interface,
//! captured frames in the file; a tool's own counts are reported beside them and never used.

pub mod compare;
mod eta;
mod find;
mod finder;
mod jobs;
mod limit;
pub mod plan;
mod readings;
pub mod result;
mod runner;
mod session;
pub mod summary;

pub(crate) use jobs::Draw;
pub use runner::Events;
pub use session::Context;

use crate::Result;
use finder::Finder;
use jobs::Jobs;
use plan::Plan;
use result::{Calibration, Report};
use session::Session;

/// Runs a whole plan. An interrupted bench returns the results measured so far.
///
/// # Errors
/// Nothing could be measured: no lab, no folder on a disk, an unknown capturer or mix.
pub fn run(plan: &Plan, context: &Context, events: &mut dyn Events) -> Result<Report> {
    Report::fill(plan, &context.command, |report| {
        let mut session = Session::open(plan, context)?;
        events.place(&session.place.path);
        let can = |rival: &str, setting: &_| session.setting(rival, setting);
        let fits = |rival: &str, interface: usize| session.fits(rival, interface);
        let jobs = Jobs::of(plan, &session.present(), &session.interfaces, &can, &fits)?;
        (report.machine, report.body.rivals) = (session.machine(), session.rivals(plan));
        runner::rounds(plan, jobs, &mut session, report, events)?;
        search(plan, &mut session, report, events)?;
        readings::read(plan, &session, report, events)
    })
}

/// Runs the plan's searches; partial results are published after each.
fn search(plan: &Plan, session: &mut Session, report: &mut Report, events: &mut dyn Events) -> Result<()> {
    if let ([first, _, ..], false) = (session.interfaces.as_slice(), plan.finds.is_empty()) {
        let first = first.as_deref().unwrap_or_default();
        report.notes.push(format!("Searches ran on {first} only."));
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
    report.interrupted = matches!(found, Err(crate::Error::Interrupted));
    events.so_far(report);
    found
}
