//! Moves the times of packets, for captures of machines whose clocks differed.

use super::Stage;
use crate::batch::Batch;
use crate::tally::LaneTally;

/// The stage that adds to all times. A time before 1970 becomes 1970, one after 2554 becomes 2554.
#[derive(Debug)]
pub(crate) struct Shift {
    pub by_ns: i64,
}

impl Stage for Shift {
    fn pass(&mut self, batch: &mut Batch<'_>, _tally: &mut LaneTally) {
        for frame in batch.frames.iter_mut() {
            frame.time_ns = frame.time_ns.saturating_add_signed(self.by_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Frame;
    use crate::stage::testing::pass_one;

    #[test]
    fn times_move_both_ways_and_stop_at_the_ends() {
        for (by_ns, from, to) in [(5, 10, 15), (-5, 10, 5), (-11, 10, 0), (9, u64::MAX - 3, u64::MAX)] {
            let frame = Frame { time_ns: from, ..Frame::default() };
            assert_eq!(pass_one(&mut Shift { by_ns }, &[frame], &[0]).0[0].0.time_ns, to);
        }
    }
}
