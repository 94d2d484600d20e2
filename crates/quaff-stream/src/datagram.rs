//! Fragmented packets as whole ones: a [`Defragmenter`] for callers that have headers of packets.

use crate::fragment::{
    DatagramKey, Defragmenter, DropReason, FragmentEvent, FragmentPacket, FragmentPlan, FragmentSink,
};
use crate::policy::FragmentPolicy;
use crate::tally::FragmentTally;
use quaff_wire::flow::FlowPacket;
use std::net::IpAddr;

/// The hosts whose incomplete datagrams are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Watched {
    #[default]
    All,
    /// Those between two hosts, in any order.
    Hosts([IpAddr; 2]),
    None,
}

/// True for the same two hosts in any order.
pub(crate) fn is_same_pair([a, b]: [IpAddr; 2], other: [IpAddr; 2]) -> bool {
    other == [a, b] || other == [b, a]
}

/// Puts the fragments of a lane together.
#[derive(Debug)]
pub struct Datagrams {
    defragmenter: Defragmenter,
    whole: Whole,
}

/// The datagram that a fragment has completed.
#[derive(Debug, Default)]
struct Whole {
    protocol: Option<u8>,
    payload: Vec<u8>,
    watched: Watched,
    /// Incomplete datagrams of the watched hosts.
    incomplete: u64,
}

impl FragmentSink for Whole {
    fn event(&mut self, key: &DatagramKey, event: FragmentEvent) {
        match event {
            FragmentEvent::Whole { protocol, payload, .. } => {
                self.protocol = Some(protocol);
                self.payload.clear();
                self.payload.extend_from_slice(payload);
            }
            FragmentEvent::Dropped { reason, .. } if reason != DropReason::Overlap => {
                let hosts = key.datagram.addresses;
                let is_watched = matches!(self.watched, Watched::Hosts(of) if is_same_pair(of, hosts));
                self.incomplete += u64::from(is_watched);
            }
            _ => {}
        }
    }
}

/// A whole datagram.
#[derive(Debug)]
pub struct Datagram {
    /// Its headers: those of the packet that completed it, without a fragment; offsets are into `payload`.
    pub read: FlowPacket,
    /// From the transport header on.
    pub payload: Vec<u8>,
}

impl Datagrams {
    /// Creates one without fragments.
    pub fn new(plan: FragmentPlan) -> Self {
        Self { defragmenter: Defragmenter::new(plan), whole: Whole::default() }
    }

    /// Counters of fragment bytes.
    pub fn tally(&self) -> &FragmentTally {
        self.defragmenter.tally()
    }

    /// Counts from now on the incomplete datagrams of these hosts alone.
    pub(crate) fn watch(&mut self, watched: Watched) {
        self.whole.watched = watched;
    }

    /// The counters of all fragments, or the incomplete datagrams of the hosts that were watched.
    pub(crate) fn watched_tally(&self) -> FragmentTally {
        match self.whole.watched {
            Watched::All => *self.tally(),
            _ => FragmentTally { expired: self.whole.incomplete, ..FragmentTally::default() },
        }
    }

    /// Drops all incomplete datagrams.
    pub fn finish(&mut self) {
        self.defragmenter.finish(&mut self.whole);
    }

    /// Processes a fragment of `wire_bytes` bytes with these headers at `time_ns`, and returns the datagram that it
    /// completes. `policy` is that of the destination.
    #[cold]
    pub fn take(
        &mut self,
        read: &FlowPacket,
        (bytes, wire_bytes): (&[u8], u32),
        time_ns: u64,
        policy: FragmentPolicy,
    ) -> Option<Datagram> {
        let (datagram, fragment) = (read.datagram()?, read.fragment?);
        if read.ip_offset + read.ip_bytes > wire_bytes {
            return None;
        }
        let [ip, transport, end] = [read.ip_offset, read.transport, read.end].map(|at| at as usize);
        let part = FragmentPacket {
            offset: fragment.offset_bytes,
            more: fragment.more,
            protocol: read.protocol,
            header: bytes.get(ip..transport)?,
            payload: bytes.get(transport..end)?,
            wire_bytes: (read.ip_offset + read.ip_bytes).saturating_sub(read.transport),
            time_ns,
        };
        let key = DatagramKey { datagram, vlan: read.vlan, tunnel: 0 };
        self.whole.protocol = None;
        self.defragmenter.take(key, policy, &part, &mut self.whole);
        let protocol = self.whole.protocol?;
        let payload = std::mem::take(&mut self.whole.payload);
        let [a, b, c, d] = payload.first_chunk::<4>().copied()?;
        let bytes = payload.len() as u32;
        let read = FlowPacket {
            protocol,
            ports: [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])],
            tcp_flags: payload.get(13).copied().unwrap_or(0),
            ip_bytes: bytes,
            fragment: None,
            ip_offset: 0,
            transport: 0,
            end: bytes,
            ..*read
        };
        Some(Datagram { read, payload })
    }
}
