//! The folder of a report: writes files completely or not at all, and removes control characters on reading. It does
//! not know benches or services.

use super::Reported;
use super::chart::Target;
use crate::experiment::FORMAT;
use crate::report::escape::clean;
use crate::{Error, Result};
use quaff_os::Try;
use quaff_os::disk::write_output;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Rights of a report: others read it.
const MODE: u32 = 0o644;
/// Width of a chart in an SVG file, px.
const FILE_WIDTH: f64 = 760.0;

/// Writes `result.json`, `report.md`, `report.html` and an `.svg` per chart into `dir`, which is created if missing;
/// removes the charts of an earlier report. Returns the files in this order.
///
/// # Errors
/// A file cannot be written.
pub fn write<R: Reported>(report: &R, dir: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(dir).trying(|| format!("make the folder {}", dir.display()))?;
    let document = report.document();
    let mut files = vec![keep(report, dir)?];
    files.push(put(dir, "report.md", document.markdown().as_bytes())?);
    files.push(put(dir, "report.html", document.html().as_bytes())?);
    remove_charts(dir)?;
    for chart in document.sections.iter().flat_map(|section| &section.charts) {
        let svg = chart.draw(FILE_WIDTH, Target::File);
        files.push(put(dir, &format!("{}.svg", chart.name), svg.as_bytes())?);
    }
    Ok(files)
}

/// True if `path`, a folder or the `result.json` in it, holds a result of this kind.
pub fn is_of<R: Reported>(path: &Path) -> bool {
    fs::read(file_of(path)).is_ok_and(|bytes| serde_json::from_slice::<R>(&bytes).is_ok())
}

/// Reads a result that [`write`] or [`keep`] wrote; `path` is the folder, or the `result.json` in it.
///
/// # Errors
/// The result is missing, of another kind, of a later format, or invalid; the message names the line.
pub fn read<R: Reported>(path: &Path) -> Result<R> {
    let file = file_of(path);
    let bytes = fs::read(&file).trying(|| format!("read {}", file.display()))?;
    let unknown =
        |error| Error::Place(format!("{} is not a result of a {}: {error}", file.display(), R::KIND));
    let all: Value = serde_json::from_slice(&bytes).map_err(unknown)?;
    match all["format"].as_u64() {
        Some(theirs) if theirs > u64::from(FORMAT) => {
            Err(Error::Place(format!("{} is of format {theirs}; this quaff reads {FORMAT}", file.display())))
        }
        _ => {
            // Parse errors name a line only if the text is parsed directly, and not through a flattened field.
            serde_json::from_slice::<R::Body>(&bytes).map_err(unknown)?;
            serde_json::from_slice::<R>(&bytes).map_err(unknown)?;
            serde_json::from_value(cleaned(all)).map_err(unknown)
        }
    }
}

fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("result.json") } else { path.into() }
}

/// Writes `result.json` alone; an earlier one is replaced only once the new one is complete.
///
/// # Errors
/// The file cannot be written.
pub fn keep(report: &impl Serialize, dir: &Path) -> Result<PathBuf> {
    let json = serde_json::to_vec_pretty(report).map_err(|error| Error::Place(error.to_string()))?;
    put(dir, "result.json", &json)
}

/// Removes control characters: a value may come from another machine, and is shown on a terminal.
fn cleaned(value: Value) -> Value {
    match value {
        Value::String(words) => Value::String(clean(&words)),
        Value::Array(all) => all.into_iter().map(cleaned).collect(),
        Value::Object(all) => all.into_iter().map(|(name, value)| (clean(&name), cleaned(value))).collect(),
        other => other,
    }
}

/// Writes a file under a temporary name and renames it, so that it is never incomplete.
fn put(dir: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = dir.join(name);
    let part = dir.join(format!("{name}.part"));
    write_output(&part, bytes, MODE).trying(|| format!("write {}", part.display()))?;
    fs::rename(&part, &path).trying(|| format!("rename {} to {}", part.display(), path.display()))?;
    Ok(path)
}

/// Removes the charts of an earlier report.
fn remove_charts(dir: &Path) -> Result<()> {
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
