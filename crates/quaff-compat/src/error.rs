//! Errors of a command line that cannot be translated.

use std::path::Path;

/// The reason why a command line cannot be translated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// All mistakes in the options of one command line.
    #[error("{}; 'quaff {command} --help' lists the options", .mistakes.join("; "))]
    Options {
        /// The command of quaff.
        command: &'static str,
        /// One sentence each.
        mistakes: Vec<String>,
    },
    /// The options are right, and something that they need is missing.
    #[error("{0}")]
    Missing(String),
    /// A file or a folder that the command line names cannot be read.
    #[error("{what}")]
    Io {
        /// Verb and path.
        what: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`: `what` is a verb, for the file at `path`.
    pub(crate) fn io(what: &str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let what = format!("{what} {}", path.as_ref().display());
        |source| Self::Io { what, source }
    }
}
