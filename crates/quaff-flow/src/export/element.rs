//! The registry of information elements: the names of a field, its encoding, and the value of a record in it.
//!
//! All exports use one table. Numbers, names and types of IANA elements are those of the registry that RFC 7012
//! created; labels are those of nProbe; elements of ntop (enterprise 35632) keep the numbers that collectors know.
//! Nothing here reads a record: `value.rs` does.

use DataType::{Boolean, IpV4, IpV6, Mac, Micros, Millis, Nanos, Octets, Seconds, Text, U8, U16, U32, U64};
use Unit::{Hops, Micro, Milli, Nano, Octet, Packet};
use Value as V;

/// ntop's private enterprise number.
pub(crate) const NTOP: u32 = 35632;
/// The enterprise number that marks the other direction of an IANA element (RFC 5103, 6.1).
pub(crate) const REVERSE: u32 = 29305;
/// The enterprise number of elements that quaff alone defines. It is the one that RFC 5612 reserves for documentation,
/// because quaff has none of its own.
pub(crate) const PRIVATE: u32 = 32473;
/// The bit of an element's number that marks the other direction under any other enterprise (RFC 5103, 6.2).
pub(crate) const REVERSE_BIT: u16 = 0x4000;
/// The length in a template that marks a field of variable length (RFC 7011, 7).
pub(crate) const VARIABLE: u16 = 65535;
/// The number of ntop's element 0 in NetFlow v9.
const NTOP_V9: u16 = 57472;

/// An abstract data type, numbered as in RFC 5610, 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DataType {
    Octets = 0,
    U8 = 1,
    U16 = 2,
    U32 = 3,
    U64 = 4,
    Boolean = 11,
    Mac = 12,
    Text = 13,
    Seconds = 14,
    Millis = 15,
    Micros = 16,
    Nanos = 17,
    IpV4 = 18,
    IpV6 = 19,
}

/// The unit of a value, numbered as in RFC 5610, 3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Unit {
    None = 0,
    Octet = 2,
    Packet = 3,
    Milli = 6,
    Micro = 7,
    Nano = 8,
    Hops = 11,
}

/// A value of a flow record, a sampler or an exporter. `value.rs` reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    Source,
    Destination,
    NextHop,
    SourcePort,
    DestinationPort,
    Protocol,
    IpVersion,
    ServiceClass,
    IcmpTypeCode,
    IcmpType,
    IcmpCode,
    Vlan,
    InnerVlan,
    MplsLabel,
    Input,
    Output,
    SourceMac,
    DestinationMac,
    Bytes,
    Packets,
    TcpFlags,
    Start,
    End,
    Duration,
    InitTime,
    EndReason,
    BiflowDirection,
    FlowDirection,
    FlowId,
    MinTtl,
    MaxTtl,
    MinLength,
    MaxLength,
    SourceAs,
    DestinationAs,
    SourcePrefix,
    DestinationPrefix,
    Tunnel,
    Retransmitted,
    OutOfOrder,
    LostBytes,
    PayloadBytes,
    WindowMax,
    /// Half of the round-trip time, as in nProbe.
    ClientLatency,
    ServerLatency,
    ClientRoundTrip,
    ServerRoundTrip,
    GapMin,
    GapMax,
    Payload,
    Application,
    /// The protocols that the client offers.
    Alpn,
    AckTimes,
    AckTimeMin,
    AckTimeMean,
    AckTimeMax,
    /// The server's name, in flows of these protocols only.
    ServerName(&'static [&'static str]),
    InitiatorRule,
    Continued,
    SamplingInterval,
    SamplingAlgorithm,
    EngineType,
    EngineId,
}

/// nProbe's label and number of an element's other direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Twin {
    pub(crate) label: &'static str,
    /// The field type in NetFlow v9; 0: none.
    pub(crate) v9: u16,
    /// The IPFIX name that nProbe gives it, if that is the name of another element.
    pub(crate) alias: &'static str,
}

/// One information element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// The number within its enterprise.
    pub id: u16,
    /// The enterprise; 0: IANA.
    pub pen: u32,
    /// The IPFIX name, such as `sourceIPv4Address`.
    pub name: &'static str,
    /// nProbe's label, such as `IPV4_SRC_ADDR`; empty if there is none.
    pub label: &'static str,
    pub kind: DataType,
    /// The length in IPFIX; 65535: variable.
    pub bytes: u16,
    /// The field type in NetFlow v9; 0: none.
    pub(crate) v9: u16,
    /// The length in NetFlow v9, which has no variable lengths.
    pub(crate) v9_bytes: u16,
    pub(crate) unit: Unit,
    pub(crate) semantics: u8,
    /// A template may name it for the other direction, too (RFC 5103, 6.1).
    pub(crate) reversible: bool,
    pub(crate) twin: Option<Twin>,
    pub(crate) value: Value,
    /// The value is that of the reverse direction, under a number of its own.
    pub(crate) of_reverse: bool,
    /// The meaning, if no registry has it.
    pub(crate) description: &'static str,
}

/// Semantics of RFC 5610, 3.2.
const QUANTITY: u8 = 1;
const TOTAL: u8 = 2;
const DELTA: u8 = 3;
const IDENTIFIER: u8 = 4;
const FLAGS: u8 = 5;

const fn width(kind: DataType) -> u16 {
    match kind {
        U8 | Boolean => 1,
        U16 => 2,
        U32 | Seconds | IpV4 => 4,
        Mac => 6,
        U64 | Millis | Micros | Nanos => 8,
        IpV6 => 16,
        Octets | Text => VARIABLE,
    }
}

impl Element {
    const fn new(id: u16, name: &'static str, label: &'static str, kind: DataType, value: Value) -> Self {
        Self {
            id,
            pen: 0,
            name,
            label,
            kind,
            bytes: width(kind),
            v9: id,
            v9_bytes: width(kind),
            unit: Unit::None,
            semantics: 0,
            reversible: true,
            twin: None,
            value,
            of_reverse: false,
            description: "",
        }
    }

    /// An element of ntop.
    const fn ntop(n: u16, name: &'static str, label: &'static str, kind: DataType, value: Value) -> Self {
        let new = Self::new(n, name, label, kind, value);
        Self { pen: NTOP, v9: NTOP_V9 + n, reversible: false, ..new }
    }

    /// An element of quaff, which NetFlow v9 cannot have.
    const fn own(
        id: u16,
        name: &'static str,
        kind: DataType,
        value: Value,
        description: &'static str,
    ) -> Self {
        Self { pen: PRIVATE, v9: 0, description, ..Self::new(id, name, "", kind, value) }
    }

    const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    const fn means(self, semantics: u8) -> Self {
        Self { semantics, ..self }
    }

    /// Sets the length in NetFlow v9.
    const fn in_v9(self, v9_bytes: u16) -> Self {
        Self { v9_bytes, ..self }
    }

    const fn one_way(self) -> Self {
        Self { reversible: false, ..self }
    }

    const fn twin(self, label: &'static str, v9: u16, alias: &'static str) -> Self {
        Self { twin: Some(Twin { label, v9, alias }), ..self }
    }

    const fn reversed(self) -> Self {
        Self { of_reverse: true, ..self }
    }
}

const fn e(id: u16, name: &'static str, label: &'static str, kind: DataType, value: Value) -> Element {
    Element::new(id, name, label, kind, value)
}

const fn n(id: u16, name: &'static str, label: &'static str, kind: DataType, value: Value) -> Element {
    Element::ntop(id, name, label, kind, value)
}

/// The top label of a stack with its traffic class, bottom bit and no time to live: three bytes (RFC 7012).
const TOP_LABEL: Element = {
    let element = e(70, "mplsTopLabelStackSection", "MPLS_LABEL_1", Octets, V::MplsLabel).one_way();
    Element { bytes: 3, v9_bytes: 3, ..element }
};

/// All elements that a template may name.
#[rustfmt::skip]
pub(crate) static ELEMENTS: &[Element] = &[
    e(1, "octetDeltaCount", "IN_BYTES", U64, V::Bytes).unit(Octet).means(DELTA).twin("OUT_BYTES", 23, "postOctetDeltaCount"),
    e(2, "packetDeltaCount", "IN_PKTS", U64, V::Packets).unit(Packet).means(DELTA).twin("OUT_PKTS", 24, "postPacketDeltaCount"),
    e(4, "protocolIdentifier", "PROTOCOL", U8, V::Protocol).means(IDENTIFIER).one_way(),
    e(5, "ipClassOfService", "SRC_TOS", U8, V::ServiceClass).means(IDENTIFIER).twin("DST_TOS", 55, "postIpClassOfService"),
    e(6, "tcpControlBits", "TCP_FLAGS", U16, V::TcpFlags).means(FLAGS).in_v9(1),
    e(7, "sourceTransportPort", "L4_SRC_PORT", U16, V::SourcePort).means(IDENTIFIER).one_way(),
    e(8, "sourceIPv4Address", "IPV4_SRC_ADDR", IpV4, V::Source).one_way(),
    e(9, "sourceIPv4PrefixLength", "IPV4_SRC_MASK", U8, V::SourcePrefix).one_way(),
    e(10, "ingressInterface", "INPUT_SNMP", U32, V::Input).means(IDENTIFIER).one_way(),
    e(11, "destinationTransportPort", "L4_DST_PORT", U16, V::DestinationPort).means(IDENTIFIER).one_way(),
    e(12, "destinationIPv4Address", "IPV4_DST_ADDR", IpV4, V::Destination).one_way(),
    e(13, "destinationIPv4PrefixLength", "IPV4_DST_MASK", U8, V::DestinationPrefix).one_way(),
    e(14, "egressInterface", "OUTPUT_SNMP", U32, V::Output).means(IDENTIFIER).one_way(),
    e(15, "ipNextHopIPv4Address", "IPV4_NEXT_HOP", IpV4, V::NextHop).one_way(),
    e(16, "bgpSourceAsNumber", "SRC_AS", U32, V::SourceAs).means(IDENTIFIER).one_way(),
    e(17, "bgpDestinationAsNumber", "DST_AS", U32, V::DestinationAs).means(IDENTIFIER).one_way(),
    e(21, "flowEndSysUpTime", "LAST_SWITCHED", U32, V::End).unit(Milli),
    e(22, "flowStartSysUpTime", "FIRST_SWITCHED", U32, V::Start).unit(Milli),
    e(25, "minimumIpTotalLength", "MIN_IP_PKT_LEN", U64, V::MinLength).unit(Octet).in_v9(2),
    e(26, "maximumIpTotalLength", "MAX_IP_PKT_LEN", U64, V::MaxLength).unit(Octet).in_v9(2),
    e(27, "sourceIPv6Address", "IPV6_SRC_ADDR", IpV6, V::Source).one_way(),
    e(28, "destinationIPv6Address", "IPV6_DST_ADDR", IpV6, V::Destination).one_way(),
    e(29, "sourceIPv6PrefixLength", "IPV6_SRC_MASK", U8, V::SourcePrefix).one_way(),
    e(30, "destinationIPv6PrefixLength", "IPV6_DST_MASK", U8, V::DestinationPrefix).one_way(),
    e(32, "icmpTypeCodeIPv4", "ICMP_TYPE", U16, V::IcmpTypeCode).means(IDENTIFIER).one_way(),
    e(34, "samplingInterval", "SAMPLING_INTERVAL", U32, V::SamplingInterval).means(QUANTITY).unit(Packet).one_way(),
    e(35, "samplingAlgorithm", "SAMPLING_ALGORITHM", U8, V::SamplingAlgorithm).means(IDENTIFIER).one_way(),
    e(38, "engineType", "ENGINE_TYPE", U8, V::EngineType).means(IDENTIFIER).one_way(),
    e(39, "engineId", "ENGINE_ID", U8, V::EngineId).means(IDENTIFIER).one_way(),
    e(52, "minimumTTL", "MIN_TTL", U8, V::MinTtl).unit(Hops),
    e(53, "maximumTTL", "MAX_TTL", U8, V::MaxTtl).unit(Hops),
    e(56, "sourceMacAddress", "IN_SRC_MAC", Mac, V::SourceMac).one_way(),
    e(57, "postDestinationMacAddress", "OUT_DST_MAC", Mac, V::DestinationMac).one_way(),
    e(58, "vlanId", "SRC_VLAN", U16, V::Vlan).means(IDENTIFIER),
    e(59, "postVlanId", "DST_VLAN", U16, V::Vlan).means(IDENTIFIER).one_way(),
    e(60, "ipVersion", "IP_PROTOCOL_VERSION", U8, V::IpVersion).means(IDENTIFIER).one_way(),
    e(61, "flowDirection", "DIRECTION", U8, V::FlowDirection).means(IDENTIFIER).one_way(),
    e(62, "ipNextHopIPv6Address", "IPV6_NEXT_HOP", IpV6, V::NextHop).one_way(),
    TOP_LABEL,
    e(80, "destinationMacAddress", "IN_DST_MAC", Mac, V::DestinationMac).one_way(),
    e(81, "postSourceMacAddress", "OUT_SRC_MAC", Mac, V::SourceMac).one_way(),
    e(85, "octetTotalCount", "OCTET_TOTAL", U64, V::Bytes).unit(Octet).means(TOTAL),
    e(86, "packetTotalCount", "PACKET_TOTAL", U64, V::Packets).unit(Packet).means(TOTAL),
    e(136, "flowEndReason", "FLOW_END_REASON", U8, V::EndReason).means(IDENTIFIER).one_way(),
    e(139, "icmpTypeCodeIPv6", "", U16, V::IcmpTypeCode).means(IDENTIFIER).one_way(),
    e(148, "flowId", "FLOW_ID", U64, V::FlowId).means(IDENTIFIER).one_way(),
    e(150, "flowStartSeconds", "FLOW_START_SEC", Seconds, V::Start),
    e(151, "flowEndSeconds", "FLOW_END_SEC", Seconds, V::End),
    e(152, "flowStartMilliseconds", "FLOW_START_MILLISECONDS", Millis, V::Start),
    e(153, "flowEndMilliseconds", "FLOW_END_MILLISECONDS", Millis, V::End),
    e(154, "flowStartMicroseconds", "FLOW_START_MICROSECONDS", Micros, V::Start),
    e(155, "flowEndMicroseconds", "FLOW_END_MICROSECONDS", Micros, V::End),
    e(156, "flowStartNanoseconds", "FLOW_START_NANOSECONDS", Nanos, V::Start),
    e(157, "flowEndNanoseconds", "FLOW_END_NANOSECONDS", Nanos, V::End),
    e(160, "systemInitTimeMilliseconds", "", Millis, V::InitTime).one_way(),
    e(161, "flowDurationMilliseconds", "FLOW_DURATION_MILLISECONDS", U32, V::Duration).unit(Milli),
    e(162, "flowDurationMicroseconds", "FLOW_DURATION_MICROSECONDS", U32, V::Duration).unit(Micro),
    e(176, "icmpTypeIPv4", "ICMP_IPV4_TYPE", U8, V::IcmpType).means(IDENTIFIER).one_way(),
    e(177, "icmpCodeIPv4", "ICMP_IPV4_CODE", U8, V::IcmpCode).means(IDENTIFIER).one_way(),
    e(178, "icmpTypeIPv6", "", U8, V::IcmpType).means(IDENTIFIER).one_way(),
    e(179, "icmpCodeIPv6", "", U8, V::IcmpCode).means(IDENTIFIER).one_way(),
    e(239, "biflowDirection", "BIFLOW_DIRECTION", U8, V::BiflowDirection).means(IDENTIFIER).one_way(),
    e(243, "dot1qVlanId", "DOT1Q_SRC_VLAN", U16, V::Vlan).means(IDENTIFIER),
    e(245, "dot1qCustomerVlanId", "", U16, V::InnerVlan).means(IDENTIFIER),
    e(254, "postDot1qVlanId", "DOT1Q_DST_VLAN", U16, V::Vlan).means(IDENTIFIER).one_way(),
    e(255, "postDot1qCustomerVlanId", "", U16, V::InnerVlan).means(IDENTIFIER).one_way(),
    e(96, "applicationName", "APPLICATION_NAME", Text, V::Application).in_v9(16).one_way(),

    n(78, "ntopClientTcpFlags", "CLIENT_TCP_FLAGS", U8, V::TcpFlags).means(FLAGS),
    n(79, "ntopServerTcpFlags", "SERVER_TCP_FLAGS", U8, V::TcpFlags).means(FLAGS).reversed(),
    n(106, "ntopUpstreamTunnelId", "UPSTREAM_TUNNEL_ID", U32, V::Tunnel).means(IDENTIFIER),
    n(107, "ntopLongestFlowPkt", "LONGEST_FLOW_PKT", U16, V::MaxLength).unit(Octet),
    n(108, "ntopShortestFlowPkt", "SHORTEST_FLOW_PKT", U16, V::MinLength).unit(Octet),
    n(109, "ntopRetransmittedInPkts", "RETRANSMITTED_IN_PKTS", U32, V::Retransmitted).unit(Packet),
    n(110, "ntopRetransmittedOutPkts", "RETRANSMITTED_OUT_PKTS", U32, V::Retransmitted).unit(Packet).reversed(),
    n(111, "ntopOoorderInPkts", "OOORDER_IN_PKTS", U32, V::OutOfOrder).unit(Packet),
    n(112, "ntopOoorderOutPkts", "OOORDER_OUT_PKTS", U32, V::OutOfOrder).unit(Packet).reversed(),
    n(119, "ntopL7ProtoName", "L7_PROTO_NAME", Text, V::Application).in_v9(16),
    n(123, "ntopClientNwLatencyMs", "CLIENT_NW_LATENCY_MS", U32, V::ClientLatency).unit(Milli),
    n(124, "ntopServerNwLatencyMs", "SERVER_NW_LATENCY_MS", U32, V::ServerLatency).unit(Milli),
    n(187, "ntopHttpHost", "HTTP_HOST", Text, V::ServerName(&["http"])).in_v9(64),
    n(188, "ntopTlsServerName", "TLS_SERVER_NAME", Text, V::ServerName(&["tls", "quic"])).in_v9(64),
    n(205, "ntopDnsQuery", "DNS_QUERY", Text, V::ServerName(&["dns"])).in_v9(64),
    n(416, "ntopTcpWinMaxIn", "TCP_WIN_MAX_IN", U16, V::WindowMax).unit(Octet),
    n(420, "ntopTcpWinMaxOut", "TCP_WIN_MAX_OUT", U16, V::WindowMax).unit(Octet).reversed(),

    Element::own(1, "quaffInitiatorRule", U8, V::InitiatorRule, "rule that chose the source: 0 sender, 1 SYN, 2 SYN-ACK, 3 ICMP, 4 ports, 5 first packet").means(IDENTIFIER).one_way(),
    Element::own(2, "quaffLostOctetCount", U64, V::LostBytes, "TCP payload acknowledged but never seen").unit(Octet),
    Element::own(3, "quaffRetransmittedPacketCount", U64, V::Retransmitted, "TCP packets whose sequence numbers were seen before").unit(Packet),
    Element::own(4, "quaffOutOfOrderPacketCount", U64, V::OutOfOrder, "TCP packets that filled a gap").unit(Packet),
    Element::own(5, "quaffClientRoundTripMicroseconds", U32, V::ClientRoundTrip, "from SYN-ACK to ACK").unit(Micro).one_way(),
    Element::own(6, "quaffServerRoundTripMicroseconds", U32, V::ServerRoundTrip, "from SYN to SYN-ACK").unit(Micro).one_way(),
    Element::own(7, "quaffPayloadOctetCount", U64, V::PayloadBytes, "payload of TCP or UDP").unit(Octet),
    Element::own(8, "quaffGapMinNanoseconds", U64, V::GapMin, "shortest time between two packets").unit(Nano),
    Element::own(9, "quaffGapMaxNanoseconds", U64, V::GapMax, "longest time between two packets").unit(Nano),
    Element::own(10, "quaffFirstPayload", Octets, V::Payload, "first octets of the payload"),
    Element::own(11, "quaffServerName", Text, V::ServerName(&[]), "TLS or QUIC server name, DNS query name, HTTP host").one_way(),
    Element::own(12, "quaffIsContinued", Boolean, V::Continued, "the record follows another one of the same flow").one_way(),
    Element::own(13, "quaffWindowMax", U16, V::WindowMax, "largest TCP window, unscaled").unit(Octet),
    Element::own(14, "quaffTunnelId", U32, V::Tunnel, "VNI, TEID, key or session of the tunnel that was removed").means(IDENTIFIER).one_way(),
    Element::own(15, "quaffApplicationProtocols", Text, V::Alpn, "protocols that the client offers in TLS or QUIC (ALPN), in its order, with commas").one_way(),
    Element::own(16, "quaffAckTimeCount", U32, V::AckTimes, "measured times from TCP data to its ACK, of data that was sent once"),
    Element::own(17, "quaffAckTimeMinMicroseconds", U32, V::AckTimeMin, "shortest time from TCP data to its ACK").unit(Micro),
    Element::own(18, "quaffAckTimeMeanMicroseconds", U32, V::AckTimeMean, "mean time from TCP data to its ACK").unit(Micro),
    Element::own(19, "quaffAckTimeMaxMicroseconds", U32, V::AckTimeMax, "longest time from TCP data to its ACK").unit(Micro),
];

/// Finds an element by its exact IPFIX name or label. The flag is `true` for its other direction.
pub(crate) fn find(name: &str) -> Option<(&'static Element, bool)> {
    let same =
        |element: &&Element| element.name == name || !element.label.is_empty() && element.label == name;
    if let Some(found) = ELEMENTS.iter().find(same) {
        return Some((found, false));
    }
    let by_twin =
        |element: &&Element| element.twin.is_some_and(|twin| twin.label == name || twin.alias == name);
    if let Some(found) = ELEMENTS.iter().find(by_twin) {
        return Some((found, true));
    }
    let base = name.strip_prefix("reverse")?;
    let same =
        |element: &&Element| element.reversible && !element.of_reverse && capital(element.name) == base;
    ELEMENTS.iter().find(same).map(|found| (found, true))
}

/// Finds an element by enterprise and number.
pub(crate) fn by_number(pen: u32, id: u16) -> Option<&'static Element> {
    ELEMENTS.iter().find(|element| element.pen == pen && element.id == id)
}

/// Returns a name with a capital first letter, as it follows `reverse`.
pub(crate) fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The element that replaces this one in records of IPv6; itself if it is used for both families.
pub(crate) fn for_ipv6(element: &'static Element) -> &'static Element {
    let id = match (element.pen, element.id) {
        (0, 8) => 27,
        (0, 12) => 28,
        (0, 9) => 29,
        (0, 13) => 30,
        (0, 15) => 62,
        (0, 32) => 139,
        (0, 176) => 178,
        (0, 177) => 179,
        _ => return element,
    };
    by_number(0, id).unwrap_or(element)
}

/// The element that replaces this one in records of IPv4; itself if it is used for both families.
pub(crate) fn for_ipv4(element: &'static Element) -> &'static Element {
    let id = match (element.pen, element.id) {
        (0, 27) => 8,
        (0, 28) => 12,
        (0, 29) => 9,
        (0, 30) => 13,
        (0, 62) => 15,
        (0, 139) => 32,
        (0, 178) => 176,
        (0, 179) => 177,
        _ => return element,
    };
    by_number(0, id).unwrap_or(element)
}

/// The names most similar to an unknown one, at most three, the best first.
pub(crate) fn near(name: &str) -> Vec<&'static str> {
    let wanted = name.to_ascii_lowercase();
    let limit = 2 + wanted.len() / 5;
    let twins = ELEMENTS.iter().filter_map(|element| element.twin.map(|twin| twin.label));
    let names = ELEMENTS.iter().flat_map(|element| [element.label, element.name]).chain(twins);
    let mut near: Vec<(usize, &str)> = names
        .filter(|known| !known.is_empty())
        .map(|known| (distance(&wanted, &known.to_ascii_lowercase()), known))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.dedup_by_key(|(_, known)| *known);
    near.into_iter().take(3).map(|(_, known)| known).collect()
}

/// The edit distance of two words: insertions, deletions and substitutions. Only the first 64 bytes count.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (&one.as_bytes()[..one.len().min(64)], &other.as_bytes()[..other.len().min(64)]);
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, known) in other.iter().enumerate() {
            let substituted = diagonal + usize::from(byte != known);
            diagonal = row[place + 1];
            row[place + 1] = substituted.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_numbers_are_unique() {
        let mut names = BTreeSet::new();
        let mut numbers = BTreeSet::new();
        for element in ELEMENTS {
            assert!(names.insert(element.name), "{}", element.name);
            assert!(element.label.is_empty() || names.insert(element.label), "{}", element.label);
            if let Some(twin) = element.twin {
                assert!(names.insert(twin.label) && names.insert(twin.alias), "{}", twin.label);
            }
            assert!(numbers.insert((element.pen, element.id)), "{}", element.name);
            assert!(element.id & 0x8000 == 0, "{}", element.name);
        }
    }

    /// The numbers of the fields of nProbe's default template, as in tshark and RFC 7012.
    #[test]
    fn both_names_lead_to_one_element() {
        for (label, name, id) in [
            ("IPV4_SRC_ADDR", "sourceIPv4Address", 8),
            ("IN_BYTES", "octetDeltaCount", 1),
            ("FIRST_SWITCHED", "flowStartSysUpTime", 22),
            ("LAST_SWITCHED", "flowEndSysUpTime", 21),
            ("DST_AS", "bgpDestinationAsNumber", 17),
        ] {
            let (by_label, reverse) = find(label).unwrap();
            assert_eq!((by_label.id, reverse), (id, false), "{label}");
            assert_eq!(find(name), Some((by_label, false)), "{name}");
        }
        assert_eq!(find("in_bytes"), None);
    }

    #[test]
    fn the_other_direction_has_three_names() {
        let forward = find("IN_BYTES").unwrap().0;
        for name in ["OUT_BYTES", "postOctetDeltaCount", "reverseOctetDeltaCount"] {
            assert_eq!(find(name), Some((forward, true)), "{name}");
        }
        assert_eq!(find("reverseProtocolIdentifier"), None);
        assert_eq!(find("reverse"), None);
    }

    #[test]
    fn ipv6_twins_are_mutual() {
        for element in ELEMENTS {
            let six = for_ipv6(element);
            assert_eq!(six.value, element.value, "{}", element.name);
            assert_eq!(for_ipv4(six), for_ipv4(element), "{}", element.name);
        }
        assert_eq!(for_ipv6(find("IPV4_NEXT_HOP").unwrap().0).name, "ipNextHopIPv6Address");
    }

    #[test]
    fn near_names_are_suggested() {
        assert_eq!(near("IPV4_SRC_ADR")[0], "IPV4_SRC_ADDR");
        assert_eq!(near("IN_BYTE")[0], "IN_BYTES");
        assert_eq!(near("sourceIPv4Adress")[0], "sourceIPv4Address");
        assert!(near("COMPLETELY_DIFFERENT").is_empty());
    }
}
