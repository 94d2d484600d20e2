//! Addresses inside ARP for IPv4 (RFC 826).

use super::address::AddressMaps;
use crate::net::arp::{ARP_BYTES, IPV4_ON_ETHERNET, SENDER_IP, TARGET_IP, ipv4};

pub(super) fn edit(frame: &mut [u8], at: usize, src_ip: &AddressMaps, dst_ip: &AddressMaps) {
    let Some(message) = frame.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut::<ARP_BYTES>()) else {
        return;
    };
    if message[..6] != IPV4_ON_ETHERNET {
        return;
    }
    for (offset, maps) in [(SENDER_IP, src_ip), (TARGET_IP, dst_ip)] {
        let new = maps.v4(ipv4(message, offset));
        message[offset..offset + 4].copy_from_slice(&new.octets());
    }
}
