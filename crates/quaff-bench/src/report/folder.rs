//! The folder of a report: files that are written whole or not at all, and read again with nothing in their
//! words that a terminal would obey. It knows nothing of what a report is about.

use super::chart::{Chart, Target};
use crate::words;
use crate::{Error, Result};
use quaff_os::Try;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};

/// The width of a picture in a file of its own, px.
const FILE_WIDTH: f64 = 760.0;

/// Writes `result.json`, `report.md`, `report.html` and a `.svg` for each picture into `dir`, which is made
/// when it is not there. Pictures of an earlier report in it are removed. Gives the files, in this order.
pub(super) fn write<'a>(
    report: &impl Serialize,
    dir: &Path,
    [paper, page]: [&str; 2],
    charts: impl Iterator<Item = &'a Chart>,
) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(dir).trying(|| format!("make the folder {}", dir.display()))?;
    let mut files = vec![keep(report, dir)?];
    files.push(put(dir, "report.md", paper.as_bytes())?);
    files.push(put(dir, "report.html", page.as_bytes())?);
    remove_pictures(dir)?;
    for chart in charts {
        let svg = chart.draw(FILE_WIDTH, Target::File);
        files.push(put(dir, &format!("{}.svg", chart.name), svg.as_bytes())?);
    }
    Ok(files)
}

/// Reads what [`write`] wrote: `path` is the folder, or the `result.json` in it. `kind` is what it is to be
/// the result of, and `format` the newest shape that is known here.
pub(super) fn read<R: DeserializeOwned>(path: &Path, kind: &str, format: u32) -> Result<R> {
    let file = if path.is_dir() { path.join("result.json") } else { path.into() };
    let bytes = fs::read(&file).trying(|| format!("read {}", file.display()))?;
    let unknown = |error| Error::Place(format!("{} is no result of a {kind}: {error}", file.display()));
    let all: serde_json::Value = serde_json::from_slice(&bytes).map_err(unknown)?;
    match all["format"].as_u64() {
        Some(theirs) if theirs > u64::from(format) => {
            Err(Error::Place(format!("{} is of format {theirs}; this quaff reads {format}", file.display())))
        }
        _ => serde_json::from_value(cleaned(all)).map_err(unknown),
    }
}

/// Writes `result.json` alone, while more is to come: what was there before stays until all of it is written.
pub(super) fn keep(report: &impl Serialize, dir: &Path) -> Result<PathBuf> {
    let json = serde_json::to_vec_pretty(report).map_err(|error| Error::Place(error.to_string()))?;
    put(dir, "result.json", &json)
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
