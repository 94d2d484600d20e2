//! Axes: they begin at zero, end at a round number, and have a few round ticks. An axis of rates that would crowd
//! at its left end is logarithmic; so is one of delays, which span decades. One of loss never is.

use crate::stats::{median, spread};
use quaff::format::{delay, percent_bare, significant};

/// The unit of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A ratio, shown as a percentage.
    Percent,
    /// As a percentage, never above 100.
    Loss,
    /// A number as it is.
    Number,
    /// A time in ms, shown with the unit that fits.
    Delay,
}

/// From `bottom` to `top`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// 0; above 0 the axis is logarithmic.
    bottom: f64,
    top: f64,
    unit: Unit,
}

/// Values crowd when their median is below this share of a linear axis
const CROWDED: f64 = 0.3;
/// and the largest is at least this multiple of the smallest.
const DECADE: f64 = 10.0;

impl Scale {
    /// An axis for values above 0, up to the largest of them: linear, unless most of them would crowd in its
    /// lower part.
    pub(crate) fn of_values(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        let [low, top] = spread(&values).unwrap_or([1.0, 1.0]);
        let is_crowded = top > DECADE * low && median(&values).is_some_and(|middle| middle < CROWDED * top);
        Self { bottom: if is_crowded { low } else { 0.0 }, top, unit: Unit::Number }
    }

    /// A logarithmic axis with round ends that has room for all of `values` above 0.
    pub(crate) fn log(values: impl Iterator<Item = f64>, unit: Unit) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
        let [low, high] = spread(&values).unwrap_or([1.0, 10.0]);
        let bottom = round_down(low);
        let top = 1.0 / round_down(1.0 / high);
        Self { bottom, top: if top > bottom * 1.5 { top } else { bottom * 10.0 }, unit }
    }

    /// An axis from zero to `top`.
    pub(crate) fn up_to(top: f64, unit: Unit) -> Self {
        Self { bottom: 0.0, top, unit }
    }

    /// Its first and last value.
    pub(crate) fn ends(self) -> [f64; 2] {
        [self.bottom, self.top]
    }

    /// Returns whether equal distances are equal ratios.
    pub(crate) fn is_logarithmic(self) -> bool {
        self.bottom > 0.0
    }

    /// An axis that has room for `max`; where there is nothing to show it has ticks that can be read.
    pub(crate) fn over(max: f64, unit: Unit) -> Self {
        let (floor, nothing, most) = match unit {
            Unit::Percent => (0.01, 0.01, f64::INFINITY),
            Unit::Loss => (0.01, 0.01, 1.0),
            Unit::Number | Unit::Delay => (1e-9, 1.0, f64::INFINITY),
        };
        let max = if max.is_finite() && max > 0.0 { max.max(floor) } else { nothing };
        let step = step(max, 4.0);
        Self { bottom: 0.0, top: ((max / step - 1e-9).ceil().max(1.0) * step).min(most), unit }
    }

    /// The position of `value` on an axis of `length`.
    pub(crate) fn at(self, value: f64, length: f64) -> f64 {
        let share = match self.is_logarithmic() {
            true => (value.max(self.bottom) / self.bottom).ln() / (self.top / self.bottom).ln(),
            false => value / self.top,
        };
        share.clamp(0.0, 1.0) * length
    }

    /// Some `wanted` ticks: from zero on, or round numbers within a logarithmic axis.
    pub(crate) fn ticks(self, wanted: f64) -> Vec<f64> {
        if self.is_logarithmic() {
            let few = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]].into_iter();
            let few =
                few.map(|digits| self.round_numbers(digits)).find(|ticks| ticks.len() as f64 <= wanted + 1.0);
            return few.unwrap_or_else(|| self.powers(wanted));
        }
        let step = step(self.top, wanted);
        let last = (self.top / step + 1e-9).floor() as usize;
        (0..=last).map(|i| i as f64 * step).collect()
    }

    /// These digits times the powers of ten, as far as they are on the axis.
    fn round_numbers(self, digits: &[f64]) -> Vec<f64> {
        let powers = (self.bottom.log10().floor() as i32)..=(self.top.log10().ceil() as i32);
        // A hair more, so that an end is not lost to rounding.
        let on_axis = (self.bottom * (1.0 - 1e-9))..=(self.top * (1.0 + 1e-9));
        powers
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(|tick| on_axis.contains(tick))
            .collect()
    }

    /// Every n-th power of ten, where there are too many of them.
    fn powers(self, wanted: f64) -> Vec<f64> {
        let all = self.round_numbers(&[1.0]);
        let every = (all.len() as f64 / wanted.max(1.0)).ceil() as usize;
        all.into_iter().step_by(every.max(1)).collect()
    }

    /// The label of a tick.
    pub(crate) fn label(self, value: f64) -> String {
        match self.unit {
            // Only axes go below a hundredth of a percent.
            Unit::Percent | Unit::Loss if value > 0.0 && value < 0.000_1 => {
                format!("{}", (value * 1e11).round() / 1e9)
            }
            Unit::Percent | Unit::Loss => percent_bare((value * 1e9).round() / 1e9),
            Unit::Number => significant(value),
            Unit::Delay => delay(value),
        }
    }
}

/// 1, 2 or 5 times a power of ten, not above `value`.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf((value * (1.0 + 1e-9)).log10().floor());
    let digits = [5.0, 2.0, 1.0];
    digits.into_iter().find(|digit| digit * power <= value * (1.0 + 1e-9)).unwrap_or(1.0) * power
}

/// A round step: 1, 2, 2.5 or 5 times a power of ten, about `wanted` of them in `max`.
fn step(max: f64, wanted: f64) -> f64 {
    let raw = max / wanted;
    let power = 10f64.powf(raw.log10().floor());
    let digits = [1.0, 2.0, 2.5, 5.0, 10.0];
    digits.into_iter().find(|digit| digit * power >= raw * 0.999).unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_begins_at_zero_and_ends_round() {
        let scale = Scale::over(0.663, Unit::Loss);
        assert!((scale.top - 0.8).abs() < 1e-9, "{scale:?}");
        let labels: Vec<String> = scale.ticks(4.0).into_iter().map(|tick| scale.label(tick)).collect();
        assert_eq!(labels, ["0", "20", "40", "60", "80"]);
        assert_eq!(Scale::over(0.97, Unit::Loss).top, 1.0);
        assert!((Scale::over(0.0, Unit::Loss).top - 0.01).abs() < 1e-9);
        assert!((Scale::over(950.0, Unit::Number).top - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn values_beyond_an_axis_stay_on_the_picture() {
        assert_eq!(Scale::of_values([1.0].into_iter()).at(7.0, 100.0), 100.0);
        let logarithmic = Scale::of_values([50.0, 60.0, 70.0, 5000.0].into_iter());
        assert_eq!([1.0, 9000.0].map(|value| logarithmic.at(value, 100.0)), [0.0, 100.0]);
    }

    #[test]
    fn rates_that_would_crowd_stand_apart() {
        let paper = (1..20).map(|step| f64::from(step) * 50.0);
        assert!(!Scale::of_values(paper.clone()).is_logarithmic());
        let scale = Scale::of_values(paper.chain([2000.0, 3000.0, 4000.0, 5000.0]));
        assert!(scale.is_logarithmic());
        assert_eq!(scale.ticks(7.0), [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]);
        assert_eq!(scale.ticks(4.0), [100.0, 300.0, 1000.0, 3000.0]);
        assert!((scale.at(500.0, 2.0) - 1.0).abs() < 1e-9);
    }
    #[test]
    fn an_axis_of_delays_has_round_ends_and_ticks() {
        let scale = Scale::log([0.012, 0.7, 0.0].into_iter(), Unit::Delay);
        let [bottom, top] = scale.ends();
        assert!((bottom - 0.01).abs() < 1e-9 && (top - 1.0).abs() < 1e-9, "{scale:?}");
        let labels: Vec<String> = scale.ticks(9.0).into_iter().map(|tick| scale.label(tick)).collect();
        assert_eq!(labels, ["10 µs", "20 µs", "50 µs", "100 µs", "200 µs", "500 µs", "1 ms"]);
        assert_eq!(
            [0.001, 0.01, 0.1, 1.0].map(|value| scale.at(value, 100.0).round()),
            [0.0, 0.0, 50.0, 100.0]
        );
        let wide = Scale::log([1e-6, 1.0].into_iter(), Unit::Percent);
        assert_eq!(wide.ticks(3.0).len(), 3);
        assert_eq!(wide.label(1e-6), "0.0001");
        assert_eq!(Scale::log(std::iter::empty(), Unit::Number).ends(), [1.0, 10.0]);
    }
}
