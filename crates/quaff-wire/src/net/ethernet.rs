//! Ethernet (IEEE 802.3): the header, and the EtherTypes (IANA, IEEE) that more than one room reads.

use super::be16;
use super::vlan::{TAG_BYTES, TPID_CUSTOMER, VlanTag};

/// Bytes of the two MAC addresses.
pub(crate) const MACS_BYTES: usize = 12;
/// Bytes of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = MACS_BYTES + 2;
/// The shortest frame without its FCS; cards pad shorter ones (IEEE 802.3, 3.2.8).
pub(crate) const ETHERNET_FRAME_BYTES_MIN: usize = 60;
/// The largest value in place of the EtherType that is a length (IEEE 802.3, 3.2.6).
pub(crate) const LENGTH_MAX: u16 = 1500;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP (RFC 826).
pub const ETHERTYPE_ARP: u16 = 0x0806;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// MPLS with downstream-assigned labels (RFC 5332).
pub(crate) const ETHERTYPE_MPLS: u16 = 0x8847;
pub(crate) const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
/// PPPoE, session stage (RFC 2516).
pub(crate) const ETHERTYPE_PPPOE: u16 = 0x8864;
/// Transparent Ethernet bridging: a whole Ethernet frame (RFC 7637, 8926).
pub(crate) const ETHERTYPE_TEB: u16 = 0x6558;
/// Provider backbone bridging (IEEE 802.1ah): a service tag, then an Ethernet frame.
pub(crate) const ETHERTYPE_PBB: u16 = 0x88e7;
/// Cisco FabricPath: a tag, then an Ethernet frame.
pub(crate) const ETHERTYPE_FABRICPATH: u16 = 0x8903;

/// Appends a header: destination and source, tags with the outer one first, EtherType.
pub(crate) fn push_header(bytes: &mut Vec<u8>, macs: [[u8; 6]; 2], tags: &[VlanTag], ethertype: u16) {
    bytes.extend(macs.as_flattened());
    for tag in tags {
        bytes.extend(tag.tpid.to_be_bytes());
        bytes.extend(tag.tci.to_be_bytes());
    }
    bytes.extend(ethertype.to_be_bytes());
}

/// A header for a bare IP packet. Its addresses are made: locally administered ones (IEEE 802, 8.4).
pub fn header_for_ip(packet: &[u8]) -> [u8; ETHERNET_BYTES] {
    let [high, low] = match packet.first().map(|first| first >> 4) {
        Some(6) => ETHERTYPE_IPV6,
        _ => ETHERTYPE_IPV4,
    }
    .to_be_bytes();
    [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, high, low]
}

/// The longest frame, without FCS, that Linux sends on a link of this MTU when it begins as `frame` does: an MTU
/// counts neither the Ethernet header nor one tag of IEEE 802.1Q, but those of 802.1ad and others
/// (`packet_extra_vlan_len_allowed` in net/packet/af_packet.c).
pub fn frame_bytes_max(frame: &[u8], mtu: usize) -> usize {
    let is_tagged = be16(frame, MACS_BYTES) == Some(TPID_CUSTOMER);
    mtu + ETHERNET_BYTES + if is_tagged { TAG_BYTES } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tag_of_802_1q_may_be_on_top_of_the_mtu() {
        let frame = |ethertype: [u8; 2]| [[0; 12].as_slice(), &ethertype].concat();
        assert_eq!(frame_bytes_max(&frame([8, 0]), 1500), 1514);
        assert_eq!(frame_bytes_max(&frame([0x81, 0]), 1500), 1518);
        assert_eq!(frame_bytes_max(&frame([0x88, 0xa8]), 1500), 1514);
        assert_eq!(frame_bytes_max(&[], 1500), 1514);
    }
}
