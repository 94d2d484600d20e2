//! What on this machine will lose packets, found before the capture.
//!
//! [`look()`] reads, [`judge`] concludes: pure functions from [`readings`] to [findings](Finding), so
//! that a test can show them any machine. [`mend`] changes what can be put back, and puts it back. This room
//! prints nothing, and without being told to mend changes nothing.

mod hands;
mod look;
pub mod mend;
pub mod readings;
mod rules;
mod speed;
mod words;

pub use hands::{Hands, Knob, Machine};
pub use look::{Look, glance, look};
pub use rules::judge;
pub use speed::write_rate;

use serde::Serialize;

/// How bad a finding is, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No packet will be lost for it; times or other programs may suffer.
    Note,
    /// Packets will be lost, or look different, when much comes at once.
    Warning,
    /// Nothing can be captured, or packets are lost right now.
    Critical,
}

impl Severity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Something that will lose packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its short name, the same on each machine: "ring".
    pub id: &'static str,
    /// What was found, on what.
    pub what: String,
    /// Why it matters, with the number.
    pub why: String,
    /// The command that mends it, as root types it; or, where none can, what to do.
    pub fix: String,
    /// How bad it is.
    pub severity: Severity,
    /// The interface that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// [`mend::fix`] can do it, and [`mend::undo`] put it back.
    pub fixable: bool,
    /// What it would change.
    #[serde(skip)]
    pub changes: Vec<Change>,
}

/// Something that is as it should be, or that there is only to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fine {
    /// What: "receive ring of eth0".
    pub what: String,
    /// How it is: "4096 of 4096 frames".
    pub value: String,
}

/// Something that could not be read on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// A setting, and what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The setting.
    pub knob: Knob,
    /// Its new value, as [`Hands::get`] gives it.
    pub to: String,
}

/// All that was concluded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What will lose packets, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// What was looked at and is as it should be.
    pub fine: Vec<Fine>,
}

impl Diagnosis {
    /// The finding of that short name.
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.id == id)
    }

    fn find(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn fine(&mut self, what: impl Into<String>, value: impl Into<String>) {
        self.fine.push(Fine { what: what.into(), value: value.into() });
    }

    fn unread(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unread.push(Unread { what: what.into(), why: why.into() });
    }

    /// What was read, if there is such a thing here; what could not be read is noted.
    fn read<'a, T>(&mut self, what: &str, reading: &'a readings::Reading<T>) -> Option<&'a T> {
        match reading {
            Ok(value) => value.as_ref(),
            Err(why) => {
                self.unread(what, why);
                None
            }
        }
    }
}
