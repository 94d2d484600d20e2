//! Packets by pairs of IP addresses, as Wireshark's conversations of IPv4 and IPv6, and by host. Each IP header counts,
//! also in tunnels, with the bytes of the whole frame.

use super::tables::{PacketCount, Sums};
use serde::Serialize;
use std::collections::HashMap;
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

/// The hosts of a capture.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Hosts {
    /// Addresses that are known.
    pub count: u64,
    /// Those with the most bytes first.
    pub rows: Vec<Host>,
}

/// The conversations, and the hosts of them. `untracked` are packets whose pairs had no place.
pub(super) fn report(pairs: &Pairs, untracked: PacketCount) -> (Conversations, Hosts) {
    let mut rows: Vec<_> = pairs.entries().iter().map(|(pair, sent)| row(*pair, *sent)).collect();
    let hosts = hosts(&rows);
    rows.sort_unstable_by_key(|row| (std::cmp::Reverse(row.bytes), row.address_a, row.address_b));
    let (count, mut others) = (rows.len() as u64, untracked);
    for row in rows.drain(rows.len().min(ROWS_MAX)..) {
        others.add(PacketCount { packets: row.packets, bytes: row.bytes });
    }
    (Conversations { count, rows, others, untracked }, hosts)
}

fn row(pair: Pair, [a_to_b, b_to_a]: [PacketCount; 2]) -> Conversation {
    let [address_a, address_b] = pair.addresses();
    let (packets, bytes) = (a_to_b.packets + b_to_a.packets, a_to_b.bytes.saturating_add(b_to_a.bytes));
    Conversation { address_a, address_b, packets, bytes, a_to_b, b_to_a }
}

fn hosts(conversations: &[Conversation]) -> Hosts {
    let mut hosts: HashMap<IpAddr, [PacketCount; 2]> = HashMap::new();
    for row in conversations {
        let mut add = |address, sent, received| {
            let [all_sent, all_received] = hosts.entry(address).or_default();
            all_sent.add(sent);
            all_received.add(received);
        };
        add(row.address_a, row.a_to_b, row.b_to_a);
        add(row.address_b, row.b_to_a, row.a_to_b);
    }
    let host = |(address, [sent, received]): (IpAddr, [PacketCount; 2])| {
        let (packets, bytes) = (sent.packets + received.packets, sent.bytes.saturating_add(received.bytes));
        Host { address, packets, bytes, sent, received }
    };
    let mut rows: Vec<_> = hosts.into_iter().map(host).collect();
    rows.sort_unstable_by_key(|row| (std::cmp::Reverse(row.bytes), row.address));
    let count = rows.len() as u64;
    rows.truncate(ROWS_MAX);
    Hosts { count, rows }
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
        let (conversations, hosts) = report(&pairs, untracked);
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
        let (conversations, _) = report(&pairs, PacketCount::default());
        assert_eq!((conversations.count, conversations.rows.len()), (ROWS_MAX as u64 + 5, ROWS_MAX));
        assert_eq!(conversations.rows[0].bytes, 61);
        assert_eq!(conversations.others, PacketCount { packets: 5, bytes: 300 });
    }
}
