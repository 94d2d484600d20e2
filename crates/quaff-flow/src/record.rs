//! One piece of a flow, as exports receive it, and the trait of sinks. Does not depend on a wire format: exports
//! encode.
//!
//! Names of IPFIX elements (IANA, RFC 5103) are given where they differ from the field's name.

use std::net::IpAddr;
use std::sync::Arc;

/// A flow, or a piece of a long one, that has left the table.
///
/// The source is the end that began the conversation (in a uniflow: the sender), as decided by the rule `initiator`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRecord {
    pub key: RecordKey,
    /// From source to destination. Without packets in a later piece in which only the destination sent.
    pub forward: Direction,
    /// From destination to source; without packets in a uniflow and in a conversation without an answer.
    pub reverse: Direction,
    /// The rule that chose the source (private element directionRule).
    pub initiator: InitiatorRule,
    pub end_reason: EndReason,
    /// The piece continues another one of the same flow, which an active timeout or a full counter ended.
    pub is_continued: bool,
    /// Fields enabled by the plan's `extras`; `None` if it enables none.
    pub extras: Option<Box<Extras>>,
}

impl FlowRecord {
    /// Time of the earliest packet of either direction, ns since 1970 (flowStart).
    pub fn first_ns(&self) -> u64 {
        let directions = [&self.forward, &self.reverse].into_iter().filter(|direction| direction.packets > 0);
        directions.map(|direction| direction.first_ns).min().unwrap_or(0)
    }

    /// Time of the latest packet of either direction, ns since 1970 (flowEnd).
    pub fn last_ns(&self) -> u64 {
        self.forward.last_ns.max(self.reverse.last_ns)
    }

    /// Packets of both directions.
    pub fn packets(&self) -> u64 {
        self.forward.packets.saturating_add(self.reverse.packets)
    }

    /// IP bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.forward.bytes.saturating_add(self.reverse.bytes)
    }
}

/// The fields that the packets of a flow share. Those that the plan excludes from the key are of the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// 0 for protocols without ports, and for later fragments without the first one.
    pub source_port: u16,
    pub destination_port: u16,
    /// IANA protocol number (protocolIdentifier).
    pub protocol: u8,
    /// ICMP and ICMPv6: type << 8 | code of the source's messages (icmpTypeCodeIPv4, icmpTypeCodeIPv6); otherwise 0.
    pub icmp_type_code: u16,
    /// Outermost VLAN ID; 0 without a tag (vlanId, dot1qVlanId).
    pub vlan: u16,
    /// VLAN ID of the second tag; 0 without one (dot1qCustomerVlanId).
    pub inner_vlan: u16,
    /// Top label of the MPLS stack; 0 without one (the 20 bits of label of mplsTopLabelStackSection).
    pub mpls_label: u32,
    /// Number of the interface in the input (ingressInterface is derived from it).
    pub interface: u16,
    /// Type of service or traffic class of the first packet (ipClassOfService).
    pub tos: u8,
    /// VNI, TEID, key or session of the removed tunnel; 0 without one.
    pub tunnel: u32,
}

impl RecordKey {
    /// IP version, 4 or 6 (ipVersion).
    pub fn ip_version(&self) -> u8 {
        if self.source.is_ipv6() { 6 } else { 4 }
    }
}

/// Counters of one direction of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Direction {
    /// packetDeltaCount.
    pub packets: u64,
    /// IP header and payload, by the header's own length (octetDeltaCount).
    pub bytes: u64,
    /// Times of the earliest and latest packet, ns since 1970; 0 without packets.
    pub first_ns: u64,
    pub last_ns: u64,
    /// Union of the flags of all packets (tcpControlBits).
    pub tcp_flags: u8,
    /// Type of service or traffic class of the direction's first packet.
    pub tos: u8,
    /// minimumTTL, maximumTTL.
    pub ttl_min: u8,
    pub ttl_max: u8,
}

/// The reason for a record (flowEndReason, IE 136).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EndReason {
    /// No packet for the idle timeout.
    Idle = 1,
    /// The piece reached the active timeout, or one of its counters was full.
    Active = 2,
    /// FIN of both sides or RST, or a new SYN on the same ports.
    EndOfFlow = 3,
    /// The meter ended, or the time of its input went back.
    Forced = 4,
    /// The table was full, and this flow was idle for long.
    LackOfResources = 5,
}

impl EndReason {
    /// The reason with a number of flowEndReason.
    pub fn numbered(number: u64) -> Option<Self> {
        let all = [Self::Idle, Self::Active, Self::EndOfFlow, Self::Forced, Self::LackOfResources];
        all.into_iter().find(|reason| *reason as u64 == number)
    }
}

/// The rule that chose the source of a conversation. A lower number is stronger evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum InitiatorRule {
    /// A uniflow: the source is the sender.
    Sender = 0,
    /// The source sent SYN without ACK.
    Syn = 1,
    /// The destination sent SYN with ACK.
    SynAck = 2,
    /// The source sent a request of ICMP, or the destination a reply.
    Icmp = 3,
    /// The destination's port is below 1024 and the source's port is ephemeral (from 32768), although the
    /// destination's packet was seen first.
    Ports = 4,
    /// The source sent the first packet that was seen.
    First = 5,
}

impl InitiatorRule {
    /// The rule with a number, as records and exports have it.
    pub fn numbered(number: u64) -> Option<Self> {
        let all = [Self::Sender, Self::Syn, Self::SynAck, Self::Icmp, Self::Ports, Self::First];
        all.into_iter().find(|rule| *rule as u64 == number)
    }
}

/// Fields that are computed only if the plan enables them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    pub forward: DirectionExtras,
    pub reverse: DirectionExtras,
    /// Time from SYN to SYN-ACK, ns: the round trip between meter and destination.
    pub server_rtt_ns: Option<u64>,
    /// Time from SYN-ACK to the next ACK, ns: the round trip between meter and source.
    pub client_rtt_ns: Option<u64>,
    pub application: Option<Application>,
    /// Addresses in the DNS answers of the conversation, with the name that was asked for.
    pub addresses: Vec<(IpAddr, Arc<str>)>,
}

/// Extras of one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectionExtras {
    /// MAC addresses of the sender and the receiver of the first packet; zeros if the link has none.
    pub macs: [[u8; 6]; 2],
    /// Bytes of TCP or UDP payload, by the headers' lengths.
    pub payload_bytes: u64,
    /// TCP packets that repeat sequence numbers seen before.
    pub retransmitted_packets: u32,
    /// TCP packets that fill a gap below the highest sequence number seen.
    pub out_of_order_packets: u32,
    /// TCP bytes that the receiver acknowledged but this meter never saw: lost before they reached it.
    pub lost_bytes: u64,
    /// The largest window, unscaled.
    pub window_max: u16,
    /// Smallest and largest packet, in IP bytes.
    pub packet_bytes_min: u32,
    pub packet_bytes_max: u32,
    /// Shortest and longest time between two packets, ns; 0 with fewer than two.
    pub gap_min_ns: u64,
    pub gap_max_ns: u64,
    /// The first bytes of payload, up to the plan's limit.
    pub payload: Vec<u8>,
    /// Times from data of this direction to the ACK that covers it: the round trip between meter and receiver, with the
    /// receiver's delay.
    pub ack_times: AckTimes,
}

/// Times from data to its ACK, measured for data that was sent once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AckTimes {
    /// Number of samples. The other fields are 0 without samples.
    pub samples: u32,
    pub min_ns: u64,
    pub max_ns: u64,
    /// Sum of all samples.
    pub sum_ns: u64,
}

impl AckTimes {
    /// Adds a sample.
    pub fn add(&mut self, ns: u64) {
        self.min_ns = if self.samples == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.samples = self.samples.saturating_add(1);
    }

    /// The arithmetic mean; 0 without samples.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.samples.into()).unwrap_or(0)
    }
}

/// The application of a conversation, by the first bytes of its payload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Application {
    /// `tls`, `quic`, `dns`, `http`, `ssh`.
    pub protocol: &'static str,
    /// The protocol, or the application inside TLS or QUIC if ALPN identifies it better than the port
    /// (applicationName).
    pub name: &'static str,
    /// Server name of TLS and QUIC, name of the DNS query, host of HTTP.
    pub server_name: Option<String>,
    /// Protocols that the client offers inside TLS or QUIC (RFC 7301), in its order, separated by commas.
    pub alpn: Option<String>,
}

/// Takes the records of a meter, on the thread of the lane. Never blocks, and counts the records that it cannot take.
pub trait FlowSink {
    /// Takes records in the order in which they left the table.
    fn take(&mut self, records: &[FlowRecord]);
}

/// Collects records, for tests and reports.
impl FlowSink for Vec<FlowRecord> {
    fn take(&mut self, records: &[FlowRecord]) {
        self.extend_from_slice(records);
    }
}
