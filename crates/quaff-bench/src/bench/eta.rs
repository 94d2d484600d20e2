//! How long the rest will take: what a case took before, or its traffic and what others took beside theirs.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a run takes beside its traffic, while nobody knows, s.
const BESIDE_SECONDS: f64 = 3.0;

/// What runs have taken.
#[derive(Debug, Default)]
pub(super) struct Eta {
    /// Of each case: how many, and how long all of them, s.
    cases: BTreeMap<usize, (u32, f64)>,
}

impl Eta {
    /// A run of `case` took so long.
    pub(super) fn took(&mut self, case: usize, time: Duration) {
        let (runs, seconds) = self.cases.entry(case).or_default();
        *runs += 1;
        *seconds += time.as_secs_f64();
    }

    /// How long the next run of `case` will take, whose traffic takes `traffic_seconds`.
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
    fn what_was_is_what_will_be() {
        let mut left = Eta::default();
        assert_eq!(left.of(1, 2.0), Duration::from_secs(5));
        left.took(1, Duration::from_secs(4));
        left.took(1, Duration::from_secs(8));
        assert_eq!(left.of(1, 2.0), Duration::from_secs(6));
        assert_eq!(left.of(2, f64::INFINITY), Duration::ZERO);
    }
}
