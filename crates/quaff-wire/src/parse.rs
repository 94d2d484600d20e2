//! Parsing of the texts that users write: the one error, and ranges. Each format is parsed beside its type.

use std::str::FromStr;

/// A text or a file that cannot be parsed. The message quotes it and shows what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// "'`text`' `why`".
    pub(crate) fn of(text: &str, why: &str) -> Self {
        Self(format!("'{text}' {why}"))
    }
}

/// Both ends of `first-last`; of a single value, that value twice. They may be in any order.
pub(crate) fn range<T: FromStr>(text: &str) -> Option<(T, T)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

/// As [`range`]; `None` when the first port is above the last.
pub(crate) fn ports(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    range(text).filter(|(first, last)| first <= last).map(|(first, last)| first..=last)
}
