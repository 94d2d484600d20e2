//! The screen of `quaff flows top`: a status line, the views, a table, and a line for keys. The same data give the same
//! cells at each size.

use super::view::{HELP, View};
use crate::cmd::flows::sums::{BY, Column, Rates, columns_of_top};
use crate::show::{self, Part};
use quaff_flow::summary::{Order, Ranked, Row};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Lines that are not rows: status, views, headings, keys.
const FRAME_LINES: u16 = 4;
/// Columns of the name of a row at least, on a narrow screen and on others.
const NAME_MIN: [usize; 2] = [16, 40];
const NARROW: usize = 60;
/// Columns between two columns.
const GAP: usize = 2;

/// The data of a screen.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    pub(super) view: &'a View,
    pub(super) status: &'a [Part],
    pub(super) ranked: &'a Ranked,
    pub(super) rates: Rates,
}

/// Rows that have room on a screen of so many lines, beside the row of others.
pub(super) fn page(lines: u16, has_others: bool) -> usize {
    usize::from(lines.saturating_sub(FRAME_LINES + u16::from(has_others)))
}

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    let width = usize::from(area.width);
    line(buffer, area, 0, &show::fitted(picture.status, width), bold());
    views(buffer, area, picture.view);
    match picture.view.has_help {
        true => {
            let rows = (2..area.height.saturating_sub(1)).zip(HELP);
            rows.for_each(|(y, words)| line(buffer, area, y, words, Style::default()));
        }
        false => table(buffer, area, picture),
    }
    if area.height > FRAME_LINES {
        foot(buffer, area, picture);
    }
}

fn bold() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::default().add_modifier(Modifier::REVERSED)
}

/// Writes a line from the left edge; what has no room is cut.
fn line(buffer: &mut Buffer, area: Rect, y: u16, words: &str, style: Style) {
    put(buffer, area, [0, y], words, style);
}

/// Writes text at a place; returns the column after it.
fn put(buffer: &mut Buffer, area: Rect, [x, y]: [u16; 2], words: &str, style: Style) -> u16 {
    if y >= area.height || x >= area.width {
        return x;
    }
    let room = usize::from(area.width - x);
    buffer.set_stringn(area.x + x, area.y + y, words, room, style).0 - area.x
}

/// The names of the views, the chosen one reversed; on a narrow screen only that.
fn views(buffer: &mut Buffer, area: Rect, view: &View) {
    let whole: usize = BY.iter().map(|(name, ..)| name.len() + GAP).sum();
    let is_whole = whole <= usize::from(area.width) + GAP;
    let mut x = 0;
    for (number, (name, by, _)) in BY.iter().enumerate() {
        let is_chosen = *by == view.by;
        match (is_whole, is_chosen) {
            (true, _) => {
                let style = if is_chosen { reversed() } else { Style::default() };
                x = put(buffer, area, [x, 1], name, style) + GAP as u16;
            }
            (false, true) => {
                x = put(buffer, area, [0, 1], "‹ ", Style::default());
                x = put(buffer, area, [x, 1], name, reversed());
                let place = format!(" › {} of {}", number + 1, BY.len());
                x = put(buffer, area, [x, 1], &place, Style::default());
            }
            (false, false) => {}
        }
    }
}

/// A column with its place.
struct Placed {
    column: Column,
    x: usize,
    width: usize,
}

/// The columns that fit, with their cells. The name takes what the others leave.
fn placed(columns: Vec<Column>, cells: &[Vec<String>], room: usize) -> Vec<(usize, Placed)> {
    let width_of = |at: usize| {
        let cells = cells.iter().map(|row| row[at].chars().count());
        // The sign of the order has a column.
        cells.max().unwrap_or(0).max(columns[at].head.chars().count() + 1)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width_of).collect();
    let name_min = NAME_MIN[usize::from(room >= NARROW)].min(widths[0]);
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let need = |kept: &[usize]| {
        name_min + kept.iter().filter(|at| **at > 0).map(|at| widths[*at] + GAP).sum::<usize>()
    };
    while need(&kept) > room {
        let ranks = kept.iter().map(|at| columns[*at].rank);
        let Some(rank) = ranks.max().filter(|rank| *rank > 0) else { break };
        kept.retain(|at| columns[*at].rank != rank);
    }
    let others = need(&kept) - name_min;
    let name_width = room.saturating_sub(others).clamp(name_min, widths[0].max(name_min));
    let mut x = 0;
    let place = |at: usize| {
        let width = if at == 0 { name_width } else { widths[at] };
        let placed = Placed { column: columns[at], x, width };
        x += width + GAP;
        (at, placed)
    };
    kept.into_iter().map(place).collect()
}

fn table(buffer: &mut Buffer, area: Rect, picture: &Picture<'_>) {
    let Picture { view, ranked, rates, .. } = picture;
    let room = page(area.height, ranked.others.is_some());
    let rows: Vec<&Row> = ranked.rows.iter().take(room).chain(&ranked.others).collect();
    let columns = columns_of_top(view.by, view.order);
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| columns.iter().map(|column| (column.cell)(row, *rates)).collect()).collect();
    let placed = placed(columns, &cells, usize::from(area.width));
    let blank = " ".repeat(usize::from(area.width));
    line(buffer, area, 2, &blank, reversed());
    for (_, place) in &placed {
        let sign = match place.column.order {
            Some(order) if order == view.order => {
                if view.is_reversed != (order == Order::Name) {
                    "▲"
                } else {
                    "▼"
                }
            }
            _ => " ",
        };
        let head = match place.column.is_number() {
            true => format!("{:>1$}", format!("{}{sign}", place.column.head), place.width),
            false => format!("{}{sign}", place.column.head),
        };
        cell(buffer, area, 2, place, &head, reversed());
    }
    let last = area.height.saturating_sub(1);
    for (y, row) in (3..last).zip(&cells) {
        for (at, place) in &placed {
            let words = match place.column.is_number() {
                true => format!("{:>1$}", row[*at], place.width),
                false => row[*at].clone(),
            };
            cell(buffer, area, y, place, &words, Style::default());
        }
    }
    for (y, row) in (3..last).zip(ranked.rows.iter().take(room)) {
        bar(buffer, area, y, length(picture, row, area.width));
    }
}

/// The length of the bar of a row, by its mean of the last 10 s; of a file by its bytes.
fn length(picture: &Picture<'_>, row: &Row, width: u16) -> u16 {
    let Picture { view, ranked, rates, .. } = picture;
    let (value, largest) = match rates {
        Rates::Interval(_) => (row.means.map_or(0, |[_, mean, _]| mean), ranked.mean_10s_max),
        Rates::Mean(_) | Rates::MeanOfFlows(_) => (row.sum.bytes, ranked.bytes_max),
    };
    view.bars.length(value, largest, width)
}

/// Draws a bar over the cells of a line. It needs no colour; a terminal that cannot reverse shows the text alone.
fn bar(buffer: &mut Buffer, area: Rect, y: u16, length: u16) {
    let bar = Rect { x: area.x, y: area.y + y, width: length.min(area.width), height: 1 };
    buffer.set_style(bar, reversed());
}

/// Writes a cell; a name that is too long ends with an ellipsis.
fn cell(buffer: &mut Buffer, area: Rect, y: u16, place: &Placed, words: &str, style: Style) {
    let words = match words.chars().count() > place.width {
        true => words.chars().take(place.width.saturating_sub(1)).chain(['…']).collect(),
        false => words.to_owned(),
    };
    put(buffer, area, [place.x as u16, y], &words, style);
}

/// The last line: the text that is typed or searched, or keys; at the right the rows that are shown.
fn foot(buffer: &mut Buffer, area: Rect, picture: &Picture<'_>) {
    let Picture { view, ranked, .. } = picture;
    let y = area.height - 1;
    let keys = match view {
        View { is_typing: true, text, .. } => format!("/{text}_"),
        View { text, .. } if !text.is_empty() => format!("/{text}  Esc: all rows"),
        View { is_paused: true, .. } => "PAUSED  p: continue".to_owned(),
        _ => "? help  q quit  Tab view  s sort  / search  p pause".to_owned(),
    };
    let (first, shown) = (view.first, ranked.rows.len());
    let place = match shown {
        0 => "no rows".to_owned(),
        _ => format!("{}–{} of {}", first + 1, first + shown, show::count(ranked.matching as u64)),
    };
    let x = usize::from(area.width).saturating_sub(place.chars().count());
    let keys: String = keys.chars().take(x.saturating_sub(GAP)).collect();
    line(buffer, area, y, &keys, Style::default());
    put(buffer, area, [x as u16, y], &place, Style::default());
}
