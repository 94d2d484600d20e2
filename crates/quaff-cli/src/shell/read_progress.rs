//! Parts of progress lines that products share: the share of files that is read, and memory that is not ready.

use super::Part;
use crate::show;
use quaff::plan::InputPlan;
use quaff::{BufferGauges, format};
use std::path::PathBuf;
use std::time::Instant;

/// The progress of reading files whose sizes are known.
#[derive(Debug)]
pub(crate) struct ReadProgress {
    total_bytes: Option<u64>,
    begun: Instant,
}

impl ReadProgress {
    /// The progress of `input` from now on.
    pub(crate) fn new(input: &InputPlan) -> Self {
        let size =
            |path: &PathBuf| path.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
        let files = input.read.as_ref().filter(|read| !read.follow);
        let total_bytes = files.and_then(|read| read.files.iter().map(size).sum());
        Self { total_bytes, begun: Instant::now() }
    }

    /// The part of a progress line after `read_bytes`: the share, the total, and the time left. Empty for interfaces.
    pub(crate) fn part(&self, read_bytes: u64) -> Part {
        let Some(total) = self.total_bytes.filter(|total| *total > 0) else { return Part::new("", "", 0) };
        let share = (read_bytes as f64 / total as f64).min(1.0);
        let percent = format!("{:.0} %", 100.0 * share);
        let left = match share {
            0.0 => String::new(),
            share => {
                let seconds = self.begun.elapsed().as_secs_f64() * (1.0 - share) / share;
                format!(", {} left", format::span(seconds))
            }
        };
        Part::new(format!("{percent} of {}{left}", show::bytes(total)), percent, 5)
    }
}

/// The part of a progress line while less of the buffer is resident than should be.
pub(crate) fn resident_part(buffer: &BufferGauges) -> Part {
    let (resident, wanted) = (buffer.resident.get() >> 20, buffer.wanted.get() >> 20);
    let words = if resident < wanted { format!("{resident} of {wanted} MiB ready") } else { String::new() };
    Part::new(words, "", 0)
}
