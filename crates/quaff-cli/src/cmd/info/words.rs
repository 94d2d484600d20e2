//! The lines and words that the screens of `quaff info` share.

use crate::show::{self, name};
use crate::terminal_table;

/// A line with a label; empty without words.
pub(super) fn labelled(what: &str, words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    format!("{}\n", terminal_table::wrapped(&format!("  {what:<11} "), &name(words)))
}

/// A duration of a capture, to its last digit where it is short.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => show::span_ns((s * 1e9).round() as u64),
        s => format!("{} ({s:.3} s)", quaff::format::span(s)),
    }
}
