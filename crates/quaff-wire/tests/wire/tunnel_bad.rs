//! Tunnels that are broken, and bytes that are no tunnels at all.

use crate::tunnels::{A4, B4, ETHERNET, RAW, cases, frames, packets};
use proptest::prelude::*;
use quaff_testpackets::{self as build, Erspan, ErspanIii, Gre};
use quaff_wire::tunnel::{Damage, Outcome, Reason, TunnelKind, TunnelKinds, strip, strip_datagram};
use std::collections::HashSet;

fn in_ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    build::ethernet(&[], 0x0800, &build::ipv4(A4, B4, protocol, &[], payload))
}

fn whole(frame: &[u8]) -> Outcome {
    strip(frame, frame.len() as u32, ETHERNET, TunnelKinds::ALL, 4)
}

fn on_udp(port: u16, payload: &[u8]) -> Vec<u8> {
    in_ipv4(17, &build::udp(5, port, payload))
}

#[track_caller]
fn damaged(frame: &[u8], kind: TunnelKind, reason: Reason) {
    assert_eq!(whole(frame), Outcome::Damaged(Damage { kind, reason }));
}

/// With one byte of the payload of an IP packet or UDP datagram changed.
fn with(mut frame: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    frame[at] = value;
    frame
}

const GRE: usize = 34;
const UDP: usize = 42;

#[test]
fn unknown_versions() {
    let frame = &frames()[0];
    let ii = in_ipv4(47, &build::erspan_ii(1, &Erspan::default(), 0, frame));
    damaged(&with(ii.clone(), GRE + 8, 0x30), TunnelKind::Erspan, Reason::Version);
    damaged(&with(ii, GRE + 1, 2), TunnelKind::Erspan, Reason::Version);
    damaged(
        &on_udp(6081, &with(build::geneve(1, 0x6558, &[], frame), 0, 0x40)),
        TunnelKind::Geneve,
        Reason::Version,
    );
    damaged(&on_udp(4790, &with(build::vxlan_gpe(1, 3, frame), 0, 0x1c)), TunnelKind::Vxlan, Reason::Version);
    damaged(&on_udp(2152, &with(build::gtp(255, 1, &[], frame), 0, 0x20)), TunnelKind::Gtp, Reason::Version);
    damaged(
        &on_udp(1701, &with(build::l2tp_on_udp(1, &[], None, frame), 1, 4)),
        TunnelKind::L2tp,
        Reason::Version,
    );
    damaged(&on_udp(37008, &with(build::tzsp(1, &[], frame), 0, 2)), TunnelKind::Tzsp, Reason::Version);
}

#[test]
fn impossible_flags_and_lengths() {
    let [packet, _, _] = packets();
    let frame = &frames()[0];
    damaged(&on_udp(4789, &with(build::vxlan(1, frame), 0, 0)), TunnelKind::Vxlan, Reason::Flags);
    damaged(&on_udp(37008, &with(build::tzsp(1, &[], frame), 1, 9)), TunnelKind::Tzsp, Reason::Flags);
    let odd = ErspanIii { frame_type: 1, ..ErspanIii::default() };
    damaged(
        &in_ipv4(47, &build::erspan_iii(1, &Erspan::default(), &odd, frame)),
        TunnelKind::Erspan,
        Reason::Flags,
    );
    damaged(&with(on_udp(4789, &build::vxlan(1, frame)), UDP - 3, 7), TunnelKind::Vxlan, Reason::Length);
    let none = build::gtp(255, 1, &[(0x85, &[0, 0])], &packet);
    damaged(&on_udp(2152, &with(none, 12, 0)), TunnelKind::Gtp, Reason::Length);
}

#[test]
fn payloads_that_are_something_else() {
    let frame = &frames()[0];
    damaged(&in_ipv4(4, frame), TunnelKind::Ipip, Reason::Payload);
    damaged(&in_ipv4(41, &packets()[0]), TunnelKind::Ipip, Reason::Payload);
    damaged(&in_ipv4(47, &build::gre(&Gre::default(), 0x0800, frame)), TunnelKind::Gre, Reason::Payload);
    damaged(&on_udp(2152, &build::gtp(255, 1, &[], frame)), TunnelKind::Gtp, Reason::Payload);
    damaged(&on_udp(6635, &build::mpls(&[16], &[0x99; 60])), TunnelKind::Mpls, Reason::Payload);
    damaged(&on_udp(6635, &build::mpls(&[0], frame)), TunnelKind::Mpls, Reason::Payload);
    damaged(&in_ipv4(115, &build::l2tp_on_ip(1, &[], None, &[0x99; 60])), TunnelKind::L2tp, Reason::Payload);
}

#[test]
fn stacks_without_an_end() {
    let stack = [0x01, 0, 0, 64].repeat(40);
    damaged(&on_udp(6635, &stack), TunnelKind::Mpls, Reason::Stack);
    damaged(&on_udp(37008, &build::tzsp(1, &[0; 100], &[0; 60])), TunnelKind::Tzsp, Reason::Stack);
    let route = [8, 0, 0, 4, 1, 2, 3, 4].repeat(20);
    let gre = [&[0x40, 0, 0x65, 0x58, 0, 0, 0, 0], &route[..]].concat();
    damaged(&in_ipv4(47, &gre), TunnelKind::Gre, Reason::Stack);
    let many = [(0x85, &[0u8, 0][..]); 20];
    damaged(&on_udp(2152, &build::gtp(255, 1, &many, &packets()[0])), TunnelKind::Gtp, Reason::Stack);
}

#[test]
fn packets_that_end_in_their_header() {
    damaged(&in_ipv4(47, &[0x10, 0]), TunnelKind::Gre, Reason::Short);
    damaged(&in_ipv4(47, &[0x10, 0, 0x88, 0xbe, 0, 0, 0]), TunnelKind::Erspan, Reason::Short);
    damaged(&in_ipv4(47, &build::erspan_i(&[2; 13])), TunnelKind::Erspan, Reason::Short);
    damaged(&on_udp(4789, &[8; 7]), TunnelKind::Vxlan, Reason::Short);
    damaged(&on_udp(6081, &[0x3f, 0, 0x65, 0x58, 0, 0, 0, 0]), TunnelKind::Geneve, Reason::Short);
    damaged(&on_udp(6635, &[0; 4]), TunnelKind::Mpls, Reason::Short);
    damaged(&on_udp(2152, &build::gtp(255, 1, &[], &[])), TunnelKind::Gtp, Reason::Short);
    damaged(&on_udp(37008, &[1, 0, 0, 1, 10, 200]), TunnelKind::Tzsp, Reason::Short);
    damaged(&in_ipv4(115, &[0, 0, 0]), TunnelKind::L2tp, Reason::Short);
    damaged(&in_ipv4(4, &[]), TunnelKind::Ipip, Reason::Short);
}

#[test]
fn headers_that_the_capture_cut() {
    let frame = in_ipv4(47, &build::erspan_ii(1, &Erspan::default(), 0, &frames()[0]));
    let cut = |len: usize| strip(&frame[..len], frame.len() as u32, ETHERNET, TunnelKinds::ALL, 4);
    assert_eq!(cut(GRE + 15), Outcome::Damaged(Damage { kind: TunnelKind::Erspan, reason: Reason::Cut }));
    assert!(matches!(cut(GRE + 16), Outcome::Inner(inner) if inner.len == 0 && inner.wire_len == Some(72)));
}

#[test]
fn outer_headers_that_are_broken_are_no_tunnels() {
    let frame = in_ipv4(47, &build::erspan_i(&frames()[0]));
    for (at, value) in [(14, 0x44), (14, 0x65), (12, 0x09), (17, 19)] {
        let mut broken = frame.clone();
        broken[16] = if at == 17 { 0 } else { broken[16] };
        assert_eq!(whole(&with(broken, at, value)), Outcome::Plain);
    }
}

#[test]
fn packets_of_tunnels_without_a_frame() {
    let frame = &frames()[0];
    assert_eq!(whole(&in_ipv4(47, &build::gre(&Gre::default(), 0, &[]))), Outcome::Control);
    assert_eq!(whole(&on_udp(6081, &with(build::geneve(1, 0x6558, &[], frame), 1, 0x80))), Outcome::Control);
    assert_eq!(whole(&on_udp(4790, &with(build::vxlan_gpe(1, 3, frame), 0, 0x0d))), Outcome::Control);
    for message in [1, 2, 26, 254] {
        assert_eq!(whole(&on_udp(2152, &build::gtp(message, 0, &[], &[]))), Outcome::Control);
    }
    assert_eq!(whole(&in_ipv4(115, &[0; 12])), Outcome::Control);
    assert_eq!(whole(&on_udp(1701, &[0xc8, 3, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0])), Outcome::Control);
    assert_eq!(whole(&on_udp(37008, &[1, 4, 0, 0, 1])), Outcome::Control);
    assert_eq!(whole(&on_udp(6635, &build::mpls(&[16, 13], &[0x10, 0, 0, 7, 0, 0]))), Outcome::Control);
    assert_eq!(whole(&on_udp(6635, &build::mpls(&[16], &[0x10, 0, 0, 7, 0, 0]))), Outcome::Control);
}

#[test]
fn a_marker_ties_the_counter_to_utc() {
    let mut payload = vec![0; 58];
    payload[22..26].copy_from_slice(&[0x01, 5, 2, 37]);
    payload[26..34].copy_from_slice(&0x0000_1234_5678_9abcu64.to_be_bytes());
    payload[34..42].copy_from_slice(&[0, 0, 0, 9, 0, 0, 0, 8]);
    payload[54..58].fill(0xa5);
    let Outcome::Marker(marker) = whole(&on_udp(50_000, &payload)) else { panic!("no marker") };
    assert_eq!((marker.source, marker.session, marker.utc_offset_s), (A4.into(), 5, 37));
    assert_eq!((marker.timestamp, marker.utc_s, marker.utc_us), (0x1234_5678_9abc, 9, 8));
    assert_eq!(marker.tick_ns, Some(1));
    payload[57] = 0;
    assert_eq!(whole(&on_udp(50_000, &payload)), Outcome::Plain);
}

#[test]
fn counters_have_a_place_for_everything() {
    let all: Vec<Damage> = Damage::all().collect();
    assert_eq!(all.len(), Damage::COUNT);
    assert!(all.iter().enumerate().all(|(at, damage)| damage.index() == at));
    let names: HashSet<String> = all.iter().map(Damage::to_string).collect();
    assert_eq!(names.len(), Damage::COUNT);
}

/// The properties of any outcome for any bytes.
fn check(bytes: &[u8], wire_len: u32, link: u16, kinds: TunnelKinds, depth: u8) -> Outcome {
    let outcome = strip(bytes, wire_len, link, kinds, depth);
    check_outcome(&outcome, bytes, wire_len, depth);
    outcome
}

fn check_outcome(outcome: &Outcome, bytes: &[u8], wire_len: u32, depth: u8) {
    let wire_max = wire_len.max(bytes.len() as u32).max(u16::MAX.into());
    match outcome {
        Outcome::Inner(inner) => {
            assert!(inner.start as usize + inner.len as usize <= bytes.len());
            assert!(inner.wire_len.is_none_or(|wire| wire >= inner.len && wire <= wire_max));
            assert!((1..=depth).contains(&inner.depth));
        }
        Outcome::Fragment(fragment) => {
            assert!(fragment.start as usize + fragment.len as usize <= bytes.len());
            assert!(fragment.wire_len >= fragment.len);
            assert_eq!(fragment.header_start + fragment.header_len, fragment.start);
            assert!(fragment.more || fragment.offset > 0);
        }
        _ => {}
    }
}

fn links() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![ETHERNET, RAW, 113, 276, 228, 229, 105])
}

fn kinds() -> impl Strategy<Value = TunnelKinds> {
    prop::collection::vec(prop::sample::select(TunnelKind::ALL.to_vec()), 0..10)
        .prop_map(TunnelKinds::from_iter)
}

proptest! {
    #[test]
    fn any_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        more in 0u32..200,
        link in links(),
        kinds in kinds(),
        depth in 0u8..6,
    ) {
        let wire_len = bytes.len() as u32 + more;
        check(&bytes, wire_len, link, kinds, depth);
        let outcome = strip_datagram(&bytes, wire_len, bytes.first().copied().unwrap_or(0), A4.into(), kinds, depth);
        check_outcome(&outcome, &bytes, wire_len, depth);
    }

    #[test]
    fn tunnels_with_bytes_changed(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec((0usize..140, any::<u8>()), 1..6),
        cut in 0usize..200,
        depth in 1u8..6,
    ) {
        let cases = cases();
        let case = at.get(&cases);
        let mut frame = case.frame.clone();
        let len = frame.len();
        for (place, value) in changes {
            frame[place % len] = value;
        }
        frame.truncate(len.saturating_sub(cut).max(14));
        check(&frame, len as u32, case.link, TunnelKinds::ALL, depth);
    }

    #[test]
    fn random_bytes_after_a_right_beginning(
        at in any::<prop::sample::Index>(),
        kept in 14usize..120,
        noise in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let cases = cases();
        let case = at.get(&cases);
        let mut frame = case.frame[..kept.min(case.frame.len())].to_vec();
        frame.extend(noise);
        check(&frame, frame.len() as u32, case.link, TunnelKinds::ALL, 4);
    }
}
