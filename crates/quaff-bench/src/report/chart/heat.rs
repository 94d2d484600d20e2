//! Heat maps, one for each capturer: a shade and a number in every cell. Zero loss has a colour of its own.

use super::drawing::{Drawn, Target, across, open_column, open_mark};
use super::svg::{Anchor, Svg, fitted, width_of};

/// Maps over the same rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heat {
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<String>,
    pub(crate) maps: Vec<Map>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Map {
    pub(crate) style: usize,
    pub(crate) name: String,
    /// Row by row; `None` where nothing was measured.
    pub(crate) cells: Vec<Vec<Option<Cell>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// 0 to 1; `None` when it failed.
    pub(crate) value: Option<f64>,
    /// The generator was the limit.
    pub(crate) doubt: bool,
    /// The value as text.
    pub(crate) words: String,
}

/// The upper bounds of the shades after "none lost".
pub(crate) const SHADES: [f64; 8] = [0.001, 0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 1.0];

const ROW: f64 = 24.0;
const HEAD: f64 = 24.0;
const FOOT: f64 = 30.0;
const GAP: f64 = 24.0;

/// The geometry of the maps, px.
struct Grid {
    label: f64,
    cell: f64,
    /// Maps in a row.
    across: usize,
    map_width: f64,
    map_height: f64,
}

pub(super) fn draw(heat: &Heat, width: f64, target: Target) -> Drawn {
    let grid = grid(heat, width);
    let mut svg = Svg::default();
    svg.text("lab", Anchor::Start, [2.0, 13.0], &format!("{} ↓   {} →", heat.y_label, heat.x_label));
    for (i, map) in heat.maps.iter().enumerate() {
        let x = (i % grid.across) as f64 * (grid.map_width + GAP);
        let y = 22.0 + (i / grid.across) as f64 * grid.map_height;
        draw_map(&mut svg, &grid, heat, map, target, [x, y]);
    }
    let y = 22.0 + heat.maps.len().div_ceil(grid.across) as f64 * grid.map_height;
    let height = legend(&mut svg, width, y + 4.0);
    Drawn { height, svg }
}

fn grid(heat: &Heat, width: f64) -> Grid {
    let widest = heat.rows.iter().map(|row| width_of(row, 11.0)).fold(0.0, f64::max);
    let label = (widest + 8.0).min(width * 0.28);
    let columns = heat.columns.len().max(1) as f64;
    let map_height = HEAD + heat.rows.len() as f64 * ROW + FOOT;
    let fit = |across: usize| {
        let map_width = (width - GAP * (across - 1) as f64) / across as f64;
        let cell = ((map_width - label) / columns).min(56.0);
        Grid { label, cell, across, map_width, map_height }
    };
    let most = heat.maps.len().clamp(1, 6);
    (1..=most)
        .rev()
        .map(fit)
        .find(|grid| grid.cell >= 30.0)
        .map(|grid| fit(across(heat.maps.len(), grid.across)))
        .unwrap_or_else(|| fit(1))
}

fn draw_map(svg: &mut Svg, grid: &Grid, heat: &Heat, map: &Map, target: Target, [x, y]: [f64; 2]) {
    svg.open(&super::mark::class(map.style), &[]);
    let sign = super::mark::sign(map.style, [x + grid.label + 5.0, y + 12.0], 3.6);
    svg.path("m", &sign);
    svg.text("name", Anchor::Start, [x + grid.label + 14.0, y + 16.0], &map.name);
    svg.close();
    for (r, (row, cells)) in heat.rows.iter().zip(&map.cells).enumerate() {
        let top = y + HEAD + r as f64 * ROW;
        let row_words = fitted(row, 11.0, grid.label - 6.0);
        svg.text("tick", Anchor::End, [x + grid.label - 6.0, top + 16.0], &row_words);
        for (c, (column, cell)) in heat.columns.iter().zip(cells).enumerate() {
            let left = x + grid.label + c as f64 * grid.cell;
            let heading = format!("{column}, {row}");
            draw_cell(svg, grid, target, [left, top], [&heading, &map.name], cell.as_ref());
        }
    }
    let bottom = y + HEAD + heat.rows.len() as f64 * ROW;
    column_names(svg, grid, heat, [x, bottom + 14.0]);
}

fn draw_cell(svg: &mut Svg, grid: &Grid, target: Target, at: [f64; 2], who: [&str; 2], cell: Option<&Cell>) {
    let [x, y] = at;
    let size = [grid.cell - 1.0, ROW - 1.0];
    let Some(cell) = cell else {
        svg.rect("none", at, size);
        return;
    };
    let centre = [x + grid.cell / 2.0, y + ROW / 2.0];
    open_column(svg, target, centre.map(Some), who[0]);
    open_mark(svg, target, "cell", [who[0], who[1], &cell.words]);
    let shade = cell.value.map(shade);
    svg.rect(&shade.map_or("none".into(), |shade| format!("h{shade}")), at, size);
    if grid.cell >= 24.0 {
        let words = cell.value.map_or("×".into(), short);
        let class = shade.map_or("tick".into(), |shade| format!("cv i{shade}"));
        svg.text(&class, Anchor::Middle, [centre[0], centre[1] + 4.0], &words);
    }
    if cell.doubt {
        let [right, top] = [x + size[0], y];
        let fold = format!("M{} {}h-6l6 6z", super::svg::n(right), super::svg::n(top));
        svg.path("doubt", &fold);
    }
    if target == Target::Page {
        svg.rect("ring", at, size);
    }
    svg.close();
    svg.close();
}

fn column_names(svg: &mut Svg, grid: &Grid, heat: &Heat, [x, y]: [f64; 2]) {
    let widest = heat.columns.iter().map(|name| width_of(name, 11.0)).fold(1.0, f64::max);
    let every = ((widest + 6.0) / grid.cell).ceil().max(1.0) as usize;
    let last = heat.columns.len().saturating_sub(1);
    for (c, name) in heat.columns.iter().enumerate() {
        if c % every == 0 && (c + every <= last || every == 1) || c == last {
            let at = x + grid.label + (c as f64 + 0.5) * grid.cell;
            svg.text("tick", Anchor::Middle, [at, y], name);
        }
    }
}

/// Draws the legend of the shades and returns the height of the chart.
fn legend(svg: &mut Svg, width: f64, top: f64) -> f64 {
    let words = |i: usize| match i {
        0 => "none lost".into(),
        i => format!("≤ {}", quaff::format::percent(SHADES[i - 1])),
    };
    let (mut x, mut y) = (2.0, top);
    for i in 0..=SHADES.len() {
        let words = words(i);
        let wide = width_of(&words, 11.0) + 30.0;
        if x + wide > width {
            (x, y) = (2.0, y + 18.0);
        }
        svg.rect(&format!("h{i}"), [x, y], [14.0, 12.0]);
        svg.text("tick", Anchor::Start, [x + 19.0, y + 10.0], &words);
        x += wide;
    }
    y + 18.0
}

/// The number of the shade: 0 for nothing lost.
fn shade(value: f64) -> usize {
    if value <= 0.0 {
        return 0;
    }
    SHADES.iter().position(|edge| value <= *edge).unwrap_or(SHADES.len() - 1) + 1
}

/// Percent in three characters.
fn short(value: f64) -> String {
    match value * 100.0 {
        v if v <= 0.0 => "0".into(),
        v if v < 0.095 => "<.1".into(),
        v if v < 0.995 => format!("{v:.1}")[1..].into(),
        v if v < 9.95 => format!("{v:.1}"),
        v if v < 100.0 => format!("{:.0}", v.min(99.0)),
        _ => "100".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{shade, short};

    #[test]
    fn nothing_lost_has_a_shade_of_its_own() {
        assert_eq!(shade(0.0), 0);
        assert_eq!(shade(1e-9), 1);
        assert_eq!(shade(0.001), 1);
        assert_eq!(shade(0.66), 7);
        assert_eq!(shade(1.0), 8);
    }

    #[test]
    fn a_cell_has_room_for_three_characters() {
        let all = [0.0, 0.000_1, 0.002_4, 0.058, 0.663, 0.999, 1.0].map(short);
        assert_eq!(all, ["0", "<.1", ".2", "5.8", "66", "99", "100"]);
    }
}
