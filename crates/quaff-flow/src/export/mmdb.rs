//! Reads AS numbers from MaxMind databases. Never panics, whatever the bytes are.

use maxminddb::{PathElement, Reader};
use std::net::IpAddr;

/// The marker before the metadata, near the end of the file.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
/// The metadata is within this number of bytes before the end of the file.
const METADATA_BYTES_MAX: usize = 128 << 10;
const KEY: &str = "autonomous_system_number";

#[derive(Debug)]
pub(super) struct Database {
    reader: Reader<Vec<u8>>,
}

impl Database {
    /// True if the bytes contain the marker of a database.
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        let from = bytes.len().saturating_sub(METADATA_BYTES_MAX);
        bytes[from..].windows(MARKER.len()).any(|window| window == MARKER)
    }

    /// Reads the metadata.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        Reader::from_source(bytes).map(|reader| Self { reader }).map_err(|error| error.to_string())
    }

    /// The AS number and the prefix of an address.
    pub(super) fn find(&self, address: IpAddr) -> Option<(u32, u8)> {
        let found = self.reader.lookup(address).ok()?;
        // An unsigned number of any width.
        let number = found.decode_path::<serde_json::Value>(&[PathElement::Key(KEY)]).ok()??;
        let number = u32::try_from(number.as_u64()?).ok()?;
        let network = found.network().ok()?;
        // An entry of an IPv6 database with a prefix shorter than ::/96 contains all IPv4 addresses.
        let is_wider = address.is_ipv4() && network.is_ipv6();
        Some((number, if is_wider { 0 } else { network.prefix() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Types of values, and the number of zero bytes between the tree and the data.
    const POINTER: u8 = 1;
    const TEXT: u8 = 2;
    const MAP: u8 = 7;
    const ARRAY: u8 = 11;
    const GAP: usize = 16;

    fn text(text: &str) -> Vec<u8> {
        let mut out = match text.len() {
            short @ 0..29 => vec![TEXT << 5 | short as u8],
            long => vec![TEXT << 5 | 29, long as u8 - 29],
        };
        out.extend(text.as_bytes());
        out
    }

    fn number(number: u32) -> Vec<u8> {
        let mut out = vec![6 << 5 | 4];
        out.extend(number.to_be_bytes());
        out
    }

    fn short(number: u16) -> Vec<u8> {
        [&[5 << 5 | 2][..], &number.to_be_bytes()].concat()
    }

    /// Its type is above 7, so it is in the next byte, minus 7.
    fn long(number: u64) -> Vec<u8> {
        [&[8, 9 - 7][..], &number.to_be_bytes()].concat()
    }

    fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut out = vec![MAP << 5 | entries.len() as u8];
        for (key, value) in entries {
            out.extend(text(key));
            out.extend(value);
        }
        out
    }

    /// A database of IPv4 in which 0.0.0.0/1 is AS 64500, 128.0.0.0/2 AS 64501, and the rest has no entry.
    fn database(record_bits: usize) -> Vec<u8> {
        let first = map(&[("autonomous_system_organization", text("one")), (KEY, number(64500))]);
        let organization = vec![POINTER << 5, 1];
        let second = map(&[("autonomous_system_organization", organization), (KEY, short(64501))]);
        let nodes = 2;
        let place = |offset: usize| nodes + GAP + offset;
        let tree = [[place(0), 1], [place(first.len()), nodes]];
        let mut bytes = Vec::new();
        for [left, right] in tree {
            match record_bits {
                28 => {
                    bytes.extend(&(left as u32).to_be_bytes()[1..]);
                    bytes.push(0);
                    bytes.extend(&(right as u32).to_be_bytes()[1..]);
                }
                bits => {
                    bytes.extend(&(left as u32).to_be_bytes()[4 - bits / 8..]);
                    bytes.extend(&(right as u32).to_be_bytes()[4 - bits / 8..]);
                }
            }
        }
        bytes.extend([0; GAP]);
        bytes.extend(first);
        bytes.extend(second);
        bytes.extend(MARKER);
        bytes.extend(map(&[
            ("binary_format_major_version", short(2)),
            ("binary_format_minor_version", short(0)),
            ("build_epoch", long(1)),
            ("database_type", text("ASN")),
            ("description", map(&[])),
            ("languages", vec![0, ARRAY - 7]),
            ("node_count", number(nodes as u32)),
            ("record_size", short(record_bits as u16)),
            ("ip_version", short(4)),
        ]));
        bytes
    }

    #[test]
    fn numbers_and_prefixes_are_found_in_each_record_size() {
        for bits in [24, 28, 32] {
            assert!(Database::is_one(&database(bits)));
            let database = Database::parse(database(bits)).unwrap();
            let find = |address: &str| database.find(address.parse().unwrap());
            assert_eq!(find("10.0.0.1"), Some((64500, 1)), "{bits}");
            assert_eq!(find("130.0.0.1"), Some((64501, 2)), "{bits}");
            assert_eq!(find("200.0.0.1"), None, "{bits}");
            assert_eq!(find("2001:db8::1"), None, "{bits}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_refused_or_answered(at in any::<prop::sample::Index>(), byte in any::<u8>(), address in any::<u32>()) {
            let mut bytes = database(24);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(database) = Database::parse(bytes) {
                let _ = database.find(IpAddr::V4(std::net::Ipv4Addr::from_bits(address)));
            }
        }
    }
}
