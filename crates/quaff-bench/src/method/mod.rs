//! Measures one run of a tool. Frames are counted in its file, or in the records that it exports, and nowhere else.
//!
//! ```text
//!    generator, core 0                       capturer, core 1
//!   ┌────────────────┐   frames arrive      ┌────────────────┐    files in a
//!   │ quaff generate ├──── on rx0, ────────▶│ tcpdump, quaff ├──▶ directory of
//!   └───────┬────────┘   as from the wire   └───────┬────────┘    its own
//!           │ offered: counted by rx0 itself        │ CPU time: wait4(2)
//!           └───────────────┬───────────────────────┘
//!                 in the file: read and counted by quaff
//! ```
//!
//! A tool's own report of its losses is kept separately.

mod capturer;
mod collector;
mod count;
mod delivery;
mod expansion;
pub mod fio;
mod idle;
mod measure;
mod metering;
mod pipeline;
mod place;
mod reading;
mod records;
mod result;
mod run;

use quaff_lab::topology::{Stage, Watch, pause};
use quaff_lab::{ChildProcess, Finished};
use std::time::Duration;

pub use delivery::{ConsumerKind, Delivered, Post, Sender, has_xdp, replay_and_capture};
pub use expansion::{cache_doubt, expand, generate, halves, load};
pub use metering::{Load, MeterBench, MeterRun};
pub use pipeline::{Feed, MIDDLES, Program, STRIPPERS};
pub use place::{Place, RunDir};
pub use quaff::tally::Verdict;
pub use reading::ReadRun;
pub use result::{Contents, Run, Sample};
pub use run::{Bench, Cores};

pub(crate) use pipeline::come_to_rest;

/// Time limit for the last output of a process that has ended.
const OUTPUT_WAIT: Duration = Duration::from_secs(5);

/// Waits for a process to end, and returns its output.
fn finish(mut process: ChildProcess, stage: Stage, watch: Watch<'_>) -> crate::Result<Finished> {
    while !process.has_ended()? {
        pause(watch, stage)?;
    }
    process.finish(OUTPUT_WAIT)
}
