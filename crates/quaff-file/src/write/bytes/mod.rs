//! Sinks for any bytes, in buffers, as `quaff pipe` copies them.
//!
//! | module | output |
//! |---|---|
//! | [`stream`] | stdout as a pipe, a device, or a file shared with other writers |
//! | [`direct`] | stdout as a regular file, past the page cache |
//! | [`series`] | a folder of files, cut between packets if the bytes are packets |
//!
//! This module never reads a stream: its caller does.

mod direct;
mod series;
mod sink;
mod stream;

pub use sink::{ByteSink, FilledBuffer, SeriesTally};

use super::plan::DirPlan;
use crate::Result;
use quaff_os::{Gauge, Wakeup};
use std::fs::File;
use std::sync::Arc;

/// Opens the folder, or else `stdout`. `written` receives the number of bytes in the output.
pub fn open_bytes(
    folder: Option<DirPlan>,
    stdout: File,
    wakeup: &Wakeup,
    written: Arc<Gauge>,
) -> Result<Box<dyn ByteSink>> {
    if let Some(plan) = folder {
        return Ok(Box::new(series::FileSeries::open(plan, wakeup.clone(), written)?));
    }
    Ok(match direct::DirectFile::open(&stdout, wakeup, &written) {
        Some(file) => Box::new(file),
        None => Box::new(stream::ByteStream::new(stdout, written)),
    })
}
