//! The headers of a frame: one file per protocol, and one traversal over them.
//!
//! [`layers`] goes from the MAC addresses and VLAN tags to the transport header, also after MPLS labels, PPPoE, SNAP
//! and backbone Ethernet headers (PBB), and returns offsets. Rewriting, splitting, decapsulation, flow counting, probes
//! and fingerprints share it. Tunnels are not entered: `tunnel` does that. A truncated or damaged frame has the layers
//! before the damage. Nothing here panics, copies or allocates.
//!
//! [`agreement`] has the rules by which connections of TCP begin and end, [`initiator()`] the one by which one end of a
//! conversation is its client.

pub mod agreement;
pub(crate) mod arp;
pub(crate) mod ethernet;
mod fragment;
pub(crate) mod icmp;
mod initiator;
mod ip;
pub(crate) mod ipv4;
pub(crate) mod ipv6;
mod layers;
pub(crate) mod link;
pub(crate) mod mpls;
pub(crate) mod pseudo_header;
pub(crate) mod tcp;
pub(crate) mod udp;
pub(crate) mod vlan;

pub use arp::Arp;
pub use ethernet::{ETHERNET_BYTES, ETHERTYPE_ARP, frame_bytes_max, header_for_ip};
pub(crate) use ethernet::{ETHERNET_FRAME_BYTES_MIN, MACS_BYTES};
pub(crate) use ethernet::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_TEB, LENGTH_MAX,
};
pub use fragment::Fragment;
pub use icmp::{ICMP, ICMPV6};
pub use initiator::{InitiatorEvidence, initiator};
pub(crate) use ip::addresses;
pub(crate) use ip::ip_at;
pub use ip::{DatagramId, Ip};
pub(crate) use ipv4::IPV4_BYTES;
pub use layers::{Layers, layers};
pub use link::{LengthField, is_known_link, tags_range};
pub(crate) use pseudo_header::{addresses_sum, pseudo_header_sum};
pub use tcp::TCP;
pub use udp::{UDP, UDP_BYTES};
pub use vlan::{TAG_BYTES, TPID_CUSTOMER, TPID_SERVICE, VlanTag};

/// Protocol number (IANA).
pub(crate) const SCTP: u8 = 132;
/// Protocol number (IANA).
pub(crate) const GRE: u8 = 47;

/// The big-endian 16-bit word at offset `at`.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}
