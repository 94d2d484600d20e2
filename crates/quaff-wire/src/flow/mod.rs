//! Which conversation a packet belongs to: addresses, ports, protocol, as one key with a fast hash.
//!
//! A [`FlowKey`] has a direction; [`FlowKey::symmetric`] takes it away, so that both directions of a
//! conversation have the same key. Its hash is the same on every machine and in every run, so that
//! what is spread by it is spread alike everywhere. [`count`] counts flows. Nothing here keeps a packet.

pub mod count;

pub use count::{FlowCount, FlowCounts};

use crate::layers::Ip;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

/// Source and destination address and port, and the protocol.
///
/// Five words, the last of which is the ports, the protocol, and which version of IP it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey([u64; 5]);

/// Set in the last word when both addresses are of IPv4.
const IS_V4: u64 = 1;
/// Odd numbers without a pattern: the digits of π behind the point.
const PI: [u64; 5] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
];

impl FlowKey {
    /// A key of these parts; addresses of two families are taken as IPv6.
    pub fn new(addresses: [IpAddr; 2], ports: [u16; 2], protocol: u8) -> Self {
        let is_v4 = addresses.iter().all(IpAddr::is_ipv4);
        let [source, destination] = addresses.map(|address| match address {
            IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => u128::from(v6),
        });
        let last = u64::from(ports[0]) << 48
            | u64::from(ports[1]) << 32
            | u64::from(protocol) << 8
            | if is_v4 { IS_V4 } else { 0 };
        Self([(source >> 64) as u64, source as u64, (destination >> 64) as u64, destination as u64, last])
    }

    /// The key of a packet. Ports are those of TCP, UDP and SCTP; where there are none, as in a piece
    /// of a datagram that is not its first, they are 0.
    pub fn of(ip: &Ip, frame: &[u8]) -> Self {
        Self::new(ip.addresses, ip.ports(frame).unwrap_or_default(), ip.protocol)
    }

    /// Source and destination.
    pub fn addresses(&self) -> [IpAddr; 2] {
        let is_v4 = self.0[4] & IS_V4 != 0;
        [0, 2].map(|at| {
            let address = Ipv6Addr::from(u128::from(self.0[at]) << 64 | u128::from(self.0[at + 1]));
            match address.to_ipv4_mapped() {
                Some(v4) if is_v4 => IpAddr::V4(v4),
                _ => IpAddr::V6(address),
            }
        })
    }

    /// Source and destination.
    pub fn ports(&self) -> [u16; 2] {
        [(self.0[4] >> 48) as u16, (self.0[4] >> 32) as u16]
    }

    /// The number of the protocol (IANA).
    pub fn protocol(&self) -> u8 {
        (self.0[4] >> 8) as u8
    }

    /// The key of the other direction.
    pub fn reversed(self) -> Self {
        let [a, b, c, d, last] = self.0;
        let ports = (last >> 32 & 0xffff) << 48 | (last >> 48) << 32;
        Self([c, d, a, b, ports | last & 0xffff_ffff])
    }

    /// The same for both directions: that which has the smaller address, or port, in front.
    pub fn symmetric(self) -> Self {
        self.min(self.reversed())
    }

    /// A hash of all of it, the same everywhere; another one for each seed.
    pub fn hash64(&self, seed: u64) -> u64 {
        let [a, b, c, d, last] = self.0;
        let hash = multiply(a ^ PI[0], b ^ seed ^ PI[1]);
        let hash = multiply(c ^ PI[2], d ^ hash);
        multiply(last ^ PI[3], hash ^ PI[4])
    }
}

/// Both halves of a product, so that each bit of the factors reaches each of the result.
fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// A hash of any bytes, as stable as that of a key.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64 ^ PI[0], |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        multiply(hash ^ u64::from_le_bytes(word), PI[1])
    })
}

impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash64(0));
    }
}

/// A table by [`FlowKey`], or by a number that is a hash already.
pub type FlowMap<K, V> = HashMap<K, V, BuildHasherDefault<Ready>>;

/// Takes a hash for what it is.
#[derive(Debug, Default, Clone, Copy)]
pub struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = multiply(self.0 ^ hash_bytes(bytes), PI[2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers;
    use crate::tunnel::build;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<u32>().prop_map(|v4| Ipv4Addr::from(v4).into()),
            any::<u128>().prop_map(|v6| Ipv6Addr::from(v6).into())
        ]
    }

    #[test]
    fn the_hash_stays_what_it_was() {
        let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let key = FlowKey::new([a.into(), b.into()], [1234, 80], layers::TCP);
        assert_eq!([key.hash64(0), key.hash64(7)], [0x755a_005a_7700_f0b4, 0xd92a_3e12_3eb0_7a1d]);
        let ip = |v4: Ipv4Addr| IpAddr::V6(v4.to_ipv6_mapped());
        assert_ne!(FlowKey::new([ip(a), ip(b)], [1234, 80], layers::TCP), key, "another version");
    }

    #[test]
    fn a_frame_has_its_key() {
        let [a, b] = [Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::new(10, 0, 0, 2)];
        let packet = build::ipv4(a, b, layers::UDP, &[], &build::udp(5000, 53, b"a question of some length"));
        let frame = build::ethernet(&[(0x8100, 3)], 0x0800, &packet);
        let ip = layers::ethernet(&frame).unwrap().ip.unwrap();
        let key = FlowKey::of(&ip, &frame);
        assert_eq!((key.addresses(), key.ports(), key.protocol()), ([a.into(), b.into()], [5000, 53], 17));
        assert_eq!(key.symmetric().addresses(), [IpAddr::from(b), a.into()]);
        for piece in build::ipv4_fragments(&packet, 8).iter().skip(1) {
            let ip = layers::ip(piece, 0).unwrap();
            assert_eq!(FlowKey::of(&ip, piece).ports(), [0, 0]);
        }
    }

    #[test]
    fn neighbours_spread_evenly() {
        let mut shares = [0u32; 16];
        for last in 0..=255u8 {
            for port in 0..256u16 {
                let ips = [Ipv4Addr::new(10, 0, 0, last).into(), Ipv4Addr::new(10, 0, 1, 1).into()];
                let hash = FlowKey::new(ips, [1024 + port, 80], layers::TCP).hash64(0);
                shares[(hash >> 60) as usize] += 1;
                shares[(hash & 15) as usize] += 1;
            }
        }
        assert!(shares.iter().all(|share| (7700..8700).contains(share)), "{shares:?}");
    }

    proptest! {
        #[test]
        fn parts_come_back_and_directions_are_one(a in address(), b in address(), ports: [u16; 2], protocol: u8, seed: u64) {
            let key = FlowKey::new([a, b], ports, protocol);
            prop_assert_eq!((key.ports(), key.protocol()), (ports, protocol));
            if a.is_ipv4() == b.is_ipv4() {
                prop_assert_eq!(key.addresses(), [a, b]);
            }
            let other = FlowKey::new([b, a], [ports[1], ports[0]], protocol);
            prop_assert_eq!(key.reversed(), other);
            prop_assert_eq!(key.symmetric(), other.symmetric());
            prop_assert_eq!(key.symmetric().hash64(seed), other.symmetric().hash64(seed));
            prop_assert!([key, other].contains(&key.symmetric()));
        }
    }
}
