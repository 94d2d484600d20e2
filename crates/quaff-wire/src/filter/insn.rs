//! Instructions of classic BPF (linux/filter.h, linux/bpf_common.h; McCanne and Jacobson 1993), encoded as for the
//! kernel and decoded for the rest of this folder.

/// One instruction (`struct sock_filter`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Insn {
    /// Class, size, mode, operation.
    pub code: u16,
    /// Number of instructions to skip if a test holds.
    pub jt: u8,
    /// Number of instructions to skip if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// Components of [`Insn::code`].
pub(super) mod code {
    pub(crate) const LD: u16 = 0x00;
    pub(crate) const LDX: u16 = 0x01;
    pub(crate) const ST: u16 = 0x02;
    pub(crate) const STX: u16 = 0x03;
    pub(crate) const ALU: u16 = 0x04;
    pub(crate) const JMP: u16 = 0x05;
    pub(crate) const RET: u16 = 0x06;
    pub(crate) const MISC: u16 = 0x07;
    pub(crate) const CLASS: u16 = 0x07;

    pub(crate) const W: u16 = 0x00;
    pub(crate) const H: u16 = 0x08;
    pub(crate) const B: u16 = 0x10;

    pub(crate) const IMM: u16 = 0x00;
    pub(crate) const ABS: u16 = 0x20;
    pub(crate) const IND: u16 = 0x40;
    pub(crate) const MEM: u16 = 0x60;
    pub(crate) const LEN: u16 = 0x80;
    pub(crate) const MSH: u16 = 0xa0;

    pub(crate) const ADD: u16 = 0x00;
    pub(crate) const SUB: u16 = 0x10;
    pub(crate) const MUL: u16 = 0x20;
    pub(crate) const DIV: u16 = 0x30;
    pub(crate) const OR: u16 = 0x40;
    pub(crate) const AND: u16 = 0x50;
    pub(crate) const LSH: u16 = 0x60;
    pub(crate) const RSH: u16 = 0x70;
    pub(crate) const NEG: u16 = 0x80;
    pub(crate) const MOD: u16 = 0x90;
    pub(crate) const XOR: u16 = 0xa0;

    pub(crate) const JA: u16 = 0x00;
    pub(crate) const JEQ: u16 = 0x10;
    pub(crate) const JGT: u16 = 0x20;
    pub(crate) const JGE: u16 = 0x30;
    pub(crate) const JSET: u16 = 0x40;

    pub(crate) const K: u16 = 0x00;
    pub(crate) const X: u16 = 0x08;
    pub(crate) const A: u16 = 0x10;
    pub(crate) const TAX: u16 = 0x00;
    pub(crate) const TXA: u16 = 0x80;
}

/// Number of scratch words (`BPF_MEMWORDS`).
pub(super) const MEMORY_WORDS: usize = 16;
/// Base of loads that do not read the packet (`SKF_AD_OFF`).
pub(super) const ANCILLARY: u32 = 0xffff_f000;
/// The tag in the metadata, and its presence (`SKF_AD_VLAN_*`, linux/filter.h).
pub(super) const TAG_TCI: u32 = ANCILLARY + 44;
pub(super) const TAG_PRESENT: u32 = ANCILLARY + 48;
pub(super) const TAG_TPID: u32 = ANCILLARY + 60;

/// Width of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
}

impl Size {
    /// Number of bytes loaded.
    #[inline]
    pub(super) fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// Arithmetic on A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Or,
    And,
    Xor,
    Lsh,
    Rsh,
}

/// The second operand of arithmetic or a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    K(u32),
    X,
}

/// A test of A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    Greater,
    GreaterEqual,
    Set,
}

/// A decoded instruction. Jumps are relative to the next one, and always forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Load(Size, u32),
    LoadX(Size, u32),
    Ancillary,
    Imm(u32),
    Memory(u8),
    Len,
    ImmX(u32),
    MemoryX(u8),
    LenX,
    /// X = 4 * ([k] & 15): the length of an IPv4 header.
    HeaderX(u32),
    Store(u8),
    StoreX(u8),
    Alu(Alu, Operand),
    Neg,
    Tax,
    Txa,
    Jump(u32),
    Branch {
        test: Test,
        with: Operand,
        yes: u8,
        no: u8,
    },
    Return(u32),
    ReturnA,
}

impl Op {
    /// Decodes an instruction; `None` if the kernel does not know it, or for an unsupported ancillary load.
    pub(super) fn read(insn: &Insn) -> Option<Self> {
        if insn.code > 0xff {
            return None;
        }
        let k = insn.k;
        let slot = (k < MEMORY_WORDS as u32).then_some(k as u8);
        match insn.code & code::CLASS {
            code::LD => match insn.code {
                CODE_LD_IMM => Some(Self::Imm(k)),
                CODE_LD_MEM => slot.map(Self::Memory),
                CODE_LD_LEN => Some(Self::Len),
                _ => read_load(insn.code, k),
            },
            code::LDX => match insn.code {
                CODE_LDX_IMM => Some(Self::ImmX(k)),
                CODE_LDX_MEM => slot.map(Self::MemoryX),
                CODE_LDX_LEN => Some(Self::LenX),
                CODE_LDX_MSH => (k < ANCILLARY).then_some(Self::HeaderX(k)),
                _ => None,
            },
            code::ST if insn.code == code::ST => slot.map(Self::Store),
            code::STX if insn.code == code::STX => slot.map(Self::StoreX),
            code::ALU => read_alu(insn.code, k),
            code::JMP => read_jump(insn),
            code::RET => match insn.code & !code::RET {
                code::K => Some(Self::Return(k)),
                code::A => Some(Self::ReturnA),
                _ => None,
            },
            code::MISC => match insn.code & !code::MISC {
                code::TAX => Some(Self::Tax),
                code::TXA => Some(Self::Txa),
                _ => None,
            },
            _ => None,
        }
    }
}

const CODE_LD_IMM: u16 = code::LD | code::IMM;
const CODE_LD_MEM: u16 = code::LD | code::MEM;
const CODE_LD_LEN: u16 = code::LD | code::LEN;
const CODE_LDX_IMM: u16 = code::LDX | code::IMM;
const CODE_LDX_MEM: u16 = code::LDX | code::MEM;
const CODE_LDX_LEN: u16 = code::LDX | code::LEN;
const CODE_LDX_MSH: u16 = code::LDX | code::B | code::MSH;

fn read_load(code: u16, k: u32) -> Option<Op> {
    let size = match code & 0x18 {
        code::W => Size::Word,
        code::H => Size::Half,
        code::B => Size::Byte,
        _ => return None,
    };
    match code & 0xe0 {
        code::ABS if k >= ANCILLARY => {
            // The ancillary loads that libpcap emits: protocol, packet type, interface, VLAN tag, its presence, TPID.
            matches!(k - ANCILLARY, 0 | 4 | 8 | 44 | 48 | 60).then_some(Op::Ancillary)
        }
        code::ABS => Some(Op::Load(size, k)),
        code::IND => Some(Op::LoadX(size, k)),
        _ => None,
    }
}

fn read_alu(code: u16, k: u32) -> Option<Op> {
    if code == code::ALU | code::NEG {
        return Some(Op::Neg);
    }
    let alu = match code & 0xf0 {
        code::ADD => Alu::Add,
        code::SUB => Alu::Sub,
        code::MUL => Alu::Mul,
        code::DIV => Alu::Div,
        code::OR => Alu::Or,
        code::AND => Alu::And,
        code::LSH => Alu::Lsh,
        code::RSH => Alu::Rsh,
        code::MOD => Alu::Mod,
        code::XOR => Alu::Xor,
        _ => return None,
    };
    let with = read_operand(code, k)?;
    match (alu, with) {
        (Alu::Div | Alu::Mod, Operand::K(0)) | (Alu::Lsh | Alu::Rsh, Operand::K(32..)) => None,
        _ => Some(Op::Alu(alu, with)),
    }
}

fn read_jump(insn: &Insn) -> Option<Op> {
    let test = match insn.code & 0xf0 {
        code::JA if insn.code == code::JMP | code::JA => return Some(Op::Jump(insn.k)),
        code::JEQ => Test::Equal,
        code::JGT => Test::Greater,
        code::JGE => Test::GreaterEqual,
        code::JSET => Test::Set,
        _ => return None,
    };
    let with = read_operand(insn.code, insn.k)?;
    Some(Op::Branch { test, with, yes: insn.jt, no: insn.jf })
}

fn read_operand(code: u16, k: u32) -> Option<Operand> {
    match code & 0x08 {
        code::K => Some(Operand::K(k)),
        code::X => Some(Operand::X),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::code::*;
    use super::*;

    fn op(code: u16, k: u32) -> Option<Op> {
        Op::read(&Insn { code, jt: 1, jf: 2, k })
    }

    #[test]
    fn instructions_are_read_by_their_code() {
        let equal = Op::Branch { test: Test::Equal, with: Operand::K(7), yes: 1, no: 2 };
        let cases = [
            (LD | H | ABS, 12, Op::Load(Size::Half, 12)),
            (LD | B | IND, 3, Op::LoadX(Size::Byte, 3)),
            (LDX | B | MSH, 14, Op::HeaderX(14)),
            (LD | LEN, 0, Op::Len),
            (ST, 15, Op::Store(15)),
            (ALU | XOR | X, 0, Op::Alu(Alu::Xor, Operand::X)),
            (JMP | JEQ | K, 7, equal),
            (JMP | JA, 9, Op::Jump(9)),
            (RET | K, 5, Op::Return(5)),
            (RET | A, 0, Op::ReturnA),
        ];
        for (code, k, expected) in cases {
            assert_eq!(op(code, k), Some(expected), "{code:#06x}");
        }
    }

    #[test]
    fn instructions_that_cannot_run_are_none() {
        for (code, k) in [(ALU | DIV | K, 0), (ALU | LSH | K, 32), (ST, 16), (LD | MEM, 16), (0xffff, 0)] {
            assert_eq!(op(code, k), None, "{code:#06x} {k}");
        }
        assert_eq!(op(LD | B | ABS, ANCILLARY + 4), Some(Op::Ancillary));
        assert_eq!(op(LD | B | ABS, ANCILLARY + 3), None, "metadata that libpcap never asks for");
    }
}
