//! Changes frames on their way: addresses, ports, tags, hop limits, lengths, and the checksums with them.
//!
//! A [`Rewrite`] is a plan; [`Rewrite::apply`] carries it out on one Ethernet frame. A checksum follows
//! what was changed under it (RFC 1624), so one that was wrong stays as wrong as it was, a fragment
//! is as right as a whole datagram, and a frame without anything to change keeps every byte. IP under MPLS
//! labels, PPPoE and provider backbone headers is changed too, so that both directions of a conversation are. Bytes of
//! a tunnel's inside, and addresses that a payload speaks of, are left as they are. [`mtu`] makes
//! frames fit a link.

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

/// The changes to make to each frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Destination MAC, for output 0 and for output 1.
    pub dst_mac: [Option<[u8; 6]>; 2],
    /// Source MAC, for output 0 and for output 1.
    pub src_mac: [Option<[u8; 6]>; 2],
    /// Source addresses, inside ARP too.
    pub src_ip: AddressMaps,
    /// Destination addresses, inside ARP too.
    pub dst_ip: AddressMaps,
    /// Ports of TCP, UDP and SCTP, both of them.
    pub ports: Vec<PortMap>,
    /// Edits of VLAN tags, in this order.
    pub tags: Vec<TagEdit>,
    /// TTL of IPv4, hop limit of IPv6.
    pub ttl: Option<Ttl>,
    /// Type of service of IPv4, traffic class of IPv6.
    pub traffic_class: Option<TrafficClass>,
    /// Flow label of IPv6, 20 bits.
    pub flow_label: Option<u32>,
    /// The treatment of a frame that the capture has cut.
    pub length: Option<FixLength>,
    /// Compute checksums anew, of every packet that was captured as a whole.
    pub fix_checksums: bool,
}

impl Rewrite {
    /// Returns true if frames keep their length, so that [`Self::edit`] is enough.
    pub fn keeps_length(&self) -> bool {
        self.tags.iter().all(TagEdit::keeps_length) && self.length.is_none()
    }

    /// Changes a frame that goes out of output 0 or 1 and was `wire_len` bytes long on the wire.
    ///
    /// Returns its new length there, without FCS; more than is there of it when it is still cut. `None` when it is not
    /// to be sent, since it was cut, or longer than any frame can be.
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

    /// Changes a frame where it lies, by a plan that keeps lengths; of another one, all but the lengths.
    pub fn edit(&self, frame: &mut [u8], out: u8) {
        for edit in &self.tags {
            edit.set(frame);
        }
        self.edit_rest(frame, out);
    }

    /// All but tags and lengths.
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
            (None, net::ETHERTYPE_ARP) => arp::edit(self, frame, layers.network),
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
