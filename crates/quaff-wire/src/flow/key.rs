//! The key of a flow or conversation, and its hash, which is the same on every machine and must never change.

use crate::net::{ICMP, ICMPV6, SCTP, TCP, UDP};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A flow, with its source first, or a conversation, with the lower end first, so that both directions have one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowKey {
    /// A frame without addresses. All of them share this key.
    Nothing,
    Macs([[u8; 6]; 2]),
    Addresses([IpAddr; 2]),
    /// IP addresses, and ports if the protocol has them (otherwise 0).
    Ports {
        protocol: u8,
        ends: [(IpAddr, u16); 2],
    },
}

impl FlowKey {
    /// The key of two IP addresses.
    pub(crate) fn addresses(ends: [IpAddr; 2]) -> Self {
        Self::Addresses(sorted(ends))
    }

    /// The key of one direction, source first.
    pub(crate) fn flow(protocol: u8, addresses: [IpAddr; 2], ports: [u16; 2]) -> Self {
        Self::Ports { protocol, ends: [(addresses[0], ports[0]), (addresses[1], ports[1])] }
    }

    /// The key of two IP addresses with ports.
    pub(crate) fn ports(protocol: u8, ends: [(IpAddr, u16); 2]) -> Self {
        Self::Ports { protocol, ends: sorted(ends) }
    }

    /// A 64-bit hash in which every bit depends on the whole key. The same on every machine.
    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        match self {
            Self::Nothing => mix(seed, 1),
            Self::Macs(ends) => ends.iter().fold(mix(seed, 2), |sum, mac| mix(sum, of_mac(mac))),
            Self::Addresses(ends) => ends.iter().fold(mix(seed, 3), address),
            Self::Ports { protocol, ends } => {
                let sum = mix(seed, 4 | u64::from(*protocol) << 8);
                ends.iter().fold(sum, |sum, (ip, port)| mix(address(sum, ip), u64::from(*port)))
            }
        }
    }
}

#[inline]
fn address(sum: u64, ip: &IpAddr) -> u64 {
    match ip {
        IpAddr::V4(ip) => mix(sum, u64::from(ip.to_bits())),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            mix(mix(sum, (bits >> 64) as u64), bits as u64)
        }
    }
}

fn of_mac(mac: &[u8; 6]) -> u64 {
    mac.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// Sorts two values.
pub(crate) fn sorted<T: Ord>([one, other]: [T; 2]) -> [T; 2] {
    if other < one { [other, one] } else { [one, other] }
}

/// Mixes a word into a sum: variant 13 by Stafford of the MurmurHash3 finalizer over their sum plus an odd constant, as
/// in SplitMix64.
#[inline]
pub fn mix(sum: u64, word: u64) -> u64 {
    let mut z = (sum ^ word.wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl fmt::Display for FlowKey {
    /// For example `tcp 10.0.0.1:80 – 10.0.0.2:4711`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("frames without addresses"),
            Self::Macs([one, other]) => write!(f, "{} – {}", Mac(one), Mac(other)),
            Self::Addresses([one, other]) => write!(f, "{one} – {other}"),
            Self::Ports { protocol, ends: [one, other] } if one.1 == 0 && other.1 == 0 => {
                write!(f, "{} {} – {}", Protocol(*protocol), one.0, other.0)
            }
            Self::Ports { protocol, ends: [one, other] } => {
                let (one, other) = (SocketAddr::from(*one), SocketAddr::from(*other));
                write!(f, "{} {one} – {other}", Protocol(*protocol))
            }
        }
    }
}

struct Mac<'a>(&'a [u8; 6]);

impl fmt::Display for Mac<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The name of an IANA protocol number: `tcp`, `icmp6`, `protocol 47`.
#[derive(Debug, Clone, Copy)]
pub struct Protocol(pub u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TCP => f.write_str("tcp"),
            UDP => f.write_str("udp"),
            SCTP => f.write_str("sctp"),
            ICMP => f.write_str("icmp"),
            ICMPV6 => f.write_str("icmp6"),
            other => write!(f, "protocol {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_the_same_and_others_are_not() {
        let [a, b]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let key = FlowKey::ports(TCP, [(a, 80), (b, 4711)]);
        assert_eq!(key, FlowKey::ports(TCP, [(b, 4711), (a, 80)]));
        let others = [
            FlowKey::ports(TCP, [(a, 4711), (b, 80)]),
            FlowKey::ports(UDP, [(a, 80), (b, 4711)]),
            FlowKey::addresses([a, b]),
            FlowKey::addresses([a, a]),
            FlowKey::Macs([[1; 6], [2; 6]]),
            FlowKey::Nothing,
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != key && other.hash(0) != key.hash(0), "{other}");
            assert!(others[..at].iter().all(|earlier| earlier.hash(7) != other.hash(7)), "{other}");
        }
        assert_ne!(key.hash(0), key.hash(1));
    }

    /// Machines that share a feed must agree, so the hash must never change.
    #[test]
    fn the_hash_is_a_fixed_one() {
        let key = FlowKey::ports(TCP, [([10, 0, 0, 1].into(), 80), ([10, 0, 0, 2].into(), 4711)]);
        assert_eq!(mix(0, 0), 0xe220_a839_7b1d_cdaf, "the first word of SplitMix64 of 0");
        assert_eq!(key.hash(0), 0x115a_4848_e360_ee27);
    }

    #[test]
    fn keys_have_names() {
        let [a, b]: [IpAddr; 2] = [[10, 0, 0, 1].into(), "2001:db8::1".parse().unwrap()];
        assert_eq!(FlowKey::ports(6, [(b, 1), (a, 2)]).to_string(), "tcp 10.0.0.1:2 – [2001:db8::1]:1");
        assert_eq!(FlowKey::ports(47, [(a, 0), (b, 0)]).to_string(), "protocol 47 10.0.0.1 – 2001:db8::1");
        assert_eq!(FlowKey::Macs([[1; 6], [0xff; 6]]).to_string(), "01:01:01:01:01:01 – ff:ff:ff:ff:ff:ff");
    }
}
