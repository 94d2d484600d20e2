//! Bars from zero, in panels that share one axis: the figure, its spread, and every run.

use super::mark::{SOURCE, class, sign};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fitted, n, width_of};
use super::{Drawn, Target, open_column, open_mark};

/// Panels of bars on one scale.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Bars {
    /// What the axis counts.
    pub(in crate::report) label: String,
    pub(in crate::report) x: Scale,
    pub(in crate::report) panels: Vec<Panel>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Panel {
    pub(in crate::report) title: String,
    pub(in crate::report) bars: Vec<Bar>,
    /// The most that there could be.
    pub(in crate::report) limit: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Bar {
    pub(in crate::report) style: usize,
    pub(in crate::report) name: String,
    /// Parts, one behind the other; none when there is no figure.
    pub(in crate::report) parts: Vec<f64>,
    pub(in crate::report) spread: Option<[f64; 2]>,
    /// Single runs.
    pub(in crate::report) dots: Vec<f64>,
    /// Drawn hollow: what it shows is not the limit of what was measured.
    pub(in crate::report) hollow: bool,
    /// What stands behind the bar.
    pub(in crate::report) words: String,
    /// The value with all that belongs to it.
    pub(in crate::report) long: String,
}

const TOP: f64 = 20.0;
const ROW: f64 = 22.0;
const HEAD: f64 = 26.0;
const FOOT: f64 = 34.0;
const GAP: f64 = 28.0;
const BAR: f64 = 10.0;
const DOTS_APART: f64 = 12.0;
/// A panel is about so wide.
const PANEL: f64 = 480.0;

/// Where things stand in each panel.
struct Frame {
    across: usize,
    panel: f64,
    label: f64,
    bar: f64,
}

pub(super) fn draw(bars: &Bars, width: f64, target: Target) -> Drawn {
    let frame = frame(bars, width);
    let mut svg = Svg::default();
    svg.text("lab", Anchor::Start, [2.0, 12.0], &bars.label);
    let mut y = TOP;
    for row in bars.panels.chunks(frame.across) {
        for (i, panel) in row.iter().enumerate() {
            let x = i as f64 * (frame.panel + GAP);
            draw_panel(&mut svg, &frame, bars, panel, target, [x, y]);
        }
        let most = row.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
        y += HEAD + most as f64 * ROW + FOOT;
    }
    Drawn { height: y - 8.0, svg }
}

fn frame(bars: &Bars, width: f64) -> Frame {
    let across = super::across(bars.panels.len(), ((width / PANEL).round() as usize).clamp(1, 3));
    let panel = (width - GAP * (across - 1) as f64) / across as f64;
    let all = || bars.panels.iter().flat_map(|panel| &panel.bars);
    let widest = |words: fn(&Bar) -> &str| all().map(|bar| width_of(words(bar), 12.0)).fold(0.0, f64::max);
    let label = (widest(|bar| &bar.name) + 26.0).min(panel * 0.32);
    // Why there is no bar has the room of the bar.
    let value = widest(|bar| if bar.parts.is_empty() { "" } else { &bar.words }) + 12.0;
    let value = value.min(panel * 0.3);
    Frame { across, panel, label, bar: panel - label - value }
}

fn draw_panel(svg: &mut Svg, frame: &Frame, bars: &Bars, panel: &Panel, target: Target, [x, y]: [f64; 2]) {
    let left = x + frame.label;
    let bottom = y + HEAD + panel.bars.len() as f64 * ROW;
    let title = fitted(&panel.title, 13.0, frame.panel);
    svg.text("sub", Anchor::Start, [x + 2.0, y + 15.0], &title);
    for tick in bars.x.ticks((frame.bar / 55.0).clamp(2.0, 5.0)) {
        let at = left + bars.x.at(tick, frame.bar);
        svg.line(if tick == 0.0 { "base" } else { "grid" }, [at, y + HEAD], [at, bottom]);
        svg.text("tick", Anchor::Middle, [at, bottom + 14.0], &bars.x.label(tick));
    }
    if let Some(limit) = panel.limit {
        let at = left + bars.x.at(limit, frame.bar);
        svg.line("limit", [at, y + HEAD - 4.0], [at, bottom]);
    }
    for (i, bar) in panel.bars.iter().enumerate() {
        let top = y + HEAD + i as f64 * ROW;
        draw_bar(svg, frame, bars, target, &panel.title, bar, [x, top]);
    }
}

fn draw_bar(svg: &mut Svg, frame: &Frame, bars: &Bars, target: Target, title: &str, bar: &Bar, at: [f64; 2]) {
    let [x, top] = at;
    let (left, middle) = (x + frame.label, top + ROW / 2.0);
    open_column(svg, target, [Some(left + frame.bar / 2.0), Some(middle)], title);
    open_mark(svg, target, &class(bar.style), [title, &bar.name, &bar.long]);
    if target == Target::Page {
        svg.rect("ring", [x, top + 1.0], [frame.panel, ROW - 2.0]);
    }
    if bar.style != SOURCE {
        svg.path("m", &sign(bar.style, [x + 7.0, middle], 3.6));
    }
    let name = fitted(&bar.name, 12.0, frame.label - 22.0);
    svg.text("name", Anchor::Start, [x + 17.0, middle + 4.0], &name);
    let mut from = 0.0;
    for (i, part) in bar.parts.iter().enumerate() {
        let [start, end] = [from, from + part].map(|value| bars.x.at(value, frame.bar));
        let class = match (bar.hollow, i) {
            (true, _) => "bar hollow",
            (false, 0) => "bar",
            (false, _) => "bar more",
        };
        svg.rect(class, [left + start, middle - BAR / 2.0], [end - start, BAR]);
        from += part;
    }
    let reach = spread(svg, frame, bars, bar, [left, middle]).max(bars.x.at(from, frame.bar));
    let room = frame.panel - frame.label - reach - 8.0;
    let (class, px) = if bar.parts.is_empty() { ("tick", 11.0) } else { ("val", 12.0) };
    svg.text(class, Anchor::Start, [left + reach + 7.0, middle + 4.0], &fitted(&bar.words, px, room));
    svg.close();
    svg.close();
}

/// The spread and the runs; gives how far they reach, px.
fn spread(svg: &mut Svg, frame: &Frame, bars: &Bars, bar: &Bar, [left, middle]: [f64; 2]) -> f64 {
    let at = |value: f64| left + bars.x.at(value, frame.bar);
    let mut reach: f64 = 0.0;
    if let Some([low, high]) = bar.spread.filter(|[low, high]| high > low) {
        let (from, to) = (n(at(low)), n(at(high)));
        let (y, up, down) = (n(middle), n(middle - 4.0), n(middle + 4.0));
        let path = format!("M{from} {y}H{to}M{from} {up}V{down}M{to} {up}V{down}");
        svg.path("whisker", &path);
        reach = at(high) - left;
        // Runs that lie within a few pixels would be a blot.
        let apart = at(high) - at(low) >= DOTS_APART;
        for dot in bar.dots.iter().filter(|_| apart) {
            svg.path("dot", &sign(0, [at(*dot), middle], 1.9));
            reach = reach.max(at(*dot) - left + 2.0);
        }
    }
    reach
}
