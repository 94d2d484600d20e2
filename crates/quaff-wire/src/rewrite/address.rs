//! Maps of addresses to addresses.
//!
//! Maps go from network to network and keep the bits of the host; the first that fits counts. What no
//! map names can be scattered by a seed: a permutation, so that different addresses stay different,
//! and the same one is the same in each packet and each run.

use crate::ParseError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: an address and how many of its bits count (RFC 4632).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// An address in it.
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The network of `address` with a prefix of so many bits; `None` when there are more than it has.
    fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(Self { address, prefix })
    }

    /// Returns true if `address` is in the network.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (u32::from(ours) ^ u32::from(theirs)) & mask4(self.prefix) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                (u128::from(ours) ^ u128::from(theirs)) & mask6(self.prefix) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = ParseError;

    /// `10.0.0.0/8`, `fd00::/8`, `[fd00::/8]`, or an address alone.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let bare = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(word);
        let no = |why| ParseError::of(word, why);
        let (address, prefix) = match bare.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (bare, None),
        };
        let address: IpAddr = address.parse().map_err(|_| no("is no address: try 10.0.0.0/8 or fd00::/8"))?;
        let prefix = match prefix {
            None => {
                if address.is_ipv4() {
                    32
                } else {
                    128
                }
            }
            Some(prefix) => prefix.parse().map_err(|_| no("has no number of bits after the slash"))?,
        };
        Self::new(address, prefix).ok_or(no("has more bits after the slash than an address"))
    }
}

/// From which network into which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressMap {
    from: Cidr,
    to: Cidr,
}

impl AddressMap {
    /// `None` when one is of IPv4 and the other of IPv6.
    fn new(from: Cidr, to: Cidr) -> Option<Self> {
        (from.address.is_ipv4() == to.address.is_ipv4()).then_some(Self { from, to })
    }
}

impl FromStr for AddressMap {
    type Err = ParseError;

    /// `10.0.0.0/8:192.168.0.0/16`, `[fd00::/8]:[2001:db8::/32]`, or the latter without brackets.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let no = |why| ParseError::of(word, why);
        let colon = if word.starts_with('[') {
            word.find("]:").map(|at| at + 1)
        } else {
            // Behind the prefix of the first network, since an IPv6 address has colons of its own.
            let start = word.find('/').unwrap_or(0);
            word[start..].find(':').map(|at| start + at)
        };
        let at =
            colon.ok_or(no("is no map: try 10.0.0.0/8:192.168.0.0/16, or [fd00::/8]:[2001:db8::/32]"))?;
        let (from, to) = (word[..at].parse()?, word[at + 1..].parse()?);
        Self::new(from, to).ok_or(no("is of IPv4 on one side and of IPv6 on the other"))
    }
}

/// Maps in the order in which they are tried, and what becomes of addresses that none of them names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressMaps {
    v4: Vec<Map<u32>>,
    v6: Vec<Map<u128>>,
    seed: Option<u64>,
}

/// The bits of a network and its mask, from and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Map<T> {
    from: T,
    from_mask: T,
    to: T,
    to_mask: T,
}

impl AddressMaps {
    /// These maps; with a seed, all other addresses are scattered.
    pub fn new(maps: &[AddressMap], seed: Option<u64>) -> Self {
        let mut these = Self { seed, ..Self::default() };
        for AddressMap { from, to } in maps {
            match (from.address, to.address) {
                (IpAddr::V4(a), IpAddr::V4(b)) => {
                    let (from_mask, to_mask) = (mask4(from.prefix), mask4(to.prefix));
                    let (from, to) = (u32::from(a) & from_mask, u32::from(b) & to_mask);
                    these.v4.push(Map { from, from_mask, to, to_mask });
                }
                (IpAddr::V6(a), IpAddr::V6(b)) => {
                    let (from_mask, to_mask) = (mask6(from.prefix), mask6(to.prefix));
                    let (from, to) = (u128::from(a) & from_mask, u128::from(b) & to_mask);
                    these.v6.push(Map { from, from_mask, to, to_mask });
                }
                _ => {}
            }
        }
        these
    }

    /// The address in the place of this one.
    pub(crate) fn v4(&self, address: Ipv4Addr) -> Ipv4Addr {
        let bits = u32::from(address);
        match (self.v4.iter().find(|map| bits & map.from_mask == map.from), self.seed) {
            (Some(map), _) => Ipv4Addr::from(map.to | bits & !map.to_mask),
            (None, Some(seed)) => scatter4(address, seed),
            (None, None) => address,
        }
    }

    /// The address in the place of this one.
    pub(crate) fn v6(&self, address: Ipv6Addr) -> Ipv6Addr {
        let bits = u128::from(address);
        match (self.v6.iter().find(|map| bits & map.from_mask == map.from), self.seed) {
            (Some(map), _) => Ipv6Addr::from(map.to | bits & !map.to_mask),
            (None, Some(seed)) => scatter6(address, seed),
            (None, None) => address,
        }
    }
}

fn mask4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

fn mask6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

/// Permutes until the address is again one of a host's: that is a permutation of those of hosts.
fn scatter4(address: Ipv4Addr, seed: u64) -> Ipv4Addr {
    let mut bits = address;
    while is_host4(address) {
        let value = u64::from(u32::from(bits));
        bits = Ipv4Addr::from(feistel(value >> 16, value & 0xffff, 16, seed) as u32);
        if is_host4(bits) {
            break;
        }
    }
    bits
}

fn scatter6(address: Ipv6Addr, seed: u64) -> Ipv6Addr {
    let mut bits = address;
    while is_host6(address) {
        let value = u128::from(bits);
        bits = Ipv6Addr::from(feistel((value >> 64) as u64, value as u64, 64, seed));
        if is_host6(bits) {
            break;
        }
    }
    bits
}

/// Not this network, loopback, link-local, multicast, reserved or broadcast (RFC 6890).
fn is_host4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224 && !address.is_link_local()
}

/// Neither special (::/8: unspecified, loopback, mapped) nor link-local nor multicast (RFC 4291).
fn is_host6(address: Ipv6Addr) -> bool {
    address.octets()[0] != 0 && !address.is_multicast() && !address.is_unicast_link_local()
}

/// A permutation of two halves of `half` bits (Luby and Rackoff), another one for each seed.
fn feistel(mut left: u64, mut right: u64, half: u32, seed: u64) -> u128 {
    const ROUNDS: u64 = 4;
    for round in 0..ROUNDS {
        let mixed = (right ^ seed).wrapping_add(round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_add(seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (left, right) = (right, left ^ mixed >> (64 - half));
    }
    u128::from(left) << half | u128::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn maps(words: &[&str]) -> AddressMaps {
        AddressMaps::new(&words.iter().map(|word| word.parse().unwrap()).collect::<Vec<_>>(), None)
    }

    #[test]
    fn networks_are_replaced_and_hosts_stay() {
        let maps = maps(&["10.1.0.0/16:192.168.0.0/24", "10.0.0.0/8:172.16.0.0/12", "1.2.3.4:5.6.7.8"]);
        let to = |ip: &str| maps.v4(ip.parse().unwrap()).to_string();
        assert_eq!(to("10.1.7.9"), "192.168.0.9", "the prefix of the new network counts");
        assert_eq!(to("10.2.7.9"), "172.18.7.9");
        assert_eq!(to("1.2.3.4"), "5.6.7.8");
        assert_eq!(to("1.2.3.5"), "1.2.3.5");
    }

    #[test]
    fn ipv6_with_and_without_brackets() {
        for word in ["2001:db8::/32:fd00::/8", "[2001:db8::/32]:[fd00::/8]"] {
            let to = maps(&[word]).v6("2001:db8:1::5".parse().unwrap());
            assert_eq!(to.to_string(), "fd01:db8:1::5");
        }
        assert_eq!(maps(&["::/0:::/0"]).v6(Ipv6Addr::LOCALHOST), Ipv6Addr::LOCALHOST);
    }

    #[test]
    fn a_bad_map_is_refused() {
        for word in [
            "",
            "10.0.0.0/8",
            "10.0.0.0/33:1.0.0.0/8",
            "10.0.0.0/8:fd00::/8",
            "[fd00::/8]",
            "x:y",
            "1.1.1.1/:2.2.2.2",
        ] {
            let error = word.parse::<AddressMap>().unwrap_err().to_string();
            assert!(error.starts_with('\''), "{error}");
        }
    }

    #[test]
    fn scattered_addresses_stay_different() {
        let maps = AddressMaps::new(&[], Some(42));
        let new: HashSet<Ipv4Addr> =
            (0..=0xffff).map(|low| maps.v4(Ipv4Addr::from(0x0a00_0000 + low))).collect();
        assert_eq!(new.len(), 0x1_0000);
        let networks: HashSet<u8> = new.iter().map(|ip| ip.octets()[0]).collect();
        assert!(networks.len() > 200, "{}", networks.len());
        for special in ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.251", "255.255.255.255"] {
            assert_eq!(maps.v4(special.parse().unwrap()).to_string(), special);
        }
        for special in ["::", "::1", "fe80::1", "ff02::fb"] {
            assert_eq!(maps.v6(special.parse().unwrap()).to_string(), special);
        }
    }

    proptest! {
        #[test]
        fn a_seed_permutes_hosts(a: u32, b: u32, c: u128, d: u128, seed: u64) {
            let maps = AddressMaps::new(&[], Some(seed));
            let [a, b] = [a, b].map(Ipv4Addr::from);
            prop_assert_eq!(maps.v4(a) == maps.v4(b), a == b);
            prop_assert_eq!(is_host4(maps.v4(a)), is_host4(a));
            let [c, d] = [c, d].map(Ipv6Addr::from);
            prop_assert_eq!(maps.v6(c) == maps.v6(d), c == d);
            prop_assert_eq!(is_host6(maps.v6(c)), is_host6(c));
        }

        #[test]
        fn a_map_ends_in_its_network(bits: u32, to: u32, from_prefix in 0u8..=32, to_prefix in 0u8..=32) {
            let address = Ipv4Addr::from(bits);
            let from = Cidr::new(address.into(), from_prefix).unwrap();
            let to = Cidr::new(Ipv4Addr::from(to).into(), to_prefix).unwrap();
            let maps = AddressMaps::new(&[AddressMap::new(from, to).unwrap()], None);
            prop_assert!(to.contains(maps.v4(address).into()));
            prop_assert_eq!((u32::from(maps.v4(address)) ^ bits) & !mask4(to_prefix), 0);
        }

        #[test]
        fn no_word_makes_it_panic(word in "[0-9a-f:./\\[\\]]{0,40}") {
            let _ = word.parse::<AddressMap>();
        }
    }
}
