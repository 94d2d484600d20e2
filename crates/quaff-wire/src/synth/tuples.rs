//! The 5-tuples of synthetic traffic: numbered combinations of address and port ranges.
//!
//! Flow 0 has the first value of each range. Source addresses vary fastest, then destination addresses, source ports,
//! destination ports: a counter with its lowest digit on the left.

use crate::parse::{self, ParseError};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Maximum number of addresses used from a range: 2^32.
const ADDRESSES_MAX: u64 = 1 << 32;

/// A range of consecutive addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    pub first: IpAddr,
    /// Number of addresses, 1 to 2^32.
    pub count: u64,
}

/// A range of consecutive ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    pub first: u16,
    /// Number of ports, 1 to 65536.
    pub count: u64,
}

/// All 5-tuples of a run, without the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuples {
    pub src: Addresses,
    pub dst: Addresses,
    pub src_ports: Ports,
    pub dst_ports: Ports,
}

/// One 5-tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuple {
    /// Source and destination, of the same IP version.
    pub addresses: [IpAddr; 2],
    /// Source and destination.
    pub ports: [u16; 2],
}

impl Addresses {
    /// A range of a single address.
    fn one(address: impl Into<IpAddr>) -> Self {
        Self { first: address.into(), count: 1 }
    }

    fn at(&self, offset: u64) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(offset as u32)).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(offset.into())).into(),
        }
    }
}

impl FromStr for Addresses {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const WHY: &str =
            "is not a range of addresses; write 10.0.0.1, 10.0.0.0/16, 10.0.0.1-10.0.0.9 or the same in IPv6";
        let wrong = || ParseError::of(text, WHY);
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| wrong());
        if let Some((base, bits)) = text.split_once('/') {
            let bits: u32 = bits.trim().parse().map_err(|_| wrong())?;
            let address = address(base)?;
            let width: u32 = if address.is_ipv4() { 32 } else { 128 };
            let free = width.checked_sub(bits).ok_or_else(wrong)?;
            let count = 1u64.checked_shl(free.min(32)).unwrap_or(ADDRESSES_MAX);
            return Ok(Self { first: network(address, free), count });
        }
        match text.split_once('-') {
            None => address(text).map(Self::one),
            Some((first, last)) => {
                let (first, last) = (address(first)?, address(last)?);
                let span = match (first, last) {
                    (IpAddr::V4(a), IpAddr::V4(b)) => b.to_bits().checked_sub(a.to_bits()).map(u128::from),
                    (IpAddr::V6(a), IpAddr::V6(b)) => b.to_bits().checked_sub(a.to_bits()),
                    _ => None,
                };
                let span = span.ok_or_else(wrong)?.min(u128::from(ADDRESSES_MAX - 1));
                Ok(Self { first, count: span as u64 + 1 })
            }
        }
    }
}

/// The address with its `free` lowest bits cleared.
fn network(address: IpAddr, free: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(free).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(free).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}", self.first),
            count => write!(f, "{}-{}", self.first, self.at(count - 1)),
        }
    }
}

impl From<u16> for Ports {
    fn from(port: u16) -> Self {
        Self { first: port, count: 1 }
    }
}

impl Ports {
    fn at(&self, offset: u64) -> u16 {
        self.first.wrapping_add(offset as u16)
    }
}

impl FromStr for Ports {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let ports = parse::ports(text)
            .ok_or_else(|| ParseError::of(text, "is not a range of ports; write 5000 or 1024-65535"))?;
        Ok(Self { first: *ports.start(), count: ports.len() as u64 })
    }
}

impl Tuples {
    /// Number of 5-tuples, at most 2^64 - 1.
    pub fn count(&self) -> u64 {
        let ports = self.src_ports.count.saturating_mul(self.dst_ports.count);
        self.src.count.saturating_mul(self.dst.count).saturating_mul(ports)
    }

    /// True if both ends have the same IP version.
    pub(crate) fn are_of_one_family(&self) -> bool {
        self.src.first.is_ipv4() == self.dst.first.is_ipv4()
    }

    /// The tuple of flow `index`; they repeat after the last one.
    pub(super) fn at(&self, index: u64) -> Tuple {
        let mut left = index;
        let mut digit = |count: u64| {
            if count == 1 {
                return 0;
            }
            let digit = left % count;
            left /= count;
            digit
        };
        let addresses = [self.src.at(digit(self.src.count)), self.dst.at(digit(self.dst.count))];
        let ports =
            [self.src_ports.at(digit(self.src_ports.count)), self.dst_ports.at(digit(self.dst_ports.count))];
        Tuple { addresses, ports }
    }
}

impl Tuple {
    /// The reverse direction.
    pub(crate) fn reversed(self) -> Self {
        let ([src, dst], [src_port, dst_port]) = (self.addresses, self.ports);
        Self { addresses: [dst, src], ports: [dst_port, src_port] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn addresses(text: &str) -> Addresses {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(addresses("10.1.2.3/16").to_string(), "10.1.0.0-10.1.255.255");
        assert_eq!(addresses("10.0.0.9-10.0.1.8").count, 256);
        assert_eq!(addresses("10.0.0.9").count, 1);
        assert_eq!(addresses("0.0.0.0/0").count, 1 << 32);
        assert_eq!(addresses("2001:db8::/120").to_string(), "2001:db8::-2001:db8::ff");
        assert_eq!(addresses("2001:db8::/32").count, 1 << 32);
        assert_eq!(addresses("::/0").first, IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        for wrong in ["", "x", "10.0.0.0/33", "10.0.0.2-10.0.0.1", "10.0.0.1-::1", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Addresses>().is_err(), "{wrong}");
        }
        assert_eq!("1-65535".parse::<Ports>().unwrap().count, 65_535);
        for wrong in ["", "70000", "2-1", "-", "1-"] {
            assert!(wrong.parse::<Ports>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_tuple_has_one_number() {
        let tuples = Tuples {
            src: addresses("10.0.0.254-10.0.1.1"),
            dst: addresses("10.9.0.0/31"),
            src_ports: "65535".parse().unwrap(),
            dst_ports: "80-82".parse().unwrap(),
        };
        assert_eq!(tuples.count(), 24);
        let all: HashSet<_> = (0..24).map(|index| format!("{:?}", tuples.at(index))).collect();
        assert_eq!(all.len(), 24);
        assert_eq!(tuples.at(24), tuples.at(0));
        assert_eq!(tuples.at(3).addresses[0], IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)));
        assert_eq!(tuples.at(23).ports, [65_535, 82]);
    }
}
