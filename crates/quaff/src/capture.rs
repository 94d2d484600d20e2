//! A capture: interfaces or files into one output.
//!
//! The output is opened first, then memory is mapped, then the lanes start, then the writer, which truncates an
//! existing file of the same name.

use crate::buffer_pool::Pool;
use crate::gauge::{BufferGauges, LaneGauges};
use crate::plan::CapturePlan;
use crate::run::end_watch::EndWatch;
use crate::run::file_output::FileOutput;
use crate::run::{LaneEnd, Run, join, start_pool};
use crate::sandbox::Seal;
use crate::source::{Declaration, Missed, Sources, Watch};
use crate::tally::{Ledger, sum};
use crate::{Error, Result};
use quaff_file::tally::WriterTally;
use quaff_file::write::{CompressPlan, Patience, Target, WriterGauges};
use quaff_os::sandbox::Sandbox;
use quaff_os::{Stop, Wakeup, cpu};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The flush interval where no reader waits for the output.
pub(crate) const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// After a signal or the end of `duration`, time without progress after which the reader of a pipe is abandoned.
/// Compressors that work on large blocks pause for seconds.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

/// Gives the compressor the cores that no lane and no writer is pinned to; all if there are no others. Without, its
/// threads would have those of the writer's thread, which starts them.
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
    sandbox: Option<Sandbox>,
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
    /// Interfaces that came and are not captured.
    pub missed: Missed,
}

impl Capture {
    /// Starts the capture. When this returns, every packet that arrives is captured.
    pub fn start(plan: CapturePlan, stop: Stop) -> Result<Self> {
        let mut plan = plan.validate()?;
        let declaration = match plan.write.declares_by_packet(&plan.input) {
            true => Declaration::ByPacket,
            false => Declaration::AsDescribed,
        };
        let prepared = Sources::prepare(&plan.input, &[&plan.output], plan.write.format, declaration, &stop)?;
        let mut seal = Seal::new(plan.sandbox.as_ref(), &plan.input, &plan.write, [&plan.output])?;
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
        let mut target = seal.as_user(open)?;
        target.limit = plan.write.limit;
        target.patience =
            Some(Patience { run: stop.clone(), timeout: READER_TIMEOUT, is_limited_on_request: true });
        let (pool, lane_pools) = start_pool(&plan.input, &plan.write, 1, &stop)?;
        seal.before_files()?;
        let sources = prepared.open(&plan.input, &stop)?;
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
        let mut run = Run::new(&plan.input, &sources, &stop);
        run.notes.extend_from_slice(&pool.notes);
        run.notes.extend(target.notes().into_iter().chain(plan.turn_note()));
        let writing = target.describe();
        let reader_timeout = (!target.is_on_disk()).then_some(READER_TIMEOUT);
        let mut output = FileOutput::new(&plan.write, &sources, target, wakeup);
        let end = EndWatch::new(status.writer.clone(), stop.clone(), output.abandoned(), reader_timeout);
        let lane_end = |pool| LaneEnd { stages: Vec::new(), output: Box::new(output.packer(pool)) };
        let ends = lane_pools.into_iter().map(lane_end).collect();
        // On failure the output is dropped first, so that no lane waits for its writer.
        let started = run
            .start_lanes(sources, ends)
            .and_then(|()| seal.after_sockets())
            .and_then(|()| output.start(&stop, status.writer.clone()));
        let writer = match started {
            Ok(writer) => writer,
            Err(error) => return Err(run.abandon(error)),
        };
        let sandbox = seal.close();
        run.notes.extend(sandbox.iter().flat_map(|sandbox| sandbox.notes.clone()));
        let notes = run.notes.clone();
        Ok(Self { run, writer, end, pool, plan, stop, sandbox, status, writing, notes })
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
        let mut sandbox = self.sandbox;
        ended.notes.extend(sandbox.as_mut().and_then(Sandbox::count_refused));
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
        let (buffer, block_bytes) = (&self.status.buffer, self.plan.input.block_bytes as u64);
        let mut ledger = ended.ledger(&writer, buffer.high_bytes(), block_bytes, self.stop.reason());
        (ledger.writing, ledger.resident_bytes) = (self.writing, buffer.resident.get());
        ledger.sandbox = sandbox;
        ledger.has_retention = self.plan.output.folders().iter().any(|dir| dir.retention.is_any());
        ledger
    }
}
