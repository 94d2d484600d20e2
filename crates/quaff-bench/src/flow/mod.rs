//! The bench of flow meters: one meter after the other gets the same packets, and a collector of the bench receives
//! and counts the records that it exports.
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
//! A [`plan::Plan`] and a [`result::Report`] are plain data. Sent packets and bytes are counted in the file, from its
//! headers; reported ones in the records. A meter's printed output is never used.

mod find;
pub mod plan;
pub mod result;
mod rounds;
mod session;
mod survey;

pub(crate) use result::summarise;
pub use rounds::Events;
pub use session::Context;
pub use survey::survey;

use crate::Result;
use plan::Plan;
use result::Report;
use session::Session;

/// Runs a whole plan. An interrupted bench returns the results measured so far.
///
/// # Errors
/// Nothing could be measured: no lab, no folder on a disk, an unknown meter, a file without flows.
pub fn run(plan: &Plan, context: &Context, events: &mut dyn Events) -> Result<Report> {
    Report::fill(plan, &context.command, |report| {
        events.stage("the traffic is prepared");
        let session = Session::open(plan, context, &mut || events.continues())?;
        events.place(&session.place.path);
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
