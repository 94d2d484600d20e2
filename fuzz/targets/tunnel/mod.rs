//! The properties of the outcome for any bytes, and the headers that lead to each family of tunnels.

use quaff_testpackets as build;
use quaff_wire::tunnel::{Inner, Outcome, TunnelKind, TunnelKinds, strip, strip_datagram};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERNET: u16 = 1;
const DEPTH: u8 = 5;

/// A choice of a way in, bytes that the capture cut off, and what stands at the end of that way.
pub(crate) type Input<'a> = (u8, u16, &'a [u8]);

/// A way in: IP protocol, UDP port or 0, and the bytes of a header before those of the fuzzer.
type Way = (u8, u16, &'static [u8]);

/// Puts the input after right headers that lead to this kind of tunnel.
#[allow(dead_code, reason = "one target begins elsewhere")]
pub(crate) fn inside(kind: TunnelKind, (choice, more, bytes): Input<'_>) {
    let ways = ways(kind);
    let (protocol, port, head) = ways[usize::from(choice >> 1) % ways.len()];
    let mut payload = [head, bytes].concat();
    if port != 0 {
        payload = build::udp(port, port, &payload);
    }
    let (v4, v6) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let frame = if choice & 1 == 0 {
        build::ethernet(&[], 0x0800, &build::ipv4(v4, v4, protocol, &[], &payload))
    } else {
        build::ethernet(&[(0x8100, 1)], 0x86dd, &build::ipv6(v6, v6, protocol, &payload))
    };
    check(&frame, more, ETHERNET);
    let datagram =
        strip_datagram(&payload, payload.len() as u32, protocol, v4.into(), TunnelKinds::ALL, DEPTH);
    if let Outcome::Inner(inner) = datagram {
        check_inner(&inner, &payload, payload.len() as u32, DEPTH);
    }
}

fn ways(kind: TunnelKind) -> &'static [Way] {
    match kind {
        TunnelKind::Erspan => &[
            (47, 0, &[]),
            (47, 0, &[0, 0, 0x88, 0xbe]),
            (47, 0, &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1]),
            (47, 0, &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1]),
        ],
        TunnelKind::Gre | TunnelKind::Nvgre => &[(47, 0, &[])],
        TunnelKind::Vxlan => &[(17, 4789, &[]), (17, 8472, &[]), (17, 4790, &[])],
        TunnelKind::Geneve => &[(17, 6081, &[])],
        TunnelKind::Ipip => &[(4, 0, &[]), (41, 0, &[])],
        TunnelKind::Mpls => &[(17, 6635, &[]), (47, 0, &[0, 0, 0x88, 0x47]), (137, 0, &[])],
        TunnelKind::Gtp => &[(17, 2152, &[])],
        TunnelKind::L2tp => &[(115, 0, &[]), (17, 1701, &[])],
        TunnelKind::Tzsp => &[(17, 37008, &[])],
    }
}

/// Takes tunnels off a frame of which the capture cut off `more` bytes.
pub(crate) fn check(frame: &[u8], more: u16, link: u16) {
    let wire_len = frame.len() as u32 + u32::from(more);
    let outcome = strip(frame, wire_len, link, TunnelKinds::ALL, DEPTH);
    assert_eq!(strip(frame, wire_len, link, TunnelKinds::default(), DEPTH), Outcome::Plain);
    match outcome {
        Outcome::Inner(inner) => {
            check_inner(&inner, frame, wire_len, DEPTH);
            one_by_one(&inner, frame, wire_len, link);
        }
        Outcome::Fragment(fragment) => {
            assert!(fragment.start as usize + fragment.len as usize <= frame.len());
            assert!(fragment.len <= fragment.wire_len && fragment.wire_len <= wire_len);
            assert_eq!(fragment.header_start + fragment.header_len, fragment.start);
            assert!(fragment.more || fragment.offset > 0);
            let source: IpAddr = fragment.datagram.addresses[0];
            let payload = &frame[fragment.start as usize..][..fragment.len as usize];
            strip_datagram(payload, fragment.wire_len, fragment.protocol, source, TunnelKinds::ALL, DEPTH);
        }
        _ => {}
    }
}

/// The inner frame lies in what was given. A length on the wire that is longer than the outer
/// frame's comes from an IP or TZSP header inside a truncating mirror, and has 16 bits.
fn check_inner(inner: &Inner, bytes: &[u8], wire_len: u32, depth: u8) {
    assert!(inner.start as usize + inner.len as usize <= bytes.len());
    let longest = wire_len.max(40 + u32::from(u16::MAX));
    assert!(inner.wire_len.is_none_or(|wire| inner.len <= wire && wire <= longest));
    assert!((1..=depth).contains(&inner.depth));
}

/// Tunnels taken off one at a time lead to the same frame as all at once.
fn one_by_one(all: &Inner, frame: &[u8], wire_len: u32, link: u16) {
    let (mut at, mut bytes, mut wire_len, mut link) = (0, frame, wire_len, link);
    for _ in 0..all.depth {
        let Outcome::Inner(inner) = strip(bytes, wire_len, link, TunnelKinds::ALL, 1) else {
            panic!("a tunnel fewer than {}", all.depth);
        };
        at += inner.start;
        bytes = &bytes[inner.start as usize..][..inner.len as usize];
        link = inner.linktype;
        // A frame that a mirror truncated has no length to give to the next call.
        let Some(wire) = inner.wire_len else { return };
        wire_len = wire;
    }
    assert_eq!((at, bytes.len() as u32, link), (all.start, all.len, all.linktype));
    assert_eq!(Some(wire_len), all.wire_len);
}
