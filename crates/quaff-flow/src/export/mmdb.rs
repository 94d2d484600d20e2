//! MaxMind databases (MaxMind DB file format 2.0), as far as AS numbers need it: the tree of addresses, and maps with a
//! number. Any bytes are answered without a panic.

use std::net::IpAddr;

/// Begins the metadata, near the end of the file.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
/// The metadata lies within these last bytes.
const METADATA_BYTES_MAX: usize = 128 << 10;
/// Zero bytes between the tree and the data.
const GAP: usize = 16;
/// Pointers and nested values that are followed for one value.
const DEPTH_MAX: u8 = 32;
const KEY: &str = "autonomous_system_number";

/// A database.
#[derive(Debug)]
pub(super) struct Database {
    bytes: Vec<u8>,
    nodes: usize,
    record_bits: usize,
    is_ipv6: bool,
    /// The start of the data section.
    data: usize,
    /// The node of ::/96, where addresses of IPv4 begin, and its depth.
    ipv4_start: (usize, u8),
}

/// A value: its kind, its size, and the place of its contents.
#[derive(Debug, Clone, Copy)]
struct Item {
    kind: u8,
    size: usize,
    at: usize,
}

const POINTER: u8 = 1;
const TEXT: u8 = 2;
const MAP: u8 = 7;
const ARRAY: u8 = 11;

impl Database {
    /// Returns `true` if the bytes have the marker of a database.
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        Self::marker(bytes).is_some()
    }

    fn marker(bytes: &[u8]) -> Option<usize> {
        let from = bytes.len().saturating_sub(METADATA_BYTES_MAX);
        let place = bytes[from..].windows(MARKER.len()).rposition(|window| window == MARKER)?;
        Some(from + place + MARKER.len())
    }

    /// Reads the metadata.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let metadata = Self::marker(&bytes).ok_or("it has no metadata of MaxMind")?;
        let number = |name: &str| {
            let found = map_value(&bytes, metadata, metadata, name).and_then(|item| number_of(&bytes, item));
            found.ok_or_else(|| format!("its metadata has no {name}"))
        };
        let nodes = number("node_count")? as usize;
        let record_bits = number("record_size")? as usize;
        let is_ipv6 = number("ip_version")? == 6;
        if !matches!(record_bits, 24 | 28 | 32) {
            return Err(format!("its records have {record_bits} bits; 24, 28 and 32 are known"));
        }
        let data = nodes.checked_mul(record_bits / 4).and_then(|tree| tree.checked_add(GAP));
        let data = data.filter(|data| *data <= metadata).ok_or("its tree is longer than the file")?;
        let mut database = Self { bytes, nodes, record_bits, is_ipv6, data, ipv4_start: (0, 0) };
        if is_ipv6 {
            database.ipv4_start = database.walk(0, 0, 96);
        }
        Ok(database)
    }

    /// Follows the first bits of an address; returns the record where it ends, and the bits that were used.
    fn walk(&self, start: usize, address: u128, bits: u8) -> (usize, u8) {
        let mut node = start;
        for at in 0..bits {
            if node >= self.nodes {
                return (node, at);
            }
            let is_right = address >> (127 - at) & 1 == 1;
            match self.record(node, is_right) {
                Some(next) => node = next,
                None => return (self.nodes, at),
            }
        }
        (node, bits)
    }

    /// One of the two records of a node.
    fn record(&self, node: usize, is_right: bool) -> Option<usize> {
        let width = self.record_bits / 4;
        let bytes = self.bytes.get(node * width..(node + 1) * width)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        Some(match (self.record_bits, is_right) {
            (28, false) => usize::from(bytes[3] >> 4) << 24 | number(&bytes[..3]),
            (28, true) => usize::from(bytes[3] & 15) << 24 | number(&bytes[4..]),
            (_, false) => number(&bytes[..width / 2]),
            (_, true) => number(&bytes[width / 2..]),
        })
    }

    /// The AS number and the prefix of an address.
    pub(super) fn find(&self, address: IpAddr) -> Option<(u32, u8)> {
        let (record, bits) = match address {
            IpAddr::V6(_) if !self.is_ipv6 => return None,
            IpAddr::V6(address) => self.walk(0, address.to_bits(), 128),
            IpAddr::V4(address) => self.walk(self.ipv4_start.0, u128::from(address.to_bits()) << 96, 32),
        };
        let offset = record.checked_sub(self.nodes)?.checked_sub(GAP)?;
        let at = self.data.checked_add(offset)?;
        let item = map_value(&self.bytes, self.data, at, KEY)?;
        Some((u32::try_from(number_of(&self.bytes, item)?).ok()?, bits))
    }
}

/// Reads the control bytes of a value, through pointers. `base` is the place that pointers count from.
fn item(bytes: &[u8], base: usize, at: usize, depth: u8) -> Option<Item> {
    let depth = depth.checked_sub(1)?;
    let control = *bytes.get(at)?;
    let mut next = at + 1;
    let mut take = |count: usize| -> Option<usize> {
        let taken = bytes.get(next..next + count)?;
        next += count;
        Some(taken.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    if control >> 5 == POINTER {
        let high = usize::from(control & 7);
        let pointer = match control >> 3 & 3 {
            0 => high << 8 | take(1)?,
            1 => (high << 16 | take(2)?) + 2048,
            2 => (high << 24 | take(3)?) + 526_336,
            _ => take(4)?,
        };
        return item(bytes, base, base.checked_add(pointer)?, depth);
    }
    let kind = match control >> 5 {
        0 => u8::try_from(take(1)? + 7).ok()?,
        kind => kind,
    };
    let size = match control & 31 {
        29 => 29 + take(1)?,
        30 => 285 + take(2)?,
        31 => 65_821 + take(3)?,
        size => usize::from(size),
    };
    Some(Item { kind, size, at: next })
}

/// The place after a value at `at`, without following pointers.
fn after(bytes: &[u8], base: usize, at: usize, depth: u8) -> Option<usize> {
    let depth = depth.checked_sub(1)?;
    let control = *bytes.get(at)?;
    if control >> 5 == POINTER {
        return Some(at + 2 + usize::from(control >> 3 & 3));
    }
    let item = item(bytes, base, at, 2)?;
    let values = match item.kind {
        MAP => item.size.checked_mul(2)?,
        ARRAY => item.size,
        // A boolean's size is its value.
        14 => return Some(item.at),
        _ => return item.at.checked_add(item.size),
    };
    (0..values).try_fold(item.at, |at, _| after(bytes, base, at, depth))
}

/// The value of a key in the map at `at`.
fn map_value(bytes: &[u8], base: usize, at: usize, key: &str) -> Option<Item> {
    let map = item(bytes, base, at, DEPTH_MAX).filter(|item| item.kind == MAP)?;
    let mut at = map.at;
    for _ in 0..map.size {
        let name = item(bytes, base, at, DEPTH_MAX).filter(|item| item.kind == TEXT)?;
        at = after(bytes, base, at, DEPTH_MAX)?;
        if bytes.get(name.at..name.at + name.size)? == key.as_bytes() {
            return item(bytes, base, at, DEPTH_MAX);
        }
        at = after(bytes, base, at, DEPTH_MAX)?;
    }
    None
}

/// The number that an unsigned integer has.
fn number_of(bytes: &[u8], item: Item) -> Option<u64> {
    let is_number = matches!(item.kind, 5 | 6 | 9) && item.size <= 8;
    let bytes = bytes.get(item.at..item.at.checked_add(item.size)?).filter(|_| is_number)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        let second = map(&[("autonomous_system_organization", organization), (KEY, number(64501))]);
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
            ("node_count", number(nodes as u32)),
            ("record_size", number(record_bits as u32)),
            ("ip_version", number(4)),
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
