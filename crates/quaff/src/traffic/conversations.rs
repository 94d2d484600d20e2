//! Packets by pairs of IP addresses, as Wireshark's conversations of IPv4 and IPv6, and by host. Each IP header counts,
//! also in tunnels, with the bytes of the whole frame.

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
    V6([u128; 2]),
}

impl Pair {
    /// The pair of a source and a destination; true if the source is the higher one.
    #[inline]
    pub(super) fn new(addresses: [IpAddr; 2]) -> (Self, bool) {
        match addresses {
            [IpAddr::V4(source), IpAddr::V4(destination)] => {
                let [source, destination] = [source, destination].map(|address| address.to_bits());
                (Self::V4([source.min(destination), source.max(destination)]), destination < source)
            }
            addresses => {
                let [source, destination] = addresses.map(|address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(address) => address.to_bits(),
                });
                (Self::V6([source.min(destination), source.max(destination)]), destination < source)
            }
        }
    }

    fn addresses(self) -> [IpAddr; 2] {
        match self {
            Self::V4(both) => both.map(|bits| IpAddr::V4(bits.into())),
            Self::V6(both) => both.map(|bits| IpAddr::V6(bits.into())),
        }
    }
}

impl Hash for Pair {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::V4([low, high]) => state.write_u64(u64::from(*low) << 32 | u64::from(*high)),
            Self::V6([low, high]) => {
                state.write_u128(*low);
                state.write_u128(*high);
            }
        }
    }
}

/// Packets that the lower and the higher address of a pair have sent.
pub(super) type Pairs = Sums<Pair, [PacketCount; 2]>;

/// Adds a packet with these addresses to `pairs`.
#[inline]
pub(super) fn add(pairs: &mut Pairs, addresses: [IpAddr; 2], wire_bytes: u32) {
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
    let mut pairs = pairs.into_entries();
    let hosts = hosts(&pairs);
    let (count, mut others) = (pairs.len() as u64, untracked);
    let rank = |(pair, sent): &(Pair, [PacketCount; 2])| (Reverse(both(*sent).bytes), *pair);
    keep_first(&mut pairs, rank, |(_, sent)| others.add(both(*sent)));
    let rows = pairs.into_iter().map(row).collect();
    (Conversations { count, rows, others, untracked }, hosts)
}

/// Keeps the first rows by `rank`, in its order; `other` gets the others.
fn keep_first<T, K: Ord>(all: &mut Vec<T>, rank: impl Fn(&T) -> K, other: impl FnMut(&T)) {
    if all.len() > ROWS_MAX {
        all.select_nth_unstable_by_key(ROWS_MAX, &rank);
        all[ROWS_MAX..].iter().for_each(other);
        all.truncate(ROWS_MAX);
    }
    all.sort_unstable_by_key(rank);
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

/// The hosts of pairs. Two entries of a list for each pair take less memory than a table of hosts.
fn hosts(pairs: &[(Pair, [PacketCount; 2])]) -> Hosts {
    let mut hosts: Vec<(IpAddr, [PacketCount; 2])> = Vec::with_capacity(2 * pairs.len());
    for (pair, [from_a, from_b]) in pairs {
        let [address_a, address_b] = pair.addresses();
        hosts.extend([(address_a, [*from_a, *from_b]), (address_b, [*from_b, *from_a])]);
    }
    hosts.sort_unstable_by_key(|(address, _)| *address);
    hosts.dedup_by(|(address, counts), (known, sums)| {
        let is_same = address == known;
        if is_same {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| sum.add(*count));
        }
        is_same
    });
    let count = hosts.len() as u64;
    keep_first(&mut hosts, |(address, counts)| (Reverse(both(*counts).bytes), *address), |_| ());
    let host = |(address, counts): (IpAddr, [PacketCount; 2])| {
        let (PacketCount { packets, bytes }, [sent, received]) = (both(counts), counts);
        Host { address, packets, bytes, sent, received }
    };
    Hosts { count, rows: hosts.into_iter().map(host).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn both_directions_are_one_conversation() {
        let mut pairs = Pairs::default();
        add(&mut pairs, [address(2), address(1)], 100);
        add(&mut pairs, [address(1), address(2)], 60);
        add(&mut pairs, [address(3), address(3)], 50);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        add(&mut pairs, [v6, v6], 40);
        let untracked = PacketCount { packets: 3, bytes: 30 };
        let (conversations, hosts) = report(pairs, untracked);
        let first = &conversations.rows[0];
        assert_eq!(
            (first.address_a, first.address_b, first.packets, first.bytes),
            (address(1), address(2), 2, 160)
        );
        assert_eq!((first.a_to_b, first.b_to_a), (PacketCount::one(60), PacketCount::one(100)));
        assert_eq!((conversations.count, conversations.others), (3, untracked));
        let totals: Vec<_> = hosts.rows.iter().map(|row| (row.address, row.packets, row.bytes)).collect();
        assert_eq!(totals, [(address(1), 2, 160), (address(2), 2, 160), (address(3), 2, 100), (v6, 2, 80)]);
        assert_eq!((hosts.rows[0].sent.bytes, hosts.rows[0].received.bytes), (60, 100));
    }

    #[test]
    fn rows_that_are_not_listed_are_counted_together() {
        let mut pairs = Pairs::default();
        for number in 0..ROWS_MAX as u32 + 5 {
            add(&mut pairs, [IpAddr::V4(number.into()), address(1)], 60 + u32::from(number == 7));
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
        assert_eq!((hosts.rows[0].address, hosts.rows[0].packets), (address(1), ROWS_MAX as u64 + 5));
        assert!(hosts.rows.is_sorted_by_key(|row| (Reverse(row.bytes), row.address)));
    }

    /// The list and the table of pairs, and then the list of pairs and that of hosts.
    #[test]
    fn a_full_table_of_pairs_has_the_memory_of_the_page() {
        let list = PAIRS_MAX * size_of::<(Pair, [PacketCount; 2])>();
        // A table of hashes is at most seven eighths full, and has a byte of its own for each place.
        let table = (PAIRS_MAX * 8 / 7).next_power_of_two() * (size_of::<(Pair, u32)>() + 1);
        let hosts = 2 * PAIRS_MAX * size_of::<(IpAddr, [PacketCount; 2])>();
        assert!(list + table.max(hosts) <= 112_000_000, "{list} {table} {hosts}");
    }
}
