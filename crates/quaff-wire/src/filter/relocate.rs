//! Relocates a filter on inner frames to outer ones, so that the kernel decides about packets in tunnels.
//!
//! The program is emitted once for each possible offset of an inner frame, after a match ([`super::layout_match`]) that
//! recognises the tunnels. An unrecognised packet is accepted, and the same program decides about it after
//! decapsulation, so that both paths keep the same packets.

use super::Program;
use super::asm::{Asm, Label};
use super::insn::code::{
    A, ABS, ALU, AND, B, H, IMM, JGE, JGT, JMP, K, LD, LDX, LEN, MEM, MISC, MSH, OR, RET, RSH, ST, SUB, TAX,
    TXA, X,
};
use super::insn::{Alu, Insn, MEMORY_WORDS, Op, Operand, Size, TAG_TCI, TAG_TPID};
use super::layout_match::{NestedMatch, Targets, TunnelLayout, match_layouts};
use crate::net::{TAG_BYTES, TPID_CUSTOMER};
use crate::record::TAG_OFFSET;
use crate::tunnel::TunnelKinds;

/// Maximum number of instructions that the kernel accepts (`BPF_MAXINSNS`).
pub(crate) const INSNS_MAX: usize = 4096;
/// An offset beyond any frame: a load from here always fails.
const FAR: u32 = 0x00ff_ffff;

/// The parameters of a relocation.
#[derive(Debug, Clone, Copy)]
pub struct Relocation<'a> {
    /// The filter on inner frames, compiled for Ethernet as for a file.
    pub inner: &'a Program,
    /// The filter on outer packets, compiled for the interface; both must accept.
    pub outer: Option<&'a [Insn]>,
    /// The tunnels that are decapsulated.
    pub kinds: TunnelKinds,
    /// Maximum nesting of tunnels that are decapsulated. Above 1, packets whose inner frame may be a tunnel are left to
    /// user space.
    pub depth: u8,
    /// Return value for packets whose inner frame matches: the bytes to keep.
    pub matched: u32,
    /// Return value for packets that the program cannot decide.
    pub undecided: u32,
}

/// A relocated program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocated {
    /// The program, at most [`INSNS_MAX`] instructions.
    pub insns: Vec<Insn>,
    /// The tunnels that it decides about.
    pub layouts: Vec<TunnelLayout>,
    /// The tunnels with a fixed layout that did not fit; they are left to user space.
    pub left: Vec<TunnelLayout>,
}

/// Why a filter on inner frames cannot run in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotRelocatable {
    /// No decapsulated tunnel has a fixed layout.
    #[error("only ERSPAN and VXLAN have headers of a fixed length")]
    NoLayout,
    /// The program is too long.
    #[error("the kernel takes {INSNS_MAX} instructions, and it needs {0}")]
    TooLong(usize),
    /// The program uses all scratch words, and relocation needs some.
    #[error("it needs more scratch memory than the kernel has")]
    Memory,
    /// The program loads metadata that the kernel has for the outer packet only.
    #[error("it loads metadata that only the kernel has of a packet")]
    Ancillary,
    /// The filter on outer packets jumps past its end.
    #[error("the filter on outer packets cannot be put before it")]
    Outer,
}

/// Relocates a filter. If the program gets too long, the least frequent layouts are dropped one by one.
pub fn relocate(relocation: &Relocation<'_>) -> Result<Relocated, NotRelocatable> {
    let mut layouts = TunnelLayout::of(relocation.kinds);
    if layouts.is_empty() {
        return Err(NotRelocatable::NoLayout);
    }
    let spare = Spare::of(relocation)?;
    if spare.tci.is_none() {
        layouts.retain(|layout| !layout.is_tagged());
    }
    let all = layouts.clone();
    loop {
        let insns = assemble(relocation, &layouts, spare)?;
        if insns.len() <= INSNS_MAX {
            let left = all[layouts.len()..].to_vec();
            return Ok(Relocated { insns, layouts, left });
        }
        layouts.pop();
        if layouts.is_empty() {
            return Err(NotRelocatable::TooLong(insns.len()));
        }
    }
}

/// Scratch words that the program does not use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spare {
    /// Temporarily saves A or X.
    save: u32,
    /// Holds the tag that is restored in the frame.
    tci: Option<u32>,
}

impl Spare {
    pub(super) fn of(relocation: &Relocation<'_>) -> Result<Self, NotRelocatable> {
        let used = relocation.inner.memory();
        let mut free = (0..MEMORY_WORDS as u32).rev().filter(|slot| used & 1 << slot == 0);
        let needs_save = relocation.depth > 1 || relocation.inner.ops.iter().any(|op| needs_save(*op));
        match free.next() {
            Some(save) => Ok(Self { save, tci: free.next() }),
            None if needs_save => Err(NotRelocatable::Memory),
            None => Ok(Self { save: 0, tci: None }),
        }
    }
}

fn needs_save(op: Op) -> bool {
    matches!(op, Op::LenX | Op::Alu(Alu::Lsh | Alu::Rsh, Operand::X))
}

fn assemble(
    relocation: &Relocation<'_>,
    layouts: &[TunnelLayout],
    spare: Spare,
) -> Result<Vec<Insn>, NotRelocatable> {
    let mut asm = Asm::default();
    let up = asm.label();
    if let Some(outer) = relocation.outer {
        chain(&mut asm, outer)?;
    }
    // Layouts with the same frame offset share a body.
    let mut places: Vec<(TunnelLayout, Label)> = Vec::new();
    let mut bodies = Vec::new();
    for &layout in layouts {
        let is_alike =
            |of: &TunnelLayout| (of.bytes(), of.is_tagged()) == (layout.bytes(), layout.is_tagged());
        let label = places.iter().find(|(of, _)| is_alike(of)).map(|(_, label)| *label);
        let label = label.unwrap_or_else(|| {
            let label = asm.label();
            places.push((layout, label));
            label
        });
        bodies.push((layout, label));
    }
    let asks_len = relocation.inner.asks_len();
    if relocation.depth > 1 {
        let nested = NestedMatch::new(&mut asm, bodies, spare.save, up);
        match_layouts(&mut asm, &Targets { up, bodies: &nested.entries, asks_len });
        nested.write(&mut asm);
    } else {
        match_layouts(&mut asm, &Targets { up, bodies: &bodies, asks_len });
    }
    for (layout, label) in places {
        asm.place(label);
        let tag = layout.is_tagged().then_some(TagPlace::Erspan);
        Body { relocation, base: layout.bytes(), tag, spare }.write(&mut asm)?;
    }
    asm.place(up);
    asm.put(RET | K, relocation.undecided);
    Ok(asm.finish())
}

/// Emits a program such that execution continues after it if it accepts the packet.
pub(super) fn chain(asm: &mut Asm, program: &[Insn]) -> Result<(), NotRelocatable> {
    let labels: Vec<_> = program.iter().map(|_| asm.label()).collect();
    let after = asm.label();
    let target = |at: usize, far: usize| {
        labels.get((at + 1).saturating_add(far)).copied().ok_or(NotRelocatable::Outer)
    };
    for (at, insn) in program.iter().enumerate() {
        asm.place(labels[at]);
        match insn.code {
            code if code == RET | K && insn.k == 0 => asm.put(code, 0),
            code if code == RET | K => asm.jump(after),
            code if code == RET | A => {
                asm.refuse(JGT, 0u32, after);
                asm.put(RET | K, 0);
            }
            code if code == JMP => asm.jump(target(at, insn.k as usize)?),
            code if code & 7 == JMP => {
                asm.branch(code & !7, insn.k, target(at, insn.jt.into())?, target(at, insn.jf.into())?);
            }
            code => asm.put(code, insn.k),
        }
    }
    asm.place(after);
    Ok(())
}

/// The place of the VLAN tag that the frame gets back in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagPlace {
    /// In the ERSPAN II header before the frame.
    Erspan,
    /// In the kernel's metadata of the packet.
    Metadata,
}

/// The program for frames that start at `base`.
pub(super) struct Body<'a> {
    pub(super) relocation: &'a Relocation<'a>,
    pub(super) base: u32,
    pub(super) tag: Option<TagPlace>,
    pub(super) spare: Spare,
}

/// The exits of a body.
struct Ends {
    matched: Label,
    rejected: Label,
    undecided: Label,
}

impl Body<'_> {
    pub(super) fn write(&self, asm: &mut Asm) -> Result<(), NotRelocatable> {
        let ops = &self.relocation.inner.ops;
        let ends = Ends { matched: asm.label(), rejected: asm.label(), undecided: asm.label() };
        let labels: Vec<_> = ops.iter().map(|_| asm.label()).collect();
        if self.tag == Some(TagPlace::Erspan) {
            self.keep_tag(asm);
        }
        asm.put(LD | IMM, 0);
        asm.put(LDX | IMM, 0);
        for (at, (op, insn)) in ops.iter().zip(&self.relocation.inner.insns).enumerate() {
            asm.place(labels[at]);
            let target = |far: usize| labels[at + 1 + far];
            match *op {
                Op::Jump(far) => asm.jump(target(far as usize)),
                Op::Branch { yes, no, .. } => {
                    asm.branch(insn.code, insn.k, target(yes.into()), target(no.into()));
                }
                Op::Return(0) => asm.jump(ends.rejected),
                Op::Return(_) => asm.jump(ends.matched),
                Op::ReturnA => asm.branch(JGT, 0u32, ends.matched, ends.rejected),
                // Metadata of the packet that the kernel has, which is the frame itself.
                Op::Ancillary if self.tag == Some(TagPlace::Metadata) => asm.put(insn.code, insn.k),
                Op::Ancillary => return Err(NotRelocatable::Ancillary),
                _ => self.op(asm, *op, *insn, &ends),
            }
        }
        for (label, returned) in [
            (ends.matched, self.relocation.matched),
            (ends.rejected, 0),
            (ends.undecided, self.relocation.undecided),
        ] {
            asm.place(label);
            asm.put(RET | K, returned);
        }
        Ok(())
    }

    /// Emits an instruction that neither jumps nor returns: unchanged, unless it loads from the packet, loads its
    /// length, or shifts by X.
    fn op(&self, asm: &mut Asm, op: Op, insn: Insn, ends: &Ends) {
        match op {
            Op::Load(size, k) => self.load(asm, insn.code, (size, k), ends),
            Op::LoadX(..) => self.load_x(asm, insn, ends),
            Op::HeaderX(k) => self.header_x(asm, k, ends),
            Op::Len => {
                asm.put(LD | LEN, 0);
                asm.put(ALU | SUB, self.before());
            }
            Op::LenX => {
                asm.put(ST, self.spare.save);
                asm.put(LD | LEN, 0);
                asm.put(ALU | SUB, self.before());
                asm.put(MISC | TAX, 0);
                asm.put(LD | MEM, self.spare.save);
            }
            Op::Alu(Alu::Lsh | Alu::Rsh, Operand::X) => self.shift_x(asm, insn),
            _ => asm.put(insn.code, insn.k),
        }
    }

    /// Computes the TCI to restore from the first word of the ERSPAN II header: version 4, VLAN 12, COS 3, En 2, T 1,
    /// session 10 bits.
    fn keep_tag(&self, asm: &mut Asm) {
        let (Some(slot), header) = (self.spare.tci, self.base - 8) else { return };
        asm.put(LD | H | ABS, header);
        asm.put(ALU | AND, 0x0fff);
        asm.put(MISC | TAX, 0);
        asm.put(LD | H | ABS, header + 2);
        asm.put(ALU | AND, 0xe000);
        asm.put(ALU | OR | X, 0);
        asm.put(ST, slot);
    }

    fn tag_bytes(&self) -> u32 {
        if self.tag.is_some() { TAG_BYTES as u32 } else { 0 }
    }

    /// Bytes before the frame minus those of the tag; a negative number wraps, as in the kernel.
    fn before(&self) -> u32 {
        self.base.wrapping_sub(self.tag_bytes())
    }

    /// Offset of byte `k` of a frame if it is present and not part of the restored tag.
    fn place_of(&self, k: u32, bytes: u32) -> Option<u32> {
        let (tag, after) = (TAG_OFFSET as u32, (TAG_OFFSET + TAG_BYTES) as u32);
        match self.tag.is_some() {
            false => Some(self.base + k),
            true if k + bytes <= tag => Some(self.base + k),
            true if k >= after => Some(self.base + k - TAG_BYTES as u32),
            true => None,
        }
    }

    fn load(&self, asm: &mut Asm, code: u16, (size, k): (Size, u32), ends: &Ends) {
        if k > FAR {
            return asm.jump(ends.rejected);
        }
        match self.place_of(k, size.bytes()) {
            Some(place) => asm.put(code, place),
            None => self.load_tag(asm, size, k, ends),
        }
    }

    /// Emits a load from the restored tag, which is not in the packet.
    fn load_tag(&self, asm: &mut Asm, size: Size, k: u32, ends: &Ends) {
        const TPID: u32 = TPID_CUSTOMER as u32;
        if self.tag == Some(TagPlace::Metadata) {
            return Self::load_metadata(asm, size, k, ends);
        }
        let tci = self.spare.tci.unwrap_or(0);
        match (size, k) {
            (Size::Half, 12) => asm.put(LD | IMM, TPID),
            (Size::Byte, 12) => asm.put(LD | IMM, TPID >> 8),
            (Size::Byte, 13) => asm.put(LD | IMM, TPID & 0xff),
            (Size::Half, 14) => asm.put(LD | MEM, tci),
            (Size::Byte, 14 | 15) | (Size::Word, 12) => {
                asm.put(LD | MEM, tci);
                let (operation, with) = match (size, k) {
                    (Size::Word, _) => (OR, TPID << 16),
                    (_, 14) => (RSH, 8),
                    _ => (AND, 0xff),
                };
                asm.put(ALU | operation, with);
            }
            // Partly in the tag and partly outside.
            _ => asm.jump(ends.undecided),
        }
    }

    /// Emits a load from the tag in the metadata.
    fn load_metadata(asm: &mut Asm, size: Size, k: u32, ends: &Ends) {
        let place = if k < TAG_OFFSET as u32 + 2 { TAG_TPID } else { TAG_TCI };
        match (size, k) {
            (Size::Half, 12 | 14) => asm.put(LD | H | ABS, place),
            (Size::Byte, 12 | 14) => {
                asm.put(LD | H | ABS, place);
                asm.put(ALU | RSH, 8);
            }
            (Size::Byte, 13 | 15) => {
                asm.put(LD | H | ABS, place);
                asm.put(ALU | AND, 0xff);
            }
            _ => asm.jump(ends.undecided),
        }
    }

    /// Emits a load from X + k, without the wrap-around to an existing byte that the kernel would do.
    fn load_x(&self, asm: &mut Asm, Insn { code, k, .. }: Insn, ends: &Ends) {
        let after = (TAG_OFFSET + TAG_BYTES) as u32;
        if k > FAR {
            return asm.jump(ends.rejected);
        }
        // A is free: the load is about to set it.
        asm.put(MISC | TXA, 0);
        asm.refuse(JGT, FAR, ends.rejected);
        if self.tag.is_some() && k < after {
            asm.expect(JGE, after - k, ends.undecided);
        }
        asm.put(code, self.before().wrapping_add(k));
    }

    fn header_x(&self, asm: &mut Asm, k: u32, ends: &Ends) {
        if k > FAR {
            return asm.jump(ends.rejected);
        }
        match self.place_of(k, 1) {
            Some(place) => asm.put(LDX | B | MSH, place),
            None => asm.jump(ends.undecided),
        }
    }

    /// Emits a shift by X. The kernel would take X modulo 32.
    fn shift_x(&self, asm: &mut Asm, shift: Insn) {
        let (small, large, next) = (asm.label(), asm.label(), asm.label());
        asm.put(ST, self.spare.save);
        asm.put(MISC | TXA, 0);
        asm.branch(JGE, u32::BITS, large, small);
        asm.place(small);
        asm.put(LD | MEM, self.spare.save);
        asm.put(shift.code, shift.k);
        asm.jump(next);
        asm.place(large);
        asm.put(LD | IMM, 0);
        asm.place(next);
    }
}

#[cfg(test)]
mod tests {
    use super::super::insn::code::JEQ;
    use super::*;
    use crate::filter::Subject;
    use quaff_testpackets as build;
    use std::net::Ipv4Addr;

    const MATCHED: u32 = 0x4_0000;
    const UNDECIDED: u32 = 0x4_0001;

    /// `ether[0] == 2`, relocated over VXLAN.
    fn relocated(kinds: TunnelKinds) -> Result<Relocated, NotRelocatable> {
        let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
        let insns = [
            insn(LD | B | ABS, 0, 0, 0),
            insn(JMP | JEQ | K, 0, 1, 2),
            insn(RET | K, 0, 0, 1),
            insn(RET | K, 0, 0, 0),
        ];
        let inner = Program::new(&insns).expect("a program");
        let (matched, undecided) = (MATCHED, UNDECIDED);
        relocate(&Relocation { inner: &inner, outer: None, kinds, depth: 1, matched, undecided })
    }

    #[test]
    fn the_inner_frame_decides() {
        let program = relocated("vxlan".parse().unwrap()).expect("a program");
        assert_eq!((program.layouts, program.left), (vec![TunnelLayout::Vxlan], vec![]));
        let program = Program::new(&program.insns).expect("a program");
        let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        for (first, expected) in [(2, MATCHED), (3, 0)] {
            let mut frame = build::ethernet(&[], 0x0800, &[0; 46]);
            frame[0] = first;
            let udp = build::udp(1, 4789, &build::vxlan(7, &frame));
            let bytes = build::ethernet(&[], 0x0800, &build::ipv4(a, b, 17, &[], &udp));
            let run = |bytes: &[u8]| {
                program.run(&Subject { bytes, wire_len: bytes.len() as u32, ..Subject::default() })
            };
            assert_eq!((run(&bytes), run(&frame)), (expected, UNDECIDED));
        }
    }

    #[test]
    fn without_a_layout_there_is_no_program() {
        assert_eq!(relocated(TunnelKinds::NONE), Err(NotRelocatable::NoLayout));
    }
}
