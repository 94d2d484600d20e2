//! Packets by pairs of IP addresses, as Wireshark's conversations of IPv4 and IPv6, and by host. Each IP header counts,
//! also in tunnels, with the bytes of the whole frame.

use super::keys::{address, words_of};
use super::tables::{PacketCount, Sums};
use serde::Serialize;
use std::cmp::Reverse;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

/// Conversations that are counted at most. Packets of others are counted together.
pub(super) const PAIRS_MAX: usize = 1 << 19;
/// Rows of a list at most.
const ROWS_MAX: usize = 10_000;

/// Two addresses of one version, the lower one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pair {
    V4([u32; 2]),
    /// As words: `u128` would be aligned to 16 bytes.
    V6([[u64; 2]; 2]),
}

impl Pair {
    /// The pair of a source and a destination; true if the source is the higher one.
    #[inline]
    pub(super) fn new(addresses: &[IpAddr; 2]) -> (Self, bool) {
        match addresses {
            [IpAddr::V4(source), IpAddr::V4(destination)] => {
                let (source, destination) = (source.to_bits(), destination.to_bits());
                (Self::V4([source.min(destination), source.max(destination)]), destination < source)
            }
            [source, destination] => {
                let (source, destination) = (words_of(*source), words_of(*destination));
                (Self::V6([source.min(destination), source.max(destination)]), destination < source)
            }
        }
    }

    fn addresses(self) -> [IpAddr; 2] {
        match self {
            Self::V4(both) => both.map(|bits| IpAddr::V4(bits.into())),
            Self::V6(both) => both.map(address),
        }
    }
}

impl Hash for Pair {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::V4([low, high]) => state.write_u64(u64::from(*low) << 32 | u64::from(*high)),
            Self::V6(both) => both.iter().flatten().for_each(|word| state.write_u64(*word)),
        }
    }
}

/// Packets that the lower and the higher address of a pair have sent.
pub(super) type Pairs = Sums<Pair, [PacketCount; 2]>;

/// Adds a packet with these addresses to `pairs`.
#[inline]
pub(super) fn add(pairs: &mut Pairs, addresses: &[IpAddr; 2], wire_bytes: u32) {
    let (pair, is_from_high) = Pair::new(addresses);
    if let Some(sent) = pairs.of(pair, usize::MAX) {
        sent[usize::from(is_from_high)].add(PacketCount::one(wire_bytes));
    }
}

/// Two addresses between which packets were sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conversation {
    /// The lower address.
    pub address_a: IpAddr,
    pub address_b: IpAddr,
    /// In both directions.
    pub packets: u64,
    pub bytes: u64,
    pub a_to_b: PacketCount,
    pub b_to_a: PacketCount,
}

/// The conversations of a capture.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Conversations {
    /// Pairs of addresses that are known.
    pub count: u64,
    /// Those with the most bytes first.
    pub rows: Vec<Conversation>,
    /// Packets of all pairs that are not in the rows.
    pub others: PacketCount,
    /// Those of them whose pairs had no place in the table.
    pub untracked: PacketCount,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    pub address: IpAddr,
    /// Sent and received; of a host that talks to itself, twice.
    pub packets: u64,
    pub bytes: u64,
    pub sent: PacketCount,
    pub received: PacketCount,
}

/// The hosts of a capture, as far as their pairs are known.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Hosts {
    /// Addresses that are known.
    pub count: u64,
    /// Those with the most bytes first.
    pub rows: Vec<Host>,
}

/// The conversations, and the hosts of them. `untracked` are packets whose pairs had no place.
pub(super) fn report(pairs: Pairs, untracked: PacketCount) -> (Conversations, Hosts) {
    let pairs = pairs.into_entries();
    let hosts = hosts(&pairs);
    let (count, mut others) = (pairs.len() as u64, untracked);
    let rank = |(pair, sent): &(Pair, [PacketCount; 2])| (Reverse(both(*sent).bytes), *pair);
    let rows = first(pairs.into_iter(), rank, |(_, sent)| others.add(both(*sent)));
    let rows = rows.into_iter().map(row).collect();
    (Conversations { count, rows, others, untracked }, hosts)
}

/// The first rows by `rank`, in its order; `other` gets the others. Two lists of rows are in memory at most, and most
/// values of a long list are in neither of them.
fn first<T, K: Ord>(
    all: impl Iterator<Item = T>,
    rank: impl Fn(&T) -> K,
    mut other: impl FnMut(&T),
) -> Vec<T> {
    let (mut rows, mut after): (Vec<T>, Option<K>) = (Vec::new(), None);
    for one in all {
        if after.as_ref().is_some_and(|after| rank(&one) >= *after) {
            other(&one);
            continue;
        }
        rows.push(one);
        if rows.len() == 2 * ROWS_MAX {
            after = keep_first(&mut rows, &rank, &mut other);
        }
    }
    keep_first(&mut rows, &rank, &mut other);
    rows.sort_unstable_by_key(rank);
    rows
}

/// Keeps the first rows by `rank`, in any order; `other` gets the others. Returns the rank of the first one of those.
fn keep_first<T, K: Ord>(rows: &mut Vec<T>, rank: impl Fn(&T) -> K, other: impl FnMut(&T)) -> Option<K> {
    if rows.len() <= ROWS_MAX {
        return None;
    }
    rows.select_nth_unstable_by_key(ROWS_MAX, &rank);
    let after = rank(&rows[ROWS_MAX]);
    rows[ROWS_MAX..].iter().for_each(other);
    rows.truncate(ROWS_MAX);
    Some(after)
}

/// The sum of both directions.
fn both([one, mut sum]: [PacketCount; 2]) -> PacketCount {
    sum.add(one);
    sum
}

fn row((pair, sent): (Pair, [PacketCount; 2])) -> Conversation {
    let [address_a, address_b] = pair.addresses();
    let (PacketCount { packets, bytes }, [a_to_b, b_to_a]) = (both(sent), sent);
    Conversation { address_a, address_b, packets, bytes, a_to_b, b_to_a }
}

/// An end of a pair: twice the place of the pair, and one more for its higher address.
type End = u32;

/// The hosts of pairs. A list of addresses with their ends, sorted, takes less memory than a table of hosts, and less
/// time.
fn hosts(pairs: &[(Pair, [PacketCount; 2])]) -> Hosts {
    let (mut v4, mut v6): (Vec<u64>, Vec<([u64; 2], End)>) = (Vec::new(), Vec::new());
    for (place, (pair, _)) in (0..).zip(pairs) {
        let (low, high): (End, End) = (2 * place, 2 * place + 1);
        match *pair {
            Pair::V4(both) => v4.extend(both.iter().zip([low, high]).map(|(bits, end)| v4_end(*bits, end))),
            Pair::V6(both) => v6.extend(both.into_iter().zip([low, high])),
        }
    }
    v4.sort_unstable();
    v6.sort_unstable();
    let v4 = v4.chunk_by(|one, other| one >> 32 == other >> 32).map(|ends| {
        let sums = sums_of(pairs, ends.iter().map(|end| *end as End));
        (IpAddr::V4(((ends[0] >> 32) as u32).into()), sums)
    });
    let v6 = v6.chunk_by(|one, other| one.0 == other.0).map(|ends| {
        let sums = sums_of(pairs, ends.iter().map(|(_, end)| *end));
        (address(ends[0].0), sums)
    });
    let mut count = 0;
    let all = v4.chain(v6).inspect(|_| count += 1);
    let rank = |(address, sums): &(IpAddr, [PacketCount; 2])| (Reverse(both(*sums).bytes), *address);
    let rows = first(all, rank, |_| ());
    let host = |(address, sums): (IpAddr, [PacketCount; 2])| {
        let (PacketCount { packets, bytes }, [sent, received]) = (both(sums), sums);
        Host { address, packets, bytes, sent, received }
    };
    Hosts { count, rows: rows.into_iter().map(host).collect() }
}

/// The end of an IPv4 address, as one number that sorts by the address.
fn v4_end(bits: u32, end: End) -> u64 {
    u64::from(bits) << 32 | u64::from(end)
}

/// The packets that a host has sent and received at these ends.
fn sums_of(pairs: &[(Pair, [PacketCount; 2])], ends: impl Iterator<Item = End>) -> [PacketCount; 2] {
    let [mut sent, mut received] = [PacketCount::default(); 2];
    for end in ends {
        let (_, of) = pairs[end as usize / 2];
        let is_high = end as usize % 2;
        sent.add(of[is_high]);
        received.add(of[1 - is_high]);
    }
    [sent, received]
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::flow::IndexLine;

    fn ipv4(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn both_directions_are_one_conversation() {
        let mut pairs = Pairs::default();
        add(&mut pairs, &[ipv4(2), ipv4(1)], 100);
        add(&mut pairs, &[ipv4(1), ipv4(2)], 60);
        add(&mut pairs, &[ipv4(3), ipv4(3)], 50);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        add(&mut pairs, &[v6, v6], 40);
        let untracked = PacketCount { packets: 3, bytes: 30 };
        let (conversations, hosts) = report(pairs, untracked);
        let first = &conversations.rows[0];
        assert_eq!(
            (first.address_a, first.address_b, first.packets, first.bytes),
            (ipv4(1), ipv4(2), 2, 160)
        );
        assert_eq!((first.a_to_b, first.b_to_a), (PacketCount::one(60), PacketCount::one(100)));
        assert_eq!((conversations.count, conversations.others), (3, untracked));
        let totals: Vec<_> = hosts.rows.iter().map(|row| (row.address, row.packets, row.bytes)).collect();
        assert_eq!(totals, [(ipv4(1), 2, 160), (ipv4(2), 2, 160), (ipv4(3), 2, 100), (v6, 2, 80)]);
        assert_eq!((hosts.rows[0].sent.bytes, hosts.rows[0].received.bytes), (60, 100));
    }

    #[test]
    fn rows_that_are_not_listed_are_counted_together() {
        let mut pairs = Pairs::default();
        for number in 0..ROWS_MAX as u32 + 5 {
            add(&mut pairs, &[IpAddr::V4(number.into()), ipv4(1)], 60 + u32::from(number == 7));
        }
        let (conversations, hosts) = report(pairs, PacketCount::default());
        assert_eq!((conversations.count, conversations.rows.len()), (ROWS_MAX as u64 + 5, ROWS_MAX));
        assert_eq!(conversations.rows[0].bytes, 61);
        assert_eq!(conversations.others, PacketCount { packets: 5, bytes: 300 });
        assert!(conversations.rows.is_sorted_by_key(|row| (
            Reverse(row.bytes),
            row.address_a,
            row.address_b
        )));
        // One host is at the other end of all pairs.
        assert_eq!((hosts.count, hosts.rows.len()), (ROWS_MAX as u64 + 6, ROWS_MAX));
        assert_eq!((hosts.rows[0].address, hosts.rows[0].packets), (ipv4(1), ROWS_MAX as u64 + 5));
        assert!(hosts.rows.is_sorted_by_key(|row| (Reverse(row.bytes), row.address)));
    }

    /// The list and the index of pairs, and then the list of pairs and that of their ends.
    #[test]
    fn a_full_table_of_pairs_has_the_memory_of_the_page() {
        let list = PAIRS_MAX * (size_of::<(Pair, [PacketCount; 2])>() + size_of::<u32>());
        // The index has a line for four keys, and few more lines.
        let index = PAIRS_MAX / 4 * size_of::<IndexLine>() * 5 / 4;
        let ends = 2 * PAIRS_MAX * size_of::<([u64; 2], End)>();
        let rows = 2 * ROWS_MAX * size_of::<(IpAddr, [PacketCount; 2])>();
        assert!(list + index.max(ends + rows) <= 75_000_000, "{list} {index} {ends} {rows}");
    }

    /// More rows than two lists of them, in ascending, descending and mixed order: the same ones are the first.
    #[test]
    fn the_first_rows_are_those_of_a_sorted_list() {
        let count = 5 * ROWS_MAX as u64 + 3;
        let orders: [fn(u64, u64) -> u64; 3] =
            [|number, _| number, |number, count| count - 1 - number, |number, count| number * 7919 % count];
        for order in orders {
            let (mut others, all) = (0u64, (0..count).map(|number| order(number, count)));
            let rows = first(all, |row| *row, |row| others += *row);
            assert!(rows.iter().copied().eq(0..ROWS_MAX as u64));
            assert_eq!(others, (ROWS_MAX as u64..count).sum::<u64>());
        }
    }
}
