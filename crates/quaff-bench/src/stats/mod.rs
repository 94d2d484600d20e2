//! Statistics of runs: means, medians, spreads, quantiles, and whether two series differ. Pure arithmetic
//! over slices, without knowledge of their origin.
//!
//! An empty slice gives `None`.

mod rank;

pub(crate) use rank::mann_whitney;

/// Minimum count for a trimmed mean.
const TRIMMED_MIN: usize = 3;

/// The mean.
pub(crate) fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// The mean without the minimum and the maximum; for fewer than three numbers the plain mean.
pub(crate) fn trimmed_mean(numbers: &[f64]) -> Option<f64> {
    mean(&trimmed(numbers))
}

/// The numbers without the minimum and the maximum, sorted; fewer than three stay complete.
pub(crate) fn trimmed(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = sorted(numbers);
    if sorted.len() >= TRIMMED_MIN {
        sorted.pop();
        sorted.remove(0);
    }
    sorted
}

/// The median; for an even count the mean of the middle two.
pub fn median(numbers: &[f64]) -> Option<f64> {
    quantile(numbers, 0.5)
}

/// The quantile at the share `at`, 0 to 1, interpolated linearly (Hyndman and Fan 1996, definition 7).
pub(crate) fn quantile(numbers: &[f64], at: f64) -> Option<f64> {
    let sorted = sorted(numbers);
    let last = sorted.len().checked_sub(1)?;
    let place = at.clamp(0.0, 1.0) * last as f64;
    let (below, share) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * share)
}

/// Minimum and maximum.
pub(crate) fn spread(numbers: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(numbers);
    Some([*sorted.first()?, *sorted.last()?])
}

/// The sample standard deviation (n − 1); `None` for fewer than two numbers.
pub(crate) fn std_dev(numbers: &[f64]) -> Option<f64> {
    let mean = mean(numbers)?;
    let degrees = numbers.len() - 1;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (degrees > 0).then(|| (squares / degrees as f64).sqrt())
}

/// Lost / offered, 0 to 1 (RFC 2544 §26.3); 0 if more was captured than offered, `None` if nothing was offered.
pub fn loss_ratio(offered: u64, captured: u64) -> Option<f64> {
    (offered > 0).then(|| offered.saturating_sub(captured) as f64 / offered as f64)
}

/// The difference of two numbers relative to the larger, 0 to 1 for numbers of one sign.
pub fn difference(one: f64, other: f64) -> f64 {
    let larger = one.abs().max(other.abs());
    if larger == 0.0 { 0.0 } else { (one - other).abs() / larger }
}

fn sorted(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests;
