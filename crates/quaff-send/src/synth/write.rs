//! Writes synthetic traffic to a capture file; the packets have the times at which they would be sent. It never waits.

use super::Maker;
use crate::file_records::FileRecords;
use crate::generate::Length;
use crate::supervise::Control;
use quaff_file::write::Format;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Instant;

/// Bytes collected per write.
const WRITE_BYTES: usize = 1 << 20;

/// The result of writing a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WriteReport {
    /// Frames to write; equals `sent` if the plan has no count.
    pub intended: u64,
    /// Frames built.
    pub sent: u64,
    /// Frames written.
    pub confirmed: u64,
    /// Bytes of the frames.
    pub bytes: u64,
    /// Time between the deadlines of the first and the last frame, s.
    pub seconds: f64,
    /// Duration of the writing, s.
    pub took_seconds: f64,
    /// True if the watcher stopped the writing.
    pub interrupted: bool,
}

impl Maker {
    /// Writes a capture file; `start_ns` is the time of the first frame. The recorded length of a deliberately
    /// truncated frame is that of the remaining bytes. `watch` is called periodically; its answer continues or ends the
    /// writing. Fails with the errors of `out`.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        format: Format,
        start_ns: u64,
        mut watch: impl FnMut(&WriteReport) -> Control,
    ) -> io::Result<WriteReport> {
        let begun = Instant::now();
        let mut report = WriteReport::default();
        let mut records = FileRecords::new(format, WRITE_BYTES + (1 << 17));
        let mut more = true;
        while more {
            while records.bytes.len() < WRITE_BYTES {
                let Some((due_ns, frame)) = self.make() else {
                    more = false;
                    break;
                };
                records.push(start_ns.saturating_add(due_ns), frame, frame.len() as u32);
                report.sent += 1;
                report.bytes += frame.len() as u64;
                report.seconds = due_ns as f64 / 1e9;
            }
            out.write_all(&records.bytes)?;
            records.bytes.clear();
            report.confirmed = report.sent;
            report.took_seconds = begun.elapsed().as_secs_f64();
            if more && watch(&report) == Control::Stop {
                report.interrupted = true;
                break;
            }
        }
        out.flush()?;
        report.intended = match self.length {
            Length::Count(frames) => frames,
            Length::Duration(_) | Length::Endless => report.sent,
        };
        Ok(report)
    }
}
