//! The BPF program that sends frames from a map, each when it is due.
//!
//! Constants of a run are compiled in; variables are the words of [`word`]; the frames are in a second map, in the
//! layout of `ring`. One invocation sends at most one frame. Equivalent C:
//!
//! ```c
//! int replay(struct xdp_md *ctx)
//! {
//!     if (state.sent >= state.limit) return XDP_DROP;            // all sent, or stopped
//!     // Unpaced, the clock is read for some frames only.
//!     bool reads_clock = PACED || STOP_AFTER_NS || !(state.sent % CLOCK_FRAMES) || is_last;
//!     u64 now = reads_clock ? bpf_ktime_get_ns() : state.last_ns;
//!     if (!state.first_ns) state.first_ns = state.base_ns = now; // the anchor
//!     if (STREAMED && state.sent == state.seen) {                // all known frames are sent
//!         state.seen = atomic_fetch_add(&state.ready, 0);
//!         if (state.sent == state.seen) { state.starved++; return XDP_DROP; }
//!     }
//!     u64 at = state.at;
//!     if (at > RING_BYTES - ITEM_BYTES_MAX) return XDP_DROP;     // never: for the verifier
//!     struct item *item = ring + at;
//!
//!     u64 due = now;
//!     if (PACED) due = state.base_ns + item->due_ns + (state.base_fraction + item->fraction >> 32);
//!     if (STOP_AFTER_NS && due - state.first_ns >= STOP_AFTER_NS) { state.limit = 0; return XDP_DROP; }
//!     if (due > now + FAR_NS) { state.far_ns = due; return XDP_DROP; }    // far enough to sleep
//!     for (u64 turns = SPIN_TURNS; now < due; now = bpf_ktime_get_ns())
//!         if (--turns == 0) return XDP_DROP;                     // not yet: let the kernel handle other work
//!
//!     state.last_ns = now;
//!     state.due_ns = due;
//!     if (PACED) {
//!         u64 late = now - due;
//!         state.histogram[bucket(late)]++;
//!         state.late_sum_ns += late;
//!         if (late > state.late_max_ns) state.late_max_ns = late;
//!         if (late < BURST_NS) state.burst = 0;
//!         else if (++state.burst > state.burst_max) state.burst_max = state.burst;
//!         if (SHIFT && late > LATE_NS) { state.base_ns += late; state.shifted_ns += late; }
//!     }
//!
//!     u32 len = item->len;
//!     if (len > FRAME_BYTES_MAX) return XDP_DROP;                // never: for the verifier
//!     // The last receiver of a page may have changed it, so every byte is stored anew.
//!     if (DROP && late > LATE_NS) state.late_dropped++;
//!     else if (bpf_xdp_adjust_tail(ctx, len - FIRST_BYTES) || bpf_xdp_store_bytes(ctx, 0, item->frame, len))
//!         state.failed++;
//!     else { state.bytes += len; result = XDP_PASS; /* or bpf_redirect(IFINDEX, 0) */ }
//!
//!     if (UNIQUE && item->down) {                                // new flows in the next pass
//!         u32 low = be32(ring[at + item->down]);
//!         ring[at + item->down] = be32(low ? low - 1 : -2);      // see `unique`
//!         u32 high = be32(ring[at + item->up]);
//!         ring[at + item->up] = be32(high + 1 ?: 1);
//!     }
//!     if (item->flags & LAST) {
//!         u64 fraction = state.base_fraction + state.pass_fraction;
//!         state.base_ns += state.pass_ns + (fraction >> 32);
//!         state.base_fraction = (u32)fraction;
//!         state.passes++;
//!     }
//!     state.at = item->next;
//!     state.sent++;
//!     return result;
//! }
//! ```

use super::ring::{self, ITEM_BYTES_MAX, field};
use crate::bpf_live::FRAME_BYTES_MAX;
use crate::bpf_live::{Far, Registers, add_to, at, count_lateness, wait_until_due};
use crate::histogram::BURST_NS;
use crate::schedule::LatePolicy;
use crate::state::word;
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Jmp, Label, Reg, Size, Verdict};

use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};

/// Minimum distance of a deadline for which user space sleeps, which costs about 30 ms, ns.
const FAR_NS: i32 = 120_000_000;
/// Interval of clock reads of an unpaced run, frames (a power of 2); also read at the last frame. A read takes a
/// twentieth of the time of a frame.
const CLOCK_FRAMES: i32 = 32;
/// The registers that keep their values through the wait.
const REGISTERS: Registers = Registers { now: R0, due: R9, state: R7 };

/// Values that are compiled into the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Constants {
    /// True if frames have deadlines.
    pub(super) paced: bool,
    /// True if frames are written into the ring while the program runs.
    pub(super) streamed: bool,
    /// True if addresses change from pass to pass.
    pub(super) unique: bool,
    pub(super) late: LatePolicy,
    /// Lateness above which the policy applies, ns.
    pub(super) late_ns: i32,
    /// End of the run, ns after the first frame.
    pub(super) stop_after_ns: Option<u64>,
    /// Index of the interface that frames leave through; `None` injects them.
    pub(super) redirect: Option<u32>,
    /// Length of a frame as passed to the program, bytes.
    pub(super) first_bytes: usize,
    /// Clock reads of one invocation; between invocations the kernel handles signals and forwards its batch.
    pub(super) spin_turns: i32,
}

/// Stack slot of the return value.
const RESULT: usize = 0;
/// Stack slot of the lateness.
const LATE: usize = 1;

/// Assembles the program.
pub(super) fn assemble(constants: &Constants, state: &ArrayMap, frames: &ArrayMap) -> Asm {
    let mut asm = Asm::default();
    let drop = asm.label();
    // R6 = the context, R7 = the state, throughout.
    asm.mov64(R6, R1);
    asm.ld_map_value(R7, state, 0);
    begin(&mut asm, constants, frames, drop);
    wait(&mut asm, constants, state, drop);
    send(&mut asm, constants, drop);
    if constants.unique {
        shift_addresses(&mut asm);
    }
    advance(&mut asm, constants.streamed);
    asm.fill(R0, RESULT);
    asm.exit();
    asm.place(drop);
    asm.mov64(R0, Verdict::XdpDrop);
    asm.exit();
    asm
}

fn count(asm: &mut Asm, word: usize) {
    add_to(asm, R7, word, |asm, sum| asm.alu64(Alu::Add, sum, 1));
}

/// R8 = the item, R9 = now. Exits if no item is left.
fn begin(asm: &mut Asm, constants: &Constants, frames: &ArrayMap, drop: Label) {
    asm.ldx_mem(Size::Dw, R1, R7, at(word::SENT));
    asm.ldx_mem(Size::Dw, R2, R7, at(word::LIMIT));
    asm.jmp(Jmp::Jge, R1, R2, drop);
    if constants.streamed {
        wait_for_item(asm, drop);
    }
    let (started, read) = (asm.label(), asm.label());
    if !constants.paced && constants.stop_after_ns.is_none() {
        asm.ldx_mem(Size::Dw, R9, R7, at(word::LAST_NS));
        asm.jmp(Jmp::Jeq, R9, 0, read);
        asm.mov64(R2, R1);
        asm.alu64(Alu::And, R2, CLOCK_FRAMES - 1);
        asm.jmp(Jmp::Jeq, R2, 0, read);
        asm.alu64(Alu::Add, R1, 1);
        asm.ldx_mem(Size::Dw, R2, R7, at(word::LIMIT));
        asm.jmp(Jmp::Jlt, R1, R2, started);
        asm.place(read);
    }
    asm.call(Helper::KtimeGetNs);
    asm.mov64(R9, R0);
    asm.ldx_mem(Size::Dw, R1, R7, at(word::FIRST_NS));
    asm.jmp(Jmp::Jne, R1, 0, started);
    asm.st_mem(Size::Dw, R7, R9, at(word::FIRST_NS));
    asm.st_mem(Size::Dw, R7, R9, at(word::BASE_NS));
    asm.place(started);
    asm.ldx_mem(Size::Dw, R1, R7, at(word::AT));
    asm.jmp(Jmp::Jgt, R1, (frames.bytes() - ITEM_BYTES_MAX) as i32, drop);
    asm.ld_map_value(R8, frames, 0);
    asm.alu64(Alu::Add, R8, R1);
}

/// Exits if the ring is empty. R1 = frames sent.
fn wait_for_item(asm: &mut Asm, drop: Label) {
    let there = asm.label();
    asm.ldx_mem(Size::Dw, R2, R7, at(word::SEEN));
    asm.jmp(Jmp::Jlt, R1, R2, there);
    asm.mov64(R2, 0);
    asm.atomic_fetch_add64(R7, at(word::READY), R2);
    asm.st_mem(Size::Dw, R7, R2, at(word::SEEN));
    asm.jmp(Jmp::Jlt, R1, R2, there);
    count(asm, word::STARVED);
    asm.ja(drop);
    asm.place(there);
}

/// R9 = due, R0 = now. Exits if the frame is not yet due, or after the end of the run.
fn wait(asm: &mut Asm, constants: &Constants, state: &ArrayMap, drop: Label) {
    asm.mov64(R0, R9);
    if constants.paced {
        asm.ldx_mem(Size::Dw, R1, R7, at(word::BASE_FRACTION));
        asm.ldx_mem(Size::W, R2, R8, field::FRACTION);
        asm.alu64(Alu::Add, R1, R2);
        asm.alu64(Alu::Rsh, R1, 32);
        asm.ldx_mem(Size::Dw, R9, R8, field::DUE_NS);
        asm.alu64(Alu::Add, R9, R1);
        asm.ldx_mem(Size::Dw, R1, R7, at(word::BASE_NS));
        asm.alu64(Alu::Add, R9, R1);
    }
    if let Some(stop_after_ns) = constants.stop_after_ns {
        let in_time = asm.label();
        asm.mov64(R1, R9);
        asm.ldx_mem(Size::Dw, R2, R7, at(word::FIRST_NS));
        asm.alu64(Alu::Sub, R1, R2);
        asm.ld_imm64(R2, stop_after_ns);
        asm.jmp(Jmp::Jlt, R1, R2, in_time);
        asm.mov64(R1, 0);
        asm.st_mem(Size::Dw, R7, R1, at(word::LIMIT));
        asm.ja(drop);
        asm.place(in_time);
    }
    if constants.paced {
        let far = Far { ns: FAR_NS, is_stored: true };
        wait_until_due(asm, REGISTERS, Some(far), constants.spin_turns, state, drop);
    }
    asm.st_mem(Size::Dw, R7, R0, at(word::LAST_NS));
    asm.st_mem(Size::Dw, R7, R9, at(word::DUE_NS));
    if constants.paced {
        measure(asm, constants);
    }
}

/// R1 = late, also on the stack.
fn measure(asm: &mut Asm, constants: &Constants) {
    count_lateness(asm, REGISTERS);
    asm.spill(LATE, R1);
    count_burst(asm);
    if constants.late == LatePolicy::Shift {
        let in_time = asm.label();
        asm.jmp(Jmp::Jle, R1, constants.late_ns, in_time);
        add_to(asm, R7, word::BASE_NS, |asm, sum| asm.alu64(Alu::Add, sum, R1));
        add_to(asm, R7, word::SHIFTED_NS, |asm, sum| asm.alu64(Alu::Add, sum, R1));
        asm.place(in_time);
    }
}

/// Counts consecutive late frames; R1 is the lateness of this one.
fn count_burst(asm: &mut Asm) {
    let in_time = asm.label();
    asm.mov64(R2, 0);
    asm.jmp(Jmp::Jlt, R1, BURST_NS as i32, in_time);
    asm.ldx_mem(Size::Dw, R2, R7, at(word::BURST));
    asm.alu64(Alu::Add, R2, 1);
    asm.ldx_mem(Size::Dw, R3, R7, at(word::BURST_MAX));
    asm.jmp(Jmp::Jle, R2, R3, in_time);
    asm.st_mem(Size::Dw, R7, R2, at(word::BURST_MAX));
    asm.place(in_time);
    asm.st_mem(Size::Dw, R7, R2, at(word::BURST));
}

/// Writes the frame of the item; the return value is on the stack.
fn send(asm: &mut Asm, constants: &Constants, drop: Label) {
    let (failed, sent, left_out) = (asm.label(), asm.label(), asm.label());
    asm.mov64(R1, Verdict::XdpDrop);
    asm.spill(RESULT, R1);
    asm.ldx_mem(Size::H, R9, R8, field::LEN);
    asm.jmp(Jmp::Jgt, R9, FRAME_BYTES_MAX as i32, drop);
    asm.jmp(Jmp::Jeq, R9, 0, drop);
    if constants.paced && constants.late == LatePolicy::Drop {
        let in_time = asm.label();
        asm.fill(R1, LATE);
        asm.jmp(Jmp::Jle, R1, constants.late_ns, in_time);
        count(asm, word::LATE_DROPPED);
        asm.ja(left_out);
        asm.place(in_time);
    }
    asm.mov64(R1, R6);
    asm.mov64(R2, R9);
    asm.alu64(Alu::Sub, R2, constants.first_bytes as i32);
    asm.call(Helper::XdpAdjustTail);
    asm.jmp(Jmp::Jne, R0, 0, failed);
    asm.mov64(R1, R6);
    asm.mov64(R2, 0);
    asm.mov64(R3, R8);
    asm.alu64(Alu::Add, R3, ring::HEADER_BYTES as i32);
    asm.mov64(R4, R9);
    asm.call(Helper::XdpStoreBytes);
    asm.jmp(Jmp::Jeq, R0, 0, sent);
    asm.place(failed);
    count(asm, word::FAILED);
    asm.ja(left_out);
    asm.place(sent);
    add_to(asm, R7, word::BYTES, |asm, sum| asm.alu64(Alu::Add, sum, R9));
    match constants.redirect {
        None => asm.mov64(R0, Verdict::XdpPass),
        Some(ifindex) => {
            asm.mov64(R1, ifindex as i32);
            asm.mov64(R2, 0);
            asm.call(Helper::Redirect);
        }
    }
    asm.spill(RESULT, R0);
    asm.place(left_out);
}

/// Changes the addresses of the frame in the ring, for the next pass.
fn shift_addresses(asm: &mut Asm) {
    let done = asm.label();
    for (place, change) in [(field::DOWN, -1), (field::UP, 1)] {
        let in_range = asm.label();
        asm.ldx_mem(Size::H, R1, R8, place);
        asm.jmp(Jmp::Jeq, R1, 0, done);
        asm.jmp(Jmp::Jgt, R1, FRAME_BYTES_MAX as i32 - 4, done);
        asm.mov64(R2, R8);
        asm.alu64(Alu::Add, R2, R1);
        asm.ldx_mem(Size::W, R3, R2, ring::HEADER_BYTES);
        asm.to_be(R3, 32);
        // Arithmetic modulo 2^32 - 1, in which 0 and 2^32 - 1 are the same number.
        if change < 0 {
            asm.jmp(Jmp::Jne, R3, 0, in_range);
            asm.ld_imm64(R3, 0xffff_ffff);
        } else {
            asm.ld_imm64(R5, 0xffff_ffff);
            asm.jmp(Jmp::Jne, R3, R5, in_range);
            asm.mov64(R3, 0);
        }
        asm.place(in_range);
        asm.alu64(Alu::Add, R3, change);
        asm.to_be(R3, 32);
        asm.st_mem(Size::W, R2, R3, ring::HEADER_BYTES);
    }
    asm.place(done);
}

/// Advances to the next item.
fn advance(asm: &mut Asm, streamed: bool) {
    let not_last = asm.label();
    asm.ldx_mem(Size::H, R1, R8, field::LAST);
    asm.jmp(Jmp::Jeq, R1, 0, not_last);
    asm.ldx_mem(Size::Dw, R1, R7, at(word::BASE_FRACTION));
    asm.ldx_mem(Size::Dw, R2, R7, at(word::PASS_FRACTION));
    asm.alu64(Alu::Add, R1, R2);
    asm.mov32_reg(R2, R1);
    asm.st_mem(Size::Dw, R7, R2, at(word::BASE_FRACTION));
    asm.alu64(Alu::Rsh, R1, 32);
    asm.ldx_mem(Size::Dw, R2, R7, at(word::PASS_NS));
    asm.alu64(Alu::Add, R1, R2);
    add_to(asm, R7, word::BASE_NS, |asm, sum| asm.alu64(Alu::Add, sum, R1));
    count(asm, word::PASSES);
    asm.place(not_last);
    asm.ldx_mem(Size::W, R1, R8, field::NEXT);
    asm.st_mem(Size::Dw, R7, R1, at(word::AT));
    if streamed {
        // A full barrier: the thread that fills the ring reuses the space of this item.
        asm.mov64(R1, 1);
        asm.atomic_fetch_add64(R7, at(word::SENT), R1);
    } else {
        count(asm, word::SENT);
    }
}
