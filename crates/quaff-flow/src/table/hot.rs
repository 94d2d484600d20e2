//! One record of the table: two cache lines, of which a packet writes one and one half of the other.

use crate::key::{Key, Network};
use crate::record::InitiatorRule;
use crate::wheel::Link;
use quaff_wire::net::agreement::Connection;

/// A flow in the table. The first 64 bytes are read for each packet, and its direction is written.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(128))]
pub(crate) struct Hot {
    pub(crate) key: Key,
    pub(crate) link: Link,
    /// [`Connection::number`].
    pub(crate) number: u32,
    /// The default, which no flow has, in a free record.
    pub(crate) network: Network,
    pub(crate) state: State,
    /// Indexed by sender: the low end, the high end.
    pub(crate) directions: [Counters; 2],
}

const _: () = assert!(size_of::<Hot>() == 128 && size_of::<Counters>() == 32);

/// The counters of one direction in the piece. A direction without packets keeps the time of its last packet.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) bytes: u64,
    pub(crate) packets: u32,
    pub(crate) tcp_flags: u8,
    pub(crate) tos: u8,
    pub(crate) ttl_min: u8,
    pub(crate) ttl_max: u8,
}

/// The state of a flow, in bits: those of its [`Connection`], and the rest is of the meter. The last three are the
/// number of the [`InitiatorRule`], 0 before the first packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State(u16);

impl State {
    /// The flow ends after the linger time.
    pub(crate) const CLOSED: u16 = Connection::CLOSED;
    pub(crate) const ANSWERED: u16 = Connection::ANSWERED;
    /// The high end began the conversation.
    pub(crate) const FROM_HIGH: u16 = 1 << 10;
    /// The piece continues another one.
    pub(crate) const CONTINUED: u16 = 1 << 11;
    /// Packets came since [`Meter::make_room`](crate::meter::Meter) skipped the flow, so another one leaves before it.
    const ACTIVE: u16 = 1 << 12;
    const RULE: u32 = 13;

    #[inline]
    pub(crate) fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, bit: u16, value: bool) {
        self.0 = if value { self.0 | bit } else { self.0 & !bit };
    }

    /// True if the next packet may decide about the begin or the end of the connection, whatever its flags.
    #[inline]
    pub(crate) fn is_watched(self) -> bool {
        self.has(Connection::WATCHED)
    }

    #[inline]
    pub(crate) fn rule(self) -> u8 {
        (self.0 >> Self::RULE) as u8
    }

    pub(crate) fn set_rule(&mut self, rule: u8) {
        self.0 = self.0 & ((1 << Self::RULE) - 1) | u16::from(rule) << Self::RULE;
    }

    #[inline]
    pub(crate) fn is_active(self) -> bool {
        self.has(Self::ACTIVE)
    }

    #[inline]
    pub(crate) fn set_active(&mut self) {
        self.0 |= Self::ACTIVE;
    }

    /// Clears the active bit; returns true if it was set.
    pub(crate) fn take_active(&mut self) -> bool {
        let was_active = self.is_active();
        self.set(Self::ACTIVE, false);
        was_active
    }
}

const _: () = assert!(Connection::BITS < State::FROM_HIGH);

impl Hot {
    pub(crate) fn new(key: Key, network: Network) -> Self {
        Self { key, network, ..Self::default() }
    }

    /// The state of the TCP connection.
    pub(crate) fn connection(&self) -> Connection {
        Connection { number: self.number, bits: self.state.0 & Connection::BITS }
    }

    pub(crate) fn set_connection(&mut self, Connection { number, bits }: Connection) {
        (self.number, self.state.0) = (number, self.state.0 & !Connection::BITS | bits);
    }

    /// Sets the end that began the conversation.
    pub(crate) fn set_initiator(&mut self, rule: InitiatorRule, is_high: bool) {
        self.state.set_rule(rule as u8);
        // A host that talks to itself on one port has only one direction.
        self.state.set(State::FROM_HIGH, is_high && !self.key.has_equal_ends());
    }

    /// Packets of the piece; 0 after the active timeout ended a piece, until the next packet.
    #[inline]
    pub(crate) fn packets(&self) -> u64 {
        u64::from(self.directions[0].packets) + u64::from(self.directions[1].packets)
    }

    /// IP bytes of the piece.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.directions[0].bytes + self.directions[1].bytes
    }

    /// Time of the flow's last packet, ns.
    #[inline]
    pub(crate) fn last_ns(&self) -> u64 {
        self.directions[0].last_ns.max(self.directions[1].last_ns)
    }

    /// Time of the piece's first packet, ns; `u64::MAX` without packets.
    #[inline]
    pub(crate) fn first_ns(&self) -> u64 {
        let first = |counters: &Counters| if counters.packets == 0 { u64::MAX } else { counters.first_ns };
        first(&self.directions[0]).min(first(&self.directions[1]))
    }

    /// True if a packet from one end is not earlier than the piece's first packet nor, if its direction has no packets
    /// in the piece, than that direction's last packet in an earlier piece.
    #[inline]
    pub(crate) fn only_grows(&self, is_from_high: bool, time_ns: u64) -> bool {
        let counters = &self.directions[usize::from(is_from_high)];
        self.first_ns() <= time_ns && (counters.packets > 0 || counters.last_ns <= time_ns)
    }

    /// Begins another piece: resets the counters, and keeps the times of the last packets.
    pub(crate) fn begin_piece(&mut self) {
        for counters in &mut self.directions {
            *counters = Counters { last_ns: counters.last_ns, ..Counters::default() };
        }
        self.state.set(State::CONTINUED, true);
    }

    /// Begins another conversation with the same key: keeps only the key and the links.
    pub(crate) fn begin_flow(&mut self, key: Key, network: Network) {
        *self = Self { key, network, link: self.link, ..Self::default() };
    }
}
