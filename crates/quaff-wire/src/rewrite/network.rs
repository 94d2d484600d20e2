//! Edits an IP packet and updates its checksums incrementally (RFC 1624).

use super::{PortMap, Rewrite, sctp, sums};
use crate::checksum;
use crate::net::ipv6::IPV6_BYTES;
use crate::net::{self, IPV4_BYTES, Ip, SCTP, TCP, UDP};
use std::net::IpAddr;

/// The effect of changed bytes on a checksum: the sum of the new bytes minus that of the old ones.
#[derive(Debug, Default, Clone, Copy)]
struct Change {
    sum: u16,
    is_any: bool,
}

impl Change {
    /// Writes `new` at `at`, which must be at an even offset from where the checksum starts.
    fn put(&mut self, frame: &mut [u8], at: usize, new: &[u8]) {
        let old = &mut frame[at..at + new.len()];
        if old == new {
            return;
        }
        let difference = checksum::subtract(checksum::sum(new), checksum::sum(old));
        self.sum = checksum::add(self.sum, difference);
        self.is_any = true;
        old.copy_from_slice(new);
    }

    /// The change of the addresses of a pseudo header.
    fn of_addresses(before: [IpAddr; 2], after: [IpAddr; 2]) -> Self {
        let sum = || checksum::subtract(net::addresses_sum(after), net::addresses_sum(before));
        if before == after { Self::default() } else { Self { sum: sum(), is_any: true } }
    }

    /// Combines two changes under the same checksum.
    fn and(self, other: Self) -> Self {
        Self { sum: checksum::add(self.sum, other.sum), is_any: self.is_any || other.is_any }
    }

    /// Updates the checksum at `at`.
    fn settle(self, frame: &mut [u8], at: usize) {
        if self.is_any {
            let before = u16::from_be_bytes([frame[at], frame[at + 1]]);
            let after = !checksum::add(!before, self.sum);
            frame[at..at + 2].copy_from_slice(&after.to_be_bytes());
        }
    }
}

impl Rewrite {
    /// Edits the packet whose IP header is at `at`.
    pub(super) fn edit_network(&self, frame: &mut [u8], at: usize, ip: &Ip) {
        // Extensions and options may have addresses that the transport's checksum covers instead.
        let has_more = ip.transport > at + if ip.is_v6() { IPV6_BYTES } else { IPV4_BYTES };
        let before = has_more.then(|| covered(frame, at, ip));
        let addresses = match ip.addresses {
            [IpAddr::V4(source), IpAddr::V4(destination)] => {
                let new = [(12, self.src_ip.v4(source)), (16, self.dst_ip.v4(destination))];
                let header = self.edit_v4(frame, at);
                let addresses = put_addresses(frame, at, new.map(|(at, ip)| (at, ip.octets())));
                header.and(addresses).settle(frame, at + 10);
                addresses
            }
            [IpAddr::V6(source), IpAddr::V6(destination)] => {
                let new = [(8, self.src_ip.v6(source)), (24, self.dst_ip.v6(destination))];
                self.edit_v6(frame, at);
                // IPv6 headers have no checksum.
                put_addresses(frame, at, new.map(|(at, ip)| (at, ip.octets())))
            }
            _ => return,
        };
        if ip.fragment.is_none_or(|fragment| fragment.offset_bytes == 0) {
            let of_ends = |before| Change::of_addresses(before, covered(frame, at, ip));
            let change = before.map_or(addresses, of_ends);
            self.edit_transport(frame, at, ip, change);
        }
    }

    fn edit_v4(&self, frame: &mut [u8], at: usize) -> Change {
        let mut change = Change::default();
        if let Some(class) = self.traffic_class {
            change.put(frame, at, &[frame[at], class.of(frame[at + 1])]);
        }
        if let Some(ttl) = self.ttl {
            change.put(frame, at + 8, &[ttl.of(frame[at + 8]), frame[at + 9]]);
        }
        change
    }

    fn edit_v6(&self, frame: &mut [u8], at: usize) {
        let mut word = u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        if let Some(class) = self.traffic_class {
            word = word & !0x0ff0_0000 | u32::from(class.of((word >> 20) as u8)) << 20;
        }
        if let Some(label) = self.flow_label {
            word = word & !0x000f_ffff | label & 0x000f_ffff;
        }
        frame[at..at + 4].copy_from_slice(&word.to_be_bytes());
        if let Some(ttl) = self.ttl {
            frame[at + 7] = ttl.of(frame[at + 7]);
        }
    }

    fn edit_transport(&self, frame: &mut [u8], network: usize, ip: &Ip, addresses: Change) {
        let at = ip.transport;
        let mut change = addresses;
        if matches!(ip.protocol, TCP | UDP | SCTP)
            && !self.ports.is_empty()
            && let Some(ports) = ip.ports(frame)
        {
            let new = ports.map(|port| map_port(&self.ports, port).to_be_bytes());
            let new = [new[0][0], new[0][1], new[1][0], new[1][1]];
            if ip.protocol == SCTP {
                let bytes = sums::declared_end(frame, network).saturating_sub(at);
                return sctp::put_ports(frame, at, new, bytes, ip.fragment.is_some());
            }
            change.put(frame, at, &new);
        }
        let Some(sum) = sums::offset(frame, network, ip) else { return };
        let Some(&[high, low]) = frame.get(sum..ip.end).and_then(|bytes| bytes.first_chunk()) else { return };
        let is_udp = ip.protocol == UDP;
        if is_udp && [high, low] == [0, 0] {
            return; // No checksum (RFC 768).
        }
        change.settle(frame, sum);
        if is_udp && frame[sum..sum + 2] == [0, 0] {
            frame[sum..sum + 2].fill(0xff);
        }
    }
}

/// The addresses in the pseudo header.
fn covered(frame: &[u8], at: usize, ip: &Ip) -> [IpAddr; 2] {
    ip.ends(frame, at).map(|(address, _)| address)
}

fn put_addresses<const N: usize>(frame: &mut [u8], at: usize, new: [(usize, [u8; N]); 2]) -> Change {
    let mut change = Change::default();
    for (offset, address) in new {
        change.put(frame, at + offset, &address);
    }
    change
}

fn map_port(maps: &[PortMap], port: u16) -> u16 {
    maps.iter().find_map(|map| map.get(port)).unwrap_or(port)
}
