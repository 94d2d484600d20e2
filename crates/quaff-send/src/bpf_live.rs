//! The common part of the BPF programs on live frames: the call that runs one, the wait for a deadline, the statistics
//! of lateness. It knows neither the frames nor the schedule of a run.

use crate::histogram::{BUCKETS, COARSE_SHIFT, FINE_BUCKETS, FINE_SHIFT};
use crate::state::word;
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Jmp, Label, LiveRun, Program, Reg, Size};
use quaff_os::{Errno, Result};

use Reg::{R0, R1, R2, R3, R4};

/// Largest frame that all kernels with live frames accept, bytes: page size (4096) minus headroom, `struct
/// xdp_page_head` and `struct skb_shared_info`, which vary a little (6.18: 3408).
pub(crate) const FRAME_BYTES_MAX: usize = 3400;
/// Longest time that a paced frame may wait for the rest of its batch, ns.
const BATCH_NS: u64 = 4_000;

/// Number of frames that the kernel collects per batch: at most `most`, which applies to interval 0.
pub(crate) fn batch(interval_ns: u64, most: u32) -> u32 {
    BATCH_NS.checked_div(interval_ns).map_or(most, |frames| frames.clamp(1, most.into()) as u32)
}

/// Runs a program until it has been repeated as often as planned, or is interrupted.
pub(crate) fn run(program: &Program, run: LiveRun<'_>) -> Result<()> {
    let is_small = run.frame.len() <= FRAME_BYTES_MAX;
    let Err(error) = program.run_live(run) else { return Ok(()) };
    match Errno::from_raw(error.raw()) {
        Errno::EINTR => Ok(()),
        Errno::EINVAL if is_small => Err(error.advise("BPF live frames need Linux 5.18 or newer")),
        Errno::EINVAL => {
            Err(error
                .advise("the kernel injects frames of one page less its headroom; send larger ones with -o"))
        }
        _ => Err(error),
    }
}

/// The registers of a program that keep their values during the wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    /// Current time, ns.
    pub(crate) now: Reg,
    /// Deadline, ns.
    pub(crate) due: Reg,
    /// Address of the state; counts the clock reads during the wait, because no other register is free.
    pub(crate) state: Reg,
}

/// The handling of deadlines that are too far ahead to spin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Far {
    /// Minimum distance of a far deadline, ns.
    pub(crate) ns: i32,
    /// True to store such a deadline in [`word::FAR_NS`].
    pub(crate) is_stored: bool,
}

/// Offset of a word in the state, bytes.
pub(crate) const fn at(word: usize) -> usize {
    word * 8
}

/// Spins until `now` reaches `due`, at most `turns` times, and restores the state register. Jumps to `drop` if the
/// frame is not due by then, or if its deadline is far. Clobbers R0 to R5.
pub(crate) fn wait_until_due(
    asm: &mut Asm,
    registers: Registers,
    far: Option<Far>,
    turns: i32,
    state_map: &ArrayMap,
    drop: Label,
) {
    let Registers { now, due, state } = registers;
    let (near, again, is_due) = (asm.label(), asm.label(), asm.label());
    if let Some(far) = far {
        asm.mov64(R1, now);
        asm.alu64(Alu::Add, R1, far.ns);
        if far.is_stored {
            asm.jmp(Jmp::Jle, due, R1, near);
            asm.st_mem(Size::Dw, state, due, at(word::FAR_NS));
            asm.ja(drop);
        } else {
            asm.jmp(Jmp::Jgt, due, R1, drop);
        }
    }
    asm.place(near);
    asm.mov64(state, turns);
    asm.place(again);
    asm.jmp(Jmp::Jge, now, due, is_due);
    asm.alu64(Alu::Sub, state, 1);
    asm.jmp(Jmp::Jeq, state, 0, drop);
    asm.call(Helper::KtimeGetNs);
    if now != R0 {
        asm.mov64(now, R0);
    }
    asm.ja(again);
    asm.place(is_due);
    asm.ld_map_value(state, state_map, 0);
}

/// R1 = `now` - `due`; adds it to the histogram, the sum and the maximum. Clobbers R2 to R4.
pub(crate) fn count_lateness(asm: &mut Asm, registers: Registers) {
    let Registers { now, due, state } = registers;
    let (coarse, count, not_worse) = (asm.label(), asm.label(), asm.label());
    asm.mov64(R1, now);
    asm.alu64(Alu::Sub, R1, due);
    asm.mov64(R2, R1);
    asm.alu64(Alu::Rsh, R2, FINE_SHIFT);
    asm.jmp(Jmp::Jge, R2, FINE_BUCKETS as i32, coarse);
    asm.ja(count);
    asm.place(coarse);
    asm.alu64(Alu::Rsh, R2, COARSE_SHIFT - FINE_SHIFT);
    asm.alu64(Alu::Add, R2, FINE_BUCKETS as i32);
    asm.jmp(Jmp::Jlt, R2, BUCKETS as i32, count);
    asm.mov64(R2, BUCKETS as i32 - 1);
    asm.place(count);
    asm.alu64(Alu::Lsh, R2, 3);
    asm.mov64(R3, state);
    asm.alu64(Alu::Add, R3, R2);
    add_to(asm, R3, word::HISTOGRAM, |asm, sum| asm.alu64(Alu::Add, sum, 1));
    add_to(asm, state, word::LATE_SUM_NS, |asm, sum| asm.alu64(Alu::Add, sum, R1));
    asm.ldx_mem(Size::Dw, R2, state, at(word::LATE_MAX_NS));
    asm.jmp(Jmp::Jle, R1, R2, not_worse);
    asm.st_mem(Size::Dw, state, R1, at(word::LATE_MAX_NS));
    asm.place(not_worse);
}

/// Changes a word of the state, in R4. Not atomic: the program is its only writer.
pub(crate) fn add_to(asm: &mut Asm, base: Reg, word: usize, change: impl FnOnce(&mut Asm, Reg)) {
    asm.ldx_mem(Size::Dw, R4, base, at(word));
    change(asm, R4);
    asm.st_mem(Size::Dw, base, R4, at(word));
}
