//! The share of a lane's time that a script may use while packets wait for the lane, and the failures after which it
//! gets no more of it.
//!
//! All times are given: this file reads no clock.

/// Time that a script may use at once after it has used little, ns.
const BURST_NS: i64 = 20_000_000;
/// The debt that is remembered of a script that used more than its share, ns.
const DEBT_NS: i64 = 100_000_000;

/// Failed calls in a row after which a script is stopped.
pub(crate) const FAILED_RUN: u32 = 100;
/// Calls of which more than half may not fail.
pub(crate) const FAILED_OF: u64 = 1000;

/// The time that a script has left, refilled by its share of the time that passes.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Its share is `percent` of the time that passes, divided by `scripts`.
    percent: u64,
    scripts: u64,
    left_ns: i64,
    /// The time up to which it was refilled, ns; 0 before the first time.
    seen_ns: u64,
}

impl Pace {
    /// The pace of one of `scripts` scripts that may use `percent` of the lane together.
    pub(crate) fn new(percent: u32, scripts: usize) -> Self {
        let scripts = (scripts as u64).max(1);
        Self { percent: percent.into(), scripts, left_ns: BURST_NS, seen_ns: 0 }
    }

    /// Returns whether the script has time left.
    pub(crate) fn has_time(&mut self, now_ns: u64) -> bool {
        self.refill(now_ns);
        self.left_ns > 0
    }

    /// Takes the time of a call that began at `begun_ns`.
    #[inline]
    pub(crate) fn spend(&mut self, begun_ns: u64, took_ns: u64) {
        self.refill(begun_ns);
        let took_ns = i64::try_from(took_ns).unwrap_or(i64::MAX);
        self.left_ns = self.left_ns.saturating_sub(took_ns).max(-DEBT_NS);
    }

    #[inline]
    fn refill(&mut self, now_ns: u64) {
        let passed_ns = if self.seen_ns == 0 { 0 } else { now_ns.saturating_sub(self.seen_ns) };
        let share_ns = passed_ns.saturating_mul(self.percent) / (100 * self.scripts);
        // Less than 1 ns of share is left to the next refill.
        if share_ns > 0 || self.seen_ns == 0 {
            self.seen_ns = now_ns;
            let share_ns = i64::try_from(share_ns).unwrap_or(i64::MAX);
            self.left_ns = self.left_ns.saturating_add(share_ns).min(BURST_NS);
        }
    }
}

/// The failures among the last calls of a script.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    in_a_row: u32,
    /// The calls before those that are looked at, and the failures since.
    before: u64,
    failed: u64,
}

impl Failing {
    /// Notes a call that did not fail.
    #[inline]
    pub(crate) fn succeed(&mut self) {
        self.in_a_row = 0;
    }

    /// Notes that the last one of `calls` calls has failed; returns whether too many fail.
    pub(crate) fn fail(&mut self, calls: u64) -> bool {
        if calls.saturating_sub(self.before) > FAILED_OF {
            (self.before, self.failed) = (calls - 1, 0);
        }
        self.in_a_row += 1;
        self.failed += 1;
        self.in_a_row >= FAILED_RUN || self.failed > FAILED_OF / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Calls as often as there is time; returns the time used in 10 s, and the calls that were skipped.
    fn used(pace: &mut Pace, call_ns: u64, idle_ns: u64) -> (u64, u64) {
        let (mut now_ns, mut used_ns, mut skipped) = (MS, 0, 0);
        while now_ns < 10_000 * MS {
            if pace.has_time(now_ns) {
                pace.spend(now_ns, call_ns);
                (used_ns, now_ns) = (used_ns + call_ns, now_ns + call_ns);
            } else {
                skipped += 1;
            }
            now_ns += idle_ns;
        }
        (used_ns, skipped)
    }

    #[test]
    fn a_script_that_wants_more_gets_its_share() {
        for (percent, scripts, share_ns) in [(25, 1, 2500 * MS), (25, 5, 500 * MS), (100, 4, 2500 * MS)] {
            for call_ns in [1_000, MS, 30 * MS] {
                let (used_ns, skipped) = used(&mut Pace::new(percent, scripts), call_ns, 1_000);
                let bounds = share_ns - share_ns / 20..=share_ns + share_ns / 20 + 50 * MS;
                assert!(bounds.contains(&used_ns) && skipped > 0, "{percent} {scripts} {call_ns}: {used_ns}");
            }
        }
    }

    #[test]
    fn a_script_that_wants_less_than_its_share_misses_nothing() {
        // 1 µs of each 10 is a tenth; its share is an eighth.
        assert_eq!(used(&mut Pace::new(25, 2), 1_000, 9_000).1, 0);
    }

    #[test]
    fn a_debt_has_a_limit_and_a_long_pause_gives_one_burst() {
        let mut pace = Pace::new(10, 1);
        pace.spend(MS, 3_600_000 * MS);
        assert!(!pace.has_time(1000 * MS) && pace.has_time(1100 * MS), "100 ms of debt are 1 s at a tenth");
        let begun_ns = 7_200_000 * MS;
        pace.spend(begun_ns, BURST_NS as u64);
        assert!(!pace.has_time(begun_ns));
    }

    /// The call after which a script is stopped whose calls fail as `fails` says of their numbers, from 1 on.
    fn stopped_at(fails: impl Fn(u64) -> bool) -> Option<u64> {
        let mut failing = Failing::default();
        (1..=100_000).find(|call| {
            let fails = fails(*call);
            if !fails {
                failing.succeed();
            }
            fails && failing.fail(*call)
        })
    }

    #[test]
    fn a_script_is_stopped_after_failures_in_a_row_or_in_most_of_its_calls() {
        assert_eq!(stopped_at(|_| true), Some(100));
        assert_eq!(stopped_at(|call| call > 5000), Some(5100));
        assert_eq!(stopped_at(|call| call % 100 != 0), Some(506), "501 failures, and 5 other calls");
        assert_eq!(stopped_at(|call| call % 2 == 0), None, "half of the calls");
        assert_eq!(stopped_at(|call| call % 100 < 40), None);
        assert_eq!(stopped_at(|call| call > 10_000 && call % 3 != 0), Some(10_751));
    }
}
