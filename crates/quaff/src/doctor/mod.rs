//! The doctor: finds causes of packet loss on this machine before the capture.
//!
//! [`look()`] takes [`Readings`] and [`judge`], a pure function, turns them into [findings](Finding), so tests can pass
//! the readings of any machine. [`fix`] changes settings and [`undo`] restores them; nothing else changes anything, and
//! nothing here prints.

mod fix;
mod format;
mod look;
pub(crate) mod machine;
mod readings;
mod rules;
mod settings;
mod speed;

pub use fix::{Done, STATE, fix, undo};
pub use look::{Look, glance, look};
pub use readings::{Readings, Wanted};
pub use rules::judge;
pub use settings::{LinkFlag, Setting};
pub use speed::write_rate;

use readings::Reading;
use serde::Serialize;
use std::fmt;

/// The severity of a finding; the most severe is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No packets are lost; time stamps or other programs may suffer.
    Note,
    /// Packets are lost or altered under load.
    Warning,
    /// Capturing is impossible, or packets are being lost now.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// A cause of packet loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Short name, the same on each machine: "ring".
    pub id: &'static str,
    /// The finding, with the object that it concerns.
    pub what: String,
    /// The reason why it matters, with numbers.
    pub why: String,
    /// The command that fixes it, for root, or else an advice.
    pub fix: String,
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// [`fix()`] can apply it, and [`undo`] restore the previous state.
    pub fixable: bool,
    #[serde(skip)]
    pub changes: Vec<Change>,
}

/// A check that passed, or a fact that is only information.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fine {
    /// "receive ring of eth0".
    pub what: String,
    /// "4096 of 4096 frames".
    pub value: String,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    pub what: String,
    pub why: String,
}

/// A setting and its wanted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub setting: Setting,
    pub to: String,
}

/// The results of all checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The most severe first.
    pub findings: Vec<Finding>,
    pub unread: Vec<Unread>,
    pub fine: Vec<Fine>,
}

impl Diagnosis {
    /// Adds a finding, which the caller may complete with [`Finding::fixed_by`].
    fn find(
        &mut self,
        id: &'static str,
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> &mut Finding {
        let (what, why, fix) = (what.into(), why.into(), fix.into());
        let (interface, fixable, changes) = (None, false, Vec::new());
        self.findings.push_mut(Finding { id, what, why, fix, severity, interface, fixable, changes })
    }

    fn fine(&mut self, what: impl Into<String>, value: impl Into<String>) {
        self.fine.push(Fine { what: what.into(), value: value.into() });
    }

    fn unread(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unread.push(Unread { what: what.into(), why: why.into() });
    }

    /// The value of a reading, if this machine has one; a failure is recorded.
    fn read<T: Clone>(&mut self, what: &str, reading: &Reading<T>) -> Option<T> {
        reading.clone().unwrap_or_else(|why| {
            self.unread(what, why);
            None
        })
    }
}

impl Finding {
    /// Sets the reversible changes that fix it.
    fn fixed_by(&mut self, changes: Vec<Change>) {
        self.fixable = !changes.is_empty();
        self.changes = changes;
    }
}

/// The value of a reading, if there is one.
fn known<T: Clone>(reading: &Reading<T>) -> Option<T> {
    reading.clone().ok().flatten()
}
