//! Filters on frames as a file has them, for the kernel: it takes the outer VLAN tag off a frame before a filter sees
//! it, and keeps the tag beside the frame. The program is written twice: for frames without a tag, and with one.

use super::Program;
use super::asm::Asm;
use super::insn::code::{ABS, JEQ, K, LD, RET, W};
use super::insn::{ANCILLARY, Insn, Op, Size};
use super::relocate::{Body, INSNS_MAX, Relocation, Spare, TagPlace, chain};
use crate::net::TAG_BYTES;
use crate::record::TAG_OFFSET;
use crate::tunnel::TunnelKinds;

/// The tag beside a frame, and whether there is one (`SKF_AD_VLAN_*`, linux/filter.h).
pub(super) const TAG_TCI: u32 = ANCILLARY + 44;
const TAG_PRESENT: u32 = ANCILLARY + 48;
pub(super) const TAG_TPID: u32 = ANCILLARY + 60;

/// A program for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithTag {
    pub insns: Vec<Insn>,
    /// It decides about all frames. Otherwise it accepts those with a tag, to be decided in user space.
    pub is_exact: bool,
}

/// The program for frames whose tag is beside them that decides as `program` does with the tag in its place. Accepts
/// `snaplen` bytes.
pub fn with_tag(program: &Program, snaplen: u32) -> WithTag {
    match exact(program, snaplen) {
        Some(insns) => WithTag { insns, is_exact: true },
        None => WithTag { insns: passing(program, snaplen), is_exact: false },
    }
}

/// Returns whether the program reads the tag beside the frame itself.
pub fn reads_tag(program: &[Insn]) -> bool {
    let is_tag = |insn: &Insn| [TAG_TCI, TAG_PRESENT, TAG_TPID].contains(&insn.k);
    program.iter().any(|insn| insn.code & 0xe7 == LD | ABS && is_tag(insn))
}

/// Half of the load is in the tag and half beside it, or the program computes the place of a load in the link header.
fn is_undecidable(op: &Op) -> bool {
    let (tag, after) = (TAG_OFFSET as u32, (TAG_OFFSET + TAG_BYTES) as u32);
    match *op {
        Op::Load(Size::Byte, _) | Op::Load(Size::Half, 12 | 14) => false,
        Op::Load(size, k) => k < after && k.saturating_add(size.bytes()) > tag,
        Op::LoadX(_, k) => k < tag,
        _ => false,
    }
}

fn exact(program: &Program, snaplen: u32) -> Option<Vec<Insn>> {
    if program.ops.iter().any(is_undecidable) {
        return None;
    }
    // No frame is left undecided: what a program can read of a tag, it reads here.
    let (kinds, matched) = (TunnelKinds::NONE, snaplen);
    let relocation = Relocation { inner: program, outer: None, kinds, depth: 1, matched, undecided: 0 };
    let spare = Spare::of(&relocation).ok()?;
    let mut asm = head(program, snaplen)?;
    let body = Body { relocation: &relocation, base: 0, tag: Some(TagPlace::Metadata), spare };
    body.write(&mut asm).ok()?;
    Some(asm.finish()).filter(|insns| insns.len() <= INSNS_MAX)
}

/// Accepts all frames with a tag; without room for that, all frames.
fn passing(program: &Program, snaplen: u32) -> Vec<Insn> {
    let accept = Insn { code: RET | K, jt: 0, jf: 0, k: snaplen };
    let insns = head(program, snaplen).map(|mut asm| {
        asm.put(accept.code, accept.k);
        asm.finish()
    });
    insns.filter(|insns| insns.len() <= INSNS_MAX).unwrap_or_else(|| vec![accept])
}

/// The program as it is for frames without a tag. What follows is for those with one.
fn head(program: &Program, snaplen: u32) -> Option<Asm> {
    let mut asm = Asm::default();
    let (tagged, plain) = (asm.label(), asm.label());
    asm.put(LD | W | ABS, TAG_PRESENT);
    asm.branch(JEQ | K, 0u32, plain, tagged);
    asm.place(plain);
    chain(&mut asm, &program.insns).ok()?;
    asm.put(RET | K, snaplen);
    asm.place(tagged);
    Some(asm)
}
