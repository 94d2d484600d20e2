//! Rewrites frames before they are sent: addresses, ports, tags, hop limits, lengths, and their checksums.
//!
//! A [`Rewrite`] is a plan; [`Rewrite::apply`] carries it out on one Ethernet frame. Checksums are updated
//! incrementally (RFC 1624), so that a wrong one stays as wrong as it was, a fragment is handled like a whole datagram,
//! and a frame without changes keeps every byte. IP after MPLS labels, PPPoE and provider backbone headers is
//! rewritten, too, so that both directions of a conversation are. The contents of tunnels, and addresses within
//! payloads, are not changed. [`mtu`] makes frames fit a link.

mod address;
mod arp;
mod field;
mod length;
mod mtu;
mod network;
mod port;
mod probe;
mod sctp;
mod sums;
mod tag;

pub use address::Cidr;
pub use address::{AddressMap, AddressMaps};
pub use field::{TrafficClass, Ttl};
pub use length::FixLength;
pub use mtu::{Fit, Mtu, MtuCounts, MtuPolicy};
pub use port::PortMap;
pub use probe::insert_probe;
pub use tag::TagEdit;

use crate::net;

/// The changes to each frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Destination MAC for output 0 and output 1.
    pub dst_mac: [Option<[u8; 6]>; 2],
    /// Source MAC for output 0 and output 1.
    pub src_mac: [Option<[u8; 6]>; 2],
    /// Maps of source addresses, also in ARP.
    pub src_ip: AddressMaps,
    /// Maps of destination addresses, also in ARP.
    pub dst_ip: AddressMaps,
    /// Maps of source and destination ports of TCP, UDP and SCTP.
    pub ports: Vec<PortMap>,
    /// Edits of VLAN tags, in order.
    pub tags: Vec<TagEdit>,
    /// IPv4 TTL, IPv6 hop limit.
    pub ttl: Option<Ttl>,
    /// IPv4 type of service, IPv6 traffic class.
    pub traffic_class: Option<TrafficClass>,
    /// IPv6 flow label, 20 bits.
    pub flow_label: Option<u32>,
    /// The treatment of truncated frames.
    pub length: Option<FixLength>,
    /// Recompute the checksums of every completely captured packet.
    pub fix_checksums: bool,
}

impl Rewrite {
    /// True if frames keep their length, so that [`Self::edit`] suffices.
    pub fn keeps_length(&self) -> bool {
        self.tags.iter().all(TagEdit::keeps_length) && self.length.is_none()
    }

    /// Rewrites a frame for output 0 or 1 whose length on the wire was `wire_len`.
    ///
    /// Returns its new length on the wire, without FCS; more than its bytes if it is still truncated. `None` if it must
    /// not be sent, since it was truncated, or is longer than any frame can be.
    pub fn apply(&self, frame: &mut Vec<u8>, wire_len: u32, out: u8) -> Option<u32> {
        let before = frame.len();
        for edit in &self.tags {
            edit.resize(frame);
            edit.set(frame);
        }
        let mut wire_len = wire_len.max(before as u32) as usize + frame.len() - before;
        if let Some(fix) = self.length
            && wire_len > frame.len()
        {
            match fix {
                FixLength::Drop => return None,
                FixLength::Pad if wire_len > length::PAD_BYTES_MAX => return None,
                FixLength::Pad => length::pad(frame, wire_len),
                FixLength::Cut => wire_len = length::cut(frame, frame.len()),
            }
        }
        self.edit_rest(frame, out);
        Some(wire_len as u32)
    }

    /// Rewrites a frame in place with a plan that keeps lengths; with another plan, everything but the lengths.
    pub fn edit(&self, frame: &mut [u8], out: u8) {
        for edit in &self.tags {
            edit.set(frame);
        }
        self.edit_rest(frame, out);
    }

    /// Everything except tags and lengths.
    fn edit_rest(&self, frame: &mut [u8], out: u8) {
        self.set_macs(frame, usize::from(out & 1));
        let Some(layers) = net::layers(frame) else { return };
        match (layers.ip, layers.ethertype) {
            (Some(ip), _) => {
                self.edit_network(frame, layers.ip_offset, &ip);
                if self.fix_checksums {
                    sums::recompute(frame, layers.ip_offset);
                }
            }
            (None, net::ETHERTYPE_ARP) => arp::edit(frame, layers.network, &self.src_ip, &self.dst_ip),
            (None, _) => {}
        }
    }

    fn set_macs(&self, frame: &mut [u8], out: usize) {
        for (at, mac) in [(0, self.dst_mac[out]), (6, self.src_mac[out])] {
            if let (Some(mac), Some(bytes)) = (mac, frame.get_mut(at..at + 6)) {
                bytes.copy_from_slice(&mac);
            }
        }
    }
}
