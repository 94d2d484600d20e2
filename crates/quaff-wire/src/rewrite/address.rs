//! Maps addresses to addresses.
//!
//! A map replaces one network by another and keeps the host bits; the first matching map applies. Other addresses can
//! be scattered by a seed: a permutation, so that distinct addresses stay distinct, and an address is the same in each
//! packet and each run.

use crate::ParseError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: an address and a prefix length (RFC 4632).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// An address in the network.
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The network of `address` with this prefix length; `None` if the prefix is longer than an address.
    fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        (u32::from(prefix) <= bits(address).1).then_some(Self { address, prefix })
    }

    /// Prefix length.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns true if `address` is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((ours, width), (theirs, other)) = (bits(self.address), bits(address));
        width == other && (ours ^ theirs) & mask(self.prefix, width) == 0
    }
}

impl FromStr for Cidr {
    type Err = ParseError;

    /// Parses `10.0.0.0/8`, `fd00::/8`, `[fd00::/8]`, or a single address.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let bare = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(word);
        let no = |why| ParseError::of(word, why);
        let (address, prefix) = match bare.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (bare, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| no("is not an address: try 10.0.0.0/8 or fd00::/8"))?;
        let prefix = match prefix {
            None => bits(address).1 as u8,
            Some(prefix) => prefix.parse().map_err(|_| no("has no number of bits after the slash"))?,
        };
        Self::new(address, prefix).ok_or(no("has more bits after the slash than an address"))
    }
}

/// Maps the addresses of one network into another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressMap {
    from: Cidr,
    to: Cidr,
}

impl AddressMap {
    /// `None` if the networks differ in IP version.
    fn new(from: Cidr, to: Cidr) -> Option<Self> {
        (from.address.is_ipv4() == to.address.is_ipv4()).then_some(Self { from, to })
    }
}

impl FromStr for AddressMap {
    type Err = ParseError;

    /// Parses `10.0.0.0/8:192.168.0.0/16`, `[fd00::/8]:[2001:db8::/32]`, or the latter without brackets.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let no = |why| ParseError::of(word, why);
        let colon = if word.starts_with('[') {
            word.find("]:").map(|at| at + 1)
        } else {
            // Searches after the first prefix length, since an IPv6 address contains colons.
            let start = word.find('/').unwrap_or(0);
            word[start..].find(':').map(|at| start + at)
        };
        let at =
            colon.ok_or(no("is not a map: try 10.0.0.0/8:192.168.0.0/16, or [fd00::/8]:[2001:db8::/32]"))?;
        let (from, to) = (word[..at].parse()?, word[at + 1..].parse()?);
        Self::new(from, to).ok_or(no("is of IPv4 on one side and of IPv6 on the other"))
    }
}

/// The maps in the order in which they are tried, and the seed that scatters other addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressMaps {
    v4: Vec<Map>,
    v6: Vec<Map>,
    seed: Option<u64>,
}

/// Bits and mask of the source network, and of the target network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Map {
    from: u128,
    from_mask: u128,
    to: u128,
    to_mask: u128,
}

impl AddressMaps {
    /// Creates these maps; with a seed all other addresses are scattered.
    pub fn new(maps: &[AddressMap], seed: Option<u64>) -> Self {
        let mut these = Self { seed, ..Self::default() };
        for AddressMap { from, to } in maps {
            let (from_bits, width) = bits(from.address);
            let (from_mask, to_mask) = (mask(from.prefix, width), mask(to.prefix, width));
            let (from, to) = (from_bits & from_mask, bits(to.address).0 & to_mask);
            let family = if width == 32 { &mut these.v4 } else { &mut these.v6 };
            family.push(Map { from, from_mask, to, to_mask });
        }
        these
    }

    /// The new address of an IPv4 host.
    pub(crate) fn v4(&self, address: Ipv4Addr) -> Ipv4Addr {
        let is_host = |bits| is_host4(Ipv4Addr::from(bits as u32));
        Ipv4Addr::from(self.map(&self.v4, u32::from(address).into(), 32, is_host) as u32)
    }

    /// The new address of an IPv6 host.
    pub(crate) fn v6(&self, address: Ipv6Addr) -> Ipv6Addr {
        Ipv6Addr::from(self.map(&self.v6, address.into(), 128, |bits| is_host6(bits.into())))
    }

    fn map(&self, maps: &[Map], address: u128, width: u32, is_host: impl Fn(u128) -> bool) -> u128 {
        match (maps.iter().find(|map| address & map.from_mask == map.from), self.seed) {
            (Some(map), _) => map.to | address & !map.to_mask,
            (None, Some(seed)) if is_host(address) => scatter(address, width / 2, seed, is_host),
            _ => address,
        }
    }
}

/// An address as a number, and its width in bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u32::from(v4).into(), 32),
        IpAddr::V6(v6) => (v6.into(), 128),
    }
}

/// A mask of the upper `prefix` of `width` bits.
fn mask(prefix: u8, width: u32) -> u128 {
    let ones = |count: u32| u128::MAX.checked_shr(128 - count).unwrap_or(0);
    ones(width) & !ones(width - u32::from(prefix))
}

/// Permutes until the result is a host address again, which makes it a permutation of host addresses.
fn scatter(address: u128, half: u32, seed: u64, is_host: impl Fn(u128) -> bool) -> u128 {
    let mut bits = address;
    loop {
        let right = bits & (u128::MAX >> (128 - half));
        bits = feistel((bits >> half) as u64, right as u64, half, seed);
        if is_host(bits) {
            return bits;
        }
    }
}

/// True unless this network, loopback, link-local, multicast, reserved or broadcast (RFC 6890).
fn is_host4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224 && !address.is_link_local()
}

/// True unless special (::/8: unspecified, loopback, mapped), link-local or multicast (RFC 4291).
fn is_host6(address: Ipv6Addr) -> bool {
    address.octets()[0] != 0 && !address.is_multicast() && !address.is_unicast_link_local()
}

/// A permutation of two halves of `half` bits (Luby and Rackoff), which the seed selects.
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
            prop_assert_eq!((u32::from(maps.v4(address)) ^ bits) & !(mask(to_prefix, 32) as u32), 0);
        }

        #[test]
        fn no_word_makes_it_panic(word in "[0-9a-f:./\\[\\]]{0,40}") {
            let _ = word.parse::<AddressMap>();
        }
    }
}
