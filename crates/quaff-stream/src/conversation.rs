//! A TCP connection as seen on the wire: handshake, data, acknowledgments, the ends of both directions.
//!
//! The observer may see only one direction, start midstream, and miss any packet. Segments that the endpoints ignore
//! are ignored: resets and acknowledgments that they do not accept, SYNs in an established connection, data after FIN
//! ([`quaff_wire::net::agreement`] has the rules). A reset that they would accept ends the connection when it leaves
//! the table: until then an acknowledgment of later bytes shows that it was ignored.

use crate::event::{Cap, EndReason, Presence, Segment, Sender, StreamSink};
use crate::half::{Context, HAS_SCALE, HalfStream, Output, SCALE_MAX, SYN_SEEN};
use crate::memory::{Memory, SharedMemory};
use crate::plan::{ResetRule, StreamPlan};
use crate::policy::StreamPolicy;
use crate::tally::StreamTally;
use quaff_wire::net::agreement::{ACK, FIN, RST, SYN};
use std::sync::Arc;

const URG: u8 = 32;

/// The state that all connections of a lane share: rules, memory, counters.
#[derive(Debug)]
pub struct StreamLane {
    plan: StreamPlan,
    memory: Memory,
    tally: StreamTally,
}

impl StreamLane {
    /// Creates a lane with a limit of its own, and one that it shares with other lanes.
    pub fn new(plan: StreamPlan, shared: Option<Arc<SharedMemory>>) -> Self {
        let memory = Memory::new(plan.lane.limit_bytes, shared);
        Self { plan, memory, tally: StreamTally::default() }
    }

    /// The counters of all connections so far.
    pub fn tally(&self) -> &StreamTally {
        &self.tally
    }

    /// Continues with other counters, if `is_wanted`: those of one connection instead of all others.
    #[inline]
    pub(crate) fn swap_tally_if(&mut self, is_wanted: bool, tally: &mut StreamTally) {
        if is_wanted {
            std::mem::swap(&mut self.tally, tally);
        }
    }

    /// Bytes charged for held data: at most the lane's limit, plus some records.
    pub fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }
}

/// The outcome of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    Taken,
    /// The segment is a SYN of a new connection with the same addresses and ports, and was not processed: the caller
    /// ends this connection and starts a new one with it.
    IsNewConnection,
}

/// A connection. The caller must end it with [`Conversation::finish`], which returns its memory to the lane.
#[derive(Debug)]
pub struct Conversation {
    a: HalfStream,
    b: HalfStream,
    client: Option<Sender>,
    /// The host whose reset was captured, one that the receiver accepts unless it has reasons to ignore it.
    reset_by: Option<Sender>,
}

impl Conversation {
    /// Creates a connection of two hosts, each with its reassembly policy.
    pub fn new(host_a: StreamPolicy, host_b: StreamPolicy) -> Self {
        // The policy of the receiver applies.
        Self { a: HalfStream::new(host_b), b: HalfStream::new(host_a), client: None, reset_by: None }
    }

    /// The host that opened the connection, if its SYN or the SYN-ACK was seen.
    pub fn client(&self) -> Option<Sender> {
        self.client
    }

    /// The host that reset the connection.
    pub(crate) fn reset_by(&self) -> Option<Sender> {
        self.reset_by
    }

    /// True if the SYN of this host was captured.
    pub(crate) fn has_syn(&self, sender: Sender) -> bool {
        let half = if sender == Sender::A { &self.a } else { &self.b };
        half.has(SYN_SEEN)
    }

    /// The presence of this host in the capture.
    pub(crate) fn presence(&self, sender: Sender) -> Presence {
        let half = if sender == Sender::A { &self.a } else { &self.b };
        match (half.is_started(), half.is_named()) {
            (true, _) => Presence::Captured,
            (false, true) => Presence::Acknowledged,
            (false, false) => Presence::Absent,
        }
    }

    /// True if a SYN is far from the place of its sender in this connection.
    pub(crate) fn is_far(&self, sender: Sender, segment: &Segment, lane: &StreamLane) -> bool {
        let half = if sender == Sender::A { &self.a } else { &self.b };
        half.is_started() && !half.is_near(segment.sequence, &lane.plan)
    }

    /// True if every direction in which a segment was seen has ended.
    pub fn is_closed(&self) -> bool {
        if self.reset_by.is_some() {
            return true;
        }
        let is_over = |half: &HalfStream| half.end().is_some() || !half.is_started();
        (self.a.end().is_some() || self.b.end().is_some()) && is_over(&self.a) && is_over(&self.b)
    }

    /// Time at which [`Self::tick`] must be called, ns; `u64::MAX` if nothing is held.
    pub fn due_ns(&self, lane: &StreamLane) -> u64 {
        if self.reset_by.is_some() {
            return u64::MAX;
        }
        self.a.due_ns(&lane.plan).min(self.b.due_ns(&lane.plan))
    }

    /// Processes a segment.
    pub fn segment<S: StreamSink + ?Sized>(
        &mut self,
        sender: Sender,
        segment: &Segment,
        lane: &mut StreamLane,
        sink: &mut S,
    ) -> Outcome {
        let is_syn = segment.flags & (SYN | RST) == SYN;
        if is_syn && self.is_new_connection(sender, segment) {
            return Outcome::IsNewConnection;
        }
        lane.tally.segments += 1;
        if segment.flags & RST != 0 {
            self.take_reset(sender, segment, lane);
            return Outcome::Taken;
        }
        if is_syn && !self.take_syn(sender, segment, lane) {
            lane.tally.syns_ignored += 1;
            lane.tally.seen_bytes += segment.payload.len() as u64;
            lane.tally.out_of_window_bytes += segment.payload.len() as u64;
            return Outcome::Taken;
        }
        // A reset that came first was one of another connection.
        if !self.a.is_started() && !self.b.is_started() {
            self.reset_by = None;
        }
        let is_reset = self.reset_by.is_some();
        let (own, other) = self.halves(sender);
        if !is_syn && (own.is_open_to_agreement() || other.is_open_to_agreement()) {
            agree(own, other, segment, lane);
        }
        if !own.is_started() {
            own.start_midstream(segment.sequence, &mut lane.tally);
        } else if segment.wire_bytes > 0 || segment.flags & FIN != 0 {
            own.skip_keep_alive(segment.sequence);
        }
        let mut is_alive = false;
        if segment.flags & ACK != 0 && (is_syn || own.is_near(segment.sequence, &lane.plan)) {
            let window = u64::from(segment.window) << window_shift(own, other, is_syn);
            if other.is_started() {
                let next = other.next();
                let mut cx = context(lane, sink, sender.other(), segment.time_ns, own.cost());
                cx.is_reset = is_reset;
                other.acknowledge(segment.acknowledgment, window, &mut cx);
                other.settle(&mut cx);
                is_alive = is_reset && other.next() > next;
            } else {
                other.name_start(segment.acknowledgment, window);
            }
        }
        let mut cx = context(lane, sink, sender, segment.time_ns, other.cost());
        cx.is_reset = is_reset && !is_alive;
        if let Some(cap) = take_bytes(own, segment, is_syn, &mut cx) {
            own.finish(EndReason::Capped(cap), &mut cx);
            let mut cx = context(lane, sink, sender.other(), segment.time_ns, 0);
            other.finish(EndReason::Capped(cap), &mut cx);
        }
        if is_alive {
            self.revive(sender, segment.time_ns, lane, sink);
        }
        Outcome::Taken
    }

    /// True for a SYN that cannot belong to this connection, which has ended.
    fn is_new_connection(&self, sender: Sender, segment: &Segment) -> bool {
        let (own, other) = if sender == Sender::A { (&self.a, &self.b) } else { (&self.b, &self.a) };
        let is_known = own.is_started() && own.base() == segment.sequence.wrapping_add(1);
        // A capture may contain one direction completely before the other. After a reset, a SYN-ACK answers another
        // SYN.
        let is_first = !own.is_started() && own.end().is_none() && self.reset_by.is_none();
        let is_answer = segment.flags & ACK != 0 && is_first && other.base() == segment.acknowledgment;
        self.is_closed() && !is_known && !is_answer
    }

    /// The half-streams of `sender` and of the other host.
    fn halves(&mut self, sender: Sender) -> (&mut HalfStream, &mut HalfStream) {
        match sender {
            Sender::A => (&mut self.a, &mut self.b),
            Sender::B => (&mut self.b, &mut self.a),
        }
    }

    /// Processes a SYN; returns false if the receiver ignores it.
    fn take_syn(&mut self, sender: Sender, segment: &Segment, lane: &mut StreamLane) -> bool {
        let (own, other) = self.halves(sender);
        let base = segment.sequence.wrapping_add(1);
        let is_answer = segment.flags & ACK != 0;
        if is_answer {
            other.choose(segment.acknowledgment, &mut lane.memory, &mut lane.tally);
        }
        let answers_syn = is_answer && other.has(SYN_SEEN) && other.has_sent(segment.acknowledgment);
        let is_unacceptable = is_answer && other.is_unanswered() && !answers_syn;
        if is_unacceptable || !own.may_start_at(base, answers_syn) {
            return false;
        }
        let is_begun = !own.is_started() || own.base() != base || !own.has(SYN_SEEN);
        if !own.is_started() || own.base() != base {
            own.start_at_syn(base, segment.window_scale, &mut lane.memory, &mut lane.tally);
        } else if !own.has(SYN_SEEN) {
            // The SYN-ACK came first, and perhaps held data.
            own.note_syn(segment.window_scale);
        }
        // The SYN was not captured.
        let is_named = is_answer && !other.has(SYN_SEEN);
        if is_named
            && (!other.is_started() || other.is_untouched() && !other.has_sent(segment.acknowledgment))
        {
            other.start(segment.acknowledgment, 0, &mut lane.memory, &mut lane.tally);
        }
        let client = if is_answer { sender.other() } else { sender };
        if is_begun {
            self.client = Some(client);
        }
        true
    }

    /// Processes a reset if the receiver accepts it. Its payload is not stream data.
    fn take_reset(&mut self, sender: Sender, segment: &Segment, lane: &mut StreamLane) {
        lane.tally.seen_bytes += segment.payload.len() as u64;
        lane.tally.after_end_bytes += segment.payload.len() as u64;
        let is_exact = lane.plan.reset == ResetRule::Exact;
        let (own, other) = self.halves(sender);
        let is_acknowledged = segment.flags & ACK != 0 && other.has_sent(segment.acknowledgment);
        let is_accepted = match own.is_started() {
            // A reset that answers a SYN acknowledges its number.
            _ if other.is_unanswered() && is_acknowledged => true,
            true => own.accepts_reset(own.offset(segment.sequence), is_exact, &lane.plan),
            // Otherwise the capture started here.
            false => !other.is_started() || is_acknowledged,
        };
        if !is_accepted {
            lane.tally.resets_ignored += 1;
            return;
        }
        self.reset_by.get_or_insert(sender);
    }

    /// Continues after a reset that the receiver has ignored: what came since then is that of a living connection.
    #[cold]
    fn revive<S: StreamSink + ?Sized>(
        &mut self,
        sender: Sender,
        now_ns: u64,
        lane: &mut StreamLane,
        sink: &mut S,
    ) {
        self.reset_by = None;
        lane.tally.resets_ignored += 1;
        for sender in [sender, sender.other()] {
            let (own, other) = self.halves(sender);
            own.settle(&mut context(lane, sink, sender, now_ns, other.cost()));
        }
    }

    /// Skips holes that have waited long enough at `now_ns`.
    pub fn tick<S: StreamSink + ?Sized>(&mut self, now_ns: u64, lane: &mut StreamLane, sink: &mut S) {
        if self.reset_by.is_some() {
            return;
        }
        for sender in [Sender::A, Sender::B] {
            let (own, other) = self.halves(sender);
            own.tick(&mut context(lane, sink, sender, now_ns, other.cost()));
        }
    }

    /// Ends the direction of `sender` at the next byte: its reader wants no more.
    pub fn cut<S: StreamSink + ?Sized>(&mut self, sender: Sender, lane: &mut StreamLane, sink: &mut S) {
        let (own, other) = self.halves(sender);
        own.finish(EndReason::Cutoff, &mut context(lane, sink, sender, 0, other.cost()));
    }

    /// Delivers all held bytes, with gaps in between, and ends both directions.
    pub fn finish<S: StreamSink + ?Sized>(&mut self, lane: &mut StreamLane, sink: &mut S) {
        let reason = if self.reset_by.is_some() { EndReason::Reset } else { EndReason::Finished };
        for sender in [Sender::A, Sender::B] {
            let (own, other) = self.halves(sender);
            own.flush(reason, &mut context(lane, sink, sender, 0, other.cost()));
            lane.tally.syns_unseen += u64::from(own.is_midstream() && other.has(SYN_SEEN));
        }
    }
}

fn context<'a, S: StreamSink + ?Sized>(
    lane: &'a mut StreamLane,
    sink: &'a mut S,
    sender: Sender,
    now_ns: u64,
    other_cost: u64,
) -> Context<'a, S> {
    let output = Output { tally: &mut lane.tally, sink, sender };
    Context { plan: &lane.plan, memory: &mut lane.memory, output, now_ns, other_cost, is_reset: false }
}

/// Lets a segment decide about a begin that one end alone has named.
#[cold]
fn agree(own: &mut HalfStream, other: &mut HalfStream, segment: &Segment, lane: &mut StreamLane) {
    let StreamLane { memory, tally, .. } = lane;
    if segment.flags & ACK != 0 {
        other.choose(segment.acknowledgment, memory, tally);
    }
    if own.is_started() {
        own.choose(segment.sequence, memory, tally);
        own.leave_stray_start(segment.sequence, memory, tally);
    }
}

/// The shift of the windows that `own` advertises; it applies if both SYNs have the option. Without its SYN the largest
/// shift is assumed.
fn window_shift(own: &HalfStream, other: &HalfStream, is_syn: bool) -> u8 {
    let is_refused = |half: &HalfStream| half.has(SYN_SEEN) && !half.has(HAS_SCALE);
    match own.has(SYN_SEEN) {
        _ if is_syn || is_refused(own) || is_refused(other) => 0,
        true => own.scale,
        false => SCALE_MAX,
    }
}

/// Processes payload, urgent pointer and FIN. Returns the cap that ends both directions, if any.
#[inline]
fn take_bytes<S: StreamSink + ?Sized>(
    own: &mut HalfStream,
    segment: &Segment,
    is_syn: bool,
    cx: &mut Context<S>,
) -> Option<Cap> {
    let offset = own.offset(segment.sequence.wrapping_add(u32::from(is_syn)));
    let wire_bytes = segment.wire_bytes.max(segment.payload.len() as u32);
    let is_before_next = segment.payload.len() <= 1 && own.is_keep_alive(offset);
    cx.output.tally.keep_alives += u64::from(is_before_next && segment.flags & (SYN | FIN) == 0);
    if segment.flags & URG != 0 {
        own.note_urgent(offset, segment.urgent, cx.plan);
    }
    let mut stop = None;
    if wire_bytes > 0 {
        stop = own.take(offset, segment.payload, wire_bytes, is_syn, cx);
    }
    if segment.flags & FIN != 0 && stop.is_none() {
        own.take_fin(offset + i64::from(wire_bytes), cx);
    }
    own.settle(cx);
    stop
}
