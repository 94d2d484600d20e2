//! The pace of a BPF program: the wait for a deadline and the count of lateness. Both programs use them.

use crate::histogram::{BUCKETS, COARSE_SHIFT, FINE_BUCKETS, FINE_SHIFT};
use crate::state::word;
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Jmp, Label, Reg, Size};

use Reg::{R0, R1, R2, R3, R4};

/// The registers of a program that keep their values through the wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    /// The time of the clock, ns.
    pub(crate) now: Reg,
    /// The deadline, ns.
    pub(crate) due: Reg,
    /// The state; counts the turns during the wait, because the verifier leaves no register free.
    pub(crate) state: Reg,
}

/// A deadline that is too far ahead to be waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Far {
    /// Deadlines later than this from now, ns.
    pub(crate) ns: i32,
    /// Stores the deadline in [`word::FAR_NS`].
    pub(crate) is_noted: bool,
}

/// Offset of a word of the state, bytes.
pub(crate) const fn at(word: usize) -> usize {
    word * 8
}

/// Spins until `now` has reached `due`, at most `turns` times, and restores the state's register. Jumps to `drop`
/// when the frame is not due after that, or when its deadline is far. R0 to R5 are lost.
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
        if far.is_noted {
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

/// R1 = `now` - `due`, counted in the histogram, the sum and the maximum. R2 to R4 are lost.
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

/// Loads a word into R4, changes it and stores it. Not atomic: the program is its only writer.
pub(crate) fn add_to(asm: &mut Asm, base: Reg, word: usize, change: impl FnOnce(&mut Asm, Reg)) {
    asm.ldx_mem(Size::Dw, R4, base, at(word));
    change(asm, R4);
    asm.st_mem(Size::Dw, base, R4, at(word));
}
