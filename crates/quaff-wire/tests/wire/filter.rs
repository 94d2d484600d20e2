//! A relocated filter decides about a tunnel's packet as the filter itself does about the inner frame:
//! any program, any inner frame, each layout. What is not quite such a tunnel is passed up.

use crate::relocated::{BOTH, MATCHED, UNDECIDED, program, relocation, run};
use proptest::prelude::*;
use quaff_wire::filter::{Insn, NotRelocatable, Program, Relocation, Subject, WithTag, relocate, with_tag};
use quaff_wire::tunnel::TunnelKinds;

/// The headers around a frame.
#[derive(Debug, Clone, Copy)]
struct Outer {
    layout: usize,
    tci: u16,
    is_tagged: bool,
    is_cut: bool,
}

/// Ethernet and IPv4 around a payload.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len() as u16).to_be_bytes();
    let mut packet = vec![2; 12];
    packet.extend([
        8, 0, 0x45, 0, total[0], total[1], 0, 7, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    packet.extend(payload);
    packet
}

impl Outer {
    /// The packet, and the tag that goes back into its inner frame.
    fn around(&self, inner: &[u8]) -> (Vec<u8>, Option<(u16, u16)>) {
        let mut tag = None;
        let cut = if self.is_cut { 0x04 } else { 0 };
        let [high, low] = self.tci.to_be_bytes();
        let mut payload = match self.layout % 5 {
            0 => vec![0, 0, 0x88, 0xbe],
            1 => {
                let en = if self.is_tagged { 0x10 } else { 0x18 };
                tag = self.is_tagged.then_some((0x8100, self.tci & 0xefff));
                let words = [0x10 | (high & 0xf), low, (high & 0xe0) | en | cut, 5, 0, 0, 0, 3];
                [&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1][..], &words].concat()
            }
            2 | 3 => {
                let o = (self.layout % 5 == 3) as u8;
                let words = [0x20, 1, cut, 5, 1, 2, 3, 4, 0, 0, 0x80, 0x04 | o];
                let subheader = [8, 7, 6, 5, 4, 3, 2, 1];
                [&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1][..], &words, &subheader[..8 * usize::from(o)]].concat()
            }
            _ => {
                let total = (16 + inner.len() as u16).to_be_bytes();
                vec![0x12, 0x34, 0x12, 0xb5, total[0], total[1], 0, 0, 8, 0, 0, 0, 0, 0, 5, 0]
            }
        };
        payload.extend(inner);
        (ipv4(if self.layout % 5 == 4 { 17 } else { 47 }, &payload), tag)
    }
}

fn outers() -> impl Strategy<Value = Outer> {
    let layouts = prop::sample::select(vec![0usize, 1, 1, 2, 3, 4]);
    (layouts, any::<u16>(), any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(layout, tci, is_tagged, is_cut)| Outer { layout, tci, is_tagged, is_cut })
}

/// Ethernet frames that look like some, so that programs find what they look for.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let types = prop::sample::select(vec![0x0800u16, 0x0806, 0x86dd, 0x8100, 0x88a8, 5]);
    (prop::collection::vec(0u8..96, 0..110), types, any::<bool>()).prop_map(
        |(mut frame, ethertype, is_long)| {
            if is_long {
                frame.resize(110, 77);
            }
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
                frame[14] = if ethertype == 0x0800 { 0x45 } else { 0x60 };
            }
            frame
        },
    )
}

/// A load of the tag that the kernel has beside the frame, as an instruction that any machine has.
fn read_tag(insn: Insn, tag: Option<(u16, u16)>) -> Insn {
    let (tpid, tci) = tag.unwrap_or_default();
    let value = match insn.k.wrapping_sub(0xffff_f000) {
        44 => u32::from(tci),
        48 => u32::from(tag.is_some()),
        60 => u32::from(tpid),
        _ => return insn,
    };
    if insn.code & 0xe7 == 0x20 { Insn { code: 0, jt: 0, jf: 0, k: value } } else { insn }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn relocated_and_original_decide_alike(
        numbers in prop::collection::vec(any::<u32>(), 0..70), inner in frames(), outer in outers(), depth in 1u8..3
    ) {
        let program = Program::new(&program(&numbers)).expect("a program");
        let relocation = relocation(&program, depth);
        let relocated = relocate(&relocation).expect("a program that can be relocated");
        let (packet, tag) = outer.around(&inner);
        let verdict = run(&relocated.insns, &packet);
        let wire_len = inner.len() as u32;
        let wanted = program.run(&Subject { bytes: &inner, wire_len, tag }) != 0;
        if verdict != UNDECIDED {
            prop_assert_eq!(verdict, if wanted { MATCHED } else { 0 });
        } else if depth == 1 && tag.is_none() && !outer.is_cut {
            prop_assert!(inner.len() < 14, "the kernel did not decide");
        }
    }

    #[test]
    fn frames_that_resemble_a_tunnel_are_passed_up(
        inner in prop::collection::vec(any::<u8>(), 14..80), outer in outers(), change in 0usize..9, number in any::<u8>()
    ) {
        let reject = Program::new(&[Insn { code: 6, jt: 0, jf: 0, k: 0 }]).expect("a program");
        let relocation = relocation(&reject, 1);
        let relocated = relocate(&relocation).expect("a program that can be relocated");
        let (mut packet, _) = outer.around(&inner);
        prop_assert_eq!(run(&relocated.insns, &packet), 0);
        match change {
            0 => packet[12] = number | 0x10,
            1 => packet[14] = if number == 0x45 { 0x46 } else { number },
            2 => packet[20] |= 0x20,
            3 => packet[21] = number.max(1),
            4 => packet[23] = number & 0x0f,
            5 => packet.push(0),
            6 => packet[34 + usize::from(number % 2)] |= 0xa0,
            7 => packet[36] ^= 0x40,
            _ => packet.truncate(usize::from(number) % (outer_bytes(&outer) + 14)),
        }
        let is_source_port = outer.layout % 5 == 4 && change == 6;
        prop_assert_eq!(run(&relocated.insns, &packet), if is_source_port { 0 } else { UNDECIDED });
    }

    /// The kernel keeps the outer tag beside the frame, and the filter decides as on the frame with it.
    #[test]
    fn a_tag_beside_a_frame_counts_as_one_in_it(
        numbers in prop::collection::vec(any::<u32>(), 0..40), frame in frames(), tci in any::<u16>(),
        tpid in prop::sample::select(vec![0x8100u16, 0x88a8]), is_tagged in any::<bool>()
    ) {
        let program = Program::new(&program(&numbers)).expect("a program");
        // libpcap looks at the EtherType before such a load, which reads no tag then.
        let may_read_tag = |insn: &Insn| (insn.code & 0xe7 == 0x40 || insn.code == 0xb1) && (12..16).contains(&insn.k);
        if program.insns().iter().any(may_read_tag) {
            return Ok(());
        }
        let tag = is_tagged.then_some((tpid, tci));
        let WithTag { insns, is_exact } = with_tag(&program, MATCHED);
        let insns: Vec<_> = insns.into_iter().map(|insn| read_tag(insn, tag)).collect();
        let wanted = program.run(&Subject { bytes: &frame, wire_len: frame.len() as u32, tag }) != 0;
        let is_accepted = wanted || is_tagged && !is_exact;
        // The kernel takes no tag off anything shorter.
        if frame.len() >= 12 {
            prop_assert_eq!(run(&insns, &frame), if is_accepted { MATCHED } else { 0 });
        }
    }

    #[test]
    fn any_program_is_survived(
        insns in prop::collection::vec((0u16..0x100, any::<u8>(), any::<u8>(), any::<u32>()), 0..30), bytes in frames()
    ) {
        let insns: Vec<_> =
            insns.into_iter().map(|(code, jt, jf, k)| Insn { code, jt: jt % 8, jf: jf % 8, k: k % 64 }).collect();
        if let Ok(program) = Program::new(&insns) {
            program.run(&Subject { bytes: &bytes, wire_len: 60, tag: Some((1, 2)) });
        }
    }
}

fn outer_bytes(outer: &Outer) -> usize {
    outer.around(&[]).0.len()
}

#[test]
fn nested_tunnels_are_left_to_decapsulation() {
    let accept = Program::new(&[Insn { code: 6, jt: 0, jf: 0, k: 1 }]).expect("a program");
    let of_depth = |depth| {
        let relocation = relocation(&accept, depth);
        relocate(&relocation).expect("a program that can be relocated").insns
    };
    let erspan2 = Outer { layout: 1, tci: 0, is_tagged: false, is_cut: false };
    let udp = |port: u16| {
        let [high, low] = port.to_be_bytes();
        ipv4(17, &[[high, low, 0, 53, 0, 40, 0, 0], [0, 53, high, low, 0, 40, 0, 0]].concat()[..]).to_vec()
    };
    let mut tagged = ipv4(6, &[0; 40]);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let mut twice = tagged.clone();
    twice.splice(12..12, [0x81, 0, 0, 5]);
    for (inner, is_decided) in [
        (ipv4(6, &[0; 40]), true),
        (ipv4(1, &[0; 40]), true),
        (tagged, true),
        (twice, false),
        (udp(53), true),
        (udp(4789), false),
        (udp(2152), false),
        (ipv4(47, &[0; 40]), false),
        (ipv4(4, &[0; 40]), false),
        (ipv4(6, &[0; 4]), false),
        (vec![0x86; 60], false),
    ] {
        let (packet, _) = erspan2.around(&inner);
        assert_eq!(run(&of_depth(1), &packet), MATCHED);
        assert_eq!(run(&of_depth(4), &packet), if is_decided { MATCHED } else { UNDECIDED }, "{inner:02x?}");
    }
}

#[test]
fn a_filter_on_outer_packets_comes_first() {
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    let accept = Program::new(&[insn(6, 0, 0, 1)]).expect("a program");
    // The last byte of the source address is 1.
    let outer = [insn(0x30, 0, 0, 29), insn(0x15, 0, 1, 1), insn(6, 0, 0, 96), insn(6, 0, 0, 0)];
    let relocation = Relocation {
        inner: &accept,
        outer: Some(&outer),
        kinds: BOTH,
        depth: 1,
        matched: MATCHED,
        undecided: UNDECIDED,
    };
    let insns = relocate(&relocation).expect("a program that can be relocated").insns;
    let (mut packet, _) = Outer { layout: 0, tci: 0, is_tagged: false, is_cut: false }.around(&[7; 60]);
    assert_eq!(run(&insns, &packet), MATCHED);
    packet[29] = 2;
    assert_eq!(run(&insns, &packet), 0);
    let broken = [insn(5, 0, 0, 7), insn(6, 0, 0, 0)];
    assert_eq!(relocate(&Relocation { outer: Some(&broken), ..relocation }), Err(NotRelocatable::Outer));
}

#[test]
fn unfit_programs_are_refused() {
    let insn = |code, k| Insn { code, jt: 0, jf: 0, k };
    let of = |insns: &[Insn], layouts| {
        let program = Program::new(insns).expect("a program");
        let relocation = Relocation {
            inner: &program,
            outer: None,
            kinds: layouts,
            depth: 1,
            matched: MATCHED,
            undecided: UNDECIDED,
        };
        relocate(&relocation)
    };
    let accept = [insn(6, 1)];
    assert_eq!(of(&accept, TunnelKinds::default()), Err(NotRelocatable::NoLayout));
    assert_eq!(of(&[insn(0x28, 0xffff_f02c), insn(6, 1)], BOTH), Err(NotRelocatable::Ancillary));
    let all: Vec<_> = (0..16).map(|slot| insn(2, slot)).chain([insn(0x81, 0), insn(6, 1)]).collect();
    assert_eq!(of(&all, BOTH), Err(NotRelocatable::Memory));
    let long = vec![insn(4, 1); 1500].into_iter().chain([insn(6, 1)]).collect::<Vec<_>>();
    let some = of(&long, BOTH).expect("room for some");
    assert!(some.insns.len() <= 4096 && !some.layouts.is_empty() && !some.left.is_empty(), "{:?}", some.left);
    let longer = vec![insn(4, 1); 4200].into_iter().chain([insn(6, 1)]).collect::<Vec<_>>();
    assert!(matches!(of(&longer, BOTH), Err(NotRelocatable::TooLong(4200..))));
}

#[test]
fn a_tag_that_goes_back_is_read_from_the_header() {
    let insn = |code, k| Insn { code, jt: 0, jf: 0, k };
    let inner: Vec<u8> = (0..60).map(|byte| byte * 4 + 1).collect();
    let mut decided = 0;
    for (code, bytes) in [(0x30, 1), (0x28, 2), (0x20, 4)] {
        for (at, bit, tci) in (6..22)
            .flat_map(|at| (0..8 * bytes).flat_map(move |bit| [0x7abc, 0xb064, 5].map(|tci| (at, bit, tci))))
        {
            let program =
                Program::new(&[insn(code, at), insn(0x54, 1 << bit), insn(0x16, 0)]).expect("a program");
            let relocation = relocation(&program, 1);
            let (packet, tag) = Outer { layout: 1, tci, is_tagged: true, is_cut: false }.around(&inner);
            let wanted = program.run(&Subject { bytes: &inner, wire_len: 60, tag }) != 0;
            let verdict =
                run(&relocate(&relocation).expect("a program that can be relocated").insns, &packet);
            assert!(verdict == UNDECIDED || (verdict == MATCHED) == wanted, "{code:#x} [{at}] bit {bit}");
            decided += usize::from(verdict != UNDECIDED);
        }
    }
    // All but the loads that are half in the tag and half beside it.
    assert_eq!(decided, 3 * (16 * 8 + 13 * 16 + 10 * 32));
}
