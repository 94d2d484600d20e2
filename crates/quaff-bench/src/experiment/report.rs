//! The header of every result, the same in `result.json` of a bench and of a service test; and the life cycle of a
//! report, from its start time to its duration, with partial results when it was interrupted.

use super::Machine;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};
use std::time::Instant;

/// Version of the format of `result.json`.
pub(crate) const FORMAT: u32 = 1;

/// The result of an experiment: a common header, and a body to which it dereferences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report<P, B> {
    /// The [`FORMAT`] of the version that wrote it.
    pub format: u32,
    pub plan: P,
    /// The command line.
    pub command: Vec<String>,
    /// Start time, RFC 3339, UTC.
    pub begun: String,
    /// Duration, s.
    pub seconds: f64,
    /// True if it ended before the whole plan was done.
    pub interrupted: bool,
    pub machine: Machine,
    #[serde(flatten)]
    pub body: B,
    /// Warnings and notes for the reader, one sentence each.
    pub notes: Vec<String>,
}

/// One trial of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialRow {
    /// Requested rate, frames/s.
    pub pps: f64,
    /// Duration, s.
    pub seconds: f64,
    /// Rate of arrival, frames/s.
    pub offered_pps: f64,
    /// Lost frames / offered frames, 0 to 1.
    pub loss: f64,
}

impl<P: Clone, B: Default> Report<P, B> {
    /// An empty report that starts now.
    pub(crate) fn new(plan: &P, command: &[String]) -> Self {
        Self {
            format: FORMAT,
            plan: plan.clone(),
            command: command.to_vec(),
            begun: format!("{:.0}", jiff::Timestamp::now()),
            seconds: 0.0,
            interrupted: false,
            machine: Machine::default(),
            body: B::default(),
            notes: Vec::new(),
        }
    }

    /// A report filled by `work`. An interruption is not an error: the partial report is marked and returned.
    pub(crate) fn fill(
        plan: &P,
        command: &[String],
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        let clock = Instant::now();
        let mut report = Self::new(plan, command);
        match work(&mut report) {
            Err(Error::Interrupted) => report.interrupted = true,
            done => done?,
        }
        report.seconds = clock.elapsed().as_secs_f64();
        Ok(report)
    }
}

impl<P, B> Deref for Report<P, B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.body
    }
}

impl<P, B> DerefMut for Report<P, B> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.body
    }
}
