//! Lines over an axis, one panel above the other on the same axis: loss, and the CPU that it took; or a value
//! of each second, with what was out of order meanwhile shaded.

use super::mark::{SOURCE, class, sign};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fitted, n, width_of};
use super::{Drawn, Target, open_column, open_mark};

/// Panels over one axis.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Curves {
    /// What the axis counts.
    pub(in crate::report) x_label: String,
    pub(in crate::report) x: Scale,
    /// What stands together: a heading for each.
    pub(in crate::report) columns: Vec<String>,
    pub(in crate::report) panels: Vec<Panel>,
    /// Where the axis is shaded, and what is said of it there.
    pub(in crate::report) gaps: Vec<Gap>,
    /// Many points beside each other: no signs, spreads are bands, and lines break where a column has no point.
    pub(in crate::report) is_dense: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Gap {
    pub(in crate::report) from: f64,
    pub(in crate::report) to: f64,
    pub(in crate::report) words: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Panel {
    pub(in crate::report) label: String,
    pub(in crate::report) y: Scale,
    /// px.
    pub(in crate::report) height: f64,
    /// What must not be passed, and its name.
    pub(in crate::report) limits: Vec<(f64, String)>,
    /// The style [`SOURCE`] is dashed and has no signs: what could be, beside what was measured.
    pub(in crate::report) lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Line {
    pub(in crate::report) style: usize,
    pub(in crate::report) name: String,
    pub(in crate::report) points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Point {
    /// Which of the columns.
    pub(in crate::report) column: usize,
    pub(in crate::report) x: f64,
    pub(in crate::report) y: f64,
    pub(in crate::report) spread: Option<[f64; 2]>,
    /// Drawn hollow: what it shows is not the limit of what was measured.
    pub(in crate::report) hollow: bool,
    /// The value in words.
    pub(in crate::report) words: String,
}

const PX: f64 = 12.0;
const TOP: f64 = 26.0;
const GAP: f64 = 38.0;

/// Where the panels stand.
struct Frame {
    left: f64,
    width: f64,
    label_width: f64,
    /// The upper edge of each panel.
    tops: Vec<f64>,
    bottom: f64,
    radius: f64,
}

pub(super) fn draw(curves: &Curves, width: f64, target: Target) -> Drawn {
    let frame = frame(curves, width);
    let mut svg = Svg::default();
    gaps(&mut svg, &frame, curves);
    for (panel, top) in curves.panels.iter().zip(&frame.tops) {
        axes(&mut svg, &frame, panel, *top);
    }
    x_axis(&mut svg, &frame, curves);
    for (panel, top) in curves.panels.iter().zip(&frame.tops) {
        for line in panel.lines.iter().rev() {
            draw_line(&mut svg, &frame, curves, panel, *top, line);
        }
        names(&mut svg, &frame, curves, panel, *top);
    }
    // What has no signs has nothing to point at in a file.
    let columns = if curves.is_dense && target == Target::File { 0 } else { curves.columns.len() };
    for column in 0..columns {
        marks(&mut svg, &frame, curves, target, column);
    }
    Drawn { height: frame.bottom + 38.0, svg }
}

fn frame(curves: &Curves, width: f64) -> Frame {
    let lines = || curves.panels.iter().flat_map(|panel| &panel.lines);
    let widest = lines().map(|line| width_of(&line.name, PX)).fold(0.0, f64::max);
    let label_width = widest.min(width * 0.26);
    let left = curves.panels.iter().map(tick_width).fold(34.0, f64::max);
    let mut tops = Vec::new();
    let mut y = TOP;
    for panel in &curves.panels {
        tops.push(y);
        y += panel.height + GAP;
    }
    let radius = if width < 500.0 { 2.4 } else { 3.2 };
    Frame { left, width: width - left - label_width - 26.0, label_width, tops, bottom: y - GAP, radius }
}

fn tick_width(panel: &Panel) -> f64 {
    let ticks = panel.y.ticks(panel.height / 45.0);
    ticks.into_iter().map(|tick| width_of(&panel.y.label(tick), 11.0) + 9.0).fold(0.0, f64::max)
}

impl Frame {
    fn place(&self, curves: &Curves, panel: &Panel, top: f64, x: f64, y: f64) -> [f64; 2] {
        let up = panel.y.at(y, panel.height);
        [self.left + curves.x.at(x, self.width), top + panel.height - up]
    }

    fn right(&self) -> f64 {
        self.left + self.width
    }
}

fn axes(svg: &mut Svg, frame: &Frame, panel: &Panel, top: f64) {
    svg.text("lab", Anchor::Start, [2.0, top - 11.0], &panel.label);
    for tick in panel.y.ticks(panel.height / 45.0) {
        let y = top + panel.height - panel.y.at(tick, panel.height);
        svg.line("grid", [frame.left, y], [frame.right(), y]);
        svg.text("tick", Anchor::End, [frame.left - 6.0, y + 4.0], &panel.y.label(tick));
    }
    let bottom = top + panel.height;
    svg.line("base", [frame.left, bottom], [frame.right(), bottom]);
    for (limit, words) in &panel.limits {
        let y = bottom - panel.y.at(*limit, panel.height);
        svg.line("limit", [frame.left, y], [frame.right(), y]);
        svg.text("val faint", Anchor::End, [frame.right() - 2.0, y - 4.0], words);
    }
}

/// Shades behind the panels; the words stand over the uppermost where there is room.
fn gaps(svg: &mut Svg, frame: &Frame, curves: &Curves) {
    let Some(top) = frame.tops.first() else { return };
    for gap in &curves.gaps {
        let [from, to] = [gap.from, gap.to].map(|x| frame.left + curves.x.at(x, frame.width));
        for (panel, top) in curves.panels.iter().zip(&frame.tops) {
            svg.rect("gap", [from, *top], [(to - from).max(1.5), panel.height]);
        }
        let half = width_of(&gap.words, 11.0) / 2.0;
        let middle =
            ((from + to) / 2.0).clamp(frame.left + half, (frame.right() - half).max(frame.left + half));
        svg.text("alarm", Anchor::Middle, [middle, top + 12.0], &gap.words);
    }
}

fn x_axis(svg: &mut Svg, frame: &Frame, curves: &Curves) {
    let y = frame.bottom;
    for tick in curves.x.ticks((frame.width / 62.0).max(2.0)) {
        let x = frame.left + curves.x.at(tick, frame.width);
        svg.line("base", [x, y], [x, y + 4.0]);
        svg.text("tick", Anchor::Middle, [x, y + 17.0], &curves.x.label(tick));
    }
    svg.text("lab", Anchor::End, [frame.right(), y + 33.0], &curves.x_label);
}

fn draw_line(svg: &mut Svg, frame: &Frame, curves: &Curves, panel: &Panel, top: f64, line: &Line) {
    svg.open(&class(line.style), &[]);
    if curves.is_dense {
        band(svg, frame, curves, panel, top, line);
    }
    let mut path = String::new();
    let mut last = None;
    for point in &line.points {
        let [x, y] = frame.place(curves, panel, top, point.x, point.y);
        let follows = last.is_some_and(|last| !curves.is_dense || last + 1 == point.column);
        // A point by itself is a dot.
        let at = if follows { "L" } else { "M" };
        let dot = if !follows && curves.is_dense { "h0" } else { "" };
        path += &format!("{at}{} {}{dot}", n(x), n(y));
        last = Some(point.column);
        if let Some([low, high]) = point.spread.filter(|[low, high]| high > low && !curves.is_dense) {
            let [_, low] = frame.place(curves, panel, top, point.x, low);
            let [_, high] = frame.place(curves, panel, top, point.x, high);
            svg.line("spread", [x, low], [x, high]);
        }
    }
    svg.path("l", &path);
    svg.close();
}

/// From the smallest to the largest, as far as points follow each other.
fn band(svg: &mut Svg, frame: &Frame, curves: &Curves, panel: &Panel, top: f64, line: &Line) {
    for run in line.points.chunk_by(|a, b| a.column + 1 == b.column) {
        let edge = |point: &Point, which: usize| {
            let y = point.spread.map_or(point.y, |spread| spread[which]);
            let [x, y] = frame.place(curves, panel, top, point.x, y);
            format!("{} {}", n(x), n(y))
        };
        if run.len() > 1 && run.iter().any(|point| point.spread.is_some()) {
            let upper = run.iter().map(|point| edge(point, 1));
            let lower = run.iter().rev().map(|point| edge(point, 0));
            svg.path("band", &format!("M{}z", upper.chain(lower).collect::<Vec<_>>().join("L")));
        }
    }
}

/// The name of each line at its end, pushed apart where they would touch.
fn names(svg: &mut Svg, frame: &Frame, curves: &Curves, panel: &Panel, top: f64) {
    let end = |line: &Line| {
        let point = line.points.last()?;
        Some(frame.place(curves, panel, top, point.x, point.y))
    };
    let mut labels: Vec<(&Line, [f64; 2], f64)> =
        panel.lines.iter().filter_map(|line| end(line).map(|at| (line, at, at[1]))).collect();
    labels.sort_by(|a, b| a.1[1].total_cmp(&b.1[1]));
    let mut heights: Vec<f64> = labels.iter().map(|label| label.2).collect();
    spread_out(&mut heights, 13.5, top - 6.0, top + panel.height + 4.0);
    for (label, y) in labels.iter_mut().zip(heights) {
        label.2 = y;
    }
    let x = frame.right() + 20.0;
    for (line, from, y) in labels {
        svg.open(&class(line.style), &[]);
        if (y - from[1]).abs() > 3.0 || from[0] < frame.right() - 8.0 {
            svg.line("lead", [from[0] + 5.0, from[1]], [x - 2.0, y]);
        }
        svg.text("name", Anchor::Start, [x, y + 4.0], &fitted(&line.name, PX, frame.label_width + 4.0));
        svg.close();
    }
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

fn marks(svg: &mut Svg, frame: &Frame, curves: &Curves, target: Target, column: usize) {
    let here = |line: &&Line| line.points.iter().any(|point| point.column == column);
    let xs: Vec<f64> = curves
        .panels
        .iter()
        .flat_map(|panel| &panel.lines)
        .flat_map(|line| &line.points)
        .filter(|point| point.column == column)
        .map(|point| frame.left + curves.x.at(point.x, frame.width))
        .collect();
    if xs.is_empty() {
        return;
    }
    let x = xs.iter().sum::<f64>() / xs.len() as f64;
    let heading = &curves.columns[column];
    open_column(svg, target, [Some(x), None], heading);
    if target == Target::Page {
        svg.line("cross", [x, frame.tops[0] - 4.0], [x, frame.bottom]);
    }
    for (panel, top) in curves.panels.iter().zip(&frame.tops) {
        for line in panel.lines.iter().filter(here).rev() {
            for point in line.points.iter().filter(|point| point.column == column) {
                let at = frame.place(curves, panel, *top, point.x, point.y);
                let hollow = if point.hollow { "m hollow" } else { "m" };
                let words = [heading.as_str(), &line.name, &point.words];
                open_mark(svg, target, &class(line.style), words);
                if line.style != SOURCE && !curves.is_dense {
                    svg.path(hollow, &sign(line.style, at, frame.radius));
                }
                svg.close();
            }
        }
    }
    svg.close();
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
