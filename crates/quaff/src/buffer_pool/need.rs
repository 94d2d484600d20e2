//! Decides how many buffers are populated ahead of need; populates none.
//!
//! A buffer that is not used costs memory, and seconds of CPU time on a virtual machine. So a pool of the default size
//! keeps ready, beyond all that was ever in use:
//!
//! - [`Need::few`], which the start may not have finished;
//! - as much again as was in use at the most, so that a stall of the output may be twice as long as the longest before;
//! - what the input could fill in [`STALL`] beyond what can be populated meanwhile, at the highest rate so far.
//!
//! While a lane takes fresh buffers, more are populated; the lane signals that.

use crate::gauge::BufferGauges;
use std::time::{Duration, Instant};

/// The least number of ready buffers; with fewer the thread leaves its low priority.
pub(super) const FEW_BUFFERS: usize = 64;
/// The time in which the fastest input so far fills as few.
const FEW_TIME: Duration = Duration::from_millis(500);
/// The time without any output for which buffers are ready, however slowly memory is populated.
const STALL: Duration = Duration::from_secs(2);
/// The input may become faster by this factor than it ever was.
const FASTER: f64 = 1.25;
/// The part of a core that populates memory while packets arrive, of one without a lane and of one with a lane.
const SHARE_OF_QUIET_CORE: f64 = 0.5;
const SHARE_OF_BUSY_CORE: f64 = 0.25;
/// The shortest time over which the rate of the input is measured.
const RATE_TIME: Duration = Duration::from_millis(50);
/// Buffers that are populated once there are too few, beyond those that are wanted.
const SURPLUS_BUFFERS: usize = 16;
/// The weight of the last buffer in the mean time for a buffer.
const WEIGHT: f64 = 1.0 / 16.0;

/// The number of buffers that are populated ahead of need.
#[derive(Debug)]
pub(super) struct Need {
    /// All of the pool, because its size was given.
    takes_all: bool,
    pub(super) buffer_bytes: usize,
    /// The highest rate at which lanes have taken buffers, bytes/s.
    rate: f64,
    /// Mean time that a buffer took to populate, s.
    buffer_seconds: f64,
    /// The time of the last look, and [`BufferGauges::taken_bytes`] then.
    last: (Instant, u64),
    is_met: bool,
}

impl Need {
    pub(super) fn new(takes_all: bool, buffer_bytes: usize) -> Self {
        let last = (Instant::now(), 0);
        Self { takes_all, buffer_bytes, rate: 0.0, buffer_seconds: 0.0, last, is_met: false }
    }

    /// Notes the time in which a buffer was populated.
    pub(super) fn populated(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.buffer_seconds += match self.buffer_seconds {
            0.0 => seconds,
            mean => WEIGHT * (seconds - mean),
        };
    }

    /// Returns how many buffers should be populated now if `ready` fresh ones are; `has_quiet` says that there is a
    /// core without a lane.
    pub(super) fn lacks(
        &mut self,
        ready: usize,
        gauges: &BufferGauges,
        has_quiet: bool,
        now: Instant,
    ) -> usize {
        self.look(gauges.taken_bytes(), now);
        if self.takes_all {
            return usize::MAX;
        }
        let wanted = self.wanted(gauges.high_bytes(), has_quiet);
        let surplus = if self.is_met { 0 } else { SURPLUS_BUFFERS };
        let lacking = wanted.saturating_add(surplus).saturating_sub(ready);
        self.is_met = lacking == 0;
        lacking
    }

    /// Returns the number of ready buffers below which there are few.
    pub(super) fn few(&self) -> usize {
        ((self.rate * FEW_TIME.as_secs_f64() / self.buffer_bytes as f64).ceil() as usize).max(FEW_BUFFERS)
    }

    /// Measures the rate of the input.
    fn look(&mut self, taken_bytes: u64, now: Instant) {
        let (then, before) = self.last;
        let time = now.saturating_duration_since(then);
        if time >= RATE_TIME {
            self.rate = self.rate.max((taken_bytes - before) as f64 / time.as_secs_f64());
            self.last = (now, taken_bytes);
        }
    }

    /// The number of fresh buffers that should be ready.
    fn wanted(&self, high_bytes: u64, has_quiet: bool) -> usize {
        let bytes = self.buffer_bytes as f64;
        let share = if has_quiet { SHARE_OF_QUIET_CORE } else { SHARE_OF_BUSY_CORE };
        let pace = if self.buffer_seconds > 0.0 { share * bytes / self.buffer_seconds } else { 0.0 };
        let in_stall = (FASTER * self.rate - pace).max(0.0) * STALL.as_secs_f64();
        ((in_stall.max(high_bytes as f64) / bytes).ceil() as usize).max(self.few())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4 << 20;

    /// A need after a second in which the input took so many buffers, each of which is populated in so many ms.
    fn need(taken: u64, populate_ms: u64) -> (Need, BufferGauges, Instant) {
        let (mut need, gauges) = (Need::new(false, BYTES), BufferGauges::new(1 << 40));
        need.populated(Duration::from_millis(populate_ms));
        let begun = need.last.0;
        for _ in 0..taken {
            gauges.take(BYTES);
            gauges.put(BYTES);
        }
        (need, gauges, begun + Duration::from_secs(1))
    }

    /// The number of ready buffers that are wanted.
    fn wanted(need: &mut Need, gauges: &BufferGauges, has_quiet: bool, now: Instant) -> usize {
        need.is_met = true;
        need.lacks(0, gauges, has_quiet, now)
    }

    #[test]
    fn an_idle_input_needs_few_and_a_given_size_all() {
        let (mut idle, gauges, now) = need(0, 10);
        assert_eq!((wanted(&mut idle, &gauges, true, now), idle.few()), (FEW_BUFFERS, FEW_BUFFERS));
        let mut given = Need::new(true, BYTES);
        assert!(given.lacks(1 << 20, &gauges, true, now) > 0);
    }

    #[test]
    fn an_input_that_is_faster_than_memory_is_populated_needs_what_a_stall_would_fill() {
        // 150 a second, which may become 187.5; half a core populates 50 a second of them.
        let (mut slow, gauges, now) = need(150, 10);
        assert_eq!(wanted(&mut slow, &gauges, true, now), 275);
        assert_eq!(wanted(&mut slow, &gauges, false, now), 325, "the lanes have all cores");
        let (mut fast, gauges, now) = need(150, 1);
        assert_eq!((wanted(&mut fast, &gauges, true, now), fast.few()), (75, 75), "half a second of it");
    }

    #[test]
    fn the_highest_rate_and_the_highest_use_are_kept() {
        let (mut need, gauges, now) = need(150, 10);
        assert_eq!(wanted(&mut need, &gauges, true, now), 275);
        let later = now + Duration::from_secs(9);
        assert_eq!(wanted(&mut need, &gauges, true, later), 275);
        (0..400).for_each(|_| gauges.take(BYTES));
        (0..400).for_each(|_| gauges.put(BYTES));
        assert_eq!(wanted(&mut need, &gauges, true, later), 400);
    }

    #[test]
    fn once_there_are_too_few_more_are_populated_than_are_wanted() {
        let (mut need, gauges, now) = need(0, 10);
        let lacks = [63, 64, 79, 80, 64, 63, 64].map(|ready| need.lacks(ready, &gauges, true, now));
        assert_eq!(lacks, [17, 16, 1, 0, 0, 1, 16]);
    }
}
