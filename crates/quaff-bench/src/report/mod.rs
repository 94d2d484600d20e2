//! Reports of benches and service tests: tables, charts, a page, a part for the terminal. They compute nothing that is
//! not in `result.json`, print nothing, and give the same bytes for the same result.
//!
//! ```text
//!    result ──▶ bench, service: tables, charts, sentences ──▶ Document ──▶ report.html, report.md, SVG files
//!                                                        └──▶ Brief ──▶ terminal
//! ```

mod bench;
mod chart;
mod document;
mod escape;
mod flow;
mod folder;
mod palette;
mod service;
mod table;
mod time_page;

pub use document::{Brief, Document};
pub use folder::{is_of, keep, read, write};
pub use table::{Column, Row, Table};
pub use time_page::{LINES_MAX, TimePage, TimePanel, TimeUnit};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A result that can be reported.
pub trait Reported: Serialize + DeserializeOwned {
    /// Name of the experiment in messages.
    const KIND: &'static str;
    /// The body that is flattened in `result.json`.
    type Body: DeserializeOwned;

    /// Builds the whole report.
    fn document(&self) -> Document;

    /// Builds the part for a terminal.
    fn brief(&self) -> Brief;
}
