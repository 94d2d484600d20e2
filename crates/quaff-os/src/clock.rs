//! Clocks, for the few places that may read one: ticks, deadlines, file names.

use crate::{Error, Result};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::time::Duration;

/// The synchronisation of the system clock (adjtimex(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discipline {
    /// A daemon such as chronyd synchronises it.
    pub is_synchronised: bool,
    /// The maximum error (`maxerror`).
    pub error_max: Duration,
}

/// Wall-clock time (CLOCK_REALTIME), ns since 1970 UTC. Steps when the clock is set.
pub fn wall_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// Monotonic time (CLOCK_MONOTONIC), ns since boot. Never steps back.
pub fn steady_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Processor time of this thread (CLOCK_THREAD_CPUTIME_ID), ns. Costs a system call.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
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

/// Reads the synchronisation of the system clock. Needs no privilege.
pub fn discipline() -> Result<Discipline> {
    // SAFETY: timex is plain data; all zero is a valid value, and `modes` 0 changes nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes one `struct timex`, which is local.
    let state = unsafe { libc::adjtimex(&mut timex) };
    if state < 0 {
        return Err(Error::last("read the synchronisation of the clock"));
    }
    Ok(Discipline {
        is_synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
        error_max: Duration::from_micros(u64::try_from(timex.maxerror).unwrap_or(0)),
    })
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

    #[test]
    fn the_synchronisation_is_read() {
        discipline().unwrap();
    }
}
