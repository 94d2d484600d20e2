//! The histogram of lateness: buckets of 256 ns up to 65 µs, of 65 µs up to 17 ms, and one above.
//!
//! The BPF program counts with a shift and two comparisons; user space counts the same way.

/// A fine bucket is `1 << FINE_SHIFT` ns wide.
pub(crate) const FINE_SHIFT: i32 = 8;
/// Number of fine buckets; the coarse ones follow.
pub(crate) const FINE_BUCKETS: usize = 256;
/// A coarse bucket is `1 << COARSE_SHIFT` ns wide. The first one is never used.
pub(crate) const COARSE_SHIFT: i32 = 16;
/// Number of buckets; the last one also counts all larger values.
pub(crate) const BUCKETS: usize = 2 * FINE_BUCKETS;

/// Minimum lateness of a frame that belongs to a burst, ns.
pub(crate) const BURST_NS: u64 = 16_384;

/// The bucket of a lateness.
pub(crate) fn bucket(late_ns: u64) -> usize {
    let fine = late_ns >> FINE_SHIFT;
    if fine < FINE_BUCKETS as u64 {
        return fine as usize;
    }
    let coarse = (late_ns >> COARSE_SHIFT) + FINE_BUCKETS as u64;
    coarse.min(BUCKETS as u64 - 1) as usize
}

/// The upper end of a bucket, ns.
fn end_ns(bucket: usize) -> u64 {
    match bucket.checked_sub(FINE_BUCKETS) {
        None => (bucket as u64 + 1) << FINE_SHIFT,
        Some(coarse) => (coarse as u64 + 1) << COARSE_SHIFT,
    }
}

/// The lateness that `share` (0 to 1) of the counted frames did not exceed, ns: the upper end of its bucket, but at
/// most `max_ns`.
pub(crate) fn quantile_ns(counts: &[u64], share: f64, max_ns: u64) -> u64 {
    let total: u64 = counts.iter().sum();
    let wanted = (total as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= wanted && seen > 0 {
            // The last bucket has no upper end.
            return if bucket + 1 == BUCKETS { max_ns } else { end_ns(bucket).min(max_ns) };
        }
    }
    max_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        for (late_ns, expected) in
            [(0, 0), (255, 0), (256, 1), (65_535, 255), (65_536, 257), (131_072, 258), (u64::MAX, 511)]
        {
            assert_eq!(bucket(late_ns), expected, "{late_ns}");
        }
        for late_ns in (0..2_000_000u64).step_by(37) {
            assert!(late_ns < end_ns(bucket(late_ns)));
        }
    }

    #[test]
    fn quantiles() {
        let mut counts = [0; BUCKETS];
        assert_eq!(quantile_ns(&counts, 0.99, 0), 0);
        counts[0] = 98;
        counts[3] = 1;
        counts[300] = 1;
        assert_eq!(quantile_ns(&counts, 0.5, 3_000_000), 256);
        assert_eq!(quantile_ns(&counts, 0.99, 3_000_000), 1024);
        assert_eq!(quantile_ns(&counts, 1.0, 2_900_000), 2_900_000);
        counts[BUCKETS - 1] = 1000;
        assert_eq!(quantile_ns(&counts, 0.99, 123_456_789), 123_456_789);
    }
}
