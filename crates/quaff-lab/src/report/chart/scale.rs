//! Axes: all begin at zero, end at a round number, and have a few round ticks.

use crate::report::words::{percent_bare, significant};

/// What an axis counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Unit {
    /// A ratio, shown as percent.
    Percent,
    /// A number as it is.
    Number,
}

/// From zero to `top`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::report) struct Scale {
    pub(in crate::report) top: f64,
    pub(in crate::report) unit: Unit,
}

impl Scale {
    /// An axis that has room for `max`.
    pub(in crate::report) fn over(max: f64, unit: Unit) -> Self {
        let floor = if unit == Unit::Percent { 0.01 } else { 1e-9 };
        let max = if max.is_finite() { max.max(floor) } else { floor };
        let step = step(max, 4.0);
        Self { top: (max / step - 1e-9).ceil().max(1.0) * step, unit }
    }

    /// As [`Scale::over`], and never beyond 100 %.
    pub(in crate::report) fn of_ratio(max: f64) -> Self {
        let scale = Self::over(max, Unit::Percent);
        Self { top: scale.top.min(1.0), ..scale }
    }

    /// Where `value` stands, of `length`.
    pub(in crate::report) fn at(self, value: f64, length: f64) -> f64 {
        (value / self.top).clamp(0.0, 1.0) * length
    }

    /// Some `wanted` ticks, from zero on.
    pub(in crate::report) fn ticks(self, wanted: f64) -> Vec<f64> {
        let step = step(self.top, wanted);
        let last = (self.top / step + 1e-9).floor() as usize;
        (0..=last).map(|i| i as f64 * step).collect()
    }

    /// What is written at a tick.
    pub(in crate::report) fn label(self, value: f64) -> String {
        match self.unit {
            Unit::Percent => percent_bare((value * 1e9).round() / 1e9),
            Unit::Number => significant(value),
        }
    }
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
        let scale = Scale::of_ratio(0.663);
        assert!((scale.top - 0.8).abs() < 1e-9, "{scale:?}");
        let labels: Vec<String> = scale.ticks(4.0).into_iter().map(|tick| scale.label(tick)).collect();
        assert_eq!(labels, ["0", "20", "40", "60", "80"]);
        assert_eq!(Scale::of_ratio(0.97).top, 1.0);
        assert!((Scale::of_ratio(0.0).top - 0.01).abs() < 1e-9);
        assert!((Scale::over(950.0, Unit::Number).top - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_beyond_an_axis_stays_on_the_picture() {
        assert_eq!(Scale { top: 1.0, unit: Unit::Number }.at(7.0, 100.0), 100.0);
    }
}
