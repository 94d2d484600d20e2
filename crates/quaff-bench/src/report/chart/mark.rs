//! The colour and the sign of each subject of a chart, distinct without colour too.

use super::svg::n;
use std::f64::consts::TAU;

/// The number of colours; the style after the last is for a source's own numbers.
pub(crate) const STYLES: usize = 9;

/// The style of a number that a source printed.
pub(crate) const SOURCE: usize = STYLES;

/// The class of a style's colour.
pub(crate) fn class(style: usize) -> String {
    if style == SOURCE { "src".into() } else { format!("s{}", style % STYLES) }
}

/// The path of a style's sign around a point: circle, square, triangle, diamond, …
pub(crate) fn sign(style: usize, [x, y]: [f64; 2], r: f64) -> String {
    match style % STYLES {
        0 => circle([x, y], r),
        1 => polygon([x, y], r * 1.25, 4, 0.125),
        2 => polygon([x, y], r * 1.4, 3, 0.0),
        3 => polygon([x, y], r * 1.4, 4, 0.0),
        4 => polygon([x, y], r * 1.4, 3, 0.5),
        5 => star([x, y], r * 1.5, 4, 0.42),
        6 => polygon([x, y], r * 1.2, 6, 0.0),
        7 => star([x, y], r * 1.6, 5, 0.45),
        _ => star([x, y], r * 1.5, 3, 0.35),
    }
}

/// The sign of a style in its colour, for a row of a table.
pub(crate) fn chip(style: usize) -> String {
    let (class, sign) = (class(style), sign(style, [6.0, 6.0], 4.0));
    format!(
        "<svg class=\"chip {class}\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">\
         <path class=\"m\" d=\"{sign}\"/></svg>"
    )
}

fn circle([x, y]: [f64; 2], r: f64) -> String {
    let (left, r2, r) = (n(x - r), n(r * 2.0), n(r));
    format!("M{left} {}a{r} {r} 0 1 0 {r2} 0a{r} {r} 0 1 0 -{r2} 0z", n(y))
}

fn polygon(centre: [f64; 2], r: f64, corners: usize, turn: f64) -> String {
    let corner = |i: usize| (r, i as f64 / corners as f64 + turn);
    outline(centre, (0..corners).map(corner))
}

fn star(centre: [f64; 2], r: f64, points: usize, waist: f64) -> String {
    let corner = |i: usize| (if i.is_multiple_of(2) { r } else { r * waist }, i as f64 / (points * 2) as f64);
    outline(centre, (0..points * 2).map(corner))
}

/// Corners by their distance and their turn, in turns clockwise from the top.
fn outline([x, y]: [f64; 2], corners: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (r, turn) in corners {
        let angle = (turn - 0.25) * TAU;
        path.push(if path.is_empty() { 'M' } else { 'L' });
        path += &format!("{} {}", n(x + r * angle.cos()), n(y + r * angle.sin()));
    }
    path + "z"
}
