//! Parsing of texts from users: the common error, and ranges. Other formats are parsed next to their types.

use std::str::FromStr;

/// A text or file that cannot be parsed. The message quotes it and shows the accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Formats "'`text`' `why`".
    pub(crate) fn of(text: &str, why: &str) -> Self {
        Self(format!("'{text}' {why}"))
    }
}

/// Parses `first-last`, in either order; a single value is both ends.
pub(crate) fn range<T: FromStr>(text: &str) -> Option<(T, T)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

/// Like [`range`]; `None` if the first port is above the last.
pub(crate) fn ports(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    range(text).filter(|(first, last)| first <= last).map(|(first, last)| first..=last)
}
