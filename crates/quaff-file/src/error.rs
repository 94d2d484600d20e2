//! Errors of reading, writing and keeping capture files, worded for the user.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The plan contradicts itself or the machine.
    #[error("{0}")]
    Plan(String),
    /// A system call on a file or a folder failed.
    #[error("cannot {tried} {}: {errno}{}", .path.display(), advice(.errno))]
    Path {
        /// A verb: `write to`.
        tried: &'static str,
        path: PathBuf,
        errno: std::io::Error,
    },
    /// A thread ended unexpectedly.
    #[error("a defect of quaff: {0}")]
    Defect(String),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates [`Error::Path`].
    pub fn path(tried: &'static str, path: impl Into<PathBuf>, errno: std::io::Error) -> Self {
        Self::Path { tried, path: path.into(), errno }
    }
}

/// Returns `true` for ENOSPC and EDQUOT.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn advice(errno: &std::io::Error) -> &'static str {
    match errno.kind() {
        std::io::ErrorKind::NotFound => "; create the folder first",
        std::io::ErrorKind::PermissionDenied => "; choose a folder with write permission",
        std::io::ErrorKind::StorageFull => {
            "; free some space, or set `keep-files`, `keep-size` or `keep-free`"
        }
        _ => "",
    }
}
