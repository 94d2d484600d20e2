//! The errors of Parquet segments. Never prints.

use parquet::errors::ParquetError;
use std::path::{Path, PathBuf};

/// A segment cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    #[error("cannot {tried}: {source}")]
    Parquet { tried: String, source: ParquetError },
    /// The file is from another program, has a later version, or is damaged.
    #[error("{} is not a segment of flows that this quaff can read: {words}", path.display())]
    Foreign { path: PathBuf, words: String },
}

/// A result whose error names the file.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn foreign(path: &Path, words: impl Into<String>) -> Self {
        Self::Foreign { path: path.to_owned(), words: words.into() }
    }
}

/// Adds the failed operation to errors of the parquet crate.
pub(crate) trait TryParquet<T> {
    fn trying_parquet(self, tried: impl FnOnce() -> String) -> Result<T>;
}

impl<T> TryParquet<T> for std::result::Result<T, ParquetError> {
    fn trying_parquet(self, tried: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Parquet { tried: tried(), source })
    }
}
