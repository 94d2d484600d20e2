//! Estimates the share of packets that a capture missed, with an interval: decision 0054.

use super::cells::{Cell, Lost};

/// Half the width of a 95 % interval, in standard deviations.
const Z: f64 = 1.96;
/// Minimum number of cells for an estimate of their variance.
const CELLS_MIN: usize = 8;

/// The losses of a capture, and the segments whose loss would have been seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Losses {
    /// Captured data segments whose loss would have been seen.
    pub(super) segments: u64,
    pub(super) packets: Lost,
    /// Minimum number of packets in the runs of lost bytes.
    pub(super) least: f64,
    /// Variance of `packets.by_mean` if each run that may be one packet is one.
    pub(super) noise: f64,
    /// Sum of the squares of the packets in each run.
    pub(super) few_squares: f64,
    pub(super) by_mean_squares: f64,
}

/// A ratio with its bounds, and the number of lost packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) packets: f64,
    /// The packets that the bounds of the ratio stand for; `None` if nothing was captured.
    pub(super) packets_low: f64,
    pub(super) packets_high: Option<f64>,
    pub(super) ratio: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Losses {
    /// True if the runs are too long in total to be one packet each: then the mean size counts. A single run may be one
    /// long packet or several short ones; the sum of many runs shows which.
    pub(super) fn is_by_mean(&self) -> bool {
        self.packets.by_mean > self.packets.few + self.noise.sqrt()
    }
}

/// Estimates the share of lost packets; `None` without evidence. `cells` are sums along the order of segments.
///
/// Losses come in runs, and runs in bursts. The larger of two variances counts: that of a Poisson process of runs with
/// the observed sizes, and that between parts of the capture.
pub(super) fn estimate(losses: &Losses, cells: &[Cell]) -> Option<Estimate> {
    let is_by_mean = losses.is_by_mean();
    let packets = losses.packets.packets(is_by_mean);
    let segments = losses.segments as f64;
    if segments + packets <= 0.0 {
        return None;
    }
    let squares = if is_by_mean { losses.by_mean_squares } else { losses.few_squares };
    let spread = match packets {
        0.0 => 1.0,
        _ => (squares / packets).max(spread_of(cells, is_by_mean) / packets).max(1.0),
    };
    let events = packets / spread;
    // Runs may have fewer packets than estimated, or more.
    let fewer = (packets - losses.least).max(0.0);
    let more = (losses.packets.by_mean - packets).max(0.0);
    let low = (poisson_bound(events, -Z) * spread - fewer).max(0.0);
    let high = poisson_bound(events + 1.0, Z) * spread + more;
    // A small number of captured segments is a sample as well.
    let segments_high = poisson_bound(segments + 1.0, Z);
    Some(Estimate {
        packets,
        packets_low: low.min(packets),
        packets_high: (segments > 0.0).then_some(high),
        ratio: packets / (packets + segments),
        low: low / (low + segments_high),
        high: high / (high + segments),
    })
}

/// A bound of the mean of a Poisson process with `count` observed events (Wilson and Hilferty, 1931).
fn poisson_bound(count: f64, z: f64) -> f64 {
    if count <= 0.0 {
        return 0.0;
    }
    (count * (1.0 - 1.0 / (9.0 * count) + z / (3.0 * count.sqrt())).powi(3)).max(0.0)
}

fn all(cell: &Cell, is_by_mean: bool) -> f64 {
    cell.segments as f64 + cell.lost.packets(is_by_mean)
}

/// Variance of the number of lost packets, from the differences between cells; 0 if there are too few.
fn spread_of(cells: &[Cell], is_by_mean: bool) -> f64 {
    let all = |cell: &Cell| all(cell, is_by_mean);
    let lost_of = |cell: &Cell| cell.lost.packets(is_by_mean);
    let used: Vec<&Cell> = cells.iter().filter(|cell| all(cell) > 0.0).collect();
    if used.len() < CELLS_MIN {
        return 0.0;
    }
    let lost: f64 = used.iter().map(|cell| lost_of(cell)).sum();
    let ratio = lost / used.iter().map(|cell| all(cell)).sum::<f64>();
    let squares: f64 = used.iter().map(|cell| (lost_of(cell) - ratio * all(cell)).powi(2)).sum();
    let count = used.len() as f64;
    // For few cells Student's quantile is larger than the normal one.
    let student = 1.0 + 2.5 / (count - 1.0);
    squares * count / (count - 1.0) * student
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_tables() {
        // Exact 95 % bounds of a Poisson mean: for 0 3.689, for 10 4.795 and 18.39, for 100 81.36 and 121.63.
        for (count, low, high) in [(0.0, 0.0, 3.689), (10.0, 4.795, 18.39), (100.0, 81.36, 121.63)] {
            let bounds = [poisson_bound(count, -Z), poisson_bound(count + 1.0, Z)];
            assert!((bounds[0] - low).abs() < 0.03 && (bounds[1] - high).abs() < 0.03, "{count}: {bounds:?}");
        }
    }

    #[test]
    fn no_loss_has_an_upper_bound_and_no_evidence_no_estimate() {
        assert_eq!(estimate(&Losses::default(), &[]), None);
        let none = estimate(&Losses { segments: 36_690, ..Losses::default() }, &[]).unwrap();
        assert!(none.ratio == 0.0 && none.low == 0.0 && (none.high - 0.0001).abs() < 0.000_001, "{none:?}");
    }

    fn losses(segments: u64, runs: f64, packets: f64, by_mean: f64) -> Losses {
        Losses {
            segments,
            packets: Lost { few: runs * packets, by_mean: runs * by_mean },
            least: runs * packets,
            noise: if packets > 1.0 { 0.0 } else { runs * by_mean * by_mean },
            few_squares: runs * packets * packets,
            by_mean_squares: runs * by_mean * by_mean,
        }
    }

    #[test]
    fn nothing_captured_leaves_bounds_that_are_numbers() {
        for lost in [1.0, 2.0, 500.0] {
            let found = estimate(&losses(0, lost, 1.0, 1.0), &[]).unwrap();
            assert!(found.ratio == 1.0 && found.high == 1.0 && found.low < 0.995, "{lost}: {found:?}");
        }
        // For one lost packet of one, the exact lower bound is 0.025.
        assert!(estimate(&losses(0, 1.0, 1.0, 1.0), &[]).unwrap().low < 0.025);
        let found = estimate(&Losses { least: 1.0, ..losses(0, 1.0, 8.0, 13.0) }, &[]).unwrap();
        assert!(found.low >= 0.0 && found.low < 0.1 && found.high == 1.0, "{found:?}");
    }

    #[test]
    fn runs_that_are_too_long_in_all_are_packets_of_the_mean_size() {
        // 20 runs of 8 short segments, each run shorter than the longest segment.
        let bursts = losses(1000, 20.0, 1.0, 8.0);
        let found = estimate(&bursts, &[]).unwrap();
        assert!((found.packets - 160.0).abs() < 0.01 && found.low < 20.0 / 1020.0, "{found:?}");
        // One run may be one long packet; the upper bound must include 8.
        let found = estimate(&losses(1000, 1.0, 1.0, 8.0), &[]).unwrap();
        assert!((found.packets - 1.0).abs() < 0.01 && found.high > 8.0 / 1008.0, "{found:?}");
    }

    #[test]
    fn runs_and_bursts_widen_the_interval() {
        let single = losses(9900, 100.0, 1.0, 1.0);
        let width = |losses: &Losses, cells: &[Cell]| {
            let found = estimate(losses, cells).unwrap();
            assert!(found.low < found.ratio && found.ratio < found.high, "{found:?}");
            found.high - found.low
        };
        let alone = width(&single, &[]);
        let runs = width(&losses(9900, 10.0, 10.0, 10.0), &[]);
        assert!((2.5..4.0).contains(&(runs / alone)), "{runs} {alone}");
        let cell = |segments, few| Cell { segments, lost: Lost { few, by_mean: few }, ..Cell::default() };
        let even = [cell(990, 10.0); 10];
        assert_eq!(width(&single, &even), alone);
        let mut burst = [cell(1000, 0.0); 10];
        burst[3] = cell(900, 100.0);
        assert!(width(&single, &burst) > 4.0 * alone);
        assert!(width(&Losses { least: 60.0, ..single }, &even) > 1.5 * alone);
    }
}
