//! Copies any bytes from stdin to stdout, or to files in a folder, through a large ring of buffers.
//!
//! ```text
//!        reader                     ring                     writer
//!   ┌────────────┐   ┌──────────────────────────────┐   ┌──────────────┐
//!   │ stdin ─────┼──→│ full buffers, oldest first ──┼──→│ stdout, file │
//!   │            │←──┼─ free ones, the last first ──┼───┤ or folder    │
//!   └────────────┘   └──────────────────────────────┘   └──────────────┘
//! ```
//!
//! The buffer that was written last is filled next, so while the output keeps up two or three buffers are in use and
//! stay in the cache. Other memory is used only when the backlog grows: the first part is populated before the first
//! byte, the rest by a thread of the lowest priority.
//!
//! | module | task |
//! |---|---|
//! | [`read`] | stdin → buffers |
//! | [`write`] | buffers → a [sink for bytes](quaff_file::write::ByteSink) |

mod descriptor;
mod ends;
mod gauges;
mod read;
mod write;

pub use ends::Ends;
pub use gauges::{PipeGauges, Stalls};

use crate::buffer_pool::{LanePool, Pool, PoolPlan};
use crate::run::{cpu_seconds, join, start_thread};
use crate::{Error, Result};
use ends::End;
use quaff_file::write::{DirPlan, Retention, open_bytes};
use quaff_os::{Reason, Stop, Wakeup, cpu};
use read::{ReadTally, Reader};
use serde::Serialize;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use write::{WriteTally, Writer};

/// Bytes of a buffer: a huge page, more than one read returns.
const BUFFER_BYTES: usize = 2 << 20;
/// The smallest ring: one buffer each for reader and writer, and two in the ring.
const SIZE_BYTES_MIN: usize = 4 * BUFFER_BYTES;
/// The smallest file size for rotation.
const ROTATE_BYTES_MIN: u64 = 64 << 10;
/// Bytes of the ring that are populated before the first byte.
const READY_BYTES: usize = 64 << 20;

/// The configuration of a pipe.
#[derive(Debug, Clone, PartialEq)]
pub struct PipePlan {
    /// Bytes of the ring.
    pub size_bytes: usize,
    /// The whole ring is populated, because its size was given; otherwise as much as may be needed soon.
    pub is_populated: bool,
    pub output: PipeOutput,
    pub reader_cpu: Option<usize>,
    pub writer_cpu: Option<usize>,
}

/// The destination of the bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum PipeOutput {
    Stdout,
    Dir {
        /// The folder, which must exist.
        dir: PathBuf,
        /// strftime template of the names, without number and extension.
        name: String,
        /// Maximum size of a file, bytes; `None` writes one file.
        rotate_bytes: Option<u64>,
        /// Maximum number of files; the numbers restart at 0 after the last.
        keep_files: Option<u64>,
    },
}

/// The default size of the ring: 1/8 of the free memory, 16 MiB to 1 GiB.
pub fn default_size_bytes(free_bytes: u64) -> usize {
    ((free_bytes / 8) as usize).clamp(16 << 20, 1 << 30) / BUFFER_BYTES * BUFFER_BYTES
}

impl PipePlan {
    /// Checks the plan, and rounds the size to whole buffers.
    pub fn validate(mut self) -> Result<Self> {
        self.size_bytes = self.size_bytes.max(SIZE_BYTES_MIN).next_multiple_of(BUFFER_BYTES);
        if let PipeOutput::Dir { rotate_bytes: Some(bytes), .. } = self.output
            && bytes < ROTATE_BYTES_MIN
        {
            return Err(Error::Plan("`rotate-size` must be at least 64K".into()));
        }
        if let PipeOutput::Dir { keep_files: Some(0..2), .. } = self.output {
            return Err(Error::Plan(
                "`keep-files` must be at least 2, because the file being written counts".into(),
            ));
        }
        Ok(self)
    }

    /// The folder of the output, if it is one.
    fn folder(&self) -> Option<DirPlan> {
        let PipeOutput::Dir { dir, name, rotate_bytes, keep_files } = &self.output else { return None };
        Some(DirPlan {
            dir: dir.clone(),
            name: name.clone(),
            rotate_bytes: *rotate_bytes,
            retention: Retention { files: *keep_files, ..Retention::default() },
            wrap: keep_files.is_some(),
            ..DirPlan::default()
        })
    }

    /// The number of buffers in the ring.
    pub(crate) fn buffers(&self) -> usize {
        self.size_bytes / BUFFER_BYTES
    }
}

/// The result of a run. `read = written + unwanted + lost`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PipeReport {
    /// Bytes read from stdin.
    pub read: u64,
    /// Bytes in the output.
    pub written: u64,
    /// Bytes left when the reader of stdout closed it.
    pub unwanted: u64,
    /// Bytes that could not be written.
    pub lost: u64,
    /// Time from the first byte read to the last byte written, s.
    pub seconds: f64,
    /// Bytes of the ring.
    pub size: u64,
    /// Maximum of the bytes in the ring.
    pub high: u64,
    /// The reader found the ring full.
    pub full: Stalls,
    /// The reader found no populated memory although the ring was not full.
    pub unready: Stalls,
    /// The writer found the ring empty.
    pub empty: Stalls,
    /// CPU time of the process, s.
    pub cpu_seconds: f64,
    /// The method of writing, such as `io_uring, O_DIRECT`.
    pub writing: String,
    /// Files written to the folder.
    pub files: u64,
    /// The detected format: `pcapng`, `pcap` or `bin`.
    pub kind: Option<&'static str>,
    /// The reason of the end, if before the end of stdin.
    pub ended_by: Option<Reason>,
    pub failure: Option<String>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

impl PipeReport {
    /// Returns whether every byte read is in the output, or its reader closed it.
    pub fn is_lossless(&self) -> bool {
        self.failure.is_none() && self.lost == 0
    }
}

/// A running pipe.
pub struct Pipe {
    /// The state while it runs.
    pub gauges: Arc<PipeGauges>,
    stop: Stop,
    /// The ends of reader and writer.
    pub ends: Ends,
    pool: Pool,
    reader: JoinHandle<Result<ReadTally>>,
    writer: JoinHandle<Result<WriteTally>>,
    size_bytes: usize,
    /// Warnings for the user, such as memory that could not be locked.
    pub notes: Vec<String>,
    writing: String,
}

impl Pipe {
    /// Starts to copy from `stdin` to `stdout`, or to a folder; `stdout` is unused then.
    pub fn start(plan: PipePlan, stdin: OwnedFd, stdout: OwnedFd, stop: Stop) -> Result<Self> {
        let plan = plan.validate()?;
        let gauges = Arc::new(PipeGauges::default());
        let wakeup = Wakeup::new()?;
        let sink = open_bytes(plan.folder(), File::from(stdout), &wakeup, gauges.written.clone())?;
        let (pool, lane) = start_pool(&plan, &stop)?;
        let (outbound, inbound) = rtrb::RingBuffer::new(plan.buffers());
        let reader = Reader::new(
            File::from(stdin),
            lane.supply,
            outbound,
            wakeup.clone(),
            sink.align(),
            &gauges,
            &stop,
        )?;
        let back = reader.back();
        let (size_bytes, notes, writing) = (plan.size_bytes, pool.notes.clone(), sink.describe());
        let writer =
            Writer { inbound, free_buffers: lane.free_buffers, sink, wakeup, back, stop: stop.clone() };
        let ends = Ends::of(2)?;
        let (core, end) = (plan.writer_cpu, ends.end());
        let writer = spawn("quaff-writer", &stop, core, end, move || writer.run())?;
        let (core, end) = (plan.reader_cpu, ends.end());
        let reader = spawn("quaff-reader", &stop, core, end, move || reader.run())?;
        Ok(Self { gauges, stop, ends, pool, reader, writer, size_bytes, notes, writing })
    }

    /// Ends the run: reads what stdin holds now or, for `grace`, what still arrives, and writes all of it.
    pub fn end(&self, grace: Duration) {
        self.gauges.grace_ns.set(grace.as_nanos() as u64);
        self.stop.raise(Reason::Signal);
    }

    /// Waits for the end and returns the report, which includes a failure.
    pub fn finish(self) -> PipeReport {
        let mut failure = None;
        let mut note = |error: Error| {
            failure.get_or_insert(error.to_string());
        };
        let read = join(self.reader).map_err(&mut note).unwrap_or_default();
        let write = join(self.writer).map_err(&mut note).unwrap_or_default();
        let ended_by = self.stop.reason();
        // The pool's thread ends when the stop is raised.
        self.stop.raise(Reason::Duration);
        let mut notes = self.notes;
        notes.extend(self.pool.finish());
        notes.extend(write.series.note);
        let left = self.gauges.read.get().saturating_sub(self.gauges.written.get());
        let is_closed = write.is_closed;
        PipeReport {
            read: self.gauges.read.get(),
            written: self.gauges.written.get(),
            unwanted: if is_closed { left } else { 0 },
            lost: if is_closed { 0 } else { left },
            seconds: read
                .first_ns
                .map_or(0.0, |first_ns| (write.last_ns.max(first_ns) - first_ns) as f64 / 1e9),
            size: self.size_bytes as u64,
            high: self.gauges.high.get(),
            full: read.full,
            unready: read.unready,
            empty: write.empty,
            cpu_seconds: cpu_seconds(),
            writing: self.writing,
            files: write.series.files,
            kind: write.series.kind,
            ended_by,
            failure,
            notes,
        }
    }
}

fn start_pool(plan: &PipePlan, stop: &Stop) -> Result<(Pool, LanePool)> {
    let pool = PoolPlan {
        buffers: plan.buffers(),
        buffer_bytes: BUFFER_BYTES,
        is_populated: plan.is_populated,
        shares_percent: 100,
        nodes: vec![None],
        ready_buffers: READY_BYTES / BUFFER_BYTES,
        start_limit: Duration::ZERO,
        busy_cores: plan.reader_cpu.into_iter().collect(),
    };
    let (pool, mut lanes) = Pool::start(&pool, stop)?;
    let lane = lanes.pop().ok_or_else(|| Error::Defect("a pool without a lane".into()))?;
    Ok((pool, lane))
}

/// Starts a thread on its core. If it fails or panics, it raises the stop for the other one.
fn spawn<T: Default + Send + 'static>(
    name: &str,
    stop: &Stop,
    core: Option<usize>,
    end: End,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    start_thread(
        name,
        stop,
        None,
        || Ok(()),
        move |()| {
            let _end = end;
            core.map_or(Ok(()), cpu::pin)?;
            body()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_ring_depends_on_free_memory() {
        assert_eq!(default_size_bytes(24 << 30), 1 << 30);
        assert_eq!(default_size_bytes(1 << 30), 128 << 20);
        assert_eq!(default_size_bytes(0), 16 << 20);
    }

    #[test]
    fn a_plan_is_rounded_or_refused() {
        let plan = |size_bytes, rotate_bytes| PipePlan {
            size_bytes,
            is_populated: false,
            output: PipeOutput::Dir { dir: "/tmp".into(), name: "n".into(), rotate_bytes, keep_files: None },
            reader_cpu: None,
            writer_cpu: None,
        };
        assert_eq!(plan(1, None).validate().unwrap().buffers(), 4);
        assert_eq!(plan((9 << 20) + 1, None).validate().unwrap().size_bytes, 10 << 20);
        assert!(plan(1, Some(1)).validate().unwrap_err().to_string().contains("rotate-size"));
    }
}
