//! Keeps packets by their numbers in the input, counted from 1 over all files.

use super::Stage;
use crate::batch::Batch;
use crate::tally::LaneTally;
use quaff_send::Ranges;

/// The stage that keeps ranges of packets. It is the first stage, because each packet of the input has a number.
#[derive(Debug)]
pub(crate) struct Numbered {
    include: Option<Ranges>,
    exclude: Option<Ranges>,
    /// The number of the last packet.
    number: u64,
}

impl Numbered {
    pub(crate) fn new(include: Option<Ranges>, exclude: Option<Ranges>) -> Self {
        Self { include, exclude, number: 0 }
    }

    fn takes_next(&mut self) -> bool {
        self.number += 1;
        self.include.as_ref().is_none_or(|ranges| ranges.contains(self.number))
            && !self.exclude.as_ref().is_some_and(|ranges| ranges.contains(self.number))
    }
}

impl Stage for Numbered {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let before = batch.frames.len();
        batch.frames.retain(|_| self.takes_next());
        tally.out_of_range += (before - batch.frames.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Frame;
    use crate::stage::testing::pass_one;

    #[test]
    fn numbers_continue_from_batch_to_batch() {
        let kept = |include: Option<&str>, exclude: Option<&str>| {
            let ranges = |text: Option<&str>| text.map(|text| text.parse().expect("ranges"));
            let mut stage = Numbered::new(ranges(include), ranges(exclude));
            let mut pass = |from: u64| {
                let frames: Vec<_> =
                    (from..from + 5).map(|time_ns| Frame { time_ns, ..Frame::default() }).collect();
                let (kept, tally) = pass_one(&mut stage, &frames, &[0]);
                assert_eq!(kept.len() as u64 + tally.out_of_range, 5);
                kept.iter().map(|(frame, _)| frame.time_ns).collect::<Vec<_>>()
            };
            [pass(1), pass(6)].concat()
        };
        assert_eq!(kept(Some("2,4-6,10-"), None), [2, 4, 5, 6, 10]);
        assert_eq!(kept(None, Some("1,3-9")), [2, 10]);
        assert_eq!(kept(Some("1-5"), Some("2")), [1, 3, 4, 5]);
    }
}
