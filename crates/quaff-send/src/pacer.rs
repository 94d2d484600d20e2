//! The pace in user space: absolute deadlines, slept for, and spun for at the end.

use crate::state::State;
use quaff_os::clock::{self, steady_ns};

/// Waking up takes so long at times; the rest of a wait is spun.
const SPIN_NS: u64 = 100_000;
/// No sleep is longer, so that the watcher's stop is seen in time even if its signal is missed.
const SLEEP_NS: u64 = 50_000_000;

/// Deadlines at even distances.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval: u64,
    due_ns: u64,
    fraction: u64,
}

impl Pacer {
    /// `interval` in 2^-16 ns; the first deadline is `first_ns`.
    pub(crate) fn new(interval: u64, first_ns: u64) -> Self {
        Self { interval, due_ns: first_ns, fraction: 0 }
    }

    /// The next deadline.
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Goes on to the deadline after it.
    pub(crate) fn advance(&mut self) {
        let next = self.fraction + self.interval;
        self.fraction = next & 0xffff;
        self.due_ns += next >> 16;
    }
}

/// Sleeps to shortly before `deadline_ns`, then spins. False when the watcher said stop.
pub(crate) fn wait_until(state: &State, deadline_ns: u64) -> bool {
    if !sleep_until(state, deadline_ns.saturating_sub(SPIN_NS)) {
        return false;
    }
    while steady_ns() < deadline_ns {
        std::hint::spin_loop();
    }
    true
}

/// Sleeps until `deadline_ns`. False when the watcher said stop.
pub(crate) fn sleep_until(state: &State, deadline_ns: u64) -> bool {
    loop {
        if state.left().is_none() {
            return false;
        }
        let now_ns = steady_ns();
        if now_ns >= deadline_ns {
            return true;
        }
        clock::sleep_until(deadline_ns.min(now_ns + SLEEP_NS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_do_not_drift() {
        // 3 per second: 333,333,333.33 ns.
        let mut pacer = Pacer::new((1e9 * 65_536.0 / 3.0) as u64, 1000);
        for _ in 0..3_000_000 {
            pacer.advance();
        }
        let expected_ns = 1_000_000 * 1_000_000_000 + 1000;
        assert!(pacer.due_ns().abs_diff(expected_ns) < 50, "{}", pacer.due_ns());
    }
}
