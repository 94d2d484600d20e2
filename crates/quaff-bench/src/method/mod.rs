//! How a capturer is measured: one run at a time, counted in its file and nowhere else.
//!
//! ```text
//!    generator, core 0                       capturer, core 1
//!   ┌────────────────┐   frames arrive      ┌────────────────┐    files in a
//!   │ quaff generate ├──── on rx0, ────────▶│ tcpdump, quaff ├──▶ directory of
//!   └───────┬────────┘   as from the wire   └───────┬────────┘    their own
//!           │ offered: what rx0 itself counted      │ CPU time: wait4(2)
//!           └───────────────┬───────────────────────┘
//!                 in the file: read and counted by us
//! ```
//!
//! What a tool says about its losses is kept beside that, as its own word.

mod capturer;
mod count;
pub mod delivery;
pub mod fio;
mod growth;
mod measure;
pub mod pipeline;
mod place;
mod result;
mod run;

pub use crate::stats::median;
pub use place::{Place, RunDir};
pub use result::{Run, Sample};
pub use run::{Bench, Cores};

pub(crate) use pipeline::come_to_rest;
