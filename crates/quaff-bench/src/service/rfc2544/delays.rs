//! Merges the delays of several trials.

use crate::trial::Delays;

/// Maximum number of histogram bars; above it neighbours are merged in pairs.
const BARS_MAX: usize = 200;

/// Merges delays, each with its number of frames; `None` for an empty list. Quantiles are computed from the merged
/// histogram, so they are as fine as its bars.
pub(super) fn merge(parts: &[(Delays, u64)]) -> Option<Delays> {
    let (first, rest) = parts.split_first()?;
    if rest.is_empty() {
        return Some(first.0.clone());
    }
    let all: Vec<&Delays> = parts.iter().map(|(delays, _)| delays).collect();
    let frames: u64 = parts.iter().map(|(_, frames)| frames).sum();
    let weighted = |of: &dyn Fn(&Delays) -> f64| {
        let sum: f64 = parts.iter().map(|(delays, frames)| of(delays) * *frames as f64).sum();
        sum / frames.max(1) as f64
    };
    let largest = |of: &dyn Fn(&Delays) -> f64| all.iter().map(|delays| of(delays)).fold(0.0, f64::max);
    let smallest = all.iter().map(|delays| delays.delay[0]).fold(f64::INFINITY, f64::min);
    let delay = [smallest, weighted(&|delays| delays.delay[1]), largest(&|delays| delays.delay[2])];
    let histogram = joined(&all);
    let quantiles = all[0].quantiles.iter().map(|(at, _)| (*at, quantile(&histogram, *at, &delay))).collect();
    Some(Delays {
        delay,
        quantiles,
        // PDV is by definition relative to the smallest delay of all.
        pdv: [delay[1] - delay[0], delay[2] - delay[0]],
        ipdv: [weighted(&|delays| delays.ipdv[0]), largest(&|delays| delays.ipdv[1])],
        jitter_4689: [weighted(&|delays| delays.jitter_4689[0]), largest(&|delays| delays.jitter_4689[1])],
        jitter_3550: [
            all.last().map_or(0.0, |delays| delays.jitter_3550[0]),
            largest(&|delays| delays.jitter_3550[1]),
        ],
        histogram,
    })
}

/// Adds bars with equal bounds; merges neighbours while there are too many bars.
fn joined(all: &[&Delays]) -> Vec<(f64, u64)> {
    let mut bars: Vec<(f64, u64)> = all.iter().flat_map(|delays| delays.histogram.iter().copied()).collect();
    bars.sort_by(|one, other| one.0.total_cmp(&other.0));
    bars.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    while bars.len() > BARS_MAX {
        let pair = |pair: &[(f64, u64)]| {
            let upper = pair.last().map_or(0.0, |bar| bar.0);
            (upper, pair.iter().map(|bar| bar.1).sum())
        };
        bars = bars.chunks(2).map(pair).collect();
    }
    bars
}

/// Upper bound of the bar in which the share `at` of all frames is reached.
fn quantile(bars: &[(f64, u64)], at: f64, delay: &[f64; 3]) -> f64 {
    let all: u64 = bars.iter().map(|bar| bar.1).sum();
    let wanted = (at * all as f64).ceil() as u64;
    let mut below = 0;
    let bar = bars.iter().find(|bar| {
        below += bar.1;
        below >= wanted
    });
    bar.map_or(delay[2], |bar| bar.0).clamp(delay[0], delay[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(delay: [f64; 3], bars: &[(f64, u64)]) -> Delays {
        Delays {
            delay,
            quantiles: vec![(0.5, delay[1]), (0.9, delay[2])],
            pdv: [delay[1] - delay[0], delay[2] - delay[0]],
            ipdv: [1.0, 2.0],
            jitter_4689: [3.0, 4.0],
            jitter_3550: [5.0, 6.0],
            histogram: bars.to_vec(),
        }
    }

    #[test]
    fn several_trials_are_one() {
        let one = delays([10.0, 15.0, 20.0], &[(10.0, 5), (20.0, 5)]);
        let other = Delays {
            ipdv: [4.0, 9.0],
            jitter_3550: [1.0, 2.0],
            ..delays([5.0, 30.0, 40.0], &[(5.0, 10), (20.0, 5), (40.0, 15)])
        };
        let both = merge(&[(one.clone(), 10), (other, 30)]).expect("delays");
        // (10 × 15 + 30 × 30) / 40
        assert_eq!(both.delay, [5.0, 26.25, 40.0]);
        assert_eq!(both.pdv, [21.25, 35.0]);
        assert_eq!(both.ipdv, [(10.0 + 120.0) / 40.0, 9.0]);
        assert_eq!(both.jitter_3550, [1.0, 6.0]);
        assert_eq!(both.histogram, [(5.0, 10), (10.0, 5), (20.0, 10), (40.0, 15)]);
        // 20 of 40 frames are at or below 20; 36 only at 40.
        assert_eq!(both.quantiles, [(0.5, 20.0), (0.9, 40.0)]);
        assert_eq!(merge(&[(one.clone(), 10)]), Some(one));
        assert_eq!(merge(&[]), None);
    }

    #[test]
    fn a_histogram_stays_small_and_loses_no_frame() {
        let bars = |from: u32| (0..150).map(|bar| (f64::from(from + bar * 2), 1)).collect::<Vec<_>>();
        let parts = [(delays([0.0, 1.0, 300.0], &bars(0)), 150), (delays([0.0, 1.0, 301.0], &bars(1)), 150)];
        let both = merge(&parts).expect("delays");
        assert!(both.histogram.len() <= BARS_MAX);
        assert_eq!(both.histogram.iter().map(|bar| bar.1).sum::<u64>(), 300);
        assert_eq!(both.histogram.last().map(|bar| bar.0), Some(299.0));
    }
}
