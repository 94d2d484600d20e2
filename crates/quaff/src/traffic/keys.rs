//! Addresses and ports as words that compare and hash fast, and need little memory.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The words of an IPv6 address, which sort as the address does.
#[inline]
fn words(address: Ipv6Addr) -> [u64; 2] {
    let bits = address.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

/// The address of these words.
pub(super) fn address([high, low]: [u64; 2]) -> IpAddr {
    IpAddr::V6((u128::from(high) << 64 | u128::from(low)).into())
}

/// The words of an address of either version; one of IPv4 is mapped into IPv6.
#[inline]
pub(super) fn words_of(address: IpAddr) -> [u64; 2] {
    words(match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    })
}

/// Two endpoints in their order, with addresses of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    V4([u32; 2], [u16; 2]),
    V6([[u64; 2]; 2], [u16; 2]),
}

impl Ends {
    #[inline]
    pub(super) fn new(ends: [SocketAddr; 2]) -> Self {
        let ports = ends.map(|end| end.port());
        match ends.map(|end| end.ip()) {
            [IpAddr::V4(one), IpAddr::V4(other)] => Self::V4([one, other].map(|end| end.to_bits()), ports),
            both => Self::V6(both.map(words_of), ports),
        }
    }
}

impl Hash for Ends {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ports = match self {
            Self::V4([one, other], ports) => {
                state.write_u64(u64::from(*one) << 32 | u64::from(*other));
                ports
            }
            Self::V6(addresses, ports) => {
                addresses.iter().flatten().for_each(|word| state.write_u64(*word));
                ports
            }
        };
        state.write_u32(u32::from(ports[0]) << 16 | u32::from(ports[1]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_differ_by_addresses_ports_and_order() {
        let end = |last: u8, port: u16| SocketAddr::new([10, 0, 0, last].into(), port);
        let ends = Ends::new([end(1, 80), end(2, 90)]);
        assert_eq!(ends, Ends::new([end(1, 80), end(2, 90)]));
        let others = [[end(2, 90), end(1, 80)], [end(1, 80), end(3, 90)], [end(1, 81), end(2, 90)]];
        assert!(others.iter().all(|other| Ends::new(*other) != ends));
        let v6 = |text: &str| SocketAddr::new(text.parse().unwrap(), 80);
        let ends = Ends::new([v6("2001:db8::1"), v6("2001:db8::2")]);
        assert_ne!(ends, Ends::new([v6("2001:db8::1"), v6("2001:db9::2")]));
        // An address of IPv6 that holds one of IPv4 is another address.
        assert_ne!(Ends::new([v6("::ffff:10.0.0.1"), v6("::1")]), Ends::new([end(1, 80), end(2, 80)]));
    }

    #[test]
    fn words_are_the_address_and_sort_as_it_does() {
        let all = ["::", "::1", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8:0:1::", "ff02::1"];
        let all = all.map(|text| text.parse::<Ipv6Addr>().unwrap());
        assert!(all.map(words).is_sorted());
        assert!(all.iter().all(|one| address(words(*one)) == IpAddr::V6(*one)));
    }
}
