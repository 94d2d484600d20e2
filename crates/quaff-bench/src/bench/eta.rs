//! Estimates the remaining time: the mean duration of the earlier runs of a case, or its traffic plus a fixed overhead.

use std::collections::BTreeMap;
use std::time::Duration;

/// Assumed overhead of a run before any run was measured, s.
const BESIDE_SECONDS: f64 = 3.0;

/// Durations of the runs so far.
#[derive(Debug, Default)]
pub(super) struct Eta {
    /// By case: number of runs, and their total duration, s.
    cases: BTreeMap<usize, (u32, f64)>,
}

impl Eta {
    /// Records the duration of a run of `case`.
    pub(super) fn took(&mut self, case: usize, time: Duration) {
        let (runs, seconds) = self.cases.entry(case).or_default();
        *runs += 1;
        *seconds += time.as_secs_f64();
    }

    /// Estimated duration of the next run of `case`, whose traffic takes `traffic_seconds`.
    pub(super) fn of(&self, case: usize, traffic_seconds: f64) -> Duration {
        let seconds = match self.cases.get(&case) {
            Some((runs, seconds)) => seconds / f64::from(*runs),
            None => traffic_seconds + BESIDE_SECONDS,
        };
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_runs_take_as_long_as_the_last_ones() {
        let mut left = Eta::default();
        assert_eq!(left.of(1, 2.0), Duration::from_secs(5));
        left.took(1, Duration::from_secs(4));
        left.took(1, Duration::from_secs(8));
        assert_eq!(left.of(1, 2.0), Duration::from_secs(6));
        assert_eq!(left.of(2, f64::INFINITY), Duration::ZERO);
    }
}
