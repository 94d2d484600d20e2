//! The begin and the end of a TCP connection by what both ends acknowledge, never by one packet: the rules that the
//! reassembly, the measurement of losses, the meter of flows and the flows of scripts share.
//!
//! | packet | effect |
//! |---|---|
//! | SYN or SYN-ACK of a direction that has begun elsewhere | none until the handshake continues from its number: [`Opening`] |
//! | two SYN-ACKs, two SYNs | the one whose number the other end acknowledges (RFC 9293, 3.10.7.3) |
//! | acknowledgment of what a sender in SYN-SENT has not sent | none: it is answered by a reset (RFC 9293, 3.10.7.3) |
//! | acknowledgment in a segment far outside the window | none: the receiver drops the segment (RFC 9293, 3.10.7.4) |
//! | acknowledgment below an earlier one | it counts: a receiver takes none back, so the earlier one was a stray |
//! | SYN whose answer was not captured | answered, if its sender continues with ACK, or the other end acknowledges it |
//! | reset elsewhere than at the next byte | none (RFC 5961, 3.2) |
//! | reset at the next byte | the end, unless bytes that came after it are acknowledged: then its receiver ignored it |
//! | first segment of a connection from before the capture | the start, unless the other end acknowledges a lower one |
//!
//! The reassembly and the measurement of losses know the next byte of both ends (`quaff-stream`). Flows do not:
//! [`Connection`] has the number of one packet in six bytes, and decides afterwards what it cannot decide at once:
//!
//! | packet | effect in a [`Connection`] |
//! |---|---|
//! | SYN after the end | another connection; none where it repeats the last SYN |
//! | SYN in a connection that had another one, and an ACK | another connection from the packet on that answers the SYN: SYN-ACK or RST-ACK of its number, or the next segment of its sender; of two such SYNs the first counts, until its sender continues in the old connection |
//! | reset | the end, until its sender continues, or the other end acknowledges a number beyond it or far from it |
//! | FIN of both ends | the end; another packet without FIN is its acknowledgment, and until then a SYN counts as in the connection |

pub use super::tcp::{ACK, FIN, RST, SYN};

/// An acknowledgment that is farther below the number of a reset is of other numbers: the largest window (RFC 7323).
const FAR_BYTES: i32 = 1 << 30;

/// The flags and the numbers of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledgment: u32,
}

impl Numbers {
    /// True for a SYN that answers none.
    #[inline]
    pub fn is_syn(&self) -> bool {
        self.flags & (SYN | ACK | RST) == SYN
    }
}

/// A SYN or SYN-ACK in a connection that has begun elsewhere: the next segment of the handshake decides whether it
/// started another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    pub numbers: Numbers,
    /// Its number is far from the place of its sender, who would not continue there by chance.
    pub is_far: bool,
}

impl Opening {
    /// True for the next segment of its handshake: the other end acknowledges its number, or its sender continues
    /// there (the answer was not captured). A stray one has neither.
    #[inline]
    pub fn is_taken_by(&self, is_same_sender: bool, next: &Numbers) -> bool {
        let number = self.numbers.sequence.wrapping_add(1);
        if next.flags & RST != 0 || next.flags & ACK == 0 {
            return false;
        }
        if is_same_sender {
            return self.is_far && next.flags & SYN == 0 && next.sequence == number;
        }
        let is_kind = match self.numbers.flags & ACK {
            0 => next.flags & SYN != 0,
            _ => next.flags & SYN == 0 && next.sequence == self.numbers.acknowledgment,
        };
        next.acknowledgment == number && is_kind
    }

    /// True for a later segment that shows that a SYN was answered, although no answer may have been captured: its
    /// sender continues after it with an acknowledgment, or the other end acknowledges it.
    #[inline]
    pub fn is_continued_by(&self, is_same_sender: bool, next: &Numbers) -> bool {
        let number = if is_same_sender { next.sequence } else { next.acknowledgment };
        let ahead = number.wrapping_sub(self.numbers.sequence).wrapping_sub(1) as i32;
        next.flags & (SYN | RST | ACK) == ACK && (0..FAR_BYTES).contains(&ahead)
    }

    /// True for the reset by which the other end refuses a SYN (RFC 9293, 3.10.7.1): it knows no connection there.
    #[inline]
    pub fn is_refused_by(&self, next: &Numbers) -> bool {
        let is_reset = next.flags & (RST | ACK) == RST | ACK && self.numbers.is_syn();
        is_reset && next.acknowledgment == self.numbers.sequence.wrapping_add(1)
    }
}

/// A connection of which no byte is reassembled, in six bytes. Its ends are high and low; where a host talks to itself,
/// or where one direction is all there is, `has_one_end` is true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connection {
    /// Sequence number of the last SYN without ACK, or of the last reset after the handshake.
    pub number: u32,
    /// The constants of this type; the others are free.
    pub bits: u16,
}

impl Connection {
    /// Reset, or FIN of both ends.
    pub const CLOSED: u16 = 1;
    /// FIN of the low end was seen; FIN of the high end.
    const FIN_LOW: u16 = 1 << 1;
    const FIN_HIGH: u16 = 1 << 2;
    const FINS: u16 = Self::FIN_LOW | Self::FIN_HIGH;
    /// A SYN without ACK was seen.
    const SYN_KNOWN: u16 = 1 << 3;
    /// The high end sent the packet with the number.
    const FROM_HIGH: u16 = 1 << 4;
    /// An ACK without RST was seen.
    pub const ANSWERED: u16 = 1 << 5;
    /// The number is that of a SYN that may begin another connection.
    const ATTEMPT: u16 = 1 << 6;
    /// A reset was seen, of the high end if the second bit is set, and nothing that refutes it.
    const RESET: u16 = 1 << 7;
    const RESET_FROM_HIGH: u16 = 1 << 8;
    /// FIN of both ends was seen, and nothing after it.
    const UNCONFIRMED: u16 = 1 << 9;
    /// While one of these is set, the next packet may decide something, whatever its flags.
    pub const WATCHED: u16 = Self::ATTEMPT | Self::RESET | Self::UNCONFIRMED;
    /// All of them.
    pub const BITS: u16 = (1 << 10) - 1;

    #[inline]
    fn has(self, bits: u16) -> bool {
        self.bits & bits == bits
    }

    #[inline]
    fn set(&mut self, bits: u16, value: bool) {
        self.bits = if value { self.bits | bits } else { self.bits & !bits };
    }

    /// True after a reset that nothing has refuted, or after FIN of both ends.
    #[inline]
    pub fn is_closed(self) -> bool {
        self.has(Self::CLOSED)
    }

    /// The SYN that may have begun another connection, and true if the high end sent it.
    fn attempt(self) -> Option<(Opening, bool)> {
        let numbers = Numbers { flags: SYN, sequence: self.number, acknowledgment: 0 };
        self.has(Self::ATTEMPT).then_some((Opening { numbers, is_far: true }, self.has(Self::FROM_HIGH)))
    }

    /// True if a packet is the first one of another connection between the same ends.
    pub fn is_another(self, is_high: bool, packet: &Numbers, has_one_end: bool) -> bool {
        if let Some((opening, is_of_high)) = self.attempt() {
            let is_same = is_of_high == is_high;
            let is_answer = opening.is_taken_by(false, packet) || opening.is_refused_by(packet);
            if (!is_same || has_one_end) && is_answer || is_same && opening.is_taken_by(true, packet) {
                return true;
            }
        }
        let has_ended = self.has(Self::CLOSED) && !self.has(Self::UNCONFIRMED);
        has_ended && packet.is_syn() && !self.repeats(is_high, packet)
    }

    /// True for a SYN with the last SYN's number.
    fn repeats(self, is_high: bool, syn: &Numbers) -> bool {
        let is_same_end = self.has(Self::FROM_HIGH) == is_high;
        self.has(Self::SYN_KNOWN) && is_same_end && self.number == syn.sequence
    }

    /// The connection that a packet begins for which [`Self::is_another`] is true, before that packet. The second value
    /// is the sender of its SYN, true for the high end, where that was one of the packets before.
    pub fn another(self, packet: &Numbers) -> (Self, Option<bool>) {
        if packet.is_syn() || !self.has(Self::ATTEMPT) {
            return Default::default();
        }
        let bits = Self::SYN_KNOWN | self.bits & Self::FROM_HIGH;
        (Self { number: self.number, bits }, Some(self.has(Self::FROM_HIGH)))
    }

    /// Adds a packet. Those without SYN, FIN and RST change no more than [`Self::ANSWERED`] unless a bit of
    /// [`Self::WATCHED`] is set.
    pub fn add(&mut self, is_high: bool, packet: &Numbers, has_one_end: bool) {
        if packet.flags & RST != 0 {
            self.add_reset(is_high, packet);
        } else {
            if self.has(Self::RESET) && self.refutes_reset(is_high, packet) {
                self.set(Self::RESET, false);
                self.set(Self::CLOSED, self.has(Self::FINS));
            }
            if packet.flags & (SYN | FIN) == 0 {
                self.set(Self::UNCONFIRMED, false);
            }
            if packet.is_syn() {
                self.add_syn(is_high, packet);
            } else if packet.flags & SYN == 0 && self.has(Self::FROM_HIGH) == is_high {
                // The sender of the SYN continues in the connection.
                self.set(Self::ATTEMPT, false);
            }
            if packet.flags & FIN != 0 {
                self.add_fin(is_high, has_one_end);
            }
        }
        if packet.flags & (ACK | RST) == ACK {
            self.set(Self::ANSWERED, true);
        }
    }

    fn add_syn(&mut self, is_high: bool, syn: &Numbers) {
        // Of two SYNs in a connection, neither of which is answered, the second one may repeat that of the handshake.
        if self.repeats(is_high, syn) || self.has(Self::ATTEMPT) {
            return;
        }
        let is_begun = self.has(Self::SYN_KNOWN | Self::ANSWERED) || self.has(Self::UNCONFIRMED);
        self.set(Self::ATTEMPT, is_begun);
        self.set(Self::SYN_KNOWN, true);
        self.set(Self::FROM_HIGH, is_high);
        self.number = syn.sequence;
    }

    fn add_fin(&mut self, is_high: bool, has_one_end: bool) {
        let had_both = self.has(Self::FINS);
        let own = if is_high { Self::FIN_HIGH } else { Self::FIN_LOW };
        self.set(if has_one_end { Self::FINS } else { own }, true);
        if self.has(Self::FINS) && !had_both {
            self.set(Self::CLOSED, true);
            self.set(Self::UNCONFIRMED, !self.has(Self::RESET));
        }
    }

    fn add_reset(&mut self, is_high: bool, reset: &Numbers) {
        if self.has(Self::FINS) {
            self.set(Self::UNCONFIRMED | Self::ATTEMPT, false);
            return;
        }
        // In the handshake the number of the SYN is still needed: it may be repeated, or answered.
        if self.has(Self::ANSWERED) || !self.has(Self::SYN_KNOWN) {
            self.number = reset.sequence;
            self.set(Self::FROM_HIGH, is_high);
        }
        self.set(Self::ATTEMPT, false);
        self.set(Self::CLOSED | Self::RESET, true);
        self.set(Self::RESET_FROM_HIGH, is_high);
    }

    /// True for a packet that shows that a reset was none of this connection: its sender continues, or the other end
    /// has received other numbers.
    fn refutes_reset(self, is_high: bool, packet: &Numbers) -> bool {
        if self.has(Self::RESET_FROM_HIGH) == is_high {
            return true;
        }
        let is_comparable = self.has(Self::FROM_HIGH) == self.has(Self::RESET_FROM_HIGH);
        let ahead = packet.acknowledgment.wrapping_sub(self.number) as i32;
        is_comparable && packet.flags & ACK != 0 && !(-FAR_BYTES..=0).contains(&ahead)
    }
}

#[cfg(test)]
mod tests;
