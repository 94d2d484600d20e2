//! Paths of made frames, and of arbitrary bytes.

use super::*;
use proptest::prelude::*;
use quaff_testpackets as build;
use std::net::{Ipv4Addr, Ipv6Addr};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const C: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);

/// The path of a frame, and the sources of its IP headers.
fn read(bytes: &[u8], linktype: u16) -> (String, Vec<IpAddr>) {
    let mut sources = Vec::new();
    let path = path(bytes, bytes.len() as u32, linktype, |[source, _]| sources.push(source));
    (path.to_string(), sources)
}

fn words(bytes: &[u8]) -> String {
    read(bytes, ETHERNET.linktype).0
}

fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    build::ipv4(A, B, protocol, &[], payload)
}

fn udp(destination: u16, payload: &[u8]) -> Vec<u8> {
    ip(UDP, &build::udp(40_000, destination, payload))
}

/// A header of TCP without options, and its payload.
fn tcp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let [source, destination] = ports.map(u16::to_be_bytes);
    [&source[..], &destination, &[0; 8], &[0x50, 0x10, 1, 0, 0, 0, 0, 0], payload].concat()
}

#[test]
fn a_usual_packet_has_the_path_of_the_walk() {
    let frames = [
        build::ethernet(&[], 0x0800, &ip(TCP, &tcp([40_000, 443], b"\x17\x03\x03\0\x01x"))),
        build::ethernet(&[], 0x0800, &ip(TCP, &tcp([40_000, 443], b""))),
        build::ethernet(&[], 0x0800, &udp(53, b"query")),
        build::ethernet(&[], 0x0800, &udp(9, b"x")),
        build::ethernet(
            &[],
            0x86dd,
            &build::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, UDP, &build::udp(5353, 5353, b"x")),
        ),
    ];
    let expected = ["eth:ip:tcp:tls", "eth:ip:tcp", "eth:ip:udp:dns", "eth:ip:udp", "eth:ipv6:udp:mdns"];
    for (frame, expected) in frames.iter().zip(expected) {
        let packet = FlowPacket::read(frame, frame.len() as u32, ETHERNET.linktype).unwrap();
        let usual = usual_path(&packet, frame).map(|path| path.to_string());
        assert_eq!((words(frame).as_str(), usual.as_deref()), (expected, Some(expected)));
    }
    let vxlan = build::ethernet(&[], 0x0800, &udp(4789, &build::vxlan(7, &frames[0])));
    let packet = FlowPacket::read(&vxlan, vxlan.len() as u32, ETHERNET.linktype).unwrap();
    assert_eq!(usual_path(&packet, &vxlan), None);
}

#[test]
fn tags_labels_and_sessions_are_rows_of_their_own() {
    let plain = udp(9, b"x");
    assert_eq!(words(&build::ethernet(&[(0x8100, 5)], 0x0800, &plain)), "eth:vlan:ip:udp");
    let two = build::ethernet(&[(0x88a8, 5), (0x8100, 6)], 0x0800, &plain);
    assert_eq!(words(&two), "eth:ieee8021ad:vlan:ip:udp");
    let labels = build::ethernet(&[], 0x8847, &build::mpls(&[70_000, 3], &plain));
    assert_eq!(words(&labels), "eth:mpls:mpls:ip:udp");
    let length = (plain.len() as u16 + 2).to_be_bytes();
    let pppoe = [&[0x11, 0, 0, 1][..], &length, &[0, 0x21], &plain].concat();
    assert_eq!(words(&build::ethernet(&[], 0x8864, &pppoe)), "eth:pppoes:ppp:ip:udp");
    assert_eq!(words(&build::ethernet(&[], 38, &[0x42, 0x42, 3, 0, 0])), "eth:llc:stp");
    assert_eq!(words(&build::ethernet(&[], 0x0806, &[0; 28])), "eth:arp");
    assert_eq!(words(&build::ethernet(&[], 0x88cc, &[0; 28])), "eth:lldp");
    assert_eq!(words(&build::ethernet(&[], 0x1234, &[0; 28])), "eth:data");
    assert_eq!(read(&plain, RAW.linktype).0, "raw:ip:udp");
    assert_eq!(read(&[&[2, 0, 0, 0], &plain[..]].concat(), 0).0, "null:ip:udp");
    assert_eq!(read(&plain, 147).0, "link");
}

#[test]
fn spanning_trees_of_a_vlan_are_those_of_the_network() {
    let pvst = [&LLC_PVST[..], &[0; 30]].concat();
    assert_eq!(words(&build::ethernet(&[], pvst.len() as u16, &pvst)), "eth:llc:stp");
}

#[test]
fn small_numbers_of_a_cooked_header_are_no_lengths() {
    let stp = [0x42, 0x42, 3, 0, 0];
    let cooked = |number: u8| [&[0; 15][..], &[number], &stp].concat();
    let paths = [1, COOKED_LLC as u8, 0x0c].map(|number| read(&cooked(number), types::LINUX_SLL).0);
    assert_eq!(paths, ["sll:data", "sll:llc:stp", "sll:data"]);
    let cooked_2 = [&[0, 1][..], &[0; 18], &stp].concat();
    assert_eq!(read(&cooked_2, types::LINUX_SLL2).0, "sll:data");
}

#[test]
fn ports_of_tunnels_have_rows_without_a_frame_too() {
    for (port, expected) in [
        (4500, "eth:ip:udp:udpencap"),
        (4754, "eth:ip:udp:gre"),
        (6635, "eth:ip:udp:mpls"),
        (8472, "eth:ip:udp:vxlan"),
        (37008, "eth:ip:udp:tzsp"),
    ] {
        assert_eq!(words(&build::ethernet(&[], 0x0800, &udp(port, &[0xff]))), expected);
    }
}

#[test]
fn each_known_link_has_a_row() {
    let known = (0..=u16::MAX).filter(|linktype| crate::net::is_known_link(*linktype));
    let unnamed: Vec<_> = known.filter(|linktype| of_link(*linktype) == Protocol::OtherLink).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

#[test]
fn frames_in_tunnels_continue_the_path_and_have_addresses_of_their_own() {
    let inside = build::ipv4(C, B, TCP, &[], &tcp([40_000, 80], b"GET / HTTP/1.1\r\n\r\n"));
    let frame = build::ethernet(&[], 0x0800, &inside);
    let gre = build::gre(&build::Gre::default(), 0x0800, &inside);
    let erspan = build::erspan_ii(1, &build::Erspan::default(), 0, &frame);
    for (packet, expected) in [
        (ip(GRE, &gre), "eth:ip:gre:ip:tcp:http"),
        (ip(GRE, &erspan), "eth:ip:gre:erspan:eth:ip:tcp:http"),
        (ip(4, &inside), "eth:ip:ip:tcp:http"),
        (udp(4789, &build::vxlan(7, &frame)), "eth:ip:udp:vxlan:eth:ip:tcp:http"),
        (udp(6081, &build::geneve(7, 0x6558, &[], &frame)), "eth:ip:udp:geneve:eth:ip:tcp:http"),
        (udp(2152, &build::gtp(255, 7, &[], &inside)), "eth:ip:udp:gtp:ip:tcp:http"),
        (ip(115, &build::l2tp_on_ip(7, &[], None, &frame)), "eth:ip:l2tp:eth:ip:tcp:http"),
    ] {
        let found = read(&build::ethernet(&[], 0x0800, &packet), ETHERNET.linktype);
        assert_eq!(found, (expected.to_owned(), vec![A.into(), C.into()]));
    }
}

#[test]
fn later_fragments_have_no_transport() {
    let whole = udp(53, &[7; 3000]);
    let parts = build::ipv4_fragments(&whole, 1480);
    let paths: Vec<_> = parts.iter().map(|part| words(&build::ethernet(&[], 0x0800, part))).collect();
    assert_eq!(paths, ["eth:ip:udp:dns", "eth:ip:data", "eth:ip:data"]);
}

#[test]
fn a_path_ends_at_damage() {
    let frame = build::ethernet(&[(0x8100, 5)], 0x0800, &udp(53, b"query"));
    let paths: Vec<_> = (0..frame.len()).map(|len| words(&frame[..len])).collect();
    assert_eq!((paths[3].as_str(), paths[20].as_str()), ("eth", "eth:vlan:ip"));
    assert!(paths.iter().all(|path| "eth:vlan:ip:udp:dns".starts_with(path.as_str())), "{paths:?}");
    let deep = (0..40).fold(udp(9, b"x"), |inside, _| ip(4, &inside));
    assert!(words(&build::ethernet(&[], 0x0800, &deep)).starts_with("eth:ip:ip:ip:ip"));
}

proptest! {
    #[test]
    fn any_bytes_have_a_path(
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        ethertype: prop::sample::Index,
        protocol: prop::sample::Index,
        linktype in 0u16..300,
    ) {
        let ethertypes = [0x0800u16, 0x86dd, 0x8100, 0x8847, 0x8864, 0x88e7, 0x8903, 100];
        let protocols = [TCP, UDP, GRE, 4, 41, 115, 137];
        if frame.len() > 24 {
            frame[12..14].copy_from_slice(&ethertypes[ethertype.index(ethertypes.len())].to_be_bytes());
            (frame[14], frame[16], frame[17], frame[20], frame[21]) = (0x45, 0, 190, 0, 0);
            frame[23] = protocols[protocol.index(protocols.len())];
        }
        for linktype in [linktype, ETHERNET.linktype] {
            let path = path(&frame, frame.len() as u32 + 5, linktype, |_| ());
            prop_assert!(!path.is_empty());
            if let Ok(packet) = FlowPacket::read(&frame, frame.len() as u32, linktype)
                && (FlowPacket::plain(&frame, linktype).is_some() || FlowPacket::plain_ipv6(&frame, linktype).is_some())
                && let Some(usual) = usual_path(&packet, &frame)
            {
                prop_assert_eq!(usual, path);
            }
        }
    }
}
