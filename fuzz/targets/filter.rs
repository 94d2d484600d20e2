//! Any program and any packet: a program that is accepted runs to its end; a tag that goes back is seen
//! as if it were in the bytes; relocated into the kernel, it decides as it does on what decapsulation finds.
//!
//! Input: how many instructions, so many `struct sock_filter`, a depth, the packet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::filter::{Insn, Program, Relocation, Subject, WithTag, reads_tag, relocate, with_tag};
use quaff_wire::tunnel::{Outcome, TunnelKinds, strip};

const MATCHED: u32 = 9;
const UNDECIDED: u32 = 1;

fn insn(bytes: &[u8]) -> Insn {
    let code = u16::from_le_bytes([bytes[0], bytes[1]]);
    Insn { code, jt: bytes[2], jf: bytes[3], k: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) }
}

/// A program and the bytes after it.
fn parse(input: &[u8]) -> Option<(Program, u8, &[u8])> {
    let (count, rest) = input.split_first()?;
    let (insns, rest) = rest.split_at_checked(8 * usize::from(*count))?;
    let (depth, packet) = rest.split_first()?;
    let insns: Vec<_> = insns.chunks_exact(8).map(insn).collect();
    Some((Program::new(&insns).ok()?, depth % 4 + 1, packet))
}

fn run(program: &Program, bytes: &[u8], wire_len: u32, tag: Option<(u16, u16)>) -> u32 {
    program.run(&Subject { bytes, wire_len, tag })
}

fn check_tag(program: &Program, packet: &[u8]) {
    let len = packet.len() as u32;
    if packet.len() >= 12 {
        let whole = [&packet[..12], &[0x81, 0, 0x20, 5], &packet[12..]].concat();
        let tagged = run(program, packet, len, Some((0x8100, 0x2005)));
        assert_eq!(tagged, run(program, &whole, len + 4, None));
    }
}

/// In the kernel the tag is beside the frame.
fn check_tag_beside(program: &Program, packet: &[u8]) {
    for tag in [None, Some((0x88a8, 0x2005))] {
        let WithTag { insns, is_exact } = with_tag(program, MATCHED);
        let insns: Vec<_> = insns.into_iter().map(|insn| read_tag(insn, tag)).collect();
        let beside = Program::new(&insns).expect("the kernel would refuse it");
        let verdict = run(&beside, packet, packet.len() as u32, None);
        let wanted = run(program, packet, packet.len() as u32, tag) != 0;
        let is_decided = is_exact || tag.is_none();
        assert!(packet.len() < 12 || verdict == if wanted || !is_decided { MATCHED } else { 0 });
    }
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
    let is_load = insn.code & 0xe7 == 0x20;
    if is_load { Insn { code: 0, jt: 0, jf: 0, k: value } } else { insn }
}

fn check_relocated(program: &Program, depth: u8, packet: &[u8]) {
    let kinds = TunnelKinds::ALL;
    let relocation =
        Relocation { inner: program, outer: None, kinds, depth, matched: MATCHED, undecided: UNDECIDED };
    let Ok(relocated) = relocate(&relocation) else { return };
    let in_kernel = Program::new(&relocated.insns).expect("the kernel would refuse it");
    let verdict = run(&in_kernel, packet, packet.len() as u32, None);
    if verdict != UNDECIDED {
        let outcome = strip(packet, packet.len() as u32, 1, TunnelKinds::ALL, depth);
        let Outcome::Inner(inner) = outcome else { panic!("{outcome:?}") };
        let bytes = &packet[inner.start as usize..][..inner.len as usize];
        let wanted = run(program, bytes, inner.wire_len.unwrap_or(inner.len), inner.tag) != 0;
        assert_eq!(verdict == MATCHED, wanted);
    }
}

fuzz_target!(|input: &[u8]| {
    if let Some((program, depth, packet)) = parse(input) {
        check_tag(&program, packet);
        // libpcap looks at the EtherType before such a load, which reads no tag then.
        let may_read_tag =
            |insn: &Insn| (insn.code & 0xe7 == 0x40 || insn.code == 0xb1) && (12..16).contains(&insn.k);
        if !reads_tag(program.insns()) && !program.insns().iter().any(may_read_tag) {
            check_tag_beside(&program, packet);
        }
        check_relocated(&program, depth, packet);
    }
});
