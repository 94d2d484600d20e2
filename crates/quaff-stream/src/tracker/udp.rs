//! UDP conversations: the datagrams between two endpoints, fragmented ones too, until none came for the idle time.
//!
//! Their numbers, places and limit are apart from those of TCP, so that neither depends on the other.

use super::plan::TrackPlan;
use super::read::TrackPacket;
use super::sink::{ConnectionSink, Opened, UdpPayload};
use super::table::{STEP_NS, State, Table};
use super::tally::{CloseReason, TrackTally};
use crate::datagram::{Datagram, Datagrams, Watched};
use crate::event::Sender;
use crate::key::Key;
use crate::tally::FragmentTally;
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::{UDP, UDP_BYTES};

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UdpFate {
    NotUdp,
    /// Of a conversation that is not selected.
    Unselected,
    /// Cut in its headers.
    Truncated,
    /// Its lengths are those of no datagram.
    Damaged,
    Taken,
}

/// A conversation in the table.
#[derive(Debug)]
struct UdpConversation {
    number: u64,
    last_ns: u64,
}

/// The conversations of a lane.
#[derive(Debug)]
pub(super) struct UdpTable {
    table: Table<UdpConversation>,
    secret: u64,
    datagrams: Datagrams,
    connections_max: usize,
    idle_ns: u64,
    /// The conversation with the number of the plan, while it lasts.
    chosen_key: Option<Key>,
}

impl UdpTable {
    pub(super) fn new(plan: &TrackPlan, secret: u64) -> Self {
        let mut datagrams = Datagrams::new(plan.fragment);
        datagrams.watch(plan.watched(plan.udp_number));
        Self {
            table: Table::new(secret),
            secret,
            datagrams,
            connections_max: plan.connections_max as usize,
            idle_ns: plan.idle_ns,
            chosen_key: None,
        }
    }

    pub(super) fn fragments(&self) -> FragmentTally {
        self.datagrams.watched_tally()
    }

    /// Processes a packet.
    pub(super) fn take<S: ConnectionSink + ?Sized>(
        &mut self,
        packet: &TrackPacket,
        (plan, tally): (&TrackPlan, &mut TrackTally),
        sink: &mut S,
    ) -> UdpFate {
        let TrackPacket { bytes, wire_bytes, linktype, time_ns } = *packet;
        let Ok(read) = FlowPacket::read(bytes, wire_bytes, linktype) else { return UdpFate::NotUdp };
        if read.protocol != UDP {
            return UdpFate::NotUdp;
        }
        if !plan.has_hosts(read.addresses) {
            return UdpFate::Unselected;
        }
        if read.ip_offset + read.ip_bytes > wire_bytes || read.ip_bytes > read.room {
            return UdpFate::Damaged;
        }
        if read.fragment.is_none() {
            return self.datagram(&read, (bytes, time_ns), (plan, tally), sink);
        }
        let policy = plan.policies.of(read.addresses[1]).fragment;
        let whole = self.datagrams.take(&read, (bytes, wire_bytes), time_ns, policy);
        match whole.filter(|whole| whole.read.protocol == UDP) {
            Some(Datagram { read, payload }) => {
                self.datagram(&read, (&payload, time_ns), (plan, tally), sink)
            }
            None => UdpFate::Taken,
        }
    }

    /// Processes a datagram that is not fragmented, or no longer.
    fn datagram<S: ConnectionSink + ?Sized>(
        &mut self,
        read: &FlowPacket,
        (bytes, time_ns): (&[u8], u64),
        (plan, tally): (&TrackPlan, &mut TrackTally),
        sink: &mut S,
    ) -> UdpFate {
        let (key, sender) = Key::of(read);
        if plan.only.is_some_and(|only| key.ends() != only) {
            return UdpFate::Unselected;
        }
        let payload = match payload(read, bytes) {
            Ok(payload) => payload,
            // Datagrams of other conversations decide which number the next one has; these decide nothing.
            Err(_) if plan.udp_number.is_some() && !self.is_of_chosen(&key, plan, tally) => {
                return UdpFate::Unselected;
            }
            Err(fate) => return fate,
        };
        let place = match self.find(&key, time_ns, tally, sink) {
            Some(place) => place,
            None => self.begin(key, (key.client(sender, 0), time_ns), (plan, tally), sink),
        };
        self.table.touch(place, State::Open, time_ns);
        if let Some(conversation) = self.table.get(place) {
            conversation.last_ns = time_ns;
        }
        sink.datagram(place, sender, time_ns, payload);
        UdpFate::Taken
    }

    /// True for a packet of the conversation with the number of the plan, or between the selected endpoints before it.
    #[cold]
    fn is_of_chosen(&self, key: &Key, plan: &TrackPlan, tally: &TrackTally) -> bool {
        match self.chosen_key {
            Some(chosen) => chosen == *key,
            None => plan.only.is_some() && plan.udp_number == Some(tally.udp + 1) && self.table.len() == 0,
        }
    }

    /// The conversation of a datagram at `time_ns`. One that was idle for too long ends: the order of the table is
    /// accurate to a second only.
    fn find<S: ConnectionSink + ?Sized>(
        &mut self,
        key: &Key,
        time_ns: u64,
        tally: &mut TrackTally,
        sink: &mut S,
    ) -> Option<u32> {
        let place = self.table.find(key, key.hash(self.secret))?;
        let last_ns = self.table.get(place).map_or(time_ns, |conversation| conversation.last_ns);
        if time_ns.saturating_sub(last_ns) <= self.idle_ns {
            return Some(place);
        }
        self.end(place, CloseReason::Idle, tally, sink);
        None
    }

    /// Starts a conversation; of a full table the longest-idle one ends.
    #[cold]
    fn begin<S: ConnectionSink + ?Sized>(
        &mut self,
        key: Key,
        (client, first_ns): (Sender, u64),
        (plan, tally): (&TrackPlan, &mut TrackTally),
        sink: &mut S,
    ) -> u32 {
        if self.table.len() >= self.connections_max
            && let Some((place, _)) = self.table.oldest(State::Open)
        {
            self.end(place, CloseReason::Evicted, tally, sink);
        }
        tally.udp += 1;
        let (number, ends) = (tally.udp, key.ends());
        if plan.udp_number == Some(number) {
            self.chosen_key = Some(key);
            self.datagrams.watch(Watched::Hosts(ends.map(|end| end.ip())));
        }
        let place = self.table.insert(key, UdpConversation { number, last_ns: first_ns }, first_ns);
        sink.begin_udp(place, &Opened { number, ends, client, first_ns });
        place
    }

    /// Ends conversations that have expired at `now_ns`, whatever their place in the second of the table's order.
    pub(super) fn end_old<S: ConnectionSink + ?Sized>(
        &mut self,
        now_ns: u64,
        tally: &mut TrackTally,
        sink: &mut S,
    ) {
        while let Some((place, touched_ns)) = self.table.oldest(State::Open) {
            if now_ns.saturating_sub(touched_ns) <= self.idle_ns.saturating_add(STEP_NS) {
                return;
            }
            self.end(place, CloseReason::Idle, tally, sink);
        }
    }

    /// Ends all conversations, in the order of their first packets.
    pub(super) fn finish<S: ConnectionSink + ?Sized>(&mut self, tally: &mut TrackTally, sink: &mut S) {
        self.datagrams.finish();
        let mut places: Vec<(u64, u32)> = Vec::with_capacity(self.table.len());
        for place in 0..self.table.places() {
            places.extend(self.table.get(place).map(|conversation| (conversation.number, place)));
        }
        places.sort_unstable();
        for (_, place) in places {
            self.end(place, CloseReason::InputEnded, tally, sink);
        }
    }

    fn end<S: ConnectionSink + ?Sized>(
        &mut self,
        place: u32,
        reason: CloseReason,
        tally: &mut TrackTally,
        sink: &mut S,
    ) {
        let key = self.table.key(place);
        let Some(conversation) = self.table.remove(place) else { return };
        if self.chosen_key.is_some() && self.chosen_key == key {
            self.chosen_key = None;
            self.datagrams.watch(Watched::None);
        }
        tally.udp_ended[reason as usize] += 1;
        sink.end_udp(place, conversation.last_ns, reason);
    }
}

/// The payload of a datagram by the length in its header; of IPv6 by that of IP if it is 0 (RFC 2675). A length beyond
/// that of IP is taken by no receiver.
fn payload<'a>(read: &FlowPacket, bytes: &'a [u8]) -> Result<UdpPayload<'a>, UdpFate> {
    let at = read.transport as usize;
    let header = bytes.get(at..read.end as usize).and_then(<[u8]>::first_chunk::<UDP_BYTES>);
    let Some([_, _, _, _, high, low, ..]) = header else { return Err(UdpFate::Truncated) };
    let ip_room = (read.ip_offset + read.ip_bytes).saturating_sub(read.transport);
    let length = match u32::from(u16::from_be_bytes([*high, *low])) {
        0 if read.addresses[0].is_ipv6() => ip_room,
        length if length > ip_room => return Err(UdpFate::Damaged),
        length => length,
    };
    let Some(wire_bytes) = length.checked_sub(UDP_BYTES as u32) else { return Err(UdpFate::Damaged) };
    let captured = bytes.get(at + UDP_BYTES..read.end as usize).unwrap_or_default();
    Ok(UdpPayload { bytes: &captured[..captured.len().min(wire_bytes as usize)], wire_bytes })
}
