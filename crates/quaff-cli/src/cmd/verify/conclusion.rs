//! The end of a check: its report as JSON, words or a page, and its exit status.

use super::page;
use crate::exit::Exit;
use crate::show::{self, Stream};
use crate::written_file::WrittenFile;
use quaff_file::verify::{Outcome, Report};
use std::path::PathBuf;

/// Writes the page, if one is wanted, after the report: a page that cannot be written costs no report.
pub(super) fn write_page(
    html: Option<WrittenFile>,
    files: &[PathBuf],
    report: &Report,
) -> anyhow::Result<()> {
    html.map_or(Ok(()), |file| file.write(&page::page(files, report)))
}

/// Prints a report as JSON, or in `words` if anything was read, and returns its exit status.
pub(super) fn conclude(
    report: &impl serde::Serialize,
    outcome: &Outcome,
    json: bool,
    words: impl FnOnce(&mut String) -> std::fmt::Result,
) -> anyhow::Result<Exit> {
    if json {
        show::json(Stream::Stdout, report)?;
    } else if !outcome.unreadable || outcome.frames > 0 {
        let mut text = String::new();
        words(&mut text)?;
        let is_good = outcome.is_judged.then_some(outcome.complete);
        show::judged_report(Stream::Stdout, text.trim_end(), is_good);
    }
    if outcome.unreadable {
        let error = outcome.error.as_deref().unwrap_or("a file could not be read");
        show::message(error);
        return Ok(Exit::judged(None));
    }
    Ok(Exit::judged(outcome.is_judged.then_some(outcome.complete)))
}
