//! The pipe: source, stages, sink. A batch flows; a lane is one core's work; each packet ends in one tally.
//!
//! ```text
//!            lane (one per interface)                              writer
//!   ┌──────────────────────────────────────────┐        ┌─────────────────────────┐
//!   source → stages → packer → chunk ──────────┼─ ring →│ sink → file, rotation,  │
//!   (kernel ring)  (descriptors)  (the copy)   │        │        stdout           │
//!   └──────────────────▲───────────────────────┘        └───────────┬─────────────┘
//!                      └────────── empty buffers come home ───────────┘
//! ```
//!
//! Start reading at [`lane`]: both loops are there. [`plan`] is what to run, as plain data;
//! [`tally`] is what became of every packet.

#![forbid(unsafe_code)]

pub mod batch;
mod before_socket;
pub mod buffer_pool;
pub mod capture;
pub mod cores;
pub mod doctor;
pub mod error;
pub mod filter;
pub mod gauge;
pub mod lane;
pub mod output;
pub mod pipe;
pub mod plan;
pub mod run;
pub mod source;
pub mod split;
pub mod stage;
pub mod tally;

pub use error::{Error, Result};
