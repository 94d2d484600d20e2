//! The BPF program that completes probe frames and keeps the pace. It never selects the frames.
//!
//! Constants of a run are compiled in; variables are the words of the state. One invocation sends at most one frame.
//! Equivalent C:
//!
//! ```c
//! int generate(struct xdp_md *ctx)
//! {
//!     u8 *frame = ctx->data;
//!     if (frame + STAMP_END > ctx->data_end) return XDP_DROP;
//!     if (state.sent >= state.limit) return XDP_DROP;      // all sent, or stopped
//!
//!     u64 now = bpf_ktime_get_ns();
//!     if (!state.first_ns) state.first_ns = state.due_ns = now;
//!
//!     u64 due = PACED ? state.due_ns : now;
//!     if (FAR_NS && due > now + FAR_NS) return XDP_DROP;   // the rest of a call for one frame
//!     for (u64 turns = SPIN_TURNS; now < due; now = bpf_ktime_get_ns())
//!         if (--turns == 0) return XDP_DROP;               // not yet: let the kernel handle other work
//!
//!     state.last_ns = now;
//!     u64 late = now - due;                                // an absolute deadline: no drift
//!     if (PACED) {
//!         state.histogram[bucket(late)]++;
//!         state.late_sum_ns += late;
//!         if (late > state.late_max_ns) state.late_max_ns = late;
//!     }
//!
//!     u64 seq = state.sent++;
//!     if (PACED) {
//!         u64 next = state.fraction + INTERVAL;            // 2^-16 ns
//!         state.fraction = next & 0xffff;
//!         state.due_ns = due + (next >> 16);
//!     }
//!
//!     // The last receiver of a page may have changed it (a stripped VLAN tag, a lower TTL), so every byte up to the
//!     // end of the probe header is written anew.
//!     memcpy(frame, HEADERS, HEADERS_BYTES);
//!     u64 addresses = 0, ports = 0;                        // see steps.rs
//!     step_tuple(frame, &addresses, &ports);
//!     store_be(frame + IP + 10, ~fold(IP_BASE_SUM + addresses));
//!
//!     u64 intended = due + EPOCH_OFFSET;
//!     u32 word = min(late, LATE_NS_MAX) | BOUNDED | (seq == COUNT - 1 ? LAST : 0);
//!     u64 sum = BASE_SUM + addresses + ports;
//!     sum += hi32(seq) + lo32(seq) + hi32(intended) + lo32(intended) + word;
//!     sum = fold(fold(fold(sum)));                         // RFC 1071
//!     u16 checksum = ~sum ?: 0xffff;                       // RFC 768
//!
//!     if (SEQUENCE_OFFSET) store_be(frame + SEQUENCE_OFFSET, (u32)seq);
//!     store_be(frame + CHECKSUM_OFFSET, checksum);
//!     store_be(frame + STAMP_OFFSET, MAGIC, seq, intended, word);
//!     return XDP_PASS;
//! }
//! ```
//!
//! A frame without probe header lacks the last line; the sequence number of a SYN is `(u32)seq`.

mod steps;
mod template;

pub(super) use template::Template;

use crate::bpf_live::{Far, Registers, at, count_lateness, wait_until_due};
use crate::state::word;
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Jmp, Label, Reg, Size, Verdict};
use quaff_wire::probe::{BOUNDED, LAST, LATE_NS_MAX, ProbeHeader};
use steps::{complement, step_tuple};

use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};

/// Maximum clock reads of one invocation, 20 to 50 µs; between invocations the kernel handles signals and other work.
/// The verifier simulates every turn, so this also bounds the loading time.
const SPIN_TURNS: i32 = 1000;

/// The registers that keep their values during the wait.
const REGISTERS: Registers = Registers { now: R8, due: R9, state: R6 };

/// Values that are compiled into the program.
#[derive(Debug)]
pub(super) struct Constants<'a> {
    /// Headers and partial checksums of the frames.
    pub(super) template: &'a Template,
    /// Interval between two frames, 2^-16 ns; 0: as fast as possible.
    pub(super) interval: u64,
    /// Distance above which the program does not spin for a deadline, ns; `None`: it always spins.
    pub(super) far_ns: Option<i32>,
    /// Number of frames, if known from the start.
    pub(super) count: Option<u64>,
    /// Difference between ns since 1970 and CLOCK_MONOTONIC.
    pub(super) epoch_offset_ns: u64,
}

/// Assembles the program.
pub(super) fn assemble(constants: &Constants<'_>, state: &ArrayMap) -> Asm {
    let mut asm = Asm::default();
    let drop = asm.label();
    check_bounds(&mut asm, constants, state, drop);
    wait(&mut asm, constants, state, drop);
    measure(&mut asm, constants);
    advance(&mut asm, constants);
    write_headers(&mut asm, constants.template);
    step_tuple(&mut asm, constants.template);
    sum(&mut asm, constants.template);
    write_rest(&mut asm, constants.template);
    asm.mov64(R0, Verdict::XdpPass);
    asm.exit();
    asm.place(drop);
    asm.mov64(R0, Verdict::XdpDrop);
    asm.exit();
    asm
}

/// R7 = frame. Exits if all frames have been sent.
fn check_bounds(asm: &mut Asm, constants: &Constants<'_>, state: &ArrayMap, drop: Label) {
    asm.ld_frame(R7, R2);
    asm.mov64(R3, R7);
    asm.alu64(Alu::Add, R3, constants.template.rewritten_bytes() as i32);
    asm.jmp(Jmp::Jgt, R3, R2, drop);
    asm.ld_map_value(R6, state, 0);
    asm.ldx_mem(Size::Dw, R1, R6, at(word::SENT));
    asm.ldx_mem(Size::Dw, R2, R6, at(word::LIMIT));
    asm.jmp(Jmp::Jge, R1, R2, drop);
}

/// R8 = now, R9 = due, R6 = the state. Exits if the frame is not due soon.
fn wait(asm: &mut Asm, constants: &Constants<'_>, state: &ArrayMap, drop: Label) {
    let started = asm.label();
    asm.call(Helper::KtimeGetNs);
    asm.mov64(R8, R0);
    asm.ldx_mem(Size::Dw, R1, R6, at(word::FIRST_NS));
    asm.jmp(Jmp::Jne, R1, 0, started);
    asm.st_mem(Size::Dw, R6, R8, at(word::FIRST_NS));
    asm.st_mem(Size::Dw, R6, R8, at(word::DUE_NS));
    asm.place(started);
    if constants.interval == 0 {
        asm.mov64(R9, R8);
        return;
    }
    asm.ldx_mem(Size::Dw, R9, R6, at(word::DUE_NS));
    let far = constants.far_ns.map(|ns| Far { ns, is_stored: false });
    wait_until_due(asm, REGISTERS, far, SPIN_TURNS, state, drop);
}

/// R1 = late.
fn measure(asm: &mut Asm, constants: &Constants<'_>) {
    asm.st_mem(Size::Dw, R6, R8, at(word::LAST_NS));
    if constants.interval == 0 {
        asm.mov64(R1, 0);
        return;
    }
    count_lateness(asm, REGISTERS);
}

/// R4 = seq, R8 = last word of the probe header, R9 = intended time since 1970. Sets the next deadline.
fn advance(asm: &mut Asm, constants: &Constants<'_>) {
    asm.ldx_mem(Size::Dw, R4, R6, at(word::SENT));
    asm.mov64(R2, R4);
    asm.alu64(Alu::Add, R2, 1);
    asm.st_mem(Size::Dw, R6, R2, at(word::SENT));
    if constants.interval != 0 {
        asm.ldx_mem(Size::Dw, R2, R6, at(word::FRACTION));
        asm.ld_imm64(R3, constants.interval);
        asm.alu64(Alu::Add, R2, R3);
        asm.mov64(R3, R2);
        asm.alu64(Alu::And, R3, 0xffff);
        asm.st_mem(Size::Dw, R6, R3, at(word::FRACTION));
        asm.alu64(Alu::Rsh, R2, 16);
        asm.alu64(Alu::Add, R2, R9);
        asm.st_mem(Size::Dw, R6, R2, at(word::DUE_NS));
    }
    let in_range = asm.label();
    asm.mov64(R8, R1);
    asm.jmp(Jmp::Jle, R8, LATE_NS_MAX as i32, in_range);
    asm.mov64(R8, LATE_NS_MAX as i32);
    asm.place(in_range);
    if let Some(count) = constants.count {
        let not_last = asm.label();
        asm.alu64(Alu::Or, R8, BOUNDED as i32);
        asm.ld_imm64(R2, count.wrapping_sub(1));
        asm.jmp(Jmp::Jne, R4, R2, not_last);
        asm.ld_imm64(R2, u64::from(LAST));
        asm.alu64(Alu::Or, R8, R2);
        asm.place(not_last);
    }
    asm.ld_imm64(R2, constants.epoch_offset_ns);
    asm.alu64(Alu::Add, R9, R2);
}

/// Writes the bytes before the probe header, with checksums of 0.
fn write_headers(asm: &mut Asm, template: &Template) {
    let (words, rest) = template.headers().as_chunks::<4>();
    for (i, word) in words.iter().enumerate() {
        asm.st_mem(Size::W, R7, i32::from_ne_bytes(*word), i * 4);
    }
    if let [one, two] = rest {
        asm.st_mem(Size::H, R7, i32::from(u16::from_ne_bytes([*one, *two])), words.len() * 4);
    }
}

/// R2 = checksum of the frame with R4, R8 and R9 in its probe header, from R5 (addresses) and R0 (ports).
fn sum(asm: &mut Asm, template: &Template) {
    // Adding 32-bit halves equals adding their words: 2^16 is 1 in one's complement arithmetic.
    asm.mov64(R2, i32::from(template.base_sum));
    asm.alu64(Alu::Add, R2, R5);
    asm.alu64(Alu::Add, R2, R0);
    if template.stamp.is_some() {
        for value in [R4, R9] {
            asm.mov64(R3, value);
            asm.alu64(Alu::Rsh, R3, 32);
            asm.alu64(Alu::Add, R2, R3);
            asm.mov32_reg(R3, value);
            asm.alu64(Alu::Add, R2, R3);
        }
        asm.alu64(Alu::Add, R2, R8);
    }
    if let Some(offset) = template.tcp_seq() {
        asm.mov32_reg(R3, R4);
        asm.alu64(Alu::Add, R2, R3);
        asm.to_be(R3, 32);
        asm.st_mem(Size::W, R7, R3, offset);
    }
    complement(asm);
    let not_zero = asm.label();
    asm.jmp(Jmp::Jne, R2, 0, not_zero);
    asm.mov64(R2, 0xffff);
    asm.place(not_zero);
}

/// Writes the checksum, the sequence number of the mirror headers and the probe header.
fn write_rest(asm: &mut Asm, template: &Template) {
    if let Some(offset) = template.mirror_number {
        asm.mov32_reg(R3, R4);
        asm.to_be(R3, 32);
        asm.st_mem(Size::W, R7, R3, offset);
    }
    asm.to_be(R2, 16);
    asm.st_mem(Size::H, R7, R2, template.checksum_offset());
    let Some(stamp) = template.stamp else { return };
    asm.st_mem(Size::H, R7, i32::from(ProbeHeader::LAYOUT.magic.to_be()), stamp);
    for (size, bits, value, offset) in
        [(Size::Dw, 64, R4, stamp + 2), (Size::Dw, 64, R9, stamp + 10), (Size::W, 32, R8, stamp + 18)]
    {
        asm.to_be(value, bits);
        asm.st_mem(size, R7, value, offset);
    }
}
