//! Back-to-back frames by RFC 2544 §26.4 as updated by RFC 9004: the longest burst at the smallest gap without loss,
//! and its buffer time.

use super::select::{Bound, Range, Seen};
use crate::stats::mean;

/// Parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BurstPlan {
    /// Shortest burst worth a trial, frames.
    pub(crate) min: u64,
    /// Longest burst, frames: 2 s or more (RFC 2544 §26.4).
    pub(crate) max: u64,
    /// (upper − lower) / upper at which the search ends.
    pub(crate) width: f64,
    /// Lossy trials without a lossless one after which a length is too long (binary search with loss verification,
    /// ETSI GS NFV-TST 009 §12.3.3).
    pub(crate) tries: u32,
    /// The first burst, frames; `None`: the longest.
    pub(crate) start: Option<u64>,
}

/// One repetition of the search. The mean of several is the result.
#[derive(Debug, Clone)]
pub(crate) struct Burst {
    plan: BurstPlan,
    /// Length in frames, and true without loss.
    results: Vec<(u64, bool)>,
}

impl Burst {
    pub(crate) fn new(plan: BurstPlan) -> Self {
        Self { plan, results: Vec::new() }
    }

    /// Length of the next burst, frames; `None` at the end of the search.
    pub(crate) fn next(&self) -> Option<u64> {
        let BurstPlan { min, max, width, start, .. } = self.plan;
        let range = Range { min: min as f64, max: max as f64, width };
        self.seen().next(&[start.unwrap_or(max) as f64], &range).map(|frames| frames as u64)
    }

    /// Adds the result of a burst.
    pub(crate) fn tell(&mut self, frames: u64, all_taken: bool) {
        self.results.push((frames, all_taken));
    }

    /// Longest burst without loss, frames; 0 if the shortest one had loss.
    pub(crate) fn frames(&self) -> u64 {
        self.seen().bounds().lower.unwrap_or(0.0) as u64
    }

    fn seen(&self) -> Seen {
        let count = |result: (u64, bool)| self.results.iter().filter(|known| **known == result).count();
        let class = |frames: f64| match frames as u64 {
            frames if count((frames, true)) > 0 => Bound::Lower,
            frames if count((frames, false)) >= self.plan.tries as usize => Bound::Upper,
            _ => Bound::Undecided,
        };
        Seen::of(self.results.iter().map(|(frames, _)| *frames as f64), class)
    }
}

/// Buffer time of bursts of `frames` at `pps`, s; and the same without the frames forwarded at `throughput_pps` during
/// the burst (RFC 9004 §5.4): `None` if that rate is unknown, or not below `pps`, where a burst needs no buffer.
pub(crate) fn buffer_s(frames: &[u64], pps: f64, throughput_pps: Option<f64>) -> [Option<f64>; 2] {
    let frames: Vec<f64> = frames.iter().map(|frames| *frames as f64).collect();
    let implied_s = mean(&frames).filter(|_| pps > 0.0).map(|frames| frames / pps);
    let leaving = throughput_pps.filter(|throughput_pps| *throughput_pps < pps);
    let corrected_s =
        implied_s.zip(leaving).map(|(implied_s, leaving)| implied_s - implied_s * (leaving / pps));
    [implied_s, corrected_s]
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
        // 10,000 frames at 1 Mpps are 10 ms; 400 kpps are forwarded in that time: 6 ms remain.
        let [implied, corrected] = buffer_s(&[9_000, 11_000], 1e6, Some(4e5)).map(|s| s.expect("a time"));
        assert!((implied - 0.01).abs() < 1e-12 && (corrected - 0.006).abs() < 1e-12, "{implied} {corrected}");
        assert_eq!(buffer_s(&[10_000], 1e6, Some(1e6)), [Some(0.01), None]);
        assert_eq!(buffer_s(&[10_000], 1e6, None), [Some(0.01), None]);
        assert_eq!(buffer_s(&[10_000], 0.0, Some(0.0)), [None; 2]);
        assert_eq!(buffer_s(&[], 1e6, None), [None; 2]);
    }
}
