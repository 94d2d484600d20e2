//! Quantiles of many values, exact to 1 %.

use hdrhistogram::Histogram as Counts;
use serde::Serialize;

/// Significant digits of a value.
const DIGITS: u8 = 2;
/// Largest value that is distinguished from larger ones: 36 years in ns.
const VALUE_MAX: u64 = 1 << 60;

/// Counts of values.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Counts<u64>,
    max: u64,
}

/// Quantiles of a histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Median, rounded up by at most 1 %.
    pub p50: u64,
    /// 99th percentile, rounded up by at most 1 %.
    pub p99: u64,
    pub max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = Counts::new_with_bounds(1, VALUE_MAX, DIGITS).expect("the bounds are valid constants");
        Self { counts, max: 0 }
    }
}

impl Histogram {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts.saturating_record(value);
        self.max = self.max.max(value);
    }

    /// The quantiles of all values.
    pub fn quantiles(&self) -> Quantiles {
        let at = |share| self.counts.value_at_quantile(share).min(self.max);
        Quantiles { count: self.counts.len(), p50: at(0.5), p99: at(0.99), max: self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_hundred_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles(), Quantiles::default());
        (1..=100).for_each(|value| histogram.add(value));
        assert_eq!(histogram.quantiles(), Quantiles { count: 100, p50: 50, p99: 99, max: 100 });
    }

    #[test]
    fn any_value_is_counted_and_right_to_a_hundredth() {
        for value in [0, 1, 255, 256, 1_000_003, (1 << 40) + 12_345] {
            let mut histogram = Histogram::default();
            [value, value, u64::MAX].into_iter().for_each(|value| histogram.add(value));
            let found = histogram.quantiles();
            assert!(found.p50 >= value && found.p50 - value <= value / 100, "{value}: {found:?}");
            assert_eq!((found.count, found.max), (3, u64::MAX));
        }
        let mut histogram = Histogram::default();
        [u64::MAX - 1, u64::MAX].into_iter().for_each(|value| histogram.add(value));
        let found = histogram.quantiles();
        assert!(found.p50 >= VALUE_MAX, "{found:?}");
    }
}
