//! Clocks, for the few places that may read one: ticks, deadlines, file names.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Wall-clock time (CLOCK_REALTIME), ns since 1970 UTC. Steps when the clock is set.
pub fn wall_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// Monotonic time (CLOCK_MONOTONIC), ns since boot. Never steps back.
pub fn steady_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The current offset from [`steady_ns`] to wall-clock time, to be added with wrapping.
///
/// Reads both clocks several times and takes the reading with the shortest time between its two monotonic
/// values.
pub fn epoch_offset_ns() -> u64 {
    let reading = || {
        let (before, wall, after) = (steady_ns(), wall_ns(), steady_ns());
        (after - before, wall.wrapping_sub(before.midpoint(after)))
    };
    (0..16).map(|_| reading()).min().map_or(0, |(_, offset)| offset)
}

/// Sleeps until [`steady_ns`] reaches `deadline_ns` or a signal arrives. Wakes about 10 to 100 µs late.
pub fn sleep_until(deadline_ns: u64) {
    let deadline = TimeSpec::new((deadline_ns / 1_000_000_000) as i64, (deadline_ns % 1_000_000_000) as i64);
    // A signal ends the sleep early; callers read the clock again anyway.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &deadline);
}

fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_converts_one_clock_to_the_other() {
        let wall = steady_ns().wrapping_add(epoch_offset_ns());
        assert!(wall.abs_diff(wall_ns()) < 1_000_000_000);
    }

    #[test]
    fn a_sleep_is_never_too_short() {
        let deadline_ns = steady_ns() + 2_000_000;
        sleep_until(deadline_ns);
        assert!(steady_ns() >= deadline_ns);
    }
}
