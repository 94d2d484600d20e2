//! Counts flows as tcpreplay does, so that the figures are comparable.
//!
//! A flow is one direction of a 5-tuple; ICMP and ICMPv6 use type and code in place of ports. Tags and MPLS labels are
//! skipped. A frame that is not IP is not a flow; one that is too short for its headers is invalid. As in tcpreplay,
//! fragments are not distinguished from whole datagrams, and only the first hop-by-hop header of IPv6 is read. A table
//! stores a 64-bit hash per flow, so that two flows in some billions could be confused.
//!
//! tcpreplay 4.4 does not count most IPv6 as flows, counts some IEEE 802.3 frames as flows, and short ICMP as invalid
//! (docs/decisions, 0019). [`FlowCount::like_tcpreplay`] reproduces that.

use super::{FlowKey, HashTable};
use crate::net::ipv4::Ipv4;
use crate::net::ipv6::{HOP_BY_HOP, IPV6_BYTES, Ipv6, extension_bytes};
use crate::net::mpls::{ASSOCIATED_CHANNEL, LABEL_BYTES, Label};
use crate::net::tcp::TCP_BYTES;
use crate::net::vlan::{is_tpid, skip_tags};
use crate::net::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ICMP, ICMPV6,
    LENGTH_MAX, MACS_BYTES, TCP, UDP, UDP_BYTES, be16, link,
};

/// Counts of flows and packets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FlowCounts {
    /// Flows; one that returns after its expiry counts again.
    pub flows: u64,
    /// Distinct flows.
    pub unique: u64,
    /// Flows that returned after their expiry.
    pub expired: u64,
    pub flow_packets: u64,
    /// Packets that are not IP.
    pub non_flow_packets: u64,
    /// Packets whose headers cannot be read.
    pub invalid_packets: u64,
}

/// Counts flows, frame by frame.
#[derive(Debug, Default)]
pub struct FlowCount {
    /// Time at which each flow was last seen, s.
    seen: HashTable<u64>,
    expiry_s: u64,
    is_like_tcpreplay: bool,
    /// The counts so far.
    pub counts: FlowCounts,
}

impl FlowCount {
    /// Flows that were silent for more than `expiry_s` have expired; 0: never.
    fn new(expiry_s: u64) -> Self {
        Self { expiry_s, ..Self::default() }
    }

    /// The same with the three mistakes of tcpreplay 4.4.
    pub fn like_tcpreplay(expiry_s: u64) -> Self {
        Self { is_like_tcpreplay: true, ..Self::new(expiry_s) }
    }

    /// Counts a frame that was captured `time_s` after 1970. Returns true for a new flow.
    pub fn add(&mut self, frame: &[u8], time_s: u64) -> bool {
        let key = match key(frame, self.is_like_tcpreplay) {
            Ok(key) => key,
            Err(not) => {
                let count = match not {
                    Not::Ip => &mut self.counts.non_flow_packets,
                    Not::Valid => &mut self.counts.invalid_packets,
                };
                *count += 1;
                return false;
            }
        };
        self.counts.flow_packets += 1;
        match self.seen.insert(key.hash(0), time_s) {
            None => {
                self.counts.flows += 1;
                self.counts.unique += 1;
                return true;
            }
            Some(last_s) if self.expiry_s > 0 && time_s > last_s.saturating_add(self.expiry_s) => {
                self.counts.flows += 1;
                self.counts.expired += 1;
            }
            Some(_) => {}
        }
        false
    }
}

/// Why a packet has no flow.
#[derive(Debug, PartialEq, Eq)]
enum Not {
    Ip,
    Valid,
}

fn key(frame: &[u8], is_like_tcpreplay: bool) -> Result<FlowKey, Not> {
    let (mut ethertype, network) = network(frame)?;
    let bytes = frame.get(network..).ok_or(Not::Valid)?;
    if is_like_tcpreplay {
        // The EtherType may be a length (IEEE 802.3): tcpreplay then looks for an IP version after it; for that of IPv6
        // it looks in the first byte of the frame.
        ethertype = match (ethertype, bytes.first().ok_or(Not::Valid)? >> 4) {
            (..=LENGTH_MAX, 4) => ETHERTYPE_IPV4,
            (..=LENGTH_MAX, 6) => ETHERTYPE_IPV6,
            (ethertype, _) => ethertype,
        };
        if ethertype == ETHERTYPE_IPV6 && frame[0] >> 4 != 6 {
            return Ipv6::new(bytes).ok_or(Not::Valid).and(Err(Not::Ip));
        }
    }
    let (protocol, addresses, transport) = match ethertype {
        ETHERTYPE_IPV4 => {
            let header = Ipv4::new(bytes).ok_or(Not::Valid)?;
            let addresses = header.is_v4().then(|| [header.source().into(), header.destination().into()]);
            (header.protocol(), addresses, header.header_bytes())
        }
        ETHERTYPE_IPV6 => {
            let header = Ipv6::new(bytes).ok_or(Not::Valid)?;
            let addresses = header.is_v6().then(|| [header.source().into(), header.destination().into()]);
            match header.next_header() {
                HOP_BY_HOP if addresses.is_some() => {
                    let options = bytes.get(IPV6_BYTES..IPV6_BYTES + 2).ok_or(Not::Valid)?;
                    (options[0], addresses, IPV6_BYTES + extension_bytes(HOP_BY_HOP, options[1]))
                }
                protocol => (protocol, addresses, IPV6_BYTES),
            }
        }
        _ => return Err(Not::Ip),
    };
    let header = bytes.get(transport..).unwrap_or_default();
    Ok(FlowKey::flow(protocol, addresses.ok_or(Not::Ip)?, ports(header, protocol, is_like_tcpreplay)?))
}

/// The EtherType after tags and labels, and the offset of its packet.
fn network(frame: &[u8]) -> Result<(u16, usize), Not> {
    let mut network = link::ethernet(frame).ok_or(Not::Valid)?;
    loop {
        match network.ethertype {
            ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
                let (ethertype, offset) = skip_labels(frame, network.offset)?;
                network = skip_tags(frame, ethertype, offset);
            }
            ethertype if is_tpid(ethertype) => return Err(Not::Valid),
            ethertype => return Ok((ethertype, network.offset)),
        }
    }
}

/// Skips MPLS labels, and the Ethernet header of a pseudowire (RFC 4448).
fn skip_labels(frame: &[u8], mut at: usize) -> Result<(u16, usize), Not> {
    loop {
        let label = frame.get(at..).and_then(|bytes| bytes.first_chunk()).ok_or(Not::Valid)?;
        let label = Label::new(*label);
        at += LABEL_BYTES;
        if label.value() == ASSOCIATED_CHANNEL {
            return Err(Not::Valid);
        }
        if label.is_bottom() {
            break;
        }
    }
    match frame.get(at).ok_or(Not::Valid)? >> 4 {
        4 => Ok((ETHERTYPE_IPV4, at)),
        6 => Ok((ETHERTYPE_IPV6, at)),
        0 => {
            const CONTROL_WORD: usize = 4;
            let ethertype = be16(frame, at + CONTROL_WORD + MACS_BYTES).ok_or(Not::Valid)?;
            Ok((ethertype, at + CONTROL_WORD + ETHERNET_BYTES))
        }
        _ => Err(Not::Valid),
    }
}

/// Ports, or their substitutes, of the transport header at the front of `header`.
fn ports(header: &[u8], protocol: u8, is_like_tcpreplay: bool) -> Result<[u16; 2], Not> {
    // tcpreplay requires the longest ICMP header for every message.
    let icmp_bytes = if is_like_tcpreplay { 28 } else { 4 };
    let bytes = match protocol {
        TCP => TCP_BYTES,
        UDP => UDP_BYTES,
        ICMP | ICMPV6 => icmp_bytes,
        _ => return Ok([0, 0]),
    };
    let header = header.get(..bytes).ok_or(Not::Valid)?;
    Ok(match protocol {
        ICMP | ICMPV6 => [header[0].into(), header[1].into()],
        _ => [0, 2].map(|at| be16(header, at).unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaff_testpackets as build;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn udp(ports: [u16; 2]) -> Vec<u8> {
        build::ipv4(A, B, UDP, &[], &build::udp(ports[0], ports[1], b"payload"))
    }

    fn ethernet(packet: &[u8]) -> Vec<u8> {
        build::ethernet(&[], 0x0800, packet)
    }

    fn counted(frames: &[Vec<u8>]) -> FlowCounts {
        let mut count = FlowCount::new(0);
        frames.iter().for_each(|frame| _ = count.add(frame, 0));
        count.counts
    }

    #[test]
    fn directions_are_two_flows_and_tags_make_no_difference() {
        let there = ethernet(&udp([1, 2]));
        let back = ethernet(&build::ipv4(B, A, UDP, &[], &build::udp(2, 1, b"answer")));
        let tagged = build::ethernet(&[(0x88a8, 1), (0x8100, 2)], 0x0800, &udp([1, 2]));
        let counts = counted(&[there, back, tagged]);
        let expected = FlowCounts { flows: 2, unique: 2, flow_packets: 3, ..FlowCounts::default() };
        assert_eq!(counts, expected);
    }

    #[test]
    fn labels_are_stepped_over() {
        let labelled =
            |bytes: &[u8]| build::ethernet(&[], 0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64], bytes].concat());
        let wire = [&[0; 4], &ethernet(&udp([1, 2]))[..]].concat();
        let counts = counted(&[ethernet(&udp([1, 2])), labelled(&udp([1, 2])), labelled(&wire)]);
        assert_eq!((counts.flows, counts.flow_packets), (1, 3));
        assert_eq!(counted(&[labelled(&[0x10, 0, 0, 0])]).invalid_packets, 1);
    }

    #[test]
    fn frames_without_an_ip_packet_are_no_flow() {
        let arp = build::ethernet(&[], 0x0806, &[0; 28]);
        let ieee802_3 = build::ethernet(&[], 46, &[0x42; 46]);
        let cut = ethernet(&udp([1, 2])[..24]);
        let short = vec![8; 13];
        let version = ethernet(&[0x50; 40]);
        let counts = counted(&[arp, ieee802_3, cut, short, version]);
        assert_eq!(counts, FlowCounts { non_flow_packets: 3, invalid_packets: 2, ..FlowCounts::default() });
    }

    #[test]
    fn extensions_and_control_messages() {
        let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let v6 = |next, payload: &[u8]| build::ethernet(&[], 0x86dd, &build::ipv6(a, b, next, payload));
        let plain = v6(UDP, &build::udp(1, 2, b"x"));
        let options = v6(0, &build::ipv6_options(UDP, &build::udp(1, 2, b"x")));
        let request = v6(ICMPV6, &[128, 0, 0, 0, 0, 1, 0, 1]);
        let reply = v6(ICMPV6, &[129, 0, 0, 0, 0, 1, 0, 1]);
        let counts = counted(&[plain, options, request.clone(), request, reply]);
        assert_eq!((counts.flows, counts.flow_packets), (3, 5));
    }

    #[test]
    fn the_mistakes_of_tcpreplay() {
        let mut v6 =
            build::ethernet(&[], 0x86dd, &build::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 59, &[]));
        let spanning_tree = build::ethernet(&[], 38, &[0x42; 46]);
        let mut count = FlowCount::like_tcpreplay(0);
        assert!(!count.add(&v6, 0) && count.add(&spanning_tree, 0));
        v6[0] = 0x60;
        assert!(count.add(&v6, 0));
        let counts = count.counts;
        assert_eq!((counts.flows, counts.flow_packets, counts.non_flow_packets), (2, 2, 1));
    }

    #[test]
    fn a_flow_that_comes_late_counts_again() {
        let mut count = FlowCount::new(10);
        for time_s in [0, 10, 21, 22] {
            count.add(&ethernet(&udp([1, 2])), time_s);
        }
        let counts = count.counts;
        assert_eq!((counts.flows, counts.unique, counts.expired), (2, 1, 1));
    }

    proptest! {
        #[test]
        fn every_packet_is_counted_once(mut frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..20), ethertypes: [u8; 20]) {
            const KNOWN: [u16; 5] = [0x0800, 0x86dd, 0x8100, 0x8847, 0x0806];
            for (frame, choice) in frames.iter_mut().zip(ethertypes) {
                if let Some(word) = frame.get_mut(12..14) {
                    word.copy_from_slice(&KNOWN[usize::from(choice) % KNOWN.len()].to_be_bytes());
                }
            }
            let counts = counted(&frames);
            prop_assert_eq!(counts.flow_packets + counts.non_flow_packets + counts.invalid_packets, frames.len() as u64);
            prop_assert!(counts.flows == counts.unique && counts.flows <= counts.flow_packets);
        }
    }
}
