//! One error type: what was tried, on what, the errno, and what to do next.

use std::{fmt, io};

/// A request to the kernel that was refused.
///
/// Displayed as one sentence: `cannot TRIED: ERRNO TEXT (os error N); ADVICE`.
#[derive(Debug)]
pub struct Error {
    /// What was tried, on what: "bind a packet socket to eth7".
    pub tried: String,
    /// The errno, as the kernel gave it.
    pub errno: io::Error,
    /// What the user can do about it, when we know.
    pub advice: Option<String>,
}

/// A result whose error names what was tried.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error from an errno that is at hand.
    pub fn new(tried: impl Into<String>, errno: impl Into<io::Error>) -> Self {
        Self { tried: tried.into(), errno: errno.into(), advice: None }
    }

    /// An error from the thread's current `errno`.
    pub fn last(tried: impl Into<String>) -> Self {
        Self::new(tried, io::Error::last_os_error())
    }

    /// Adds what to do next.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The raw errno, or 0 where the error did not come from the kernel.
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

/// Names what was tried, on results that carry only an errno.
pub trait Try<T> {
    /// `open(path).trying(|| format!("open {path}"))`
    fn trying<S: Into<String>>(self, tried: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<io::Error>> Try<T> for std::result::Result<T, E> {
    fn trying<S: Into<String>>(self, tried: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|errno| Error::new(tried(), errno))
    }
}
