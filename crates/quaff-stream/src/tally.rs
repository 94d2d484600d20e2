//! The counters of a lane: every byte is counted exactly once, as an identity checks; and counters of events.

use crate::event::{Cap, GapCause};
use std::ops::AddAssign;

/// A number, or an array of numbers that are added element by element.
pub(crate) trait Add {
    fn add(&mut self, other: Self);
}

impl Add for u64 {
    fn add(&mut self, other: Self) {
        *self += other;
    }
}

impl<const N: usize> Add for [u64; N] {
    fn add(&mut self, other: Self) {
        self.iter_mut().zip(other).for_each(|(sum, one)| *sum += one);
    }
}

/// Adds all fields of a tally, for example those of several lanes. An unlisted field does not compile.
macro_rules! add_fields {
    ($tally:ident: $($field:ident),+ $(,)?) => {
        impl AddAssign for $tally {
            fn add_assign(&mut self, other: Self) {
                let Self { $($field),+ } = other;
                $(crate::tally::Add::add(&mut self.$field, $field);)+
            }
        }
    };
}
pub(crate) use add_fields;

/// Bytes of TCP payload by their fate, and event counters. Every byte is in exactly one term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamTally {
    /// Captured payload bytes.
    pub seen_bytes: u64,
    /// Delivered to the reader.
    pub delivered_bytes: u64,
    /// At an offset where the same byte is held or was delivered.
    pub duplicate_bytes: u64,
    /// The losing byte of two different ones at one offset.
    pub overlapped_bytes: u64,
    /// In a gap that had been declared, see [`crate::Event::Gap`].
    pub late_bytes: u64,
    /// Before the first segment seen, or of an abandoned connection attempt.
    pub before_start_bytes: u64,
    /// At or after the cut-off.
    pub beyond_cutoff_bytes: u64,
    /// Outside the window that the receiver advertised, and in segments that no receiver accepts.
    pub out_of_window_bytes: u64,
    /// After FIN or RST.
    pub after_end_bytes: u64,
    /// Dropped because of a cap, by [`Cap`].
    pub capped_bytes: [u64; Cap::COUNT],
    /// Held now.
    pub held_bytes: u64,

    pub segments: u64,
    /// Bytes that arrived after later ones before their hole was declared: retransmitted, or out of order.
    pub filled_bytes: u64,
    /// Bytes of gaps, by [`GapCause`]. Snapped ones are missing only in the capture.
    pub gap_bytes: [u64; GapCause::COUNT],
    pub gaps: [u64; GapCause::COUNT],
    /// Number of times that a cap was reached, by [`Cap`].
    pub cap_hits: [u64; Cap::COUNT],
    /// Overlaps with different bytes.
    pub differences: u64,
    /// Segments just before the next byte, with at most one byte.
    pub keep_alives: u64,
    /// Single bytes sent into a zero window.
    pub window_probes: u64,
    /// Single bytes among those outside the window or after the end: keep-alives with other numbers.
    pub probes_refused: u64,
    /// Resets that the receiver does not accept.
    pub resets_ignored: u64,
    /// SYNs with another sequence number in an established connection.
    pub syns_ignored: u64,
    /// FINs before the next byte, or outside the window.
    pub fins_ignored: u64,
    /// Streams acknowledged one beyond their bytes: their FIN was not captured.
    pub fins_unseen: u64,
    /// Acknowledgments of data that the sender cannot have sent.
    pub acks_ignored: u64,
    /// Urgent bytes that were removed from their stream.
    pub urgent_bytes: u64,
    /// Streams whose first segment was not a SYN.
    pub midstream_starts: u64,
    /// Those of them, of connections that have ended, whose other end's SYN was captured: the capture has the begin of
    /// the connection, and lacks a packet of it.
    pub syns_unseen: u64,
}

add_fields!(StreamTally:
    seen_bytes, delivered_bytes, duplicate_bytes, overlapped_bytes, late_bytes, before_start_bytes,
    beyond_cutoff_bytes, out_of_window_bytes, after_end_bytes, capped_bytes, held_bytes, segments,
    filled_bytes, gap_bytes, gaps, cap_hits, differences, keep_alives, window_probes, probes_refused, resets_ignored,
    syns_ignored, fins_ignored, fins_unseen, acks_ignored, urgent_bytes, midstream_starts, syns_unseen
);

impl StreamTally {
    /// Counts the byte of a keep-alive with other numbers.
    pub(crate) fn refuse_probe(&mut self) {
        self.out_of_window_bytes += 1;
        self.probes_refused += 1;
    }

    /// The bytes whose fate is known.
    fn accounted_bytes(&self) -> u64 {
        self.delivered_bytes
            + self.duplicate_bytes
            + self.overlapped_bytes
            + self.late_bytes
            + self.before_start_bytes
            + self.beyond_cutoff_bytes
            + self.out_of_window_bytes
            + self.after_end_bytes
            + self.capped_bytes.iter().sum::<u64>()
            + self.held_bytes
    }

    /// True if every captured byte is counted exactly once.
    pub fn is_balanced(&self) -> bool {
        self.seen_bytes == self.accounted_bytes()
    }
}

/// Bytes of IP payload in fragments by their fate. Every byte is in exactly one term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FragmentTally {
    /// Captured payload bytes of fragments.
    pub seen_bytes: u64,
    /// In datagrams that were reassembled.
    pub whole_bytes: u64,
    /// At an offset where the same byte is held.
    pub duplicate_bytes: u64,
    /// The losing byte of two different ones at one offset.
    pub overlapped_bytes: u64,
    /// In fragments that no receiver accepts: empty, truncated, over the limit, or past the end of their datagram.
    pub refused_bytes: u64,
    /// In datagrams that an overlap killed.
    pub killed_bytes: u64,
    /// In datagrams that expired.
    pub expired_bytes: u64,
    /// In datagrams that were evicted for newer ones, or for which there was no memory.
    pub capped_bytes: u64,
    /// Held now.
    pub held_bytes: u64,

    pub fragments: u64,
    pub wholes: u64,
    pub expired: u64,
    pub killed: u64,
    pub capped: u64,
    /// Overlaps with different bytes.
    pub differences: u64,
    /// First fragments too short for the ports and flags of their protocol (RFC 1858).
    pub tiny: u64,
    /// TCP fragments at offset 8, which could overwrite flags (RFC 1858, RFC 3128).
    pub tcp_at_eight: u64,
    /// Fragments that end after 65,535 bytes.
    pub oversized: u64,
    /// Fragments that contradict the end of their datagram.
    pub end_conflicts: u64,
}

add_fields!(FragmentTally:
    seen_bytes, whole_bytes, duplicate_bytes, overlapped_bytes, refused_bytes, killed_bytes, expired_bytes,
    capped_bytes, held_bytes, fragments, wholes, expired, killed, capped, differences, tiny, tcp_at_eight,
    oversized, end_conflicts
);

impl FragmentTally {
    /// True if every captured byte is counted exactly once.
    pub fn is_balanced(&self) -> bool {
        let accounted = self.whole_bytes
            + self.duplicate_bytes
            + self.overlapped_bytes
            + self.refused_bytes
            + self.killed_bytes
            + self.expired_bytes
            + self.capped_bytes
            + self.held_bytes;
        self.seen_bytes == accounted
    }
}
