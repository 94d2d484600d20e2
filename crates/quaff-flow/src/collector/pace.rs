//! The rate limits of a sink: records per second, and a pause after a number of messages (nProbe's `-e` and `-B`).

use std::time::{Duration, Instant};

/// Rate limits; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Maximum records per second; 0: no limit.
    pub records_per_s: u32,
    /// Pause after each `pause_messages` messages.
    pub pause: Duration,
    pub pause_messages: u32,
}

/// Computes the waits that keep the limits; the caller waits.
#[derive(Debug)]
pub(super) struct Pace {
    limit: RateLimit,
    /// The time from which on the records sent so far are within the limit.
    due: Instant,
    messages: u32,
}

impl Pace {
    /// Records that may be sent at once, as the time that they take at the limit.
    const BURST: Duration = Duration::from_millis(20);

    pub(super) fn new(limit: RateLimit, now: Instant) -> Self {
        Self { limit, due: now, messages: 0 }
    }

    /// Counts a message with this number of records, to be sent now; returns the time to wait before the next one.
    pub(super) fn count(&mut self, records: u64, now: Instant) -> Duration {
        let mut wait = Duration::ZERO;
        if self.limit.records_per_s > 0 {
            let cost = Duration::from_nanos(records * 1_000_000_000 / u64::from(self.limit.records_per_s));
            self.due = self.due.max(now - Self::BURST.min(now.saturating_duration_since(self.due))) + cost;
            wait = self.due.saturating_duration_since(now).saturating_sub(Self::BURST);
        }
        if !self.limit.pause.is_zero() {
            self.messages += 1;
            if self.messages >= self.limit.pause_messages.max(1) {
                self.messages = 0;
                wait += self.limit.pause;
            }
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_leave_at_the_rate() {
        let start = Instant::now();
        let limit = RateLimit { records_per_s: 10_000, ..RateLimit::default() };
        let (mut pace, mut now) = (Pace::new(limit, start), start);
        for _ in 0..1000 {
            now += pace.count(25, now);
        }
        let rate = 25_000.0 / (now - start).as_secs_f64();
        assert!((9_900.0..=10_200.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_pause_follows_so_many_messages() {
        let now = Instant::now();
        let pause = Duration::from_millis(3);
        let limit = RateLimit { pause, pause_messages: 2, ..RateLimit::default() };
        let mut pace = Pace::new(limit, now);
        assert_eq!(
            [pace.count(1, now), pace.count(1, now), pace.count(1, now)],
            [Duration::ZERO, pause, Duration::ZERO]
        );
    }
}
