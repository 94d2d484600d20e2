//! Pictures as plain data, and their drawing as SVG at any width. They know nothing of a bench or of a service.

pub(super) mod bars;
pub(super) mod curves;
pub(super) mod heat;
pub(super) mod mark;
pub(super) mod ranges;
pub(super) mod scale;
pub(super) mod svg;

use bars::Bars;
use curves::Curves;
use heat::Heat;
use ranges::Ranges;
use svg::{Svg, escape, n};

/// A picture with its words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    /// The stem of its file's name.
    pub(super) name: String,
    /// Its heading.
    pub(super) title: String,
    /// How to read it, as sentences.
    pub(super) caption: String,
    pub(super) shape: Shape,
}

/// What kind of picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Curves(Curves),
    Heat(Heat),
    Bars(Bars),
    Ranges(Ranges),
}

/// Who a picture is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A file of its own: with its colours, its heading, and a title on each mark.
    File,
    /// The page, whose script shows the values.
    Page,
}

/// What is drawn of a picture: its height, and its shapes.
pub(super) struct Drawn {
    pub(super) height: f64,
    pub(super) svg: Svg,
}

/// The white edge of a file, px.
const FILE_EDGE: f64 = 10.0;

impl Chart {
    /// Whether it is worth the whole width of a wide screen.
    pub(super) fn is_broad(&self) -> bool {
        match &self.shape {
            Shape::Curves(_) => false,
            Shape::Heat(heat) => heat.maps.len() > 2,
            Shape::Bars(bars) => bars.panels.len() > 2,
            Shape::Ranges(ranges) => ranges.panels.len() > 2,
        }
    }

    /// The whole `<svg>` at `width` px.
    pub(super) fn draw(&self, width: f64, target: Target) -> String {
        let room = if target == Target::File { width - 2.0 * FILE_EDGE } else { width };
        let drawn = match &self.shape {
            Shape::Curves(curves) => curves::draw(curves, room, target),
            Shape::Heat(heat) => heat::draw(heat, room, target),
            Shape::Bars(bars) => bars::draw(bars, room, target),
            Shape::Ranges(ranges) => ranges::draw(ranges, room, target),
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

/// How many of `n` stand beside each other so that the rows are as even as they can be.
fn across(n: usize, most: usize) -> usize {
    let rows = n.max(1).div_ceil(most.max(1));
    n.max(1).div_ceil(rows)
}

/// Begins the group of what is one value or one column: `at` is where a pointer is near to it.
fn open_column(svg: &mut Svg, target: Target, [x, y]: [Option<f64>; 2], heading: &str) {
    let (x, y) = (x.map(n), y.map(n));
    let mut attributes = vec![("data-h", heading)];
    attributes.extend(x.as_deref().map(|x| ("data-x", x)));
    attributes.extend(y.as_deref().map(|y| ("data-y", y)));
    match target {
        Target::Page => svg.open("col", &attributes),
        Target::File => svg.open("col", &[]),
    }
}

/// Begins the group of a mark that stands for `value` of `name`.
fn open_mark(svg: &mut Svg, target: Target, class: &str, [heading, name, value]: [&str; 3]) {
    match target {
        Target::Page => svg.open(class, &[("data-n", name), ("data-v", value)]),
        Target::File => {
            svg.open(class, &[]);
            svg.title(&format!("{heading} · {name}: {value}"));
        }
    }
}
