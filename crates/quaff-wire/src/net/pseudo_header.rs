//! The pseudo header of a transport checksum (RFC 768, RFC 8200 section 8.1), and the addresses in it.
//!
//! These are not always those of the fixed header: while a routing header of IPv6 has segments left, or a source route
//! of IPv4 has addresses left, it contains the final destination, and a Home Address option contains the source. All
//! transport checksums of this crate use [`Ip::ends`].

use super::Ip;
use super::ipv4::IPV4_BYTES;
use super::ipv6::{self, DESTINATION, IPV6_BYTES, ROUTING};
use crate::checksum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Home Address option (RFC 6275, section 6.3).
const HOME_ADDRESS: u8 = 0xc9;
const ADDRESS_BYTES: usize = 16;
/// Offset of the addresses in a routing header of types 0, 2, 3 and 4.
const SEGMENTS: usize = 8;

/// Loose and strict source route (RFC 791).
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// An extension header of IPv6.
pub(crate) struct Extension<'a> {
    pub(crate) number: u8,
    /// Offset in the frame.
    pub(crate) at: usize,
    pub(crate) bytes: &'a [u8],
}

impl Ip {
    /// The source and destination of the pseudo header, for the packet whose IP header is at offset `at` of `frame`,
    /// and the offset of the last 32 bits of each; `None` if those are not contiguous.
    ///
    /// They differ from `addresses` if a routing header has segments left (RFC 8200, RFC 6275, RFC 6554, RFC 8754), if
    /// a source route has addresses left (RFC 791), and if a Home Address option has the source (RFC 6275). They are
    /// read from `frame`, whose addresses may have been rewritten since `self` was parsed.
    pub fn ends(&self, frame: &[u8], at: usize) -> [(IpAddr, Option<usize>); 2] {
        match self.is_v6() {
            true => self.ends_v6(frame, at),
            false => self.ends_v4(frame, at),
        }
    }

    fn ends_v4(&self, frame: &[u8], at: usize) -> [(IpAddr, Option<usize>); 2] {
        let routed = frame.get(at + IPV4_BYTES..self.transport).and_then(last_of_route);
        let places = [at + 12, routed.map_or(at + 16, |offset| at + IPV4_BYTES + offset)];
        places.map(|at| (address_v4(frame, at).into(), Some(at)))
    }

    fn ends_v6(&self, frame: &[u8], at: usize) -> [(IpAddr, Option<usize>); 2] {
        let fixed = |offset| address(frame, at + offset).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let [mut source, mut destination] = [8, 24].map(|offset| (fixed(offset), Some(at + offset + 12)));
        for extension in self.extensions(frame, at) {
            match extension.number {
                ROUTING => destination = extension.final_destination(destination.0).unwrap_or(destination),
                DESTINATION => source = extension.home_address().unwrap_or(source),
                _ => {}
            }
        }
        [(source.0.into(), source.1), (destination.0.into(), destination.1)]
    }

    /// The extension headers before the transport header of the IPv6 packet at `at`.
    pub(crate) fn extensions<'a>(&self, frame: &'a [u8], at: usize) -> impl Iterator<Item = Extension<'a>> {
        let end = self.transport;
        let (mut number, mut at) = (frame.get(at + 6).copied().unwrap_or_default(), at + IPV6_BYTES);
        std::iter::from_fn(move || {
            let header = frame.get(at..end)?;
            let [next, len, ..] = *header else { return None };
            let bytes = header.get(..ipv6::extension_bytes(number, len))?;
            let extension = Extension { number, at, bytes };
            (number, at) = (next, at + bytes.len());
            Some(extension)
        })
    }
}

impl Extension<'_> {
    /// The last address of a routing header with segments left, in a packet with the destination `next`.
    fn final_destination(&self, next: Ipv6Addr) -> Option<(Ipv6Addr, Option<usize>)> {
        let [_, _, kind, left, compression, pad, ..] = *self.bytes else { return None };
        if left == 0 {
            return None;
        }
        let last = self.bytes.len().checked_sub(ADDRESS_BYTES).filter(|at| *at >= SEGMENTS);
        match kind {
            // Source route (RFC 2460), and that of mobility with one address.
            0 | 2 => self.found(last?),
            // RPL (RFC 6554): the last address lacks the bytes that it shares with the destination.
            3 => {
                let shared = usize::from(compression & 15);
                let end = self.bytes.len().checked_sub(usize::from(pad >> 4))?;
                let start = end.checked_sub(ADDRESS_BYTES - shared).filter(|at| *at >= SEGMENTS)?;
                let mut octets = next.octets();
                octets[shared..].copy_from_slice(&self.bytes[start..end]);
                Some((octets.into(), (end - start >= 4).then(|| self.at + end - 4)))
            }
            // Segment routing (RFC 8754): the list is in reverse order.
            4 => self.found(SEGMENTS),
            _ => None,
        }
    }

    /// The address of a Home Address option.
    fn home_address(&self) -> Option<(Ipv6Addr, Option<usize>)> {
        let mut at = 2;
        loop {
            match self.bytes.get(at..)? {
                // Pad1 is the only option without a length.
                [0, ..] => at += 1,
                [HOME_ADDRESS, len, ..] if usize::from(*len) == ADDRESS_BYTES => return self.found(at + 2),
                [_, len, ..] => at += 2 + usize::from(*len),
                _ => return None,
            }
        }
    }

    /// The address at offset `at` of the header, and the offset of its last 32 bits in the frame.
    fn found(&self, at: usize) -> Option<(Ipv6Addr, Option<usize>)> {
        Some((address(self.bytes, at)?, Some(self.at + at + 12)))
    }
}

/// Offset of the last address of a source route that has addresses left, in the options of an IPv4 header.
fn last_of_route(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at..)? {
            [1, ..] => at += 1,
            [kind, len, pointer, ..] if SOURCE_ROUTES.contains(&kind) => {
                let end = at + usize::from(len);
                return (pointer <= len && len >= 7 && end <= options.len()).then(|| end - 4);
            }
            [kind, len, ..] if kind > 1 && len >= 2 => at += usize::from(len),
            _ => return None,
        }
    }
}

fn address_v4(bytes: &[u8], at: usize) -> Ipv4Addr {
    let octets = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
    octets.map_or(Ipv4Addr::UNSPECIFIED, |octets| (*octets).into())
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let octets: [u8; ADDRESS_BYTES] = *bytes.get(at..)?.first_chunk()?;
    Some(octets.into())
}

/// The sum of a pseudo header; `bytes` is the length of the transport header and its payload.
pub(crate) fn pseudo_header_sum(addresses: [IpAddr; 2], protocol: u8, bytes: usize) -> u16 {
    let rest = checksum::fold(bytes as u64 + u64::from(protocol));
    checksum::add(addresses_sum(addresses), rest)
}

/// The sum of the addresses of a pseudo header.
pub(crate) fn addresses_sum(addresses: [IpAddr; 2]) -> u16 {
    let [source, destination] = addresses.map(|address| match address {
        IpAddr::V4(v4) => checksum::sum(&v4.octets()),
        IpAddr::V6(v6) => checksum::sum(&v6.octets()),
    });
    checksum::add(source, destination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{UDP, ip_at};
    use proptest::prelude::*;

    const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const NEXT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);
    const LAST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 9, 9, 9, 9, 9);

    /// A packet with these extension headers (number, and what follows their first two bytes) and an empty UDP
    /// datagram.
    fn packet(extensions: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        packet.extend([SOURCE.octets(), NEXT.octets()].concat());
        let mut next_at = 6;
        for (number, rest) in extensions {
            packet[next_at] = *number;
            next_at = packet.len();
            packet.extend([0, ((rest.len() + 2) / 8 - 1) as u8]);
            packet.extend(rest);
        }
        packet[next_at] = UDP;
        packet.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        let bytes = (packet.len() - IPV6_BYTES) as u16;
        packet[4..6].copy_from_slice(&bytes.to_be_bytes());
        packet
    }

    /// A routing header of this type, with these segments left.
    fn routing(kind: u8, left: u8, word: [u8; 4], addresses: &[u8]) -> (u8, Vec<u8>) {
        (ROUTING, [&[kind, left], &word[..], addresses].concat())
    }

    fn ends(extensions: &[(u8, Vec<u8>)]) -> ([IpAddr; 2], [Option<[u8; 4]>; 2]) {
        let packet = packet(extensions);
        let found = ip_at(&packet, 0).unwrap().ends(&packet, 0);
        let bytes = |(_, at): (IpAddr, Option<usize>)| at.map(|at| *packet[at..].first_chunk().unwrap());
        (found.map(|(address, _)| address), found.map(bytes))
    }

    fn tail(address: Ipv6Addr) -> Option<[u8; 4]> {
        address.octets().last_chunk().copied()
    }

    #[test]
    fn the_final_destination_of_each_routing_header_with_segments_left_counts() {
        let other = Ipv6Addr::LOCALHOST.octets();
        let [first, last] = [[LAST.octets(), other].concat(), [other, LAST.octets()].concat()];
        let rest = &LAST.octets()[6..];
        let padded = [&[7; 11], rest, &[0; 3]].concat();
        for (extension, destination) in [
            (routing(0, 1, [0; 4], &last), LAST),
            (routing(0, 0, [0; 4], &last), NEXT),
            (routing(2, 1, [0; 4], &LAST.octets()), LAST),
            (routing(2, 0, [0; 4], &LAST.octets()), NEXT),
            // Ten bytes of eleven and ten, and three of padding.
            (routing(3, 1, [0x56, 0x30, 0, 0], &padded), LAST),
            (routing(3, 0, [0x56, 0x30, 0, 0], &padded), NEXT),
            (routing(4, 2, [1, 0, 0, 0], &first), LAST),
            (routing(4, 1, [0, 0, 0, 0], &[&first[..16], &[5, 6, 0, 0, 0, 0, 0, 0]].concat()), LAST),
            (routing(4, 0, [1, 0, 0, 0], &first), NEXT),
            (routing(0, 1, [0; 4], &[]), NEXT),
            // No room for eleven bytes before the padding.
            (routing(3, 1, [0x55, 0x10, 0, 0], &[9; 8]), NEXT),
            (routing(3, 1, [0, 0x10, 0, 0], &[9; 16]), NEXT),
            (routing(9, 1, [0; 4], &last), NEXT),
        ] {
            let found = ends(&[(0, vec![1, 4, 0, 0, 0, 0]), extension.clone()]);
            let expected = ([SOURCE.into(), destination.into()], [tail(SOURCE), tail(destination)]);
            assert_eq!(found, expected, "{extension:?}");
        }
        assert_eq!(ends(&[]), ([SOURCE.into(), NEXT.into()], [tail(SOURCE), tail(NEXT)]));
        // An address of which two bytes are in the header has its last 32 bits in two places.
        let (addresses, places) = ends(&[routing(3, 1, [0xee, 0x40, 0, 0], &[9, 8, 0, 0, 0, 0, 0, 0])]);
        let mut octets = NEXT.octets();
        octets[14..].copy_from_slice(&[0, 0]);
        assert_eq!((addresses[1], places[1]), (Ipv6Addr::from(octets).into(), None));
    }

    #[test]
    fn a_home_address_is_the_source() {
        let option = [&[0, 1, 1, 0, HOME_ADDRESS, 16][..], &LAST.octets()].concat();
        assert_eq!(ends(&[(DESTINATION, option.clone())]).0, [IpAddr::from(LAST), NEXT.into()]);
        assert_eq!(
            ends(&[(0, option)]).0,
            [IpAddr::from(SOURCE), NEXT.into()],
            "a Home Address in hop-by-hop options counts for nothing"
        );
    }

    #[test]
    fn the_last_address_of_a_source_route_counts_while_addresses_are_left() {
        let ends = |options: &[u8]| {
            let mut packet = vec![0x40 | (5 + options.len() / 4) as u8, 0, 0, 0, 0, 0, 0, 0, 9, UDP, 0, 0];
            packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            packet.extend(options);
            packet.extend([0; 8]);
            let [source, destination] = ip_at(&packet, 0).unwrap().ends(&packet, 0);
            assert_eq!(source, (IpAddr::from([10, 0, 0, 1]), Some(12)));
            destination
        };
        let fixed = (IpAddr::from([10, 0, 0, 2]), Some(16));
        let route = |pointer| [1, 131, 11, pointer, 10, 0, 0, 8, 10, 0, 0, 9];
        assert_eq!(ends(&route(4)), ([10, 0, 0, 9].into(), Some(28)));
        assert_eq!(ends(&route(8)), ([10, 0, 0, 9].into(), Some(28)));
        assert_eq!(ends(&route(12)), fixed, "no address is left");
        assert_eq!(ends(&[]), fixed);
        assert_eq!(ends(&[7, 7, 4, 0, 0, 0, 0, 0]), fixed, "Record Route is no source route");
        assert_eq!(ends(&[1, 131, 15, 4, 10, 0, 0, 9]), fixed, "longer than the options");
        assert_eq!(ends(&[148, 4, 0, 0, 137, 7, 4, 10, 0, 0, 9, 0]), ([10, 0, 0, 9].into(), Some(27)));
    }

    proptest! {
        #[test]
        fn whatever_lies_there_the_places_are_inside(
            extensions in prop::collection::vec((prop_oneof![Just(ROUTING), Just(DESTINATION), Just(44)], 0usize..5, 0u8..6, any::<[u8; 6]>()), 0..4),
            cut in 0usize..200,
        ) {
            let made: Vec<_> = extensions
                .into_iter()
                .map(|(number, eights, kind, word)| (number, [&[kind], &word[..5], &vec![word[5]; eights * 8]].concat()))
                .collect();
            let mut packet = packet(&made);
            packet.truncate(packet.len().saturating_sub(cut % 60));
            if let Some(ip) = ip_at(&packet, 0) {
                for (_, at) in ip.ends(&packet, 0) {
                    prop_assert!(at.is_none_or(|at| at + 4 <= ip.transport));
                }
            }
        }
    }
}
