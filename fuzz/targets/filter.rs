//! Any program and any packet: a program that is accepted runs to its end; a tag that goes back is seen
//! as if it were in the bytes; relocated into the kernel, it decides as it does on what decapsulation finds.
//!
//! Input: how many instructions, so many `struct sock_filter`, a depth, the packet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::filter::{Insn, Program, Relocation, Subject, relocate};
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
        check_relocated(&program, depth, packet);
    }
});
