//! Reassembly of TCP in one direction: turns bytes at sequence numbers into bytes at offsets, in order.
//!
//! Bytes in order are delivered directly from the packet; later ones are copied and held. Bytes that the receiver may
//! have refused, in a SYN or sent into a zero window, are tentative: they are held, too, until an acknowledgment or the
//! next bytes confirm them, or other bytes replace them. So are bytes after a reset: an acknowledgment shows that the
//! receiver has ignored it.
//!
//! `begin` decides where a direction begins.

mod begin;

use crate::event::{Cap, EndReason, Event, GapCause, Sender, StreamSink};
use crate::held::{Arrival, Held, OVERLAPS_MAX};
use crate::memory::{Full, Memory};
use crate::plan::{CapAction, StreamPlan, UrgentRule};
use crate::policy::{Extent, StreamPolicy};
use crate::tally::StreamTally;

/// Number of remembered gaps, so that late bytes are not counted as duplicates.
const GAPS: usize = 4;
/// Maximum number of remembered ranges after a hole that the snaplen cut off, and the charge for one: its entry in a
/// half-full list.
const SNAPPED_MAX: usize = 64;
const SNAPPED_COST: u64 = 2 * size_of::<Extent>() as u64;
/// Maximum number of urgent bytes whose offsets are known in advance.
const URGENT_MAX: usize = 8;
/// Distance from the window up to which a segment is the sender's: a window without scale.
const NEAR_BYTES: u64 = 1 << 16;
/// Time that the first bytes of a connection from before the capture wait for an acknowledgment, ns.
const START_WAIT_NS: u64 = 1_000_000_000;
/// Largest window shift (RFC 7323).
pub(crate) const SCALE_MAX: u8 = 14;

/// The sequence number of offset 0 is known.
const STARTED: u8 = 1;
pub(crate) const SYN_SEEN: u8 = 2;
pub(crate) const HAS_SCALE: u8 = 4;
/// Offset 0 is that of the first segment seen.
const MIDSTREAM: u8 = 8;
const EDGE_KNOWN: u8 = 16;
/// The last window that the receiver advertised is zero.
const ZERO_WINDOW: u8 = 32;
/// `far` is the offset of data beyond the window.
const FAR_DATA: u8 = 64;
/// `far` is an acknowledgment beyond the window.
const FAR_ACK: u8 = 128;

/// The state of one direction.
#[derive(Debug)]
pub(crate) struct HalfStream {
    /// Offset of the next byte to deliver (like RCV.NXT).
    next: u64,
    /// Highest acknowledgment (like SND.UNA).
    acked: u64,
    /// Highest right edge of the receiver's window so far.
    edge: u64,
    waiting: Option<Box<Waiting>>,
    /// Sequence number of offset 0.
    base: u32,
    /// The number after another SYN while none has been acknowledged; midstream that of the first segment.
    rival: u32,
    /// Sequence number: see [`FAR_DATA`] and [`FAR_ACK`].
    far: u32,
    flags: u8,
    /// Shift of the windows that this sender advertises.
    pub(crate) scale: u8,
    /// The receiver's policy.
    policy: StreamPolicy,
    end: Option<EndReason>,
}

/// The additional state of a direction that has, or has had, a hole.
#[derive(Debug)]
struct Waiting {
    held: Held,
    /// Offset of a FIN that waits for earlier bytes; `u64::MAX` without one.
    fin: u64,
    /// Time since which the first hole has been waiting, ns.
    since_ns: u64,
    gaps: [Extent; GAPS],
    gap_count: usize,
    snapped: Vec<Extent>,
    urgent: Vec<u64>,
}

/// The reader and the counters.
pub(crate) struct Output<'a, S: ?Sized> {
    pub(crate) tally: &'a mut StreamTally,
    pub(crate) sink: &'a mut S,
    pub(crate) sender: Sender,
}

/// The parts of the lane that a direction uses.
pub(crate) struct Context<'a, S: ?Sized> {
    pub(crate) plan: &'a StreamPlan,
    pub(crate) memory: &'a mut Memory,
    pub(crate) output: Output<'a, S>,
    pub(crate) now_ns: u64,
    /// Charge for the held bytes of the other direction.
    pub(crate) other_cost: u64,
    /// True after a reset that the receiver may have ignored.
    pub(crate) is_reset: bool,
}

impl<S: StreamSink + ?Sized> Output<'_, S> {
    fn event(&mut self, event: Event) {
        self.sink.event(self.sender, event);
    }

    /// Delivers the bytes at `next`, and advances it.
    #[inline]
    fn deliver(&mut self, next: &mut u64, urgent: &mut Vec<u64>, mut bytes: &[u8]) {
        self.tally.delivered_bytes += bytes.len() as u64;
        while !urgent.is_empty() {
            let end = *next + bytes.len() as u64;
            let Some(at) = urgent.iter().copied().filter(|at| (*next..end).contains(at)).min() else { break };
            let (before, rest) = bytes.split_at((at - *next) as usize);
            if !before.is_empty() {
                self.event(Event::Data { offset: *next, bytes: before });
            }
            self.tally.urgent_bytes += 1;
            self.event(Event::Urgent { offset: at, byte: rest[0] });
            (*next, bytes) = (at + 1, &rest[1..]);
            urgent.retain(|other| *other > at);
        }
        if !bytes.is_empty() {
            self.event(Event::Data { offset: *next, bytes });
            *next += bytes.len() as u64;
        }
    }
}

impl Waiting {
    /// Number of bytes in a range that lie in gaps.
    fn in_gaps(&self, start: u64, end: u64) -> u64 {
        let part = |gap: &Extent| gap.end.min(end).saturating_sub(gap.start.max(start));
        self.gaps.iter().map(part).sum()
    }

    /// The first offset after a hole at `next` whose existence is known, other than by acknowledgment.
    fn above(&self) -> u64 {
        self.held.first().map_or(u64::MAX, |first| first.start).min(self.fin)
    }

    /// True if the first hole has waited for `wait_ns`.
    fn has_waited(&self, wait_ns: u64, now_ns: u64) -> bool {
        now_ns >= self.since_ns.saturating_add(wait_ns)
    }

    /// Removes remembered snaplen ranges up to `offset`.
    fn forget_snapped(&mut self, offset: u64, memory: &mut Memory) {
        let before = self.snapped.len();
        self.snapped.retain(|range| range.end > offset);
        memory.discharge((before - self.snapped.len()) as u64 * SNAPPED_COST);
    }

    /// The end of the snaplen range that contains `offset`, or the start of the next one.
    fn snapped_at(&self, offset: u64) -> (bool, u64) {
        let later = self.snapped.iter().filter(|range| range.end > offset);
        let first = later.min_by_key(|range| range.start);
        first.map_or((false, u64::MAX), |range| match range.start <= offset {
            true => (true, range.end),
            false => (false, range.start),
        })
    }
}

impl Waiting {
    /// Moves all offsets by so many bytes.
    fn move_by(&mut self, by: i64) {
        let moved = |offset: u64| offset.saturating_add_signed(by);
        self.held.move_by(by);
        self.fin = if self.fin == u64::MAX { self.fin } else { moved(self.fin) };
        self.snapped
            .iter_mut()
            .for_each(|range| (range.start, range.end) = (moved(range.start), moved(range.end)));
        self.urgent.iter_mut().for_each(|urgent| *urgent = moved(*urgent));
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            held: Held::default(),
            fin: u64::MAX,
            since_ns: 0,
            gaps: [Extent::default(); GAPS],
            gap_count: 0,
            snapped: Vec::new(),
            urgent: Vec::new(),
        }
    }
}

impl HalfStream {
    /// Creates a direction to a receiver with this policy.
    pub(crate) fn new(policy: StreamPolicy) -> Self {
        Self {
            next: 0,
            acked: 0,
            edge: 0,
            waiting: None,
            base: 0,
            rival: 0,
            far: 0,
            flags: 0,
            scale: 0,
            policy,
            end: None,
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_started(&self) -> bool {
        self.has(STARTED)
    }

    /// Offset of the next byte to deliver.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// True if a segment at this number is close enough to the window to be the sender's.
    #[inline]
    pub(crate) fn is_near(&self, sequence: u32, plan: &StreamPlan) -> bool {
        let reach = self.edge.saturating_sub(self.next).saturating_add(plan.window_slack_bytes) + NEAR_BYTES;
        self.offset(sequence).unsigned_abs() <= reach
    }

    pub(crate) fn end(&self) -> Option<EndReason> {
        self.end
    }

    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// Charge for the held bytes.
    pub(crate) fn cost(&self) -> u64 {
        self.waiting.as_ref().map_or(0, |waiting| waiting.held.cost())
    }

    /// The offset of a sequence number, which must be within 2 GiB of the next byte.
    #[inline]
    pub(crate) fn offset(&self, sequence: u32) -> i64 {
        let ahead = sequence.wrapping_sub(self.base.wrapping_add(self.next as u32)) as i32;
        self.next as i64 + i64::from(ahead)
    }

    /// The offset from which on nothing is accepted.
    fn limit(&self, plan: &StreamPlan) -> u64 {
        if !self.has(EDGE_KNOWN) {
            return u64::MAX;
        }
        self.edge.max(self.next).saturating_add(plan.window_slack_bytes)
    }

    /// The offset after the highest byte received.
    fn highest(&self) -> u64 {
        let held = self.waiting.as_ref().and_then(|waiting| waiting.held.end());
        self.next.max(held.unwrap_or(0))
    }

    /// True if the receiver accepts a reset at this offset.
    pub(crate) fn accepts_reset(&self, offset: i64, is_exact: bool, plan: &StreamPlan) -> bool {
        let Ok(offset) = u64::try_from(offset) else { return false };
        let after_fin = self.next + u64::from(self.end == Some(EndReason::Fin));
        let is_at_end = [self.next, after_fin, self.acked.max(self.next), self.highest()].contains(&offset);
        is_at_end || !is_exact && offset >= self.next && offset < self.limit(plan)
    }

    /// True if an acknowledgment matches what this sender has sent.
    pub(crate) fn has_sent(&self, acknowledgment: u32) -> bool {
        (0..=self.highest() as i64).contains(&self.offset(acknowledgment))
    }

    /// True for the offset before the next byte, with which a sender probes an idle receiver.
    #[inline]
    pub(crate) fn is_keep_alive(&self, offset: i64) -> bool {
        offset == self.next as i64 - 1
    }

    /// Processes an acknowledgment of these bytes, and the window advertised with it.
    pub(crate) fn acknowledge<S: StreamSink + ?Sized>(
        &mut self,
        acknowledgment: u32,
        window_bytes: u64,
        cx: &mut Context<S>,
    ) {
        let named = match self.has(MIDSTREAM) && self.next == 0 && self.end.is_none() {
            true => self.agree_on_start(acknowledgment),
            false => u64::try_from(self.offset(acknowledgment)).ok(),
        };
        let Some(offset) = named else { return };
        // A sender in SYN-SENT refuses what it has not sent.
        let limit = if self.is_unanswered() { self.highest() + 1 } else { self.limit(cx.plan) };
        if offset > limit {
            let beyond = self.offset(acknowledgment) - self.offset(self.far);
            let is_named = (0..=cx.plan.window_slack_bytes as i64).contains(&beyond);
            if !self.has(FAR_DATA) || !is_named {
                self.far = acknowledgment;
                self.flags = self.flags & !FAR_DATA | FAR_ACK;
                cx.output.tally.acks_ignored += 1;
                return;
            }
            // The sender has reached it, too: the capture missed the bytes in between.
            self.flags &= !FAR_DATA;
        }
        let fin = match (&self.waiting, self.end) {
            (_, Some(EndReason::Fin)) => self.next,
            (Some(waiting), _) => waiting.fin,
            _ => u64::MAX,
        };
        let edge = offset.saturating_add(window_bytes);
        if offset >= self.acked {
            self.flags &= !ZERO_WINDOW;
            self.flags |= if window_bytes == 0 { ZERO_WINDOW } else { 0 };
        }
        // A receiver takes no acknowledgment back: a higher one before was a stray.
        self.acked = offset.min(fin);
        self.edge = self.edge.max(edge);
        self.flags |= EDGE_KNOWN;
    }

    /// Processes the payload of a segment. Returns the cap that ends both directions, if any.
    pub(crate) fn take<S: StreamSink + ?Sized>(
        &mut self,
        offset: i64,
        payload: &[u8],
        wire_bytes: u32,
        is_in_syn: bool,
        cx: &mut Context<S>,
    ) -> Option<Cap> {
        cx.output.tally.seen_bytes += payload.len() as u64;
        let mut offset = offset;
        if offset < 0 {
            let base = self.base;
            self.take_lower_start(offset, wire_bytes);
            offset += i64::from(base.wrapping_sub(self.base));
        }
        let captured_end = offset + payload.len() as i64;
        let wire_end = (offset + i64::from(wire_bytes)).max(captured_end);
        let before_start = (offset.saturating_neg().max(0) as usize).min(payload.len());
        match payload.len() {
            1 if before_start == 1 => cx.output.tally.refuse_probe(),
            _ => cx.output.tally.before_start_bytes += before_start as u64,
        }
        let new = Arrival {
            start: (offset + before_start as i64).max(0) as u64,
            bytes: &payload[before_start..],
            origin: Extent::default(),
            time_ns: cx.now_ns,
            is_tentative: false,
        };
        let new = self.without_known(new, cx.output.tally);
        let mut stop = None;
        if let Some(mut new) = self.without_refused(new, cx).filter(|new| !new.bytes.is_empty()) {
            let is_probe = new.bytes.len() == 1 && self.has(ZERO_WINDOW) && new.start == self.edge;
            new.is_tentative = new.start == self.next && (is_in_syn || is_probe) || cx.is_reset;
            cx.output.tally.window_probes += u64::from(is_probe && new.is_tentative);
            new.origin = Extent { start: new.start, end: new.end() };
            stop = self.place(new, cx);
        }
        if wire_end > captured_end && self.end.is_none() && stop.is_none() {
            self.note_snapped(captured_end, wire_end, cx);
        }
        stop
    }

    /// Removes bytes before the next one to deliver.
    fn without_known<'a>(&self, mut new: Arrival<'a>, tally: &mut StreamTally) -> Arrival<'a> {
        let known = self.next.saturating_sub(new.start).min(new.bytes.len() as u64);
        if known > 0 {
            let in_gaps = |waiting: &Waiting| waiting.in_gaps(new.start, new.start + known);
            let late = self.waiting.as_deref().map_or(0, in_gaps);
            tally.late_bytes += late;
            tally.duplicate_bytes += known - late;
            new.start += known;
            new.bytes = &new.bytes[known as usize..];
        }
        new
    }

    /// Removes bytes that the receiver does not accept, and those that the reader does not want.
    fn without_refused<'a, S: StreamSink + ?Sized>(
        &mut self,
        mut new: Arrival<'a>,
        cx: &mut Context<S>,
    ) -> Option<Arrival<'a>> {
        if new.bytes.is_empty() {
            return None;
        }
        if new.bytes.len() == 1 && new.start > self.highest() + cx.plan.window_slack_bytes {
            cx.output.tally.refuse_probe();
            return None;
        }
        if let Some(end) = self.end {
            count_after(end, new.bytes.len() as u64, cx.output.tally);
            return None;
        }
        let fin = self.waiting.as_ref().map_or(u64::MAX, |waiting| waiting.fin);
        if new.start >= self.limit(cx.plan) {
            let far = self.offset(self.far).max(0) as u64;
            let reach = cx.plan.window_slack_bytes;
            let is_named = new.start <= far.saturating_add(reach) && far <= new.end().saturating_add(reach);
            if self.has(FAR_ACK) && is_named {
                // The receiver had reached it before: the capture missed the bytes in between.
                self.edge = self.edge.max(far);
                self.acked = self.acked.max(far.min(fin));
                self.flags &= !FAR_ACK;
            } else {
                self.far = self.base.wrapping_add(new.start as u32);
                self.flags = self.flags & !FAR_ACK | FAR_DATA;
            }
        }
        let tally = &mut *cx.output.tally;
        cut_at(&mut new, self.limit(cx.plan), &mut tally.out_of_window_bytes);
        if new.bytes.len() == 1 && new.start >= fin {
            tally.probes_refused += 1;
        }
        cut_at(&mut new, fin, &mut tally.after_end_bytes);
        cut_at(&mut new, cx.plan.cutoff_bytes, &mut tally.beyond_cutoff_bytes);
        Some(new)
    }

    /// Delivers or holds bytes. Returns the cap that ends both directions, if any.
    fn place<S: StreamSink + ?Sized>(&mut self, mut new: Arrival, cx: &mut Context<S>) -> Option<Cap> {
        let mut is_hit = false;
        while !new.bytes.is_empty() {
            if let Some(end) = self.end {
                count_after(end, new.bytes.len() as u64, cx.output.tally);
                return None;
            }
            if new.start == self.next && !new.is_tentative && !self.is_start_open() {
                self.place_in_order(&new, cx);
                return None;
            }
            let cap = match self.hold(&new, cx) {
                Ok(()) => return None,
                Err(cap) => cap,
            };
            cx.output.tally.cap_hits[cap as usize] += u64::from(!std::mem::replace(&mut is_hit, true));
            match cx.plan.action(cap) {
                _ if cx.is_reset => {
                    cx.output.tally.after_end_bytes += new.bytes.len() as u64;
                    return None;
                }
                CapAction::SkipGap => {
                    // Nothing waits any longer for the start to be named.
                    self.flags &= if self.is_start_open() { !MIDSTREAM } else { u8::MAX };
                    let (above, base) =
                        (self.waiting.as_ref().map_or(u64::MAX, |waiting| waiting.above()), self.base);
                    self.skip_to(above.min(new.start), GapCause::Capped(cap), cx);
                    new.move_back(u64::from(self.base.wrapping_sub(base)));
                    self.deliver_first(cx);
                    self.settle(cx);
                    new.is_tentative = false;
                    new = self.without_known(new, cx.output.tally);
                }
                action => {
                    cx.output.tally.capped_bytes[cap as usize] += new.bytes.len() as u64;
                    if action == CapAction::StopFlow {
                        return Some(cap);
                    }
                    self.finish(EndReason::Capped(cap), cx);
                    return None;
                }
            }
        }
        None
    }

    /// Delivers bytes that start at the next one, and held ones among them that win.
    fn place_in_order<S: StreamSink + ?Sized>(&mut self, new: &Arrival, cx: &mut Context<S>) {
        let Some(waiting) = self.waiting.as_deref_mut() else {
            cx.output.deliver(&mut self.next, &mut Vec::new(), new.bytes);
            return;
        };
        let Waiting { held, urgent, .. } = waiting;
        let highest = held.end().unwrap_or(0);
        if held.first().is_some_and(|first| first.start < new.end()) {
            overlay(held, new, self.policy, cx);
            // A FIN may end the stream here.
            held.cut(new.end(), cx.memory);
        }
        while self.next < new.end() {
            let first = held.first().map_or(u64::MAX, |first| first.start);
            if first == self.next {
                pop(held, &mut self.next, urgent, cx);
            } else {
                let from = (self.next - new.start) as usize;
                let end = first.min(new.end());
                cx.output.tally.filled_bytes += end.min(highest).saturating_sub(self.next);
                cx.output.deliver(&mut self.next, urgent, &new.bytes[from..(end - new.start) as usize]);
            }
        }
        waiting.since_ns = cx.now_ns;
    }

    /// Holds early or tentative bytes; returns the cap that forbids it.
    fn hold<S: StreamSink + ?Sized>(&mut self, new: &Arrival, cx: &mut Context<S>) -> Result<(), Cap> {
        let policy = self.policy;
        let waiting = self.waiting.get_or_insert_default();
        let need = waiting.held.need(new, cx.memory, |old, new| policy.new_wins(old, new));
        let own = waiting.held.cost() + need.cost;
        if own > cx.plan.direction.limit_bytes {
            return Err(Cap::Direction);
        }
        if own + cx.other_cost > cx.plan.flow.limit_bytes {
            return Err(Cap::Flow);
        }
        match cx.memory.refusal(need.cost) {
            Some(Full::Lane) => return Err(Cap::Lane),
            Some(Full::Total) => return Err(Cap::Total),
            None => {}
        }
        if waiting.above() == u64::MAX {
            waiting.since_ns = cx.now_ns;
        }
        if need.overlaps > 0 {
            overlay(&mut waiting.held, new, policy, cx);
        }
        // All held bytes lie below the highest byte, so new bytes there lie in holes.
        let highest = waiting.held.end().unwrap_or(0);
        let below = new.end().min(highest).saturating_sub(new.start);
        cx.output.tally.filled_bytes += below.saturating_sub(new.bytes.len() as u64 - need.bytes);
        waiting.held.insert(new, cx.memory);
        cx.output.tally.held_bytes += need.bytes;
        let merge_cost = Held::merge_cost(new);
        let own = waiting.held.cost() + merge_cost;
        let fits = own <= cx.plan.direction.limit_bytes && own + cx.other_cost <= cx.plan.flow.limit_bytes;
        if need.overlaps > OVERLAPS_MAX && fits && cx.memory.refusal(merge_cost).is_none() {
            waiting.held.merge(new, cx.memory);
        }
        Ok(())
    }

    /// Remembers a range that the snaplen cut off.
    fn note_snapped<S: StreamSink + ?Sized>(&mut self, from: i64, to: i64, cx: &mut Context<S>) {
        let fin = self.waiting.as_ref().map_or(u64::MAX, |waiting| waiting.fin);
        let end = (to.max(0) as u64).min(fin).min(cx.plan.cutoff_bytes).min(self.limit(cx.plan));
        let start = (from.max(0) as u64).max(self.next);
        if start >= end {
            return;
        }
        if start == self.next && self.waiting.is_none() {
            self.declare(end, GapCause::Snapped, &mut cx.output);
            return;
        }
        let next = self.next;
        let waiting = self.waiting.get_or_insert_default();
        waiting.forget_snapped(next, cx.memory);
        if waiting.snapped.len() < SNAPPED_MAX && cx.memory.refusal(SNAPPED_COST).is_none() {
            cx.memory.charge(SNAPPED_COST);
            waiting.snapped.push(Extent { start, end });
        }
    }

    /// Remembers the urgent byte that the pointer of a segment at `offset` names.
    pub(crate) fn note_urgent(&mut self, offset: i64, pointer: u16, plan: &StreamPlan) {
        let at = offset + i64::from(pointer) - 1;
        if plan.urgent == UrgentRule::Inline || pointer == 0 || at < self.next as i64 || self.end.is_some() {
            return;
        }
        let next = self.next;
        let waiting = self.waiting.get_or_insert_default();
        waiting.urgent.retain(|urgent| *urgent >= next);
        if waiting.urgent.len() < URGENT_MAX && !waiting.urgent.contains(&(at as u64)) {
            waiting.urgent.push(at as u64);
        }
    }

    /// Processes a FIN after the byte before `offset`.
    pub(crate) fn take_fin<S: StreamSink + ?Sized>(&mut self, offset: i64, cx: &mut Context<S>) {
        if self.end.is_some() || cx.is_reset {
            return;
        }
        let is_taken = (self.next as i64..).contains(&offset) && offset as u64 <= self.limit(cx.plan);
        if !is_taken {
            cx.output.tally.fins_ignored += 1;
            return;
        }
        let offset = offset as u64;
        if offset == self.next && self.waiting.is_none() {
            self.finish(EndReason::Fin, cx);
            return;
        }
        let waiting = self.waiting.get_or_insert_default();
        if waiting.above() == u64::MAX {
            waiting.since_ns = cx.now_ns;
        }
        waiting.fin = waiting.fin.min(offset);
        let dropped = waiting.held.truncate(waiting.fin, cx.memory);
        cx.output.tally.held_bytes -= dropped;
        count_after(EndReason::Fin, dropped, cx.output.tally);
        self.acked = self.acked.min(waiting.fin);
    }

    /// Delivers everything that is known to be next; ends the stream at its FIN or at the cut-off.
    pub(crate) fn settle<S: StreamSink + ?Sized>(&mut self, cx: &mut Context<S>) {
        while self.end.is_none() {
            let is_at_fin = self.waiting.as_ref().is_some_and(|waiting| waiting.fin == self.next);
            if is_at_fin || self.next >= cx.plan.cutoff_bytes {
                self.finish(if is_at_fin { EndReason::Fin } else { EndReason::Cutoff }, cx);
                return;
            }
            let Some(waiting) = self.waiting.as_deref_mut() else { return };
            let above = waiting.above();
            if waiting.held.first().is_some_and(|first| first.start == self.next) {
                let is_open = self.flags & (MIDSTREAM | EDGE_KNOWN) == MIDSTREAM && self.next == 0;
                if is_open || !confirm(&mut waiting.held, self.acked, cx) {
                    return;
                }
                pop(&mut waiting.held, &mut self.next, &mut waiting.urgent, cx);
                waiting.since_ns = cx.now_ns;
            } else if cx.is_reset {
                return;
            } else if let (true, end) = waiting.snapped_at(self.next) {
                self.declare(end.min(above), GapCause::Snapped, &mut cx.output);
            } else if above <= self.acked && waiting.has_waited(cx.plan.ack_wait_ns, cx.now_ns) {
                self.skip_to(above, GapCause::Acknowledged, cx);
            } else {
                return;
            }
        }
    }

    /// Declares the bytes up to `to` missing; those cut off by the snaplen are separate gaps.
    fn skip_to<S: StreamSink + ?Sized>(&mut self, to: u64, cause: GapCause, cx: &mut Context<S>) {
        let mut to = to.min(cx.plan.cutoff_bytes);
        if self.next == 0 && self.has(MIDSTREAM) && self.end.is_none() {
            to = self.skip_start(to);
        }
        while self.next < to {
            let snapped =
                self.waiting.as_ref().map_or((false, u64::MAX), |waiting| waiting.snapped_at(self.next));
            let cause = if snapped.0 { GapCause::Snapped } else { cause };
            self.declare(snapped.1.min(to), cause, &mut cx.output);
        }
    }

    /// Declares one gap.
    fn declare<S: StreamSink + ?Sized>(&mut self, to: u64, cause: GapCause, output: &mut Output<S>) {
        let gap = Extent { start: self.next, end: to };
        let lost_bytes = gap.end - gap.start;
        output.tally.gaps[cause.index()] += 1;
        output.tally.gap_bytes[cause.index()] += lost_bytes;
        // A capture with a snaplen has a gap after each segment: those are not remembered.
        if cause != GapCause::Snapped {
            let waiting = self.waiting.get_or_insert_default();
            waiting.gaps[waiting.gap_count % GAPS] = gap;
            waiting.gap_count += 1;
        }
        output.event(Event::Gap { offset: gap.start, lost_bytes, cause });
        self.next = to;
    }

    /// Delivers the first held bytes if they are next.
    fn deliver_first<S: StreamSink + ?Sized>(&mut self, cx: &mut Context<S>) {
        let Some(waiting) = self.waiting.as_deref_mut() else { return };
        if waiting.held.first().is_some_and(|first| first.start == self.next) {
            pop(&mut waiting.held, &mut self.next, &mut waiting.urgent, cx);
        }
    }

    /// Time at which the first hole has waited long enough, ns; `u64::MAX` without one.
    pub(crate) fn due_ns(&self, plan: &StreamPlan) -> u64 {
        let waiting = self.waiting.as_ref().filter(|waiting| waiting.above() != u64::MAX);
        waiting.map_or(u64::MAX, |waiting| {
            let is_acknowledged = waiting.above() <= self.acked;
            if self.is_start_open() {
                return waiting.since_ns.saturating_add(START_WAIT_NS.min(plan.hole_wait_ns));
            }
            let wait_ns = if is_acknowledged { plan.ack_wait_ns } else { plan.hole_wait_ns };
            waiting.since_ns.saturating_add(wait_ns)
        })
    }

    /// Skips holes that have waited long enough.
    pub(crate) fn tick<S: StreamSink + ?Sized>(&mut self, cx: &mut Context<S>) {
        while self.due_ns(cx.plan) <= cx.now_ns && self.due_ns(cx.plan) != u64::MAX {
            self.skip_hole(self.cause(GapCause::Time), cx);
            // The next hole is at most as old as the bytes after it.
            if let Some(waiting) = self.waiting.as_deref_mut() {
                waiting.since_ns = waiting.held.first().map_or(cx.now_ns, |first| first.time_ns);
            }
        }
    }

    /// The cause of the first hole: the receiver's acknowledgment if there is one, otherwise `cause`.
    fn cause(&self, cause: GapCause) -> GapCause {
        let is_acknowledged = self.waiting.as_ref().is_some_and(|waiting| waiting.above() <= self.acked);
        if is_acknowledged { GapCause::Acknowledged } else { cause }
    }

    /// Declares the first hole a gap, and delivers the bytes after it.
    fn skip_hole<S: StreamSink + ?Sized>(&mut self, cause: GapCause, cx: &mut Context<S>) {
        let above = self.waiting.as_ref().map_or(self.next, |waiting| waiting.above());
        self.skip_to(above, cause, cx);
        self.deliver_first(cx);
        self.settle(cx);
    }

    /// Delivers all held bytes, with gaps in between; then ends the stream.
    pub(crate) fn flush<S: StreamSink + ?Sized>(&mut self, reason: EndReason, cx: &mut Context<S>) {
        if !self.is_started() {
            self.end = Some(reason);
        }
        if reason == EndReason::Reset {
            self.drop_tentative(cx);
        }
        while self.waiting.as_ref().is_some_and(|waiting| waiting.above() != u64::MAX) {
            self.skip_hole(self.cause(GapCause::Ended), cx);
        }
        if self.end.is_some() {
            return;
        }
        if self.acked == self.next + 1 {
            cx.output.tally.fins_unseen += 1;
        } else {
            self.skip_to(self.acked, GapCause::Acknowledged, cx);
        }
        self.finish(reason, cx);
    }

    /// Ends the stream here and drops held bytes.
    pub(crate) fn finish<S: StreamSink + ?Sized>(&mut self, reason: EndReason, cx: &mut Context<S>) {
        if self.end.is_some() {
            return;
        }
        if let Some(mut waiting) = self.waiting.take() {
            waiting.forget_snapped(u64::MAX, cx.memory);
            let dropped = waiting.held.truncate(0, cx.memory);
            cx.output.tally.held_bytes -= dropped;
            count_after(reason, dropped, cx.output.tally);
        }
        self.end = Some(reason);
        cx.output.event(Event::End { offset: self.next, reason });
    }
}

/// Counts bytes after the end. A single one there is a keep-alive.
fn count_after(end: EndReason, bytes: u64, tally: &mut StreamTally) {
    match end {
        EndReason::Fin | EndReason::Reset | EndReason::Finished => {
            tally.after_end_bytes += bytes;
            tally.probes_refused += u64::from(bytes == 1);
        }
        EndReason::Cutoff => tally.beyond_cutoff_bytes += bytes,
        EndReason::Capped(cap) => tally.capped_bytes[cap as usize] += bytes,
    }
}

/// Removes and counts the bytes from `offset` on.
fn cut_at(new: &mut Arrival, offset: u64, count: &mut u64) {
    let kept = offset.saturating_sub(new.start).min(new.bytes.len() as u64);
    *count += new.bytes.len() as u64 - kept;
    new.bytes = &new.bytes[..kept as usize];
}

/// Decides about bytes of which another version is held.
fn overlay<S: StreamSink + ?Sized>(
    held: &mut Held,
    new: &Arrival,
    policy: StreamPolicy,
    cx: &mut Context<S>,
) {
    let output = &mut cx.output;
    let wins = |old, new| policy.new_wins(old, new);
    let overlap =
        held.overlay(new, cx.memory, wins, |difference| output.event(Event::Difference(difference)));
    output.tally.duplicate_bytes += overlap.duplicate;
    output.tally.overlapped_bytes += overlap.overlapped;
    output.tally.differences += overlap.differences;
}

/// Delivers the first chunk, which is next.
fn pop<S: StreamSink + ?Sized>(held: &mut Held, next: &mut u64, urgent: &mut Vec<u64>, cx: &mut Context<S>) {
    let output = &mut cx.output;
    held.pop(cx.memory, |_, bytes| {
        output.tally.held_bytes -= bytes.len() as u64;
        output.deliver(next, urgent, bytes);
    });
}

/// True if the first chunk is, or has become, confirmed. A partly acknowledged chunk is split there.
fn confirm<S: ?Sized>(held: &mut Held, acked: u64, cx: &mut Context<S>) -> bool {
    let Some(first) = held.first().filter(|first| first.is_tentative) else { return true };
    let is_confirmed = acked > first.start || !cx.is_reset && held.is_followed();
    if acked > first.start {
        held.cut(acked, cx.memory);
    }
    if is_confirmed {
        held.confirm_first();
    }
    is_confirmed
}
