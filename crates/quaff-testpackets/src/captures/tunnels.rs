//! Frames inside one tunnel of each family.

use crate::{Erspan, ErspanIii, Gre, ethernet, geneve, gre, gtp, ipv4, ipv6, mpls, udp, vxlan};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The kinds that [`wrap`] supports.
pub(super) const KINDS: [&str; 14] = [
    "6in4",
    "erspan-1",
    "erspan-2",
    "erspan-3",
    "geneve",
    "gre-bridge",
    "gre-ip",
    "gtp-u",
    "ip-in-ip",
    "mpls",
    "mpls-over-udp",
    "qinq",
    "vxlan",
    "vxlan-ipv6",
];

const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(172, 16, 0, 1), Ipv4Addr::new(172, 16, 0, 2)];
const ENDS_6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)];

/// `frame` inside a tunnel of this kind; `at` is its index. Frames that an IP tunnel cannot carry stay unchanged.
pub(super) fn wrap(kind: &str, at: u32, frame: &[u8]) -> Vec<u8> {
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    let packet = &frame[14..];
    let is_ip = matches!(ethertype, 0x0800 | 0x86dd);
    let header = Erspan { vlan: 100, session: 5, ..Erspan::default() };
    match kind {
        "erspan-1" => on_ip(47, &crate::erspan_i(frame)),
        "erspan-2" => on_ip(47, &crate::erspan_ii(at, &header, 1, frame)),
        "erspan-3" => on_ip(47, &crate::erspan_iii(at, &header, &ErspanIii::default(), frame)),
        "geneve" => on_udp(6081, &geneve(9, 0x6558, &[], frame)),
        "gre-bridge" => on_ip(47, &gre(&Gre::default(), 0x6558, frame)),
        "qinq" => ethernet(&[(0x88a8, 200), (0x8100, 30)], ethertype, packet),
        "vxlan" => on_udp(4789, &vxlan(7, frame)),
        "vxlan-ipv6" => {
            let [from, to] = ENDS_6;
            ethernet(&[], 0x86dd, &ipv6(from, to, 17, &udp(49_152, 4789, &vxlan(7, frame))))
        }
        _ if !is_ip => frame.to_vec(),
        "6in4" | "ip-in-ip" => on_ip(if ethertype == 0x0800 { 4 } else { 41 }, packet),
        "gre-ip" => on_ip(47, &gre(&Gre::default(), ethertype, packet)),
        "gtp-u" => on_udp(2152, &gtp(255, 5, &[], packet)),
        "mpls" => ethernet(&[], 0x8847, &mpls(&[16, 32], packet)),
        "mpls-over-udp" => on_udp(6635, &mpls(&[16], packet)),
        _ => unreachable!("{kind}"),
    }
}

fn on_ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [from, to] = ENDS;
    ethernet(&[], 0x0800, &ipv4(from, to, protocol, &[], payload))
}

fn on_udp(port: u16, payload: &[u8]) -> Vec<u8> {
    on_ip(17, &udp(49_152, port, payload))
}
