//! The two endpoints of a connection, as text and as a key that compares fast.

use crate::event::Sender;
use quaff_wire::flow::{FlowPacket, mix};
use quaff_wire::net::initiator;
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
        let [from, to] = [words(packet.addresses[0]), words(packet.addresses[1])];
        let [from_port, to_port] = [u64::from(packet.ports[0]), u64::from(packet.ports[1])];
        let version = if packet.addresses[0].is_ipv6() { 6 << 32 } else { 4 << 32 };
        let order = number(from).cmp(&number(to)).then(from_port.cmp(&to_port));
        if order.is_gt() {
            (Self { addresses: [to, from], ports: version | to_port << 16 | from_port }, Sender::B)
        } else {
            (Self { addresses: [from, to], ports: version | from_port << 16 | to_port }, Sender::A)
        }
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

    /// The end that began the conversation, by a packet of `sender` with these flags of TCP, 0 of UDP.
    pub(crate) fn client(&self, sender: Sender, tcp_flags: u8) -> Sender {
        let [a, b] = [(self.ports >> 16) as u16, self.ports as u16];
        let (_, is_sender) = initiator(tcp_flags, if sender == Sender::A { [a, b] } else { [b, a] });
        if is_sender { sender } else { sender.other() }
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

/// The words of an address as one number.
#[inline]
fn number([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}
