//! ARP for IPv4 over Ethernet (RFC 826): requests and replies, read and written as complete frames.

use super::ethernet::push_header;
use super::vlan::VlanTag;
use super::{ETHERNET_BYTES, ETHERNET_FRAME_BYTES_MIN, ETHERTYPE_ARP, MACS_BYTES};
use std::net::Ipv4Addr;

/// Hardware and protocol fields of a message: Ethernet and IPv4, with addresses of 6 and 4 bytes.
pub(crate) const IPV4_ON_ETHERNET: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// Length of a message.
pub(crate) const ARP_BYTES: usize = 28;
/// Offset of the sender's IP address, and of the target's.
pub(crate) const SENDER_IP: usize = 14;
pub(crate) const TARGET_IP: usize = 24;
const BROADCAST: [u8; 6] = [0xff; 6];

/// Sender and target address of an ARP message for IPv4 at the front of `bytes`.
pub(crate) fn addresses(bytes: &[u8]) -> Option<[Ipv4Addr; 2]> {
    let message =
        bytes.first_chunk().filter(|message: &&[u8; ARP_BYTES]| message[..6] == IPV4_ON_ETHERNET)?;
    Some([SENDER_IP, TARGET_IP].map(|at| ipv4(message, at)))
}

/// The IP address at offset `at` of a message.
pub(crate) fn ipv4(message: &[u8; ARP_BYTES], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|i| message[at + i]))
}

/// An ARP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// False for a request, which asks for `target_ip`.
    pub is_reply: bool,
    pub sender_mac: [u8; 6],
    pub sender_ip: Ipv4Addr,
    /// Zeros in a request.
    pub(crate) target_mac: [u8; 6],
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Creates a request for the MAC address of `target_ip`.
    pub fn question(sender_mac: [u8; 6], sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Self { is_reply: false, sender_mac, sender_ip, target_mac: [0; 6], target_ip }
    }

    /// Creates the reply to this request: `mac` owns the address.
    pub fn answer(&self, mac: [u8; 6]) -> Self {
        Self {
            is_reply: true,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// The frame without FCS; a request is broadcast, a reply is unicast.
    pub fn frame(&self, tag: Option<VlanTag>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ETHERNET_FRAME_BYTES_MIN);
        let receiver = if self.is_reply { self.target_mac } else { BROADCAST };
        push_header(&mut bytes, [receiver, self.sender_mac], tag.as_slice(), ETHERTYPE_ARP);
        bytes.extend(IPV4_ON_ETHERNET);
        bytes.extend(if self.is_reply { [0, 2] } else { [0, 1] });
        bytes.extend(self.sender_mac);
        bytes.extend(self.sender_ip.octets());
        bytes.extend(self.target_mac);
        bytes.extend(self.target_ip.octets());
        bytes.resize(ETHERNET_FRAME_BYTES_MIN, 0);
        bytes
    }

    /// The message in an untagged frame; `None` if it is not an ARP message for IPv4.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let ethertype = frame.get(MACS_BYTES..ETHERNET_BYTES)?;
        let packet: &[u8; ARP_BYTES] = frame.get(ETHERNET_BYTES..)?.first_chunk()?;
        if ethertype != ETHERTYPE_ARP.to_be_bytes() || packet[..6] != IPV4_ON_ETHERNET {
            return None;
        }
        let mac = |at: usize| std::array::from_fn(|i| packet[at + i]);
        let is_reply = match packet[6..8] {
            [0, 1] => false,
            [0, 2] => true,
            _ => return None,
        };
        Some(Self {
            is_reply,
            sender_mac: mac(8),
            sender_ip: ipv4(packet, SENDER_IP),
            target_mac: mac(18),
            target_ip: ipv4(packet, TARGET_IP),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::TPID_CUSTOMER;
    use super::*;
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
        let tagged = question.frame(Some(VlanTag { tpid: TPID_CUSTOMER, tci: 100 }));
        assert_eq!((&tagged[12..18], tagged.len()), (&[0x81, 0, 0, 100, 8, 6][..], 60));
    }

    proptest! {
        #[test]
        fn a_written_message_is_read(is_reply: bool, sender_mac: [u8; 6], sender: u32, target_mac: [u8; 6], target: u32) {
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
