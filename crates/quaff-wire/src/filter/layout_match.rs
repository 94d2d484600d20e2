//! Matches the outer headers that a relocated filter may decide about: tunnels of fixed length over plain IPv4 on
//! Ethernet, recognised by every field that decapsulation examines.
//!
//! The rule of this file: when in doubt, accept the packet for user space. A load that could lie outside of a packet
//! must not be reached, because it would reject the packet instead.

use super::asm::{Asm, Label};
use super::insn::code::{
    ABS, ADD, ALU, AND, B, H, IMM, IND, JEQ, JGE, JSET, LD, LDX, LEN, MEM, MISC, ST, SUB, TAX, TXA, W, X,
};
use crate::net::{
    self, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, GRE, ICMP, ICMPV6, TCP, TPID_CUSTOMER, UDP,
};
use crate::tunnel::{TunnelKind, TunnelKinds};
use std::fmt;

/// A tunnel with headers of constant length, so that the offset of the inner frame is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelLayout {
    /// GRE without options: 14 + 20 + 4.
    Erspan1,
    /// GRE with a sequence number, and a type II header: 14 + 20 + 8 + 8.
    Erspan2,
    /// The same, with a removed VLAN tag in the header, which is restored in the frame.
    Erspan2Tagged,
    /// GRE with a sequence number, and a type III header: 14 + 20 + 8 + 12.
    Erspan3,
    /// The same with the platform subheader.
    Erspan3Platform,
    /// UDP and VXLAN: 14 + 20 + 8 + 8.
    Vxlan,
}

impl TunnelLayout {
    /// All layouts, most frequent first.
    const ALL: [Self; 6] = [
        Self::Erspan2,
        Self::Vxlan,
        Self::Erspan2Tagged,
        Self::Erspan3,
        Self::Erspan1,
        Self::Erspan3Platform,
    ];

    /// The layouts of these kinds of tunnel, most frequent first.
    pub(super) fn of(kinds: TunnelKinds) -> Vec<Self> {
        let is_wanted = |layout: &Self| match layout {
            Self::Vxlan => kinds.contains(TunnelKind::Vxlan),
            _ => kinds.contains(TunnelKind::Erspan),
        };
        Self::ALL.into_iter().filter(is_wanted).collect()
    }

    /// Offset of the inner frame.
    pub(super) fn bytes(self) -> u32 {
        match self {
            Self::Erspan1 => 38,
            Self::Erspan2 | Self::Erspan2Tagged | Self::Vxlan => 50,
            Self::Erspan3 => 54,
            Self::Erspan3Platform => 62,
        }
    }

    /// Returns true if a VLAN tag is restored in the inner frame.
    pub(super) fn is_tagged(self) -> bool {
        self == Self::Erspan2Tagged
    }
}

impl fmt::Display for TunnelLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Erspan1 => "ERSPAN I",
            Self::Erspan2 => "ERSPAN II",
            Self::Erspan2Tagged => "ERSPAN II with a removed VLAN tag",
            Self::Erspan3 => "ERSPAN III",
            Self::Erspan3Platform => "ERSPAN III with a platform subheader",
            Self::Vxlan => "VXLAN",
        })
    }
}

/// Offsets in the outer packet: Ethernet, IPv4 without options, then GRE or UDP.
mod at {
    pub(super) const ETHERTYPE: u32 = 12;
    pub(super) const VERSION_IHL: u32 = 14;
    pub(super) const TOTAL_LENGTH: u32 = 16;
    pub(super) const FRAGMENT: u32 = 20;
    pub(super) const PROTOCOL: u32 = 23;
    pub(super) const GRE: u32 = 34;
    pub(super) const UDP_DESTINATION: u32 = 36;
    pub(super) const UDP_LENGTH: u32 = 38;
    /// The header of ERSPAN II and III after GRE with a sequence number; the VXLAN header after UDP.
    pub(super) const HEADER: u32 = 42;
    /// The lower half of its first word: COS, En or BSO, T, session.
    pub(super) const HEADER_LOW: u32 = 44;
    /// The inner frame in ERSPAN II: its EtherType, or the TPID of its first tag, and that tag's TCI.
    pub(super) const ERSPAN2_ETHERTYPE: u32 = 50 + 12;
    pub(super) const ERSPAN2_TCI: u32 = 50 + 14;
    /// ERSPAN III: P, frame type, hardware, direction, granularity, O.
    pub(super) const ERSPAN3_FLAGS: u32 = 52;
}

const ETHERNET_BYTES: u32 = net::ETHERNET_BYTES as u32;
const IPV4_BYTES: u32 = net::IPV4_BYTES as u32;
/// More Fragments or a fragment offset: all bits but Don't Fragment and the reserved one.
const IS_FRAGMENT: u32 = 0x3fff;
/// IPv4 without options.
const VERSION_IHL: u32 = 0x45;
const VXLAN_PORT: u32 = 4789;
/// Shortest packet of any layout with an inner Ethernet header, bytes.
const OUTER_BYTES_MIN: u32 = 38 + ETHERNET_BYTES;
/// UDP ports by which an inner packet may be a tunnel: L2TP, GTP-U, MPLS, Geneve, VXLAN (and Linux's old port),
/// VXLAN-GPE, TZSP, GRE.
pub(super) const TUNNEL_PORTS: [u32; 9] = [1701, 2152, 6635, 6081, 4789, 8472, 4790, 37008, 4754];

/// The jump targets of a match.
pub(super) struct Targets<'a> {
    /// The packet cannot be decided here.
    pub(super) up: Label,
    /// The code that decides, for each layout.
    pub(super) bodies: &'a [(TunnelLayout, Label)],
    /// Leave packets whose original length the mirror truncated to user space: the program loads the length.
    pub(super) asks_len: bool,
}

impl Targets<'_> {
    fn body(&self, layout: TunnelLayout) -> Option<Label> {
        self.bodies.iter().find(|(of, _)| *of == layout).map(|(_, label)| *label)
    }

    fn has_any(&self, layouts: &[TunnelLayout]) -> bool {
        layouts.iter().any(|layout| self.body(*layout).is_some())
    }
}

/// Recognises the layouts. Always ends in a jump.
pub(super) fn match_layouts(asm: &mut Asm, targets: &Targets<'_>) {
    let (gre, udp) = (asm.label(), asm.label());
    asm.put(LD | LEN, 0);
    asm.expect(JGE, OUTER_BYTES_MIN, targets.up);
    asm.put(LD | H | ABS, at::ETHERTYPE);
    asm.expect(JEQ, ETHERTYPE_IPV4, targets.up);
    asm.put(LD | B | ABS, at::VERSION_IHL);
    asm.expect(JEQ, VERSION_IHL, targets.up);
    asm.put(LD | H | ABS, at::FRAGMENT);
    asm.refuse(JSET, IS_FRAGMENT, targets.up);
    // If the datagram ends before the frame (padding, an FCS), so does the inner frame.
    expect_length(asm, at::TOTAL_LENGTH, ETHERNET_BYTES, targets.up);
    asm.put(LD | B | ABS, at::PROTOCOL);
    let not_gre = asm.label();
    asm.branch(JEQ, GRE, gre, not_gre);
    asm.place(not_gre);
    asm.branch(JEQ, UDP, udp, targets.up);
    asm.place(udp);
    match_vxlan(asm, targets);
    asm.place(gre);
    match_gre(asm, targets);
}

/// Continues if the 16-bit length at `offset` plus `extra` equals the packet's length, otherwise at `up`.
fn expect_length(asm: &mut Asm, offset: u32, extra: u32, up: Label) {
    asm.put(LD | H | ABS, offset);
    asm.put(MISC | TAX, 0);
    asm.put(LD | LEN, 0);
    asm.put(ALU | SUB, extra);
    let next = asm.label();
    asm.branch(JEQ | X, 0u32, next, up);
    asm.place(next);
}

fn match_vxlan(asm: &mut Asm, targets: &Targets<'_>) {
    /// The I flag. All others are ignored on receipt (RFC 7348, section 5).
    const INSTANCE: u32 = 0x08;
    if !targets.has_any(&[TunnelLayout::Vxlan]) {
        return asm.jump(targets.up);
    }
    asm.put(LD | H | ABS, at::UDP_DESTINATION);
    asm.expect(JEQ, VXLAN_PORT, targets.up);
    expect_length(asm, at::UDP_LENGTH, ETHERNET_BYTES + IPV4_BYTES, targets.up);
    asm.put(LD | B | ABS, at::HEADER);
    asm.expect(JSET, INSTANCE, targets.up);
    enter(asm, TunnelLayout::Vxlan, targets);
}

fn match_gre(asm: &mut Asm, targets: &Targets<'_>) {
    let (type1, type2, type3) = (asm.label(), asm.label(), asm.label());
    let kinds = [(0x0000_88be_u32, type1), (0x1000_88be, type2), (0x1000_22eb, type3)];
    asm.put(LD | W | ABS, at::GRE);
    for (flags_and_protocol, label) in kinds {
        asm.refuse(JEQ, flags_and_protocol, label);
    }
    asm.jump(targets.up);
    asm.place(type1);
    enter(asm, TunnelLayout::Erspan1, targets);
    asm.place(type2);
    match_erspan2(asm, targets);
    asm.place(type3);
    match_erspan3(asm, targets);
}

fn match_erspan2(asm: &mut Asm, targets: &Targets<'_>) {
    /// The trunk encapsulation; 2 is 802.1Q: the tag was removed, and is in the header.
    const EN: u32 = 0x1800;
    const EN_TAG_REMOVED: u32 = 0x1000;
    const VLAN: u32 = 0x0fff;
    if !targets.has_any(&[TunnelLayout::Erspan2, TunnelLayout::Erspan2Tagged]) {
        return asm.jump(targets.up);
    }
    match_version(asm, 1, targets);
    let (plain, tagged) = (asm.label(), asm.label());
    asm.put(LD | H | ABS, at::HEADER_LOW);
    asm.put(ALU | AND, EN);
    asm.expect(JEQ, EN_TAG_REMOVED, plain);
    // The frame may still have that tag.
    asm.put(LD | LEN, 0);
    asm.expect(JGE, at::ERSPAN2_TCI + 2, tagged);
    asm.put(LD | H | ABS, at::ERSPAN2_ETHERTYPE);
    asm.expect(JEQ, TPID_CUSTOMER, tagged);
    asm.put(LD | H | ABS, at::HEADER);
    asm.put(ALU | AND, VLAN);
    asm.put(MISC | TAX, 0);
    asm.put(LD | H | ABS, at::ERSPAN2_TCI);
    asm.put(ALU | AND, VLAN);
    asm.branch(JEQ | X, 0u32, plain, tagged);
    for (label, layout) in [(plain, TunnelLayout::Erspan2), (tagged, TunnelLayout::Erspan2Tagged)] {
        asm.place(label);
        enter(asm, layout, targets);
    }
}

fn match_erspan3(asm: &mut Asm, targets: &Targets<'_>) {
    const HAS_PLATFORM: u32 = 0x0001;
    const FRAME_TYPE: u32 = 0x7c00;
    if !targets.has_any(&[TunnelLayout::Erspan3, TunnelLayout::Erspan3Platform]) {
        return asm.jump(targets.up);
    }
    asm.put(LD | LEN, 0);
    asm.expect(JGE, TunnelLayout::Erspan3.bytes() + ETHERNET_BYTES, targets.up);
    match_version(asm, 2, targets);
    asm.put(LD | H | ABS, at::ERSPAN3_FLAGS);
    asm.refuse(JSET, FRAME_TYPE, targets.up);
    let (plain, platform) = (asm.label(), asm.label());
    asm.branch(JSET, HAS_PLATFORM, platform, plain);
    for (label, layout) in [(plain, TunnelLayout::Erspan3), (platform, TunnelLayout::Erspan3Platform)] {
        asm.place(label);
        enter(asm, layout, targets);
    }
}

/// Matches the version of an ERSPAN header, and its T bit if the length matters: the original length of a truncated
/// frame is unknown.
fn match_version(asm: &mut Asm, version: u32, targets: &Targets<'_>) {
    const TRUNCATED: u32 = 0x0400;
    asm.put(LD | B | ABS, at::HEADER);
    asm.put(ALU | AND, 0xf0);
    asm.expect(JEQ, version << 4, targets.up);
    if targets.asks_len {
        asm.put(LD | H | ABS, at::HEADER_LOW);
        asm.refuse(JSET, TRUNCATED, targets.up);
    }
}

/// Jumps to the body of a layout if it has one and the inner Ethernet header is complete.
fn enter(asm: &mut Asm, layout: TunnelLayout, targets: &Targets<'_>) {
    let Some(body) = targets.body(layout) else { return asm.jump(targets.up) };
    asm.put(LD | LEN, 0);
    asm.branch(JGE, layout.bytes() + ETHERNET_BYTES, body, targets.up);
}

/// The part of a match that examines the inner frame's own headers, for `--decap-depth` above 1.
///
/// It continues at a body only if the inner frame cannot be a tunnel, after at most one VLAN tag: ARP; TCP and ICMP
/// over IPv4 without options or IPv6 without extension headers; unfragmented UDP over these without a tunnel port.
pub(super) struct NestedMatch {
    /// The targets of the outer match.
    pub(super) entries: Vec<(TunnelLayout, Label)>,
    bodies: Vec<(TunnelLayout, Label)>,
    slot: u32,
    up: Label,
}

/// Offsets in an inner frame, relative to X.
mod inner {
    pub(super) const ETHERTYPE: u32 = 12;
    pub(super) const VERSION_IHL: u32 = 14;
    pub(super) const FRAGMENT: u32 = 20;
    pub(super) const PROTOCOL: u32 = 23;
    pub(super) const NEXT_HEADER: u32 = 20;
    pub(super) const IPV4_PORTS: u32 = 34;
    pub(super) const IPV6_PORTS: u32 = 54;
    pub(super) const IPV4_UDP_END: u32 = 42;
    pub(super) const IPV6_UDP_END: u32 = 62;
}

impl NestedMatch {
    /// Creates a match before `bodies`. `slot` is a scratch word.
    pub(super) fn new(asm: &mut Asm, bodies: Vec<(TunnelLayout, Label)>, slot: u32, up: Label) -> Self {
        let entries = bodies.iter().map(|(layout, _)| (*layout, asm.label())).collect();
        Self { entries, bodies, slot, up }
    }

    /// Emits the match.
    pub(super) fn write(&self, asm: &mut Asm) {
        let (look, decide) = (asm.label(), asm.label());
        for (number, (layout, entry)) in self.entries.iter().enumerate() {
            asm.place(*entry);
            asm.put(LD | IMM, number as u32);
            asm.put(ST, self.slot);
            asm.put(LDX | IMM, layout.bytes());
            asm.jump(look);
        }
        asm.place(look);
        self.look(asm, decide);
        asm.place(decide);
        asm.put(LD | MEM, self.slot);
        for (number, (_, body)) in self.bodies.iter().enumerate() {
            asm.refuse(JEQ, number as u32, *body);
        }
        asm.jump(self.up);
    }

    fn look(&self, asm: &mut Asm, decide: Label) {
        let (ipv4, ipv6) = (asm.label(), asm.label());
        asm.put(LD | H | IND, inner::ETHERTYPE);
        asm.refuse(JEQ, ETHERTYPE_IPV4, ipv4);
        asm.refuse(JEQ, ETHERTYPE_IPV6, ipv6);
        asm.refuse(JEQ, ETHERTYPE_ARP, decide);
        asm.expect(JEQ, TPID_CUSTOMER, self.up);
        self.step_over_tag(asm);
        asm.put(LD | H | IND, inner::ETHERTYPE);
        asm.refuse(JEQ, ETHERTYPE_IPV4, ipv4);
        asm.refuse(JEQ, ETHERTYPE_IPV6, ipv6);
        asm.branch(JEQ, ETHERTYPE_ARP, decide, self.up);
        asm.place(ipv4);
        self.look_ipv4(asm, decide);
        asm.place(ipv6);
        self.look_ipv6(asm, decide);
    }

    /// Sets X to the start of an equivalent frame without its tag.
    fn step_over_tag(&self, asm: &mut Asm) {
        asm.put(MISC | TXA, 0);
        asm.put(ALU | ADD, 4);
        asm.put(MISC | TAX, 0);
        self.expect_bytes(asm, ETHERNET_BYTES);
    }

    /// Leaves packets with fewer bytes after X to user space.
    fn expect_bytes(&self, asm: &mut Asm, bytes: u32) {
        asm.put(MISC | TXA, 0);
        asm.put(ALU | ADD, bytes);
        asm.put(MISC | TAX, 0);
        asm.put(LD | LEN, 0);
        let next = asm.label();
        asm.branch(JGE | X, 0u32, next, self.up);
        asm.place(next);
        asm.put(MISC | TXA, 0);
        asm.put(ALU | SUB, bytes);
        asm.put(MISC | TAX, 0);
    }

    fn look_ipv4(&self, asm: &mut Asm, decide: Label) {
        self.expect_bytes(asm, inner::IPV4_UDP_END);
        asm.put(LD | B | IND, inner::VERSION_IHL);
        asm.expect(JEQ, VERSION_IHL, self.up);
        asm.put(LD | B | IND, inner::PROTOCOL);
        asm.refuse(JEQ, TCP, decide);
        asm.refuse(JEQ, ICMP, decide);
        asm.expect(JEQ, UDP, self.up);
        asm.put(LD | H | IND, inner::FRAGMENT);
        asm.refuse(JSET, IS_FRAGMENT, self.up);
        self.look_ports(asm, inner::IPV4_PORTS, decide);
    }

    fn look_ipv6(&self, asm: &mut Asm, decide: Label) {
        self.expect_bytes(asm, inner::IPV6_UDP_END);
        asm.put(LD | B | IND, inner::VERSION_IHL);
        asm.put(ALU | AND, 0xf0);
        asm.expect(JEQ, 6u32 << 4, self.up);
        asm.put(LD | B | IND, inner::NEXT_HEADER);
        asm.refuse(JEQ, TCP, decide);
        asm.refuse(JEQ, ICMPV6, decide);
        asm.expect(JEQ, UDP, self.up);
        self.look_ports(asm, inner::IPV6_PORTS, decide);
    }

    fn look_ports(&self, asm: &mut Asm, ports: u32, decide: Label) {
        for side in [ports, ports + 2] {
            asm.put(LD | H | IND, side);
            TUNNEL_PORTS.iter().for_each(|port| asm.refuse(JEQ, *port, self.up));
        }
        asm.jump(decide);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::insn::code::{K, RET};
    use crate::filter::{Program, Subject};
    use quaff_testpackets as build;
    use std::net::Ipv4Addr;

    const UP: u32 = 1000;

    /// Runs a match of all layouts: returns the number of the layout, or [`UP`].
    fn matched(packet: &[u8], asks_len: bool) -> u32 {
        let mut asm = Asm::default();
        let up = asm.label();
        let bodies: Vec<_> = TunnelLayout::ALL.into_iter().map(|layout| (layout, asm.label())).collect();
        match_layouts(&mut asm, &Targets { up, bodies: &bodies, asks_len });
        for (number, (_, label)) in (0..).zip(&bodies) {
            asm.place(*label);
            asm.put(RET | K, number);
        }
        asm.place(up);
        asm.put(RET | K, UP);
        let program = Program::new(&asm.finish()).expect("a program");
        program.run(&Subject { bytes: packet, wire_len: packet.len() as u32, ..Subject::default() })
    }

    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        build::ethernet(&[], 0x0800, &build::ipv4(a, b, protocol, &[], payload))
    }

    #[test]
    fn each_layout_is_recognised() {
        let frame = build::ethernet(&[], 0x0800, &[0x45; 60]);
        let plain = build::Erspan { session: 7, ..build::Erspan::default() };
        let tagged = build::Erspan { encapsulation: 2, ..plain };
        let (iii, platform) =
            (build::ErspanIii::default(), build::ErspanIii { platform: Some([0; 8]), ..Default::default() });
        let vxlan = build::udp(4000, 4789, &build::vxlan(7, &frame));
        let cases = [
            (TunnelLayout::Erspan1, packet(47, &build::erspan_i(&frame))),
            (TunnelLayout::Erspan2, packet(47, &build::erspan_ii(1, &plain, 0, &frame))),
            (TunnelLayout::Erspan2Tagged, packet(47, &build::erspan_ii(1, &tagged, 0, &frame))),
            (TunnelLayout::Erspan3, packet(47, &build::erspan_iii(1, &plain, &iii, &frame))),
            (TunnelLayout::Erspan3Platform, packet(47, &build::erspan_iii(1, &plain, &platform, &frame))),
            (TunnelLayout::Vxlan, packet(17, &vxlan)),
        ];
        for (layout, mut bytes) in cases {
            let number =
                TunnelLayout::ALL.iter().position(|other| *other == layout).expect("a layout") as u32;
            assert_eq!(matched(&bytes, true), number, "{layout}");
            assert_eq!(bytes[layout.bytes() as usize..], frame[..], "{layout}");
            bytes.push(0);
            assert_eq!(matched(&bytes, true), UP, "{layout} with padding");
        }
    }

    #[test]
    fn a_tag_that_was_not_removed_is_not_restored() {
        let header = build::Erspan { vlan: 865, encapsulation: 2, ..build::Erspan::default() };
        let number = |layout| TunnelLayout::ALL.iter().position(|of| *of == layout).expect("a layout") as u32;
        let tag = |tpid, tci, bytes| build::ethernet(&[(tpid, tci)], 0x0806, &[0; 46])[..bytes].to_vec();
        for (frame, layout) in [
            (tag(0x8100, 0xf000 | 865, 64), TunnelLayout::Erspan2),
            (tag(0x8100, 866, 64), TunnelLayout::Erspan2Tagged),
            (tag(0x88a8, 865, 64), TunnelLayout::Erspan2Tagged),
            (tag(0x8100, 865, 15), TunnelLayout::Erspan2Tagged),
        ] {
            let packet = packet(47, &build::erspan_ii(1, &header, 0, &frame));
            assert_eq!(matched(&packet, false), number(layout), "{frame:x?}");
        }
    }

    #[test]
    fn a_packet_in_doubt_is_passed_up() {
        let frame = build::ethernet(&[], 0x0800, &[0x45; 60]);
        let cut = build::Erspan { truncated: true, ..build::Erspan::default() };
        let truncated = packet(47, &build::erspan_ii(1, &cut, 0, &frame));
        assert_eq!([matched(&truncated, true), matched(&truncated, false)], [UP, 0]);
        let mut fragment = packet(17, &build::udp(4000, 4789, &build::vxlan(7, &frame)));
        assert_ne!(matched(&fragment, false), UP);
        fragment[20] = 0x20;
        assert_eq!(matched(&fragment, false), UP, "more fragments");
        assert_eq!(matched(&packet(6, &frame), false), UP, "TCP");
        assert_eq!(matched(&frame[..20], false), UP, "too short");
    }
}
