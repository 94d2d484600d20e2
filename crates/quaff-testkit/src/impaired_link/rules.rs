//! The fate of a frame, from its number and its time of arrival. No clock, no I/O.

use super::{Bucket, Counts, Outage, Rules};
use std::time::Duration;

/// A pause after which an outage is counted from the next frame, ns.
const SILENCE_NS: u64 = 1_000_000_000;
/// Cost of a frame, in the unit of [`Tokens`].
const FRAME: u128 = 1_000_000_000;

/// The fate of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Lost,
    /// It is sent at `due_ns`, once or twice.
    Passes {
        due_ns: u64,
        is_twice: bool,
    },
}

/// The rules of one direction, and their counters.
#[derive(Debug)]
pub(super) struct Judge {
    rules: Rules,
    tokens: Option<Tokens>,
    /// Arrival of the first frame after the latest pause, and of the latest of all.
    first_ns: u64,
    last_ns: Option<u64>,
    /// Frames that reached the rules that count.
    to_drop: u64,
    to_duplicate: u64,
    to_delay: u64,
}

impl Judge {
    pub(super) fn new(rules: &Rules) -> Self {
        let tokens = rules.bucket.map(Tokens::new);
        Self {
            rules: rules.clone(),
            tokens,
            first_ns: 0,
            last_ns: None,
            to_drop: 0,
            to_duplicate: 0,
            to_delay: 0,
        }
    }

    /// The fate of a frame that arrived at `time_ns`; `counts` are updated.
    pub(super) fn judge(&mut self, time_ns: u64, counts: &mut Counts) -> Fate {
        counts.received += 1;
        if self.last_ns.replace(time_ns).is_none_or(|last_ns| time_ns.saturating_sub(last_ns) >= SILENCE_NS) {
            self.first_ns = time_ns;
        }
        if self.rules.outage.is_some_and(|outage| covers(&outage, time_ns.saturating_sub(self.first_ns))) {
            counts.in_outage += 1;
            return Fate::Lost;
        }
        if is_nth(&mut self.to_drop, self.rules.drop_every) {
            counts.dropped += 1;
            return Fate::Lost;
        }
        let free_ns = self.tokens.as_mut().map_or(Some(time_ns), |tokens| tokens.take(time_ns));
        let Some(free_ns) = free_ns else {
            counts.overflowed += 1;
            return Fate::Lost;
        };
        counts.passed += 1;
        let is_twice = is_nth(&mut self.to_duplicate, self.rules.duplicate_every);
        counts.duplicated += u64::from(is_twice);
        let is_delayed = is_nth(&mut self.to_delay, self.rules.delay_every);
        counts.delayed += u64::from(is_delayed);
        let more = if is_delayed { self.rules.delay } else { Duration::ZERO };
        Fate::Passes { due_ns: free_ns + (self.rules.hold + more).as_nanos() as u64, is_twice }
    }
}

fn covers(outage: &Outage, since_ns: u64) -> bool {
    let since_ns = u128::from(since_ns);
    (outage.after.as_nanos()..(outage.after + outage.lasts).as_nanos()).contains(&since_ns)
}

/// Counts one more; returns whether it is the Nth.
fn is_nth(count: &mut u64, every: u64) -> bool {
    *count += 1;
    every != 0 && count.is_multiple_of(every)
}

/// A token bucket as a schedule ("generic cell rate algorithm", ITU-T I.371 annex A): the time at which it is full
/// again, in 1/`pps` ns, so that no rate is rounded.
#[derive(Debug)]
struct Tokens {
    bucket: Bucket,
    full_at: u128,
}

impl Tokens {
    fn new(bucket: Bucket) -> Self {
        assert!(bucket.pps > 0 && bucket.burst > 0, "a bucket has a rate and holds a token");
        Self { bucket, full_at: 0 }
    }

    /// Time at which a frame that arrived at `time_ns` has its token, ns; `None` when the queue is full.
    fn take(&mut self, time_ns: u64) -> Option<u64> {
        let Bucket { pps, burst, queue } = self.bucket;
        let now = u128::from(time_ns) * u128::from(pps);
        let spare = u128::from(burst - 1) * FRAME;
        let free = now.max(self.full_at.saturating_sub(spare));
        if free - now > u128::from(queue) * FRAME {
            return None;
        }
        self.full_at = self.full_at.max(now) + FRAME;
        Some(free.div_ceil(u128::from(pps)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The fates of frames that arrive at these times.
    fn fates(rules: &Rules, times_ns: impl Iterator<Item = u64>) -> (Vec<Fate>, Counts) {
        let (mut judge, mut counts) = (Judge::new(rules), Counts::default());
        let fates = times_ns.map(|time_ns| judge.judge(time_ns, &mut counts)).collect();
        assert_eq!(
            counts.received,
            counts.in_outage + counts.dropped + counts.overflowed + counts.passed,
            "{counts:?}"
        );
        (fates, counts)
    }

    fn due(fates: &[Fate]) -> Vec<Option<u64>> {
        let due = |fate: &Fate| match fate {
            Fate::Lost => None,
            Fate::Passes { due_ns, .. } => Some(*due_ns),
        };
        fates.iter().map(due).collect()
    }

    #[test]
    fn without_rules_all_passes_at_once() {
        let (found, counts) = fates(&Rules::default(), 5..8);
        assert_eq!(due(&found), [Some(5), Some(6), Some(7)]);
        assert_eq!((counts.passed, counts.duplicated, counts.delayed), (3, 0, 0));
    }

    #[test]
    fn every_nth_is_counted_by_those_that_come_to_the_rule() {
        let rules = Rules {
            drop_every: 3,
            duplicate_every: 2,
            delay_every: 4,
            delay: Duration::from_nanos(50),
            hold: Duration::from_nanos(10),
            ..Rules::default()
        };
        let (found, counts) = fates(&rules, 100..112);
        // 12 came, 4 of them are lost; of the 8 others each second goes twice, each fourth later.
        let numbers = [Some(110), Some(111), None, Some(113), Some(164), None, Some(116), Some(117), None];
        assert_eq!(due(&found)[..9], numbers);
        assert_eq!((counts.dropped, counts.passed, counts.duplicated, counts.delayed), (4, 8, 4, 2));
        let twice = found.iter().filter(|fate| matches!(fate, Fate::Passes { is_twice: true, .. }));
        assert_eq!(twice.count(), 4);
    }

    #[test]
    fn an_outage_is_by_the_time_from_the_first_frame() {
        let outage = Outage { after: Duration::from_millis(3), lasts: Duration::from_millis(2) };
        let rules = Rules { outage: Some(outage), drop_every: 4, ..Rules::default() };
        let (found, counts) = fates(&rules, (0..8).map(|number| 1000 * MS + number * MS));
        let passed: Vec<_> = due(&found).into_iter().map(|due| due.is_some()).collect();
        // At 3 and 4 ms nothing passes, and those do not count for the next rule: its fourth is that at 5 ms.
        assert_eq!(passed, [true, true, true, false, false, false, true, true]);
        assert_eq!((counts.in_outage, counts.dropped), (2, 1));
    }

    #[test]
    fn after_a_silence_the_outage_comes_again() {
        let outage = Outage { after: Duration::from_millis(1), lasts: Duration::from_secs(5) };
        let rules = Rules { outage: Some(outage), ..Rules::default() };
        // What comes in an outage is no silence.
        let times_ms = [0, 1, 900, 1800, 3000, 3001, 3002];
        let (found, _) = fates(&rules, times_ms.into_iter().map(|ms| ms * MS));
        let passed: Vec<_> = due(&found).into_iter().map(|due| due.is_some()).collect();
        assert_eq!(passed, [true, false, false, false, true, false, false]);
    }

    #[test]
    fn a_bucket_passes_a_burst_then_its_rate_then_loses() {
        let bucket = Bucket { pps: 1000, burst: 2, queue: 3 };
        let rules = Rules { bucket: Some(bucket), ..Rules::default() };
        // Eight at once: two have a token, three wait for theirs, three are lost.
        let (found, counts) = fates(&rules, std::iter::repeat_n(7 * MS, 8));
        let expected = [Some(7), Some(7), Some(8), Some(9), Some(10), None, None, None];
        assert_eq!(due(&found), expected.map(|due| due.map(|ms| ms * MS)));
        assert_eq!((counts.passed, counts.overflowed), (5, 3));
    }

    #[test]
    fn a_bucket_passes_just_its_rate() {
        // 3000 a second do not divide a second's ns.
        let bucket = Bucket { pps: 3000, burst: 1, queue: 10 };
        let rules = Rules { bucket: Some(bucket), ..Rules::default() };
        let at = |pps: u64, number: u64| 1_000_000_000 + (number * 1_000_000_000).div_ceil(pps);
        for (pps, lost) in [(3000, 0), (2999, 0), (3030, 290), (6000, 29_990)] {
            let frames = 10 * pps;
            let (_, counts) = fates(&rules, (0..frames).map(|number| at(pps, number)));
            // What exceeds the rate in ten seconds, but for what still waits and the one in hand.
            assert!(counts.overflowed.abs_diff(lost) <= u64::from(lost > 0), "{pps} {counts:?}");
        }
    }
}
