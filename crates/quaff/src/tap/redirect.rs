//! The program that passes each frame of a port to the other one, and counts it. It never looks at a frame.

use crate::Result;
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Program, Reg};

/// Counters, a cache line apart, so that cores do not wait for each other. Cores share one if there are more.
const COUNTERS: usize = 64;
/// Words of 8 bytes from one counter to the next, as a shift and as a number.
const LINE_SHIFT: i32 = 6;
const LINE_WORDS: usize = 8;

/// A loaded program. It stays attached when this is dropped.
#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) program: Program,
    counts: ArrayMap,
}

impl Redirect {
    /// Loads the program that sends frames by interface `to`.
    pub(super) fn load(to: u32) -> Result<Self> {
        let counts = ArrayMap::new("quaff_tap", COUNTERS * LINE_WORDS)?;
        let mut asm = Asm::default();
        asm.call(Helper::GetSmpProcessorId);
        asm.alu64(Alu::And, Reg::R0, COUNTERS as i32 - 1);
        asm.alu64(Alu::Lsh, Reg::R0, LINE_SHIFT);
        asm.ld_map_value(Reg::R1, &counts, 0);
        asm.alu64(Alu::Add, Reg::R1, Reg::R0);
        asm.mov64(Reg::R2, 1);
        asm.atomic_fetch_add64(Reg::R1, 0, Reg::R2);
        asm.mov64(Reg::R1, to as i32);
        asm.mov64(Reg::R2, 0);
        asm.call(Helper::Redirect);
        asm.exit();
        Ok(Self { program: Program::load_tc("quaff_tap", asm)?, counts })
    }

    /// Frames that it has passed on.
    pub(super) fn count(&self) -> u64 {
        (0..COUNTERS).map(|core| self.counts.load(core * LINE_WORDS)).sum()
    }
}

/// The name of the filter that sends frames by interface `to`.
pub(super) fn name(to: u32) -> String {
    format!("quaff-tap-{to}")
}

/// The same, as the kernel lists it.
pub(super) fn listed(to: u32) -> String {
    format!("bpf {}", name(to))
}
