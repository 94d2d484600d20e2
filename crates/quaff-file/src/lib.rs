//! Capture files: reading those of any program, writing them past the page cache, and verifying them.
//!
//! | module | contents |
//! |---|---|
//! | [`read`] | open, decompress, salvage and follow capture files |
//! | [`write`] | files, folders of files with rotation and retention, streams |
//! | [`verify`] | completeness of a capture |
//! | [`info`] | a summary of each file: packets, times, gaps, interfaces, drops |
//! | [`moment`] | points in time as text: local time with its offset, or UTC |
//! | [`interfaces`] | the interfaces that the files of one run describe |
//! | [`tally`] | the counters that travel with chunks and become Interface Statistics Blocks |
//!
//! This crate never captures, never sends and never prints.

#![forbid(unsafe_code)]

mod error;
mod histogram;
pub mod info;
mod interfaces;
pub mod moment;
pub mod read;
pub mod tally;
pub mod verify;
pub mod write;

pub use error::{Error, Result};
pub use histogram::{Histogram, Quantiles};
pub use interfaces::{INTERFACES_MAX, Interfaces, OutputReader};
