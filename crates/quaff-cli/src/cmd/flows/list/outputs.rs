//! The outputs of a list: tables, JSON, and files of text with the columns of `quaff flows --csv` and `--jsonl`. They
//! choose and sort nothing.

use super::rows::{COLUMNS, NAMES, RowJson, cells};
use crate::show::{self, Stream};
use crate::terminal_table::{self, Columns};
use crate::written_file::WrittenFile;
use anyhow::Context as _;
use quaff_flow::export::{Names, Scene, Template, TextEncoder, TextFormat};
use quaff_flow::record::FlowRecord;
use quaff_flow::summary::By;
use serde::Serialize;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Rows of a table: those of a long list are several, on a terminal each with its heading.
const PAGE_ROWS: usize = 10_000;
/// Bytes of text that are collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// All outputs of a list.
pub(super) struct Outputs {
    shown: Shown,
    files: Vec<TextFile>,
}

/// The list on stdout.
pub(super) enum Shown {
    Nothing,
    Table(Pages),
    Json(JsonRows),
}

/// Rows as tables.
#[derive(Debug)]
pub(super) struct Pages {
    rows: Vec<Vec<String>>,
    is_begun: bool,
    columns: Columns,
}

/// Rows as the list `flows` of one object of JSON, whose other fields follow at the end.
#[derive(Debug, Default)]
pub(super) struct JsonRows {
    text: String,
    is_begun: bool,
}

/// Records as lines of text.
pub(super) struct TextFile {
    encoder: TextEncoder,
    target: Target,
    buffer: Vec<u8>,
}

enum Target {
    Stdout,
    /// Not yet emptied.
    Opened(PathBuf, WrittenFile),
    Begun(PathBuf, File),
}

impl Outputs {
    pub(super) fn new(shown: Shown, files: Vec<TextFile>) -> Self {
        Self { shown, files }
    }

    /// Text files have more columns than a table.
    pub(super) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Prints and writes a record without the properties `lacking`.
    pub(super) fn put(&mut self, record: &FlowRecord, lacking: &[By]) -> anyhow::Result<()> {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Table(pages) => pages.put(cells(record, lacking)),
            Shown::Json(rows) => rows.put(&RowJson::new(record, lacking)),
        }
        self.files.iter_mut().try_for_each(|file| file.put(record))
    }

    /// False once the only output is a stdout whose reader has left.
    pub(super) fn takes_more(&self) -> bool {
        show::takes_stdout() || self.files.iter().any(|file| !matches!(file.target, Target::Stdout))
    }

    /// Ends the list; `sums` are the other fields of its JSON.
    pub(super) fn finish(&mut self, sums: &impl Serialize) -> anyhow::Result<()> {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Table(pages) => pages.print(),
            Shown::Json(rows) => rows.finish(sums)?,
        }
        self.files.iter_mut().try_for_each(TextFile::flush)
    }
}

impl Pages {
    pub(super) fn new(columns: Columns) -> Self {
        Self { rows: Vec::new(), is_begun: false, columns }
    }

    fn put(&mut self, row: Vec<String>) {
        self.rows.push(row);
        if self.rows.len() == PAGE_ROWS {
            self.print();
        }
    }

    fn print(&mut self) {
        if !self.rows.is_empty() {
            let rows = std::mem::take(&mut self.rows).into_iter();
            show::print(&terminal_table::listed((&COLUMNS, &NAMES), rows, !self.is_begun, self.columns));
            self.is_begun = true;
        }
    }
}

impl JsonRows {
    fn put(&mut self, row: &RowJson<'_>) {
        self.text += if self.is_begun { "," } else { "{\"flows\":[" };
        self.is_begun = true;
        // Between two rows, so that each has a line of its own: what is printed ends its line.
        if self.text.len() >= BUFFER_BYTES {
            show::json_text(Stream::Stdout, &std::mem::take(&mut self.text));
        } else {
            self.text.push('\n');
        }
        self.text += &serde_json::to_string(row).expect("a row is strings and numbers");
    }

    fn finish(&mut self, sums: &impl Serialize) -> anyhow::Result<()> {
        let sums = serde_json::to_string(sums).context("write the sums as JSON")?;
        self.text += if self.is_begun { "\n]," } else { "{\"flows\":[]," };
        // The fields of an object, after its brace.
        self.text += sums.get(1..).unwrap_or_default();
        show::json_text(Stream::Stdout, &std::mem::take(&mut self.text));
        Ok(())
    }
}

impl TextFile {
    /// Opens a file, or stdout where its name is '-'; it is emptied when there is something to write.
    pub(super) fn open(format: TextFormat, path: &Path) -> anyhow::Result<Self> {
        let encoder = TextEncoder::new(format, Names::Ipfix, &Template::default_list());
        let target = match path.as_os_str() == "-" {
            true => Target::Stdout,
            false => Target::Opened(path.to_owned(), WrittenFile::open(path)?),
        };
        let mut buffer = Vec::new();
        // The line of names; formats with a time in their head are none of these.
        encoder.begin(0, &mut buffer);
        Ok(Self { encoder, target, buffer })
    }

    fn put(&mut self, record: &FlowRecord) -> anyhow::Result<()> {
        // Interfaces have the numbers of the records.
        self.encoder.push(record, &Scene::default(), &mut self.buffer);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if matches!(self.target, Target::Opened(..))
            && let Target::Opened(path, file) = std::mem::replace(&mut self.target, Target::Stdout)
        {
            let begun = file.begin()?;
            self.target = Target::Begun(path, begun);
        }
        match &mut self.target {
            Target::Begun(path, file) => {
                file.write_all(&self.buffer).with_context(|| format!("write {}", path.display()))?;
            }
            _ if self.buffer.is_empty() => {}
            _ => print(&self.buffer),
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Prints lines: for a program as they are, on a terminal without what it would obey.
fn print(lines: &[u8]) {
    if std::io::stdout().is_terminal() {
        show::print(String::from_utf8_lossy(lines).trim_end());
    } else {
        show::script(lines);
    }
}
