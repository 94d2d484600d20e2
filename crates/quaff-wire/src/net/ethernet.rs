//! Ethernet (IEEE 802.3): the header, and EtherTypes (IANA, IEEE) that several modules use.

use super::be16;
use super::vlan::{TAG_BYTES, TPID_CUSTOMER, VlanTag};

/// Length of the two MAC addresses.
pub(crate) const MACS_BYTES: usize = 12;
/// Length of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = MACS_BYTES + 2;
/// Minimum length of a frame without FCS; cards pad shorter ones (IEEE 802.3, 3.2.8).
pub(crate) const ETHERNET_FRAME_BYTES_MIN: usize = 60;
/// Largest value of the EtherType field that is a length (IEEE 802.3, 3.2.6).
pub(crate) const LENGTH_MAX: u16 = 1500;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP (RFC 826).
pub const ETHERTYPE_ARP: u16 = 0x0806;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// MPLS with downstream-assigned labels (RFC 5332).
pub(crate) const ETHERTYPE_MPLS: u16 = 0x8847;
pub(crate) const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
/// PPPoE session (RFC 2516).
pub(crate) const ETHERTYPE_PPPOE: u16 = 0x8864;
/// Transparent Ethernet bridging: a complete Ethernet frame follows (RFC 7637, 8926).
pub(crate) const ETHERTYPE_TEB: u16 = 0x6558;
/// Provider backbone bridging (IEEE 802.1ah): a service tag and an Ethernet frame follow.
pub(crate) const ETHERTYPE_PBB: u16 = 0x88e7;
/// Cisco FabricPath: a tag and an Ethernet frame follow.
pub(crate) const ETHERTYPE_FABRICPATH: u16 = 0x8903;

/// Appends a header: destination, source, tags (outermost first), EtherType.
pub(crate) fn push_header(bytes: &mut Vec<u8>, macs: [[u8; 6]; 2], tags: &[VlanTag], ethertype: u16) {
    bytes.extend(macs.as_flattened());
    for tag in tags {
        bytes.extend(tag.tpid.to_be_bytes());
        bytes.extend(tag.tci.to_be_bytes());
    }
    bytes.extend(ethertype.to_be_bytes());
}

/// An Ethernet header for a bare IP packet, with locally administered addresses (IEEE 802, 8.4).
pub fn header_for_ip(packet: &[u8]) -> [u8; ETHERNET_BYTES] {
    let [high, low] = match packet.first().map(|first| first >> 4) {
        Some(6) => ETHERTYPE_IPV6,
        _ => ETHERTYPE_IPV4,
    }
    .to_be_bytes();
    [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, high, low]
}

/// Maximum length of a frame, without FCS, that Linux sends at this MTU if it starts like `frame`: the MTU excludes the
/// Ethernet header and one IEEE 802.1Q tag, but includes 802.1ad and other tags (`packet_extra_vlan_len_allowed` in
/// net/packet/af_packet.c).
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
