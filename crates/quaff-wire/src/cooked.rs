//! Packets of several interfaces with the header of a Linux cooked capture (LINKTYPE_LINUX_SLL2), which has the index
//! of the interface and the direction, in the place of an Ethernet header: what a reader of one link type, such as
//! tcpdump(1), needs to name the interface of each packet. The input is pcapng, the output pcap.

use crate::decode::{Damage, Decoder, Frame, Interface, Item, Step};
use crate::linktype::{self, ETHERNET, RADIOTAP};
use crate::net::{ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, LENGTH_MAX, MACS_BYTES, be16};
use crate::pcap::{self, Resolution};
use crate::record::{OUTBOUND, Record};

/// LINKTYPE_LINUX_SLL2.
const LINUX_SLL2: u16 = 276;
/// Its header: protocol, 2 bytes of zeros, index, ARPHRD_*, packet type, length of the address, 8 bytes of address.
const HEADER_BYTES: usize = 20;
/// The largest packet that libpcap reads (MAXIMUM_SNAPLEN).
const SNAPLEN: u32 = 262_144;

/// Protocols of frames of IEEE 802.3 with a length: the one of Novell without LLC, and those with LLC
/// (linux/if_ether.h).
const ETH_P_802_3: u16 = 1;
const ETH_P_802_2: u16 = 4;

/// ARPHRD_* of an interface (linux/if_arp.h).
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_RADIOTAP: u16 = 803;
const ARPHRD_NONE: u16 = 0xfffe;
const ARPHRD_VOID: u16 = 0xffff;

/// Packet types (linux/if_packet.h).
const TO_HOST: u8 = 0;
const TO_ALL: u8 = 1;
const TO_GROUP: u8 = 2;
const TO_OTHER: u8 = 3;
const SENT: u8 = 4;

/// Bits 0 and 1 of `epb_flags`.
const DIRECTION: u32 = 0b11;

/// Makes a pcap stream of a pcapng stream.
#[derive(Debug, Default)]
pub struct Cooker {
    decoder: Decoder,
    /// The interfaces of the section, in the order of their numbers.
    links: Vec<Link>,
    /// The header of the pcap stream was appended.
    has_begun: bool,
    scratch: Vec<u8>,
}

/// The fields that the packets of an interface get from it.
#[derive(Debug, Clone, Copy, Default)]
struct Link {
    /// 0 if it is not known.
    index: u32,
    mac: Option<[u8; 6]>,
}

impl Cooker {
    /// Takes the complete blocks at the front of `bytes`, and appends their packets to `out`. `index_of` is the index
    /// of the interface with a name, or 0. Returns the number of bytes needed to continue, with those that are left.
    pub fn take(
        &mut self,
        bytes: &mut &[u8],
        index_of: impl Fn(&[u8]) -> u32,
        out: &mut Vec<u8>,
    ) -> Result<usize, Damage> {
        if !self.has_begun {
            out.extend(pcap::file_header(Resolution::Nanoseconds, SNAPLEN, LINUX_SLL2));
            self.has_begun = true;
        }
        loop {
            match self.decoder.next(bytes)? {
                Step::NeedMore(needed) => return Ok(needed),
                Step::Item(Item::Section(_)) => self.links.clear(),
                Step::Item(Item::Interface(Interface { name, mac, .. })) => {
                    self.links.push(Link { index: name.map_or(0, &index_of), mac });
                }
                Step::Item(Item::Frame(frame)) => self.append(&frame, out),
                Step::Item(_) => {}
            }
        }
    }

    fn append(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let link = self.links.get(frame.interface as usize).copied().unwrap_or_default();
        let (protocol, arphrd, removed) = contents(frame);
        let sender = if arphrd == ARPHRD_ETHER { frame.data.get(6..MACS_BYTES) } else { None };
        let sender = sender.unwrap_or_default();
        self.scratch.clear();
        self.scratch.extend(protocol.to_be_bytes());
        self.scratch.extend([0; 2]);
        self.scratch.extend(link.index.to_be_bytes());
        self.scratch.extend(arphrd.to_be_bytes());
        self.scratch.extend([packet_type(frame, link), sender.len() as u8]);
        self.scratch.extend_from_slice(sender);
        self.scratch.resize(HEADER_BYTES, 0);
        self.scratch.extend_from_slice(frame.data.get(removed..).unwrap_or_default());
        let len = frame.wire_len.saturating_sub(removed as u32).saturating_add(HEADER_BYTES as u32);
        let record = Record {
            time_ns: frame.time_ns,
            bytes: &self.scratch,
            len,
            snaplen: SNAPLEN,
            ..Record::default()
        };
        let at = out.len();
        out.resize(at + pcap::record_bytes(record.captured()), 0);
        pcap::record(&mut out[at..], Resolution::Nanoseconds, &record);
    }
}

/// The protocol and ARPHRD_* of a frame, and the number of bytes of its own header, which the cooked one replaces.
fn contents(frame: &Frame<'_>) -> (u16, u16, usize) {
    let data = frame.data;
    if frame.linktype == ETHERNET.linktype {
        let is_novell = || data.get(ETHERNET_BYTES..).is_some_and(|after| after.starts_with(&[0xff; 2]));
        let protocol = match be16(data, MACS_BYTES) {
            Some(length) if length <= LENGTH_MAX => {
                if is_novell() {
                    ETH_P_802_3
                } else {
                    ETH_P_802_2
                }
            }
            Some(ethertype) => ethertype,
            None => 0,
        };
        return (protocol, ARPHRD_ETHER, ETHERNET_BYTES.min(data.len()));
    }
    if linktype::is_bare_ip(frame.linktype) {
        let is_ipv6 = data.first().is_some_and(|first| first >> 4 == 6);
        return (if is_ipv6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 }, ARPHRD_NONE, 0);
    }
    let arphrd = if frame.linktype == RADIOTAP.linktype { ARPHRD_RADIOTAP } else { ARPHRD_VOID };
    (0, arphrd, 0)
}

/// The packet type, as the kernel decides it by the destination (`eth_type_trans` in net/ethernet/eth.c).
fn packet_type(frame: &Frame<'_>, link: Link) -> u8 {
    if frame.flags & DIRECTION == OUTBOUND {
        return SENT;
    }
    let is_ethernet = frame.linktype == ETHERNET.linktype;
    match frame.data.first_chunk::<6>().filter(|_| is_ethernet) {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => TO_ALL,
        Some([first, ..]) if first & 1 == 1 => TO_GROUP,
        Some(to) if link.mac.is_some_and(|own| own != *to) => TO_OTHER,
        _ => TO_HOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcapng;
    use crate::record::INBOUND;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 9];

    /// A pcapng stream of packets: interface (0 has Ethernet and a MAC address, 1 bare IP), direction, bytes.
    fn stream(packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        pcapng::shb(&mut bytes, &pcapng::Section::default());
        let link = |linktype, name: &str, mac| pcapng::Interface {
            linktype,
            name: name.into(),
            mac,
            ..pcapng::Interface::default()
        };
        pcapng::idb(&mut bytes, &link(1, "eth0", Some(OWN)));
        pcapng::idb(&mut bytes, &link(101, "tun0", None));
        for (interface, direction, packet) in packets {
            let record = Record {
                time_ns: 7_000_000_123,
                bytes: packet,
                len: packet.len() as u32 + 100,
                direction: *direction,
                ..Record::default()
            };
            let at = bytes.len();
            bytes.resize(at + pcapng::epb_bytes(packet.len()), 0);
            let len = pcapng::epb(&mut bytes[at..], *interface, &record);
            bytes.truncate(at + len);
        }
        bytes
    }

    /// A frame to `to` with this type and these bytes after it.
    fn frame(to: [u8; 6], ethertype: u16, after: &[u8]) -> Vec<u8> {
        [&to[..], &[2, 0, 0, 0, 0, 1], &ethertype.to_be_bytes(), after].concat()
    }

    /// The stream in parts of `part` bytes, as a reader of a pipe passes them on.
    fn cooked(stream: &[u8], part: usize) -> Vec<u8> {
        let index_of = |name: &[u8]| match name {
            b"eth0" => 3,
            b"tun0" => 0x0102_0304,
            other => panic!("{other:?}"),
        };
        let (mut cooker, mut out, mut held) = (Cooker::default(), Vec::new(), Vec::new());
        for piece in stream.chunks(part) {
            held.extend_from_slice(piece);
            let mut rest = &held[..];
            let needed = cooker.take(&mut rest, index_of, &mut out).unwrap();
            assert!(needed > rest.len());
            held = rest.to_vec();
        }
        assert!(held.is_empty());
        out
    }

    #[test]
    fn a_packet_has_its_interface_its_direction_and_what_follows_its_header() {
        let ip = [0x45, 1, 2, 3];
        let (all, group, other) = ([0xff; 6], [1, 0, 94, 0, 0, 1], [2, 0, 0, 0, 0, 8]);
        let cases = [
            // Frame; protocol, packet type, bytes that the header replaces.
            ((0, INBOUND, frame(OWN, 0x0800, &ip)), 0x0800u16, TO_HOST, 14),
            ((0, INBOUND, frame(all, 0x0806, &ip)), 0x0806, TO_ALL, 14),
            ((0, INBOUND, frame(group, 0x86dd, &ip)), 0x86dd, TO_GROUP, 14),
            ((0, INBOUND, frame(other, 0x8100, &ip)), 0x8100, TO_OTHER, 14),
            ((0, OUTBOUND, frame(all, 0x0800, &ip)), 0x0800, SENT, 14),
            ((0, INBOUND, frame(OWN, 100, &[0x42, 0x42, 3])), ETH_P_802_2, TO_HOST, 14),
            ((0, INBOUND, frame(OWN, 100, &[0xff, 0xff, 3])), ETH_P_802_3, TO_HOST, 14),
            ((0, INBOUND, OWN.to_vec()), 0, TO_HOST, 6),
            ((1, INBOUND, vec![0x45, 0, 0]), 0x0800, TO_HOST, 0),
            ((1, OUTBOUND, vec![0x60, 0, 0]), 0x86dd, SENT, 0),
        ];
        let packets: Vec<_> = cases.iter().map(|(packet, ..)| packet.clone()).collect();
        let out = cooked(&stream(&packets), usize::MAX);
        assert_eq!(out[..24], pcap::file_header(Resolution::Nanoseconds, SNAPLEN, 276));
        let mut decoder = Decoder::default();
        let mut rest = &out[..];
        let mut found = Vec::new();
        while let Step::Item(item) = decoder.next(&mut rest).unwrap() {
            if let Item::Frame(frame) = item {
                found.push(frame);
            }
        }
        assert_eq!(found.len(), cases.len());
        for (found, ((interface, _, packet), protocol, packet_type, removed)) in found.iter().zip(&cases) {
            let (header, after) = found.data.split_at(HEADER_BYTES);
            let index = if *interface == 0 { [0, 0, 0, 3] } else { [1, 2, 3, 4] };
            assert_eq!(
                (&header[..2], &header[4..8]),
                (&protocol.to_be_bytes()[..], &index[..]),
                "{packet:?}"
            );
            assert_eq!(header[10], *packet_type, "{packet:?}");
            assert_eq!(after, &packet[*removed..], "{packet:?}");
            assert_eq!(found.wire_len as usize, after.len() + HEADER_BYTES + 100, "{packet:?}");
            assert_eq!((found.time_ns, found.linktype), (7_000_000_123, 276));
        }
        assert_eq!(found[0].data[8..20], [0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], "the sender's address");
        assert_eq!(found[8].data[8..20], [0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "none");
    }

    #[test]
    fn parts_of_the_stream_make_no_difference() {
        let packets: Vec<_> =
            (0..40).map(|n| (n % 2, INBOUND, frame(OWN, 0x0800, &vec![0x45; n as usize]))).collect();
        let stream = stream(&packets);
        let whole = cooked(&stream, usize::MAX);
        for part in [1, 7, 64, 1000] {
            assert_eq!(cooked(&stream, part), whole, "{part}");
        }
    }

    #[test]
    fn a_packet_that_the_longer_header_makes_too_long_for_libpcap_is_cut() {
        let out = cooked(&stream(&[(0, INBOUND, frame(OWN, 0x0800, &vec![0; 262_130]))]), usize::MAX);
        assert_eq!(out.len(), 24 + 16 + SNAPLEN as usize);
    }
}
