//! Tunnels that are right: what `strip` finds in each of them, however they are carried, cut, padded,
//! fragmented or nested.

use crate::tunnels::{A4, A6, B4, B6, ETHERNET, RAW, cases, frames, outers, packets, wrapped};
use quaff_testpackets::{self as build, Erspan, ErspanIii, Gre};
use quaff_wire::tunnel::{
    Direction, ErspanTime, Inner, Outcome, Session, TunnelFragment, TunnelKind, TunnelKinds, Upper, strip,
    strip_datagram,
};

fn whole(frame: &[u8], link: u16) -> Outcome {
    strip(frame, frame.len() as u32, link, TunnelKinds::ALL, 4)
}

#[track_caller]
fn inner(outcome: Outcome) -> Inner {
    match outcome {
        Outcome::Inner(inner) => inner,
        other => panic!("{other:?}"),
    }
}

fn bytes<'a>(frame: &'a [u8], inner: &Inner) -> &'a [u8] {
    &frame[inner.start as usize..][..inner.len as usize]
}

fn in_ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    build::ethernet(&[], 0x0800, &build::ipv4(A4, B4, protocol, &[], payload))
}

#[test]
fn every_tunnel_in_every_packet() {
    let cases = cases();
    assert!(cases.len() > 500, "{}", cases.len());
    for case in cases {
        let found = inner(whole(&case.frame, case.link));
        assert_eq!(bytes(&case.frame, &found), case.inner, "{}", case.name);
        assert_eq!(found.wire_len, Some(case.inner.len() as u32), "{}", case.name);
        let session = (found.linktype, found.session.kind, found.session.id, found.sequence);
        assert_eq!(session, (case.inner_link, case.kind, case.id, case.sequence), "{}", case.name);
        assert_eq!((found.tag, found.depth, found.damage), (None, 1, None), "{}", case.name);
        // Labels in GPE are two tunnels that count as one; both have to be wanted.
        let labels = if case.name.contains("gpe mpls") { TunnelKind::Mpls } else { case.kind };
        let only: TunnelKinds = [case.kind, labels].into_iter().collect();
        let len = case.frame.len() as u32;
        assert_eq!(strip(&case.frame, len, case.link, only, 1), Outcome::Inner(found), "{}", case.name);
        let others = TunnelKind::ALL.into_iter().filter(|kind| !only.contains(*kind)).collect();
        assert_eq!(strip(&case.frame, len, case.link, others, 4), Outcome::Plain, "{}", case.name);
        assert_eq!(strip(&case.frame, len, case.link, TunnelKinds::ALL, 0), Outcome::Plain);
    }
}

#[test]
fn a_truncated_frame_keeps_its_length_on_the_wire() {
    for case in cases() {
        for len in 0..case.frame.len() {
            let outcome = strip(&case.frame[..len], case.frame.len() as u32, case.link, TunnelKinds::ALL, 4);
            if let Outcome::Inner(found) = outcome {
                assert_eq!(found.wire_len, Some(case.inner.len() as u32), "{} at {len}", case.name);
                let cut = bytes(&case.frame[..len], &found);
                assert_eq!(cut, &case.inner[..cut.len()], "{} at {len}", case.name);
            } else {
                assert!(matches!(outcome, Outcome::Plain | Outcome::Damaged(_)), "{} at {len}", case.name);
            }
        }
    }
}

#[test]
fn padding_is_no_part_of_the_inner_frame() {
    for case in cases() {
        let mut padded = case.frame.clone();
        padded.extend([0; 20]);
        // Only a length in an IP header distinguishes padding from a frame.
        let on_link = ["mpls on ethernet", "mpls on ppp", "mpls on hdlc"];
        if on_link.iter().any(|name| case.name.starts_with(name)) && case.inner_link == ETHERNET {
            continue;
        }
        let found = inner(whole(&padded, case.link));
        assert_eq!(bytes(&padded, &found), case.inner, "{}", case.name);
        assert_eq!(found.wire_len, Some(case.inner.len() as u32), "{}", case.name);
    }
}

#[test]
fn plain_frames_are_plain() {
    for frame in frames() {
        assert_eq!(whole(&frame, ETHERNET), Outcome::Plain);
        assert_eq!(whole(&frame, 127), Outcome::Plain);
    }
    for packet in packets() {
        assert_eq!(whole(&packet, RAW), Outcome::Plain);
        let wrong = in_ipv4(17, &build::udp(4789, 53, &build::vxlan(1, &packet)));
        assert_eq!(whole(&wrong, ETHERNET), Outcome::Plain, "only the destination port decides");
        let mut version_1 = build::gre(&Gre::default(), 0x0800, &packet);
        version_1[1] = 1;
        assert_eq!(whole(&in_ipv4(47, &version_1), ETHERNET), Outcome::Plain);
        let unknown = in_ipv4(47, &build::gre(&Gre::default(), 0x0806, &packet));
        assert_eq!(whole(&unknown, ETHERNET), Outcome::Plain);
    }
}

#[test]
fn l2tp_answers_from_its_port() {
    let frame = &frames()[0];
    let packet = in_ipv4(17, &build::udp(1701, 40_000, &build::l2tp_on_udp(9, &[], Some(0), frame)));
    assert_eq!(bytes(&packet, &inner(whole(&packet, ETHERNET))), frame);
    let version_2 = in_ipv4(17, &build::udp(1701, 1701, &[0x40, 2, 0, 20, 0, 1, 0, 1, 0xff, 3, 0, 0x21]));
    assert_eq!(whole(&version_2, ETHERNET), Outcome::Plain);
}

#[test]
fn l2tp_prefers_the_default_sublayer() {
    // Read without a sublayer, this source address would be the EtherType of ARP.
    let mut frame = frames().swap_remove(0);
    frame[6..12].copy_from_slice(&[2, 0, 0x08, 0x06, 0, 1]);
    for sublayer in [0, 0x4000_0001] {
        let packet = in_ipv4(115, &build::l2tp_on_ip(9, &[], Some(sublayer), &frame));
        assert_eq!(bytes(&packet, &inner(whole(&packet, ETHERNET))), frame);
    }
}

#[test]
fn a_key_is_a_vsid_only_where_nvgre_allows_it() {
    let frame = &frames()[0];
    let cases = [
        (Gre { key: Some(0x0fff_ff00), ..Gre::default() }, TunnelKind::Nvgre, 0x0f_ffff),
        (Gre { key: Some(0x0000_0fff), ..Gre::default() }, TunnelKind::Gre, 0x0fff),
        (Gre { key: Some(0xffff_ff01), ..Gre::default() }, TunnelKind::Gre, 0xffff_ff01),
        (Gre { key: Some(0x1234_5678), sequence: Some(1), ..Gre::default() }, TunnelKind::Gre, 0x1234_5678),
    ];
    for (fields, kind, id) in cases {
        let packet = in_ipv4(47, &build::gre(&fields, 0x6558, frame));
        let session = inner(whole(&packet, ETHERNET)).session;
        assert_eq!((session.kind, session.id), (kind, Some(id)), "{fields:?}");
    }
}

#[test]
fn the_innermost_length_ends_the_frame() {
    let [packet, _, _] = packets();
    let frame = &frames()[0];
    let mut udp = build::udp(5, 4789, &build::vxlan(1, frame));
    udp.extend([0xee; 9]);
    let outer = in_ipv4(17, &udp);
    assert_eq!(bytes(&outer, &inner(whole(&outer, ETHERNET))), frame);
    let mut gtp = build::gtp(255, 1, &[], &packet);
    gtp.extend([0xee; 9]);
    let outer = in_ipv4(17, &build::udp(5, 2152, &gtp));
    assert_eq!(bytes(&outer, &inner(whole(&outer, ETHERNET))), packet);
}

#[test]
fn an_authentication_header_is_stepped_over() {
    let frame = &frames()[0];
    // Length 4 means 6 words (RFC 4302 section 2.2).
    let mut authenticated = vec![47, 4, 0, 0];
    authenticated.extend([7; 20]);
    authenticated.extend(build::erspan_i(frame));
    let packet = build::ipv6(A6, B6, 51, &authenticated);
    assert_eq!(bytes(&packet, &inner(whole(&packet, RAW))), frame);
}

#[test]
fn erspan_names_the_tag_that_was_removed() {
    let frame = &frames()[1];
    for (encapsulation, tag) in [(0, None), (1, None), (2, Some((0x8100, 0xa066))), (3, None)] {
        let header = Erspan { vlan: 0x066, cos: 5, encapsulation, session: 3, truncated: false };
        let packet = in_ipv4(47, &build::erspan_ii(1, &header, 0, frame));
        let found = inner(whole(&packet, ETHERNET));
        assert_eq!((found.tag, found.session.id), (tag, Some(3)), "En {encapsulation}");
        let third = in_ipv4(47, &build::erspan_iii(1, &header, &ErspanIii::default(), frame));
        assert_eq!(inner(whole(&third, ETHERNET)).tag, None, "type III does not say");
    }
}

#[test]
fn a_tag_that_erspan_left_in_the_frame_is_not_restored() {
    let header = Erspan { vlan: 865, encapsulation: 2, session: 101, ..Erspan::default() };
    let restored = Some((0x8100, 865));
    let arp = [0x11; 46];
    for (name, frame, tag) in [
        ("no tag", build::ethernet(&[], 0x0806, &arp), restored),
        ("the tag", build::ethernet(&[(0x8100, 865)], 0x0806, &arp), None),
        ("the tag with its priority", build::ethernet(&[(0x8100, 0xf000 | 865)], 0x0806, &arp), None),
        ("another VLAN", build::ethernet(&[(0x8100, 866)], 0x0806, &arp), restored),
        ("a service tag", build::ethernet(&[(0x88a8, 865)], 0x0806, &arp), restored),
        ("an inner tag", build::ethernet(&[(0x88a8, 5), (0x8100, 865)], 0x0806, &arp), restored),
        ("cut within the tag", build::ethernet(&[(0x8100, 865)], 0x0806, &arp)[..15].to_vec(), restored),
    ] {
        let packet = in_ipv4(47, &build::erspan_ii(1, &header, 0, &frame));
        let found = inner(whole(&packet, ETHERNET));
        assert_eq!((bytes(&packet, &found), found.tag), (&frame[..], tag), "{name}");
    }
}

#[test]
fn a_truncated_mirror_has_no_length() {
    let frame = &frames()[0][..40];
    let header = Erspan { truncated: true, ..Erspan::default() };
    for payload in
        [build::erspan_ii(1, &header, 0, frame), build::erspan_iii(1, &header, &ErspanIii::default(), frame)]
    {
        let packet = in_ipv4(47, &payload);
        let found = inner(whole(&packet, ETHERNET));
        assert_eq!((bytes(&packet, &found), found.wire_len), (frame, None));
    }
    // Inside a truncated frame, an IP header gives the length that the mirror did not.
    let (packet, _) = nested_vxlan();
    let mirrored = in_ipv4(47, &build::erspan_ii(1, &header, 0, &packet[..80]));
    let found = inner(whole(&mirrored, ETHERNET));
    assert_eq!((found.depth, found.len, found.wire_len), (2, 30, Some(packet.len() as u32 - 50)));
}

#[test]
fn type_iii_tells_time_and_direction() {
    let frame = &frames()[0];
    let more = ErspanIii { timestamp: 0x01020304, egress: true, granularity: 2, ..ErspanIii::default() };
    let uppers = [
        (None, None),
        (Some([0x0c, 0, 0, 0, 0, 0, 0, 9]), Some(Upper::Ticks(9))),
        (Some([0x1c, 0, 0, 0, 0, 0, 0, 9]), Some(Upper::Ticks(9))),
        (Some([0x14, 0, 0, 0, 0, 0, 1, 0]), Some(Upper::Seconds(256))),
        (Some([0x18, 0, 0, 0, 0, 0, 1, 0]), Some(Upper::Seconds(256))),
        (Some([0x04, 0, 0, 0, 0, 0, 1, 0]), None),
    ];
    for (platform, upper) in uppers {
        let more = ErspanIii { platform, ..more };
        let packet = in_ipv4(47, &build::erspan_iii(1, &Erspan::default(), &more, frame));
        let found = inner(whole(&packet, ETHERNET));
        let time = ErspanTime { timestamp: 0x01020304, tick_ns: Some(1), upper };
        assert_eq!((found.time, found.direction), (Some(time), Some(Direction::Egress)));
        assert_eq!(bytes(&packet, &found), frame);
    }
    let packet = in_ipv4(47, &build::erspan_iii(1, &Erspan::default(), &ErspanIii::default(), frame));
    let found = inner(whole(&packet, ETHERNET));
    assert_eq!(found.direction, Some(Direction::Ingress));
    assert_eq!(found.time.unwrap().tick_ns, Some(100_000));
}

/// A frame in VXLAN, and the frame.
fn nested_vxlan() -> (Vec<u8>, Vec<u8>) {
    let frame = frames().swap_remove(1);
    (in_ipv4(17, &build::udp(5, 4789, &build::vxlan(4, &frame))), frame)
}

#[test]
fn tunnels_in_tunnels() {
    let (vxlan, frame) = nested_vxlan();
    let erspan =
        build::erspan_ii(11, &Erspan { session: 2, encapsulation: 2, ..Erspan::default() }, 0, &vxlan);
    let gre = build::gre(&Gre::default(), 0x86dd, &build::ipv6(A6, B6, 47, &erspan));
    let packet = in_ipv4(47, &gre);
    let len = packet.len() as u32;

    let found = inner(whole(&packet, ETHERNET));
    assert_eq!((bytes(&packet, &found), found.depth, found.tag), (&frame[..], 3, None));
    let mirror = Session { kind: TunnelKind::Erspan, source: Some(A6.into()), id: Some(2) };
    assert_eq!((found.session, found.sequence), (mirror, Some(11)), "the mirror's, that has a sequence");

    let found = inner(strip(&packet, len, ETHERNET, TunnelKinds::ALL, 2));
    assert_eq!((bytes(&packet, &found), found.depth), (&vxlan[..], 2));
    assert_eq!(found.tag, Some((0x8100, 0)), "the tag is that of the frame which is left");

    let found = inner(strip(&packet, len, ETHERNET, TunnelKinds::ALL, 1));
    assert_eq!((found.linktype, found.session.id, found.sequence), (RAW, None, None));

    // Of tunnels without a sequence, the outermost with a number; of those without, the outermost.
    let numbered = in_ipv4(4, &build::ipv4(B4, A4, 17, &[], &build::udp(5, 4789, &build::vxlan(4, &vxlan))));
    let found = inner(whole(&numbered, ETHERNET));
    assert_eq!(found.session, Session { kind: TunnelKind::Vxlan, source: Some(B4.into()), id: Some(4) });
    // Labels on Ethernet have no sender, not even that of a tunnel around them.
    let labels = build::ethernet(&[], 0x8847, &build::mpls(&[16], &packets()[0]));
    let found = inner(whole(&in_ipv4(47, &build::erspan_i(&labels)), ETHERNET));
    assert_eq!(found.session, Session { kind: TunnelKind::Mpls, source: None, id: Some(16) });
    let unnumbered = in_ipv4(4, &build::ipv4(B4, A4, 4, &[], &packets()[0]));
    let found = inner(whole(&unnumbered, ETHERNET));
    assert_eq!(
        (found.session, found.depth),
        (Session { kind: TunnelKind::Ipip, source: Some(A4.into()), id: None }, 2)
    );
}

#[test]
fn a_damaged_inner_tunnel_is_left_in_place() {
    let mut broken = nested_vxlan().0;
    broken[42] = 0;
    let pieces = build::ipv4_fragments(&build::ipv4(A4, B4, 47, &[], &build::erspan_i(&frames()[0])), 24);
    let piece = build::ethernet(&[], 0x0800, &pieces[0]);
    let echo = in_ipv4(17, &build::udp(5, 2152, &build::gtp(1, 0, &[], &[])));
    for (frame, damaged) in [(&broken, true), (&piece, false), (&echo, false)] {
        let packet = in_ipv4(47, &build::erspan_i(frame));
        let found = inner(whole(&packet, ETHERNET));
        assert_eq!((bytes(&packet, &found), found.depth), (&frame[..], 1));
        let text = found.damage.map(|damage| damage.to_string());
        assert_eq!(text.as_deref(), damaged.then_some("vxlan: impossible flags or type"));
    }
}

#[test]
fn fragments_put_together_are_the_tunnel() {
    for wrapped in wrapped() {
        let v4 = build::ipv4(A4, B4, wrapped.protocol, &[], &wrapped.payload);
        let v6 = build::ipv6(A6, B6, wrapped.protocol, &wrapped.payload);
        let together = [build::ipv4_fragments(&v4, 48), build::ipv6_fragments(&v6, 0xabcdef01, 48)];
        for (pieces, id) in together.into_iter().zip([1, 0xabcdef01]) {
            let first = fragment(&pieces[0], false).0;
            let mut payload = Vec::new();
            for (at, piece) in pieces.iter().enumerate() {
                let ((fragment, part), padded) = (fragment(piece, false), fragment(piece, true));
                assert_eq!((fragment, &part), (padded.0, &padded.1));
                assert_eq!((fragment.offset, fragment.more), (payload.len() as u32, at + 1 < pieces.len()));
                assert_eq!((fragment.datagram, fragment.datagram.id), (first.datagram, id));
                assert_eq!((fragment.len, fragment.plain), (fragment.wire_len, false), "{}", wrapped.name);
                payload.extend(part);
            }
            assert_eq!(payload, wrapped.payload);
            let (source, len) = (first.datagram.addresses[0], payload.len() as u32);
            let found = inner(strip_datagram(&payload, len, first.protocol, source, TunnelKinds::ALL, 4));
            assert_eq!(bytes(&payload, &found), wrapped.inner, "{}", wrapped.name);
            assert_eq!(found.session.source, Some(source));
        }
    }
}

/// The result of `strip` for a fragment of an IP packet on Ethernet, with padding or without.
fn fragment(piece: &[u8], pad: bool) -> (TunnelFragment, Vec<u8>) {
    let ethertype = if piece[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    let mut frame = build::ethernet(&[(0x8100, 1)], ethertype, piece);
    if pad {
        frame.extend([0xee; 18]);
    }
    match whole(&frame, ETHERNET) {
        Outcome::Fragment(fragment) => {
            assert_eq!((fragment.header_start, 18 + fragment.header_len), (18, fragment.start));
            (fragment, frame[fragment.start as usize..][..fragment.len as usize].to_vec())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn fragments_of_other_traffic_pass() {
    let tcp = build::ipv4_fragments(&packets()[2], 400);
    for piece in &tcp {
        assert_eq!(whole(piece, RAW), Outcome::Plain, "no tunnel rides on TCP");
    }
    let dns = build::ipv4(A4, B4, 17, &[], &build::udp(53, 53, &[7; 900]));
    let pieces = build::ipv4_fragments(&dns, 400);
    let plain: Vec<bool> = pieces.iter().map(|piece| fragment(piece, false).0.plain).collect();
    assert_eq!(plain, [true, false, false], "the first fragment shows the port");
    let erspan = "erspan".parse::<TunnelKinds>().unwrap();
    for piece in &pieces {
        assert_eq!(strip(piece, piece.len() as u32, RAW, erspan, 4), Outcome::Plain);
    }
    // An atomic fragment (RFC 6946) is a whole packet.
    let frame = &frames()[0];
    let whole_packet = build::ipv6(A6, B6, 47, &build::erspan_i(frame));
    let atomic = build::ipv6_fragments(&whole_packet, 5, 65_528).swap_remove(0);
    assert_eq!(bytes(&atomic, &inner(whole(&atomic, RAW))), frame);
    let mut reserved = atomic.clone();
    reserved[43] |= 0x06;
    assert_eq!(whole(&reserved, RAW), whole(&atomic, RAW), "reserved bits mean nothing");
}

#[test]
fn large_packets_without_a_length() {
    let data = vec![0x5a; 70_000];
    let large = build::ethernet(&[], 0x0800, &build::ipv4(B4, A4, 6, &[], &data));
    let vxlan = build::udp(5, 4789, &build::vxlan(4, &large));
    for packet in [in_ipv4(17, &vxlan), build::ethernet(&[], 0x86dd, &build::ipv6(A6, B6, 17, &vxlan))] {
        let found = inner(whole(&packet, ETHERNET));
        assert_eq!(bytes(&packet, &found), large);
        assert_eq!(found.wire_len, Some(large.len() as u32));
    }
}

#[test]
fn tzsp_knows_other_links_and_lengths() {
    let beacon = [0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    for (protocol, link) in [(18, 105), (119, 119), (127, 163)] {
        let packet = in_ipv4(17, &build::udp(5, 37008, &build::tzsp(protocol, &[41, 2, 1, 0], &beacon)));
        let found = inner(whole(&packet, ETHERNET));
        assert_eq!((bytes(&packet, &found), found.linktype, found.wire_len), (&beacon[..], link, Some(256)));
    }
    let unknown = in_ipv4(17, &build::udp(5, 37008, &build::tzsp(2, &[], &beacon)));
    assert_eq!(whole(&unknown, ETHERNET), Outcome::Plain);
}

#[test]
fn sessions_are_named() {
    let name = |kind, id| Session { kind, source: Some(A4.into()), id }.to_string();
    assert_eq!(name(TunnelKind::Erspan, Some(5)), "erspan 10.0.0.1 session 5");
    assert_eq!(name(TunnelKind::Erspan, None), "erspan 10.0.0.1");
    assert_eq!(name(TunnelKind::Nvgre, Some(7)), "nvgre 10.0.0.1 vsid 7");
    let label = Session { kind: TunnelKind::Mpls, source: None, id: Some(16) };
    assert_eq!(label.to_string(), "mpls label 16");
    let outer = outers(4, &packets()[0]).swap_remove(0).2;
    assert_eq!(inner(whole(&outer, ETHERNET)).session.to_string(), "ipip 10.0.0.1");
}
