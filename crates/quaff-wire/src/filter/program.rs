//! Verifies a program as the kernel does (`bpf_check_classic`).

use super::insn::{Alu, Insn, MEMORY_WORDS, Op, Operand, Size, Test};

/// Why a program is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("the filter's program is empty")]
    Empty,
    /// An instruction that does not exist, divides by zero, shifts by 32 or more, or loads from outside the packet.
    #[error("instruction {at} of the filter's program ({code:#06x}, {k:#x}) is none that can be run")]
    Unknown {
        /// Index of the instruction.
        at: usize,
        code: u16,
        /// Its operand.
        k: u32,
    },
    /// A jump backwards or past the end: libpcap emits loops for `protochain`.
    #[error("instruction {at} of the filter's program jumps backwards: 'protochain' cannot be used here")]
    Jump {
        /// Index of the instruction.
        at: usize,
    },
    /// The last instruction is not a return.
    #[error("the filter's program runs past its end")]
    NoReturn,
    /// A scratch word is read before it is written.
    #[error("instruction {at} of the filter's program reads memory that nothing was written to")]
    Unwritten {
        /// Index of the instruction.
        at: usize,
    },
}

/// A verified program: it terminates, stays within its bounds, and reads no scratch word that it did not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub(super) insns: Box<[Insn]>,
    pub(super) ops: Box<[Op]>,
    pub(super) steps: Box<[Step]>,
}

impl Program {
    /// Verifies a program. Its length is not limited here; the kernel accepts 4096 instructions.
    pub fn new(insns: &[Insn]) -> Result<Self, ProgramError> {
        let Some(last) = insns.len().checked_sub(1) else { return Err(ProgramError::Empty) };
        let mut ops = Vec::with_capacity(insns.len());
        for (at, insn) in insns.iter().enumerate() {
            let unknown = ProgramError::Unknown { at, code: insn.code, k: insn.k };
            let op = Op::read(insn).ok_or(unknown)?;
            let farthest = match op {
                Op::Jump(far) => far as usize,
                Op::Branch { yes, no, .. } => usize::from(yes.max(no)),
                Op::Return(_) | Op::ReturnA => 0,
                _ if at == last => return Err(ProgramError::NoReturn),
                _ => 0,
            };
            if matches!(op, Op::Jump(_) | Op::Branch { .. }) && farthest >= last - at {
                return Err(ProgramError::Jump { at });
            }
            ops.push(op);
        }
        check_memory(&ops)?;
        let steps = (0..ops.len()).map(|at| Step::both(&ops[at..]).unwrap_or(Step::from(ops[at]))).collect();
        Ok(Self { insns: insns.into(), ops: ops.into(), steps })
    }

    /// The instructions, as they were verified.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// True if it loads the packet's length on the wire.
    pub(super) fn asks_len(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Len | Op::LenX))
    }

    /// The scratch words that it uses, one bit each.
    pub(super) fn memory(&self) -> u16 {
        let slots = self.ops.iter().map(|op| match *op {
            Op::Memory(slot) | Op::MemoryX(slot) | Op::Store(slot) | Op::StoreX(slot) => 1 << slot,
            _ => 0,
        });
        slots.fold(0, |all: u16, slot: u16| all | slot)
    }
}

/// Tracks which words are written on every path to each instruction; one pass suffices, since jumps go forward.
fn check_memory(ops: &[Op]) -> Result<(), ProgramError> {
    const _: () = assert!(MEMORY_WORDS == u16::BITS as usize);
    // One bit for each word that is written on all paths to the instruction.
    let mut written = vec![u16::MAX; ops.len() + 1];
    written[0] = 0;
    for (at, op) in ops.iter().enumerate() {
        let mut now = written[at];
        match *op {
            Op::Store(slot) | Op::StoreX(slot) => now |= 1 << slot,
            Op::Memory(slot) | Op::MemoryX(slot) if now & 1 << slot == 0 => {
                return Err(ProgramError::Unwritten { at });
            }
            _ => {}
        }
        let next = at + 1;
        match *op {
            Op::Jump(far) => written[next + far as usize] &= now,
            Op::Branch { yes, no, .. } => {
                written[next + usize::from(yes)] &= now;
                written[next + usize::from(no)] &= now;
            }
            Op::Return(_) | Op::ReturnA => {}
            _ => written[next] &= now,
        }
    }
    Ok(())
}

/// An instruction in the form for the loop: frequent instructions have a variant of their own, so that one lookup
/// decides, and a load with the test of its value has one for both. The test stays in its place after that, for jumps
/// to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Byte(u32),
    Half(u32),
    Word(u32),
    Equal {
        k: u32,
        yes: u8,
        no: u8,
    },
    Greater {
        k: u32,
        yes: u8,
        no: u8,
    },
    GreaterEqual {
        k: u32,
        yes: u8,
        no: u8,
    },
    Set {
        k: u32,
        yes: u8,
        no: u8,
    },
    And(u32),
    Return(u32),
    HeaderX(u32),
    /// A half-word at X + `k`.
    HalfX(u32),
    /// A byte at `at` that equals `k` or not; so the following, and their jumps lead over the test.
    ByteEqual {
        at: u32,
        k: u32,
        yes: u8,
        no: u8,
    },
    HalfEqual {
        at: u32,
        k: u32,
        yes: u8,
        no: u8,
    },
    WordEqual {
        at: u32,
        k: u32,
        yes: u8,
        no: u8,
    },
    /// A half-word that has bits of `k` set or not.
    HalfSet {
        at: u32,
        k: u32,
        yes: u8,
        no: u8,
    },
    /// A half-word at X + `at`.
    HalfXEqual {
        at: u32,
        k: u32,
        yes: u8,
        no: u8,
    },
    Other(Op),
}

impl Step {
    /// The first two of `ops`, if there is a variant for both.
    fn both(ops: &[Op]) -> Option<Self> {
        let [load, Op::Branch { test, with: Operand::K(k), yes, no }, ..] = *ops else { return None };
        let (yes, no) = (yes.checked_add(1)?, no.checked_add(1)?);
        match (load, test) {
            (Op::Load(Size::Byte, at), Test::Equal) => Some(Self::ByteEqual { at, k, yes, no }),
            (Op::Load(Size::Half, at), Test::Equal) => Some(Self::HalfEqual { at, k, yes, no }),
            (Op::Load(Size::Word, at), Test::Equal) => Some(Self::WordEqual { at, k, yes, no }),
            (Op::Load(Size::Half, at), Test::Set) => Some(Self::HalfSet { at, k, yes, no }),
            (Op::LoadX(Size::Half, at), Test::Equal) => Some(Self::HalfXEqual { at, k, yes, no }),
            _ => None,
        }
    }
}

impl From<Op> for Step {
    fn from(op: Op) -> Self {
        match op {
            Op::Load(Size::Byte, k) => Self::Byte(k),
            Op::Load(Size::Half, k) => Self::Half(k),
            Op::Load(Size::Word, k) => Self::Word(k),
            Op::Branch { test, with: Operand::K(k), yes, no } => match test {
                Test::Equal => Self::Equal { k, yes, no },
                Test::Greater => Self::Greater { k, yes, no },
                Test::GreaterEqual => Self::GreaterEqual { k, yes, no },
                Test::Set => Self::Set { k, yes, no },
            },
            Op::Alu(Alu::And, Operand::K(k)) => Self::And(k),
            Op::Return(k) => Self::Return(k),
            Op::HeaderX(k) => Self::HeaderX(k),
            Op::LoadX(Size::Half, k) => Self::HalfX(k),
            _ => Self::Other(op),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::insn::code;

    fn insn(code: u16, jt: u8, jf: u8, k: u32) -> Insn {
        Insn { code, jt, jf, k }
    }

    #[test]
    fn programs_that_the_kernel_refuses_are_refused() {
        let ret = insn(code::RET | code::K, 0, 0, 1);
        let refused = |insns: &[Insn]| Program::new(insns).unwrap_err();
        assert_eq!(refused(&[]), ProgramError::Empty);
        assert_eq!(refused(&[insn(code::LD | code::IMM, 0, 0, 1)]), ProgramError::NoReturn);
        for (code, k) in [
            (0x35d, 0),
            (code::ALU | code::DIV, 0),
            (code::ALU | code::MOD, 0),
            (code::ALU | code::LSH, 32),
            (code::LD | code::MEM, 16),
            (code::ST, 16),
            (code::LD | code::B | code::ABS, 0xffff_ffff),
            (code::LD | code::H | code::MSH, 0),
            (code::RET | code::X, 0),
        ] {
            assert_eq!(refused(&[insn(code, 0, 0, k), ret]), ProgramError::Unknown { at: 0, code, k });
        }
        for jump in [
            insn(code::JMP | code::JA, 0, 0, u32::MAX),
            insn(code::JMP | code::JA, 0, 0, 1),
            insn(code::JMP | code::JEQ, 1, 0, 0),
            insn(code::JMP | code::JEQ, 0, 1, 0),
        ] {
            assert_eq!(refused(&[jump, ret]), ProgramError::Jump { at: 0 });
        }
    }

    #[test]
    fn memory_is_written_on_every_way_before_it_is_read() {
        let program = |jf| {
            [
                insn(code::JMP | code::JEQ, 0, jf, 0),
                insn(code::ST, 0, 0, 3),
                insn(code::LD | code::MEM, 0, 0, 3),
                insn(code::RET | code::A, 0, 0, 0),
            ]
        };
        assert!(Program::new(&program(0)).is_ok());
        assert_eq!(Program::new(&program(1)), Err(ProgramError::Unwritten { at: 2 }));
    }
}
