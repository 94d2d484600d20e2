//! AS numbers and prefixes of addresses, from a file: IPASN text (`PREFIX/BITS<TAB>ASN` a line) or a MaxMind database.
//! The caller reads the file.

use super::mmdb::Database;
use super::value::{Route, Routes};
use std::net::IpAddr;

/// Maximum prefixes of a file; the whole Internet has about 1.3 million.
const PREFIXES_MAX: usize = 8 << 20;

/// AS numbers by address.
#[derive(Debug)]
pub struct AsTable {
    source: AsSource,
}

#[derive(Debug)]
enum AsSource {
    /// Indexed by family: IPv4, IPv6.
    Prefixes([Prefixes; 2]),
    Database(Box<Database>),
}

impl AsTable {
    /// Parses a file of either format.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        if Database::is_one(&bytes) {
            return Ok(Self { source: AsSource::Database(Box::new(Database::parse(bytes)?)) });
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| "it is neither a MaxMind database nor text with lines PREFIX/BITS ASN".to_owned())?;
        let mut prefixes = [Prefixes::default(), Prefixes::default()];
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            let entry =
                parse_line(line).ok_or_else(|| format!("line {}: not PREFIX/BITS ASN", number + 1))?;
            let (address, bits, autonomous_system) = entry;
            let table = &mut prefixes[usize::from(address.is_ipv6())];
            if table.entries.len() >= PREFIXES_MAX {
                return Err(format!("line {}: more than {PREFIXES_MAX} prefixes", number + 1));
            }
            table.add(address, bits, autonomous_system);
        }
        prefixes.iter_mut().for_each(Prefixes::sort);
        Ok(Self { source: AsSource::Prefixes(prefixes) })
    }
}

/// Parses a line such as `192.0.2.0/24<TAB>64496`; the number may begin with `AS`.
fn parse_line(line: &str) -> Option<(IpAddr, u8, u32)> {
    let mut words = line.split_whitespace();
    let (address, bits) = words.next()?.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = bits.parse().ok()?;
    let number = words.next()?;
    let number = number.strip_prefix("AS").unwrap_or(number).parse().ok()?;
    (bits <= width(address)).then_some((address, bits, number))
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

impl Routes for AsTable {
    fn route(&self, address: IpAddr) -> Route {
        let found = match &self.source {
            AsSource::Database(database) => database.find(address),
            AsSource::Prefixes(prefixes) => prefixes[usize::from(address.is_ipv6())].find(address),
        };
        let (autonomous_system, prefix_bits) = found.unwrap_or_default();
        Route { autonomous_system, prefix_bits, next_hop: None }
    }
}

/// The bits of an address, as a number.
fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The prefixes of one family, sorted by first address; of equal ones the shorter first.
#[derive(Debug, Default)]
struct Prefixes {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    first: u128,
    last: u128,
    autonomous_system: u32,
    /// Index of the longest prefix that contains this one; `u32::MAX`: none.
    parent: u32,
    bits: u8,
}

impl Prefixes {
    fn add(&mut self, address: IpAddr, bits: u8, autonomous_system: u32) {
        let hosts = u32::from(width(address) - bits);
        let mask = 1_u128.checked_shl(hosts).map_or(u128::MAX, |size| size - 1);
        let first = bits_of(address) & !mask;
        self.entries.push(Entry { first, last: first | mask, autonomous_system, parent: u32::MAX, bits });
    }

    fn sort(&mut self) {
        self.entries.sort_by_key(|entry| (entry.first, entry.bits));
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.entries.len() {
            let first = self.entries[at].first;
            while open.last().is_some_and(|parent| self.entries[*parent].last < first) {
                open.pop();
            }
            self.entries[at].parent = open.last().map_or(u32::MAX, |parent| *parent as u32);
            open.push(at);
        }
    }

    /// Finds the longest prefix of an address: the last one that begins at or before it, or one that contains that
    /// prefix.
    fn find(&self, address: IpAddr) -> Option<(u32, u8)> {
        let address = bits_of(address);
        let after = self.entries.partition_point(|entry| entry.first <= address);
        let mut at = after.checked_sub(1)?;
        loop {
            let entry = self.entries.get(at)?;
            if entry.last >= address {
                return Some((entry.autonomous_system, entry.bits));
            }
            at = entry.parent as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(text: &str) -> AsTable {
        AsTable::parse(text.as_bytes().to_vec()).unwrap()
    }

    fn find(table: &AsTable, address: &str) -> (u32, u8) {
        let route = table.route(address.parse().unwrap());
        (route.autonomous_system, route.prefix_bits)
    }

    #[test]
    fn the_longest_prefix_wins() {
        let text = "; IPASN\n10.0.0.0/8\t64500\n10.1.0.0/16 AS64501\n10.1.2.0/24\t64502\n2001:db8::/32\t64503\n0.0.0.0/0 1\n";
        let table = table(text);
        assert_eq!(find(&table, "10.1.2.3"), (64502, 24));
        assert_eq!(find(&table, "10.1.3.3"), (64501, 16));
        assert_eq!(find(&table, "10.255.0.1"), (64500, 8));
        assert_eq!(find(&table, "11.0.0.1"), (1, 0));
        assert_eq!(find(&table, "2001:db8:ffff::1"), (64503, 32));
        assert_eq!(find(&table, "2001:db9::1"), (0, 0));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for text in ["10.0.0.0/33\t1", "10.0.0.0 1", "10.0.0.0/8", "10.0.0.0/8 many"] {
            let error = AsTable::parse(format!("10.0.0.0/8\t1\n{text}\n").into_bytes()).unwrap_err();
            assert!(error.starts_with("line 2: "), "{error}");
        }
        assert!(AsTable::parse(vec![0xff, 0xfe]).is_err());
    }

    proptest! {
        /// Compares with a linear search.
        #[test]
        fn lookups_equal_a_search_of_all(
            prefixes in proptest::collection::btree_map((any::<u8>(), 0..=32_u8), 1..9_u32, 0..40),
            address in any::<u32>(),
        ) {
            let spread = |byte: u8| u32::from(byte) * 0x0101_0101;
            let mut known = std::collections::BTreeMap::new();
            for ((byte, bits), number) in &prefixes {
                let mask = if *bits == 0 { 0 } else { u32::MAX << (32 - bits) };
                known.insert((spread(*byte) & mask, *bits), *number);
            }
            let line = |((first, bits), number): (&(u32, u8), &u32)| {
                format!("{}/{bits}\t{number}\n", std::net::Ipv4Addr::from_bits(*first))
            };
            let table = table(&known.iter().map(line).collect::<String>());
            let contains = |first: u32, bits: u8| bits == 0 || (first ^ address) >> (32 - bits) == 0;
            let expected = known.iter().filter(|((first, bits), _)| contains(*first, *bits));
            let expected = expected.max_by_key(|((_, bits), _)| *bits).map_or((0, 0), |((_, bits), number)| (*number, *bits));
            prop_assert_eq!(find(&table, &std::net::Ipv4Addr::from_bits(address).to_string()), expected);
        }
    }
}
