//! UDP conversations: the datagrams between two endpoints, fragmented ones too, until none came for the idle time.
//!
//! Their numbers, places and limit are apart from those of TCP, so that neither depends on the other.

use super::plan::TrackPlan;
use super::read::TrackPacket;
use super::sink::{ConnectionSink, Opened, UdpPayload};
use super::table::{State, Table};
use super::tally::CloseReason;
use crate::datagram::{Datagram, Datagrams};
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
struct Talk {
    number: u64,
    last_ns: u64,
}

/// The conversations of a lane.
#[derive(Debug)]
pub(super) struct UdpTable {
    table: Table<Talk>,
    secret: u64,
    datagrams: Datagrams,
    connections_max: usize,
    idle_ns: u64,
    /// Conversations so far.
    count: u64,
}

impl UdpTable {
    pub(super) fn new(plan: &TrackPlan, secret: u64) -> Self {
        Self {
            table: Table::new(secret),
            secret,
            datagrams: Datagrams::new(plan.fragment),
            connections_max: plan.connections_max as usize,
            idle_ns: plan.idle_ns,
            count: 0,
        }
    }

    pub(super) fn fragments(&self) -> FragmentTally {
        *self.datagrams.tally()
    }

    /// Processes a packet.
    pub(super) fn take<S: ConnectionSink + ?Sized>(
        &mut self,
        packet: &TrackPacket,
        plan: &TrackPlan,
        sink: &mut S,
    ) -> UdpFate {
        let TrackPacket { bytes, wire_bytes, linktype, time_ns } = *packet;
        let Ok(read) = FlowPacket::read(bytes, wire_bytes, linktype) else { return UdpFate::NotUdp };
        if read.protocol != UDP {
            return UdpFate::NotUdp;
        }
        if read.ip_offset + read.ip_bytes > wire_bytes || read.ip_bytes > read.room {
            return UdpFate::Damaged;
        }
        if read.fragment.is_none() {
            return self.datagram(&read, bytes, time_ns, plan, sink);
        }
        let policy = plan.policies.of(read.addresses[1]).fragment;
        let whole = self.datagrams.take(&read, (bytes, wire_bytes), time_ns, policy);
        match whole.filter(|whole| whole.read.protocol == UDP) {
            Some(Datagram { read, payload }) => self.datagram(&read, &payload, time_ns, plan, sink),
            None => UdpFate::Taken,
        }
    }

    /// Processes a datagram that is not fragmented, or no longer.
    fn datagram<S: ConnectionSink + ?Sized>(
        &mut self,
        read: &FlowPacket,
        bytes: &[u8],
        time_ns: u64,
        plan: &TrackPlan,
        sink: &mut S,
    ) -> UdpFate {
        let (key, sender) = Key::of(read);
        if plan.only.is_some_and(|only| key.ends() != only) {
            return UdpFate::Unselected;
        }
        let payload = match payload(read, bytes) {
            Ok(payload) => payload,
            Err(fate) => return fate,
        };
        let place = match self.table.find(&key, key.hash(self.secret)) {
            Some(place) => place,
            None => {
                self.make_room(sink);
                self.count += 1;
                let number = self.count;
                let place = self.table.insert(key, Talk { number, last_ns: time_ns }, time_ns);
                let opened = Opened { number, ends: key.ends(), client: sender, first_ns: time_ns };
                sink.begin_udp(place, &opened);
                place
            }
        };
        self.table.touch(place, State::Open, time_ns);
        if let Some(talk) = self.table.get(place) {
            talk.last_ns = time_ns;
        }
        sink.datagram(place, sender, time_ns, payload);
        UdpFate::Taken
    }

    /// Ends the longest-idle conversation of a full table.
    fn make_room<S: ConnectionSink + ?Sized>(&mut self, sink: &mut S) {
        if self.table.len() >= self.connections_max
            && let Some((place, _)) = self.table.oldest(State::Open)
        {
            self.end(place, CloseReason::Evicted, sink);
        }
    }

    /// Ends conversations that have expired at `now_ns`.
    pub(super) fn end_old<S: ConnectionSink + ?Sized>(&mut self, now_ns: u64, sink: &mut S) {
        while let Some((place, touched_ns)) = self.table.oldest(State::Open) {
            if now_ns.saturating_sub(touched_ns) <= self.idle_ns {
                return;
            }
            self.end(place, CloseReason::Idle, sink);
        }
    }

    /// Ends all conversations, in the order of their first packets.
    pub(super) fn finish<S: ConnectionSink + ?Sized>(&mut self, sink: &mut S) {
        self.datagrams.finish();
        let mut places: Vec<(u64, u32)> = Vec::with_capacity(self.table.len());
        for place in 0..self.table.places() {
            places.extend(self.table.get(place).map(|talk| (talk.number, place)));
        }
        places.sort_unstable();
        for (_, place) in places {
            self.end(place, CloseReason::InputEnded, sink);
        }
    }

    fn end<S: ConnectionSink + ?Sized>(&mut self, place: u32, reason: CloseReason, sink: &mut S) {
        if let Some(talk) = self.table.remove(place) {
            sink.end_udp(place, talk.last_ns, reason);
        }
    }
}

/// The payload of a datagram by the length in its header; by that of IP if it is 0 (RFC 2675).
fn payload<'a>(read: &FlowPacket, bytes: &'a [u8]) -> Result<UdpPayload<'a>, UdpFate> {
    let at = read.transport as usize;
    let header = bytes.get(at..read.end as usize).and_then(<[u8]>::first_chunk::<UDP_BYTES>);
    let Some([_, _, _, _, high, low, ..]) = header else { return Err(UdpFate::Truncated) };
    let room = (read.ip_offset + read.ip_bytes).saturating_sub(read.transport);
    let length = match u32::from(u16::from_be_bytes([*high, *low])) {
        0 => room,
        length => length.min(room),
    };
    let Some(wire_bytes) = length.checked_sub(UDP_BYTES as u32) else { return Err(UdpFate::Damaged) };
    let captured = bytes.get(at + UDP_BYTES..read.end as usize).unwrap_or_default();
    Ok(UdpPayload { bytes: &captured[..captured.len().min(wire_bytes as usize)], wire_bytes })
}
