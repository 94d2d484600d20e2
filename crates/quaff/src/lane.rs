//! The two loops: the lane, one core's work on packets, and the writer, which takes their chunks.
//!
//! Every box of the drawing in the crate's documentation is a line below. A lane shares nothing with
//! other lanes; the writer serves them all. Full buffers go to the writer through `outbound`, and empty ones
//! return through `free_buffers`; the ring to the writer has a place for every buffer, so passing one on cannot
//! fail. While the disk is late, buffers fill; when none is free, packets wait in the kernel's ring;
//! when that is nearly full too, the oldest batch is dropped here, where it can be counted at its
//! place in time, and the ring never freezes.
//!
//! Chunks of several lanes are written by the time of their first packet, and none spans more than the flush interval.
//! Nothing is allocated on a lane after its start, but for new interfaces, fragments, flows and lists of their records.

use crate::Result;
use crate::batch::{BATCH_FRAMES, Batch, Frame, Memory};
use crate::buffer_pool::FreeBuffers;
use crate::front::Ready;
use crate::gauge::LaneGauges;
use crate::output::{Arrival, Now, Output, Pause};
use crate::plan::GRACE_NS;
use crate::source::{Ahead, Pull, Source, SourceTally};
use crate::stage::Stage;
use crate::tally::{LaneTally, Terms};
use quaff_file::tally::{Counts, WriterTally};
use quaff_file::write::{Chunk, LaneMessage, Sink};
use quaff_os::clock::steady_ns;
use quaff_os::{Buffer, Gauge, Stop, Wakeup};
use rtrb::Consumer;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a lane reads its counters even when nothing else is due.
const LOOK_NS: u64 = 1_000_000_000;
/// Time without progress after which a lane's older packets are no longer waited for.
const BACKLOG_WAIT_NS: u64 = 1_000_000_000;
/// The longest wait for packets while a stage holds some back for a limited time.
const HOLDING_NS: u64 = 20_000_000;
/// Wait of a lane without a buffer before it tries again. Its kernel's ring holds packets for much longer.
const ROOM_WAIT: Duration = Duration::from_millis(1);

/// One lane: a source, stages, an output.
pub(crate) struct Lane {
    pub source: Box<dyn Source>,
    pub stages: Vec<Box<dyn Stage>>,
    /// Number of the first stages that threads pass packets through ahead of the lane.
    pub front_stages: usize,
    pub output: Box<dyn Output>,
    /// Raised to end the run.
    pub stop: Stop,
    pub gauges: Arc<LaneGauges>,
}

/// Runs a lane until its source ends; returns the tallies of source, stages and output as one.
pub(crate) fn read(mut lane: Lane) -> Result<SourceTally> {
    let mut state = LaneState { frames: Vec::with_capacity(BATCH_FRAMES as usize), ..LaneState::default() };
    let ended = pump(&mut lane, &mut state);
    // After a failure of the source too: frames taken before are written.
    finish_output(&mut lane);
    ended?;
    sum_up(lane, state.tally)
}

/// The loop: every box of the drawing is a line.
fn pump(lane: &mut Lane, state: &mut LaneState) -> Result<()> {
    loop {
        if lane.stop.raised() {
            lane.source.close()?;
        }
        let is_holding = lane.stages.iter().any(|stage| stage.is_holding());
        let look_ns = if is_holding { HOLDING_NS } else { LOOK_NS };
        let wait_ns = lane.output.patience_ns(now(lane)).min(look_ns);
        let pulled = lane.source.pull(&mut state.frames, Duration::from_nanos(wait_ns))?;
        let is_last = pulled == Pull::End;
        if pulled == Pull::Batch || is_last || is_holding {
            work(lane, state, is_last)?;
        }
        if pulled == Pull::Batch {
            lane.source.release();
        }
        if is_last {
            return Ok(());
        }
        let is_idle = pulled == Pull::Idle;
        let is_holding = lane.stages.iter().any(|stage| stage.is_holding());
        let passed_ns = (!is_holding).then(|| state.passed_ns(is_idle, lane.source.wall_ns()));
        tick(lane, is_idle, passed_ns);
    }
}

/// Periodic work of the output, and the gauges.
fn tick(lane: &mut Lane, is_idle: bool, passed_ns: Option<u64>) {
    let (pause, source, stages) = (Pause { now: now(lane), is_idle, passed_ns }, &lane.source, &lane.stages);
    lane.output.tick(pause, &|counts| count(source.as_ref(), stages, counts));
    show(lane);
}

fn finish_output(lane: &mut Lane) {
    let last = arrival(lane);
    if last.dropped > 0 {
        lane.output.take(Memory::default(), &mut [], last);
    }
    let wall_ns = lane.source.wall_ns();
    let (source, stages) = (&lane.source, &lane.stages);
    lane.output.finish(wall_ns, &|counts| count(source.as_ref(), stages, counts));
}

/// One tally of the counts of source, stages and output.
fn sum_up(mut lane: Lane, mut tally: LaneTally) -> Result<SourceTally> {
    lane.stages.iter_mut().for_each(|stage| stage.sum_up(&mut tally));
    let output = lane.output.tally();
    let SourceTally { lane: source, input } = lane.source.finish()?;
    let lane = LaneTally {
        terms: Terms::of([&source.terms, &tally.terms]),
        received: tally.received,
        sightings: tally.sightings,
        untagged: tally.untagged,
        ethernet_made: tally.ethernet_made,
        decap: tally.decap,
        packed: output.taken,
        lost_in_buffer: output.lost,
        pool_buffers: output.pool_buffers,
        pool_high_buffers: output.high_buffers,
        ..source
    };
    Ok(SourceTally { lane, input })
}

/// The batch of a lane, and its counts.
#[derive(Default)]
struct LaneState {
    frames: Vec<Frame>,
    scratch: Vec<u8>,
    /// The numbers of the frames of the batch, if a stage sets them.
    ids: Vec<u64>,
    /// The counts of the stages, and of the packets that have passed them.
    tally: LaneTally,
    /// The time of the last frame, and when it was seen, steady ns.
    last: Option<(u64, u64)>,
}

impl LaneState {
    /// Returns the present time on the clock of the frames: that of the last frame plus the time since it was seen;
    /// `wall_ns` before the first.
    fn now_ns(&mut self, wall_ns: u64) -> u64 {
        let steady_ns = steady_ns();
        if let Some(frame) = self.frames.last() {
            self.last = Some((frame.time_ns, steady_ns));
        }
        self.last.map_or(wall_ns, |(time_ns, seen_ns)| time_ns.saturating_add(steady_ns - seen_ns))
    }

    /// Returns the time before which no frame follows: that of the last frame; on an idle source, nearly the present
    /// time.
    fn passed_ns(&mut self, is_idle: bool, wall_ns: u64) -> u64 {
        let last_ns = self.last.map_or(0, |(time_ns, _)| time_ns);
        if is_idle { last_ns.max(self.now_ns(wall_ns).saturating_sub(GRACE_NS)) } else { last_ns }
    }
}

fn now(lane: &Lane) -> Now {
    Now { steady_ns: steady_ns(), wall_ns: lane.source.wall_ns() }
}

/// Returns the part of the last batch's arrival that no earlier call has reported.
fn arrival(lane: &mut Lane) -> Arrival {
    let (dropped, now) = (lane.source.take_dropped(), now(lane));
    Arrival { now, is_late: lane.source.is_nearly_full(), dropped, names: lane.source.names() }
}

/// Passes a batch through the stages, and the remaining frames to the output.
fn work(lane: &mut Lane, state: &mut LaneState, is_last: bool) -> Result<()> {
    let now_ns = state.now_ns(lane.source.wall_ns());
    let ahead = lane.source.take_ahead();
    let bytes = lane.source.bytes();
    let LaneState { frames, scratch, ids, .. } = state;
    let mut batch = Batch { bytes, scratch, frames, ids, now_ns, is_last };
    let passed = if ahead.is_some() { lane.front_stages } else { 0 };
    for stage in &mut lane.stages[passed..] {
        stage.pass(&mut batch, &mut state.tally);
    }
    let Ahead { filtered, mut ready } = ahead.unwrap_or_default();
    state.tally.filtered += filtered;
    state.tally.received += state.frames.len() as u64;
    let packed = pack_all(lane, &mut state.frames, &state.scratch, &state.ids, &mut ready);
    ready.into_iter().for_each(|ready| lane.source.return_ready(ready));
    state.scratch.clear();
    packed
}

fn count(source: &dyn Source, stages: &[Box<dyn Stage>], counts: &mut Counts) {
    source.count(counts);
    stages.iter().for_each(|stage| stage.count(counts));
}

/// Passes a batch to the output. Without room the lane waits while the kernel's ring fills; when the ring is nearly
/// full the rest of the batch is dropped and counted. While it waits, the lane checks the stop, after which no more
/// packets are received, and does the periodic work of the output.
fn pack_all(
    lane: &mut Lane,
    frames: &mut [Frame],
    scratch: &[u8],
    ids: &[u64],
    ready: &mut Option<Ready>,
) -> Result<()> {
    let (whole, mut left) = (frames.len(), frames);
    loop {
        let arrival = arrival(lane);
        let memory = Memory { bytes: lane.source.bytes(), scratch, options: lane.source.options(), ids };
        let offered = left.len().min(lane.output.frames_at_once());
        let taken = match ready {
            // It is of all frames of the batch.
            Some(ready) if offered == whole => {
                lane.output.take_ready(ready, memory, &mut left[..offered], arrival)
            }
            _ => lane.output.take(memory, &mut left[..offered], arrival),
        };
        left = &mut std::mem::take(&mut left)[taken..];
        if left.is_empty() {
            return Ok(());
        }
        if taken == offered {
            continue;
        }
        if lane.source.is_nearly_full() || lane.output.is_closed() {
            lane.output.lose(left);
            return Ok(());
        }
        if lane.stop.raised() {
            // A failure loses the remaining frames of the batch, and counts them.
            lane.source.close().inspect_err(|_| lane.output.lose(left))?;
        }
        tick(lane, false, None);
        std::thread::sleep(ROOM_WAIT);
    }
}

fn show(lane: &Lane) {
    lane.gauges.lost.set(lane.output.tally().lost);
}

/// The writer's side of a lane.
#[derive(Debug)]
pub(crate) struct Inlet {
    /// Full chunks, from the lane.
    pub inbound: Consumer<LaneMessage>,
    /// Takes empty buffers, for this lane or for all lanes.
    pub free_buffers: FreeBuffers,
    /// The rotation slot that the lane has reached.
    pub slot: u64,
    /// True if the lane has ended.
    pub ended: bool,
    /// The time of the oldest packet that waits on the lane for a buffer, ns since 1970; 0 if none does.
    backlog: Arc<Gauge>,
    /// A chunk that was taken apart, oldest part first.
    pieces: VecDeque<Chunk>,
    /// The addresses of buffers that were made for parts and do not belong to the lane.
    copies: HashSet<usize>,
    /// Chunks of the lane that the sink has.
    in_sink: usize,
    /// The backlog seen last, and the steady time at which the lane was last known to work on it, ns.
    seen: (u64, u64),
}

/// The writer: passes the chunks of all lanes to the sink, slot by slot, by the times of their first packets.
///
/// A chunk spans at most the flush interval, so the packets of several lanes are out of order by no more than that,
/// even after a stall.
pub(crate) struct Writer {
    /// The writer's side of each lane.
    pub inlets: Vec<Inlet>,
    pub sink: Box<dyn Sink>,
    /// Signalled by lanes and by the disk.
    pub wakeup: Wakeup,
    /// The rotation slot that is being written.
    pub slot: u64,
}

/// Runs the writer until all lanes have ended and all is written.
pub(crate) fn write(mut writer: Writer) -> Result<WriterTally> {
    let written = write_all(&mut writer);
    // After a failure: the buffers that this writer's lanes have sent, which lanes of other writers may need.
    writer.inlets.iter_mut().for_each(Inlet::abandon);
    written
}

fn write_all(writer: &mut Writer) -> Result<WriterTally> {
    loop {
        let mut moved = recycle(writer)?;
        for _ in 0..writer.inlets.len() {
            let Some((lane, message)) = writer.next_message()? else { break };
            match message {
                LaneMessage::Chunk(chunk) | LaneMessage::Parts(chunk, _) => writer.sink.push(lane, chunk)?,
                LaneMessage::Slot(_, counts) => writer.sink.note(lane, counts),
                LaneMessage::Mark(until_ns) => writer.sink.mark(lane, until_ns),
                LaneMessage::End(counts) => {
                    writer.sink.note(lane, counts);
                    writer.sink.mark(lane, u64::MAX);
                }
            }
            moved += 1 + recycle(writer)?;
        }
        writer.sink.tick()?;
        if moved > 0 {
            continue;
        }
        if writer.inlets.iter().all(|inlet| inlet.ended) && writer.sink.pending() == 0 {
            break;
        }
        match writer.inlets.iter().filter(|inlet| !inlet.ended).map(|inlet| inlet.slot).min() {
            // Every lane has left the slot, so no chunk of it can follow.
            Some(next) if next > writer.slot => {
                writer.slot = next;
                writer.sink.begin_slot(next)?;
            }
            _ => drop(writer.wakeup.wait(writer.sink.max_wait())?),
        }
    }
    let tally = writer.sink.finish()?;
    recycle(writer)?;
    Ok(tally)
}

/// Returns written buffers to their lanes, and their number.
fn recycle(writer: &mut Writer) -> Result<usize> {
    let mut count = 0;
    while let Some((lane, buffer)) = writer.sink.reap()? {
        let inlet = &mut writer.inlets[lane];
        inlet.in_sink -= 1;
        inlet.recycle(buffer);
        count += 1;
    }
    Ok(count)
}

impl Writer {
    /// Returns the next message of the slot: the one with the oldest first packet, unless older packets should be
    /// waited for.
    fn next_message(&mut self) -> Result<Option<(usize, LaneMessage)>> {
        let mut next = None;
        for (lane, inlet) in self.inlets.iter_mut().enumerate() {
            let head = inlet.first_ns(self.slot)?.map(|first_ns| (first_ns, lane));
            next = next.into_iter().chain(head).min();
        }
        let Some((_, lane)) = next.filter(|(first_ns, _)| !self.must_wait(*first_ns)) else {
            return Ok(None);
        };
        let inlet = &mut self.inlets[lane];
        let message = inlet.take();
        inlet.in_sink += usize::from(matches!(message, Some(LaneMessage::Chunk(_))));
        Ok(message.map(|message| (lane, message)))
    }

    /// Returns whether a lane will soon send packets older than `first_ns` for the same file.
    fn must_wait(&mut self, first_ns: u64) -> bool {
        let now_ns = steady_ns();
        self.sink.mixes_lanes() && self.inlets.iter_mut().any(|inlet| inlet.owes_before(first_ns, now_ns))
    }
}

impl Inlet {
    pub(crate) fn new(
        inbound: Consumer<LaneMessage>,
        free_buffers: FreeBuffers,
        slot: u64,
        backlog: Arc<Gauge>,
    ) -> Self {
        let (pieces, copies) = (VecDeque::new(), HashSet::new());
        let (in_sink, seen) = (0, (0, 0));
        Self { inbound, free_buffers, slot, ended: false, backlog, pieces, copies, in_sink, seen }
    }

    /// The time of the next message's first packet, 0 without packets; `None` if there is no message of the slot.
    fn first_ns(&mut self, slot: u64) -> Result<Option<u64>> {
        if let Some(piece) = self.pieces.front() {
            return Ok(Some(piece.first_ns));
        }
        // A lane that panicked has sent no end; the chunks that it sent before are still in the ring.
        if self.inbound.is_abandoned() && self.inbound.is_empty() {
            self.ended = true;
        }
        let Ok(message) = self.inbound.peek() else { return Ok(None) };
        if let Some(of) = message.slot() {
            self.slot = self.slot.max(of);
            if of > slot {
                return Ok(None);
            }
        }
        Ok(match message {
            LaneMessage::Chunk(chunk) => Some(chunk.first_ns),
            LaneMessage::Slot(..) | LaneMessage::Mark(_) | LaneMessage::End(_) => Some(0),
            LaneMessage::Parts(..) => self.split_next()?,
        })
    }

    /// Takes the next message, a chunk of several parts, apart; returns the time of its first packet.
    fn split_next(&mut self) -> Result<Option<u64>> {
        if let Ok(LaneMessage::Parts(chunk, parts)) = self.inbound.pop() {
            let copies = parts.len();
            self.pieces.extend(chunk.split(parts)?);
            self.copies.extend(self.pieces.iter().take(copies).map(|piece| address(&piece.buffer)));
        }
        Ok(self.pieces.front().map(|piece| piece.first_ns))
    }

    fn take(&mut self) -> Option<LaneMessage> {
        if let Some(piece) = self.pieces.pop_front() {
            return Some(LaneMessage::Chunk(piece));
        }
        let message = self.inbound.pop().ok()?;
        self.ended |= matches!(message, LaneMessage::End(_));
        Some(message)
    }

    /// Returns a buffer to the lane, if it belongs to the lane.
    fn recycle(&mut self, buffer: Buffer) {
        if !self.copies.remove(&address(&buffer)) {
            self.free_buffers.push(buffer);
        }
    }

    /// Returns the buffers of all chunks that the lane has sent, after a failure: lanes of other writers may need them.
    fn abandon(&mut self) {
        while let Some(message) = self.take() {
            if let LaneMessage::Chunk(chunk) | LaneMessage::Parts(chunk, _) = message {
                self.recycle(chunk.buffer);
            }
        }
    }

    /// Returns whether packets older than `first_ns` wait on the lane, and a buffer for them is free or will be when
    /// the sink has written the lane's chunks. That keeps the sink busy, so waiting for it costs no packet.
    fn owes_before(&mut self, first_ns: u64, now_ns: u64) -> bool {
        let backlog_ns = self.backlog.get();
        if backlog_ns != self.seen.0 || self.in_sink > 0 {
            self.seen = (backlog_ns, now_ns);
        }
        let is_older = (1..first_ns).contains(&backlog_ns);
        let has_none = self.pieces.is_empty() && self.inbound.is_empty();
        is_older && has_none && !self.ended && now_ns - self.seen.1 < BACKLOG_WAIT_NS
    }
}

fn address(buffer: &Buffer) -> usize {
    buffer.as_ptr() as usize
}

#[cfg(test)]
mod order_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::output::OutputTally;
    use quaff_os::Reason;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Batches of four frames, then an end or a failure.
    #[derive(Default)]
    struct Batches {
        left: u32,
        fails: bool,
        is_nearly_full: bool,
        /// Set when the source is closed.
        closed: Arc<AtomicBool>,
        /// The times that it was asked to wait.
        waits: Arc<Mutex<Vec<Duration>>>,
    }

    impl Source for Batches {
        fn pull(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull> {
            frames.clear();
            self.waits.lock().unwrap().push(wait);
            if self.left == 0 {
                return if self.fails { Err(Error::Defect("a made failure".into())) } else { Ok(Pull::End) };
            }
            self.left -= 1;
            frames.resize(4, Frame::default());
            Ok(Pull::Batch)
        }

        fn bytes(&self) -> &[u8] {
            &[]
        }

        fn take_ahead(&mut self) -> Option<Ahead> {
            Some(Ahead { filtered: 0, ready: Some(Box::new(())) })
        }

        fn release(&mut self) {}

        fn is_nearly_full(&self) -> bool {
            self.is_nearly_full
        }

        fn close(&mut self) -> Result<()> {
            self.closed.store(true, Ordering::Relaxed);
            Ok(())
        }

        fn take_dropped(&mut self) -> u64 {
            0
        }

        fn count(&self, _: &mut Counts) {}

        fn finish(self: Box<Self>) -> Result<SourceTally> {
            Ok(SourceTally::default())
        }
    }

    /// Has room for `room` frames in each call, but only once `opens` is true if there is one. Raises the stop in its
    /// tenth tick.
    struct Narrow {
        room: usize,
        at_once: usize,
        opens: Option<Arc<AtomicBool>>,
        ticks: u64,
        stop: Stop,
        tally: OutputTally,
        finished: Arc<Mutex<Option<OutputTally>>>,
    }

    impl Output for Narrow {
        fn take(&mut self, _: Memory<'_>, frames: &mut [Frame], _: Arrival) -> usize {
            let is_open = self.opens.as_ref().is_none_or(|opens| opens.load(Ordering::Relaxed));
            let taken = if is_open { frames.len().min(self.room) } else { 0 };
            self.tally.taken += taken as u64;
            taken
        }

        fn frames_at_once(&self) -> usize {
            self.at_once
        }

        fn take_ready(
            &mut self,
            _: &mut Ready,
            memory: Memory<'_>,
            frames: &mut [Frame],
            arrival: Arrival,
        ) -> usize {
            assert!(frames.is_empty() || frames.len() == 4, "a front has read all frames of a batch");
            self.take(memory, frames, arrival)
        }

        fn lose(&mut self, frames: &[Frame]) {
            self.tally.lost += frames.len() as u64;
        }

        fn tick(&mut self, pause: Pause, _: &dyn Fn(&mut Counts)) {
            assert!(!pause.is_idle, "packets wait");
            self.ticks += 1;
            if self.ticks == 10 {
                self.stop.raise(Reason::Duration);
            }
        }

        fn finish(&mut self, _: u64, _: &dyn Fn(&mut Counts)) {
            *self.finished.lock().unwrap() = Some(self.tally);
        }

        fn tally(&self) -> OutputTally {
            self.tally
        }
    }

    /// The result of the lane, and the counts of the output at its end.
    fn run(source: Batches, room: usize) -> (Result<SourceTally>, OutputTally) {
        run_until(source, room, None)
    }

    /// As [`run`], with an output that has room only once `opens` is true.
    fn run_until(
        source: Batches,
        room: usize,
        opens: Option<Arc<AtomicBool>>,
    ) -> (Result<SourceTally>, OutputTally) {
        run_staged(source, Vec::new(), (room, usize::MAX), opens)
    }

    fn run_staged(
        source: Batches,
        stages: Vec<Box<dyn Stage>>,
        (room, at_once): (usize, usize),
        opens: Option<Arc<AtomicBool>>,
    ) -> (Result<SourceTally>, OutputTally) {
        let stop = Stop::default();
        let finished = Arc::<Mutex<Option<OutputTally>>>::default();
        let tally = OutputTally::default();
        let (ticks, finished_) = (0, finished.clone());
        let output = Narrow { room, at_once, opens, ticks, stop: stop.clone(), tally, finished: finished_ };
        let gauges = Arc::default();
        let lane = Lane {
            source: Box::new(source),
            stages,
            front_stages: 0,
            output: Box::new(output),
            stop,
            gauges,
        };
        let ended = read(lane);
        let finished = finished.lock().unwrap().expect("the output is finished in any case");
        (ended, finished)
    }

    #[test]
    fn an_output_without_room_is_offered_the_rest_again() {
        let (ended, output) = run(Batches { left: 5, ..Batches::default() }, 3);
        let lane = ended.unwrap().lane;
        assert_eq!((lane.received, lane.packed, lane.lost_in_buffer, output.taken), (20, 20, 0, 20));
    }

    #[test]
    fn an_output_that_takes_few_frames_at_once_has_room_for_all_of_a_nearly_full_ring() {
        for at_once in [1, 2, 3, 4] {
            let source = Batches { left: 5, is_nearly_full: true, ..Batches::default() };
            let (ended, output) = run_staged(source, Vec::new(), (3, at_once), None);
            let lost = if at_once == 4 { 5 } else { 0 };
            assert_eq!((ended.unwrap().lane.lost_in_buffer, output.taken), (lost, 20 - lost), "{at_once}");
        }
    }

    /// A stage that holds a frame back.
    struct Holding;

    impl Stage for Holding {
        fn pass(&mut self, _: &mut crate::batch::Batch<'_>, _: &mut LaneTally) {}

        fn is_holding(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_frame_that_is_held_back_is_not_forgotten_when_no_packets_arrive() {
        for (stages, wait_ns) in [(vec![], LOOK_NS), (vec![Box::new(Holding) as Box<dyn Stage>], HOLDING_NS)]
        {
            let source = Batches { left: 2, ..Batches::default() };
            let waits = source.waits.clone();
            run_staged(source, stages, (4, usize::MAX), None).0.unwrap();
            assert_eq!(waits.lock().unwrap()[..], [Duration::from_nanos(wait_ns); 3]);
        }
    }

    #[test]
    fn a_nearly_full_ring_costs_the_rest_of_the_batch_and_it_is_counted() {
        let (ended, _) = run(Batches { left: 5, is_nearly_full: true, ..Batches::default() }, 3);
        let lane = ended.unwrap().lane;
        assert_eq!((lane.received, lane.packed, lane.lost_in_buffer), (20, 15, 5));
    }

    #[test]
    fn a_source_that_fails_loses_nothing_already_taken() {
        let (ended, output) = run(Batches { left: 5, fails: true, ..Batches::default() }, 4);
        assert!(matches!(ended, Err(Error::Defect(_))));
        assert_eq!(output.taken, 20);
    }

    /// The output raises the stop after some ticks, and has room only after the source was closed: a wait that is deaf
    /// to either would not end.
    #[test]
    fn waiting_for_room_hears_the_stop_and_ticks() {
        let closed = Arc::<AtomicBool>::default();
        let source = Batches { left: 5, closed: closed.clone(), ..Batches::default() };
        let (ended, _) = run_until(source, 4, Some(closed));
        let lane = ended.unwrap().lane;
        assert_eq!((lane.received, lane.packed, lane.lost_in_buffer), (20, 20, 0));
    }
}
