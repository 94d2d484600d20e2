//! The drawing of a chart on its way, and the groups that its marks are in.

use super::svg::{Svg, n};

/// The place of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Target {
    /// A file, with its colours, its heading, and a title on each mark.
    File,
    /// The page, whose script shows the values.
    Page,
}

/// The drawing of a chart.
pub(super) struct Drawn {
    pub(super) height: f64,
    pub(super) svg: Svg,
}

/// The number of `n` things in a row, at most `most`, so that the rows are as even as possible.
pub(super) fn across(n: usize, most: usize) -> usize {
    let rows = n.max(1).div_ceil(most.max(1));
    n.max(1).div_ceil(rows)
}

/// Opens the group of one value or one column; a pointer near to `x` and `y` shows it.
pub(super) fn open_column(svg: &mut Svg, target: Target, [x, y]: [Option<f64>; 2], heading: &str) {
    let (x, y) = (x.map(n), y.map(n));
    let mut attributes = vec![("data-h", heading)];
    attributes.extend(x.as_deref().map(|x| ("data-x", x)));
    attributes.extend(y.as_deref().map(|y| ("data-y", y)));
    match target {
        Target::Page => svg.open("col", &attributes),
        Target::File => svg.open("col", &[]),
    }
}

/// Opens the group of a mark that shows `value` of `name`.
pub(super) fn open_mark(svg: &mut Svg, target: Target, class: &str, [heading, name, value]: [&str; 3]) {
    match target {
        Target::Page => svg.open(class, &[("data-n", name), ("data-v", value)]),
        Target::File => {
            svg.open(class, &[]);
            svg.title(&format!("{heading} · {name}: {value}"));
        }
    }
}
