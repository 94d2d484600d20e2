//! An assembler for eBPF: instruction constructors and labels.
//!
//! Methods have the kernel's macro names in lower case (`BPF_MOV64_REG` is [`Asm::mov64`]), so code reads
//! like include/linux/filter.h. Encodings follow Documentation/bpf/standardization/instruction-set.rst. This
//! module never checks a program: the kernel's verifier does.

/// A register: R0 result, R1 to R5 arguments (clobbered by calls), R6 to R9 preserved, R10 frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the registers are their own documentation")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The width of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    /// 1 byte.
    B = 0x10,
    /// 2 bytes.
    H = 0x08,
    /// 4 bytes.
    W = 0x00,
    /// 8 bytes.
    Dw = 0x18,
}

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "BPF_ADD and so on, as in linux/bpf.h")]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Xor = 0xa0,
}

/// The condition of a jump; all are unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "BPF_JEQ and so on, as in linux/bpf.h")]
pub enum Jmp {
    Jeq = 0x10,
    Jgt = 0x20,
    Jge = 0x30,
    Jne = 0x50,
    Jlt = 0xa0,
    Jle = 0xb0,
}

/// The second operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    Reg(Reg),
    /// Sign-extended to 64 bits.
    Imm(i32),
}

/// A kernel function that programs call, by its number in linux/bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `u64 bpf_ktime_get_ns(void)`: CLOCK_MONOTONIC, ns.
    KtimeGetNs = 5,
    /// `u32 bpf_get_smp_processor_id(void)`: the number of the core that runs the program.
    GetSmpProcessorId = 8,
    /// `long bpf_clone_redirect(struct sk_buff *, u32 ifindex, u64 flags)`: sends a copy from another interface.
    CloneRedirect = 13,
    /// `long bpf_redirect(u32 ifindex, u64 flags)`: returns XDP_REDIRECT or TC_ACT_REDIRECT, for the program to return.
    Redirect = 23,
    /// `long bpf_redirect_map(struct bpf_map *, u64 key, u64 flags)`: XDP_REDIRECT, or `flags` without an entry.
    RedirectMap = 51,
    /// `long bpf_xdp_adjust_meta(struct xdp_buff *, int delta)`: moves the start of the bytes before the frame that
    /// travel with it; 0, or an error.
    XdpAdjustMeta = 54,
    /// `long bpf_xdp_adjust_tail(struct xdp_buff *, int delta)`: 0, or an error.
    XdpAdjustTail = 65,
    /// `void *bpf_ringbuf_reserve(struct bpf_map *, u64 size, u64 flags)`: room for a record, or 0 (Linux 5.8).
    RingbufReserve = 131,
    /// `void bpf_ringbuf_submit(void *record, u64 flags)`: passes a reserved record to the reader.
    RingbufSubmit = 132,
    /// `void bpf_ringbuf_discard(void *record, u64 flags)`: the reader skips a reserved record.
    RingbufDiscard = 133,
    /// `u64 bpf_xdp_get_buff_len(struct xdp_buff *)`: bytes of the frame (Linux 5.18).
    XdpGetBuffLen = 188,
    /// `long bpf_xdp_load_bytes(struct xdp_buff *, u32 offset, void *buf, u32 len)`: 0, or an error (Linux 5.18).
    XdpLoadBytes = 189,
    /// `long bpf_xdp_store_bytes(struct xdp_buff *, u32 offset, void *buf, u32 len)`: 0, or an error (Linux 5.18).
    XdpStoreBytes = 190,
}

/// The return value of a program; the numbers of tc and of XDP overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// tc: the frame continues (`TC_ACT_OK`, linux/pkt_cls.h).
    TcOk,
    /// tc: the frame is dropped (`TC_ACT_SHOT`).
    TcShot,
    XdpDrop,
    /// The frame continues to the stack.
    XdpPass,
    /// The frame goes to the target that a redirecting helper has set.
    XdpRedirect,
}

impl Verdict {
    /// The number that the program returns (linux/pkt_cls.h, linux/bpf.h).
    pub const fn number(self) -> i32 {
        match self {
            Self::TcOk => 0,
            Self::XdpDrop => 1,
            Self::TcShot | Self::XdpPass => 2,
            Self::XdpRedirect => 4,
        }
    }
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

impl From<Verdict> for Operand {
    fn from(verdict: Verdict) -> Self {
        Self::Imm(verdict.number())
    }
}

/// `struct bpf_insn` (linux/bpf.h): 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Insn {
    code: u8,
    registers: u8,
    off: i16,
    imm: i32,
}

/// A jump target, which may be placed after the jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub struct Asm {
    insns: Vec<Insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

const ALU64: u8 = 0x07;
const ALU: u8 = 0x04;
const JMP: u8 = 0x05;
const LDX_MEM: u8 = 0x61;
const ST_MEM: u8 = 0x62;
const STX_MEM: u8 = 0x63;
const STX_ATOMIC: u8 = 0xc3;
const FETCH_ADD: i32 = 0x01;
const LD_IMM64: u8 = 0x18;
const MOV: u8 = 0xb0;
const K: u8 = 0x00;
const X: u8 = 0x08;
const END: u8 = 0xd0;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const JA: u8 = 0x00;
const PSEUDO_MAP_FD: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;

impl Asm {
    /// Creates a label, not placed yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places `label` before the next instruction.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.insns.len());
    }

    /// `dst = src`
    pub fn mov64(&mut self, dst: Reg, src: impl Into<Operand>) {
        let (source, src, imm) = encode(src);
        self.push(ALU64 | MOV | source, dst, src, 0, imm);
    }

    /// `dst = (u32) src`
    pub fn mov32_reg(&mut self, dst: Reg, src: Reg) {
        self.push(ALU | MOV | X, dst, src as u8, 0, 0);
    }

    /// `dst op= src`
    pub fn alu64(&mut self, op: Alu, dst: Reg, src: impl Into<Operand>) {
        let (source, src, imm) = encode(src);
        self.push(ALU64 | op as u8 | source, dst, src, 0, imm);
    }

    /// `dst = htobe16/32/64(dst)`, for `bits` of 16, 32 or 64.
    pub fn to_be(&mut self, dst: Reg, bits: i32) {
        self.push(ALU | END | X, dst, 0, 0, bits);
    }

    /// `dst = imm`, all 64 bits (two slots).
    pub fn ld_imm64(&mut self, dst: Reg, imm: u64) {
        self.push(LD_IMM64, dst, 0, 0, imm as i32);
        self.insns.push(Insn { code: 0, registers: 0, off: 0, imm: (imm >> 32) as i32 });
    }

    /// `dst = &value[offset]` of the only entry of an array map (two slots).
    pub fn ld_map_value(&mut self, dst: Reg, map: &super::ArrayMap, offset: usize) {
        self.push(LD_IMM64, dst, PSEUDO_MAP_VALUE, 0, map.raw_fd());
        self.insns.push(Insn { code: 0, registers: 0, off: 0, imm: offset as i32 });
    }

    /// `dst = map`, for a helper that takes one (two slots).
    pub(crate) fn ld_socket_map(&mut self, dst: Reg, map: &super::SocketMap) {
        self.push(LD_IMM64, dst, PSEUDO_MAP_FD, 0, map.raw_fd());
        self.insns.push(Insn { code: 0, registers: 0, off: 0, imm: 0 });
    }

    /// `dst = map`, for a ring buffer (two slots).
    pub(crate) fn ld_ring(&mut self, dst: Reg, ring: &super::RingMap) {
        self.push(LD_IMM64, dst, PSEUDO_MAP_FD, 0, ring.raw_fd());
        self.insns.push(Insn { code: 0, registers: 0, off: 0, imm: 0 });
    }

    /// `dst = *(size *)(src + off)`
    pub fn ldx_mem(&mut self, size: Size, dst: Reg, src: Reg, off: usize) {
        self.push(LDX_MEM | size as u8, dst, src as u8, off, 0);
    }

    /// Loads the first byte's address of an XDP program's frame, and the address after its last byte, from the
    /// context in R1 (`struct xdp_md`).
    pub fn ld_frame(&mut self, data: Reg, data_end: Reg) {
        self.ldx_mem(Size::W, data, Reg::R1, 0);
        self.ldx_mem(Size::W, data_end, Reg::R1, 4);
    }

    /// Loads the address of the bytes before an XDP program's frame from the context in `context`.
    pub(crate) fn ld_meta(&mut self, meta: Reg, context: Reg) {
        self.ldx_mem(Size::W, meta, context, 8);
    }

    /// Loads the bytes of a tc program's frame from the context in `context` (`struct __sk_buff`).
    pub fn ld_skb_len(&mut self, len: Reg, context: Reg) {
        self.ldx_mem(Size::W, len, context, 0);
    }

    /// Loads the number of the receive queue of an XDP program's frame from the context in `context`.
    pub(crate) fn ld_rx_queue(&mut self, queue: Reg, context: Reg) {
        self.ldx_mem(Size::W, queue, context, 16);
    }

    /// `*(size *)(dst + off) = src`
    pub fn st_mem(&mut self, size: Size, dst: Reg, src: impl Into<Operand>, off: usize) {
        let (source, src, imm) = encode(src);
        let code = if source == X { STX_MEM } else { ST_MEM };
        self.push(code | size as u8, dst, src, off, imm);
    }

    /// `stack[slot] = src`; there are 64 slots of 8 bytes.
    pub fn spill(&mut self, slot: usize, src: Reg) {
        self.stack(STX_MEM, Reg::R10, src as u8, slot);
    }

    /// `dst = stack[slot]`
    pub fn fill(&mut self, dst: Reg, slot: usize) {
        self.stack(LDX_MEM, dst, Reg::R10 as u8, slot);
    }

    /// `src = atomic_fetch_add((u64 *)(dst + off), src)`, sequentially consistent (Linux 5.12).
    pub fn atomic_fetch_add64(&mut self, dst: Reg, off: usize, src: Reg) {
        self.push(STX_ATOMIC | Size::Dw as u8, dst, src as u8, off, FETCH_ADD);
    }

    /// `if (dst op src) goto label`
    pub fn jmp(&mut self, op: Jmp, dst: Reg, src: impl Into<Operand>, label: Label) {
        let (source, src, imm) = encode(src);
        self.jump(JMP | op as u8 | source, dst, src, imm, label);
    }

    /// `goto label`
    pub fn ja(&mut self, label: Label) {
        self.jump(JMP | JA, Reg::R0, 0, 0, label);
    }

    /// `r0 = helper(r1, …)`
    pub fn call(&mut self, helper: Helper) {
        self.push(JMP | CALL, Reg::R0, 0, 0, helper as i32);
    }

    /// `return r0`
    pub fn exit(&mut self) {
        self.push(JMP | EXIT, Reg::R0, 0, 0, 0);
    }

    /// The finished program.
    ///
    /// # Panics
    /// When a jump's label was never placed or is too far away.
    pub(super) fn finish(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("each label that is jumped to is placed");
            let distance = to as i64 - at as i64 - 1;
            self.insns[at].off = i16::try_from(distance).expect("programs here are short");
        }
        self.insns
    }

    fn push(&mut self, code: u8, dst: Reg, src: u8, off: usize, imm: i32) {
        let off = i16::try_from(off).expect("offsets into frames and states are below 32 KiB");
        self.insns.push(Insn { code, registers: registers(dst, src), off, imm });
    }

    fn stack(&mut self, code: u8, dst: Reg, src: u8, slot: usize) {
        let off = -8 - 8 * i16::try_from(slot).expect("a stack has 64 slots");
        let registers = registers(dst, src);
        self.insns.push(Insn { code: code | Size::Dw as u8, registers, off, imm: 0 });
    }

    fn jump(&mut self, code: u8, dst: Reg, src: u8, imm: i32, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.push(code, dst, src, 0, imm);
    }
}

/// The source bit of an opcode, the source register, and the immediate value.
fn encode(operand: impl Into<Operand>) -> (u8, u8, i32) {
    match operand.into() {
        Operand::Reg(reg) => (X, reg as u8, 0),
        Operand::Imm(imm) => (K, 0, imm),
    }
}

/// `dst_reg:4, src_reg:4`: bit fields, so their order follows the machine's byte order.
const fn registers(dst: Reg, src: u8) -> u8 {
    if cfg!(target_endian = "little") { src << 4 | dst as u8 } else { (dst as u8) << 4 | src }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(insn: Insn) -> (u8, u8, i16, i32) {
        (insn.code, insn.registers, insn.off, insn.imm)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn encodings_agree_with_llvm() {
        let mut asm = Asm::default();
        asm.mov64(Reg::R6, Reg::R1);
        asm.mov64(Reg::R0, -1);
        asm.ldx_mem(Size::W, Reg::R2, Reg::R1, 4);
        asm.st_mem(Size::Dw, Reg::R7, Reg::R3, 44);
        asm.st_mem(Size::H, Reg::R7, 8, 12);
        asm.alu64(Alu::Rsh, Reg::R2, 16);
        asm.to_be(Reg::R1, 64);
        asm.atomic_fetch_add64(Reg::R7, 8, Reg::R2);
        asm.spill(1, Reg::R3);
        asm.fill(Reg::R4, 0);
        asm.call(Helper::KtimeGetNs);
        asm.exit();
        let expected = [
            (0xbf, 0x16, 0, 0),
            (0xb7, 0x00, 0, -1),
            (0x61, 0x12, 4, 0),
            (0x7b, 0x37, 44, 0),
            (0x6a, 0x07, 12, 8),
            (0x77, 0x02, 0, 16),
            (0xdc, 0x01, 0, 64),
            (0xdb, 0x27, 8, 1),
            (0x7b, 0x3a, -16, 0),
            (0x79, 0xa4, -8, 0),
            (0x85, 0x00, 0, 5),
            (0x95, 0x00, 0, 0),
        ];
        assert_eq!(asm.finish().into_iter().map(bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn jumps_reach_their_labels_both_ways() {
        let mut asm = Asm::default();
        let (back, forth) = (asm.label(), asm.label());
        asm.place(back);
        asm.jmp(Jmp::Jeq, Reg::R0, 0, forth);
        asm.ld_imm64(Reg::R1, u64::MAX);
        asm.ja(back);
        asm.place(forth);
        asm.exit();
        let offsets: Vec<_> = asm.finish().iter().map(|insn| insn.off).collect();
        assert_eq!(offsets, [3, 0, 0, -4, 0]);
    }

    #[test]
    #[should_panic(expected = "placed")]
    fn a_label_that_is_not_placed_panics() {
        let mut asm = Asm::default();
        let nowhere = asm.label();
        asm.ja(nowhere);
        asm.finish();
    }
}
