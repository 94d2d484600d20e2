//! The two endpoints of a connection, as text and as a key that compares fast.

use crate::event::Sender;
use quaff_wire::flow::{FlowPacket, mix};
use std::net::{IpAddr, SocketAddr};

/// The two endpoints of a connection; the first (A) is the lower one.
pub type Ends = [SocketAddr; 2];

/// Sorts the endpoints.
pub fn sorted(ends: Ends) -> Ends {
    let [one, other] = ends;
    if other < one { [other, one] } else { ends }
}

/// The endpoints as words that compare fast.
///
/// VLAN ids and interfaces are not included: they may differ between the two directions of a tap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Key {
    /// IPv4 addresses are in the lower half of the second word.
    addresses: [[u64; 2]; 2],
    /// Ports, 16 bits each, and the IP version.
    ports: u64,
}

impl Key {
    /// The key of a packet, and its sender.
    #[inline]
    pub(crate) fn of(packet: &FlowPacket) -> (Self, Sender) {
        let ends = [0, 1].map(|end| (words(packet.addresses[end]), packet.ports[end]));
        let is_from_high = ends[0] > ends[1];
        let [low, high] = if is_from_high { [ends[1], ends[0]] } else { ends };
        let version = if packet.addresses[0].is_ipv6() { 6 } else { 4 };
        let ports = u64::from(low.1) << 16 | u64::from(high.1) | version << 32;
        (Self { addresses: [low.0, high.0], ports }, if is_from_high { Sender::B } else { Sender::A })
    }

    /// The two endpoints, the lower one first.
    pub(crate) fn ends(&self) -> Ends {
        let is_v6 = self.ports >> 32 == 6;
        let address = |[high, low]: [u64; 2]| match is_v6 {
            true => IpAddr::from((u128::from(high) << 64 | u128::from(low)).to_be_bytes()),
            false => IpAddr::from((low as u32).to_be_bytes()),
        };
        let [low, high] = self.addresses.map(address);
        [SocketAddr::new(low, (self.ports >> 16) as u16), SocketAddr::new(high, self.ports as u16)]
    }

    #[inline]
    pub(crate) fn hash(&self, secret: u64) -> u32 {
        let [[a, b], [c, d]] = self.addresses;
        // Both IPv4 addresses fit in one word.
        let sum = match a | c {
            0 => mix(secret, b << 32 ^ d),
            _ => [a, b, c, d].iter().fold(secret, |sum, word| mix(sum, *word)),
        };
        let sum = mix(sum, self.ports);
        (sum >> 32) as u32 ^ sum as u32
    }
}

/// The words of an address; the first is 0 for IPv4.
#[inline]
pub(crate) fn words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, u64::from(v4.to_bits())],
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            [(bits >> 64) as u64, bits as u64]
        }
    }
}

/// Source and destination of a packet.
pub(crate) fn ends_of(packet: &FlowPacket) -> Ends {
    [0, 1].map(|end| SocketAddr::new(packet.addresses[end], packet.ports[end]))
}
