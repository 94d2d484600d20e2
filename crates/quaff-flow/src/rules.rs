//! The rules of a flow, as functions of its record and of one packet: due times, connections, the initiator.
//!
//! They depend on nothing else, so records do not depend on batches, on lanes, or on the moment at which a timeout is
//! noticed.

use crate::headers::Headers;
use crate::plan::MeterPlan;
use crate::record::{EndReason, InitiatorRule};
use crate::table::{Hot, State};
use quaff_wire::net::agreement::{ACK, FIN, RST, SYN};
use quaff_wire::net::{self, InitiatorEvidence};

/// The times at which the conversation and its piece are due, packet time in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// End of the idle or linger time after the last packet.
    pub(crate) idle_ns: u64,
    /// End of the active time after the piece's first packet; `u64::MAX` for a piece without packets.
    pub(crate) active_ns: u64,
    is_closed: bool,
}

impl Due {
    #[inline]
    pub(crate) fn of(hot: &Hot, plan: &MeterPlan) -> Self {
        let is_closed = hot.state.has(State::CLOSED);
        let wait_ns = if is_closed { plan.linger_ns } else { plan.idle_ns };
        Self {
            idle_ns: hot.last_ns().saturating_add(wait_ns),
            active_ns: hot.first_ns().saturating_add(plan.active_ns),
            is_closed,
        }
    }

    /// The earlier of the two.
    #[inline]
    pub(crate) fn ns(&self) -> u64 {
        self.idle_ns.min(self.active_ns)
    }

    /// True if the conversation is due no later than the piece.
    pub(crate) fn is_idle_first(&self) -> bool {
        self.idle_ns <= self.active_ns
    }

    /// The end reason of a piece that is due.
    pub(crate) fn reason(&self) -> EndReason {
        match (self.is_idle_first(), self.is_closed) {
            (false, _) => EndReason::Active,
            (true, false) => EndReason::Idle,
            (true, true) => EndReason::EndOfFlow,
        }
    }

    /// The end reason of a record that leaves at `now_ns`; `otherwise` if it is neither due nor closed.
    pub(crate) fn reason_at(&self, now_ns: u64, otherwise: EndReason) -> EndReason {
        match (now_ns >= self.ns(), self.is_closed) {
            (true, _) => self.reason(),
            (false, true) => EndReason::EndOfFlow,
            (false, false) => otherwise,
        }
    }
}

/// True if a packet begins another TCP connection on the ports of a known one.
#[inline]
pub(crate) fn is_new_connection(hot: &Hot, packet: &Headers, plan: &MeterPlan) -> bool {
    let may_be = packet.tcp_flags & SYN != 0 || hot.state.is_watched();
    may_be && hot.connection().is_another(packet.of.is_from_high, &packet.numbers(), has_one_end(hot, plan))
}

/// Begins another conversation with the key of a known one. If `is_new_connection`, the packet decided so, perhaps
/// about an earlier SYN, whose sender is the initiator.
pub(crate) fn begin_flow(hot: &mut Hot, packet: &Headers, is_new_connection: bool, plan: &MeterPlan) {
    let (connection, initiator) = match is_new_connection {
        true => hot.connection().another(&packet.numbers()),
        false => Default::default(),
    };
    hot.begin_flow(packet.of.key, packet.of.network);
    hot.set_connection(connection);
    if let Some(is_high) = initiator.filter(|_| plan.is_biflow) {
        hot.set_initiator(InitiatorRule::Syn, is_high);
    }
}

/// True if one sender is all that a flow has.
fn has_one_end(hot: &Hot, plan: &MeterPlan) -> bool {
    !plan.is_biflow || hot.key.has_equal_ends()
}

/// The rule by which a packet identifies the initiator, and true if that is the high end.
pub(crate) fn initiator(packet: &Headers, plan: &MeterPlan) -> (InitiatorRule, bool) {
    let sender = packet.of.is_from_high;
    if !plan.is_biflow {
        return (InitiatorRule::Sender, sender);
    }
    if let Some(is_reply) = packet.of.is_icmp_reply {
        return (InitiatorRule::Icmp, sender != is_reply);
    }
    let (evidence, is_sender) = net::initiator(packet.tcp_flags, packet.of.key.ports(sender));
    let rule = match evidence {
        InitiatorEvidence::Syn => InitiatorRule::Syn,
        InitiatorEvidence::SynAck => InitiatorRule::SynAck,
        InitiatorEvidence::Ports => InitiatorRule::Ports,
        InitiatorEvidence::First => InitiatorRule::First,
    };
    (rule, sender == is_sender)
}

/// Adds a packet to its flow.
#[inline]
pub(crate) fn add(hot: &mut Hot, packet: &Headers, plan: &MeterPlan) {
    if packet.tcp_flags & (SYN | FIN | RST) != 0 || hot.state.is_watched() {
        let mut connection = hot.connection();
        connection.add(packet.of.is_from_high, &packet.numbers(), has_one_end(hot, plan));
        hot.set_connection(connection);
    }
    add_plain(hot, packet, plan);
    if packet.tcp_flags & SYN != 0 {
        improve_initiator(hot, packet, plan);
    }
}

/// Adds a packet to its flow, except for what it decides about the connection.
#[inline(always)]
pub(crate) fn add_plain(hot: &mut Hot, packet: &Headers, plan: &MeterPlan) {
    let is_from_high = packet.of.is_from_high;
    let counters = &mut hot.directions[usize::from(is_from_high)];
    if counters.packets == 0 {
        (counters.first_ns, counters.last_ns) = (packet.time_ns, packet.time_ns);
        (counters.tos, counters.ttl_min, counters.ttl_max) = (packet.tos, packet.ttl, packet.ttl);
    } else {
        counters.first_ns = counters.first_ns.min(packet.time_ns);
        counters.last_ns = counters.last_ns.max(packet.time_ns);
        counters.ttl_min = counters.ttl_min.min(packet.ttl);
        counters.ttl_max = counters.ttl_max.max(packet.ttl);
    }
    counters.packets += 1;
    counters.bytes += u64::from(packet.ip_bytes);
    counters.tcp_flags |= packet.tcp_flags;
    if hot.state.rule() == 0 && !hot.state.has(State::CONTINUED) {
        let (rule, is_high) = initiator(packet, plan);
        hot.set_initiator(rule, is_high);
    }
    if packet.tcp_flags & (ACK | RST) == ACK && !hot.state.has(State::ANSWERED) {
        hot.state.set(State::ANSWERED, true);
    }
}

/// A SYN that comes later is stronger evidence than the first packet.
fn improve_initiator(hot: &mut Hot, packet: &Headers, plan: &MeterPlan) {
    let (rule, is_high) = initiator(packet, plan);
    if (rule as u8) < hot.state.rule() && !hot.state.has(State::CONTINUED) {
        hot.set_initiator(rule, is_high);
    }
}
