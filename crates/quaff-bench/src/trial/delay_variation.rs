//! Delays of one stream and their variation, with the definitions of RFC 5481, RFC 4689 and RFC 3550.

use super::report::Delays;
use super::tally::Range;
use hdrhistogram::Histogram;

/// Upper limit of delays in quantiles and the chart, ns; the maximum itself is exact.
const DELAY_NS_MAX: u64 = 60_000_000_000;
/// Significant digits of the histogram.
const DIGITS: u8 = 3;
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];
/// Columns of the chart.
const COLUMNS: usize = 200;

/// The delays of one stream.
#[derive(Debug)]
pub(super) struct DelayVariation {
    histogram: Histogram<u64>,
    all: Range,
    /// Sequence number and delay of the latest arrival.
    last: Option<(u64, i64)>,
    ipdv: Range,
    consecutive: Range,
    smoothed_ns: f64,
    smoothed_max_ns: f64,
}

impl DelayVariation {
    pub(super) fn new() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, DELAY_NS_MAX, DIGITS).expect("the bounds are valid constants");
        Self {
            histogram,
            all: Range::default(),
            last: None,
            ipdv: Range::default(),
            consecutive: Range::default(),
            smoothed_ns: 0.0,
            smoothed_max_ns: 0.0,
        }
    }

    /// Counts a frame that is not a duplicate, in the order of arrival.
    #[inline]
    pub(super) fn take(&mut self, seq: u64, delay_ns: i64) {
        // Negative if a clock was set meanwhile.
        self.histogram.saturating_record(u64::try_from(delay_ns).unwrap_or(0));
        self.all.take(delay_ns);
        if let Some((last_seq, last_ns)) = self.last.replace((seq, delay_ns)) {
            let differs_ns = delay_ns.saturating_sub(last_ns).saturating_abs();
            self.consecutive.take(differs_ns);
            if seq == last_seq + 1 {
                self.ipdv.take(differs_ns);
            }
            // RFC 3550, A.8.
            self.smoothed_ns += (differs_ns as f64 - self.smoothed_ns) / 16.0;
            self.smoothed_max_ns = self.smoothed_max_ns.max(self.smoothed_ns);
        }
    }

    /// Maximum delay; 0 before the first frame.
    pub(super) fn max_ns(&self) -> u64 {
        u64::try_from(self.all.max).unwrap_or(0)
    }

    /// `None` before the first frame.
    pub(super) fn figures(&self) -> Option<Delays> {
        let delay @ [min, mean, max] = self.all.figures()?;
        let quantile = |share| (share, (self.histogram.value_at_quantile(share) as f64).clamp(min, max));
        Some(Delays {
            delay,
            quantiles: QUANTILES.map(quantile).to_vec(),
            pdv: [mean - min, max - min],
            ipdv: self.ipdv.mean_max(),
            jitter_4689: self.consecutive.mean_max(),
            jitter_3550: [self.smoothed_ns, self.smoothed_max_ns],
            histogram: self.columns(),
        })
    }

    /// The chart: columns of equal width on a logarithmic axis, without empty ones.
    fn columns(&self) -> Vec<(f64, u64)> {
        let recorded: Vec<_> = self
            .histogram
            .iter_recorded()
            .map(|step| (step.value_iterated_to() as f64, step.count_since_last_iteration()))
            .collect();
        let axis = |value: f64| value.max(1.0).ln();
        let first = recorded.first().map_or(0.0, |(value, _)| axis(*value));
        let width = recorded.last().map_or(0.0, |(value, _)| axis(*value) - first) / COLUMNS as f64;
        let column = |value: f64| if width > 0.0 { ((axis(value) - first) / width) as usize } else { 0 };
        let mut columns: Vec<(f64, u64)> = Vec::new();
        let mut at = usize::MAX;
        for (value, count) in recorded {
            let here = column(value).min(COLUMNS - 1);
            match columns.last_mut() {
                Some(last) if here == at => *last = (value, last.1 + count),
                _ => columns.push((value, count)),
            }
            at = here;
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(frames: &[(u64, i64)]) -> Delays {
        let mut variation = DelayVariation::new();
        for (seq, delay_ns) in frames {
            variation.take(*seq, *delay_ns);
        }
        variation.figures().unwrap()
    }

    #[test]
    fn figures_equal_those_computed_by_hand() {
        // Frame 3 is lost, frame 5 overtakes 4.
        let figures = figures(&[(0, 100), (1, 180), (2, 120), (5, 200), (4, 500)]);
        assert_eq!(figures.delay, [100.0, 220.0, 500.0]);
        assert_eq!(figures.pdv, [120.0, 400.0]);
        // 0-1: 80, 1-2: 60; other pairs are not consecutive, or out of order.
        assert_eq!(figures.ipdv, [70.0, 80.0]);
        // 80, 60, 80, 300.
        assert_eq!(figures.jitter_4689, [130.0, 300.0]);
        let smoothed: f64 =
            [80.0, 60.0, 80.0, 300.0].iter().fold(0.0, |jitter, d| jitter + (d - jitter) / 16.0);
        assert_eq!(smoothed, 30.853_271_484_375);
        assert_eq!(figures.jitter_3550, [smoothed; 2]);
    }

    #[test]
    fn the_smoothed_jitter_keeps_its_largest() {
        // One step of 1600: 100; then 15/16 of the previous value for each unchanged delay.
        let figures = figures(&[(0, 0), (1, 1600), (2, 1600), (3, 1600)]);
        assert_eq!(figures.jitter_3550, [100.0 * 15.0 / 16.0 * 15.0 / 16.0, 100.0]);
    }

    #[test]
    fn quantiles_are_right_to_three_digits() {
        let frames: Vec<_> = (0..100_000u64).map(|at| (at, 1000 + 10 * at as i64)).collect();
        let figures = figures(&frames);
        for (share, value) in &figures.quantiles {
            let exact = 1000.0 + 10.0 * (share * 100_000.0 - 1.0);
            assert!((value / exact - 1.0).abs() < 0.001, "{share}: {value} for {exact}");
        }
        assert_eq!(figures.quantiles.len(), 5);
    }

    #[test]
    fn the_chart_has_all_frames_in_a_few_columns() {
        let frames: Vec<_> = (0..50_000u64).map(|at| (at, 500 + (at * at) as i64)).collect();
        let figures = figures(&frames);
        assert!((100..=COLUMNS).contains(&figures.histogram.len()), "{}", figures.histogram.len());
        assert_eq!(figures.histogram.iter().map(|(_, count)| count).sum::<u64>(), 50_000);
        assert!(figures.histogram.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let alone = self::figures(&[(0, 7), (1, 7)]);
        assert_eq!(alone.histogram, [(7.0, 2)]);
        assert!(alone.quantiles.iter().all(|(_, value)| *value == 7.0));
    }

    #[test]
    fn impossible_delays_are_shown_unchanged() {
        let figures = figures(&[(0, -50), (1, 100_000_000_000)]);
        assert_eq!(figures.delay, [-50.0, 49_999_999_975.0, 100_000_000_000.0]);
        assert!(DelayVariation::new().figures().is_none());
    }
}
