//! The sender of one direction: one thread that sends the frames of all streams by their schedules.
//!
//! A call takes only due frames, a few at most, and their send time is read right before the call: a sender without
//! backlog sends single frames.

use super::board::{Begin, Board, LaneBoard};
use super::plan::StreamPlan;
use super::schedule::{Due, Place, Schedule};
use super::tally::{Seconds, Tally, at};
use super::tx_log::TxLog;
use quaff_os::Result;
use quaff_os::clock::{self, steady_ns, wall_ns};
use quaff_send::{Next, Obstacle, Transmitter, TxCall, wait_until};
use quaff_wire::probe::{ProbeFrame, TrialHeader};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Maximum frames per call. A call of 64 is hardly faster than calls of one, and its last frame leaves 80 µs after the
/// time in its header.
const CALL_FRAMES: usize = 8;
/// Time for which frames are offered to a full socket before the schedules are read again, ns.
const NO_ROOM_NS: u64 = 1_000_000;
/// A phase of frames is abandoned if the interface has accepted none for this long, ns.
const ABANDON_NS: u64 = 2_000_000_000;

/// The sent frames of one stream.
#[derive(Debug, Clone, Default)]
pub(super) struct SentStream {
    pub(super) phases: Vec<Tally>,
    pub(super) seconds: Vec<Tally>,
}

/// A stream and its sending state.
struct Outgoing<'a> {
    id: u16,
    log: &'a TxLog,
    schedule: Schedule,
    /// For each size as many frames as a call takes.
    frames: Vec<Vec<ProbeFrame<TrialHeader>>>,
    next: Option<Due>,
    /// Phase of the latest frame in a call, and the time when it was added.
    last: Option<(usize, u64)>,
    /// Number of the next frame, and of the phases that have started before it.
    seq: u64,
    begun: usize,
    sent: SentStream,
}

/// A frame of a call.
#[derive(Clone, Copy)]
struct Slot {
    stream: usize,
    /// Index into the stream's sizes.
    size: usize,
    due: Due,
    seq: u64,
    /// State of the stream before this frame.
    place: Place,
    begun: usize,
}

/// All streams of a direction, and the frames of the next call.
pub(super) struct Sender<'a> {
    streams: Vec<Outgoing<'a>>,
    call: Vec<Slot>,
    begin: Begin,
    by: Option<Seconds>,
    board: &'a Board,
    lane: &'a LaneBoard,
    /// Time since which the interface has accepted nothing, CLOCK_MONOTONIC ns.
    refused_since_ns: Option<u64>,
    /// Time since which the socket has been full in this call, CLOCK_MONOTONIC ns.
    full_since_ns: Option<u64>,
    late_max_ns: u64,
}

impl<'a> Sender<'a> {
    pub(super) fn new(begin: Begin, by: Option<Seconds>, board: &'a Board, lane: &'a LaneBoard) -> Self {
        Self {
            streams: Vec::new(),
            call: Vec::with_capacity(CALL_FRAMES),
            begin,
            by,
            board,
            lane,
            refused_since_ns: None,
            full_since_ns: None,
            late_max_ns: 0,
        }
    }

    /// Adds a stream; `frames` has one frame of each size, `stagger` is its offset in intervals.
    pub(super) fn add(
        &mut self,
        plan: &StreamPlan,
        log: &'a TxLog,
        frames: Vec<ProbeFrame<TrialHeader>>,
        stagger: f64,
    ) {
        self.streams.push(Outgoing {
            id: plan.id,
            log,
            schedule: Schedule::new(plan.phases.clone(), stagger, self.begin.steady_ns),
            frames: frames.into_iter().map(|frame| vec![frame; CALL_FRAMES]).collect(),
            next: None,
            last: None,
            seq: 0,
            begun: 0,
            sent: SentStream { phases: vec![Tally::default(); plan.phases.len()], seconds: Vec::new() },
        });
    }

    /// Sends until no frame is left, or until it is stopped. Returns the sent frames of each stream, and the maximum
    /// lateness, ns.
    pub(super) fn run(mut self, mut tx: Transmitter) -> Result<(Vec<SentStream>, u64)> {
        let board = self.board;
        while !board.is_stopped() {
            let due_ns = self.earliest(steady_ns());
            self.count_left_out();
            let Some(due_ns) = due_ns else { break };
            if wait_until(due_ns, || board.is_stopped()) {
                self.collect();
                self.send(&mut tx)?;
            }
        }
        Ok((self.streams.into_iter().map(|stream| stream.sent).collect(), self.late_max_ns))
    }

    /// Updates the next frame of each stream; returns the earliest deadline, or `None` after the last frame.
    fn earliest(&mut self, now_ns: u64) -> Option<u64> {
        let is_dead = self.refused_since_ns.is_some_and(|since_ns| now_ns - since_ns > ABANDON_NS);
        for stream in &mut self.streams {
            if is_dead {
                stream.schedule.abandon(now_ns);
            }
            stream.next = stream.schedule.next(now_ns);
        }
        self.streams.iter().filter_map(|stream| stream.next).map(|due| due.due_ns).min()
    }

    /// Counts due frames that are not sent in the phase and second of their deadline.
    fn count_left_out(&mut self) {
        let is_refused = self.refused_since_ns.is_some();
        let count = |tally: &mut Tally, frames: u64| {
            *(if is_refused { &mut tally.refused } else { &mut tally.left_out }) += frames;
        };
        for Outgoing { schedule, sent, .. } in &mut self.streams {
            let late_ns = std::mem::take(&mut schedule.late_max_ns);
            // An interface that accepts nothing does not make the sender late.
            self.late_max_ns = self.late_max_ns.max(if is_refused { 0 } else { late_ns });
            for gap in schedule.left_out.drain(..) {
                count(&mut sent.phases[gap.phase], gap.frames);
                let first_ns = gap.due_ns.wrapping_sub(self.begin.steady_ns).wrapping_add(self.begin.wall_ns);
                if let Some(by) = &self.by {
                    by.split(first_ns, gap.interval_ns, gap.frames, |second, frames| {
                        count(at(&mut sent.seconds, second), frames);
                    });
                }
            }
        }
    }

    /// Collects the due frames, the earliest first.
    fn collect(&mut self) {
        let now_ns = steady_ns();
        self.call.clear();
        while self.call.len() < CALL_FRAMES {
            let dues = self.streams.iter().enumerate().filter_map(|(at, stream)| Some((stream.next?, at)));
            let earliest = dues.min_by_key(|(due, _)| due.due_ns);
            let Some((due, at)) = earliest.filter(|(due, _)| due.due_ns <= now_ns) else { break };
            let stream = &mut self.streams[at];
            let Outgoing { seq, begun, .. } = *stream;
            let size = (seq % stream.frames.len() as u64) as usize;
            self.call.push(Slot { stream: at, size, due, seq, place: stream.schedule.place(), begun });
            (begun..=due.phase).for_each(|phase| stream.log.begin(phase, seq));
            (stream.seq, stream.begun) = (seq + 1, begun.max(due.phase + 1));
            stream.schedule.skip(1);
            stream.next = stream.schedule.next(now_ns);
            // Without a rate a frame is due right after the previous one.
            let due_ns = match stream.last.replace((due.phase, now_ns)) {
                _ if due.is_paced => due.due_ns,
                Some((phase, last_ns)) if phase == due.phase => last_ns,
                _ => now_ns,
            };
            if self.refused_since_ns.is_none() {
                self.late_max_ns = self.late_max_ns.max(now_ns - due_ns);
            }
        }
    }

    /// Sends the call. Frames that do not fit are returned to their streams, whose schedules may omit them.
    fn send(&mut self, tx: &mut Transmitter) -> Result<()> {
        self.full_since_ns = None;
        let done = tx.send(self)?;
        if done < self.call.len() {
            let now_ns = steady_ns();
            for slot in self.call[done..].iter().rev() {
                let stream = &mut self.streams[slot.stream];
                stream.schedule.go_back(slot.place);
                (stream.seq, stream.begun, stream.last) = (slot.seq, slot.begun, None);
            }
            self.refused_since_ns.get_or_insert(now_ns);
            // The socket may stay full for long, as on a link that is down.
            clock::sleep_until(now_ns + NO_ROOM_NS);
        }
        Ok(())
    }
}

impl TxCall for Sender<'_> {
    fn len(&self) -> usize {
        self.call.len()
    }

    fn frame(&self, at: usize) -> &[u8] {
        let slot = &self.call[at];
        &self.streams[slot.stream].frames[slot.size][at].bytes
    }

    /// Writes the time into the probe headers and the log.
    fn prepare(&mut self, from: usize) -> Option<u64> {
        let sent_ns = wall_ns();
        for (at, slot) in self.call.iter().enumerate().skip(from) {
            let stream = &mut self.streams[slot.stream];
            stream.log.note(slot.seq, sent_ns);
            stream.frames[slot.size][at].set(&TrialHeader { stream: stream.id, seq: slot.seq, sent_ns });
        }
        Some(sent_ns)
    }

    fn sent(&mut self, taken: Range<usize>, _bytes: u64, sent_ns: u64) {
        for slot in &self.call[taken.clone()] {
            let stream = &mut self.streams[slot.stream];
            let bytes = stream.frames[slot.size][0].bytes.len() as u32;
            stream.sent.phases[slot.due.phase].send(bytes, sent_ns);
            if let Some(by) = &self.by {
                at(&mut stream.sent.seconds, by.of(sent_ns)).send(bytes, sent_ns);
            }
        }
        (self.full_since_ns, self.refused_since_ns) = (None, None);
        let sent = self.lane.sent.load(Ordering::Relaxed) + taken.len() as u64;
        self.lane.sent.store(sent, Ordering::Relaxed);
    }

    fn obstacle(&mut self, _at: usize, obstacle: Obstacle) -> Result<Next> {
        // An interface that is down may come up again: an outage does not end the trial.
        if let Obstacle::Refused(error) | Obstacle::Gone(error) | Obstacle::Other(error) = obstacle {
            return Err(error);
        }
        let now_ns = steady_ns();
        let is_full = now_ns - *self.full_since_ns.get_or_insert(now_ns) > NO_ROOM_NS;
        Ok(if is_full { Next::Stop } else { Next::Retry })
    }
}
