//! Writes synthetic traffic to a capture file; the packets have the times at which they would be sent. It never waits.

use super::Maker;
use crate::generate::Length;
use crate::supervise::Control;
use quaff_wire::Record;
use quaff_wire::pcap::{self, Resolution};
use serde::Serialize;
use std::io::{self, Write};
use std::time::Instant;

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
/// Bytes to collect for one write.
const WRITE_BYTES: usize = 1 << 20;

/// The result of writing a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WriteReport {
    /// Frames to write; equals `sent` if the number is not planned.
    pub intended: u64,
    /// Frames made.
    pub sent: u64,
    /// Frames written.
    pub confirmed: u64,
    /// Bytes of the frames.
    pub bytes: u64,
    /// From the deadline of the first frame to that of the last, s.
    pub seconds: f64,
    /// Duration of the writing, s.
    pub took_seconds: f64,
    /// The watcher stopped the writing.
    pub interrupted: bool,
}

impl Maker {
    /// Writes a pcap file with nanosecond timestamps; `start_ns` is the time of the first frame. `watch` is called
    /// periodically; its answer continues or ends the writing. Fails with the errors of `out`.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        start_ns: u64,
        mut watch: impl FnMut(&WriteReport) -> Control,
    ) -> io::Result<WriteReport> {
        let begun = Instant::now();
        let mut report = WriteReport::default();
        let mut room = Vec::with_capacity(WRITE_BYTES + (1 << 17));
        room.extend(pcap::file_header(Resolution::Nanoseconds, 0, ETHERNET));
        let mut more = true;
        while more {
            while room.len() < WRITE_BYTES {
                let Some((due_ns, frame)) = self.make() else {
                    more = false;
                    break;
                };
                push(&mut room, start_ns.saturating_add(due_ns), frame);
                report.sent += 1;
                report.bytes += frame.len() as u64;
                report.seconds = due_ns as f64 / 1e9;
            }
            out.write_all(&room)?;
            room.clear();
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

/// Appends a record. The length of a deliberately truncated frame is what is left of it.
fn push(room: &mut Vec<u8>, time_ns: u64, bytes: &[u8]) {
    let record = Record { time_ns, bytes, len: bytes.len() as u32, ..Record::default() };
    let at = room.len();
    room.resize(at + pcap::record_bytes(bytes.len()), 0);
    pcap::record(&mut room[at..], Resolution::Nanoseconds, &record);
}
