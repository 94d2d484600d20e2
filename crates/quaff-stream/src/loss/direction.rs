//! One direction of a connection by sequence numbers alone: received bytes, holes between them, and the receiver's
//! acknowledgments. It stores no payload, and does not know the other direction.
//!
//! Two witnesses prove a loss. The sender named a number at or after the end of the missing bytes in a captured packet,
//! so it has sent them; an empty segment counts only if the acknowledgment has the same number, and if no data below it
//! follow. The receiver's latest acknowledgment covers them: one that a later, lower one contradicts was a
//! stray, and one beyond all numbers that the sender has named waits until the sender reaches it. A loss is declared
//! 100 ms after both, or at the end of the connection, since files of several queues are not in order.
//!
//! | state | entered by | evidence |
//! |---|---|---|
//! | unknown | the first packet of either endpoint | none |
//! | settled | SYN or SYN-ACK | everything from here on |
//! | unsettled | another first segment, or a leap | none: older segments may be in flight |
//! | settled | new data, after a time without signs of recovery | everything from here on |
//! | another connection | data after FIN, new data after RST | `LossMeter` starts again |

use super::holes::{Hole, HoleList, Holes, LIST_MAX, ahead};
use super::sums::{Run, SEGMENT_BYTES, Sums};
use quaff_wire::net::agreement::{FIN, SYN};

/// Maximum step of sequence numbers and acknowledgments, bytes. After a larger one the direction starts again.
const JUMP_MAX: i64 = 128 << 20;
/// Bytes after the last acknowledgment from which on it proves nothing: numbers wrap at 4 GiB.
const STALE_BYTES: i64 = 1 << 30;
/// Time that an acknowledged hole waits: packets of several queues may be stored out of order.
const HOLE_WAIT_NS: u64 = 100_000_000;
/// Maximum distance of a segment from the highest byte at which its acknowledgment counts: a random number is farther
/// away.
const NEAR_BYTES: i64 = 16 << 20;
/// Maximum distance of a first segment from the begin that the other end, or a SYN, has named.
const BEGIN_APART: i64 = 1 << 20;
/// Distance from a single byte beyond a hole up to which its sender continues after it.
const ONE_APART: i64 = 1 << 16;
/// Segments from which on a direction's longest segment is known; and weight of the file's mean size before, in
/// segments.
const SEGMENTS_KNOWN: u32 = 64;
const SEGMENTS_PRIOR: f64 = 4.0;

/// Times that a direction without SYN waits before it settles: initially, after a sign of recovery, and at most. The
/// maximum is for captures that lose packets constantly, whose gaps look like recovery.
const SETTLE_NS: u64 = 1_000_000_000;
const RECOVERY_NS: u64 = 3_000_000_000;
const SETTLE_NS_MAX: u64 = 10_000_000_000;
/// Segments with new data that settling also requires: initially, and after the maximum time.
const SETTLE_SEGMENTS: u32 = 8;
const SETTLE_SEGMENTS_MAX: u32 = 100;

/// The number of the first byte is known.
const STARTED: u32 = 1;
/// The SYN was captured.
pub(super) const SYN_SEEN: u32 = 2;
/// Segments count from now on.
const SETTLED: u32 = 4;
/// `fin` is known.
const FIN_SEEN: u32 = 8;
/// Acknowledgments of the receiver were captured.
pub(super) const ACK_SEEN: u32 = 16;
/// `far` is the end of a segment that leapt.
const FAR: u32 = 32;
/// The capture lost a part of it.
const LOST: u32 = 64;
/// Its first segment was not a SYN.
const MIDSTREAM: u32 = 128;
/// A segment of its sender was captured.
pub(super) const SENT: u32 = 256;
/// `acked` is beyond all numbers that the sender has named.
const BEYOND: u32 = 512;
/// `acked` follows `top` at a distance: there was no acknowledgment for 1 GiB.
const STALE: u32 = 1024;
/// `far_acked` is an acknowledgment that leapt.
const FAR_ACKED: u32 = 2048;
/// Its numbers have leapt; the second flag: the receiver has not confirmed it.
const LEAPT: u32 = 4096;
const LEAP_OPEN: u32 = 8192;
/// `named` is the number of an empty segment of the sender.
const NAMED: u32 = 1 << 14;
/// Data were captured in a segment without SYN and FIN.
const DATA: u32 = 1 << 15;
/// Both ends have named the begin, or it is that of the first segment seen.
pub(super) const AGREED: u32 = 1 << 16;
/// The receiver has named a number beyond all of the sender's twice: it is no stray.
const CONFIRMED: u32 = 1 << 17;
/// `named` is a single byte beyond a hole: a keep-alive with other numbers, unless its sender continues after it.
const ONE: u32 = 1 << 18;
/// A second packet has named the begin; the second flag: one has named another begin before that.
const NAMED_TWICE: u32 = 1 << 19;
const DISPUTED: u32 = 1 << 20;
/// Before it has begun: the capture has lasted for long enough to have its SYN.
pub(super) const WATCHED: u32 = 1 << 21;
/// Its SYN or SYN-ACK should have been captured, and was not.
const SYN_LACKING: u32 = 1 << 22;
/// A reset of its sender was captured, which is no witness.
pub(super) const RESET_SENT: u32 = 1 << 23;
/// A SYN or SYN-ACK of its sender was captured, whatever its number.
pub(super) const SYN_SENT: u32 = 1 << 24;
/// It is of a connection between ports that were used before, or that a stray has divided in two.
pub(super) const AGAIN: u32 = 1 << 25;
/// Flags of the sender, which stay when a direction begins.
const OF_SENDER: u32 = RESET_SENT | SYN_SENT | AGAIN;

/// The state of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Direction {
    /// Number of the first byte that counts.
    base: u32,
    /// Number after the highest byte received.
    top: u32,
    /// Latest acknowledgment.
    acked: u32,
    far: u32,
    far_acked: u32,
    named: u32,
    fin: u32,
    flags: u32,
    /// Interface of its latest segment.
    interface: u16,
    holes: HoleList,
    /// Segments with new bytes, those of them before the latest acknowledgment, and retransmitted ones.
    segments: u32,
    acked_segments: u32,
    repeated_segments: u32,
    largest_bytes: u32,
    bytes: u64,
    /// Time at which `top` was set, ns since 1970; while unsettled, the time from which on it may settle.
    top_ns: u64,
    /// Time of the latest acknowledgment beyond `top`; while unsettled, the time since which it is unsettled.
    since_ns: u64,
    /// Position of the first acknowledgment beyond `top` in the order of all segments.
    beyond_place: u32,
}

/// The parts of the meter that a direction uses.
pub(super) struct Context<'a> {
    pub(super) holes: &'a mut Holes,
    pub(super) sums: &'a mut Sums,
    pub(super) now_ns: u64,
    /// True if the segment is a copy of an earlier one, which a mirror port saw twice.
    pub(super) is_copy: bool,
    /// Bytes declared lost in directions with data.
    pub(super) lost_bytes: u32,
    /// True once the segment has acknowledged new bytes: both ends are alive.
    pub(super) is_alive: bool,
}

impl<'a> Context<'a> {
    pub(super) fn new(holes: &'a mut Holes, sums: &'a mut Sums, now_ns: u64) -> Self {
        Self { holes, sums, now_ns, is_copy: false, lost_bytes: 0, is_alive: false }
    }
}

/// The evidence of a direction that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Segments whose loss would have been seen.
    pub(super) segments: u64,
    pub(super) has_evidence: bool,
    /// True if acknowledged data are missing and none of its data were captured.
    pub(super) is_bare: bool,
    /// True if data were captured without acknowledgments, or the reverse.
    pub(super) is_one_sided: bool,
    pub(super) is_midstream: bool,
    /// True if more than a fifth of its segments arrived twice: the capture has copies.
    pub(super) has_copies: bool,
    /// Captured segments with new bytes, and these bytes.
    pub(super) captured: u64,
    pub(super) bytes: u64,
    /// Bytes between SYN and FIN that did not arrive, as tcptrace counts them.
    pub(super) missed_bytes: Option<u32>,
}

impl Direction {
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn is_started(&self) -> bool {
        self.has(STARTED)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has(FIN_SEEN)
    }

    fn is_settled(&self) -> bool {
        self.has(SETTLED)
    }

    /// True if a SYN before `base` may belong to this direction, as its SYN or a late one.
    pub(super) fn begins_at(&self, base: u32) -> bool {
        match self.has(SETTLED) && self.segments == 0 || self.has(SYN_SEEN) {
            true => self.base == base,
            false => (0..1 << 16).contains(&ahead(self.base, base)),
        }
    }

    /// True for data of another connection between the same endpoints: after FIN, or new data after RST. A keep-alive
    /// has a byte at the number of the FIN.
    #[inline]
    pub(super) fn is_after_end(&self, sequence: u32, bytes: u32, is_reset: bool) -> bool {
        let is_after_fin = self.has(FIN_SEEN) && ahead(sequence, self.fin) >= 0;
        let is_after_reset = is_reset && ahead(sequence, self.top) > 0;
        bytes > 1 && self.is_settled() && (is_after_fin || is_after_reset)
    }

    /// True if an acknowledgment may be one of the handshake, or of bytes that were captured.
    pub(super) fn may_have_sent(&self, acknowledgment: u32) -> bool {
        ahead(acknowledgment, self.base) >= 0 && ahead(acknowledgment, self.top) <= 0
    }

    /// The same of a direction that a handshake has begun.
    pub(super) fn has_begun_with(&self, acknowledgment: u32) -> bool {
        self.is_started() && !self.has(MIDSTREAM) && self.may_have_sent(acknowledgment)
    }

    /// True if the SYN was captured, and no acknowledgment of it.
    pub(super) fn is_unanswered(&self) -> bool {
        self.flags & (SYN_SEEN | AGREED) == SYN_SEEN
    }

    /// True while one end alone has named the begin.
    #[inline]
    pub(super) fn is_open_to_agreement(&self) -> bool {
        self.flags & (STARTED | AGREED) == STARTED
    }

    /// True if a SYN-ACK with this acknowledgment answers its SYN, and what was seen of the `answering` direction is no
    /// begin of another connection: nothing, or segments of which no SYN named the begin.
    pub(super) fn is_answered_by(&self, acknowledgment: u32, answering: &Self) -> bool {
        let is_first = acknowledgment == self.base && answering.has(MIDSTREAM);
        self.has(SYN_SEEN) && (is_first || answering.is_untouched() && self.may_have_sent(acknowledgment))
    }

    /// True if nothing has come after the begin.
    pub(super) fn is_untouched(&self) -> bool {
        self.segments == 0 && self.top == self.base
    }

    /// True if the sender of this acknowledgment may know the direction: it is near the bytes that were captured.
    pub(super) fn is_known_by(&self, acknowledgment: u32) -> bool {
        ahead(acknowledgment, self.base) >= -ONE_APART && ahead(acknowledgment, self.top) <= BEGIN_APART
    }

    /// True if the acknowledgment in a segment with this number counts: a receiver drops segments far outside its
    /// window.
    #[inline]
    pub(super) fn is_near(&self, sequence: u32) -> bool {
        ahead(sequence, self.top).abs() <= NEAR_BYTES || self.has(NAMED) && sequence == self.named
    }

    /// True for a reset that its receiver takes.
    pub(super) fn accepts_reset(&self, sequence: u32) -> bool {
        let is_after_fin = self.has(FIN_SEEN) && ahead(sequence, self.fin) == 1;
        !self.is_started() || sequence == self.top || sequence == self.acked || is_after_fin
    }

    /// Compares the begin that one end has named with a segment of the sender: a begin elsewhere was a stray, unless it
    /// is close and not disputed, and the segment goes with the begin of the other end. Only a keep-alive has a byte at
    /// the number of the SYN. Returns false for a stray.
    #[cold]
    pub(super) fn agree(&mut self, sequence: u32, bytes: u32, goes_with_other: bool, now_ns: u64) -> bool {
        let distance = ahead(sequence, self.base);
        let least = if bytes > 1 { 0 } else { -1 };
        let most = if goes_with_other && !self.has(DISPUTED) { BEGIN_APART } else { 0 };
        if self.is_untouched() && !(least..=most).contains(&distance) {
            self.begin_midstream(sequence, now_ns);
            return false;
        }
        if distance >= 0 && !self.has(SYN_SEEN) {
            self.flags |= AGREED;
        }
        true
    }

    /// Continues as if it had begun before the capture, if its begin was named only by a SYN-ACK that was a stray.
    pub(super) fn doubt(&mut self, cx: &mut Context) {
        if self.is_started() && self.flags & (SYN_SEEN | MIDSTREAM) == 0 {
            self.discard(cx);
            self.flags = self.flags & !SYN_LACKING | MIDSTREAM | AGREED;
            self.unsettle(cx.now_ns);
        }
    }

    /// Notes a captured segment of the sender. Without one, acknowledgments come from a tap of one direction.
    #[inline]
    pub(super) fn note_sent(&mut self, interface: u16) {
        self.flags |= SENT;
        self.interface = interface;
    }

    /// Notes a late or repeated SYN of a direction that has started.
    pub(super) fn note_syn(&mut self) {
        self.flags |= if self.has(MIDSTREAM) { 0 } else { SYN_SEEN | NAMED_TWICE };
        self.forgive_missing_syn();
    }

    /// Notes [`WATCHED`] or a flag of [`OF_SENDER`].
    pub(super) fn note(&mut self, flag: u32) {
        self.flags |= flag;
    }

    /// Notes that its SYN or SYN-ACK is missing, unless that comes later.
    pub(super) fn note_missing_syn(&mut self) {
        self.flags |= SYN_LACKING;
    }

    /// Notes a SYN that may be the missing one.
    pub(super) fn forgive_missing_syn(&mut self) {
        self.flags &= !SYN_LACKING;
    }

    /// True if both ends have named a SYN or SYN-ACK that was not captured: the sender by what it sent after it, the
    /// receiver by an acknowledgment. A stray may have hidden one that was captured.
    pub(super) fn lacks_syn(&self) -> bool {
        const NAMED_BY_BOTH: u32 = SYN_LACKING | AGREED | SENT | ACK_SEEN;
        self.flags & (NAMED_BY_BOTH | SYN_SEEN | SYN_SENT | AGAIN) == NAMED_BY_BOTH
    }

    /// Starts at a number that a SYN or SYN-ACK has named. Earlier acknowledgments may belong to another connection.
    pub(super) fn begin(&mut self, base: u32, flags: u32, now_ns: u64) {
        let flags = STARTED | SETTLED | flags | self.flags & OF_SENDER;
        *self = Self { base, top: base, acked: base, flags, top_ns: now_ns, ..Self::default() };
    }

    /// Starts at the first segment seen.
    pub(super) fn begin_midstream(&mut self, sequence: u32, now_ns: u64) {
        let is_later = self.has(ACK_SEEN) && (0..=JUMP_MAX).contains(&ahead(self.acked, sequence));
        let base = if is_later { self.acked } else { sequence };
        let flags = STARTED | MIDSTREAM | AGREED | self.flags & (ACK_SEEN | SENT | OF_SENDER);
        *self = Self { base, top: base, acked: base, flags, ..Self::default() };
        self.unsettle(now_ns);
    }

    /// Nothing counts from here on until it settles.
    fn unsettle(&mut self, now_ns: u64) {
        self.flags &= !(SETTLED | BEYOND | CONFIRMED | STALE | NAMED | ONE | FIN_SEEN);
        (self.since_ns, self.top_ns) = (now_ns, now_ns.saturating_add(SETTLE_NS));
        self.acked_segments = self.segments;
    }

    /// Processes an acknowledgment of these bytes. `is_established`: Zeek would examine it.
    pub(super) fn acknowledge(&mut self, acknowledgment: u32, is_established: bool, cx: &mut Context) {
        if !self.is_started() {
            (self.acked, self.flags) = (acknowledgment, self.flags | ACK_SEEN);
            return;
        }
        if ahead(acknowledgment, self.top).abs() > JUMP_MAX {
            (self.far_acked, self.flags) = (acknowledgment, self.flags | FAR_ACKED);
            cx.sums.found.acks_ignored += 1;
            return;
        }
        if !self.has(AGREED) && !self.agree_with(acknowledgment) {
            return;
        }
        self.flags |= ACK_SEEN;
        // The FIN occupies one number. A number beyond it belongs to another connection.
        let after_fin = if self.has(FIN_SEEN) { ahead(acknowledgment, self.fin) } else { 0 };
        if after_fin > 1 {
            return;
        }
        let acknowledgment = if after_fin == 1 { self.fin } else { acknowledgment };
        match self.is_settled() {
            true => self.acknowledge_settled(acknowledgment, is_established, cx),
            false => self.acknowledge_unsettled(acknowledgment, cx),
        }
    }

    /// Compares the begin with an acknowledgment of the other end; false for a stray.
    #[cold]
    fn agree_with(&mut self, acknowledgment: u32) -> bool {
        let is_sent = self.may_have_sent(acknowledgment);
        self.flags |= if is_sent && self.has(SYN_SEEN) { AGREED } else { 0 };
        self.flags |= match acknowledgment == self.base {
            true => NAMED_TWICE,
            false if self.is_untouched() && !self.has(NAMED_TWICE) => DISPUTED,
            false => 0,
        };
        let is_close = (0..=BEGIN_APART).contains(&ahead(acknowledgment, self.base));
        is_sent || is_close && self.flags & (SYN_SEEN | DISPUTED) == 0
    }

    /// An acknowledgment beyond the data shows that earlier segments are missing, or were retransmitted.
    fn acknowledge_unsettled(&mut self, acknowledgment: u32, cx: &mut Context) {
        if self.has(LEAP_OPEN) {
            cx.sums.found.leaps_confirmed += 1;
            self.flags &= !LEAP_OPEN;
        }
        let is_beyond = ahead(acknowledgment, self.top) > 0;
        // A lower acknowledgment refutes the place that a higher one set.
        let is_back = self.top == self.acked && ahead(acknowledgment, self.acked) < 0;
        if is_beyond || is_back {
            self.top = acknowledgment;
            self.top_ns = self.top_ns.max(cx.now_ns.saturating_add(RECOVERY_NS));
        }
        self.acked = acknowledgment;
    }

    fn acknowledge_settled(&mut self, acknowledgment: u32, is_established: bool, cx: &mut Context) {
        let step = ahead(acknowledgment, self.acked);
        if step == 0 && !self.has(STALE) {
            self.flags |= if self.has(BEYOND) { CONFIRMED } else { 0 };
            return;
        }
        cx.is_alive |= step > 0;
        self.flags &= !STALE;
        (self.acked, self.acked_segments) = (acknowledgment, self.segments);
        if step < 0 {
            cx.holes.take_back(&self.holes, acknowledgment);
        }
        let (mut covered, is_beyond) = (0, ahead(acknowledgment, self.top) > 0);
        if is_beyond {
            if !self.has(BEYOND) {
                self.beyond_place = cx.sums.place();
            }
            self.flags &= !CONFIRMED;
            self.flags |= if self.has(BEYOND) && step > 0 { CONFIRMED } else { 0 };
            (self.since_ns, self.flags) = (cx.now_ns, self.flags | BEYOND);
        } else {
            self.flags &= !(BEYOND | CONFIRMED);
            if !self.holes.is_empty() {
                covered = cx.holes.acknowledge(&self.holes, acknowledgment, cx.now_ns);
            }
        }
        if is_established && step > 0 {
            cx.sums.found.zeek_acks += 1;
            cx.sums.found.zeek_gaps += u64::from(is_beyond || covered > 0);
        }
    }

    /// Processes a segment with `bytes` bytes of payload on the wire.
    #[inline]
    pub(super) fn take(&mut self, sequence: u32, bytes: u32, flags: u8, cx: &mut Context) {
        let end = sequence.wrapping_add(bytes);
        if !self.is_settled() && !self.take_unsettled(sequence, bytes, cx) {
            if flags & FIN != 0 && (0..=JUMP_MAX).contains(&ahead(end, self.top)) {
                (self.fin, self.flags) = (end, self.flags | FIN_SEEN);
            }
            return;
        }
        if bytes > 0 {
            let distance = ahead(sequence, self.top);
            if bytes == 1 && distance > 0 && flags & (SYN | FIN) == 0 || self.has(ONE) {
                if !self.take_one(sequence, bytes, cx) {
                    return;
                }
            } else if distance.abs() > JUMP_MAX {
                self.follow(sequence, end, cx);
                return;
            }
            // The first byte alone may be a stray keep-alive.
            let is_data = flags & (SYN | FIN) == 0 && (bytes > 1 || self.segments > 0);
            self.flags |= if is_data { DATA } else { 0 };
            // A sender that has named a higher number continues after it.
            if self.flags & (NAMED | ONE) == NAMED && ahead(sequence, self.named) < 0 {
                self.flags &= !NAMED;
            }
            self.place(sequence, end, cx);
        } else if flags & (SYN | FIN) == 0 {
            // The latest one counts, as for acknowledgments.
            let is_after = (1..=JUMP_MAX).contains(&ahead(sequence, self.top));
            if !self.has(ONE) {
                self.flags = if is_after { self.flags | NAMED } else { self.flags & !NAMED };
                self.named = sequence;
            }
        }
        if flags & FIN != 0 {
            self.take_fin(end, cx);
        }
        if !self.holes.is_empty() {
            self.declare(cx);
        }
    }

    /// Processes data while a single byte beyond a hole waits, or one that begins to wait, which is no data before its
    /// sender continues after it. False if the segment is not to be placed.
    #[cold]
    fn take_one(&mut self, sequence: u32, bytes: u32, cx: &mut Context) -> bool {
        if self.has(ONE) && (1..=ONE_APART).contains(&ahead(sequence, self.named)) {
            self.place_one(cx);
        }
        let distance = ahead(sequence, self.top);
        if bytes == 1 && distance > 0 {
            if distance <= JUMP_MAX {
                (self.named, self.flags) = (sequence, self.flags | ONE);
            }
            return false;
        }
        if distance.abs() > JUMP_MAX {
            self.follow(sequence, sequence.wrapping_add(bytes), cx);
            return false;
        }
        // The hole before it is filled.
        if self.has(ONE) && ahead(sequence.wrapping_add(bytes), self.named) >= 0 {
            self.place(sequence, sequence.wrapping_add(bytes), cx);
            self.place_one(cx);
            return false;
        }
        true
    }

    /// Adds the single byte that waits.
    fn place_one(&mut self, cx: &mut Context) {
        self.flags = self.flags & !(ONE | NAMED) | if self.segments > 0 { DATA } else { 0 };
        self.place(self.named, self.named.wrapping_add(1), cx);
    }

    /// Processes a segment while unsettled; returns true if the direction has settled with it.
    fn take_unsettled(&mut self, sequence: u32, bytes: u32, cx: &mut Context) -> bool {
        if bytes == 0 {
            return false;
        }
        let (end, now_ns) = (sequence.wrapping_add(bytes), cx.now_ns);
        let distance = ahead(sequence, self.top);
        if bytes == 1 && distance != 0 {
            return false;
        }
        if !(0..=JUMP_MAX).contains(&distance) {
            // A retransmission, or another place. A single byte is a probe.
            if bytes > 1 {
                self.top_ns = self.top_ns.max(now_ns.saturating_add(RECOVERY_NS));
            }
            if !(-JUMP_MAX..=0).contains(&ahead(end, self.top)) {
                // The receiver did not make that leap.
                self.flags &= if distance.abs() > JUMP_MAX { !LEAP_OPEN } else { u32::MAX };
                self.top = end;
            }
            return false;
        }
        self.segments = self.segments.saturating_add(1);
        let new = self.segments - self.acked_segments;
        let is_old = now_ns >= self.since_ns.saturating_add(SETTLE_NS_MAX);
        let is_quiet = now_ns >= self.top_ns && (new >= SETTLE_SEGMENTS || is_old);
        let is_lossy = is_old && new >= SETTLE_SEGMENTS_MAX;
        if !is_quiet && !is_lossy {
            self.top = end;
            return false;
        }
        (self.base, self.top, self.acked, self.top_ns) = (sequence, sequence, sequence, now_ns);
        self.segments = self.acked_segments;
        self.flags |= SETTLED;
        true
    }

    /// Follows a leap of sequence numbers at its second segment.
    #[cold]
    fn follow(&mut self, sequence: u32, end: u32, cx: &mut Context) {
        if !self.has(FAR) || sequence != self.far {
            self.far = end;
            self.flags |= FAR;
            return;
        }
        cx.sums.found.jumps += 1;
        self.end_holes(cx);
        // The receiver may already have named that place.
        let is_confirmed = self.has(FAR_ACKED) && ahead(self.far_acked, sequence).abs() <= JUMP_MAX;
        cx.sums.found.leaps_confirmed += u64::from(is_confirmed);
        self.flags |= LEAPT | if is_confirmed { 0 } else { LEAP_OPEN };
        self.flags &= !(FAR | FAR_ACKED);
        (self.base, self.top, self.acked) = (sequence, end, sequence);
        self.unsettle(cx.now_ns);
    }

    /// Adds bytes to the received ones.
    #[inline]
    fn place(&mut self, sequence: u32, end: u32, cx: &mut Context) {
        let bytes = end.wrapping_sub(sequence);
        let distance = ahead(sequence, self.top);
        let mut new = bytes;
        if distance > 0 {
            self.add_hole(sequence, cx);
        } else if distance < 0 {
            new = self.place_again(sequence, end, cx);
        }
        if ahead(end, self.top) > 0 {
            self.advance(end, cx);
        }
        if new > 0 {
            self.segments = self.segments.saturating_add(1);
            self.bytes += u64::from(new);
            self.largest_bytes = self.largest_bytes.max(bytes);
            if self.has(ACK_SEEN) {
                cx.sums.see(cx.now_ns, bytes, self.interface);
            }
        }
    }

    /// Processes a higher number that the sender has named.
    #[inline]
    fn advance(&mut self, top: u32, cx: &mut Context) {
        (self.top, self.top_ns) = (top, cx.now_ns);
        let distance = ahead(top, self.acked);
        if self.has(BEYOND) && distance >= 0 {
            self.flags &= !(BEYOND | CONFIRMED);
            cx.holes.acknowledge(&self.holes, self.acked, cx.now_ns);
        } else if distance > STALE_BYTES {
            self.note_stale(cx);
        }
    }

    /// Moves `acked` along, so that its distance never wraps, and drops holes that are as old.
    fn note_stale(&mut self, cx: &mut Context) {
        self.acked = self.top.wrapping_sub(STALE_BYTES as u32);
        self.flags |= STALE;
        while cx.holes.first(&self.holes).is_some_and(|hole| ahead(hole.end, self.acked) < 0) {
            let oldest = cx.holes.pop(&mut self.holes);
            oldest.into_iter().for_each(|hole| self.end_hole(&hole, cx));
        }
    }

    /// Adds bytes that start before the highest one; returns the number of new ones.
    fn place_again(&mut self, sequence: u32, end: u32, cx: &mut Context) -> u32 {
        let bytes = end.wrapping_sub(sequence);
        let beyond = ahead(end, self.top).max(0) as u32;
        let known_end = if beyond > 0 { self.top } else { end };
        let filled = match self.holes.is_empty() {
            true => 0,
            false => cx.holes.fill(&mut self.holes, sequence, known_end),
        };
        let repeated = bytes - beyond - filled;
        cx.sums.found.filled_bytes += u64::from(filled);
        // A single byte probes an idle connection or a zero window.
        if bytes > 1 {
            let bytes = if cx.is_copy {
                &mut cx.sums.found.copied_bytes
            } else {
                &mut cx.sums.found.retransmitted_bytes
            };
            *bytes += u64::from(repeated);
            self.repeated_segments = self.repeated_segments.saturating_add(u32::from(filled + beyond == 0));
        }
        filled + beyond
    }

    /// Adds a hole from the highest byte to `end`.
    #[cold]
    fn add_hole(&mut self, end: u32, cx: &mut Context) {
        if self.holes.count() >= LIST_MAX {
            let oldest = cx.holes.pop(&mut self.holes);
            oldest.into_iter().for_each(|hole| self.end_hole(&hole, cx));
        }
        let is_acked = self.has(BEYOND) && ahead(self.acked, end) >= 0;
        let (place, after_ns) = match is_acked {
            true => (self.beyond_place, self.since_ns),
            false => (cx.sums.place(), cx.now_ns),
        };
        let hole = Hole::new(self.top, end).at(place, self.top_ns, after_ns);
        cx.holes.push(&mut self.holes, hole);
    }

    fn take_fin(&mut self, fin: u32, cx: &mut Context) {
        let distance = ahead(fin, self.top);
        if self.has(FIN_SEEN) || !(0..=JUMP_MAX).contains(&distance) {
            return;
        }
        (self.fin, self.flags) = (fin, self.flags | FIN_SEEN);
        match ahead(self.acked, fin) {
            1 => self.acked = fin,
            // A stray acknowledgment.
            2.. => (self.acked, self.flags) = (self.top, self.flags & !(BEYOND | CONFIRMED)),
            _ => {}
        }
        if distance > 0 {
            self.add_hole(fin, cx);
        }
        self.advance(fin, cx);
    }

    /// Declares holes lost that have been acknowledged for long enough.
    fn declare(&mut self, cx: &mut Context) {
        let now_ns = cx.now_ns;
        let is_due =
            |hole: &&Hole| hole.acked_ns != 0 && now_ns >= hole.acked_ns.saturating_add(HOLE_WAIT_NS);
        while cx.holes.first(&self.holes).filter(is_due).is_some() {
            let Some(hole) = cx.holes.pop(&mut self.holes) else { return };
            self.end_hole(&hole, cx);
        }
    }

    /// Declares a hole lost if it was acknowledged.
    fn end_hole(&mut self, hole: &Hole, cx: &mut Context) {
        match hole.acked_ns {
            0 => cx.sums.found.undecided_bytes += u64::from(hole.bytes()),
            _ => self.lose(hole, cx),
        }
    }

    /// True if an acknowledgment beyond the data is no stray: an empty segment of the sender has the same number, or
    /// the receiver has named it again.
    fn is_end_named(&self) -> bool {
        self.has(CONFIRMED) || self.has(NAMED) && self.named == self.acked
    }

    fn end_holes(&mut self, cx: &mut Context) {
        // A partly filled hole may be acknowledged by now. All are if an acknowledgment beyond the data is no stray.
        let is_named = !self.has(BEYOND) || self.is_end_named();
        if !self.holes.is_empty() && self.is_settled() && is_named && !self.has(STALE) {
            cx.holes.acknowledge(&self.holes, self.acked, cx.now_ns);
        }
        while let Some(hole) = cx.holes.pop(&mut self.holes) {
            self.end_hole(&hole, cx);
        }
    }

    fn lose(&mut self, hole: &Hole, cx: &mut Context) {
        self.flags |= LOST;
        let run = self.run(hole.bytes(), cx.sums);
        cx.sums.lose(hole, &run, !self.has(DATA), self.interface);
        // A direction without data may have been filtered out.
        let lost_bytes = if self.has(DATA) { hole.bytes() } else { 0 };
        cx.lost_bytes = cx.lost_bytes.saturating_add(lost_bytes);
    }

    /// The packets that a run of lost bytes may have been, from the segment sizes so far.
    fn run(&self, bytes: u32, sums: &Sums) -> Run {
        let largest = match self.segments >= SEGMENTS_KNOWN {
            true => self.largest_bytes,
            false => self.largest_bytes.max(sums.largest_bytes()).max(SEGMENT_BYTES),
        };
        let sum = self.bytes as f64 + SEGMENTS_PRIOR * sums.mean_bytes();
        let mean = (sum / (f64::from(self.segments) + SEGMENTS_PRIOR)).max(1.0);
        let least = f64::from(bytes.div_ceil(largest.max(1)).max(1));
        Run { bytes: bytes.into(), least, by_mean: f64::from(bytes) / mean }
    }

    /// Ends the direction: bytes that both endpoints have named and that did not arrive are lost.
    pub(super) fn finish(&mut self, cx: &mut Context) -> Ended {
        // A single byte beyond a hole that the receiver has acknowledged, and nothing after it.
        if self.has(ONE) && self.is_settled() && ahead(self.acked, self.named) == 1 {
            self.place_one(cx);
        }
        self.end_holes(cx);
        let has_data = self.segments > 0 || !self.is_settled() && self.top != self.base;
        let is_beyond = self.is_settled() && self.has(BEYOND);
        if is_beyond {
            self.finish_beyond(cx);
        }
        let unacked = ahead(self.top, self.acked).max(0) as u64;
        let unknown = (u64::from(self.segments) * unacked).div_ceil(self.bytes.max(1));
        let segments = match self.has(ACK_SEEN) {
            true if self.is_settled() && !self.has(STALE) => u64::from(self.segments).saturating_sub(unknown),
            true => u64::from(self.acked_segments),
            false => 0,
        };
        // Bytes that were sent twice are no evidence: the loss of one copy is not seen. Above a fifth the capture has
        // two copies of each packet, and the loss of both would be seen.
        let repeated = u64::from(self.repeated_segments);
        let has_copies = segments > 0 && repeated > segments / 4;
        let segments = if has_copies { segments } else { segments.saturating_sub(repeated) };
        let is_bare = self.has(LOST) && !self.has(DATA);
        let is_complete = self.has(SYN_SEEN) && self.has(FIN_SEEN) && !self.has(LEAPT);
        let missed = self.fin.wrapping_sub(self.base).wrapping_sub(self.bytes as u32);
        Ended {
            segments: if is_bare { 0 } else { segments },
            has_evidence: !is_bare && (segments > 0 || self.has(LOST)),
            is_bare,
            is_one_sided: has_data && !self.has(ACK_SEEN) || is_beyond && !self.has(SENT),
            is_midstream: self.is_started() && !self.has(SYN_SEEN),
            has_copies,
            captured: self.segments.into(),
            bytes: self.bytes,
            missed_bytes: is_complete.then_some(if missed > 1 << 31 { 0 } else { missed }),
        }
    }

    /// Declares the end lost if the sender has also named it; a single number is a FIN, or a byte.
    fn finish_beyond(&mut self, cx: &mut Context) {
        let missing = ahead(self.acked, self.top).max(0) as u32;
        let proven = if self.has(NAMED) && self.named == self.acked { missing } else { 0 };
        match proven {
            0 => {}
            1 => cx.sums.found.fins_unseen += 1,
            _ => {
                let end = self.top.wrapping_add(proven);
                let hole = Hole::new(self.top, end).at(self.beyond_place, self.top_ns, self.since_ns);
                self.lose(&hole, cx);
            }
        }
        // A byte that only the receiver has named is a FIN.
        cx.sums.found.undecided_bytes += u64::from(if missing - proven > 1 { missing - proven } else { 0 });
    }

    /// Ends the direction and discards its evidence.
    pub(super) fn discard(&mut self, cx: &mut Context) {
        while cx.holes.pop(&mut self.holes).is_some() {}
    }
}
