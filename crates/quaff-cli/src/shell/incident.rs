//! Incidents of a running product: sentences that are printed when something has happened.

/// A sentence about an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    pub(super) words: String,
    pub(super) is_severe: bool,
}

impl Incident {
    /// An incident that a quiet run does not report.
    pub fn note(words: impl Into<String>) -> Self {
        Self { words: words.into(), is_severe: false }
    }

    /// An incident that a quiet run reports too: packets or records will be missing unless the user acts.
    pub fn severe(words: impl Into<String>) -> Self {
        Self { words: words.into(), is_severe: true }
    }

    /// The sentence.
    #[cfg(test)]
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// A quiet run reports it too.
    #[cfg(test)]
    pub(crate) fn is_severe(&self) -> bool {
        self.is_severe
    }
}
