//! THE page: what one core does with packets, and what the writer does with chunks.
//!
//! Every box of the drawing in the crate's documentation is a line below. A lane shares nothing with
//! other lanes; the writer serves them all. Memory: buffers go out full through `outbound` and come
//! home empty through `home`; the ring to the writer is as long as the number of buffers, so handing
//! over cannot fail. A late disk costs buffers; when all are out, packets wait in the kernel's ring;
//! when that is nearly full too, the oldest batch is given up here, where it can be counted at its
//! place in time, and the ring never freezes.

use crate::Result;
use crate::batch::{BATCH_FRAMES, Batch, Frame, Memory};
use crate::gauge::LaneGauges;
use crate::pack::Packer;
use crate::source::{Pull, Source};
use crate::stage::Stage;
use crate::tally::{LaneTally, Removed};
use quaff_file::tally::Counts;
use quaff_file::tally::WriterTally;
use quaff_file::write::Sink;
use quaff_file::write::chunk::Parcel;
use quaff_os::clock::steady_ns;
use quaff_os::mem::Buffer;
use quaff_os::stop::Stop;
use quaff_os::wakeup::Wakeup;
use rtrb::{Consumer, Producer};
use std::sync::Arc;
use std::time::Duration;

/// Without anything due, a lane still looks at its counters this often.
const LOOK_NS: u64 = 1_000_000_000;
/// How long a lane that has no buffer waits before it looks again. Its kernel ring holds much more.
const ROOM_WAIT: Duration = Duration::from_millis(1);

/// What becomes of the frames that a batch ends up with: one packer, or one for each member of a bundle.
pub trait Packing: Send {
    /// Packs what there is room for. What there is none for is at the end then; says how many are not.
    fn pack(&mut self, memory: Memory<'_>, frames: &mut [Frame], now_ns: u64, wall_ns: u64) -> usize;
    /// Counts frames for which there is no room.
    fn lose(&mut self, frames: &[Frame]);
    /// Notes that the kernel lost packets before the next one that is packed.
    fn note_dropped(&mut self, packets: u64);
    /// Does what is due by the clock; `count` says what the rest of the lane has counted.
    fn tick(&mut self, now_ns: u64, wall_ns: u64, idle: bool, count: &dyn Fn(&mut Counts));
    /// How long nothing will be due, ns.
    fn patience_ns(&self, now_ns: u64, wall_ns: u64) -> u64;
    /// Hands over the rest. Returns the last counts and the most buffers that were in use.
    fn finish(self, wall_ns: u64, count: &dyn Fn(&mut Counts)) -> (Counts, u64);
    /// Buffers of the buffer.
    fn pool_buffers(&self) -> u64;
    /// Whether nobody takes anything any more.
    fn is_abandoned(&self) -> bool;
    /// Buffers in use now, the most that ever were, and packets lost.
    fn gauge(&self) -> (u64, u64, u64);
}

/// One lane: a source, stages, a packer.
pub struct Reader<S, P = Packer> {
    /// Where packets come from.
    pub source: S,
    /// What is done to batches.
    pub stages: Vec<Box<dyn Stage>>,
    /// Where they go.
    pub packer: P,
    /// Raised when the run is to end.
    pub stop: Stop,
    /// What others can see.
    pub gauges: Arc<LaneGauges>,
}

/// Runs a lane until its source ends. The source comes back, to be asked for its own tally.
pub fn read<S: Source, P: Packing>(mut lane: Reader<S, P>) -> Result<(S, LaneTally)> {
    let mut hand = Hand { frames: Vec::with_capacity(BATCH_FRAMES as usize), ..Hand::default() };
    let mut tally = LaneTally { pool_buffers: lane.packer.pool_buffers(), ..LaneTally::default() };
    let ended = loop {
        if lane.stop.raised()
            && let Err(error) = lane.source.close()
        {
            break Err(error);
        }
        let wait_ns = lane.packer.patience_ns(steady_ns(), lane.source.wall_ns()).min(LOOK_NS);
        let pulled = match lane.source.pull(&mut hand.frames, Duration::from_nanos(wait_ns)) {
            Err(error) => break Err(error),
            Ok(pulled) => pulled,
        };
        if pulled == Pull::Batch {
            lane.packer.note_dropped(lane.source.take_dropped());
        }
        let is_last = pulled == Pull::End;
        if pulled == Pull::Batch || is_last || lane.stages.iter().any(|stage| stage.is_holding()) {
            work(&mut lane, &mut hand, is_last);
        }
        if pulled == Pull::Batch {
            lane.source.release();
        }
        if is_last {
            break Ok(());
        }
        let (now_ns, wall_ns) = (steady_ns(), lane.source.wall_ns());
        let (source, stages) = (&lane.source, &lane.stages);
        lane.packer.tick(now_ns, wall_ns, pulled == Pull::Idle, &|counts| count(source, stages, counts));
        show(&lane);
    };
    lane.packer.note_dropped(lane.source.take_dropped());
    let wall_ns = lane.source.wall_ns();
    let (source, stages) = (&lane.source, &lane.stages);
    let (counts, buffer_high) = lane.packer.finish(wall_ns, &|counts| count(source, stages, counts));
    hand.sum_up(&mut tally);
    lane.stages.iter_mut().for_each(|stage| stage.sum_up(&mut tally));
    tally.packed = counts.packed;
    tally.lost_in_buffer = counts.lost;
    tally.pool_high_buffers = buffer_high;
    ended.map(|()| (lane.source, tally))
}

/// What a lane has in hand: a batch, and what became of those before.
#[derive(Default)]
struct Hand {
    frames: Vec<Frame>,
    aside: Vec<u8>,
    received: u64,
    removed: Removed,
    /// The time of the last frame, and when it was seen, steady ns.
    last: Option<(u64, u64)>,
}

impl Hand {
    /// What time it is where the frames are from: that of the last one, and what has passed since it
    /// was seen; `wall_ns` before the first.
    fn now_ns(&mut self, wall_ns: u64) -> u64 {
        let steady_ns = steady_ns();
        if let Some(frame) = self.frames.last() {
            self.last = Some((frame.time_ns, steady_ns));
        }
        self.last.map_or(wall_ns, |(time_ns, seen_ns)| time_ns.saturating_add(steady_ns - seen_ns))
    }

    fn sum_up(&self, tally: &mut LaneTally) {
        tally.received = self.received;
        tally.after_count = self.removed.after_count;
        tally.filtered = self.removed.filtered;
        tally.not_tunnel = self.removed.not_tunnel;
        tally.merged = self.removed.merged;
        tally.unsuited = self.removed.unsuited;
    }
}

/// Takes a batch through the stages and packs what is left of it.
fn work<S: Source, P: Packing>(lane: &mut Reader<S, P>, hand: &mut Hand, is_last: bool) {
    let now_ns = hand.now_ns(lane.source.wall_ns());
    let bytes = lane.source.bytes();
    let mut batch = Batch { bytes, aside: &mut hand.aside, frames: &mut hand.frames, now_ns, is_last };
    for stage in &mut lane.stages {
        stage.pass(&mut batch, &mut hand.removed);
    }
    hand.received += hand.frames.len() as u64;
    pour(lane, &mut hand.frames, &hand.aside);
    hand.aside.clear();
}

fn count<S: Source>(source: &S, stages: &[Box<dyn Stage>], counts: &mut Counts) {
    source.count(counts);
    stages.iter().for_each(|stage| stage.count(counts));
}

/// Packs a batch. Without a buffer it waits, while the kernel's ring fills; under pressure the rest of
/// the batch is given up and counted.
fn pour<S: Source, P: Packing>(lane: &mut Reader<S, P>, frames: &mut [Frame], aside: &[u8]) {
    let mut left = frames;
    loop {
        let memory = Memory { bytes: lane.source.bytes(), aside };
        let packed = lane.packer.pack(memory, left, steady_ns(), lane.source.wall_ns());
        left = &mut std::mem::take(&mut left)[packed..];
        if left.is_empty() {
            return;
        }
        if lane.source.is_nearly_full() || lane.packer.is_abandoned() {
            return lane.packer.lose(left);
        }
        std::thread::sleep(ROOM_WAIT);
    }
}

fn show<S, P: Packing>(lane: &Reader<S, P>) {
    let (now, high, lost) = lane.packer.gauge();
    lane.gauges.buffer_now.set(now);
    lane.gauges.buffer_high.set(high);
    lane.gauges.lost.set(lost);
}

/// The writer's end of a lane.
#[derive(Debug)]
pub struct Inlet {
    /// Full chunks, from the lane.
    pub inbound: Consumer<Parcel>,
    /// Empty buffers, to the lane.
    pub home: Producer<Buffer>,
    /// The rotation slot that the lane has reached.
    pub slot: u64,
    /// Whether the lane has ended.
    pub ended: bool,
}

/// The writer: takes chunks from all lanes, slot by slot, and gives them to the sink.
pub struct Writer {
    /// One end of each lane.
    pub inlets: Vec<Inlet>,
    /// Where chunks go.
    pub sink: Box<dyn Sink>,
    /// Signalled by lanes and by the disk.
    pub wakeup: Wakeup,
    /// The rotation slot that is being written.
    pub slot: u64,
}

/// Runs the writer until all lanes have ended and all is written.
pub fn write(mut writer: Writer) -> Result<WriterTally> {
    loop {
        let mut moved = bring_home(&mut writer)?;
        for lane in 0..writer.inlets.len() {
            // One parcel of each lane in turn: no lane waits for another one's backlog.
            if let Some(parcel) = writer.inlets[lane].take(writer.slot) {
                match parcel {
                    Parcel::Chunk(chunk) => writer.sink.push(lane, chunk)?,
                    Parcel::Slot(_, counts) | Parcel::End(counts) => writer.sink.note(lane, counts),
                }
                moved += 1 + bring_home(&mut writer)?;
            }
        }
        writer.sink.tick()?;
        if moved > 0 {
            continue;
        }
        if writer.inlets.iter().all(|inlet| inlet.ended) && writer.sink.pending() == 0 {
            break;
        }
        match writer.inlets.iter().filter(|inlet| !inlet.ended).map(|inlet| inlet.slot).min() {
            // Every lane has left the slot: nothing of it can follow.
            Some(next) if next > writer.slot => {
                writer.slot = next;
                writer.sink.turn(next)?;
            }
            _ => drop(writer.wakeup.wait(writer.sink.patience())?),
        }
    }
    let tally = writer.sink.finish()?;
    bring_home(&mut writer)?;
    Ok(tally)
}

/// Gives written buffers back to their lanes; returns how many.
fn bring_home(writer: &mut Writer) -> Result<usize> {
    let mut count = 0;
    while let Some((lane, buffer)) = writer.sink.reap()? {
        let pushed = writer.inlets[lane].home.push(buffer);
        assert!(pushed.is_ok(), "the way home has a place for every buffer");
        count += 1;
    }
    Ok(count)
}

impl Inlet {
    /// The next parcel, unless it belongs to a later slot.
    fn take(&mut self, slot: u64) -> Option<Parcel> {
        // A lane that died has told no end; what it had handed over before is still here.
        if self.inbound.is_abandoned() && self.inbound.is_empty() {
            self.ended = true;
        }
        if let Some(of) = self.inbound.peek().ok()?.slot() {
            self.slot = self.slot.max(of);
            if of > slot {
                return None;
            }
        }
        let parcel = self.inbound.pop().ok()?;
        self.ended |= matches!(parcel, Parcel::End(_));
        Some(parcel)
    }
}
