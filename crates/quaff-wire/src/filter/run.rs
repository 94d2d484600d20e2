//! Runs a verified program on a frame: the interpreter loop, and two views of the frame's bytes.
//!
//! Arithmetic follows libpcap's `bpf_filter`, which `tcpdump -r` uses: a load outside the captured bytes and a division
//! by zero end the program with 0, X + k does not wrap, a shift by 32 or more gives 0.

use super::insn::{Alu, MEMORY_WORDS, Op, Operand, Size, Test};
use super::program::{Program, Step};
use crate::net::TAG_BYTES;
use crate::record::TAG_OFFSET;

/// The input of a program: a frame as it will be in the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// Captured bytes, without `tag`.
    pub bytes: &'a [u8],
    /// Length on the wire, without `tag`.
    pub wire_len: u32,
    /// A VLAN tag (TPID, TCI) that was removed and is restored after the MAC addresses: the program sees it there, and
    /// it counts in the length.
    pub tag: Option<(u16, u16)>,
}

impl Program {
    /// Runs the program: 0 rejects the frame, any other value is the number of bytes to keep.
    #[inline]
    pub fn run(&self, subject: &Subject<'_>) -> u32 {
        match subject.tag {
            Some((tpid, tci)) if subject.bytes.len() >= TAG_OFFSET => {
                let tag = (u32::from(tpid) << 16 | u32::from(tci)).to_be_bytes();
                let wire_len = subject.wire_len.saturating_add(TAG_BYTES as u32);
                self.run_on(&Tagged { bytes: subject.bytes, tag }, wire_len)
            }
            _ => self.run_on(subject.bytes, subject.wire_len),
        }
    }

    fn run_on<B: Bytes + ?Sized>(&self, bytes: &B, wire_len: u32) -> u32 {
        let mut machine = Machine { a: 0, x: 0, memory: [0; MEMORY_WORDS], wire_len };
        let mut next = 0usize;
        // Verified: every path ends in a return, so this loop always returns inside.
        while let Some(step) = self.steps.get(next) {
            next += 1;
            let a = machine.a;
            let flow = match *step {
                Step::Byte(k) => machine.set(bytes.load(Size::Byte, k)),
                Step::Half(k) => machine.set(bytes.load(Size::Half, k)),
                Step::Word(k) => machine.set(bytes.load(Size::Word, k)),
                Step::Equal { k, yes, no } => skip(a == k, yes, no),
                Step::Greater { k, yes, no } => skip(a > k, yes, no),
                Step::GreaterEqual { k, yes, no } => skip(a >= k, yes, no),
                Step::Set { k, yes, no } => skip(a & k != 0, yes, no),
                Step::And(k) => machine.set(Some(a & k)),
                Step::Return(k) => return k,
                Step::HeaderX(k) => machine.set_x(header_bytes(bytes, k)),
                Step::HalfX(k) => machine.set(machine.load_x(bytes, Size::Half, k)),
                Step::ByteEqual { at, k, yes, no } => {
                    machine.test(bytes.load(Size::Byte, at), |a| a == k, yes, no)
                }
                Step::HalfEqual { at, k, yes, no } => {
                    machine.test(bytes.load(Size::Half, at), |a| a == k, yes, no)
                }
                Step::WordEqual { at, k, yes, no } => {
                    machine.test(bytes.load(Size::Word, at), |a| a == k, yes, no)
                }
                Step::HalfSet { at, k, yes, no } => {
                    machine.test(bytes.load(Size::Half, at), |a| a & k != 0, yes, no)
                }
                Step::HalfXEqual { at, k, yes, no } => {
                    machine.test(machine.load_x(bytes, Size::Half, at), |a| a == k, yes, no)
                }
                Step::Other(op) => machine.step(op, bytes),
            };
            match flow {
                Flow::Skip(count) => next += count,
                Flow::Return(value) => return value,
            }
        }
        0
    }
}

/// The next instruction of a program: skip this many, or end.
enum Flow {
    Skip(usize),
    Return(u32),
}

#[inline]
fn skip(holds: bool, yes: u8, no: u8) -> Flow {
    Flow::Skip(usize::from(if holds { yes } else { no }))
}

/// The registers, the scratch memory, and constant inputs.
struct Machine {
    a: u32,
    x: u32,
    memory: [u32; MEMORY_WORDS],
    wire_len: u32,
}

impl Machine {
    /// Sets A; a missing value ends the program.
    #[inline]
    fn set(&mut self, value: Option<u32>) -> Flow {
        let Some(value) = value else { return Flow::Return(0) };
        self.a = value;
        Flow::Skip(0)
    }

    /// Sets A, and jumps by a test of it.
    #[inline]
    fn test(&mut self, value: Option<u32>, holds: impl Fn(u32) -> bool, yes: u8, no: u8) -> Flow {
        let Some(value) = value else { return Flow::Return(0) };
        self.a = value;
        skip(holds(value), yes, no)
    }

    #[inline]
    fn load_x<B: Bytes + ?Sized>(&self, bytes: &B, size: Size, k: u32) -> Option<u32> {
        self.x.checked_add(k).and_then(|at| bytes.load(size, at))
    }

    #[inline]
    fn set_x(&mut self, value: Option<u32>) -> Flow {
        let Some(value) = value else { return Flow::Return(0) };
        self.x = value;
        Flow::Skip(0)
    }

    #[inline]
    fn step<B: Bytes + ?Sized>(&mut self, op: Op, bytes: &B) -> Flow {
        let value = |with: Operand| match with {
            Operand::K(k) => k,
            Operand::X => self.x,
        };
        match op {
            Op::Load(size, k) => self.set(bytes.load(size, k)),
            Op::LoadX(size, k) => self.set(self.load_x(bytes, size, k)),
            Op::HeaderX(k) => self.set_x(header_bytes(bytes, k)),
            Op::Branch { test, with, yes, no } => skip(holds(test, self.a, value(with)), yes, no),
            Op::Jump(far) => Flow::Skip(far as usize),
            Op::Return(k) => Flow::Return(k),
            Op::ReturnA => Flow::Return(self.a),
            Op::Alu(alu, with) => self.set(compute(alu, self.a, value(with))),
            Op::Neg => self.set(Some(self.a.wrapping_neg())),
            Op::Imm(k) => self.set(Some(k)),
            Op::ImmX(k) => self.set_x(Some(k)),
            Op::Memory(slot) => self.set(Some(self.memory[word(slot)])),
            Op::MemoryX(slot) => self.set_x(Some(self.memory[word(slot)])),
            Op::Store(slot) => self.store(slot, self.a),
            Op::StoreX(slot) => self.store(slot, self.x),
            Op::Len => self.set(Some(self.wire_len)),
            Op::LenX => self.set_x(Some(self.wire_len)),
            Op::Tax => self.set_x(Some(self.a)),
            Op::Txa => self.set(Some(self.x)),
            // Only the kernel has it.
            Op::Ancillary => self.set(None),
        }
    }

    #[inline]
    fn store(&mut self, slot: u8, value: u32) -> Flow {
        self.memory[word(slot)] = value;
        Flow::Skip(0)
    }
}

/// The length of the IPv4 header that begins at `at`.
#[inline]
fn header_bytes<B: Bytes + ?Sized>(bytes: &B, at: u32) -> Option<u32> {
    bytes.load(Size::Byte, at).map(|byte| (byte & 0xf) << 2)
}

#[inline]
fn word(slot: u8) -> usize {
    usize::from(slot) % MEMORY_WORDS
}

#[inline]
fn holds(test: Test, a: u32, with: u32) -> bool {
    match test {
        Test::Equal => a == with,
        Test::Greater => a > with,
        Test::GreaterEqual => a >= with,
        Test::Set => a & with != 0,
    }
}

#[inline]
fn compute(alu: Alu, a: u32, with: u32) -> Option<u32> {
    Some(match alu {
        Alu::Add => a.wrapping_add(with),
        Alu::Sub => a.wrapping_sub(with),
        Alu::Mul => a.wrapping_mul(with),
        Alu::Div => return a.checked_div(with),
        Alu::Mod => return a.checked_rem(with),
        Alu::Or => a | with,
        Alu::And => a & with,
        Alu::Xor => a ^ with,
        Alu::Lsh => a.checked_shl(with).unwrap_or(0),
        Alu::Rsh => a.checked_shr(with).unwrap_or(0),
    })
}

/// Bytes to load from in network order; `None` outside of them.
trait Bytes {
    fn load(&self, size: Size, at: u32) -> Option<u32>;
}

impl Bytes for [u8] {
    #[inline]
    fn load(&self, size: Size, at: u32) -> Option<u32> {
        let from = self.get(at as usize..)?;
        match size {
            Size::Byte => from.first().map(|byte| u32::from(*byte)),
            Size::Half => from.first_chunk().map(|two| u32::from(u16::from_be_bytes(*two))),
            Size::Word => from.first_chunk().map(|four| u32::from_be_bytes(*four)),
        }
    }
}

/// A frame with a restored tag. At least the MAC addresses are present.
struct Tagged<'a> {
    bytes: &'a [u8],
    tag: [u8; TAG_BYTES],
}

impl Bytes for Tagged<'_> {
    #[inline]
    fn load(&self, size: Size, at: u32) -> Option<u32> {
        let after = (TAG_OFFSET + TAG_BYTES) as u32;
        if at >= after {
            return self.bytes.load(size, at - TAG_BYTES as u32);
        }
        let mut value = 0;
        for at in at..at + size.bytes() {
            let at = at as usize;
            let byte = match at.checked_sub(TAG_OFFSET) {
                None => *self.bytes.get(at)?,
                Some(of_tag) => match self.tag.get(of_tag) {
                    Some(byte) => *byte,
                    None => *self.bytes.get(at - TAG_BYTES)?,
                },
            };
            value = value << 8 | u32::from(byte);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Insn, insn::code};
    use proptest::prelude::*;

    fn run(insns: &[(u16, u32)], subject: &Subject<'_>) -> u32 {
        let insns: Vec<_> = insns.iter().map(|&(code, k)| Insn { code, jt: 0, jf: 0, k }).collect();
        Program::new(&insns).expect("a program").run(subject)
    }

    const RET_A: (u16, u32) = (code::RET | code::A, 0);

    fn subject(bytes: &[u8]) -> Subject<'_> {
        Subject { bytes, wire_len: 1000, ..Subject::default() }
    }

    proptest! {
        #[test]
        fn a_tag_is_seen_where_the_file_has_it(
            frame in prop::collection::vec(any::<u8>(), 0..40), at in 0u32..48, tci in any::<u16>(), x in 0u32..9
        ) {
            let mut whole = frame.clone();
            if frame.len() >= TAG_OFFSET {
                let tag = [0x81, 0, tci.to_be_bytes()[0], tci.to_be_bytes()[1]];
                whole.splice(TAG_OFFSET..TAG_OFFSET, tag);
            }
            let wire_len = frame.len() as u32 + 7;
            let tagged = Subject { bytes: &frame, wire_len, tag: Some((0x8100, tci)) };
            let plain = Subject { bytes: &whole, wire_len: whole.len() as u32 + 7, ..Subject::default() };
            for size in [code::B, code::H, code::W] {
                let load = [(code::LD | size | code::ABS, at), (code::ALU | code::OR, 1 << 31), RET_A];
                let indirect = [
                    (code::LDX | code::IMM, x), (code::LD | size | code::IND, at), (code::ALU | code::OR, 1 << 31), RET_A,
                ];
                prop_assert_eq!(run(&load, &tagged), run(&load, &plain));
                prop_assert_eq!(run(&indirect, &tagged), run(&indirect, &plain));
            }
            let len = [(code::LD | code::LEN, 0), RET_A];
            prop_assert_eq!(run(&len, &tagged), run(&len, &plain));
        }
    }

    proptest! {
        /// A load and its test, by one step or by two, whether a jump leads to the test or not.
        #[test]
        fn a_load_and_its_test_are_one_step_with_the_meaning_of_two(
            frame in prop::collection::vec(0u8..3, 0..12), at in 0u32..12, from in 0u32..12, x in 0u32..4,
            k in prop_oneof![0u32..4, any::<u32>()], jt in 0u8..2, jf in 0u8..2, is_over in any::<bool>(),
        ) {
            let loads = [code::B | code::ABS, code::H | code::ABS, code::W | code::ABS, code::H | code::IND];
            for (load, test) in loads.into_iter().flat_map(|load| [code::JEQ, code::JSET].map(|test| (load, test))) {
                let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
                let is_over = u32::from(is_over);
                let program = [
                    insn(code::LDX | code::IMM, 0, 0, x),
                    insn(code::LD | code::B | code::ABS, 0, 0, from),
                    insn(code::JMP | code::JA, 0, 0, is_over),
                    insn(code::LD | load, 0, 0, at),
                    insn(code::JMP | test, jt, jf, k),
                    insn(code::RET, 0, 0, 7),
                    insn(code::RET | code::A, 0, 0, 0),
                ];
                let program = Program::new(&program).expect("a program");
                let apart = Program { steps: program.ops.iter().map(|op| Step::from(*op)).collect(), ..program.clone() };
                prop_assert!(test == code::JSET || program.steps[3] != apart.steps[3]);
                prop_assert_eq!(program.run(&subject(&frame)), apart.run(&subject(&frame)));
            }
        }
    }

    #[test]
    fn arithmetic_is_that_of_libpcap() {
        let frame = subject(&[0, 0, 0, 3]);
        let with_x = |x, code, a| {
            run(&[(code::LDX | code::IMM, x), (code::LD | code::IMM, a), (code | code::X, 0), RET_A], &frame)
        };
        assert_eq!(with_x(32, code::ALU | code::LSH, 7), 0);
        assert_eq!(with_x(31, code::ALU | code::LSH, 3), 1 << 31);
        assert_eq!(with_x(33, code::ALU | code::RSH, u32::MAX), 0);
        assert_eq!(with_x(0, code::ALU | code::DIV, 7), 0);
        assert_eq!(with_x(0, code::ALU | code::MOD, 7), 0);
        assert_eq!(with_x(4, code::ALU | code::MOD, 7), 3);
        assert_eq!(with_x(9, code::ALU | code::SUB, 7), u32::MAX - 1);
        // X + k that wraps is not an address, although 3 would be one.
        let wraps = [(code::LDX | code::IMM, u32::MAX - 3), (code::LD | code::B | code::IND, 7), RET_A];
        assert_eq!(run(&wraps, &frame), 0);
        assert_eq!(run(&[(code::LD | code::LEN, 0), RET_A], &frame), 1000);
        let header = [(code::LDX | code::B | code::MSH, 3), (code::MISC | code::TXA, 0), RET_A];
        assert_eq!(run(&header, &frame), 12);
    }

    #[test]
    fn metadata_of_the_kernel_is_unknown() {
        let present = [(code::LD | code::B | code::ABS, 0xffff_f030), RET_A];
        assert_eq!(run(&present, &subject(&[])), 0);
    }
}
