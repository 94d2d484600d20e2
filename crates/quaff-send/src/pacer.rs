//! Waits for a deadline in user space: sleeps until shortly before it, then spins. It never sends.

use quaff_os::clock::{self, steady_ns};

/// Final part of a wait that is spent spinning, because waking up may take that long, ns.
const SPIN_NS: u64 = 100_000;
/// Longest sleep, so that a stop is noticed in time even without a signal, ns.
const SLEEP_NS: u64 = 20_000_000;

/// Waits until `deadline_ns` of CLOCK_MONOTONIC. Returns `false` as soon as `is_stopped` is true.
pub fn wait_until(deadline_ns: u64, is_stopped: impl Fn() -> bool) -> bool {
    if !sleep_until(deadline_ns.saturating_sub(SPIN_NS), is_stopped) {
        return false;
    }
    while steady_ns() < deadline_ns {
        std::hint::spin_loop();
    }
    true
}

/// Sleeps until `deadline_ns` of CLOCK_MONOTONIC. Returns `false` as soon as `is_stopped` is true.
pub(crate) fn sleep_until(deadline_ns: u64, is_stopped: impl Fn() -> bool) -> bool {
    loop {
        if is_stopped() {
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
    use std::cell::Cell;

    #[test]
    fn a_wait_ends_at_its_deadline_or_at_a_stop() {
        let begun_ns = steady_ns();
        assert!(wait_until(begun_ns + 1_000_000, || false));
        assert!(steady_ns() >= begun_ns + 1_000_000);
        let looks = Cell::new(0);
        let stop = || looks.replace(looks.get() + 1) == 2;
        assert!(!wait_until(u64::MAX, stop));
        assert_eq!(looks.get(), 3, "the stop is checked after each sleep");
    }
}
