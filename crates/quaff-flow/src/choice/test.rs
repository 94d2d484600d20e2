//! One test of a flow record.

use crate::record::FlowRecord;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// One test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    Net(Ends, Net),
    Port(Ends, RangeInclusive<u16>),
    Protocol(u8),
    Version(u8),
    Vlan(u16),
    Tos(u8),
    /// Number of the input interface.
    Interface(u16),
    /// All of these flags of TCP were set in a packet of either direction.
    Flags(u8),
    Number(Number, Relation, u64),
    /// By its name, or by the protocol that carries it.
    Application(String),
    /// With `*` for any characters.
    Server(String),
}

/// The ends of a flow that a test is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Source,
    Destination,
    Either,
}

/// The addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Net {
    pub(super) address: IpAddr,
    pub(super) bits: u8,
}

/// A number of a record. Packets and bytes are those of both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Packets,
    Bytes,
    /// ms, from the first packet to the last one.
    Duration,
    /// Packets and bits in a second, over the duration; 0 without one.
    PacketRate,
    BitRate,
    BytesPerPacket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Ends {
    fn any<T>(self, source: T, destination: T, is_it: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Source => is_it(source),
            Self::Destination => is_it(destination),
            Self::Either => is_it(source) || is_it(destination),
        }
    }
}

impl Net {
    pub(super) fn contains(self, address: IpAddr) -> bool {
        let same = |own: u128, other: u128, width: u8| {
            let shift = width.saturating_sub(self.bits);
            own.checked_shr(shift.into()).unwrap_or(0) == other.checked_shr(shift.into()).unwrap_or(0)
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl Number {
    fn of(self, record: &FlowRecord) -> u64 {
        let (packets, bytes) = (record.packets(), record.bytes());
        let duration_ns = record.last_ns().saturating_sub(record.first_ns());
        let rate = |count: u64| {
            let of_second = u128::from(count) * 1_000_000_000 / u128::from(duration_ns.max(1));
            if duration_ns == 0 { 0 } else { u64::try_from(of_second).unwrap_or(u64::MAX) }
        };
        match self {
            Self::Packets => packets,
            Self::Bytes => bytes,
            Self::Duration => duration_ns / 1_000_000,
            Self::PacketRate => rate(packets),
            Self::BitRate => rate(bytes.saturating_mul(8)),
            Self::BytesPerPacket => bytes.checked_div(packets).unwrap_or(0),
        }
    }
}

impl Relation {
    fn holds(self, value: u64, limit: u64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::LessOrEqual => value <= limit,
            Self::Equal => value == limit,
            Self::GreaterOrEqual => value >= limit,
            Self::Greater => value > limit,
        }
    }
}

impl Test {
    pub(super) fn holds(&self, record: &FlowRecord) -> bool {
        let key = &record.key;
        let application = record.extras.as_deref().and_then(|extras| extras.application.as_ref());
        match self {
            Self::Net(ends, net) => ends.any(key.source, key.destination, |address| net.contains(address)),
            Self::Port(ends, ports) => {
                ends.any(key.source_port, key.destination_port, |port| ports.contains(&port))
            }
            Self::Protocol(protocol) => key.protocol == *protocol,
            Self::Version(version) => key.ip_version() == *version,
            Self::Vlan(id) => [key.vlan, key.inner_vlan].contains(id),
            Self::Tos(tos) => key.tos == *tos,
            Self::Interface(number) => key.interface == *number,
            Self::Flags(flags) => (record.forward.tcp_flags | record.reverse.tcp_flags) & flags == *flags,
            Self::Number(number, relation, limit) => relation.holds(number.of(record), *limit),
            Self::Application(name) => application.is_some_and(|found| {
                found.name.eq_ignore_ascii_case(name) || found.protocol.eq_ignore_ascii_case(name)
            }),
            Self::Server(pattern) => application
                .and_then(|found| found.server_name.as_deref())
                .is_some_and(|name| is_like(&name.to_ascii_lowercase(), pattern)),
        }
    }
}

/// Returns whether a name is like a pattern in lower case, in which `*` stands for any characters.
fn is_like(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(end)
}
