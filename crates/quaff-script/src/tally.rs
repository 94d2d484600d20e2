//! The work of a script in numbers.

use crate::budget::Exceeded;
use quaff_wire::add_each;
use serde::{Serialize, Serializer};

/// Maximum number of different error texts in a report.
pub(crate) const FAILURES_MAX: usize = 8;

/// The counters of a script.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ScriptTally {
    pub name: String,
    /// Events that it received.
    pub calls: u64,
    /// Total time in calls, ns.
    pub ns: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Events that it missed because it had been stopped.
    pub dropped: u64,
    /// Events that it missed because packets were waiting for the lane and it had used up its share of time.
    pub skipped: u64,
    /// Rows of its lists, and lines that it printed.
    pub rows: u64,
    /// Rows, alerts and keys dropped for lack of memory.
    pub rows_dropped: u64,
    pub alerts: u64,
    /// Number of flows whose packets it requested.
    pub saved: u64,
    /// Memory of its Lua state at the end, bytes.
    pub memory_bytes: u64,
    /// The limit that it exceeded.
    #[serde(serialize_with = "exceeded")]
    pub stopped: Option<Exceeded>,
    /// Description of that, with the line.
    pub stopped_by: Option<String>,
    /// The first errors, by their text.
    pub failures: Vec<Failure>,
}

/// Errors with the same text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub text: String,
    pub count: u64,
}

impl ScriptTally {
    /// Returns true if the script received every event and every row was kept.
    pub fn is_whole(&self) -> bool {
        self.errors + self.dropped + self.skipped + self.rows_dropped == 0 && self.stopped.is_none()
    }

    /// Adds the work of the same script in another lane. The first one that was stopped is reported.
    pub fn add(&mut self, other: Self) {
        add_each!(self, other;
            calls, ns, errors, dropped, skipped, rows, rows_dropped, alerts, saved, memory_bytes
        );
        if self.stopped.is_none() {
            (self.stopped, self.stopped_by) = (other.stopped, other.stopped_by);
        }
        for failure in other.failures {
            match self.failures.iter().position(|known| known.text == failure.text) {
                Some(at) => self.failures[at].count += failure.count,
                None if self.failures.len() < FAILURES_MAX => self.failures.push(failure),
                None => {}
            }
        }
    }
}

fn exceeded<S: Serializer>(value: &Option<Exceeded>, serializer: S) -> Result<S::Ok, S::Error> {
    let word = value.map(|exceeded| match exceeded {
        Exceeded::Time => "time",
        Exceeded::Memory => "memory",
        Exceeded::Errors => "errors",
    });
    word.serialize(serializer)
}
