//! Charts as plain data, and their drawing as SVG at any width. They know nothing of a bench or of a service.

pub(super) mod curves;
mod drawing;
pub(super) mod heat;
pub(super) mod mark;
pub(super) mod scale;
pub(super) mod strips;
pub(super) mod svg;

use crate::report::escape::slug;
use curves::Curves;
use drawing::Drawn;
pub(super) use drawing::Target;
use heat::Heat;
use scale::{Scale, Unit};
use strips::{Panel, Row, Strips};
use svg::{escape, n};

/// A chart with its texts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    /// The file name without extension.
    pub(super) name: String,
    pub(super) title: String,
    /// Explains how to read the chart.
    pub(super) caption: String,
    pub(super) shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Curves(Curves),
    Heat(Heat),
    Strips(Strips),
}

/// Charts under one heading.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) charts: Vec<Chart>,
}

/// Margin of a file, px.
const FILE_EDGE: f64 = 10.0;

/// Sections with their charts, without the empty ones; numbers the charts in the order of the page.
pub(super) fn sections(all: impl IntoIterator<Item = (&'static str, Vec<Chart>)>) -> Vec<Section> {
    let mut sections: Vec<Section> =
        all.into_iter().map(|(title, charts)| Section { title, charts }).collect();
    sections.retain(|section| !section.charts.is_empty());
    for (i, chart) in sections.iter_mut().flat_map(|section| &mut section.charts).enumerate() {
        chart.name = format!("figure-{:02}-{}", i + 1, slug(&chart.title));
    }
    sections
}

impl Chart {
    /// A chart without a name, which [`sections`] gives it.
    pub(super) fn new(title: impl Into<String>, caption: impl Into<String>, shape: Shape) -> Self {
        Self { name: String::new(), title: title.into(), caption: caption.into(), shape }
    }

    /// Returns whether it takes the whole width of a wide screen.
    pub(super) fn is_broad(&self) -> bool {
        match &self.shape {
            Shape::Curves(_) => false,
            Shape::Heat(heat) => heat.maps.len() > 2,
            Shape::Strips(strips) => strips.panels.len() > 2,
        }
    }

    /// The whole `<svg>` at `width` px.
    pub(super) fn draw(&self, width: f64, target: Target) -> String {
        let room = if target == Target::File { width - 2.0 * FILE_EDGE } else { width };
        let drawn = match &self.shape {
            Shape::Curves(curves) => curves::draw(curves, room, target),
            Shape::Heat(heat) => heat::draw(heat, room, target),
            Shape::Strips(strips) => strips::draw(strips, room, target),
        };
        match target {
            Target::Page => self.for_page(width, drawn),
            Target::File => self.for_file(width, drawn),
        }
    }

    fn for_page(&self, width: f64, drawn: Drawn) -> String {
        let class = match width {
            w if w < 500.0 => "pic small",
            w if w < 1000.0 => "pic wide",
            _ => "pic broad",
        };
        let (w, h, label) = (n(width), n(drawn.height), escape(&self.title));
        let help = "arrow keys walk through its values";
        format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {w} {h}\" tabindex=\"0\" role=\"img\" \
             aria-label=\"{label}; {help}\">\n{}</svg>\n",
            drawn.svg.into_body()
        )
    }

    fn for_file(&self, width: f64, drawn: Drawn) -> String {
        const HEAD: f64 = 34.0;
        let height = drawn.height + HEAD + FILE_EDGE;
        let (w, h, title) = (n(width), n(height), escape(&self.title));
        let style = super::palette::file_style();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
             role=\"img\">\n<title>{title}</title>\n<desc>{}</desc>\n<style>{style}</style>\n\
             <rect class=\"paper\" width=\"{w}\" height=\"{h}\"/>\n<text class=\"head\" x=\"{FILE_EDGE}\" y=\"22\">{}</text>\n\
             <g transform=\"translate({FILE_EDGE} {HEAD})\">\n{}</g>\n</svg>\n",
            escape(&self.caption),
            escape(&svg::fitted(&self.title, 15.0, width - 16.0)),
            drawn.svg.into_body()
        )
    }
}

/// Panels of bars in one chart.
const PANELS_MAX: usize = 9;

/// Charts of bars on one scale, as many as keep the panels readable. Panels without rows are omitted.
pub(super) fn bars(
    title: &str,
    label: &str,
    caption: &str,
    unit: Unit,
    mut panels: Vec<Panel>,
) -> Vec<Chart> {
    panels.retain(|panel| !panel.rows.is_empty());
    let tops = panels.iter().flat_map(|panel| panel.rows.iter().map(Row::top));
    let limits = panels.iter().flat_map(|panel| panel.limits.iter().map(|limit| limit.0));
    let x = Scale::over(tops.chain(limits).fold(0.0, f64::max), unit);
    let count = panels.len().div_ceil(PANELS_MAX);
    let each = panels.len().div_ceil(count.max(1)).max(1);
    let sheet = |(i, panels): (usize, &[Panel])| {
        let part = if count > 1 { format!(" · {} of {count}", i + 1) } else { String::new() };
        let strips = Strips { label: label.into(), x, panels: panels.into() };
        Chart::new(format!("{title}{part}"), caption, Shape::Strips(strips))
    };
    panels.chunks(each).enumerate().map(sheet).collect()
}

/// The chart of ranges of a delay; none without rows.
pub(super) fn ranges(title: &str, caption: &str, x: Scale, mut panels: Vec<Panel>) -> Option<Chart> {
    panels.retain(|panel| !panel.rows.is_empty());
    let strips = Strips { label: "one-way delay".into(), x, panels };
    (!strips.panels.is_empty()).then(|| Chart::new(title, caption, Shape::Strips(strips)))
}
