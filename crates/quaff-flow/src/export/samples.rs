//! Records for the tests of exports: some by number, others random.

use crate::record::{
    AckTimes, Direction, DirectionExtras, EndReason, Extras, FlowRecord, InitiatorRule, RecordKey,
};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// 2026-11-23 08:14:05 UTC, ns since 1970.
pub(crate) const START_NS: u64 = 1_795_421_645_000_000_000;

/// A uniflow of UDP from 10.0.0.N: three packets with 300 bytes in total.
pub(crate) fn record(n: u8) -> FlowRecord {
    FlowRecord {
        key: RecordKey {
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)),
            destination: IpAddr::V4(Ipv4Addr::new(192, 168, 1, 1)),
            source_port: 40_000 + u16::from(n),
            destination_port: 53,
            protocol: 17,
            icmp_type_code: 0,
            vlan: 7,
            inner_vlan: 0,
            mpls_label: 0,
            interface: 0,
            tos: 0,
            tunnel: 0,
        },
        forward: Direction {
            packets: 3,
            bytes: 300,
            first_ns: START_NS + u64::from(n) * 1_000_000,
            last_ns: START_NS + u64::from(n) * 1_000_000 + 500_000_000,
            tcp_flags: 0,
            tos: 0x28,
            ttl_min: 60,
            ttl_max: 64,
        },
        reverse: Direction::default(),
        initiator: InitiatorRule::First,
        end_reason: EndReason::Idle,
        is_continued: false,
        extras: None,
    }
}

/// The same flow with an answer of five packets, 900 bytes.
pub(crate) fn biflow(n: u8) -> FlowRecord {
    let mut record = record(n);
    record.reverse = Direction {
        packets: 5,
        bytes: 900,
        first_ns: record.forward.first_ns + 1_000_000,
        last_ns: record.forward.last_ns + 2_000_000,
        ..record.forward
    };
    record
}

fn direction() -> impl Strategy<Value = Direction> {
    let counts = (1..=u64::MAX >> 8, 0..=u64::MAX >> 8, 0..86_400_000_000_000_u64, 0..3_600_000_000_000_u64);
    (counts, any::<[u8; 4]>()).prop_map(|((packets, bytes, first, length), [flags, tos, one, other])| {
        Direction {
            packets,
            bytes,
            first_ns: START_NS + first,
            last_ns: START_NS + first + length,
            tcp_flags: flags,
            tos,
            ttl_min: one.min(other),
            ttl_max: one.max(other),
        }
    })
}

fn addresses() -> impl Strategy<Value = [IpAddr; 2]> {
    prop_oneof![
        any::<[u32; 2]>().prop_map(|bits| bits.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))),
        any::<[u128; 2]>().prop_map(|bits| bits.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))),
    ]
}

fn key() -> impl Strategy<Value = RecordKey> {
    let vlans = [0..4096_u16, 0..4096_u16];
    let numbers = (any::<[u16; 2]>(), any::<u8>(), vlans, 0..1_u32 << 20, 0..8_u16, any::<u32>());
    (addresses(), numbers).prop_map(
        |(ends, (ports, protocol, [vlan, inner_vlan], mpls_label, interface, tunnel))| RecordKey {
            source: ends[0],
            destination: ends[1],
            source_port: ports[0],
            destination_port: ports[1],
            protocol,
            icmp_type_code: 0x0301,
            vlan,
            inner_vlan,
            mpls_label,
            interface,
            tos: 0,
            tunnel,
        },
    )
}

fn extras() -> impl Strategy<Value = Option<Box<Extras>>> {
    let side = (any::<[[u8; 6]; 2]>(), any::<[u32; 4]>(), proptest::collection::vec(any::<u8>(), 0..300));
    let side = side.prop_map(|(macs, numbers, payload)| DirectionExtras {
        macs,
        payload_bytes: numbers[0].into(),
        retransmitted_packets: numbers[1],
        out_of_order_packets: numbers[2],
        lost_bytes: numbers[3].into(),
        window_max: numbers[0] as u16,
        packet_bytes_min: numbers[1] & 0xffff,
        packet_bytes_max: numbers[2] & 0xffff,
        gap_min_ns: numbers[2].into(),
        gap_max_ns: numbers[3].into(),
        payload,
        ack_times: AckTimes::default(),
    });
    let whole = (side.clone(), side, any::<Option<u32>>(), any::<Option<u32>>());
    let whole = whole.prop_map(|(forward, reverse, server, client)| Extras {
        forward,
        reverse,
        server_rtt_ns: server.map(u64::from),
        client_rtt_ns: client.map(u64::from),
        application: None,
        addresses: Vec::new(),
    });
    proptest::option::of(whole.prop_map(Box::new))
}

/// Any record with at least one packet.
pub(crate) fn any_record() -> impl Strategy<Value = FlowRecord> {
    let directions = prop_oneof![
        (direction(), Just(Direction::default())),
        (direction(), direction()),
        (Just(Direction::default()), direction()),
    ];
    let ends = prop_oneof![Just(EndReason::Idle), Just(EndReason::Active), Just(EndReason::EndOfFlow)];
    let rules =
        prop_oneof![Just(InitiatorRule::Sender), Just(InitiatorRule::Syn), Just(InitiatorRule::First)];
    (key(), directions, ends, rules, any::<bool>(), extras()).prop_map(
        |(key, (forward, reverse), end_reason, initiator, is_continued, extras)| FlowRecord {
            key,
            forward,
            reverse,
            initiator,
            end_reason,
            is_continued,
            extras,
        },
    )
}
