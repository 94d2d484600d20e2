//! The report of a service test: the same kind of folder as a bench's, with the same look. It computes nothing
//! that is not in `result.json`, prints nothing, and the same result gives the same bytes.

mod charts;
mod markdown;
mod page;
mod rates;
mod second;
mod tables;
#[cfg(test)]
mod tests;
mod trials;
mod view;

pub use tables::{
    checks, configuration, glance, null, overall_and_runs, performance, services, source, variation,
};
pub use trials::{back_to_back, frame_loss, latency, recovery, throughput, trials};

use super::{Table, folder, html_layout};
use crate::Result;
use crate::service::result::{FORMAT, Report};
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
    folder::read(path, "service test", FORMAT)
}

/// Writes `result.json` alone, while more is to come: what was there before stays until all of it is written.
///
/// # Errors
/// When it cannot be written.
pub fn keep(report: &Report, dir: &Path) -> Result<PathBuf> {
    folder::keep(report, dir)
}

/// The machine on which it was measured.
pub fn machine(report: &Report) -> Table {
    html_layout::machine(&report.machine)
}

/// What it comes to, in a few sentences; the verdict first.
pub fn findings(report: &Report) -> Vec<String> {
    markdown::findings(report)
}

/// What a reader has to know before citing a number.
pub fn warnings(report: &Report) -> Vec<String> {
    markdown::warnings(report)
}
