//! The budget of a script: CPU time per call, and memory of its Lua state.
//!
//! Lua runs a hook every [`HOOK_STEPS`] instructions, and the Rust functions for scripts count steps; both check the
//! clock here. Time is the thread's CPU time: a script is not stopped because the machine was busy.

use crate::pace::{FAILED_OF, FAILED_RUN};
use quaff_os::clock::thread_cpu_ns;
use std::cell::Cell;
use std::fmt;
use std::time::Duration;

/// Lua instructions between two checks of the clock. Few, because one of them may call a function on a long string.
pub(crate) const HOOK_STEPS: u32 = 1000;
/// Steps of a pattern between two checks of the clock.
const LOOK_STEPS: u32 = 4096;

/// Maximum nesting of Rust functions that call Lua functions.
const NESTED_MAX: u32 = 16;

/// The part of the budget that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    Time,
    Memory,
    /// Too many calls failed.
    Errors,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => f.write_str("took more time than a call may take"),
            Self::Memory => f.write_str("needed more memory than a script may have"),
            Self::Errors => {
                write!(f, "failed {FAILED_RUN} times in a row, or in more than half of {FAILED_OF} calls")
            }
        }
    }
}

/// The time budget of a call.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_ns: u64,
    /// CPU time at the first check in this call, ns; 0 before it. The check follows the start of the call by some µs,
    /// and most calls end before it: they cost no system call.
    begun_ns: Cell<u64>,
    /// A call exceeded its budget in wall-clock time. From then on each call starts with a check.
    is_watched: Cell<bool>,
    steps: Cell<u32>,
    exceeded: Cell<Option<Exceeded>>,
    /// Line of the script at the last hook; 0 before it. Used for memory errors, which have no traceback.
    line: Cell<u32>,
    /// Current nesting of Rust functions that call Lua functions.
    nested: Cell<u32>,
}

/// Guard of a Rust function that calls Lua functions.
pub(crate) struct Nested<'a>(&'a Budget);

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        self.0.nested.set(self.0.nested.get() - 1);
    }
}

impl Budget {
    pub(crate) fn new(limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self {
            limit_ns,
            begun_ns: Cell::new(0),
            is_watched: Cell::new(false),
            steps: Cell::new(0),
            exceeded: Cell::new(None),
            line: Cell::new(0),
            nested: Cell::new(0),
        }
    }

    /// Starts a call.
    #[inline]
    pub(crate) fn begin(&self) {
        self.begun_ns.set(if self.is_watched.get() { thread_cpu_ns().max(1) } else { 0 });
        self.line.set(0);
    }

    /// Starts a call with a check of the clock, whatever it costs: the call that loads the script.
    pub(crate) fn begin_exactly(&self) {
        self.begun_ns.set(thread_cpu_ns().max(1));
        self.line.set(0);
    }

    /// Ends a call that took `took_ns` of wall-clock time. A call of few instructions may have had no check: its C
    /// functions, or the machine, were busy for long.
    #[inline]
    pub(crate) fn end(&self, took_ns: u64) {
        if took_ns > self.limit_ns && self.is_watched.replace(true) {
            // `exceeded` returns the result.
            let _ = self.look();
        }
    }

    /// Records the line that the script has reached.
    pub(crate) fn note_line(&self, line: u32) {
        self.line.set(line);
    }

    /// The line recorded last in this call.
    pub(crate) fn line(&self) -> Option<u32> {
        Some(self.line.get()).filter(|line| *line > 0)
    }

    /// The limit that was exceeded since the script was loaded: no error handler of the script can hide it.
    #[inline]
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }

    /// Enters a function that calls Lua functions; `None` if the nesting is too deep: each level needs stack of the
    /// thread, and Lua's own limit of 200 covers C functions only.
    pub(crate) fn nest(&self) -> Option<Nested<'_>> {
        let is_deep = self.nested.get() >= NESTED_MAX;
        (!is_deep).then(|| {
            self.nested.set(self.nested.get() + 1);
            Nested(self)
        })
    }

    /// Records that Lua's allocator refused memory.
    pub(crate) fn note_memory(&self) {
        self.exceeded.set(self.exceeded.get().or(Some(Exceeded::Memory)));
    }

    /// Checks the clock.
    pub(crate) fn look(&self) -> Result<(), Exceeded> {
        let (now_ns, begun_ns) = (thread_cpu_ns(), self.begun_ns.get());
        if begun_ns == 0 {
            self.begun_ns.set(now_ns.max(1));
        } else if now_ns - begun_ns > self.limit_ns {
            self.exceeded.set(self.exceeded.get().or(Some(Exceeded::Time)));
        }
        self.exceeded.get().map_or(Ok(()), Err)
    }

    /// Counts one step.
    #[inline]
    pub(crate) fn step(&self) -> Result<(), Exceeded> {
        self.steps(1)
    }

    /// Counts several steps.
    #[inline]
    pub(crate) fn steps(&self, steps: usize) -> Result<(), Exceeded> {
        let steps = self.steps.get().saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if steps < LOOK_STEPS {
            self.steps.set(steps);
            return Ok(());
        }
        self.steps.set(0);
        self.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few instructions may be many C functions on long texts between two checks of the clock.
    #[test]
    fn a_call_without_a_look_is_stopped_when_it_comes_again() {
        const LONG_NS: u64 = 3_000_000;
        let budget = Budget::new(Duration::from_millis(1));
        let call = |work_ns| {
            budget.begin();
            let begun_ns = thread_cpu_ns();
            while thread_cpu_ns() - begun_ns < work_ns {}
            budget.end(work_ns);
            budget.exceeded()
        };
        assert_eq!([call(0), call(LONG_NS), call(0)], [None; 3], "the machine may have been busy");
        assert_eq!(call(LONG_NS), Some(Exceeded::Time));
    }
}
