//! Filters on frames as in a file, for the kernel, which removes the outer VLAN tag before a filter sees the frame and
//! keeps it in metadata. The program is emitted twice: for frames without a tag, and with one.

use super::Program;
use super::asm::Asm;
use super::insn::code::{ABS, JEQ, K, LD, RET, W};
use super::insn::{Insn, Op, Size, TAG_PRESENT, TAG_TCI, TAG_TPID};
use super::relocate::{Body, INSNS_MAX, Relocation, Spare, TagPlace, chain};
use crate::net::TAG_BYTES;
use crate::record::TAG_OFFSET;
use crate::tunnel::TunnelKinds;

/// A program for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithTag {
    pub insns: Vec<Insn>,
    /// True if it decides about all frames. Otherwise it accepts tagged frames, to be decided in user space.
    pub is_exact: bool,
}

/// The program for frames with their tag in metadata that decides as `program` does with the tag in place. Accepts
/// `snaplen` bytes.
pub fn with_tag(program: &Program, snaplen: u32) -> WithTag {
    match exact(program, snaplen) {
        Some(insns) => WithTag { insns, is_exact: true },
        None => WithTag { insns: passing(program, snaplen), is_exact: false },
    }
}

/// True if the program loads the tag from the metadata itself.
pub fn reads_tag(program: &[Insn]) -> bool {
    let is_tag = |insn: &Insn| [TAG_TCI, TAG_PRESENT, TAG_TPID].contains(&insn.k);
    program.iter().any(|insn| insn.code & 0xe7 == LD | ABS && is_tag(insn))
}

/// True for a load that is partly in the tag, or whose offset in the link header is computed.
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
    // No frame is left undecided: everything that a program can load from a tag is handled here.
    let (kinds, matched) = (TunnelKinds::NONE, snaplen);
    let relocation = Relocation { inner: program, outer: None, kinds, depth: 1, matched, undecided: 0 };
    let spare = Spare::of(&relocation).ok()?;
    let mut asm = head(program, snaplen)?;
    let body = Body { relocation: &relocation, base: 0, tag: Some(TagPlace::Metadata), spare };
    body.write(&mut asm).ok()?;
    Some(asm.finish()).filter(|insns| insns.len() <= INSNS_MAX)
}

/// Accepts all tagged frames; if that does not fit, all frames.
fn passing(program: &Program, snaplen: u32) -> Vec<Insn> {
    let accept = Insn { code: RET | K, jt: 0, jf: 0, k: snaplen };
    let insns = head(program, snaplen).map(|mut asm| {
        asm.put(accept.code, accept.k);
        asm.finish()
    });
    insns.filter(|insns| insns.len() <= INSNS_MAX).unwrap_or_else(|| vec![accept])
}

/// The unchanged program for untagged frames. The part for tagged frames follows.
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
