//! Panels of rows that share one axis. A row is a bar from zero with its spread and its runs, or a range from the
//! smallest value to the largest, lighter from quantile to quantile.

use super::drawing::{Drawn, Target, across, open_column, open_mark};
use super::mark::{SOURCE, class, sign};
use super::scale::Scale;
use super::svg::{Anchor, BOLD, Svg, fitted, n, width_of};

/// Panels on one scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Strips {
    /// Quantity and unit of the axis.
    pub(crate) label: String,
    pub(crate) x: Scale,
    pub(crate) panels: Vec<Panel>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
    /// Values to compare with, dashed, and their names.
    pub(crate) limits: Vec<(f64, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) style: usize,
    pub(crate) name: String,
    pub(crate) mark: Mark,
    /// Text after the mark.
    pub(crate) words: String,
    /// The value in full, for the pointer.
    pub(crate) long: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mark {
    Bar(Bar),
    Range {
        /// Smallest, median, and two or three more quantiles.
        edges: Vec<f64>,
        largest: f64,
    },
}

/// A bar from zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bar {
    /// Parts, one after the other; empty without a value.
    pub(crate) parts: Vec<f64>,
    /// Smallest and largest of all runs.
    pub(crate) spread: Option<[f64; 2]>,
    /// Smallest and largest of the runs in the mean, where it leaves out others.
    pub(crate) kept: Option<[f64; 2]>,
    /// Single runs.
    pub(crate) dots: Vec<f64>,
    /// Drawn hollow: a limit of the measurement, not of what was measured. A hollow bar of zero is a stub.
    pub(crate) hollow: bool,
}

const TOP: f64 = 20.0;
/// Font size of the names of rows, which are bold, px.
const NAME_PX: f64 = 12.0 * BOLD;
/// Length of a hollow bar of zero, px.
const STUB: f64 = 7.0;
const HEAD: f64 = 26.0;
/// Height of the head with the names of limits between the title and the rows.
const HEAD_OF_LIMITS: f64 = 40.0;
const FOOT: f64 = 34.0;
const GAP: f64 = 28.0;
/// Runs closer than this, px, are not drawn: they would be a blot.
const DOTS_APART: f64 = 40.0;
const SHADES: [&str; 4] = ["q0", "q1", "q2", "q3"];
/// Sizes of one kind of row, px; the shares are of the panel.
struct Layout {
    row: f64,
    mark: f64,
    across: fn(f64) -> f64,
    share_max: [f64; 2],
    value_gap: f64,
    tick_gap: f64,
    ticks_max: f64,
}

const BARS: Layout = Layout {
    row: 22.0,
    mark: 10.0,
    across: |width| (width / 480.0).round(),
    share_max: [0.36, 0.3],
    value_gap: 12.0,
    tick_gap: 55.0,
    ticks_max: 5.0,
};
const RANGES: Layout = Layout {
    row: 24.0,
    mark: 11.0,
    across: |width| (width / 400.0).floor(),
    share_max: [0.34, 0.34],
    value_gap: 14.0,
    tick_gap: 58.0,
    ticks_max: 9.0,
};

impl Row {
    /// The width of the text after the mark beyond an axis of at least `axis` px: what a short mark leaves of the axis
    /// is room for its text.
    fn value_width(&self, x: Scale, axis: f64) -> f64 {
        // The text of a bar without a value has the room of the bar.
        if matches!(&self.mark, Mark::Bar(bar) if bar.parts.is_empty()) {
            return 0.0;
        }
        let free = axis - x.at(self.top(), axis);
        (width_of(&self.words, 12.0) - free).max(0.0)
    }

    /// The largest value that is drawn.
    pub(super) fn top(&self) -> f64 {
        match &self.mark {
            Mark::Bar(bar) => bar.spread.map_or(0.0, |[_, high]| high).max(bar.parts.iter().sum()),
            Mark::Range { largest, .. } => *largest,
        }
    }
}

pub(super) fn draw(strips: &Strips, width: f64, target: Target) -> Drawn {
    let mut plot = Plot::new(strips, width, target);
    plot.svg.text("lab", Anchor::Start, [2.0, 12.0], &strips.label);
    let mut y = TOP;
    for row in strips.panels.chunks(plot.across) {
        for (i, panel) in row.iter().enumerate() {
            plot.panel(panel, [i as f64 * (plot.width + GAP), y]);
        }
        let most = row.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
        y += plot.head + most as f64 * plot.layout.row + FOOT;
    }
    Drawn { height: y - 8.0, svg: plot.svg }
}

/// A chart while it is drawn, and the geometry of its panels.
struct Plot {
    svg: Svg,
    target: Target,
    x: Scale,
    layout: &'static Layout,
    across: usize,
    /// Width of a panel, of the names in it and of its axis.
    width: f64,
    label: f64,
    axis: f64,
    head: f64,
}

impl Plot {
    fn new(strips: &Strips, width: f64, target: Target) -> Self {
        let rows = || strips.panels.iter().flat_map(|panel| &panel.rows);
        let is_range = rows().any(|row| matches!(row.mark, Mark::Range { .. }));
        let layout = if is_range { &RANGES } else { &BARS };
        let across = across(strips.panels.len(), (layout.across)(width).clamp(1.0, 3.0) as usize);
        let width = (width - GAP * (across - 1) as f64) / across as f64;
        let names = rows().map(|row| width_of(&row.name, NAME_PX)).fold(0.0, f64::max);
        let [label_max, value_max] = layout.share_max;
        let label = (names + 26.0).min(width * label_max);
        let axis_min = width * (1.0 - value_max) - label;
        let values = rows().map(|row| row.value_width(strips.x, axis_min)).fold(0.0, f64::max);
        let value = (values + layout.value_gap).min(width * value_max);
        let has_names = strips.panels.iter().flat_map(|panel| &panel.limits).any(|limit| !limit.1.is_empty());
        let head = if has_names { HEAD_OF_LIMITS } else { HEAD };
        let axis = width - label - value;
        Self { svg: Svg::default(), target, x: strips.x, layout, across, width, label, axis, head }
    }

    fn panel(&mut self, panel: &Panel, [x, y]: [f64; 2]) {
        let (left, top) = (x + self.label, y + self.head);
        let bottom = top + panel.rows.len() as f64 * self.layout.row;
        let title = fitted(&panel.title, 13.0 * BOLD, self.width - 2.0);
        self.svg.text("sub", Anchor::Start, [x + 2.0, y + 15.0], &title);
        for tick in self.x.ticks((self.axis / self.layout.tick_gap).clamp(2.0, self.layout.ticks_max)) {
            let at = left + self.x.at(tick, self.axis);
            self.svg.line(if tick == 0.0 { "base" } else { "grid" }, [at, top], [at, bottom]);
            self.svg.text("tick", Anchor::Middle, [at, bottom + 14.0], &self.x.label(tick));
        }
        let (named, plain): (Vec<_>, Vec<_>) = panel.limits.iter().partition(|limit| !limit.1.is_empty());
        for (limit, _) in plain {
            let at = left + self.x.at(*limit, self.axis);
            self.svg.line("limit", [at, top - 4.0], [at, bottom]);
        }
        for (i, row) in panel.rows.iter().enumerate() {
            self.row(&panel.title, row, [x, top + i as f64 * self.layout.row]);
        }
        for (limit, words) in named {
            let at = left + self.x.at(*limit, self.axis);
            self.svg.line("limit", [at, top - 3.0], [at, bottom]);
            let half = width_of(words, 11.0) / 2.0;
            let middle = at.clamp(left, (x + self.width - half).max(left));
            self.svg.text("tick", Anchor::Middle, [middle, top - 6.0], words);
        }
    }

    fn row(&mut self, title: &str, row: &Row, [x, top]: [f64; 2]) {
        let (left, middle) = (x + self.label, top + self.layout.row / 2.0);
        open_column(&mut self.svg, self.target, [Some(left + self.axis / 2.0), Some(middle)], title);
        open_mark(&mut self.svg, self.target, &class(row.style), [title, &row.name, &row.long]);
        if self.target == Target::Page {
            self.svg.rect("ring", [x, top + 1.0], [self.width, self.layout.row - 2.0]);
        }
        if row.style != SOURCE {
            self.svg.path("m", &sign(row.style, [x + 7.0, middle], 3.6));
        }
        let name = fitted(&row.name, NAME_PX, self.label - 22.0);
        self.svg.text("name", Anchor::Start, [x + 17.0, middle + 4.0], &name);
        let (end, room, class, px) = match &row.mark {
            Mark::Bar(bar) => {
                let reach = self.bar(bar, [left, middle]);
                let reach = self.spread(bar, [left, middle]).max(reach);
                let (class, px) = if bar.parts.is_empty() { ("tick", 11.0) } else { ("val", 12.0) };
                (left + reach + 7.0, self.width - self.label - reach - 8.0, class, px)
            }
            Mark::Range { edges, largest } => {
                let end = self.range(edges, *largest, [left, middle]) + 7.0;
                (end, x + self.width - end, "val", 12.0)
            }
        };
        self.svg.text(class, Anchor::Start, [end, middle + 4.0], &fitted(&row.words, px, room));
        self.svg.close();
        self.svg.close();
    }

    /// Draws the parts and returns their length, px.
    fn bar(&mut self, bar: &Bar, [left, middle]: [f64; 2]) -> f64 {
        let top = middle - self.layout.mark / 2.0;
        let mut from = 0.0;
        for (i, part) in bar.parts.iter().enumerate() {
            let [start, end] = [from, from + part].map(|value| self.x.at(value, self.axis));
            let class = match (bar.hollow, i) {
                (true, _) => "bar hollow",
                (false, 0) => "bar",
                (false, _) => "bar more",
            };
            let least = if bar.hollow && bar.parts.len() == 1 { STUB } else { 0.0 };
            let size = [(end - start).max(least), self.layout.mark];
            self.svg.rect(class, [left + start, top], size);
            from += part;
        }
        let stub = if bar.hollow && !bar.parts.is_empty() { STUB } else { 0.0 };
        self.x.at(from, self.axis).max(stub)
    }

    /// Draws the spread and the runs and returns their reach, px.
    fn spread(&mut self, bar: &Bar, [left, middle]: [f64; 2]) -> f64 {
        let Some([low, high]) = bar.spread.filter(|[low, high]| high > low) else { return 0.0 };
        let at = |value: f64| left + self.x.at(value, self.axis);
        let (from, to) = (n(at(low)), n(at(high)));
        let (y, up, down) = (n(middle), n(middle - 4.0), n(middle + 4.0));
        self.svg.path("whisker", &format!("M{from} {y}H{to}M{from} {up}V{down}M{to} {up}V{down}"));
        if let Some(kept) = bar.kept {
            let [from, to] = kept.map(at);
            self.svg.line("kept", [from, middle], [to.max(from + 1.0), middle]);
        }
        let is_kept = |value: f64| bar.kept.is_none_or(|[low, high]| (low..=high).contains(&value));
        let mut reach = at(high) - left;
        let apart = at(high) - at(low) >= DOTS_APART;
        for dot in bar.dots.iter().filter(|_| apart) {
            let x = at(*dot);
            match is_kept(*dot) {
                true => self.svg.path("dot", &sign(0, [x, middle], 1.9)),
                false => self.svg.path("out", &cross([x, middle], 3.0)),
            }
            reach = reach.max(x - left + 3.0);
        }
        reach
    }

    /// Draws the range and returns its right end.
    fn range(&mut self, edges: &[f64], largest: f64, [left, middle]: [f64; 2]) -> f64 {
        let at = |value: f64| left + self.x.at(value, self.axis);
        let (end, top) = (at(largest), middle - self.layout.mark / 2.0);
        if let Some(low) = edges.first() {
            self.svg.line("reach", [at(*low), middle], [end, middle]);
            self.svg.line("reach", [end, middle - 4.0], [end, middle + 4.0]);
        }
        for (two, shade) in edges.windows(2).zip(SHADES) {
            let width = (at(two[1]) - at(two[0])).max(1.0);
            self.svg.rect(shade, [at(two[0]), top], [width, self.layout.mark]);
        }
        if let Some(median) = edges.get(1) {
            let at = at(*median);
            self.svg.line("cut", [at, top - 1.0], [at, top + self.layout.mark + 1.0]);
        }
        end
    }
}

/// A run that is not in the mean.
fn cross([x, y]: [f64; 2], r: f64) -> String {
    let (left, top, d) = (n(x - r), n(y - r), n(2.0 * r));
    format!("M{left} {top}l{d} {d}m0 -{d}l-{d} {d}")
}

#[cfg(test)]
mod tests {
    use super::super::scale::Unit;
    use super::super::{Shape, bars};
    use super::*;

    fn drawn(bar: Bar, words: &str) -> String {
        let row = Row {
            style: 0,
            name: "stenographer".into(),
            mark: Mark::Bar(bar),
            words: words.into(),
            long: String::new(),
        };
        let panel = Panel { title: "64 B".into(), rows: vec![row], limits: Vec::new() };
        let [chart] = &bars("Loss", "lost, %", "", Unit::Loss, vec![panel])[..] else { panic!("one chart") };
        let Shape::Strips(strips) = &chart.shape else { panic!("no bars") };
        draw(strips, 356.0, Target::Page).svg.into_body()
    }

    #[test]
    fn a_hollow_bar_of_zero_is_a_stub() {
        let zero = |hollow| Bar { parts: vec![0.0], hollow, ..Bar::default() };
        assert!(drawn(zero(true), "0 %").contains("class=\"bar hollow\" x=\"121.2\" y=\"52\" width=\"7\""));
        assert!(drawn(zero(false), "0 %").contains("width=\"0\""));
    }

    #[test]
    fn runs_that_the_mean_leaves_out_are_crosses_beside_the_thick_line() {
        let bar = Bar {
            parts: vec![0.2],
            spread: Some([0.0, 0.5]),
            kept: Some([0.1, 0.3]),
            dots: vec![0.0, 0.1, 0.2, 0.3, 0.5],
            hollow: false,
        };
        let svg = drawn(bar, "20 %");
        let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
        assert_eq!(["whisker", "kept", "dot", "out"].map(count), [1, 1, 3, 2], "{svg}");
    }

    #[test]
    fn a_name_ends_before_the_axis_and_a_short_bar_leaves_room_for_its_text() {
        let words = "0 %, all of 1.64 Mpps";
        let svg = drawn(Bar { parts: vec![0.0], hollow: true, ..Bar::default() }, words);
        assert!(svg.contains(">stenographer</text>") && svg.contains(&format!(">{words}</text>")), "{svg}");
        // The name begins at 17 px.
        assert!(17.0 + width_of("stenographer", NAME_PX) <= 121.2 - 4.0);
    }
}
