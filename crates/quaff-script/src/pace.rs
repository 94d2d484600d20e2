//! The share of a lane's time that a script may use while packets are waiting for the lane, and the limit of failed
//! calls after which it is stopped.
//!
//! All times are arguments: this module reads no clock.

/// Maximum unused time that a script may accumulate, ns.
const BURST_NS: i64 = 20_000_000;
/// Maximum debt of a script that used more than its share, ns.
const DEBT_NS: i64 = 100_000_000;

/// Consecutive failed calls after which a script is stopped.
pub(crate) const FAILED_RUN: u32 = 100;
/// Window, calls: a script is stopped if more than half of them fail.
pub(crate) const FAILED_OF: u64 = 1000;

/// The remaining time of a script, which its share of the elapsed time refills.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Its share is `percent` of the elapsed time, divided by `scripts`.
    percent: u64,
    scripts: u64,
    left_ns: i64,
    /// Time of the last refill, ns; 0 before the first.
    seen_ns: u64,
}

impl Pace {
    /// The pace of one of `scripts` scripts that together may use `percent` of the lane's time.
    pub(crate) fn new(percent: u32, scripts: usize) -> Self {
        let scripts = (scripts as u64).max(1);
        Self { percent: percent.into(), scripts, left_ns: BURST_NS, seen_ns: 0 }
    }

    /// True if the script has time left.
    pub(crate) fn has_time(&mut self, now_ns: u64) -> bool {
        self.refill(now_ns);
        self.left_ns > 0
    }

    /// Subtracts the time of a call that started at `begun_ns`.
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
        // A share below 1 ns is left for the next refill.
        if share_ns > 0 || self.seen_ns == 0 {
            self.seen_ns = now_ns;
            let share_ns = i64::try_from(share_ns).unwrap_or(i64::MAX);
            self.left_ns = self.left_ns.saturating_add(share_ns).min(BURST_NS);
        }
    }
}

/// Counts the failures among the latest calls of a script.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    in_a_row: u32,
    /// Number of calls before the current window, and failures in it.
    before: u64,
    failed: u64,
}

impl Failing {
    /// Records a successful call.
    #[inline]
    pub(crate) fn succeed(&mut self) {
        self.in_a_row = 0;
    }

    /// Records that the last of `calls` calls failed; returns true if too many fail.
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

    /// Makes calls while there is time; returns the time used in 10 s, and the number of skipped calls.
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
        // 1 µs of every 10 is a tenth; its share is an eighth.
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

    /// The number of the call after which a script is stopped; `fails` decides by the call's number, from 1.
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
