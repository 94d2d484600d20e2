//! The errors of the engine, in words for the user.

/// The reason why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The filter expression is wrong.
    #[error(transparent)]
    Filter(#[from] quaff_os::filter::FilterError),
    /// The plan contradicts itself.
    #[error("{0}")]
    Plan(String),
    /// A file could not be opened, written or removed.
    #[error(transparent)]
    File(#[from] quaff_file::Error),
    /// A thread of quaff ended unexpectedly: a defect of quaff.
    #[error("a defect of quaff: {0}")]
    Defect(String),
}

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error about a path.
    pub(crate) fn path(
        tried: &'static str,
        path: impl Into<std::path::PathBuf>,
        errno: std::io::Error,
    ) -> Self {
        Self::File(quaff_file::Error::path(tried, path, errno))
    }
}
