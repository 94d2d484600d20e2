//! Reports for people, of benches and of service tests: tables, charts, a page, a part for the terminal. They
//! compute nothing that is not in `result.json`, print nothing, and the same result gives the same bytes.
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
mod losses;
mod palette;
mod service;
mod table;
mod traffic;

pub use document::{Brief, Document};
pub use folder::{is_of, keep, read, write};
pub use losses::Losses;
pub use table::{Column, Row, Table};
pub use traffic::{LINES_MAX, Traffic, TrafficPart};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A result that has a report.
pub trait Reported: Serialize + DeserializeOwned {
    /// The experiment, as messages name it.
    const KIND: &'static str;
    /// The part of it that is flattened in `result.json`.
    type Body: DeserializeOwned;

    /// The whole report.
    fn document(&self) -> Document;

    /// The part for a terminal.
    fn brief(&self) -> Brief;
}
