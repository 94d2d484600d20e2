//! ARP of IPv4 on Ethernet (RFC 826): who has an address, and who says so. Frames are written and read whole; what an
//! answer means is nothing of this room.

use crate::udp::{ETHERNET_BYTES, MACS_BYTES, Tag};
use std::net::Ipv4Addr;

/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// Ethernet, IPv4, addresses of 6 and 4 bytes.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// Bytes of an ARP packet.
const ARP_BYTES: usize = 28;
/// Without FCS, tags included.
const FRAME_BYTES_MIN: usize = 60;
const BROADCAST: [u8; 6] = [0xff; 6];

/// What a packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// It answers; otherwise it asks for `target_ip`.
    pub is_reply: bool,
    /// Who sends it.
    pub sender_mac: [u8; 6],
    /// And its address.
    pub sender_ip: Ipv4Addr,
    /// Whom it is for; zeros in a question.
    pub target_mac: [u8; 6],
    /// And its address.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Who has `target_ip`?
    pub fn question(sender_mac: [u8; 6], sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Self { is_reply: false, sender_mac, sender_ip, target_mac: [0; 6], target_ip }
    }

    /// The answer to this question: `mac` has the address.
    pub fn answer(&self, mac: [u8; 6]) -> Self {
        Self {
            is_reply: true,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// The frame, without FCS: a question to all, an answer to who asked.
    pub fn frame(&self, tag: Option<Tag>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME_BYTES_MIN);
        bytes.extend(if self.is_reply { self.target_mac } else { BROADCAST });
        bytes.extend(self.sender_mac);
        for word in tag.into_iter().flat_map(|tag| [tag.tpid, tag.tci]).chain([ETHERTYPE_ARP]) {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(KIND);
        bytes.extend(if self.is_reply { [0, 2] } else { [0, 1] });
        bytes.extend(self.sender_mac);
        bytes.extend(self.sender_ip.octets());
        bytes.extend(self.target_mac);
        bytes.extend(self.target_ip.octets());
        bytes.resize(FRAME_BYTES_MIN, 0);
        bytes
    }

    /// What an untagged frame says; `None` when it is no such packet.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let ethertype = frame.get(MACS_BYTES..ETHERNET_BYTES)?;
        let packet: &[u8; ARP_BYTES] = frame.get(ETHERNET_BYTES..)?.first_chunk()?;
        if ethertype != ETHERTYPE_ARP.to_be_bytes() || packet[..6] != KIND {
            return None;
        }
        let mac = |at: usize| std::array::from_fn(|i| packet[at + i]);
        let ip = |at: usize| Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|i| packet[at + i]));
        let is_reply = match packet[6..8] {
            [0, 1] => false,
            [0, 2] => true,
            _ => return None,
        };
        Some(Self { is_reply, sender_mac: mac(8), sender_ip: ip(14), target_mac: mac(18), target_ip: ip(24) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::TPID_CUSTOMER;
    use etherparse::{ArpOperation, ArpPacketSlice, EtherType, Ethernet2Slice};
    use proptest::prelude::*;

    const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
    const ROUTER: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);

    #[test]
    fn another_reader_understands_what_is_written() {
        let question = Arp::question([2, 0, 0, 0, 0, 7], HERE, ROUTER);
        let frame = question.frame(None);
        let ethernet = Ethernet2Slice::from_slice_without_fcs(&frame).expect("Ethernet");
        assert_eq!((ethernet.ether_type(), ethernet.destination()), (EtherType::ARP, BROADCAST));
        let packet = ArpPacketSlice::from_slice(ethernet.payload_slice()).expect("ARP");
        assert_eq!(packet.operation(), ArpOperation::REQUEST);
        assert_eq!(
            (packet.sender_hw_addr(), packet.sender_protocol_addr()),
            (&[2, 0, 0, 0, 0, 7][..], &HERE.octets()[..])
        );
        assert_eq!(packet.target_protocol_addr(), ROUTER.octets());
        let answer = question.answer([9; 6]);
        assert_eq!(
            (answer.sender_ip, answer.target_ip, answer.target_mac),
            (ROUTER, HERE, [2, 0, 0, 0, 0, 7])
        );
        assert_eq!(answer.frame(None)[..6], [2, 0, 0, 0, 0, 7]);
        let tagged = question.frame(Some(Tag { tpid: TPID_CUSTOMER, tci: 100 }));
        assert_eq!((&tagged[12..18], tagged.len()), (&[0x81, 0, 0, 100, 8, 6][..], 60));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(is_reply: bool, sender_mac: [u8; 6], sender: u32, target_mac: [u8; 6], target: u32) {
            let arp = Arp { is_reply, sender_mac, sender_ip: sender.into(), target_mac, target_ip: target.into() };
            prop_assert_eq!(Arp::read(&arp.frame(None)), Some(arp));
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0usize..60) {
            let _ = Arp::read(&bytes);
            let whole = Arp::question([1; 6], HERE, ROUTER).frame(None);
            prop_assert_eq!(Arp::read(&whole[..cut]).is_some(), cut >= ETHERNET_BYTES + ARP_BYTES);
        }
    }
}
