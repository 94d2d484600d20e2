//! Sinks that write files or text streams: JSON lines, CSV, Zeek's conn.log, IPFIX files.

use super::counters::{Counters, carried_by};
use super::queue::Popped;
use super::shared::{CLOSED, ExportClock, FAILED, Shared};
use crate::export::{Carried, FileEncoder, Scene, Statistics, TextEncoder};
use crate::ledger::FlowLedger;
use crate::record::FlowRecord;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes collected for one write.
const BUFFER_BYTES: usize = 256 << 10;

/// The encoder of a file.
#[derive(Debug)]
pub(super) enum FileFormat {
    Ipfix(Box<FileEncoder>),
    Text(TextEncoder, Box<Scene>),
}

/// A file's thread.
pub(super) struct FileSink {
    pub(super) format: FileFormat,
    pub(super) out: Box<dyn Write + Send>,
    /// The regular file, if the sink is one: locked until the end, then synced.
    pub(super) file: Option<File>,
    /// True once the earlier contents are truncated: when the run starts, not when the file is opened.
    pub(super) is_emptied: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: ExportClock,
    pub(super) linger: Duration,
    /// True if a reader waits for the records: live input, or a growing file.
    pub(super) is_prompt: bool,
}

/// Buffered bytes, and the flows in them.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    carried: Carried,
    /// True after a write error: all further records are missed.
    has_failed: bool,
}

impl FileSink {
    /// The loop of the thread.
    pub(super) fn run(mut self) {
        let (mut buffer, mut flushed) = (Buffer::default(), Instant::now());
        match &mut self.format {
            FileFormat::Ipfix(_) => {}
            FileFormat::Text(encoder, _) => encoder.begin(self.clock.now_ns(), &mut buffer.bytes),
        }
        let mut has_begun = false;
        loop {
            match self.shared.queue.clone().pop(Instant::now() + self.linger) {
                Popped::Item(batch) => {
                    self.clock.set(batch.now_ns);
                    if Instant::now() > self.shared.deadline() {
                        self.miss_at_end(&batch.records);
                        continue;
                    }
                    if !std::mem::replace(&mut has_begun, true) {
                        self.begin(&mut buffer);
                    }
                    self.take(&batch.records, &mut buffer);
                }
                Popped::TimedOut => {}
                Popped::Closed => break,
            }
            if self.is_prompt && flushed.elapsed() >= self.linger {
                flushed = Instant::now();
                self.flush_message(&mut buffer);
                self.write(&mut buffer);
                self.flush(&mut buffer);
            }
        }
        // Relaxed: ordered by the lock of the queue, which was closed afterwards.
        if self.shared.is_abandoned.load(Ordering::Relaxed) {
            return;
        }
        let ledger = self.shared.take_ledger().map(|(ledger, now_ns)| {
            self.clock.set(now_ns);
            ledger
        });
        if !has_begun {
            self.begin(&mut buffer);
        }
        self.finish(buffer, ledger);
    }

    /// Counts records for which no time was left.
    fn miss_at_end(&self, records: &[FlowRecord]) {
        self.shared.counters.missed_end.add(carried_by(records, self.shared.is_biflow));
    }

    /// Templates carry the time of the first records, so that the same input produces the same file.
    fn begin(&mut self, buffer: &mut Buffer) {
        if let FileFormat::Ipfix(encoder) = &mut self.format {
            encoder.begin(self.clock.now_ns(), &mut buffer.bytes);
        }
    }

    fn take(&mut self, records: &[FlowRecord], buffer: &mut Buffer) {
        let now_ns = self.clock.now_ns();
        for record in records {
            let carried = Carried { records: 1, packets: record.packets(), bytes: record.bytes() };
            match &mut self.format {
                FileFormat::Ipfix(encoder) => encoder.push(record, now_ns, &mut buffer.bytes),
                FileFormat::Text(encoder, scene) => {
                    let lines = encoder.push(record, scene, &mut buffer.bytes);
                    buffer.carried += Carried { records: lines, ..carried };
                }
            }
            if buffer.bytes.len() >= BUFFER_BYTES {
                self.write(buffer);
            }
        }
    }

    fn flush_message(&mut self, buffer: &mut Buffer) {
        if let FileFormat::Ipfix(encoder) = &mut self.format {
            encoder.flush(self.clock.now_ns(), &mut buffer.bytes);
        }
    }

    /// Writes the buffer. After an error the file is not written any more, and the records are counted as missed.
    fn write(&mut self, buffer: &mut Buffer) {
        if let FileFormat::Ipfix(encoder) = &mut self.format {
            buffer.carried = encoder.take_carried();
        }
        let carried = std::mem::take(&mut buffer.carried);
        let bytes = std::mem::take(&mut buffer.bytes);
        if let (Some(file), false) = (&self.file, std::mem::replace(&mut self.is_emptied, true))
            && let Err(error) = file.set_len(0)
        {
            self.fail(buffer, &error);
        }
        if !buffer.has_failed {
            match self.out.write_all(&bytes) {
                Ok(()) => {
                    self.shared.counters.sent.add(carried);
                    Counters::add(&self.shared.counters.bytes, bytes.len() as u64);
                    buffer.bytes = bytes;
                    return buffer.bytes.clear();
                }
                Err(error) => self.fail(buffer, &error),
            }
        }
        self.shared.counters.missed_errors.add(carried);
    }

    fn flush(&mut self, buffer: &mut Buffer) {
        if !buffer.has_failed
            && let Err(error) = self.out.flush()
        {
            self.fail(buffer, &error);
        }
    }

    fn fail(&self, buffer: &mut Buffer, error: &std::io::Error) {
        buffer.has_failed = true;
        let ended = if error.kind() == ErrorKind::BrokenPipe { CLOSED } else { FAILED };
        self.shared.ended.store(ended, Ordering::Relaxed);
        Counters::add(&self.shared.counters.errors, 1);
        self.shared.fail(Some(format!("cannot write: {error}")));
    }

    fn finish(&mut self, mut buffer: Buffer, ledger: Option<FlowLedger>) {
        let now_ns = self.clock.now_ns();
        if let FileFormat::Ipfix(encoder) = &mut self.format {
            let ledger = ledger.unwrap_or_default();
            encoder.finish(Statistics { ledger, ..Statistics::default() }, now_ns, &mut buffer.bytes);
            let unencoded = encoder.unencoded();
            self.shared.counters.missed_errors.add(unencoded.too_long);
            self.shared.counters.unsuited.set(unencoded.by_policy);
        }
        self.write(&mut buffer);
        self.flush(&mut buffer);
        self.sync(&mut buffer);
    }

    /// Syncs the file to disk, so that a disk error is reported by this run.
    fn sync(&mut self, buffer: &mut Buffer) {
        if let (Some(file), false) = (&self.file, buffer.has_failed)
            && let Err(error) = file.sync_data()
        {
            self.fail(buffer, &error);
        }
    }
}
