//! The pipe: source, stages, sink. A batch flows; a lane is one core's work; each packet ends in one tally.
//!
//! ```text
//!            lane (one per interface)                              writer
//!   ┌──────────────────────────────────────────┐        ┌─────────────────────────┐
//!   source → stages → packer → chunk ──────────┼─ ring →│ sink → file, rotation,  │
//!   (kernel ring)  (descriptors)  (the copy)   │        │        stdout           │
//!   └──────────────────▲───────────────────────┘        └───────────┬─────────────┘
//!                      └────────── empty buffers return ───────────────┘
//! ```
//!
//! Start reading at [`lane`]: both loops are there. [`plan`] describes a run as plain data;
//! [`tally`] counts the fate of every packet.

#![forbid(unsafe_code)]

pub mod batch;
mod buffer_pool;
mod capture;
pub mod cores;
pub mod doctor;
mod dry_run;
mod error;
mod filter;
pub mod flows;
pub use quaff_wire::format;
mod front;
mod gauge;
pub mod interfaces;
mod lane;
mod links;
pub mod memory;
pub mod output;
mod pattern;
pub mod pipe;
#[cfg(test)]
mod pipeline_tests;
pub mod plan;
pub mod proof;
mod run;
mod sandbox;
pub mod source;
pub mod split;
mod stage;
pub mod streams;
pub mod tally;
pub mod tap;
pub mod traffic;
mod verdict;

pub use capture::{Capture, Status};
pub use dry_run::{DryRun, dry_run};
pub use error::{Error, Result};
pub use filter::{CompiledFilter, FilterPlace, compiled_filters};
pub use gauge::{BufferGauges, LaneGauges, MeterGauges};
pub use run::{Run, RunPlan};
pub use stage::{Load, Sorting};
