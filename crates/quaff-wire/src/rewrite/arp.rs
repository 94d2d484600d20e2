//! Addresses inside ARP for IPv4 (RFC 826).

use super::Rewrite;
use std::net::Ipv4Addr;

/// EtherType of ARP.
pub(super) const ETHERTYPE: u16 = 0x0806;

/// Ethernet and IPv4, with addresses of 6 and 4 bytes.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// Where the sender's and the target's protocol address stand.
const SENDER: usize = 14;
const TARGET: usize = 24;
const BYTES: usize = 28;

pub(super) fn edit(plan: &Rewrite, frame: &mut [u8], at: usize) {
    let Some(message) = frame.get_mut(at..at + BYTES).filter(|message| message[..6] == KIND) else { return };
    for (offset, maps) in [(SENDER, &plan.src_ip), (TARGET, &plan.dst_ip)] {
        let old =
            Ipv4Addr::new(message[offset], message[offset + 1], message[offset + 2], message[offset + 3]);
        message[offset..offset + 4].copy_from_slice(&maps.v4(old).octets());
    }
}
