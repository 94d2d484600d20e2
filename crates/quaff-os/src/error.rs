//! The error type: the operation that failed, its object, the errno, and advice for the user.

use std::{fmt, io};

/// A failed request to the kernel.
///
/// Displayed as one sentence: `cannot TRIED: ERRNO TEXT (os error N); ADVICE`.
#[derive(Debug)]
pub struct Error {
    /// The operation and its object: "bind a packet socket to eth7".
    pub tried: String,
    pub errno: io::Error,
    /// Advice for the user, where known.
    pub advice: Option<String>,
}

/// A result whose error names the failed operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error from a known errno.
    pub fn new(tried: impl Into<String>, errno: impl Into<io::Error>) -> Self {
        Self { tried: tried.into(), errno: errno.into(), advice: None }
    }

    /// An error from the thread's current `errno`.
    pub(crate) fn last(tried: impl Into<String>) -> Self {
        Self::new(tried, io::Error::last_os_error())
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The raw errno; 0 when the error did not come from the kernel.
    pub fn raw(&self) -> i32 {
        self.errno.raw_os_error().unwrap_or(0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.tried, self.errno)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Adds the failed operation to results that carry only an errno.
pub trait Try<T> {
    /// `open(path).trying(|| format!("open {path}"))`
    fn trying<S: Into<String>>(self, tried: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<io::Error>> Try<T> for std::result::Result<T, E> {
    fn trying<S: Into<String>>(self, tried: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|errno| Error::new(tried(), errno))
    }
}
