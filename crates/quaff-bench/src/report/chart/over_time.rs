//! Lines over intervals of equal length, with the time since the first one as their axis.

use super::curves::{Curves, Line, Panel, Point};
use super::scale::{Scale, Unit};
use super::{Chart, Shape};

/// Intervals of equal length.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct OverTime<'a> {
    pub(in crate::report) interval_s: f64,
    /// The begin of each as text.
    pub(in crate::report) intervals: &'a [String],
}

impl OverTime<'_> {
    /// A line through the middle of each interval.
    pub(in crate::report) fn line(
        &self,
        style: usize,
        name: &str,
        values: &[f64],
        words: fn(f64) -> String,
    ) -> Line {
        let point = |(column, value): (usize, &f64)| Point {
            column,
            x: (column as f64 + 0.5) * self.interval_s / self.divide(),
            y: *value,
            words: words(*value),
            ..Point::default()
        };
        Line { style, name: name.to_owned(), points: values.iter().enumerate().map(point).collect() }
    }

    fn seconds(&self) -> f64 {
        self.intervals.len() as f64 * self.interval_s
    }

    /// Seconds of the unit of the time axis.
    fn divide(&self) -> f64 {
        match self.seconds() {
            s if s < 600.0 => 1.0,
            s if s < 36_000.0 => 60.0,
            _ => 3600.0,
        }
    }

    /// Panels above each other.
    pub(in crate::report) fn curves(&self, title: &str, panels: Vec<Panel>) -> Chart {
        let unit = match self.divide() {
            1.0 => "seconds",
            60.0 => "minutes",
            _ => "hours",
        };
        let begin = self.intervals.first().cloned().unwrap_or_default();
        let curves = Curves {
            x_label: format!("{unit} since {begin}"),
            x: Scale::up_to(self.seconds() / self.divide(), Unit::Number),
            columns: self.intervals.to_vec(),
            panels,
            gaps: Vec::new(),
            is_dense: true,
        };
        Chart::new(title, "", Shape::Curves(curves))
    }
}

/// A panel whose axis has the unit that fits, each a thousand of the one before.
pub(in crate::report) fn panel(label: &str, units: [&str; 4], height: f64, mut lines: Vec<Line>) -> Panel {
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.y);
    let most = values().fold(0.0, f64::max);
    let unit =
        (0..units.len() - 1).find(|unit| most < 1000f64.powi(*unit as i32 + 1)).unwrap_or(units.len() - 1);
    let divide = 1000f64.powi(unit as i32);
    lines.iter_mut().flat_map(|line| &mut line.points).for_each(|point| point.y /= divide);
    Panel::new(format!("{label}{}", units[unit]), Scale::over(most / divide, Unit::Number), height, lines)
}
