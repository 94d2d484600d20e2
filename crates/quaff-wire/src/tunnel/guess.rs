//! Tests whether bytes may be an Ethernet frame, for tunnels whose headers do not name their payload.

use crate::net::{
    ETHERNET_FRAME_BYTES_MIN, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, LENGTH_MAX, be16, link,
};

/// Maximum plausible number of tags.
const TAGS_MAX: usize = 3;

/// True if a frame with `wire_left` bytes on the wire may start here.
///
/// Its EtherType must be in use, and the following bytes must not contradict it.
pub(super) fn is_ethernet(bytes: &[u8], wire_left: Option<u32>) -> bool {
    let Some(network) = link::ethernet(bytes).filter(|network| network.tags <= TAGS_MAX) else {
        return false;
    };
    let (at, first) = (network.offset, bytes.get(network.offset));
    match network.ethertype {
        0..=LENGTH_MAX => is_length(network.ethertype, at as u32, wire_left),
        ETHERTYPE_IPV4 => first.is_none_or(|first| (0x45..=0x4f).contains(first)),
        ETHERTYPE_IPV6 => first.is_none_or(|first| first >> 4 == 6),
        // The hardware type in ARP must be Ethernet.
        ETHERTYPE_ARP => be16(bytes, at).is_none_or(|hardware| hardware == 1),
        ethertype => is_in_use(ethertype),
    }
}

/// True if a control word (RFC 4448 section 4.6, RFC 4385 section 3) may start here: no flags, no fragmentation, and a
/// length only for a frame of less than 64 bytes.
pub(super) fn is_control_word(bytes: &[u8]) -> bool {
    let Some(&[0, second]) = bytes.first_chunk::<2>() else { return false };
    let frame_bytes = bytes.len().saturating_sub(4);
    second & 0xc0 == 0 && (second == 0 || usize::from(second) <= frame_bytes + 4)
}

/// An 802.3 length must match the frame, unless the frame is padded.
fn is_length(length: u16, header_len: u32, wire_left: Option<u32>) -> bool {
    let frame_len = header_len + u32::from(length);
    length >= 3
        && wire_left.is_none_or(|left| {
            frame_len == left || (frame_len < left && left <= ETHERNET_FRAME_BYTES_MIN as u32)
        })
}

/// EtherTypes (IANA, IEEE) that are common in practice, other than IP and ARP.
fn is_in_use(ethertype: u16) -> bool {
    matches!(
        ethertype,
        0x22f0 // AVTP
            | 0x22f3 // TRILL
            | 0x8035 // RARP
            | 0x8137 // IPX
            | 0x8847..=0x8848 // MPLS
            | 0x8863..=0x8864 // PPPoE
            | 0x888e // EAPOL
            | 0x8892 // PROFINET
            | 0x88a4 // EtherCAT
            | 0x88b8..=0x88ba // GOOSE, SV
            | 0x88c7
            | 0x88cc // LLDP
            | 0x88e5 // MACsec
            | 0x88e7 // PBB
            | 0x88f7 // PTP
            | 0x8902 // CFM
            | 0x8906 // FCoE
            | 0x8914 // FIP
            | 0x8915 // RoCE
            | 0x8809 // slow protocols
            | 0x893a
            | 0x894f // NSH
            | 0x9000 // loopback
    )
}
