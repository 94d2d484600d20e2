//! The kernel's filter and decapsulation agree: what a relocated filter decides is a packet of which
//! `strip` finds the inner frame, and it decides as the filter itself does on that frame. Packets of all
//! kinds of tunnels, in each other, and changed at random.

use crate::relocated::{MATCHED, UNDECIDED, program, relocation, run};
use proptest::prelude::*;
use quaff_testpackets::{self as build, Erspan, ErspanIii, Gre};
use quaff_wire::filter::{Program, Subject, relocate};
use quaff_wire::tunnel::{Outcome, TunnelKind, TunnelKinds, strip};

const V4: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 0, 0, 1);
const V6: std::net::Ipv6Addr = std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

const VLAN: u16 = 5;

/// One header of a packet, outside of others.
#[derive(Debug, Clone, Copy)]
struct Layer {
    kind: u8,
    number: u16,
    with_tag: bool,
    with_ipv6: bool,
}

impl Layer {
    /// An Ethernet frame with this one in a tunnel.
    fn around(&self, frame: &[u8]) -> Vec<u8> {
        let header = Erspan {
            vlan: self.number & 0xfff,
            cos: 5,
            encapsulation: (self.number >> 12 & 3) as u8,
            truncated: self.number & 0x4000 != 0 && self.with_tag,
            session: 9,
        };
        let more = ErspanIii { platform: self.with_tag.then_some([1; 8]), ..ErspanIii::default() };
        let teb = Gre { key: self.with_tag.then_some(7), ..Gre::default() };
        let udp = |port, payload: &[u8]| (17, build::udp(self.number, port, payload));
        let (protocol, payload) = match self.kind % 16 {
            0 => (47, build::erspan_i(frame)),
            1 | 2 => (47, build::erspan_ii(1, &header, 2, frame)),
            3 => (47, build::erspan_iii(1, &header, &more, frame)),
            4 | 5 => udp(4789, &build::vxlan(5, frame)),
            6 => udp(8472, &build::vxlan(5, frame)),
            7 => udp(6081, &build::geneve(5, 0x6558, &[], frame)),
            8 => (47, build::gre(&teb, 0x6558, frame)),
            9 => (4, frame.get(14..).unwrap_or_default().to_vec()),
            10 => (115, build::l2tp_on_ip(5, &[], None, frame)),
            11 => (17, build::udp(1701, 5555, &build::l2tp_on_udp(5, &[], None, frame))),
            12 => udp(37008, &build::tzsp(1, &[], frame)),
            13 => udp(2152, &build::gtp(255, 5, &[], frame.get(14..).unwrap_or_default())),
            14 => (137, build::mpls(&[5], frame.get(14..).unwrap_or_default())),
            _ => udp(53, frame),
        };
        let (ethertype, packet) = match self.with_ipv6 {
            true => (0x86dd, build::ipv6(V6, V6, protocol, &payload)),
            false => (0x0800, build::ipv4(V4, V4, protocol, &[], &payload)),
        };
        let tags = [(0x8100, self.number)];
        build::ethernet(if self.with_tag && self.kind >= 128 { &tags } else { &[] }, ethertype, &packet)
    }
}

fn layers() -> impl Strategy<Value = Layer> {
    // Tags in frames and in ERSPAN's headers are often of the same VLAN.
    let number = prop_oneof![any::<u16>(), (0u16..16).prop_map(|flags| flags << 12 | VLAN)];
    (any::<u8>(), number, prop::bool::weighted(0.3), prop::bool::weighted(0.2))
        .prop_map(|(kind, number, with_tag, with_ipv6)| Layer { kind, number, with_tag, with_ipv6 })
}

/// The innermost frame: TCP mostly.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop::collection::vec(0u8..96, 0..60);
    let protocol = prop::sample::select(vec![6u8, 6, 6, 1, 17, 50]);
    (payload, protocol, prop::bool::weighted(0.2)).prop_map(|(payload, protocol, has_tag)| {
        let tags: &[_] = if has_tag { &[(0x8100, 0x2000 | VLAN)] } else { &[] };
        build::ethernet(tags, 0x0800, &build::ipv4(V4, V4, protocol, &[], &payload))
    })
}

/// Changes to bytes near the beginning, where headers are.
fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop::collection::vec((12usize..90, any::<u8>()), 0..3)
}

/// Packets by verdict; the test would prove nothing without some of each.
#[derive(Debug, Default)]
struct Seen {
    matched: std::cell::Cell<u32>,
    rejected: std::cell::Cell<u32>,
    undecided: std::cell::Cell<u32>,
}

#[test]
fn the_kernel_keeps_the_frames_that_match_after_decapsulation() {
    let seen = Seen::default();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 60_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let numbers = prop::collection::vec(any::<u32>(), 0..60);
    // The outer headers are mostly those that a filter can be relocated over.
    let movable = layers().prop_map(|layer| Layer { kind: layer.kind % 6, with_ipv6: false, ..layer });
    let outermost = prop_oneof![3 => movable, 1 => layers()];
    let layers = (prop::collection::vec(layers(), 0..3), outermost);
    let cases = (numbers, frames(), layers, changes(), 1u8..5, -30isize..30);
    let checked = runner.run(&cases, |(numbers, frame, (layers, outermost), changes, depth, longer)| {
        let program = Program::new(&program(&numbers)).expect("a program");
        let relocation = relocation(&program, depth);
        let relocated = relocate(&relocation).expect("a program that can be relocated");
        let mut packet = layers.iter().chain([&outermost]).fold(frame, |frame, layer| layer.around(&frame));
        changes.iter().for_each(|(at, byte)| {
            if let Some(place) = packet.get_mut(*at) {
                *place = *byte;
            }
        });
        if longer % 5 == 0 {
            packet.resize(packet.len().saturating_add_signed(longer), 0);
        }
        let verdict = run(&relocated.insns, &packet);
        let count = match verdict {
            MATCHED => &seen.matched,
            UNDECIDED => &seen.undecided,
            _ => &seen.rejected,
        };
        count.set(count.get() + 1);
        for kinds in [TunnelKinds::ALL, [TunnelKind::Erspan, TunnelKind::Vxlan].into_iter().collect()] {
            if verdict != UNDECIDED {
                let outcome = strip(&packet, packet.len() as u32, 1, kinds, depth);
                let Outcome::Inner(inner) = outcome else { panic!("{outcome:?}") };
                prop_assert_eq!(inner.linktype, 1);
                let bytes = &packet[inner.start as usize..][..inner.len as usize];
                let wire_len = inner.wire_len.unwrap_or(inner.len);
                let wanted = program.run(&Subject { bytes, wire_len, tag: inner.tag }) != 0;
                prop_assert_eq!(verdict == MATCHED, wanted, "{:?}", inner);
            }
        }
        Ok(())
    });
    assert!(checked.is_ok(), "{}", checked.unwrap_err());
    let counts = [&seen.matched, &seen.rejected, &seen.undecided].map(std::cell::Cell::get);
    assert!(counts.iter().all(|count| *count > 500), "matched, rejected, undecided: {counts:?}");
}
