//! Descriptions of capturers: built-in ones, and those of users. An error names file, line and key.

use super::{Tool, line};
use crate::{Error, Result};
use quaff_os::Try;
use std::fs;
use std::path::Path;

/// The built-in descriptions, in the order of tables.
const SHIPPED: [(&str, &str); 15] = [
    ("quaff.toml", include_str!("../../tools/quaff.toml")),
    ("tcpdump.toml", include_str!("../../tools/tcpdump.toml")),
    ("dumpcap.toml", include_str!("../../tools/dumpcap.toml")),
    ("tshark.toml", include_str!("../../tools/tshark.toml")),
    ("tshark-screen.toml", include_str!("../../tools/tshark-screen.toml")),
    ("netsniff-ng.toml", include_str!("../../tools/netsniff-ng.toml")),
    ("stenographer.toml", include_str!("../../tools/stenographer.toml")),
    ("gulp.toml", include_str!("../../tools/gulp.toml")),
    ("recvfrom.toml", include_str!("../../tools/recvfrom.toml")),
    ("tcpdump-pipe.toml", include_str!("../../tools/tcpdump-pipe.toml")),
    ("quaff-decap.toml", include_str!("../../tools/quaff-decap.toml")),
    ("quaff-inner.toml", include_str!("../../tools/quaff-inner.toml")),
    ("quaff-tap.toml", include_str!("../../tools/quaff-tap.toml")),
    ("quaff-inner-user.toml", include_str!("../../tools/quaff-inner-user.toml")),
    ("quaff-small-buffer.toml", include_str!("../../tools/quaff-small-buffer.toml")),
];

/// All built-in capturers; `quaff` is the path of the executable.
pub fn shipped(quaff: &Path) -> Vec<Tool> {
    // A test parses each of them.
    SHIPPED.iter().filter_map(|(name, text)| parse(name, text, quaff).ok()).collect()
}

/// Reads a user's description of a capturer.
///
/// # Errors
/// The file cannot be read, is not TOML, or does not describe a capturer; the message names line and key.
pub fn read(path: &Path, quaff: &Path) -> Result<Tool> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).trying(|| format!("read {name}"))?;
    parse(&name, &text, quaff)
}

/// Parses `text`; errors call it `name`.
pub(super) fn parse(name: &str, text: &str, quaff: &Path) -> Result<Tool> {
    let tool: Tool = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        mistake(name, text, at, error.message().trim())
    })?;
    line::check(&tool).map_err(|(word, what)| {
        let at = text.find(&word).unwrap_or(0);
        mistake(name, text, at, &what)
    })?;
    Ok(line::with_quaff(tool, quaff))
}

/// Formats "mine.toml, line 3, key `ready`: the mistake".
pub(super) fn mistake(name: &str, text: &str, at: usize, what: &str) -> Error {
    let before = text.get(..at).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default();
    let key = line.split_once('=').map(|(key, _)| key.trim()).filter(|key| !key.starts_with('#'));
    let key = key.map(|key| format!(", key `{key}`")).unwrap_or_default();
    Error::Description { place: format!("{name}, line {number}{key}"), what: what.replace('\n', " ") }
}
