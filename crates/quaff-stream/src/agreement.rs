//! The begin and the end of a connection by what both ends acknowledge, never by one packet: the rules that the
//! reassembly ([`crate::tracker`], [`crate::conversation`]) and the measurement of losses ([`crate::loss`]) share.
//!
//! | packet | effect |
//! |---|---|
//! | SYN or SYN-ACK of a direction that has begun elsewhere | none until the handshake continues from its number: [`Attempt`] |
//! | two SYN-ACKs, two SYNs | the one whose number the other end acknowledges (RFC 9293, 3.10.7.3) |
//! | acknowledgment of what a sender in SYN-SENT has not sent | none: it is answered by a reset (RFC 9293, 3.10.7.3) |
//! | acknowledgment in a segment far outside the window | none: the receiver drops the segment (RFC 9293, 3.10.7.4) |
//! | acknowledgment below an earlier one | it counts: a receiver takes none back, so the earlier one was a stray |
//! | reset elsewhere than at the next byte | none (RFC 5961, 3.2) |
//! | reset at the next byte | the end, unless bytes that came after it are acknowledged: then its receiver ignored it |
//! | first segment of a connection from before the capture | the start, unless the other end acknowledges a lower one |

use crate::event::{Segment, Sender};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// A SYN or SYN-ACK in a connection that has begun elsewhere: the next segment of the handshake decides whether it
/// started another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) sender: Sender,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) window: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) time_ns: u64,
    /// Its number is far from the place of its sender, who would not continue there by chance.
    pub(crate) is_far: bool,
}

impl Attempt {
    /// The SYN or SYN-ACK of `sender`.
    pub(crate) fn of(sender: Sender, segment: &Segment, is_far: bool) -> Self {
        let Segment { flags, sequence, acknowledgment, window, window_scale, time_ns, .. } = *segment;
        let flags = flags & (SYN | ACK);
        Self { sender, flags, sequence, acknowledgment, window, window_scale, time_ns, is_far }
    }

    /// The segment without payload.
    pub(crate) fn segment(&self) -> Segment<'static> {
        let Self { flags, sequence, acknowledgment, window, window_scale, time_ns, .. } = *self;
        Segment { flags, sequence, acknowledgment, window, window_scale, time_ns, ..Segment::default() }
    }

    /// True for the next segment of its handshake: the other end acknowledges its number, or its sender continues
    /// there (the answer was not captured). A stray one has neither.
    #[inline]
    pub(crate) fn is_taken_by(&self, sender: Sender, flags: u8, sequence: u32, acknowledgment: u32) -> bool {
        let next = self.sequence.wrapping_add(1);
        if flags & RST != 0 || flags & ACK == 0 {
            return false;
        }
        if sender == self.sender {
            return self.is_far && flags & SYN == 0 && sequence == next;
        }
        let is_kind = match self.flags & ACK {
            0 => flags & SYN != 0,
            _ => flags & SYN == 0 && sequence == self.acknowledgment,
        };
        acknowledgment == next && is_kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(flags: u8) -> Attempt {
        let segment = Segment { flags, sequence: u32::MAX, acknowledgment: 700, ..Segment::default() };
        Attempt::of(Sender::A, &segment, true)
    }

    #[test]
    fn an_attempt_is_taken_by_its_answer_or_by_its_own_next_segment() {
        let (syn, answer) = (attempt(SYN), attempt(SYN | ACK));
        // The other end.
        assert!(syn.is_taken_by(Sender::B, SYN | ACK, 55, 0));
        assert!(!syn.is_taken_by(Sender::B, ACK, 55, 0), "an acknowledgment alone is no answer to a SYN");
        assert!(!syn.is_taken_by(Sender::B, SYN | ACK, 55, 1));
        assert!(answer.is_taken_by(Sender::B, ACK, 700, 0));
        assert!(!answer.is_taken_by(Sender::B, ACK, 701, 0) && !answer.is_taken_by(Sender::B, ACK, 700, 9));
        // Its sender.
        assert!(syn.is_taken_by(Sender::A, ACK, 0, 9) && answer.is_taken_by(Sender::A, ACK, 0, 9));
        assert!(!syn.is_taken_by(Sender::A, SYN | ACK, 0, 9) && !syn.is_taken_by(Sender::A, ACK, 1, 9));
        // A SYN in the window is a challenge.
        assert!(!Attempt { is_far: false, ..syn }.is_taken_by(Sender::A, ACK, 0, 9));
        assert!(!syn.is_taken_by(Sender::A, RST | ACK, 0, 9) && !syn.is_taken_by(Sender::A, RST, 0, 9));
    }
}
