//! Random programs, and the helpers shared by the tests of relocated filters.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use quaff_wire::filter::{Insn, Program, Relocation, Subject};
use quaff_wire::tunnel::TunnelKinds;

pub(crate) const MATCHED: u32 = 9;
pub(crate) const UNDECIDED: u32 = 1;
pub(crate) const BOTH: TunnelKinds = TunnelKinds::ALL;

/// A relocation of `inner` over all tunnels that have a fixed layout.
pub(crate) fn relocation(inner: &Program, depth: u8) -> Relocation<'_> {
    Relocation { inner, outer: None, kinds: BOTH, depth, matched: MATCHED, undecided: UNDECIDED }
}

/// A program that is well formed whatever the numbers: five for each instruction.
pub(crate) fn program(numbers: &[u32]) -> Vec<Insn> {
    // Loads, arithmetic, tests, returns, and what the kernel does otherwise than libpcap.
    const CODES: [u16; 48] = [
        0x28, 0x30, 0x20, 0x28, 0x30, 0x20, 0x48, 0x50, 0x40, 0x48, 0x50, 0x40, 0xb1, 0xb1, 0x80, 0x81, 0x00,
        0x01, 0x60, 0x61, 0x02, 0x03, 0x07, 0x87, 0x07, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x3c, 0x44, 0x54, 0x5c,
        0x64, 0x6c, 0x7c, 0x84, 0x9c, 0xac, 0x15, 0x15, 0x25, 0x35, 0x45, 0x1d, 0x05, 0x06,
    ];
    let insn = |code, k| Insn { code, jt: 0, jf: 0, k };
    let mut insns: Vec<_> = (0..4).map(|slot| insn(0x02, slot)).collect();
    let count = numbers.len() / 5;
    for (at, five) in numbers.chunks_exact(5).enumerate() {
        let code = CODES[five[0] as usize % CODES.len()];
        let left = (count - 1 - at) as u32;
        let jump = |number: u32| if left == 0 { 0 } else { (number % (left + 1)).min(255) as u8 };
        let k = match code & 0xff {
            0x60 | 0x61 | 0x02 | 0x03 => five[1] % 4,
            0x64 => five[1] % 32,
            0x05 => u32::from(jump(five[1])),
            0x28 | 0x30 | 0x20 if five[1] >= 0xffff_f000 => five[1] - 0x1000,
            0x06 => five[1] % 3,
            // At the place of a restored tag, elsewhere in a frame, or anywhere.
            _ if five[4] % 8 < 3 => 9 + five[1] % 9,
            _ if five[4] % 8 < 7 => five[1] % 64,
            _ => five[1].min(0xffff_efff),
        };
        insns.push(Insn { code, jt: jump(five[2]), jf: jump(five[3]), k });
    }
    // One bit of what came out.
    insns.push(insn(0x54, 1 << (numbers.len() % 32)));
    insns.push(insn(0x16, 0));
    insns
}

/// The verdict of a program for the kernel.
pub(crate) fn run(insns: &[Insn], bytes: &[u8]) -> u32 {
    let program = Program::new(insns).expect("a program");
    program.run(&Subject { bytes, wire_len: bytes.len() as u32, ..Subject::default() })
}
