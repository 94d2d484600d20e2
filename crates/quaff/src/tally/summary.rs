//! The common part of the report of every product. It is flattened into each, so its fields are fields of the report.

use super::{BelowTap, InputTally, LaneTally, Reasons, Terms, Verdict};
use quaff_os::Reason;
use quaff_os::sandbox::Sandbox;
use serde::Serialize;
use std::ops::{Deref, DerefMut};

/// The common part of the report of a run, in packets unless stated.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunSummary {
    /// Packets that reached the interfaces.
    pub offered: u64,
    #[serde(flatten)]
    pub terms: Terms,
    /// Packets dropped below the sockets; in none of the sums.
    pub below_tap: BelowTap,
    pub verdict: Verdict,
    /// The verdict is [`Verdict::Lossless`].
    pub lossless: bool,
    /// Reasons of the verdict beside the sums; `notes` has them too.
    #[serde(skip)]
    pub reasons: Reasons,
    /// Duration of the run, s.
    pub seconds: f64,
    /// User and system time of this process, s.
    pub cpu_seconds: f64,
    pub ended_by: Option<Reason>,
    /// The files read; `None` for interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputTally>,
    /// The restrictions of the process; `None` without.
    pub sandbox: Option<Sandbox>,
    /// The failure of the run, after which the sums may differ.
    pub failure: Option<String>,
    /// Warnings for the user.
    pub notes: Vec<String>,
    /// The tallies of the lanes.
    pub interfaces: Vec<LaneTally>,
}

impl RunSummary {
    /// The sums of the lanes.
    pub(crate) fn of(interfaces: Vec<LaneTally>) -> Self {
        let offered = super::sum(&interfaces, |lane| lane.offered);
        let terms = Terms::of(interfaces.iter().map(|lane| &lane.terms));
        Self { offered, terms, interfaces, ..Self::default() }
    }

    /// Sets the verdict, by the losses of the product, the terms, the reasons beside them, and the failure.
    pub(crate) fn judge(&mut self, is_lost: bool) {
        let is_lost = is_lost || self.terms.lost() > 0;
        self.verdict = Verdict::new(is_lost, &self.reasons, self.failure.is_some());
        self.lossless = self.verdict == Verdict::Lossless;
    }

    /// Returns whether the files that were read are whole; true for interfaces.
    pub(crate) fn is_input_whole(&self) -> bool {
        self.input.as_ref().is_none_or(InputTally::is_whole)
    }
}

impl Deref for RunSummary {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl DerefMut for RunSummary {
    fn deref_mut(&mut self) -> &mut Terms {
        &mut self.terms
    }
}

/// Makes the summary of a report reachable as its own fields, as it is in JSON.
macro_rules! has_summary {
    ($report:ty) => {
        impl std::ops::Deref for $report {
            type Target = $crate::tally::RunSummary;

            fn deref(&self) -> &Self::Target {
                &self.run
            }
        }

        impl std::ops::DerefMut for $report {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.run
            }
        }
    };
}

pub(crate) use has_summary;
