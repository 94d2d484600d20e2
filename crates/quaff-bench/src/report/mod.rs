//! Reports for people: tables, pictures, a page; of a bench here, of a service test in [`service`]. They
//! compute nothing that is not in `result.json`, print nothing, and the same result gives the same bytes.
//!
//! ```text
//!    bench::result::Report ──▶ view (words, figures) ──┬──▶ tables ──▶ terminal, report.md, report.html
//!                                                      └──▶ charts ──▶ SVG in the page and in files
//! ```

mod chart;
mod charts;
mod folder;
mod html_layout;
mod markdown;
mod page;
mod palette;
pub mod service;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod view;

pub use table::{Column, Row, Table};
pub use tables::{
    bursts, calibration, cases, cores, machine, rivals, runs, searches, source, summary, trials,
};

use crate::Result;
use crate::bench::result::{FORMAT, Report};
use std::path::{Path, PathBuf};

/// Writes `result.json`, `report.md`, `report.html` and a `.svg` for each picture into `dir`, which is made
/// when it is not there. Pictures of an earlier report in it are removed. Gives the files, in this order.
///
/// # Errors
/// When a file cannot be written.
pub fn write(report: &Report, dir: &Path) -> Result<Vec<PathBuf>> {
    let sections = charts::charts(report);
    let words = [markdown::markdown(report, &sections), page::page(report, &sections)];
    let charts = sections.iter().flat_map(|section| &section.charts);
    folder::write(report, dir, [&words[0], &words[1]], charts)
}

/// Reads what [`write`] wrote: `path` is the folder, or the `result.json` in it.
///
/// # Errors
/// When there is none, or when it is none of ours.
pub fn read(path: &Path) -> Result<Report> {
    folder::read(path, "bench", FORMAT)
}

/// Writes `result.json` alone, while more is to come: what was there before stays until all of it is written.
///
/// # Errors
/// When it cannot be written.
pub fn keep(report: &Report, dir: &Path) -> Result<PathBuf> {
    folder::keep(report, dir)
}
