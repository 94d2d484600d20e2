//! Back-to-back frames by RFC 2544 §26.4 as updated by RFC 9004: the longest burst at the smallest gap without loss, and
//! its buffer time.

use super::Bounds;
use super::step::{self, Known, Range};

/// Parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BurstPlan {
    /// The shortest burst worth a trial, frames.
    pub(crate) min: u64,
    /// The longest burst, frames: 2 s or more (RFC 2544 §26.4).
    pub(crate) max: u64,
    /// Width at which the search ends: (upper − lower) / upper.
    pub(crate) width: f64,
    /// Lossy trials after which a length that never passed is too long (binary search with loss verification, ETSI GS
    /// NFV-TST 009 §12.3.3).
    pub(crate) tries: u32,
    /// The first burst, frames; `None`: the longest.
    pub(crate) start: Option<u64>,
}

/// One repetition of the search. The mean of several is the result.
#[derive(Debug, Clone)]
pub(crate) struct Burst {
    plan: BurstPlan,
    /// Length in frames, and whether all were taken.
    results: Vec<(u64, bool)>,
}

impl Burst {
    pub(crate) fn new(plan: BurstPlan) -> Self {
        Self { plan, results: Vec::new() }
    }

    /// Length of the next burst, frames; `None` at the end of the search.
    pub(crate) fn next(&self) -> Option<u64> {
        let Some(&(frames, passed)) = self.results.last() else {
            return Some(self.plan.start.unwrap_or(self.plan.max).clamp(self.plan.min, self.plan.max));
        };
        if !passed && !self.failed(frames) {
            return Some(frames);
        }
        let lengths = self.lengths();
        let count = |known: &dyn Fn(u64) -> bool| lengths.iter().filter(|frames| known(**frames)).count();
        let known = Known {
            bounds: self.bounds(),
            goods: count(&|frames| self.passed(frames)),
            bads: count(&|frames| self.failed(frames)),
        };
        let (min, max) = (self.plan.min as f64, self.plan.max as f64);
        step::next(&known, &Range { min, max, width: self.plan.width }).map(|frames| frames as u64)
    }

    /// Adds the result of a burst.
    pub(crate) fn tell(&mut self, frames: u64, all_taken: bool) {
        self.results.push((frames, all_taken));
    }

    /// The longest burst without loss, frames; 0 when the shortest one lost.
    pub(crate) fn frames(&self) -> u64 {
        self.bounds().lower.unwrap_or(0.0) as u64
    }

    fn bounds(&self) -> Bounds {
        let upper = self.lengths().into_iter().filter(|frames| self.failed(*frames)).min();
        let below = |frames: &u64| upper.is_none_or(|upper| *frames < upper);
        let lower = self.lengths().into_iter().filter(|frames| self.passed(*frames)).filter(below).max();
        Bounds { lower: lower.map(|frames| frames as f64), upper: upper.map(|frames| frames as f64) }
    }

    fn lengths(&self) -> Vec<u64> {
        let mut lengths: Vec<_> = self.results.iter().map(|(frames, _)| *frames).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    fn passed(&self, frames: u64) -> bool {
        self.results.contains(&(frames, true))
    }

    fn failed(&self, frames: u64) -> bool {
        let lost = self.results.iter().filter(|result| **result == (frames, false)).count();
        lost >= self.plan.tries.max(1) as usize
    }
}

/// Corrected buffer time, s (RFC 9004 §5.4): of `frames` at `pps`, without those that leave at `throughput_pps` during the
/// burst. `None` when the throughput is the rate of the burst, which then needs no buffer.
pub(crate) fn corrected_buffer_s(frames: f64, pps: f64, throughput_pps: f64) -> Option<f64> {
    let implied_s = frames / pps;
    (pps > 0.0 && throughput_pps < pps).then(|| implied_s - implied_s * (throughput_pps / pps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: BurstPlan = BurstPlan { min: 64, max: 100_000, width: 0.02, tries: 1, start: None };

    fn search(plan: BurstPlan, mut takes: impl FnMut(u64) -> bool) -> Burst {
        let mut burst = Burst::new(plan);
        while let Some(frames) = burst.next() {
            assert!((plan.min..=plan.max).contains(&frames), "{frames}");
            burst.tell(frames, takes(frames));
            assert!(burst.results.len() < 100, "it ends");
        }
        burst
    }

    #[test]
    fn the_longest_burst_is_found() {
        for limit in [64, 100, 5000, 31_234, 99_999] {
            for start in [None, Some(70), Some(30_000)] {
                let found = search(BurstPlan { start, ..PLAN }, |frames| frames <= limit).frames();
                assert!(found <= limit && found as f64 > limit as f64 * 0.975 - 1.0, "{limit}: {found}");
            }
        }
    }

    #[test]
    fn the_longest_that_is_tried_ends_it_and_so_does_the_shortest() {
        let all = search(PLAN, |_| true);
        assert_eq!((all.frames(), all.results.len()), (100_000, 1));
        assert_eq!(search(PLAN, |_| false).frames(), 0);
    }

    #[test]
    fn a_loss_is_verified() {
        // Each length loses the first time.
        let mut seen = Vec::new();
        let found = search(BurstPlan { tries: 2, ..PLAN }, |frames| {
            let again = seen.contains(&frames);
            seen.push(frames);
            again && frames <= 5000
        });
        assert!(found.frames() <= 5000 && found.frames() > 4875, "{}", found.frames());
        let lossy = found.results.iter().filter(|(frames, _)| *frames == 100_000).count();
        assert_eq!(lossy, 2);
    }

    #[test]
    fn frames_that_leave_are_not_in_the_buffer() {
        // 10,000 frames at 1 Mpps are 10 ms; 400 kpps of them leave meanwhile: 6 ms.
        let corrected = corrected_buffer_s(10_000.0, 1e6, 4e5).expect("a time");
        assert!((corrected - 0.006).abs() < 1e-12, "{corrected}");
        assert_eq!(corrected_buffer_s(10_000.0, 1e6, 1e6), None);
        assert_eq!(corrected_buffer_s(10_000.0, 0.0, 0.0), None);
    }
}
