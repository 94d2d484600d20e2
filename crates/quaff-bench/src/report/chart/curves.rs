//! Lines in panels above each other on one axis: loss and CPU over the rate, or values of each second with the
//! unavailable time shaded.

use super::drawing::{Drawn, Target, open_column, open_mark};
use super::mark::{SOURCE, class, sign};
use super::scale::Scale;
use super::svg::{Anchor, BOLD, Svg, fitted, n, width_of};

/// Panels over one axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curves {
    /// Quantity and unit of the axis.
    pub(crate) x_label: String,
    pub(crate) x: Scale,
    /// A heading for each group of points that the pointer shows together.
    pub(crate) columns: Vec<String>,
    pub(crate) panels: Vec<Panel>,
    /// Shaded parts of the axis.
    pub(crate) gaps: Vec<Gap>,
    /// Many points: no signs, spreads are bands, and a line breaks at a column without a point.
    pub(crate) is_dense: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gap {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) words: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    pub(crate) label: String,
    pub(crate) y: Scale,
    /// px.
    pub(crate) height: f64,
    /// Values to compare with, and their names.
    pub(crate) limits: Vec<(f64, String)>,
    /// A line of the style [`SOURCE`] is dashed and has no signs: a bound beside what was measured.
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) style: usize,
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Point {
    /// Index in [`Curves::columns`].
    pub(crate) column: usize,
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Smallest and largest of all runs.
    pub(crate) spread: Option<[f64; 2]>,
    /// Smallest and largest of the runs in the mean, where it leaves out others.
    pub(crate) kept: Option<[f64; 2]>,
    /// Drawn hollow: a limit of the measurement, not of what was measured.
    pub(crate) hollow: bool,
    /// The value as text.
    pub(crate) words: String,
}

impl Line {
    /// A line through `points`, from left to right; `None` without a point.
    pub(crate) fn new(style: usize, name: &str, points: impl Iterator<Item = Point>) -> Option<Self> {
        let mut points: Vec<Point> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        (!points.is_empty()).then(|| Self { style, name: name.into(), points })
    }
}

impl Panel {
    pub(crate) fn new(label: impl Into<String>, y: Scale, height: f64, lines: Vec<Line>) -> Self {
        Self { label: label.into(), y, height, limits: Vec::new(), lines }
    }
}

/// Font size of names, which are bold, px.
const PX: f64 = 12.0 * BOLD;
const TOP: f64 = 26.0;
const GAP: f64 = 38.0;

/// A chart while it is drawn, and the geometry of its panels.
struct Plot<'a> {
    svg: Svg,
    target: Target,
    curves: &'a Curves,
    left: f64,
    right: f64,
    label_width: f64,
    /// Upper edges of the panels.
    tops: Vec<f64>,
    bottom: f64,
    radius: f64,
}

pub(super) fn draw(curves: &Curves, width: f64, target: Target) -> Drawn {
    let mut plot = Plot::new(curves, width, target);
    plot.gaps();
    for (panel, top) in plot.panels() {
        plot.y_axis(panel, top);
    }
    plot.x_axis();
    for (panel, top) in plot.panels() {
        for line in panel.lines.iter().rev() {
            plot.line(panel, top, line);
        }
        plot.names(panel, top);
    }
    plot.gap_names();
    // In a file, a line without signs has nothing to point at.
    let columns = if curves.is_dense && target == Target::File { 0 } else { curves.columns.len() };
    for column in 0..columns {
        plot.column(column);
    }
    Drawn { height: plot.bottom + 38.0, svg: plot.svg }
}

impl<'a> Plot<'a> {
    fn new(curves: &'a Curves, width: f64, target: Target) -> Self {
        let lines = || curves.panels.iter().flat_map(|panel| &panel.lines);
        let widest = lines().map(|line| width_of(&line.name, PX)).fold(0.0, f64::max);
        let label_width = widest.min(width * 0.3);
        let left = curves.panels.iter().map(tick_width).fold(34.0, f64::max);
        let right = width - label_width - 26.0;
        let mut bottom = TOP - GAP;
        let mut top = |panel: &Panel| {
            let top = bottom + GAP;
            bottom = top + panel.height;
            top
        };
        let tops = curves.panels.iter().map(&mut top).collect();
        let radius = if width < 500.0 { 2.4 } else { 3.2 };
        Self { svg: Svg::default(), target, curves, left, right, label_width, tops, bottom, radius }
    }

    fn panels(&self) -> Vec<(&'a Panel, f64)> {
        self.curves.panels.iter().zip(self.tops.iter().copied()).collect()
    }

    fn x(&self, x: f64) -> f64 {
        self.left + self.curves.x.at(x, self.right - self.left)
    }

    fn place(&self, panel: &Panel, top: f64, x: f64, y: f64) -> [f64; 2] {
        [self.x(x), top + panel.height - panel.y.at(y, panel.height)]
    }

    fn y_axis(&mut self, panel: &Panel, top: f64) {
        let (left, right, bottom) = (self.left, self.right, top + panel.height);
        self.svg.text("lab", Anchor::Start, [2.0, top - 11.0], &panel.label);
        for tick in panel.y.ticks(panel.height / 45.0) {
            let y = bottom - panel.y.at(tick, panel.height);
            self.svg.line("grid", [left, y], [right, y]);
            self.svg.text("tick", Anchor::End, [left - 6.0, y + 4.0], &panel.y.label(tick));
        }
        self.svg.line("base", [left, bottom], [right, bottom]);
        for (limit, words) in &panel.limits {
            let y = bottom - panel.y.at(*limit, panel.height);
            self.svg.line("limit", [left, y], [right, y]);
            self.svg.text("val faint", Anchor::End, [right - 2.0, y - 4.0], words);
        }
    }

    /// Shades the gaps of all panels.
    fn gaps(&mut self) {
        for gap in &self.curves.gaps {
            let [from, to] = [gap.from, gap.to].map(|x| self.x(x));
            for (panel, top) in self.panels() {
                self.svg.rect("gap", [from, top], [(to - from).max(1.5), panel.height]);
            }
        }
    }

    /// Writes the text of each gap into the uppermost panel, over its lines.
    fn gap_names(&mut self) {
        let (Some(top), Some(panel)) = (self.tops.first().copied(), self.curves.panels.first()) else {
            return;
        };
        for gap in &self.curves.gaps {
            let half = width_of(&gap.words, 11.0 * BOLD) / 2.0;
            let (least, most) = (self.left + half, self.right - half);
            let middle = (self.x(gap.from) + self.x(gap.to)) / 2.0;
            let at = [middle.clamp(least, most.max(least)), top + panel.height * 0.7];
            self.svg.text("alarm", Anchor::Middle, at, &gap.words);
        }
    }

    fn x_axis(&mut self) {
        let (y, axis) = (self.bottom, self.curves.x);
        for tick in axis.ticks(((self.right - self.left) / 62.0).max(2.0)) {
            let x = self.x(tick);
            self.svg.line("base", [x, y], [x, y + 4.0]);
            self.svg.text("tick", Anchor::Middle, [x, y + 17.0], &axis.label(tick));
        }
        self.svg.text("lab", Anchor::End, [self.right, y + 33.0], &self.curves.x_label);
    }

    fn line(&mut self, panel: &Panel, top: f64, line: &Line) {
        let is_dense = self.curves.is_dense;
        self.svg.open(&class(line.style), &[]);
        if is_dense {
            self.band(panel, top, line);
        }
        let mut path = String::new();
        let mut last = None;
        for point in &line.points {
            let [x, y] = self.place(panel, top, point.x, point.y);
            let follows = last.is_some_and(|last| !is_dense || last + 1 == point.column);
            // A point by itself is a dot.
            let at = if follows { "L" } else { "M" };
            let dot = if !follows && is_dense { "h0" } else { "" };
            path += &format!("{at}{} {}{dot}", n(x), n(y));
            last = Some(point.column);
            if let Some(spread) = point.spread.filter(|[low, high]| high > low && !is_dense) {
                let [low, high] = spread.map(|y| self.place(panel, top, point.x, y));
                self.svg.line("spread", low, high);
                if let Some(kept) = point.kept {
                    let [low, high] = kept.map(|y| self.place(panel, top, point.x, y));
                    self.svg.line("kept", low, high);
                }
            }
        }
        self.svg.path("l", &path);
        self.svg.close();
    }

    /// Fills from the smallest to the largest value of consecutive points.
    fn band(&mut self, panel: &Panel, top: f64, line: &Line) {
        for run in line.points.chunk_by(|a, b| a.column + 1 == b.column) {
            let edge = |point: &Point, which: usize| {
                let y = point.spread.map_or(point.y, |spread| spread[which]);
                let [x, y] = self.place(panel, top, point.x, y);
                format!("{} {}", n(x), n(y))
            };
            if run.len() > 1 && run.iter().any(|point| point.spread.is_some()) {
                let upper = run.iter().map(|point| edge(point, 1));
                let lower = run.iter().rev().map(|point| edge(point, 0));
                let path = format!("M{}z", upper.chain(lower).collect::<Vec<_>>().join("L"));
                self.svg.path("band", &path);
            }
        }
    }

    /// Writes the name of each line at its end, moved apart where they would touch.
    fn names(&mut self, panel: &Panel, top: f64) {
        let mut labels: Vec<(&Line, [f64; 2])> = Vec::new();
        for line in &panel.lines {
            labels.extend(line.points.last().map(|point| (line, self.place(panel, top, point.x, point.y))));
        }
        labels.sort_by(|a, b| a.1[1].total_cmp(&b.1[1]));
        let mut heights: Vec<f64> = labels.iter().map(|label| label.1[1]).collect();
        spread_out(&mut heights, 13.5, top - 6.0, top + panel.height + 4.0);
        let x = self.right + 20.0;
        for ((line, from), y) in labels.into_iter().zip(heights) {
            self.svg.open(&class(line.style), &[]);
            if (y - from[1]).abs() > 3.0 || from[0] < self.right - 8.0 {
                self.svg.line("lead", [from[0] + 5.0, from[1]], [x - 2.0, y]);
            }
            let name = fitted(&line.name, PX, self.label_width + 4.0);
            self.svg.text("name", Anchor::Start, [x, y + 4.0], &name);
            self.svg.close();
        }
    }

    /// Draws the signs of one column, with the values that the pointer shows.
    fn column(&mut self, column: usize) {
        let lines = self.curves.panels.iter().flat_map(|panel| &panel.lines);
        let points = lines.flat_map(|line| &line.points).filter(|point| point.column == column);
        let xs: Vec<f64> = points.map(|point| self.x(point.x)).collect();
        let Some(x) = crate::stats::mean(&xs) else { return };
        let heading = &self.curves.columns[column];
        open_column(&mut self.svg, self.target, [Some(x), None], heading);
        if self.target == Target::Page {
            self.svg.line("cross", [x, self.tops[0] - 4.0], [x, self.bottom]);
        }
        for (panel, top) in self.panels() {
            for line in panel.lines.iter().rev() {
                for point in line.points.iter().filter(|point| point.column == column) {
                    let at = self.place(panel, top, point.x, point.y);
                    let words = [heading.as_str(), &line.name, &point.words];
                    open_mark(&mut self.svg, self.target, &class(line.style), words);
                    if line.style != SOURCE && !self.curves.is_dense {
                        let class = if point.hollow { "m hollow" } else { "m" };
                        self.svg.path(class, &sign(line.style, at, self.radius));
                    }
                    self.svg.close();
                }
            }
        }
        self.svg.close();
    }
}

fn tick_width(panel: &Panel) -> f64 {
    let ticks = panel.y.ticks(panel.height / 45.0);
    ticks.into_iter().map(|tick| width_of(&panel.y.label(tick), 11.0) + 9.0).fold(0.0, f64::max)
}

/// Moves sorted heights apart by at least `gap`, within `from` and `to` while there is room.
fn spread_out(heights: &mut [f64], gap: f64, from: f64, to: f64) {
    let mut least = from;
    for y in heights.iter_mut() {
        *y = y.max(least);
        least = *y + gap;
    }
    let mut most = to;
    for y in heights.iter_mut().rev() {
        *y = y.min(most);
        most = *y - gap;
    }
}

#[cfg(test)]
mod tests {
    use super::spread_out;

    #[test]
    fn names_that_would_touch_move_apart() {
        let mut heights = [10.0, 100.0, 100.0, 100.0];
        spread_out(&mut heights, 13.0, 0.0, 104.0);
        assert_eq!(heights, [10.0, 78.0, 91.0, 104.0]);
        let mut few = [5.0, 50.0];
        spread_out(&mut few, 13.0, 0.0, 104.0);
        assert_eq!(few, [5.0, 50.0]);
    }
}
