//! Frame sizes of a capture in compact form: frequent sizes exactly, the rest in bins.
//!
//! This is how createDist of the PAM 2007 study ("Packet capture in 10-Gigabit Ethernet environments using contemporary
//! commodity hardware") described traffic for its generator.

use super::{SIZE_MAX, SizeClass, Sizes};
use crate::ParseError;

/// A size with at least this share of all frames is kept exactly: 1 in 500.
const EXACT_ONE_IN: u64 = 500;
/// Bin width of other sizes, bytes.
const BIN_BYTES: u32 = 20;

/// The number of frames of each size.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    /// Number of frames counted.
    pub frames: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; SIZE_MAX as usize + 1], frames: 0 }
    }
}

impl Histogram {
    /// Counts a frame. Sizes above the maximum count as the maximum, empty frames are ignored.
    pub fn add(&mut self, bytes: u32) {
        if bytes > 0 {
            self.counts[bytes.min(SIZE_MAX) as usize] += 1;
            self.frames += 1;
        }
    }

    /// The distribution; an error if no frame was counted.
    pub fn sizes(&self) -> Result<Sizes, ParseError> {
        let mut classes: Vec<SizeClass> = Vec::new();
        let mut bin = None;
        for (size, count) in (0..).zip(&self.counts).filter(|(_, count)| **count > 0) {
            if u128::from(*count) * u128::from(EXACT_ONE_IN) >= u128::from(self.frames) {
                classes.push(SizeClass::exact(size, *count));
                // A bin does not extend across an exactly kept size.
                bin = None;
                continue;
            }
            match classes.last_mut() {
                Some(class) if bin == Some(size / BIN_BYTES) => {
                    class.last = size;
                    class.weight += count;
                }
                _ => classes.push(SizeClass::exact(size, *count)),
            }
            bin = Some(size / BIN_BYTES);
        }
        Sizes::drawn(classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_sizes_are_kept_and_the_rest_is_binned() {
        let mut histogram = Histogram::default();
        (0..5000).for_each(|_| histogram.add(60));
        (0..4000).for_each(|_| histogram.add(1514));
        for size in [81, 85, 90, 99, 100, 119, 0] {
            histogram.add(size);
        }
        (0..900).for_each(|_| histogram.add(90));
        let class = |first, last, weight| SizeClass { first, last, weight };
        let expected = [
            class(60, 60, 5000),
            class(81, 85, 2),
            class(90, 90, 901),
            class(99, 99, 1),
            class(100, 119, 2),
            class(1514, 1514, 4000),
        ];
        assert_eq!(histogram.sizes().unwrap().classes, expected);
        assert_eq!(histogram.frames, 9906);
    }

    #[test]
    fn nothing_is_no_distribution_and_giants_are_the_largest() {
        let mut histogram = Histogram::default();
        assert!(histogram.sizes().is_err());
        histogram.add(1 << 20);
        assert_eq!(histogram.sizes().unwrap().single(), Some(SIZE_MAX));
    }
}
