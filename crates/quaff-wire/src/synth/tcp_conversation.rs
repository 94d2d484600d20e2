//! TCP conversations, as many at a time as there are concurrent flows, with one segment of each in turn.
//!
//! A conversation is SYN, SYN-ACK, ACK; data from client and server in turn, each acknowledging everything before; FIN
//! of the client, FIN of the server, and the last ACK. The slot is then given to the next 5-tuple. Nothing is lost,
//! repeated or reordered.

use super::packet::Transport;
use crate::net::tcp::{ACK, FIN, PSH, SYN};

/// Indices of the two endpoints.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// The current conversations.
#[derive(Debug, Clone)]
pub(super) struct TcpConversations {
    slots: Vec<Slot>,
    at: usize,
    next_flow: u64,
    /// Number of data segments per conversation.
    segments: u32,
    salt: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    flow: u64,
    step: u32,
    /// Next sequence number of each endpoint.
    seq: [u32; 2],
}

/// The next segment, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) flow: u64,
    pub(super) is_back: bool,
    pub(super) has_data: bool,
    pub(super) transport: Transport,
}

impl TcpConversations {
    pub(super) fn new(concurrent: usize, segments: u32, seed: u64) -> Self {
        let mut conversations = Self { slots: Vec::new(), at: 0, next_flow: 0, segments, salt: seed };
        conversations.slots = (0..concurrent).map(|_| conversations.begin()).collect();
        conversations
    }

    /// Conversations whose first segment has been generated.
    pub(super) fn begun(&self) -> u64 {
        let waiting = self.slots.iter().filter(|slot| slot.step == 0).count();
        self.next_flow - waiting as u64
    }

    fn begin(&mut self) -> Slot {
        let flow = self.next_flow;
        self.next_flow += 1;
        // Initial sequence numbers that vary, but are reproducible by the seed.
        let mixed = (flow ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Slot { flow, step: 0, seq: [mixed as u32, (mixed >> 32) as u32] }
    }

    /// Returns the next segment. [`TcpConversations::sent`] must then be called with the length of its data.
    pub(super) fn segment(&self) -> Segment {
        let slot = &self.slots[self.at];
        let data_end = 3 + self.segments;
        let (from, flags, has_data) = match slot.step {
            0 => (CLIENT, SYN, false),
            1 => (SERVER, SYN | ACK, false),
            2 => (CLIENT, ACK, false),
            step if step < data_end => (((step - 3) % 2) as usize, PSH | ACK, true),
            step if step == data_end => (CLIENT, FIN | ACK, false),
            step if step == data_end + 1 => (SERVER, FIN | ACK, false),
            _ => (CLIENT, ACK, false),
        };
        let ack = if flags & ACK == 0 { 0 } else { slot.seq[1 - from] };
        let transport = Transport::Tcp { seq: slot.seq[from], ack, flags };
        Segment { flow: slot.flow, is_back: from == SERVER, has_data, transport }
    }

    /// Records that the segment was generated with `bytes` of data; advances to the next slot.
    pub(super) fn sent(&mut self, segment: &Segment, bytes: usize) {
        let Transport::Tcp { flags, .. } = segment.transport else { return };
        // RFC 9293, section 3.4: SYN and FIN occupy one sequence number each.
        let taken = bytes as u32 + u32::from(flags & (SYN | FIN) != 0);
        let slot = &mut self.slots[self.at];
        let seq = &mut slot.seq[usize::from(segment.is_back)];
        *seq = seq.wrapping_add(taken);
        slot.step += 1;
        if slot.step == 6 + self.segments {
            self.slots[self.at] = self.begin();
        }
        self.at = if self.at + 1 == self.slots.len() { 0 } else { self.at + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(conversations: &mut TcpConversations) -> (u64, u8, u32, u32) {
        let segment = conversations.segment();
        conversations.sent(&segment, if segment.has_data { 100 } else { 0 });
        let Transport::Tcp { seq, ack, flags } = segment.transport else { panic!() };
        (segment.flow, flags, seq, ack)
    }

    #[test]
    fn a_conversation_is_whole() {
        let mut conversations = TcpConversations::new(1, 2, 5);
        let all: Vec<_> = (0..9).map(|_| flags(&mut conversations)).collect();
        let [client, server] = [all[0].2, all[1].2];
        let expected = [
            (SYN, client, 0),
            (SYN | ACK, server, client + 1),
            (ACK, client + 1, server + 1),
            (PSH | ACK, client + 1, server + 1),
            (PSH | ACK, server + 1, client + 101),
            (FIN | ACK, client + 101, server + 101),
            (FIN | ACK, server + 101, client + 102),
            (ACK, client + 102, server + 102),
        ];
        for (found, (flags, seq, ack)) in all.iter().zip(expected) {
            assert_eq!(*found, (0, flags, seq, ack));
        }
        assert_eq!((all[8].0, all[8].1), (1, SYN), "the next one begins");
    }

    #[test]
    fn slots_take_turns() {
        let mut conversations = TcpConversations::new(3, 0, 5);
        assert_eq!(conversations.begun(), 0);
        let all: Vec<_> = (0..4).map(|_| flags(&mut conversations).0).collect();
        assert_eq!(all, [0, 1, 2, 0]);
        assert_eq!(conversations.begun(), 3);
    }
}
