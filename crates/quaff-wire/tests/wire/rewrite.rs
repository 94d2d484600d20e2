//! Rewritten frames, against what etherparse computes for them.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use quaff_testpackets as build;
use quaff_wire::checksum;
use quaff_wire::net::{self, TCP, UDP};
use quaff_wire::rewrite::{AddressMaps, FixLength, Rewrite, TrafficClass, Ttl};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Protocol numbers (IANA).
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

fn maps(words: &[&str], seed: Option<u64>) -> AddressMaps {
    AddressMaps::new(&words.iter().map(|word| word.parse().unwrap()).collect::<Vec<_>>(), seed)
}

fn addresses(words: &[&str], seed: Option<u64>) -> Rewrite {
    Rewrite { src_ip: maps(words, seed), dst_ip: maps(words, seed), ..Rewrite::default() }
}

/// A packet of this protocol whose checksums are wrong.
fn packet(is_v6: bool, ips: [u32; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header: &[u8] = match protocol {
        TCP => &[0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 9, 9, 0, 0],
        UDP => &build::udp(0x1000, 53, payload)[..8],
        ICMP | ICMPV6 => &[8, 0, 9, 9, 0, 1, 0, 1],
        SCTP => &[0x10, 0, 0, 80, 0, 0, 0, 1, 9, 9, 9, 9],
        _ => &[],
    };
    let mut segment = [header, payload].concat();
    if protocol == UDP {
        segment[6] = 9;
    }
    if is_v6 {
        let [a, b] = ips.map(|ip| Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(ip)));
        let protocol = if protocol == ICMP { ICMPV6 } else { protocol };
        build::ethernet(&[], 0x86dd, &build::ipv6(a, b, protocol, &segment))
    } else {
        let [a, b] = ips.map(Ipv4Addr::from);
        build::ethernet(&[], 0x0800, &build::ipv4(a, b, protocol, &[], &segment))
    }
}

fn apply(plan: &Rewrite, frame: &[u8]) -> Vec<u8> {
    let mut after = frame.to_vec();
    let verdict = plan.apply(&mut after, frame.len() as u32, 0);
    assert_eq!(verdict, Some(after.len() as u32));
    after
}

fn fixed(frame: &[u8]) -> Vec<u8> {
    apply(&Rewrite { fix_checksums: true, ..Rewrite::default() }, frame)
}

/// Every checksum of the frame that etherparse knows is right.
fn assert_right(frame: &[u8]) {
    let parsed = SlicedPacket::from_ethernet(frame).unwrap();
    let transport = parsed.transport.as_ref();
    match parsed.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            match transport {
                Some(TransportSlice::Tcp(tcp)) => {
                    let right = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
                    assert_eq!(tcp.checksum(), right);
                }
                Some(TransportSlice::Udp(udp)) => {
                    let right = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
                    assert_eq!(udp.checksum(), right);
                }
                Some(TransportSlice::Icmpv4(icmp)) => {
                    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
                }
                _ => {}
            }
        }
        NetSlice::Ipv6(ip) => {
            let (header, ips) = (ip.header().to_header(), [ip.header().source(), ip.header().destination()]);
            match transport {
                Some(TransportSlice::Tcp(tcp)) => {
                    let right = tcp.to_header().calc_checksum_ipv6(&header, tcp.payload()).unwrap();
                    assert_eq!(tcp.checksum(), right);
                }
                Some(TransportSlice::Udp(udp)) => {
                    let right = udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap();
                    assert_eq!(udp.checksum(), right);
                }
                Some(TransportSlice::Icmpv6(icmp)) => assert!(icmp.is_checksum_valid(ips[0], ips[1])),
                _ => {}
            }
        }
        NetSlice::Arp(_) => {}
    }
}

fn a_protocol() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![TCP, UDP, ICMP, SCTP, 89])
}

#[test]
fn a_frame_without_a_change_keeps_every_byte() {
    for protocol in [TCP, UDP, ICMP, SCTP] {
        let frame = packet(false, [0x0a00_0001, 0x0a00_0002], protocol, b"payload");
        assert_eq!(apply(&Rewrite::default(), &frame), frame);
        assert_eq!(apply(&addresses(&["1.2.3.4:5.6.7.8"], None), &frame), frame, "damage stays as it is");
        assert_eq!(Rewrite::default().apply(&mut frame.clone(), 0, 0), Some(frame.len() as u32));
    }
}

#[test]
fn a_checksum_of_none_stays_none() {
    let mut frame = packet(false, [0x0a00_0001, 0x0a00_0002], UDP, b"payload");
    frame[40..42].fill(0);
    let plan =
        Rewrite { fix_checksums: true, ports: vec!["53:5353".parse().unwrap()], ..addresses(&[], Some(5)) };
    let after = apply(&plan, &frame);
    assert_ne!(after[26..34], frame[26..34]);
    assert_eq!(after[36..38], 5353u16.to_be_bytes());
    assert_eq!(after[40..42], [0, 0]);
}

#[test]
fn a_wrong_checksum_stays_wrong_by_the_same_difference() {
    let frame = packet(false, [0x0a00_0001, 0x0a00_0002], TCP, b"payload");
    let plan = addresses(&["10.0.0.0/8:172.16.0.0/12"], None);
    let [wrong, right] = [&frame, &fixed(&frame)].map(|frame| apply(&plan, frame));
    let sum = |frame: &[u8]| u16::from_be_bytes([frame[50], frame[51]]);
    let difference = |a: u16, b: u16| checksum::add(a, !b);
    assert_eq!(difference(sum(&wrong), sum(&right)), difference(sum(&frame), sum(&fixed(&frame))));
    assert_right(&right);
}

#[test]
fn only_the_first_fragment_has_a_checksum() {
    let ips = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let whole = fixed(&packet(false, ips.map(u32::from), UDP, &[7; 300]));
    let plan =
        Rewrite { ports: vec!["53:5353".parse().unwrap()], ..addresses(&["10.0.0.0/8:9.0.0.0/8"], None) };
    let after = apply(&plan, &whole);
    let pieces = |frame: &[u8]| {
        let pieces = build::ipv4_fragments(&frame[14..], 64);
        pieces.iter().map(|piece| build::ethernet(&[], 0x0800, piece)).collect::<Vec<_>>()
    };
    let rewritten: Vec<_> = pieces(&whole).iter().map(|piece| apply(&plan, piece)).collect();
    assert_eq!(rewritten, pieces(&after), "pieces of what was rewritten are rewritten pieces");
    assert_right(&after);
}

#[test]
fn edits_of_tags_are_done_one_after_the_other() {
    let frame = |tags: &[(u16, u16)]| build::ethernet(tags, 0x0800, b"payload");
    let two = [(0x88a8, 7), (0x8100, 9)];
    for (words, before, after) in [
        (&["set:5", "pop"][..], &two[..], &[(0x8100, 9)][..]),
        (&["pop", "set:5"], &two, &[(0x8100, 5)]),
        (&["set:5", "push:100"], &two[1..], &[(0x88a8, 100), (0x8100, 5)]),
        (&["push:100", "set:pcp=1"], &[], &[(0x8100, 0x2064)]),
    ] {
        let tags = words.iter().map(|word| word.parse().unwrap()).collect();
        let plan = Rewrite { tags, ..Rewrite::default() };
        assert_eq!(apply(&plan, &frame(before)), frame(after), "{words:?}");
    }
}

#[test]
fn protocols_of_routers_follow_addresses_of_ipv6() {
    let plan = addresses(&["2001:db8::/32:fd00::/8"], None);
    for (protocol, offset) in [(89, 12), (103, 2), (112, 6)] {
        let before = packet(true, [1, 2], protocol, &[3; 40]);
        let after = apply(&plan, &before);
        // The sum over addresses and payload stays what it was, right or wrong.
        let sum = |frame: &[u8]| quaff_wire::checksum::sum(&frame[22..]);
        assert_ne!(before[54 + offset..56 + offset], after[54 + offset..56 + offset], "{protocol}");
        assert_eq!(sum(&before), sum(&after), "{protocol}");
    }
}

#[test]
fn macs_by_output() {
    let plan = Rewrite {
        dst_mac: [Some([1; 6]), Some([2; 6])],
        src_mac: [None, Some([3; 6])],
        ..Rewrite::default()
    };
    let frame = packet(false, [1, 2], UDP, b"");
    for (out, macs) in [(0, [[1; 6], [2, 0, 0, 0, 0, 1]]), (1, [[2; 6], [3; 6]])] {
        let mut after = frame.clone();
        plan.edit(&mut after, out);
        assert_eq!(after[..12], macs.concat());
        assert_eq!(after[12..], frame[12..]);
    }
}

#[test]
fn arp_follows_its_hosts() {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, 1];
    message.extend([[2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0], [0, 0, 0, 0, 10, 0, 0, 2, 0, 0, 0, 0]].concat());
    let plan = Rewrite { dst_ip: maps(&["10.0.0.0/8:192.0.0.0/8"], None), ..Rewrite::default() };
    let after = apply(&plan, &build::ethernet(&[(0x8100, 3)], 0x0806, &message));
    assert_eq!(after[18 + 14..18 + 18], [10, 0, 0, 1]);
    assert_eq!(after[18 + 24..18 + 28], [192, 0, 0, 2]);
}

#[test]
fn fields_of_ipv6() {
    let plan = Rewrite {
        ttl: Some(Ttl::Subtract(1)),
        traffic_class: Some(TrafficClass::whole(0xab)),
        flow_label: Some(0xf_1234),
        ..Rewrite::default()
    };
    let after = apply(&plan, &packet(true, [1, 2], UDP, b""));
    assert_eq!(after[14..18], [0x6a, 0xbf, 0x12, 0x34]);
    assert_eq!(after[21], 63);
}

#[test]
fn cut_frames_are_filled_up_shortened_or_left_out() {
    let whole = fixed(&packet(false, [1, 2], UDP, &[0; 200]));
    let plan = |length| Rewrite { length: Some(length), ..Rewrite::default() };
    let run = |fix, bytes: usize| {
        let mut frame = whole[..bytes].to_vec();
        let verdict = plan(fix).apply(&mut frame, whole.len() as u32, 0);
        (frame, verdict)
    };
    let bytes = whole.len() as u32;
    assert_eq!(run(FixLength::Pad, 80), (whole.clone(), Some(bytes)));
    assert_eq!(run(FixLength::Drop, 80).1, None);
    assert_eq!(run(FixLength::Drop, whole.len()).1, Some(bytes));
    let (cut, verdict) = run(FixLength::Cut, 80);
    assert_eq!(verdict, Some(80));
    assert_eq!((&cut[16..18], &cut[38..40]), (&[0u8, 66][..], &[0u8, 46][..]), "both lengths");
    assert_right(&cut);
    let mut still = whole[..80].to_vec();
    let tag = Rewrite { tags: vec!["push:5".parse().unwrap()], ..Rewrite::default() };
    assert_eq!(tag.apply(&mut still, bytes, 0), Some(bytes + 4), "cut, and known to be");
}

proptest! {
    #[test]
    fn checksums_follow_what_changes(
        is_v6: bool, ips: [u32; 2], protocol in a_protocol(), payload in prop::collection::vec(any::<u8>(), 0..100),
        seed in prop::option::of(any::<u64>()), port: u16, ttl: u8, class: u8, tag: bool,
    ) {
        let frame = fixed(&packet(is_v6, ips, protocol, &payload));
        assert_right(&frame);
        let plan = Rewrite {
            ports: vec![format!("80:{port}").parse().unwrap()],
            ttl: Some(Ttl::Add(ttl)),
            traffic_class: Some(TrafficClass::whole(class)),
            tags: if tag { vec!["push:7".parse().unwrap()] } else { vec![] },
            ..addresses(&["0.0.0.0/1:10.0.0.0/8", "2001:db8::/96:fd00::/64"], seed)
        };
        let after = apply(&plan, &frame);
        assert_right(&after);
        prop_assert_eq!(&fixed(&after), &after, "as computed anew");
        let layers = net::layers(&after).unwrap();
        let (before, ip) = (net::layers(&frame).unwrap().ip.unwrap(), layers.ip.unwrap());
        prop_assert_eq!(layers.tags, usize::from(tag));
        prop_assert_eq!(&after[ip.transport + 20.min(ip.end - ip.transport)..], &frame[before.transport + 20.min(before.end - before.transport)..]);
        if let Some([from, to]) = ip.ports(&after) {
            let expected = before.ports(&frame).unwrap().map(|old| if old == 80 { port } else { old });
            prop_assert_eq!([from, to], expected);
        }
    }

    #[test]
    fn whatever_comes_nothing_panics(mut frame in prop::collection::vec(any::<u8>(), 0..200), kind in 0usize..4, more in 0u32..2000, length in 0usize..4) {
        if frame.len() > 14 {
            let (ethertype, first): ([u8; 2], u8) = [([8, 0], 0x45), ([0x86, 0xdd], 0x60), ([0x81, 0], 0), ([8, 6], 0)][kind];
            frame[12..14].copy_from_slice(&ethertype);
            frame[14] = first | frame[14] & 1;
        }
        let plan = Rewrite {
            dst_mac: [Some([1; 6]); 2],
            ports: vec!["0-65535:7".parse().unwrap()],
            tags: vec!["push:5".parse().unwrap(), "pop".parse().unwrap(), "set:9".parse().unwrap()],
            ttl: Some(Ttl::Add(9)),
            traffic_class: Some("9".parse().unwrap()),
            flow_label: Some(9),
            length: [None, Some(FixLength::Pad), Some(FixLength::Cut), Some(FixLength::Drop)][length],
            fix_checksums: true,
            ..addresses(&[], Some(3))
        };
        let wire_len = frame.len() as u32 + more;
        if let Some(wire_len) = plan.apply(&mut frame, wire_len, 1) {
            prop_assert!(frame.len() <= wire_len as usize);
        }
    }
}

/// The IP packet under labels, PPPoE, the Ethernet header of a backbone, and SNAP.
fn under(packet: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let ppp: [u8; 2] = if packet[0] >> 4 == 4 { [0, 0x21] } else { [0, 0x57] };
    let length = (packet.len() as u16 + 2).to_be_bytes();
    let pppoe = [&[0x11, 0, 0, 9], &length[..], &ppp, packet].concat();
    let backbone =
        [&[0, 0, 0, 7], &build::ethernet(&[(0x8100, 5)], u16::from_be_bytes(ethertype), packet)[..]];
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0], &ethertype[..], packet].concat();
    let labels = build::mpls(&[16, 17], packet);
    vec![
        ("labels", build::ethernet(&[], 0x8847, &labels)),
        ("labels after a tag", build::ethernet(&[(0x8100, 5)], 0x8848, &labels)),
        ("PPPoE", build::ethernet(&[], 0x8864, &pppoe)),
        ("labels on PPPoE", {
            let length = (labels.len() as u16 + 2).to_be_bytes();
            build::ethernet(&[], 0x8864, &[&[0x11, 0, 0, 9], &length[..], &[2, 0x81], &labels].concat())
        }),
        ("PBB", build::ethernet(&[(0x88a8, 100)], 0x88e7, &backbone.concat())),
        ("SNAP", build::ethernet(&[], snap.len() as u16, &snap)),
    ]
}

#[test]
fn packets_under_labels_and_other_headers_are_changed_as_bare_ones_are() {
    let plan = Rewrite {
        ports: vec!["53:5353".parse().unwrap()],
        ttl: Some("9".parse().unwrap()),
        ..addresses(&["10.0.0.0/8:172.16.0.0/12", "2001:db8::/32:fd00::/8"], Some(7))
    };
    for is_v6 in [false, true] {
        for protocol in [TCP, UDP] {
            let bare = packet(is_v6, [0x0a00_0001, 0x0a00_0002], protocol, b"some payload");
            let changed = apply(&plan, &bare);
            assert_ne!(bare, changed);
            for ((name, before), (_, after)) in under(&bare[14..]).into_iter().zip(under(&changed[14..])) {
                assert_eq!(apply(&plan, &before), after, "{name}, IPv6 {is_v6}, protocol {protocol}");
                let mut there = before.clone();
                plan.edit(&mut there, 0);
                assert_eq!(there, after, "{name} where it lies");
                assert_eq!(fixed(&before).len(), before.len());
            }
        }
    }
}

#[test]
fn lengths_before_a_packet_follow_it() {
    let long = packet(false, [0x0a00_0001, 0x0a00_0002], UDP, &[7; 600]);
    for (name, frame) in under(&long[14..]) {
        // Cut by the capture: each length says what is there.
        let mut cut = frame[..200].to_vec();
        let plan = Rewrite { length: Some(FixLength::Cut), ..Rewrite::default() };
        assert_eq!(plan.apply(&mut cut, frame.len() as u32, 0), Some(200), "{name}");
        assert_lengths(name, &cut);
        // Fragments: so does each of them.
        let mut mtu = quaff_wire::rewrite::Mtu::new(300, quaff_wire::rewrite::MtuPolicy::Fragment);
        let mut whole = frame.clone();
        assert_eq!(mtu.fit(&mut whole, frame.len() as u32), quaff_wire::rewrite::Fit::Fragmented, "{name}");
        let fragments: Vec<_> = mtu.fragments().map(<[u8]>::to_vec).collect();
        assert!(fragments.len() > 2, "{name}");
        let payload: usize = fragments
            .iter()
            .map(|fragment| {
                assert_lengths(name, fragment);
                let ip = net::layers(fragment).unwrap().ip.unwrap();
                ip.end - ip.transport
            })
            .sum();
        assert_eq!(payload, 608, "{name}");
    }
}

/// The lengths of IPv4, PPPoE and IEEE 802.3 reach to the end of the frame.
#[track_caller]
fn assert_lengths(name: &str, frame: &[u8]) {
    let layers = net::layers(frame).unwrap();
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    assert_eq!(layers.ip_offset + word(layers.ip_offset + 2), frame.len(), "{name}");
    match name {
        "PPPoE" | "labels on PPPoE" => assert_eq!(20 + word(18), frame.len(), "{name}"),
        "SNAP" => assert_eq!(14 + word(12), frame.len(), "{name}"),
        _ => assert_eq!(layers.length, None, "{name}"),
    }
}

/// A datagram from a to b by way of c, and whether it has left c: its routing header has segments left until then.
fn routed(kind: u8, has_left: bool) -> (Vec<u8>, [Ipv6Addr; 2]) {
    let [a, b, c] = [1, 2, 3].map(|last| Ipv6Addr::from(0x2001_0db8 << 96 | last));
    let header = match kind {
        // RPL with an address whose first eight bytes are those of the destination.
        3 => [&[UDP, 1, 3, u8::from(!has_left), 0x88, 0, 0, 0][..], &b.octets()[8..]].concat(),
        4 => [&[UDP, 4, 4, u8::from(!has_left), 1, 0, 0, 0][..], &b.octets(), &c.octets()].concat(),
        _ => [&[UDP, 2, kind, u8::from(!has_left), 0, 0, 0, 0][..], &b.octets()].concat(),
    };
    let mut datagram = build::udp(5000, 53, b"some payload");
    // Wrong, and not none.
    datagram[6] = 9;
    let next = if has_left { b } else { c };
    let packet = build::ipv6(a, next, 43, &[header, datagram].concat());
    (build::ethernet(&[], 0x86dd, &packet), [a, b])
}

/// The sum over everything that the checksum of the datagram covers: all ones if it is right.
fn sum_of_udp(frame: &[u8], [source, destination]: [Ipv6Addr; 2]) -> u16 {
    let ip = net::layers(frame).unwrap().ip.unwrap();
    let datagram = &frame[ip.transport..ip.end];
    let pseudo = [0, datagram.len() as u8, 0, UDP];
    checksum::sum(&[&source.octets(), &destination.octets(), &pseudo[..], datagram].concat())
}

#[test]
fn the_checksum_of_a_routed_packet_covers_its_final_destination() {
    let map = addresses(&["[2001:db8::/32]:[fd00:9::/32]"], None);
    let mapped = |address: Ipv6Addr| {
        let mut segments = address.segments();
        (segments[0], segments[1]) = (0xfd00, 9);
        Ipv6Addr::from(segments)
    };
    for (kind, has_left) in [0, 2, 3, 4].into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let (bare, [source, last]) = routed(kind, has_left);
        let right = fixed(&bare);
        assert_eq!(sum_of_udp(&right, [source, last]), 0xffff, "type {kind}, {has_left}");
        assert_eq!(fixed(&right), right);
        // A final destination in the routing header is no address of the IP header; that of RPL is so in part.
        let last = if has_left || kind == 3 { mapped(last) } else { last };
        let after = apply(&map, &right);
        assert_ne!(after, right);
        assert_eq!(sum_of_udp(&after, [mapped(source), last]), 0xffff, "type {kind}, {has_left}, mapped");
    }
}

#[test]
fn a_source_route_and_a_home_address_count_too() {
    let [a, b, c, home] = [1, 2, 3, 4].map(|last| Ipv4Addr::new(10, 0, 0, last));
    let route = [&[131, 7, 4][..], &b.octets(), &[0]].concat();
    let mut datagram = build::udp(5000, 53, b"some payload");
    datagram[6] = 9;
    let frame = build::ethernet(&[], 0x0800, &build::ipv4(a, c, UDP, &route, &datagram));
    let sum = |frame: &[u8], [source, destination]: [Ipv4Addr; 2]| {
        let pseudo = [source.octets(), destination.octets(), [0, datagram.len() as u8, 0, UDP]].concat();
        checksum::sum(&[&pseudo, &frame[frame.len() - datagram.len()..]].concat())
    };
    let right = fixed(&frame);
    assert_eq!(sum(&right, [a, b]), 0xffff);
    let after = apply(&addresses(&["10.0.0.0/8:172.0.0.0/8"], None), &right);
    assert_eq!(sum(&after, [Ipv4Addr::new(172, 0, 0, 1), b]), 0xffff);
    assert_eq!(checksum::sum(&after[14..42]), 0xffff, "that of the header covers what is in it");

    let [a, b, home] = [a, b, home].map(|ip| ip.to_ipv6_mapped());
    let options = [&[UDP, 2, 1, 2, 0, 0, 0xc9, 16][..], &home.octets()].concat();
    let frame = build::ethernet(&[], 0x86dd, &build::ipv6(a, b, 60, &[options, datagram.clone()].concat()));
    assert_eq!(sum_of_udp(&fixed(&frame), [home, b]), 0xffff);
}

#[test]
fn a_mobility_header_has_a_checksum_that_follows_its_addresses() {
    let [a, b] = [1, 2].map(|last| Ipv6Addr::from(0x2001_0db8 << 96 | last));
    let update = [59, 1, 5, 0, 9, 9, 0, 1, 0, 0, 0, 60, 1, 2, 0, 0];
    let frame = build::ethernet(&[], 0x86dd, &build::ipv6(a, b, 135, &update));
    let sum = |frame: &[u8]| checksum::sum(&[&frame[22..], &[0, 16, 0, 135]].concat());
    let right = fixed(&frame);
    assert_eq!((sum(&right), sum(&frame) == 0xffff), (0xffff, false));
    let after = apply(&addresses(&["[2001:db8::/32]:[fd00::/32]"], None), &right);
    assert_eq!((sum(&after), after == right), (0xffff, false));
}
