//! The begin of a direction: at the number of its SYN, or, of a connection from before the capture, at the lower of its
//! first segment and the first acknowledgment of the other end.
//!
//! | begun by | until the other end has acknowledged it |
//! |---|---|
//! | SYN | another SYN is a rival: the one that is acknowledged counts |
//! | the acknowledgment in a SYN-ACK | its own SYN, or a segment elsewhere, counts more |
//! | first segment | bytes wait up to a second for an acknowledgment, which may name a lower start |
//!
//! Bytes that are missing before the first segment of a direction may have passed before the capture: they are no gap.

use super::{
    Context, EDGE_KNOWN, FAR_ACK, FAR_DATA, HAS_SCALE, HalfStream, MIDSTREAM, SCALE_MAX, STARTED, SYN_SEEN,
};
use crate::event::EndReason;
use crate::memory::Memory;
use crate::tally::StreamTally;

/// Distance up to which two ends may name different starts: bytes in flight, bytes.
const START_APART: i64 = 16 << 20;

impl HalfStream {
    /// True if no byte has been delivered or acknowledged.
    pub(crate) fn is_untouched(&self) -> bool {
        self.next == 0 && self.acked == 0 && self.end.is_none()
    }

    /// True while only one end has named the begin, and nothing has been delivered.
    #[inline]
    pub(crate) fn is_open_to_agreement(&self) -> bool {
        self.flags & (SYN_SEEN | EDGE_KNOWN) != SYN_SEEN | EDGE_KNOWN && self.is_untouched()
    }

    /// True if it began at its first segment, whose SYN was not captured.
    pub(crate) fn is_midstream(&self) -> bool {
        self.has(MIDSTREAM)
    }

    /// True if the other end has acknowledged it.
    pub(crate) fn is_named(&self) -> bool {
        self.has(EDGE_KNOWN)
    }

    /// True for a SYN without an answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.has(SYN_SEEN) && !self.has(EDGE_KNOWN)
    }

    /// True if the first bytes wait for the acknowledgment that names their start.
    #[inline]
    pub(super) fn is_start_open(&self) -> bool {
        self.flags & (MIDSTREAM | EDGE_KNOWN) == MIDSTREAM && self.next == 0
    }

    /// Starts, or restarts, at a sequence number that a handshake has named. Held bytes are dropped.
    pub(crate) fn start(&mut self, base: u32, flags: u8, memory: &mut Memory, tally: &mut StreamTally) {
        if let Some(mut waiting) = self.waiting.take() {
            waiting.forget_snapped(u64::MAX, memory);
            let dropped = waiting.held.truncate(0, memory);
            tally.held_bytes -= dropped;
            match dropped {
                1 => tally.refuse_probe(),
                _ => tally.before_start_bytes += dropped,
            }
        }
        (self.base, self.rival, self.edge, self.acked) = (base, base, 0, 0);
        self.flags = STARTED | flags;
    }

    /// Starts at a SYN, with the shift of its windows; an earlier SYN becomes its rival.
    pub(crate) fn start_at_syn(
        &mut self,
        base: u32,
        scale: Option<u8>,
        memory: &mut Memory,
        tally: &mut StreamTally,
    ) {
        tally.midstream_starts -= u64::from(self.has(MIDSTREAM));
        let rival = if self.has(SYN_SEEN) { self.rival_of(base) } else { base };
        self.start(base, SYN_SEEN, memory, tally);
        self.rival = rival;
        self.note_syn(scale);
    }

    /// The first SYN before the one at `base`.
    fn rival_of(&self, base: u32) -> u32 {
        if self.rival == base { self.base } else { self.rival }
    }

    /// Notes the SYN of a direction that has started at its number.
    pub(crate) fn note_syn(&mut self, scale: Option<u8>) {
        if !self.has(SYN_SEEN) {
            self.rival = self.base;
        }
        self.flags = self.flags & !MIDSTREAM | SYN_SEEN | scale.map_or(0, |_| HAS_SCALE);
        self.scale = scale.unwrap_or(0).min(SCALE_MAX);
    }

    /// True if a SYN or SYN-ACK at `base` may be the begin of this direction; `is_answer`: it acknowledges a SYN that
    /// was captured.
    pub(crate) fn may_start_at(&self, base: u32, is_answer: bool) -> bool {
        if !self.is_started() || self.base == base {
            return true;
        }
        let is_named_only = self.flags & (SYN_SEEN | MIDSTREAM) == 0;
        let is_unconfirmed = is_answer && self.has(MIDSTREAM) || is_named_only || self.is_unanswered();
        self.is_untouched() && is_unconfirmed
    }

    /// Restarts at the rival SYN if the other end acknowledges its number, or the sender continues there. The window
    /// scale of that SYN is no longer known.
    #[cold]
    pub(crate) fn choose(&mut self, named: u32, memory: &mut Memory, tally: &mut StreamTally) {
        if self.rival != self.base && named == self.rival && self.is_untouched() && self.is_unanswered() {
            self.start(named, SYN_SEEN | HAS_SCALE, memory, tally);
            self.scale = SCALE_MAX;
        }
    }

    /// Notes an acknowledgment of a sender without a captured segment: the lowest one is its start.
    #[cold]
    pub(crate) fn name_start(&mut self, acknowledgment: u32, window_bytes: u64) {
        let is_lower = (-START_APART..0).contains(&self.offset(acknowledgment));
        if self.end.is_none() && (!self.has(EDGE_KNOWN) || is_lower) {
            (self.base, self.rival, self.edge, self.acked) =
                (acknowledgment, acknowledgment, window_bytes, 0);
            self.flags |= EDGE_KNOWN;
        }
    }

    /// Starts at the first segment seen, or where the other end has named its start.
    pub(crate) fn start_midstream(&mut self, sequence: u32, tally: &mut StreamTally) {
        let is_named = self.has(EDGE_KNOWN) && self.offset(sequence).abs() <= START_APART;
        if !is_named {
            (self.base, self.edge, self.acked) = (sequence, 0, 0);
            self.flags &= !EDGE_KNOWN;
        }
        self.rival = sequence;
        self.flags |= STARTED | MIDSTREAM;
        tally.midstream_starts += 1;
    }

    /// Starts again at a segment far from where one end alone has named the begin: that was a stray.
    #[cold]
    pub(crate) fn leave_stray_start(&mut self, sequence: u32, memory: &mut Memory, tally: &mut StreamTally) {
        let is_near = (-1..=START_APART).contains(&self.offset(sequence));
        let has_bytes = self.waiting.as_ref().is_some_and(|waiting| waiting.held.bytes() > 1);
        if is_near || has_bytes || !self.is_open_to_agreement() {
            return;
        }
        tally.midstream_starts -= u64::from(self.has(MIDSTREAM));
        self.start(sequence, 0, memory, tally);
        self.start_midstream(sequence, tally);
    }

    /// Moves the start of a midstream direction to its first data if these follow an empty segment by one byte: that
    /// was a keep-alive.
    pub(crate) fn skip_keep_alive(&mut self, sequence: u32) {
        let is_new = self.has(MIDSTREAM) && self.is_untouched() && self.waiting.is_none();
        if is_new && self.offset(sequence) == 1 {
            (self.base, self.rival) = (sequence, sequence);
        }
    }

    /// Processes an acknowledgment of a midstream direction that has delivered nothing; returns the offset that it
    /// names, or `None` for a stray.
    #[cold]
    pub(super) fn agree_on_start(&mut self, acknowledgment: u32) -> Option<u64> {
        let offset = self.offset(acknowledgment);
        let held_end = self.waiting.as_ref().and_then(|waiting| waiting.held.end());
        let Some(held_end) = held_end else {
            // Bytes from before the capture.
            self.move_start(offset);
            (self.edge, self.acked) = (0, 0);
            return Some(0);
        };
        if self.has(EDGE_KNOWN) {
            return u64::try_from(offset).ok();
        }
        if !(-START_APART..=held_end as i64 + START_APART).contains(&offset) {
            return None;
        }
        if offset < 0 {
            self.move_start(offset);
        }
        Some(offset.max(0) as u64)
    }

    /// Moves the start down to bytes before it if nothing has been delivered, and they reach it.
    pub(super) fn take_lower_start(&mut self, offset: i64, wire_bytes: u32) {
        let is_near = (-START_APART..0).contains(&offset) && offset + i64::from(wire_bytes) >= 0;
        if is_near && self.has(MIDSTREAM) && self.next == 0 && self.end.is_none() && wire_bytes > 1 {
            self.move_start(offset);
            self.rival = self.base;
        }
    }

    /// Moves the start up to `to`, but not beyond the first segment of the sender: bytes before it may have passed
    /// before the capture began. Returns the rest of the way.
    pub(super) fn skip_start(&mut self, to: u64) -> u64 {
        let skipped = self.offset(self.rival).clamp(0, to as i64);
        self.move_start(skipped);
        to - skipped as u64
    }

    /// Moves offset 0 by so many bytes, and all that is known by offsets with it. Nothing has been delivered.
    pub(super) fn move_start(&mut self, by: i64) {
        self.base = self.base.wrapping_add(by as u32);
        self.flags &= !(FAR_DATA | FAR_ACK);
        let moved = |offset: u64| offset.saturating_add_signed(-by);
        (self.acked, self.edge) = (moved(self.acked), moved(self.edge));
        if let Some(waiting) = self.waiting.as_deref_mut() {
            waiting.move_by(-by);
        }
    }

    /// Drops bytes that came after a reset and were never acknowledged; they are counted as after the end.
    pub(super) fn drop_tentative<S: ?Sized>(&mut self, cx: &mut Context<S>) {
        let Some(waiting) = self.waiting.as_deref_mut() else { return };
        let dropped = waiting.held.drop_tentative(cx.memory);
        cx.output.tally.held_bytes -= dropped;
        super::count_after(EndReason::Reset, dropped, cx.output.tally);
    }
}
