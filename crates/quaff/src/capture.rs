//! A capture: interfaces or files into one output.
//!
//! The output is opened first, then memory is mapped, then the lanes start, then the writer, which truncates an
//! existing file of the same name.

use crate::buffer_pool::Pool;
use crate::gauge::{BufferGauges, LaneGauges};
use crate::plan::CapturePlan;
use crate::run::end_watch::EndWatch;
use crate::run::file_output::FileOutput;
use crate::run::{LaneEnd, Run, Setup, Starting, join, start_pool};
use crate::sandbox::Rights;
use crate::source::{Declaration, Missed, Watch};
use crate::tally::{Ledger, sum};
use crate::{Error, Result};
use quaff_file::OutputReader;
use quaff_file::tally::WriterTally;
use quaff_file::write::{CompressPlan, Output, Patience, Target, WriterGauges};
use quaff_os::sandbox::Limits;
use quaff_os::{Stop, Wakeup, cpu};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The flush interval where no reader waits for the output.
pub(crate) const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// After a signal or the end of `duration`, time without progress after which the reader of a pipe is abandoned.
/// Compressors that work on large blocks pause for seconds.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

/// Gives the compressor the cores to which no lane and no writer is pinned; all cores if there are no others. Otherwise
/// its threads would inherit those of the writer's thread, which starts them.
fn place(mut compress: CompressPlan, plan: &CapturePlan) -> CompressPlan {
    if compress.cores.is_empty() {
        let allowed = cpu::allowed().unwrap_or_default();
        let lanes = plan.input.cpus();
        let of_read = plan.input.read.iter().map(|read| read.cpu);
        let taken: Vec<_> = lanes.chain(of_read).chain([plan.write.cpu]).flatten().collect();
        let spare: Vec<_> = allowed.iter().copied().filter(|core| !taken.contains(core)).collect();
        compress.cores = if spare.is_empty() { allowed } else { spare };
    }
    compress
}

/// A running capture.
pub struct Capture {
    run: Run,
    writer: JoinHandle<Result<WriterTally>>,
    end: EndWatch,
    pool: Pool,
    plan: CapturePlan,
    stop: Stop,
    /// The gauges and sizes, for a status line.
    pub status: Status,
    /// The method of writing, such as `io_uring, O_DIRECT`.
    pub writing: String,
    /// Warnings for the user: offloads that change frames, memory that could not be locked.
    pub notes: Vec<String>,
}

/// The gauges and sizes of a running capture.
#[derive(Clone)]
pub struct Status {
    /// One per lane.
    pub lanes: Vec<Arc<LaneGauges>>,
    pub writer: Arc<WriterGauges>,
    /// Blocks in each kernel ring; 0 for files.
    pub ring_blocks: u64,
    pub buffer: Arc<BufferGauges>,
    /// Interfaces that came during the run and are not captured.
    pub missed: Missed,
}

impl Capture {
    /// Starts the capture. When this returns, every packet that arrives is captured.
    pub fn start(plan: CapturePlan, stop: Stop) -> Result<Self> {
        let mut plan = plan.validate()?;
        let (is_of_files, by_packet) =
            (plan.input.read.is_some(), plan.write.declares_by_packet(&plan.input));
        let declaration = match &plan.output {
            Output::Pipe(_) if is_of_files => Declaration::ByPacket(OutputReader::Tcpdump),
            Output::Stdout if is_of_files && by_packet => Declaration::ByPacket(OutputReader::AtOnce),
            _ if by_packet => Declaration::ByPacket(OutputReader::Later),
            _ => Declaration::AsDescribed,
        };
        let CapturePlan { input, output, write, .. } = &plan;
        let folders = output.folders().iter().map(|dir| dir.dir.clone()).collect();
        let setup = Setup {
            format: write.format,
            declaration,
            rights: Rights::of(plan.sandbox.as_ref(), write),
            limits: Limits { write: folders, ..Limits::default() },
            ..Setup::new(input.clone(), std::slice::from_ref(output))
        };
        let starting = Starting::prepare(setup, &stop)?;
        let wakeup = Wakeup::new()?;
        let compress = plan.write.compress.clone().map(|compress| place(compress, &plan));
        let open = || {
            let (copy, format, access) = (plan.live_copy.as_ref(), plan.write.format, plan.write.access);
            let compress = compress.as_ref();
            let mut target = Target::open(&plan.output, copy, format, access, compress, &wakeup, &stop)?;
            if plan.write.ordered {
                target.order(plan.write.flush)?;
            }
            target.check_limit(plan.write.limit)?;
            target.sync_every(plan.write.fsync)?;
            Ok(target)
        };
        let mut target = starting.as_user(open)?;
        target.limit = plan.write.limit;
        target.patience =
            Some(Patience { run: stop.clone(), timeout: READER_TIMEOUT, is_limited_on_request: true });
        let (pool, lane_pools) = start_pool(&plan.input, &plan.write, 1, &stop)?;
        let mut ready = starting.open_after(|| target.make_ring(&wakeup))?;
        let sources = &ready.sources;
        if sources.is_at_once {
            plan.write.flush = NEVER;
        }
        let status = Status {
            lanes: sources.gauges(),
            writer: Arc::default(),
            ring_blocks: if sources.is_live { plan.input.blocks_per_ring() as u64 } else { 0 },
            buffer: pool.gauges.clone(),
            missed: sources.watch.as_ref().map(Watch::missed).unwrap_or_default(),
        };
        let notes = pool.notes.iter().cloned().chain(target.notes()).chain(plan.turn_note());
        ready.run.notes.extend(notes);
        let writing = target.describe();
        let reader_timeout = (!target.is_on_disk()).then_some(READER_TIMEOUT);
        let mut output = FileOutput::new(&plan.write, &ready.sources, target, wakeup);
        let end = EndWatch::new(status.writer.clone(), stop.clone(), output.abandoned(), reader_timeout);
        let ends = lane_pools.into_iter().map(|pool| LaneEnd::of(output.packer(pool))).collect();
        let (run, writer) = ready.start(ends, || output.start(&stop, status.writer.clone()))?;
        let notes = run.notes.clone();
        Ok(Self { run, writer, end, pool, plan, stop, status, writing, notes })
    }

    /// Returns whether all threads have ended, or those that have not are waited for no longer. Call it often after the
    /// stop.
    pub fn is_over(&self) -> bool {
        self.stop.raised() && (self.writer.is_finished() || self.end.is_abandoned())
    }

    /// Waits for the end, after the stop, and returns the ledger, which includes a failure.
    pub fn finish(self) -> Ledger {
        let mut ended = self.run.join();
        let writer = match self.end.has_abandoned() {
            true => self.end.tally(sum(&ended.lanes, |lane| lane.packed)),
            false => join(self.writer).unwrap_or_else(|error: Error| {
                ended.failure.get_or_insert(error);
                WriterTally::default()
            }),
        };
        ended.notes.extend(self.pool.finish());
        if self.end.has_abandoned() {
            ended.notes.push(EndWatch::NOTE.into());
            if writer.lost == 0 {
                ended.failure.get_or_insert_with(EndWatch::error);
            }
        } else if writer.abandoned {
            let seconds = READER_TIMEOUT.as_secs();
            ended.notes.push(format!(
                "the reader of the output has stopped reading; it was abandoned {seconds} s after the end"
            ));
        }
        let buffer = &self.status.buffer;
        let mut ledger = ended.ledger(&writer, buffer.high_bytes());
        (ledger.writing, ledger.resident_bytes) = (self.writing, buffer.resident.get());
        ledger.has_retention = self.plan.output.folders().iter().any(|dir| dir.retention.is_any());
        ledger
    }
}
