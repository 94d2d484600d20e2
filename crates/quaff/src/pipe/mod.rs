//! Any bytes from stdin to stdout, or to files in a folder, through a large ring of buffers.
//!
//! ```text
//!        reader                     ring                     writer
//!   ┌────────────┐   ┌──────────────────────────────┐   ┌──────────────┐
//!   │ stdin ─────┼──→│ full buffers, oldest first ────┼──→│ stdout, file │
//!   │            │←──┼─ empty ones, the last first ─┼───┤ or folder    │
//!   └────────────┘   └──────────────────────────────┘   └──────────────┘
//! ```
//!
//! A buffer that has just been written is filled next, so while the output keeps up two or three buffers
//! are in use and stay in the cache. Memory that has not been touched is used only when the backlog
//! grows; the first part is ready before the first byte, and a thread makes more ready ahead of need.
//!
//! | room | what it does |
//! |---|---|
//! | [`read`] | stdin → buffers |
//! | [`write`] | buffers → an outlet, and what is counted there |
//! | [`stream`] | stdout as a pipe, a device, a file that others write too |
//! | [`direct`] | stdout as a file of its own, past the page cache |
//! | [`files`] | a folder of files, cut between packets where there are packets |

pub(crate) mod direct;
mod files;
mod read;
mod stream;
mod write;

use crate::buffer_pool::{Arrived, LanePool, Pool, PoolPlan};
use crate::{Error, Result};
use quaff_file::write::plan::{DirPlan, Retention};
use quaff_os::clock::steady_ns;
use quaff_os::cpu;
use quaff_os::gauge::Gauge;
use quaff_os::mem::Buffer;
use quaff_os::stop::{Alarm, End, Ends, Reason, Stop};
use quaff_os::wakeup::Wakeup;
use read::{ReadTally, Reader};
use serde::Serialize;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use write::{Outlet, WriteTally, Writer};

/// Bytes of a buffer: a huge page, and more than any read gives.
pub const BUFFER_BYTES: usize = 2 << 20;
/// The smallest ring: one buffer each for reader and writer, and two on their way.
pub const SIZE_BYTES_MIN: usize = 4 * BUFFER_BYTES;
/// The smallest file of a folder.
pub const ROTATE_BYTES_MIN: u64 = 64 << 10;
/// How much of the ring is ready before the first byte, and kept ready beyond what is in use.
const READY_BYTES: usize = 64 << 20;
/// One part in so many of a core makes buffers ready that nothing has asked for yet.
const TRICKLE: u32 = 50;

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct PipePlan {
    /// Bytes of the ring.
    pub size_bytes: usize,
    /// Where to.
    pub output: PipeOutput,
    /// The reader's core.
    pub reader_cpu: Option<usize>,
    /// The writer's core.
    pub writer_cpu: Option<usize>,
}

/// Where the bytes go.
#[derive(Debug, Clone, PartialEq)]
pub enum PipeOutput {
    /// To stdout.
    Stdout,
    /// Into files.
    Dir {
        /// Their folder; it must exist.
        dir: PathBuf,
        /// strftime template of the names, without number and ending.
        name: String,
        /// A file gets no larger than this, bytes; `None`: there is one file.
        rotate_bytes: Option<u64>,
        /// At most so many files stay, and their numbers begin anew behind the last.
        keep_files: Option<u64>,
    },
}

/// The ring that suits a machine with so much memory free: 1/8 of it, 16 MiB to 1 GiB.
pub fn default_size_bytes(free_bytes: u64) -> usize {
    ((free_bytes / 8) as usize).clamp(16 << 20, 1 << 30) / BUFFER_BYTES * BUFFER_BYTES
}

impl PipePlan {
    /// Whether the plan fits together; brings the size to whole buffers.
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

    /// Buffers of the ring.
    pub fn buffers(&self) -> usize {
        self.size_bytes / BUFFER_BYTES
    }
}

/// What can be seen of it while it runs.
#[derive(Debug, Default)]
pub struct PipeGauges {
    /// Bytes read; the reader's.
    pub read: Gauge,
    /// The most bytes that were read and not written; the reader's.
    pub high: Gauge,
    /// Bytes of them that are in the output; the writer's.
    pub written: Gauge,
    /// How long stdin may still say something after the stop, ns; who stops it sets it before.
    patience_ns: Gauge,
}

impl PipeGauges {
    /// Bytes that are in the ring.
    pub fn waiting_bytes(&self) -> u64 {
        // What was written has been read, but the two are not looked at in the same moment.
        let written = self.written.get();
        self.read.get().saturating_sub(written)
    }
}

/// A piece of the stream, from reader to writer.
#[derive(Debug)]
struct Piece {
    buffer: Buffer,
    /// Bytes in it.
    len: usize,
    /// How many of them, at its start, the piece before had at its end: those that a write of whole
    /// blocks had left over.
    again: usize,
}

/// How often a side waited for the other one, and how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// How often.
    pub count: u64,
    /// How long in all, s.
    pub seconds: f64,
}

impl Stalls {
    fn add(&mut self, since_ns: u64) {
        self.count += 1;
        self.seconds += (steady_ns() - since_ns) as f64 / 1e9;
    }
}

/// What became of the bytes. `read = written + unwanted + lost`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PipeReport {
    /// Bytes read from stdin.
    pub read: u64,
    /// Bytes of them in the output.
    pub written: u64,
    /// Bytes that nobody wanted: the reader of stdout went away.
    pub unwanted: u64,
    /// Bytes that could not be written.
    pub lost: u64,
    /// From the first byte read to the last one written, s.
    pub seconds: f64,
    /// Bytes of the ring.
    pub size: u64,
    /// The most bytes that were in it.
    pub high: u64,
    /// The reader found the ring full.
    pub full: Stalls,
    /// The reader found no memory that was ready, though the ring was not full.
    pub unready: Stalls,
    /// The writer found it empty.
    pub empty: Stalls,
    /// CPU time of the process, s.
    pub cpu_seconds: f64,
    /// How the bytes were written: `io_uring, O_DIRECT`.
    pub writing: String,
    /// Files in the folder.
    pub files: u64,
    /// What the bytes were taken for when they were cut: `pcapng`, `pcap`, `bin`.
    pub kind: Option<&'static str>,
    /// Why it ended before stdin did.
    pub ended_by: Option<Reason>,
    /// What went wrong.
    pub failure: Option<String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl PipeReport {
    /// Whether every byte that was read is in the output, or nobody wanted it.
    pub fn is_lossless(&self) -> bool {
        self.failure.is_none() && self.lost == 0
    }
}

/// A pipe that runs.
pub struct Pipe {
    gauges: Arc<PipeGauges>,
    stop: Stop,
    ends: Ends,
    pool: Pool,
    reader: JoinHandle<Result<ReadTally>>,
    writer: JoinHandle<Result<WriteTally>>,
    size_bytes: usize,
    notes: Vec<String>,
    writing: String,
}

impl Pipe {
    /// Starts it, from `stdin` to `stdout` (which is left alone when there is a folder).
    pub fn start(plan: PipePlan, stdin: OwnedFd, stdout: OwnedFd, stop: Stop) -> Result<Self> {
        let plan = plan.validate()?;
        let gauges = Arc::new(PipeGauges::default());
        let wakeup = Wakeup::new()?;
        let outlet = open(&plan, File::from(stdout), &wakeup, &gauges)?;
        let (pool, lane) = start_pool(&plan, &gauges, &stop)?;
        let (outbound, inbound) = rtrb::RingBuffer::new(plan.buffers());
        let reader = Reader::new(File::from(stdin), lane.supply, outbound, outlet.as_ref(), &gauges, &stop)?;
        let back = reader.back();
        let (size_bytes, notes, writing) = (plan.size_bytes, pool.notes(), outlet.describe());
        let writer = Writer { inbound, home: lane.free_buffers, outlet, wakeup, back, stop: stop.clone() };
        let ends = Ends::of(2)?;
        let (core, end) = (plan.writer_cpu, ends.end());
        let writer = spawn("quaff-writer", &stop, core, end, move || writer.run())?;
        let (core, end) = (plan.reader_cpu, ends.end());
        let reader = spawn("quaff-reader", &stop, core, end, move || reader.run())?;
        Ok(Self { gauges, stop, ends, pool, reader, writer, size_bytes, notes, writing })
    }

    /// What can be seen from outside.
    pub fn gauges(&self) -> &Arc<PipeGauges> {
        &self.gauges
    }

    /// How bytes are written: `io_uring, O_DIRECT`.
    pub fn writing(&self) -> &str {
        &self.writing
    }

    /// What the user should know: memory that could not be locked.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Ends it: what stdin holds by now, or what it still says until it ends or `patience` is over, is
    /// read, and all that was read is written.
    pub fn end(&self, patience: Duration) {
        self.gauges.patience_ns.set(patience.as_nanos() as u64);
        self.stop.raise(Reason::Signal);
    }

    /// Whether all has been written, or nothing more can be.
    pub fn is_over(&self) -> bool {
        self.ends.all()
    }

    /// Signalled when it is over.
    pub fn over(&self) -> &Wakeup {
        self.ends.wakeup()
    }

    /// Waits for the end, and sums up. What failed is in the report.
    pub fn finish(self) -> PipeReport {
        let mut failure = None;
        let mut note = |error: Error| {
            failure.get_or_insert(error.to_string());
        };
        let read = join(self.reader).map_err(&mut note).unwrap_or_default();
        let write = join(self.writer).map_err(&mut note).unwrap_or_default();
        let ended_by = self.stop.reason();
        // The pool's thread ends with the stop, whoever raises it.
        self.stop.raise(Reason::Duration);
        let mut notes = self.notes;
        notes.extend(self.pool.finish());
        notes.extend(write.note);
        let left = self.gauges.read.get().saturating_sub(self.gauges.written.get());
        let is_closed = write.is_closed;
        let (user_ns, system_ns) = cpu::process_ns();
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
            cpu_seconds: (user_ns + system_ns) as f64 / 1e9,
            writing: self.writing,
            files: write.files,
            kind: write.kind,
            ended_by,
            failure,
            notes,
        }
    }
}

fn open(plan: &PipePlan, stdout: File, wakeup: &Wakeup, gauges: &Arc<PipeGauges>) -> Result<Box<dyn Outlet>> {
    let PipeOutput::Dir { dir, name, rotate_bytes, keep_files } = &plan.output else {
        return Ok(match direct::DirectFile::open(&stdout, wakeup, gauges) {
            Some(file) => Box::new(file),
            None => Box::new(stream::Stream::new(stdout, wakeup.clone(), gauges.clone())),
        });
    };
    let plan = DirPlan {
        dir: dir.clone(),
        name: name.clone(),
        rotate_bytes: *rotate_bytes,
        rotate_time: None,
        retention: Retention { files: *keep_files, ..Retention::default() },
        wrap: keep_files.is_some(),
        exec: None,
    };
    Ok(Box::new(files::Files::open(plan, wakeup, gauges)?))
}

fn start_pool(plan: &PipePlan, gauges: &Arc<PipeGauges>, stop: &Stop) -> Result<(Pool, LanePool)> {
    let pool = PoolPlan {
        buffers_per_lane: plan.buffers(),
        buffer_bytes: BUFFER_BYTES,
        ready_buffers: READY_BYTES / BUFFER_BYTES,
        trickle: TRICKLE,
        busy_cores: plan.reader_cpu.into_iter().collect(),
    };
    let gauges = gauges.clone();
    // What the output keeps up with needs no more buffers, however much it is.
    let arrived: Arrived = Box::new(move || gauges.high.get());
    let (pool, mut lanes) = Pool::start(pool, vec![arrived], stop.clone())?;
    let lane = lanes.pop().ok_or_else(|| Error::Defect("a pool without a lane".into()))?;
    Ok((pool, lane))
}

/// Starts a thread on its core. When it fails or dies, the other one is not to wait for it.
fn spawn<T: Send + 'static>(
    name: &str,
    stop: &Stop,
    core: Option<usize>,
    end: End,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    let stop = stop.clone();
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
        let _end = end;
        let _alarm = Alarm(stop.clone());
        let done = core.map_or(Ok(()), cpu::pin).map_err(Error::from).and_then(|()| body());
        if let Err(error) = &done {
            stop.raise(Reason::Failed(error.to_string()));
        }
        done
    });
    thread.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))
}

fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(Error::Defect("a thread panicked".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_suits_the_machine() {
        assert_eq!(default_size_bytes(24 << 30), 1 << 30);
        assert_eq!(default_size_bytes(1 << 30), 128 << 20);
        assert_eq!(default_size_bytes(0), 16 << 20);
    }

    #[test]
    fn a_plan_is_made_to_fit_or_refused() {
        let plan = |size_bytes, rotate_bytes| PipePlan {
            size_bytes,
            output: PipeOutput::Dir { dir: "/tmp".into(), name: "n".into(), rotate_bytes, keep_files: None },
            reader_cpu: None,
            writer_cpu: None,
        };
        assert_eq!(plan(1, None).validate().unwrap().buffers(), 4);
        assert_eq!(plan((9 << 20) + 1, None).validate().unwrap().size_bytes, 10 << 20);
        assert!(plan(1, Some(1)).validate().unwrap_err().to_string().contains("rotate-size"));
    }
}
