//! Where values lie, on one axis: a strip for each row from the smallest to the largest, lighter from quantile
//! to quantile.

use super::mark::{class, sign};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fitted, width_of};
use super::{Drawn, Target, open_column, open_mark};

/// Panels of strips on one scale.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Ranges {
    /// What the axis counts.
    pub(in crate::report) label: String,
    pub(in crate::report) x: Scale,
    pub(in crate::report) panels: Vec<Panel>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Panel {
    pub(in crate::report) title: String,
    pub(in crate::report) rows: Vec<Row>,
    /// Values to compare with, and their names.
    pub(in crate::report) limits: Vec<(f64, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Row {
    pub(in crate::report) style: usize,
    pub(in crate::report) name: String,
    /// Where shades change, the smallest first: smallest, median, and two or three more quantiles.
    pub(in crate::report) edges: Vec<f64>,
    /// The largest.
    pub(in crate::report) reach: f64,
    /// What stands behind the strip.
    pub(in crate::report) words: String,
    /// The value with all that belongs to it.
    pub(in crate::report) long: String,
}

const TOP: f64 = 20.0;
const ROW: f64 = 24.0;
const HEAD: f64 = 26.0;
/// More of it where something stands between the title and the strips.
const HEAD_OF_LIMITS: f64 = 40.0;
const FOOT: f64 = 34.0;
const GAP: f64 = 28.0;
const STRIP: f64 = 11.0;
const SHADES: [&str; 4] = ["q0", "q1", "q2", "q3"];

/// Where things stand in each panel.
struct Frame {
    across: usize,
    panel: f64,
    label: f64,
    strip: f64,
    head: f64,
}

pub(super) fn draw(ranges: &Ranges, width: f64, target: Target) -> Drawn {
    let frame = frame(ranges, width);
    let mut svg = Svg::default();
    svg.text("lab", Anchor::Start, [2.0, 12.0], &ranges.label);
    let mut y = TOP;
    for row in ranges.panels.chunks(frame.across) {
        for (i, panel) in row.iter().enumerate() {
            let x = i as f64 * (frame.panel + GAP);
            draw_panel(&mut svg, &frame, ranges, panel, target, [x, y]);
        }
        let most = row.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
        y += frame.head + most as f64 * ROW + FOOT;
    }
    Drawn { height: y - 8.0, svg }
}

fn frame(ranges: &Ranges, width: f64) -> Frame {
    let across = super::across(ranges.panels.len(), ((width / 340.0) as usize).clamp(1, 3));
    let panel = (width - GAP * (across - 1) as f64) / across as f64;
    let all = || ranges.panels.iter().flat_map(|panel| &panel.rows);
    let widest = |words: fn(&Row) -> &str| all().map(|row| width_of(words(row), 12.0)).fold(0.0, f64::max);
    let label = (widest(|row| &row.name) + 26.0).min(panel * 0.34);
    let value = (widest(|row| &row.words) + 14.0).min(panel * 0.34);
    let has_limits = ranges.panels.iter().any(|panel| !panel.limits.is_empty());
    let head = if has_limits { HEAD_OF_LIMITS } else { HEAD };
    Frame { across, panel, label, strip: panel - label - value, head }
}

fn draw_panel(
    svg: &mut Svg,
    frame: &Frame,
    ranges: &Ranges,
    panel: &Panel,
    target: Target,
    [x, y]: [f64; 2],
) {
    let left = x + frame.label;
    let bottom = y + frame.head + panel.rows.len() as f64 * ROW;
    svg.text("sub", Anchor::Start, [x + 2.0, y + 15.0], &fitted(&panel.title, 13.0, frame.panel));
    for tick in ranges.x.ticks((frame.strip / 58.0).clamp(2.0, 9.0)) {
        let at = left + ranges.x.at(tick, frame.strip);
        svg.line("grid", [at, y + frame.head], [at, bottom]);
        svg.text("tick", Anchor::Middle, [at, bottom + 14.0], &ranges.x.label(tick));
    }
    for (i, row) in panel.rows.iter().enumerate() {
        draw_row(svg, frame, ranges, target, &panel.title, row, [x, y + frame.head + i as f64 * ROW]);
    }
    for (limit, words) in &panel.limits {
        let at = left + ranges.x.at(*limit, frame.strip);
        svg.line("limit", [at, y + frame.head - 3.0], [at, bottom]);
        let half = width_of(words, 11.0) / 2.0;
        let middle = at.clamp(left, (x + frame.panel - half).max(left));
        svg.text("tick", Anchor::Middle, [middle, y + frame.head - 6.0], words);
    }
}

fn draw_row(
    svg: &mut Svg,
    frame: &Frame,
    ranges: &Ranges,
    target: Target,
    title: &str,
    row: &Row,
    [x, top]: [f64; 2],
) {
    let (left, middle) = (x + frame.label, top + ROW / 2.0);
    let at = |value: f64| left + ranges.x.at(value, frame.strip);
    open_column(svg, target, [Some(left + frame.strip / 2.0), Some(middle)], title);
    open_mark(svg, target, &class(row.style), [title, &row.name, &row.long]);
    if target == Target::Page {
        svg.rect("ring", [x, top + 1.0], [frame.panel, ROW - 2.0]);
    }
    svg.path("m", &sign(row.style, [x + 7.0, middle], 3.6));
    svg.text("name", Anchor::Start, [x + 17.0, middle + 4.0], &fitted(&row.name, 12.0, frame.label - 22.0));
    if let Some(low) = row.edges.first() {
        svg.line("reach", [at(*low), middle], [at(row.reach), middle]);
        svg.line("reach", [at(row.reach), middle - 4.0], [at(row.reach), middle + 4.0]);
    }
    for (two, shade) in row.edges.windows(2).zip(SHADES) {
        let width = (at(two[1]) - at(two[0])).max(1.0);
        svg.rect(shade, [at(two[0]), middle - STRIP / 2.0], [width, STRIP]);
    }
    if let Some(median) = row.edges.get(1) {
        let at = at(*median);
        svg.line("cut", [at, middle - STRIP / 2.0 - 1.0], [at, middle + STRIP / 2.0 + 1.0]);
    }
    let from = at(row.reach) + 7.0;
    svg.text("val", Anchor::Start, [from, middle + 4.0], &fitted(&row.words, 12.0, x + frame.panel - from));
    svg.close();
    svg.close();
}
