//! A histogram with buckets of at most 1/32 of the value.

use serde::Serialize;

const FINE_BITS: u32 = 5;
const BUCKETS: usize = (64 - FINE_BITS as usize + 1) << FINE_BITS;

/// Counts of values, by bucket.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

/// Quantiles of a histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Median, rounded up by at most 3 %.
    pub p50: u64,
    /// 99th percentile, rounded up by at most 3 %.
    pub p99: u64,
    pub max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, max: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    pub(super) fn quantiles(&self) -> Quantiles {
        let at = |share: f64| {
            let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = self.counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            found.map_or(0, |bucket| highest(bucket).min(self.max))
        };
        Quantiles { count: self.count, p50: at(0.5), p99: at(0.99), max: self.max }
    }
}

/// Returns the bucket of a value: below 32 each value has its own, above each power of two has 32.
fn bucket(value: u64) -> usize {
    match value.checked_ilog2() {
        Some(power) if power >= FINE_BITS => {
            let shift = power - FINE_BITS;
            ((shift as usize) << FINE_BITS) + (value >> shift) as usize
        }
        _ => value as usize,
    }
}

/// Returns the highest value of a bucket.
fn highest(bucket: usize) -> u64 {
    match (bucket >> FINE_BITS) as u32 {
        0 => bucket as u64,
        group => {
            let shift = group - 1;
            let upper = ((bucket & ((1 << FINE_BITS) - 1)) | (1 << FINE_BITS)) as u128 + 1;
            ((upper << shift) - 1).min(u64::MAX.into()) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_hold_their_values() {
        let values =
            (0..5000).chain((12..64).flat_map(|power| [(1 << power) - 1, 1 << power, 3 << (power - 2)]));
        for value in values.chain([u64::MAX]) {
            let bucket = bucket(value);
            assert!(value <= highest(bucket) && bucket < BUCKETS, "{value}");
            assert!(bucket == 0 || highest(bucket - 1) < value, "{value}");
            assert!(highest(bucket) - value <= value / 32, "{value}");
        }
    }

    #[test]
    fn quantiles_of_a_hundred_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles(), Quantiles::default());
        (1..=100).for_each(|value| histogram.add(value));
        assert_eq!(histogram.quantiles(), Quantiles { count: 100, p50: 50, p99: 99, max: 100 });
    }
}
