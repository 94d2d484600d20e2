//! Why a capture file could not be read, written or kept, in words for the user.

use std::path::PathBuf;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// What was asked for does not fit together.
    #[error("{0}")]
    Plan(String),
    /// A file or a folder could not be used.
    #[error("cannot {tried} {}: {errno}{}", .path.display(), advice(.errno))]
    Path {
        /// What was tried.
        tried: &'static str,
        /// On what.
        path: PathBuf,
        /// The errno.
        errno: std::io::Error,
    },
    /// A thread of ours died. This is a defect of quaff.
    #[error("a defect of quaff: {0}")]
    Defect(String),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error about a path.
    pub fn path(tried: &'static str, path: impl Into<PathBuf>, errno: std::io::Error) -> Self {
        Self::Path { tried, path: path.into(), errno }
    }
}

fn advice(errno: &std::io::Error) -> &'static str {
    match errno.kind() {
        std::io::ErrorKind::NotFound => "; make the folder first",
        std::io::ErrorKind::PermissionDenied => "; choose a folder that you may write to",
        std::io::ErrorKind::StorageFull => {
            "; free some space, or set --keep-files, --keep-size or --keep-free"
        }
        _ => "",
    }
}
