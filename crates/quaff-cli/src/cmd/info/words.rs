//! The lines that the screens of `quaff info` share.

use crate::show::name;
use crate::terminal_table;

/// A line with a label; empty without words.
pub(super) fn labelled(what: &str, words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    format!("{}\n", terminal_table::wrapped(&format!("  {what:<11} "), &name(words)))
}
