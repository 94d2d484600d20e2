//! A bench's report for people: tables, pictures, a page. It computes nothing that is not in `result.json`,
//! prints nothing, and the same result gives the same bytes.
//!
//! ```text
//!    bench::result::Report ──▶ view (words, figures) ──┬──▶ tables ──▶ terminal, report.md, report.html
//!                                                      └──▶ charts ──▶ SVG in the page and in files
//! ```

mod chart;
mod charts;
mod page;
mod palette;
mod paper;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod view;
pub mod words;

pub use table::{Column, Row, Table};
pub use tables::{
    bursts, calibration, cases, cores, machine, rivals, runs, searches, source, summary, trials,
};

use crate::bench::result::{FORMAT, Report};
use crate::{Error, Result};
use quaff_os::Try;
use std::fs;
use std::path::{Path, PathBuf};

/// The width of a picture in a file of its own, px.
const FILE_WIDTH: f64 = 760.0;

/// Writes `result.json`, `report.md`, `report.html` and a `.svg` for each picture into `dir`, which is made
/// when it is not there. Pictures of an earlier report in it are removed. Gives the files, in this order.
///
/// # Errors
/// When a file cannot be written.
pub fn write(report: &Report, dir: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(dir).trying(|| format!("make the folder {}", dir.display()))?;
    let mut files = vec![keep(report, dir)?];
    let sections = charts::charts(report);
    files.push(put(dir, "report.md", paper::paper(report, &sections).as_bytes())?);
    files.push(put(dir, "report.html", page::page(report, &sections).as_bytes())?);
    remove_pictures(dir)?;
    for chart in sections.iter().flat_map(|section| &section.charts) {
        let svg = chart.draw(FILE_WIDTH, chart::Target::File);
        files.push(put(dir, &format!("{}.svg", chart.name), svg.as_bytes())?);
    }
    Ok(files)
}

/// Reads what [`write`] wrote: `path` is the folder, or the `result.json` in it.
///
/// # Errors
/// When there is none, or when it is none of ours.
pub fn read(path: &Path) -> Result<Report> {
    let file = if path.is_dir() { path.join("result.json") } else { path.into() };
    let bytes = fs::read(&file).trying(|| format!("read {}", file.display()))?;
    let report: Report = serde_json::from_slice(&bytes)
        .and_then(|all: serde_json::Value| serde_json::from_value(cleaned(all)))
        .map_err(|error| Error::Place(format!("{} is no result of a bench: {error}", file.display())))?;
    if report.format > FORMAT {
        let what = format!("{} is of format {}; this quaff reads {FORMAT}", file.display(), report.format);
        return Err(Error::Place(what));
    }
    Ok(report)
}

/// The same without control characters in its words: it may be somebody else's, and is shown on a terminal.
fn cleaned(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(words) => Value::String(words::clean(&words)),
        Value::Array(all) => Value::Array(all.into_iter().map(cleaned).collect()),
        Value::Object(all) => Value::Object(
            all.into_iter().map(|(name, value)| (words::clean(&name), cleaned(value))).collect(),
        ),
        other => other,
    }
}

/// Writes `result.json` alone, while more is to come: what was there before stays until all of it is written.
///
/// # Errors
/// When it cannot be written.
pub fn keep(report: &Report, dir: &Path) -> Result<PathBuf> {
    let json = serde_json::to_vec_pretty(report).map_err(|error| Error::Place(error.to_string()))?;
    put(dir, "result.json", &json)
}

/// Writes a file under a passing name first, so that there is never half of one.
fn put(dir: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = dir.join(name);
    let part = dir.join(format!("{name}.part"));
    fs::write(&part, bytes).trying(|| format!("write {}", part.display()))?;
    fs::rename(&part, &path).trying(|| format!("rename {} to {}", part.display(), path.display()))?;
    Ok(path)
}

/// Removes pictures of an earlier report.
fn remove_pictures(dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).trying(|| format!("list {}", dir.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("figure-") && name.ends_with(".svg") {
            fs::remove_file(entry.path()).trying(|| format!("remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
