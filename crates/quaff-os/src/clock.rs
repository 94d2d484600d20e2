//! What time it is, for the few places that may ask: ticks, deadlines, file names.

use nix::time::{ClockId, clock_gettime};

/// Wall-clock time, ns since 1970 UTC. Steps when somebody sets the clock.
pub fn wall_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// Time that never steps back, ns since boot.
pub fn steady_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
