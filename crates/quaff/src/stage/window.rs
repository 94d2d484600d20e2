//! Keeps packets of a time span, by the times that they have in their file.

use super::Stage;
use crate::batch::Batch;
use crate::plan::TimeBound;
use crate::tally::LaneTally;
use std::ops::Range;

/// The stage that keeps packets from one time on, before another.
#[derive(Debug)]
pub(crate) struct Window {
    /// ns since 1970.
    kept: Range<u64>,
}

impl Window {
    /// From `from` on and before `to`, for a run whose first packet is of `first_ns`.
    pub(crate) fn new(from: Option<TimeBound>, to: Option<TimeBound>, first_ns: u64) -> Self {
        let ns = |bound: TimeBound| bound.ns(Some(first_ns));
        Self { kept: from.and_then(ns).unwrap_or(0)..to.and_then(ns).unwrap_or(u64::MAX) }
    }
}

impl Stage for Window {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let before = batch.frames.len();
        batch.frames.retain(|frame| self.kept.contains(&frame.time_ns));
        tally.out_of_time += (before - batch.frames.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Frame;
    use crate::stage::testing::pass_one;

    #[test]
    fn the_first_time_is_in_the_window_and_the_last_is_not() {
        let kept = |from, to| {
            let frames = [100, 110, 120, 130].map(|time_ns| Frame { time_ns, ..Frame::default() });
            let (kept, tally) = pass_one(&mut Window::new(from, to, 100), &frames, &[0]);
            assert_eq!(kept.len() as u64 + tally.out_of_time, 4);
            kept.iter().map(|(frame, _)| frame.time_ns).collect::<Vec<_>>()
        };
        assert_eq!(kept(None, None), [100, 110, 120, 130]);
        assert_eq!(kept(Some(TimeBound::At(110)), Some(TimeBound::At(130))), [110, 120]);
        assert_eq!(kept(Some(TimeBound::AfterFirst(11)), None), [120, 130]);
        assert_eq!(kept(None, Some(TimeBound::AfterFirst(10))), [100]);
        assert_eq!(kept(Some(TimeBound::At(130)), Some(TimeBound::At(110))), [0; 0]);
    }
}
