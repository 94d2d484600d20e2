//! The budget of a script: processor time of one call, and the memory of its state.
//!
//! Lua runs a hook every [`HOOK_STEPS`] instructions, and what is written in Rust for scripts counts steps; both look
//! at the clock here. Time is that of the thread's processor: a script is not stopped because the machine was busy.

use crate::pace::{FAILED_OF, FAILED_RUN};
use quaff_os::clock::thread_cpu_ns;
use std::cell::Cell;
use std::fmt;
use std::time::Duration;

/// Instructions of Lua between two looks at the clock. Few, because one of them may be a function on a long string.
pub(crate) const HOOK_STEPS: u32 = 1000;
/// Steps of a pattern between two looks.
const LOOK_STEPS: u32 = 4096;

/// Functions of Rust inside each other that call functions of Lua.
const NESTED_MAX: u32 = 16;

/// The part of the budget that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    Time,
    Memory,
    /// Too many of its calls failed.
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

/// The time of a call.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_ns: u64,
    /// Processor time at the first look of this call, ns; 0 before it. The look is within some µs of the call's begin,
    /// and most calls end before it: they cost no system call.
    begun_ns: Cell<u64>,
    /// A call took more time than its budget by the clock of the machine. From then on each call begins with a look.
    is_watched: Cell<bool>,
    steps: Cell<u32>,
    exceeded: Cell<Option<Exceeded>>,
    /// The line of the script at the last look of Lua's hook; 0 before it. An error of memory has no trace.
    line: Cell<u32>,
    /// Functions of Rust inside each other that call functions of Lua.
    nested: Cell<u32>,
}

/// A function of Rust that calls functions of Lua.
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

    /// Begins a call.
    #[inline]
    pub(crate) fn begin(&self) {
        self.begun_ns.set(if self.is_watched.get() { thread_cpu_ns().max(1) } else { 0 });
        self.line.set(0);
    }

    /// Begins a call with a look, whatever it costs: the one that loads the script.
    pub(crate) fn begin_exactly(&self) {
        self.begun_ns.set(thread_cpu_ns().max(1));
        self.line.set(0);
    }

    /// Ends a call that took `took_ns` by the clock of the machine. One of few instructions may have had no look: its
    /// functions of C were busy for long, or the machine was.
    #[inline]
    pub(crate) fn end(&self, took_ns: u64) {
        if took_ns > self.limit_ns && self.is_watched.replace(true) {
            // The result is that of `exceeded`.
            let _ = self.look();
        }
    }

    /// Notes the line that the script has reached.
    pub(crate) fn note_line(&self, line: u32) {
        self.line.set(line);
    }

    /// The line that was noted last in this call.
    pub(crate) fn line(&self) -> Option<u32> {
        Some(self.line.get()).filter(|line| *line > 0)
    }

    /// The part that was exceeded since the script was loaded: no error handler of the script may hide it.
    #[inline]
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get()
    }

    /// Enters a function that calls functions of Lua; `None` if there are too many: each needs stack of the thread, and
    /// Lua's own limit of 200 is for functions of C.
    pub(crate) fn nest(&self) -> Option<Nested<'_>> {
        let is_deep = self.nested.get() >= NESTED_MAX;
        (!is_deep).then(|| {
            self.nested.set(self.nested.get() + 1);
            Nested(self)
        })
    }

    /// Notes that Lua's allocator refused memory.
    pub(crate) fn note_memory(&self) {
        self.exceeded.set(self.exceeded.get().or(Some(Exceeded::Memory)));
    }

    /// Looks at the clock.
    pub(crate) fn look(&self) -> Result<(), Exceeded> {
        let (now_ns, begun_ns) = (thread_cpu_ns(), self.begun_ns.get());
        if begun_ns == 0 {
            self.begun_ns.set(now_ns.max(1));
        } else if now_ns - begun_ns > self.limit_ns {
            self.exceeded.set(self.exceeded.get().or(Some(Exceeded::Time)));
        }
        self.exceeded.get().map_or(Ok(()), Err)
    }

    /// Counts a step.
    #[inline]
    pub(crate) fn step(&self) -> Result<(), Exceeded> {
        self.steps(1)
    }

    /// Counts the steps of a piece of work.
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

    /// A few instructions may be many functions of C on long texts, between two looks at the clock.
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
