//! The bench of flow meters: the same packets to one meter after the other, and the records that each exports, received
//! and counted by a collector of the bench.
//!
//! ```text
//!    generator, core 0                     meter, core 1                      collector, core 0
//!   ┌──────────────┐  frames arrive on    ┌──────────────┐  records, over    ┌─────────────────┐
//!   │ quaff replay ├── rx0, as from ─────▶│ softflowd, … ├─ loopback of ────▶│ keeps datagrams │
//!   │ --unique-ip  │  the wire; or a file │              │  the namespace    │ decodes them    │
//!   └──────────────┘                      └──────────────┘                   │ at the end      │
//!                                                                            └─────────────────┘
//! ```
//!
//! A [`plan::Plan`] and a [`result::Report`] are plain data. Packets and bytes that are sent are counted in the file,
//! by a walk over its headers; those that are reported, in the records. A meter's printouts are never used.

mod find;
pub mod plan;
pub mod result;
mod rounds;
mod session;
mod survey;

pub use result::summarise;
pub use rounds::Events;

use crate::Result;
use plan::Plan;
use quaff_lab::tool::FlowMeter;
use result::Report;
use session::Session;
use std::path::PathBuf;

/// The environment of a bench of flow meters.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Path of this program, which sends and meters.
    pub quaff: PathBuf,
    /// Folder for capture files; `None`: the current one or `/var/tmp`.
    pub dir: Option<PathBuf>,
    /// The command line, for the report.
    pub command: Vec<String>,
    /// All known meters, including the user's own.
    pub meters: Vec<FlowMeter>,
}

/// Runs a whole plan. An interrupted bench returns what it measured.
///
/// # Errors
/// Nothing could be measured: no lab, no folder on a disk, an unknown meter, a file without flows.
pub fn run(plan: &Plan, context: &Context, events: &mut dyn Events) -> Result<Report> {
    Report::fill(plan, &context.command, |report| {
        events.stage("the traffic is prepared");
        let session = Session::open(plan, context, &mut || events.continues())?;
        (report.machine, report.body.meters) = (session.machine(), session.facts(plan));
        report.body.traffic = Some(session.traffic_facts());
        if let Some(doubt) = &session.doubt {
            events.note(doubt);
            report.notes.push(doubt.clone());
        }
        let done = rounds::rounds(plan, &session, report, events).and_then(|()| match &plan.find {
            Some(find) => find::find(plan, find, &session, report, events),
            None => Ok(()),
        });
        summarise(report);
        done
    })
}
