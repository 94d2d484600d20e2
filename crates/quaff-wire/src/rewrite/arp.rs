//! Addresses inside ARP for IPv4 (RFC 826).

use super::Rewrite;
use crate::net::arp::{ARP_BYTES, IPV4_ON_ETHERNET, SENDER_IP, TARGET_IP, ipv4};

pub(super) fn edit(plan: &Rewrite, frame: &mut [u8], at: usize) {
    let Some(message) = frame.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut::<ARP_BYTES>()) else {
        return;
    };
    if message[..6] != IPV4_ON_ETHERNET {
        return;
    }
    for (offset, maps) in [(SENDER_IP, &plan.src_ip), (TARGET_IP, &plan.dst_ip)] {
        let new = maps.v4(ipv4(message, offset));
        message[offset..offset + 4].copy_from_slice(&new.octets());
    }
}
