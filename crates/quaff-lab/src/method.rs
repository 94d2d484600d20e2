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
pub mod consumer;
mod count;
pub mod delivery;
pub mod fio;
mod generator;
mod growth;
mod mark;
mod measure;
mod meter;
pub mod pipeline;
mod place;
mod run;
mod site;

pub use crate::stats::median;
pub use generator::Traffic;
pub use place::{Place, RunDir};
pub use run::{Bench, Cores, Outcome, Stage, Watch};
pub use site::{Sampled, Sent, Site};

pub(crate) use mark::Mark;
pub(crate) use meter::Meter;
pub(crate) use pipeline::come_to_rest;
pub(crate) use run::pause;
