//! Writes synthetic traffic to a capture file; the packets have the times at which they would be sent. It never waits.

use super::Maker;
use crate::error::{PlanError, SendError};
use crate::file_records::{FileRecords, failed};
use crate::generate::Length;
use crate::supervise::Control;
use quaff_file::write::Format;
use serde::Serialize;
use std::io::Write;
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
    /// writing. Errors call the file `name`.
    pub fn write(
        &mut self,
        (out, name): (&mut dyn Write, &str),
        format: Format,
        start_ns: u64,
        mut watch: impl FnMut(&WriteReport) -> Control,
    ) -> Result<WriteReport, SendError> {
        let begun = Instant::now();
        let mut report = WriteReport::default();
        let mut records = FileRecords::new(format, WRITE_BYTES + (1 << 17));
        let mut put = |records: &mut FileRecords| {
            let put = records.put(out);
            put.map_err(|errno| failed(name, records.written, errno))
        };
        let mut more = true;
        put(&mut records)?;
        while more {
            while records.waiting_bytes() < WRITE_BYTES {
                let Some((due_ns, frame)) = self.make() else {
                    more = false;
                    break;
                };
                let time_ns = start_ns.checked_add(due_ns).filter(|time_ns| records.takes(*time_ns));
                records.push(time_ns.ok_or(PlanError::FileTime)?, frame, frame.len() as u32);
                report.sent += 1;
                report.bytes += frame.len() as u64;
                report.seconds = due_ns as f64 / 1e9;
            }
            put(&mut records)?;
            report.confirmed = report.sent;
            report.took_seconds = begun.elapsed().as_secs_f64();
            if more && watch(&report) == Control::Stop {
                report.interrupted = true;
                break;
            }
        }
        report.intended = match self.length {
            Length::Count(frames) => frames,
            Length::Duration(_) | Length::Endless => report.sent,
        };
        Ok(report)
    }
}
