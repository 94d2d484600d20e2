//! The sender of one direction: one thread, all its streams, each frame when its stream's timetable says.
//!
//! Only what is due goes into a call, a few frames at most, and the time in a mark is read right before the call: a
//! sender that is not pressed sends frames one by one, as they fall due. A wait is slept until shortly before its end
//! and spun from there.

use super::plan::StreamPlan;
use super::schedule::{Due, Place, Schedule};
use super::tally::{Seconds, Sent, at};
use super::tx_log::TxLog;
use super::{Begin, Board, LaneBoard};
use quaff_os::Result;
use quaff_os::clock::{self, steady_ns, wall_ns};
use quaff_send::{Next, Obstacle, Transmitter, TxCall, wait_until};
use quaff_wire::probe::trial::{TrialFrame, TrialHeader};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Frames that one call takes. A call of 64 is hardly faster than calls of one, and the last frame of it leaves 80 µs
/// after its mark says.
const CALL_FRAMES: usize = 8;
/// How long a socket without room is asked again and again, before all is looked at anew, ns.
const NO_ROOM_NS: u64 = 1_000_000;
/// So long a phase of so many frames waits for an interface that takes none, ns.
const GIVE_UP_NS: u64 = 2_000_000_000;

/// What was sent of one stream.
#[derive(Debug, Clone, Default)]
pub(super) struct SentStream {
    pub(super) phases: Vec<Sent>,
    pub(super) seconds: Vec<Sent>,
}

/// A stream, as its sender has it.
struct Outgoing<'a> {
    id: u16,
    log: &'a TxLog,
    timetable: Schedule,
    /// As many of each size as a call takes.
    frames: Vec<Vec<TrialFrame>>,
    next: Option<Due>,
    /// The phase of the frame that was made ready last, and when that was.
    last: Option<(usize, u64)>,
    /// Frames that the kernel took, which is the next number.
    taken: u64,
    /// So many phases have begun: a frame of the last one was taken.
    begun: usize,
    /// Frames of the call that is being marked, and phases that will have begun with them.
    ready: (u64, usize),
    sent: SentStream,
}

/// A frame of a call.
#[derive(Clone, Copy)]
struct Slot {
    stream: usize,
    /// Which of its sizes.
    size: usize,
    due: Due,
    /// Where the stream was before.
    place: Place,
}

/// The sender of one direction.
pub(super) struct Sender<'a> {
    tx: Transmitter,
    streams: Streams<'a>,
}

/// All streams of a direction, and the frames of the next call.
struct Streams<'a> {
    streams: Vec<Outgoing<'a>>,
    call: Vec<Slot>,
    begin: Begin,
    by: Option<Seconds>,
    board: &'a Board,
    lane: &'a LaneBoard,
    /// Since then the interface takes nothing, CLOCK_MONOTONIC ns.
    refused_since_ns: Option<u64>,
    /// Since then this call met no room, CLOCK_MONOTONIC ns.
    full_since_ns: Option<u64>,
    late_max_ns: u64,
}

/// What a sender needs to know of a stream.
pub(super) struct Template<'a> {
    pub(super) plan: &'a StreamPlan,
    pub(super) log: &'a TxLog,
    /// One frame of each size.
    pub(super) frames: Vec<TrialFrame>,
}

impl<'a> Sender<'a> {
    /// Will send from `begin` on.
    pub(super) fn new(
        tx: Transmitter,
        templates: Vec<Template<'a>>,
        begin: Begin,
        by: Option<Seconds>,
        (board, lane): (&'a Board, &'a LaneBoard),
    ) -> Self {
        let count = templates.len() as f64;
        let stream = |(number, template): (usize, Template<'a>)| Outgoing {
            id: template.plan.id,
            log: template.log,
            timetable: Schedule::new(template.plan.phases.clone(), number as f64 / count, begin.steady_ns),
            frames: template.frames.into_iter().map(|frame| vec![frame; CALL_FRAMES]).collect(),
            next: None,
            last: None,
            taken: 0,
            begun: 0,
            ready: (0, 0),
            sent: SentStream {
                phases: vec![Sent::default(); template.plan.phases.len()],
                seconds: Vec::new(),
            },
        };
        let streams = templates.into_iter().enumerate().map(stream).collect();
        let streams = Streams {
            streams,
            call: Vec::with_capacity(CALL_FRAMES),
            begin,
            by,
            board,
            lane,
            refused_since_ns: None,
            full_since_ns: None,
            late_max_ns: 0,
        };
        Self { tx, streams }
    }

    /// Sends until nothing is left to send, or somebody says stop. What was sent of each stream, and the longest that a
    /// frame was late, ns.
    pub(super) fn run(self) -> Result<(Vec<SentStream>, u64)> {
        let Self { mut tx, mut streams } = self;
        while !streams.board.is_stopped() {
            let due_ns = streams.look(steady_ns());
            streams.note_left_out();
            let Some(due_ns) = due_ns else { break };
            if wait_until(due_ns, || streams.board.is_stopped()) {
                streams.make_ready();
                streams.send(&mut tx)?;
            }
        }
        Ok((streams.streams.into_iter().map(|stream| stream.sent).collect(), streams.late_max_ns))
    }
}

impl Streams<'_> {
    /// Looks when each stream's next frame is due; when the first of them is, or `None` when no stream has one.
    fn look(&mut self, now_ns: u64) -> Option<u64> {
        let is_dead = self.refused_since_ns.is_some_and(|since_ns| now_ns - since_ns > GIVE_UP_NS);
        for stream in &mut self.streams {
            if is_dead {
                stream.timetable.give_up(now_ns);
            }
            stream.next = stream.timetable.next(now_ns);
        }
        self.streams.iter().filter_map(|stream| stream.next).map(|due| due.due_ns).min()
    }

    /// Counts what was due and is not sent, where and when it was due.
    fn note_left_out(&mut self) {
        let is_refused = self.refused_since_ns.is_some();
        for stream in &mut self.streams {
            let late_ns = stream.timetable.late_max_ns();
            // An interface that takes nothing is not the sender's lateness.
            self.late_max_ns = self.late_max_ns.max(if is_refused { 0 } else { late_ns });
            let sent = &mut stream.sent;
            for gap in stream.timetable.left_out() {
                let note = |of: &mut Sent, frames: u64| {
                    let count = if is_refused { &mut of.refused } else { &mut of.left_out };
                    *count += frames;
                };
                note(&mut sent.phases[gap.phase], gap.frames);
                let first_ns = gap.due_ns.wrapping_sub(self.begin.steady_ns).wrapping_add(self.begin.wall_ns);
                if let Some(by) = &self.by {
                    by.split(first_ns, gap.interval_ns, gap.frames, |second, frames| {
                        note(at(&mut sent.seconds, second), frames);
                    });
                }
            }
        }
    }

    /// Collects what is due, the longest due first.
    fn make_ready(&mut self) {
        let now_ns = steady_ns();
        self.call.clear();
        while self.call.len() < CALL_FRAMES {
            let dues = self.streams.iter().enumerate().filter_map(|(at, stream)| Some((stream.next?, at)));
            let Some((due, at)) =
                dues.min_by_key(|(due, _)| due.due_ns).filter(|(due, _)| due.due_ns <= now_ns)
            else {
                break;
            };
            let stream = &mut self.streams[at];
            let ahead = self.call.iter().filter(|slot| slot.stream == at).count() as u64;
            let size = ((stream.taken + ahead) % stream.frames.len() as u64) as usize;
            self.call.push(Slot { stream: at, size, due, place: stream.timetable.place() });
            stream.timetable.take();
            stream.next = stream.timetable.next(now_ns);
            // Without a pace a frame is due right behind the one before it.
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

    /// Sends what was made ready. What there is no room for goes back to its streams, which may find that its time is
    /// over.
    fn send(&mut self, tx: &mut Transmitter) -> Result<()> {
        self.full_since_ns = None;
        let done = tx.send(self)?;
        if done < self.call.len() {
            let now_ns = steady_ns();
            self.give_back(done);
            self.refused_since_ns.get_or_insert(now_ns);
            // There is no room for longer, as when a link is down: no need to use up a core.
            clock::sleep_until(now_ns + NO_ROOM_NS);
        }
        Ok(())
    }

    /// Marks the frames of the call from `from` on with their numbers and with what time it is now.
    fn mark(&mut self, from: usize) -> u64 {
        for stream in &mut self.streams {
            stream.ready = (0, stream.begun);
        }
        let sent_ns = wall_ns();
        for (place, slot) in self.call.iter().enumerate().skip(from) {
            let stream = &mut self.streams[slot.stream];
            let seq = stream.taken + stream.ready.0;
            stream.ready.0 += 1;
            while stream.ready.1 <= slot.due.phase {
                stream.log.begin(stream.ready.1, seq);
                stream.ready.1 += 1;
            }
            stream.log.note(seq, sent_ns);
            stream.frames[slot.size][place].set(&TrialHeader { stream: stream.id, seq, sent_ns });
        }
        sent_ns
    }

    fn count(&mut self, taken: Range<usize>, sent_ns: u64) {
        for slot in &self.call[taken.clone()] {
            let stream = &mut self.streams[slot.stream];
            let bytes = stream.frames[slot.size][0].bytes().len() as u32;
            stream.taken += 1;
            stream.begun = stream.begun.max(slot.due.phase + 1);
            stream.sent.phases[slot.due.phase].take(bytes, sent_ns);
            if let Some(by) = &self.by {
                at(&mut stream.sent.seconds, by.of(sent_ns)).take(bytes, sent_ns);
            }
        }
        self.refused_since_ns = None;
        let sent = self.lane.sent.load(Ordering::Relaxed) + taken.len() as u64;
        self.lane.sent.store(sent, Ordering::Relaxed);
    }

    fn give_back(&mut self, from: usize) {
        for slot in self.call[from..].iter().rev() {
            let stream = &mut self.streams[slot.stream];
            stream.timetable.go_back(slot.place);
            stream.last = None;
        }
    }
}

impl TxCall for Streams<'_> {
    fn len(&self) -> usize {
        self.call.len()
    }

    fn frame(&self, at: usize) -> &[u8] {
        let slot = &self.call[at];
        self.streams[slot.stream].frames[slot.size][at].bytes()
    }

    fn prepare(&mut self, from: usize) -> Option<u64> {
        Some(self.mark(from))
    }

    fn sent(&mut self, frames: Range<usize>, _bytes: u64, offered_ns: u64) {
        self.full_since_ns = None;
        self.count(frames, offered_ns);
    }

    fn obstacle(&mut self, _at: usize, obstacle: Obstacle) -> Result<Next> {
        // An interface that went down may come back: that is an outage, and no end.
        if let Obstacle::Refused(error) | Obstacle::Gone(error) | Obstacle::Other(error) = obstacle {
            return Err(error);
        }
        let now_ns = steady_ns();
        let is_full = now_ns - *self.full_since_ns.get_or_insert(now_ns) > NO_ROOM_NS;
        Ok(if is_full { Next::Stop } else { Next::Retry })
    }
}
