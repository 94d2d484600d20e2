use super::*;
use crate::net::{SCTP, TCP, UDP};
use proptest::prelude::*;
use quaff_testpackets::{self as build, ethernet, ipv4_fragments, ipv6_fragments};
use std::net::{Ipv4Addr, Ipv6Addr};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const NONE: (TunnelKinds, u8) = (TunnelKinds::NONE, 0);
const ALL: (TunnelKinds, u8) = (TunnelKinds::ALL, 4);

fn by(words: &str) -> SplitFields {
    words.parse().unwrap()
}

fn ports(frame: &[u8]) -> FrameFlow {
    frame_flow(frame, frame.len() as u32, 1, by("ports"), NONE)
}

fn addresses(frame: &[u8]) -> FrameFlow {
    frame_flow(frame, frame.len() as u32, 1, by("addresses"), NONE)
}

fn inner(frame: &[u8], words: &str) -> FrameFlow {
    frame_flow(frame, frame.len() as u32, 1, by(words), ALL)
}

/// A UDP packet without a link header.
fn packet(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), bytes: usize) -> Vec<u8> {
    build::ipv4(from.0, to.0, UDP, &[], &build::udp(from.1, to.1, &vec![7; bytes]))
}

fn frame(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> Vec<u8> {
    ethernet(&[], 0x0800, &packet(from, to, 30))
}

fn conversation() -> FlowKey {
    FlowKey::ports(UDP, [(A.into(), 53), (B.into(), 4711)])
}

/// An ICMP error from ROUTER that quotes this part of a packet from A.
fn error(quote: &[u8]) -> Vec<u8> {
    let icmp = [&[3, 1, 0, 0, 0, 0, 0, 0], quote].concat();
    ethernet(&[], 0x0800, &build::ipv4(ROUTER, A, ICMP, &[], &icmp))
}

#[test]
fn a_conversation_is_the_same_both_ways_and_through_any_envelope() {
    let ip = packet((A, 53), (B, 4711), 30);
    let pppoe = [&[0x11, 0, 0, 1, 0, 80, 0, 0x21][..], &ip].concat();
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ip].concat();
    let frames = [
        frame((A, 53), (B, 4711)),
        frame((B, 4711), (A, 53)),
        ethernet(&[(0x88a8, 1), (0x8100, 2)], 0x0800, &ip),
        ethernet(&[], 0x8864, &pppoe),
        ethernet(&[], 0x8847, &build::mpls(&[16, 17], &ip)),
        ethernet(&[], snap.len() as u16, &snap),
        ethernet(&[], 0x8903, &[&[0x0b, 0xff][..], &ethernet(&[(0x8100, 9)], 0x0800, &ip)].concat()),
        ethernet(&[(0x88a8, 7)], 0x88e7, &[&[0, 0, 0, 9][..], &ethernet(&[], 0x0800, &ip)].concat()),
    ];
    for frame in &frames {
        assert_eq!(
            (ports(frame).key, ports(frame).what),
            (conversation(), Completeness::Whole),
            "{frame:02x?}"
        );
        assert_eq!(addresses(frame).key, FlowKey::addresses([A.into(), B.into()]));
    }
    let after = |header: &[u8], linktype| {
        let bytes = [header, &ip].concat();
        frame_flow(&bytes, bytes.len() as u32, linktype, by("ports"), NONE).key
    };
    let sll = [&[0; 14][..], &[8, 0]].concat();
    let sll2 = [&[8, 0][..], &[0; 18]].concat();
    for (header, linktype) in [
        (&[][..], 101),
        (&[], 228),
        (&[2, 0, 0, 0], 0),
        (&[0xff, 3, 0, 0x21], 9),
        (&[0, 0x21], 9),
        (&sll, 113),
        (&sll2, 276),
    ] {
        assert_eq!(after(header, linktype), conversation(), "link type {linktype}");
    }
    assert_eq!(after(&[], 147), FlowKey::Nothing);
}

#[test]
fn frames_that_are_not_ip_are_assigned_by_their_macs() {
    let macs = FlowKey::Macs([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]);
    let arp = ethernet(&[], 0x0806, &[0; 46]);
    assert_eq!((ports(&arp).key, addresses(&arp).key), (macs, macs));
    let mut back = arp;
    back[..12].rotate_left(6);
    assert_eq!(ports(&back).key, macs);
    assert_eq!(frame_flow(&frame((A, 1), (B, 2)), 72, 1, by("macs"), NONE).key, macs);
    assert_eq!(ports(&[1; 11]).key, FlowKey::Nothing);
    // With addresses they are distinguished.
    let both = frame_flow(&frame((A, 1), (B, 2)), 72, 1, by("macs,addresses"), NONE);
    assert_eq!(
        (both.key, both.macs.map(FlowKey::Macs)),
        (FlowKey::addresses([A.into(), B.into()]), Some(macs))
    );
    assert_eq!(ports(&frame((A, 1), (B, 2))).macs, None);
}

#[test]
fn the_first_fragment_knows_and_the_others_name_it() {
    let whole = packet((A, 53), (B, 4711), 3000);
    let fragments: Vec<_> = ipv4_fragments(&whole, 1480).iter().map(|ip| ethernet(&[], 0x0800, ip)).collect();
    let Completeness::First(datagram) = ports(&fragments[0]).what else {
        panic!("{:?}", ports(&fragments[0]))
    };
    assert_eq!(ports(&fragments[0]).key, conversation());
    for fragment in &fragments[1..] {
        assert_eq!(ports(fragment).what, Completeness::Later(datagram));
        assert_eq!(
            (addresses(fragment).key, addresses(fragment).what),
            (FlowKey::addresses([A.into(), B.into()]), Completeness::Whole)
        );
    }
    let [a, b] = [Ipv6Addr::from_bits(1), Ipv6Addr::from_bits(2)];
    let whole = build::ipv6(a, b, UDP, &build::udp(1, 2, &[0; 3000]));
    let fragments: Vec<_> =
        ipv6_fragments(&whole, 99, 1448).iter().map(|ip| ethernet(&[], 0x86dd, ip)).collect();
    let Completeness::First(datagram) = ports(&fragments[0]).what else {
        panic!("{:?}", ports(&fragments[0]))
    };
    assert_eq!(datagram.id, 99);
    assert!(fragments[1..].iter().all(|fragment| ports(fragment).what == Completeness::Later(datagram)));
}

#[test]
fn an_icmp_error_belongs_to_what_it_quotes() {
    let quote = packet((A, 53), (B, 4711), 30);
    for bytes in [28, quote.len()] {
        assert_eq!(ports(&error(&quote[..bytes])).key, conversation());
        assert_eq!(addresses(&error(&quote[..bytes])).key, FlowKey::addresses([A.into(), B.into()]));
    }
    // Without ports, without a packet, and in a message that is not an error.
    assert_eq!(ports(&error(&quote[..20])).key, FlowKey::ports(UDP, [(A.into(), 0), (B.into(), 0)]));
    assert_eq!(addresses(&error(&[])).key, FlowKey::addresses([A.into(), ROUTER.into()]));
    let mut echo = error(&quote);
    echo[34] = 8;
    assert_eq!(ports(&echo).key, FlowKey::ports(ICMP, [(A.into(), 0), (ROUTER.into(), 0)]));
    // An error about an error belongs to the conversation of the router with A.
    assert_eq!(addresses(&error(&error(&quote)[14..])).key, FlowKey::addresses([A.into(), ROUTER.into()]));
    let later = &ipv4_fragments(&packet((A, 53), (B, 4711), 3000), 1480)[1];
    assert!(matches!(ports(&error(&later[..28])).what, Completeness::Quoted(_)));
    let [a, b, router] = [1, 2, 3].map(Ipv6Addr::from_bits);
    let quote = build::ipv6(a, b, TCP, &[0, 80, 0, 81, 0, 0, 0, 0]);
    let too_big = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &quote].concat();
    let frame = ethernet(&[], 0x86dd, &build::ipv6(router, a, ICMPV6, &too_big));
    assert_eq!(ports(&frame).key, FlowKey::ports(TCP, [(a.into(), 80), (b.into(), 81)]));
}

#[test]
fn a_tunnel_is_looked_into_on_request() {
    let [outer, other] = [ROUTER, Ipv4Addr::new(192, 0, 2, 2)];
    let vxlan = |from, to, port: u16, inside: &[u8]| {
        build::ipv4(from, to, UDP, &[], &build::udp(port, 4789, &build::vxlan(5, inside)))
    };
    let there = ethernet(&[], 0x0800, &vxlan(outer, other, 50_000, &frame((A, 53), (B, 4711))));
    let back = ethernet(&[], 0x0800, &vxlan(other, outer, 50_001, &frame((B, 4711), (A, 53))));
    assert_ne!(ports(&there).key, ports(&back).key);
    for frame in [&there, &back] {
        assert_eq!(inner(frame, "ports").key, conversation());
        assert_eq!(inner(frame, "addresses").key, FlowKey::addresses([A.into(), B.into()]));
        assert!(inner(frame, "macs,ports").macs.is_some());
    }
    // In a fragmented tunnel packet the first fragment shows the inner headers.
    let large = ethernet(&[], 0x0800, &packet((A, 53), (B, 4711), 1450));
    let fragments = ipv4_fragments(&vxlan(outer, other, 50_000, &large), 1480);
    let fragments: Vec<_> = fragments.iter().map(|ip| ethernet(&[], 0x0800, ip)).collect();
    for words in ["addresses", "ports"] {
        let Completeness::First(datagram) = inner(&fragments[0], words).what else { panic!("{words}") };
        assert_eq!(inner(&fragments[1], words).what, Completeness::Later(datagram));
    }
    assert_eq!(inner(&fragments[0], "ports").key, conversation());
    // An inner fragment is a fragment, too.
    let fragment = ethernet(&[], 0x0800, &ipv4_fragments(&large[14..], 800)[1]);
    let frame = ethernet(&[], 0x0800, &vxlan(outer, other, 50_000, &fragment));
    assert!(matches!(inner(&frame, "ports").what, Completeness::Later(_)));
}

#[test]
fn addresses_count_where_lengths_make_no_sense() {
    let mut frame = frame((A, 53), (B, 4711));
    frame[16..18].copy_from_slice(&[0, 3]);
    assert_eq!(addresses(&frame).key, FlowKey::addresses([A.into(), B.into()]));
    assert_eq!(addresses(&frame[..33]).key, FlowKey::Macs([[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]));
}

/// Swaps the addresses and ports of an IPv4 frame without options.
fn turned(frame: &[u8]) -> Vec<u8> {
    let mut back = frame.to_vec();
    back[..12].rotate_left(6);
    back[26..34].rotate_left(4);
    back[34..38].rotate_left(2);
    back
}

proptest! {
    #[test]
    fn both_directions_have_one_key(
        from: u32, to: u32, source: u16, destination: u16, at in 0usize..4, fields in 1usize..8,
    ) {
        let protocol = [UDP, TCP, SCTP, 47][at];
        let by = SplitFields { macs: fields & 1 != 0, addresses: fields & 2 != 0, ports: fields & 4 != 0 };
        let payload = [source.to_be_bytes(), destination.to_be_bytes(), [0; 2], [0; 2]].concat();
        let ip = build::ipv4(Ipv4Addr::from_bits(from), Ipv4Addr::from_bits(to), protocol, &[], &payload);
        let there = ethernet(&[], 0x0800, &ip);
        let found = |frame: &[u8]| frame_flow(frame, frame.len() as u32, 1, by, NONE);
        let (one, other) = (found(&there), found(&turned(&there)));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn nothing_panics_and_a_fragment_is_one_in_every_mode(
        mut bytes in prop::collection::vec(any::<u8>(), 0..160), linktype in prop::sample::select(vec![0u16, 1, 9, 101, 113, 228, 229, 276]),
        ethertype in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8847, 0x8864, 40]), version in 4u8..7,
    ) {
        if linktype == 1 && bytes.len() > 15 {
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            bytes[14] = version << 4 | 5;
        }
        for kinds in [NONE, ALL] {
            let found = frame_flow(&bytes, bytes.len() as u32, linktype, by("ports"), kinds);
            let _ = frame_flow(&bytes, bytes.len() as u32, linktype, by("macs,addresses"), kinds);
            prop_assert!(found.what == Completeness::Whole || found.key != FlowKey::Nothing);
        }
    }
}
