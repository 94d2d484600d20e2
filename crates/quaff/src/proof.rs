//! `quaff verify -i`: watches whether an interface receives all packets, by the evidence in them. It keeps none.
//!
//! ```text
//!   source → stages → prove → (discarded)
//!   (one lane or several)
//! ```

use crate::gauge::LaneGauges;
use crate::output::Discard;
use crate::plan::{InputPlan, SandboxPlan};
use crate::run::{LaneEnd, Run, Setup, Starting};
use crate::sandbox::{Rights, folders_of};
use crate::{Error, Result};
use quaff_file::verify::Report;
use quaff_file::write::Output;
use quaff_os::sandbox::Limits;
use quaff_os::{Reason, Stop};
use std::sync::Arc;
use std::time::Instant;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ProofPlan {
    /// One interface.
    pub input: InputPlan,
    /// Files of the caller, written after the run.
    pub also_written: Vec<Output>,
    /// The process drops its capabilities, and all paths but those that it needs. For a process that does nothing else;
    /// `None` keeps them.
    pub sandbox: Option<SandboxPlan>,
}

/// A run.
pub struct Proof {
    run: Run,
    started: Instant,
    pub lanes: Vec<Arc<LaneGauges>>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

impl Proof {
    /// Starts the lanes. When this returns, every packet that arrives is evidence.
    ///
    /// # Errors
    /// The plan is not of one interface, or the kernel refused.
    pub fn start(plan: ProofPlan, stop: Stop) -> Result<Self> {
        let ProofPlan { input, also_written, sandbox } = plan;
        let input = InputPlan { prove: true, ..input }.validate()?;
        if input.interfaces.len() != 1 || input.hotplug.is_some() {
            return Err(Error::Plan("one interface can be watched: name it".into()));
        }
        let rights = Rights { sandbox: sandbox.as_ref(), ..Rights::default() };
        let limits = Limits { write: folders_of(&also_written), ..Limits::default() };
        let setup = Setup { rights, limits, ..Setup::new(input, &also_written) };
        let ready = Starting::prepare(setup, &stop)?.open()?;
        let ends = ready.sources.lanes.iter().map(|_| LaneEnd::of(Discard::default())).collect();
        let (run, ()) = ready.start(ends, || Ok(()))?;
        let (lanes, notes) = (run.lanes.clone(), run.notes.clone());
        Ok(Self { run, started: Instant::now(), lanes, notes })
    }

    /// Returns whether all lanes have ended.
    pub fn is_over(&self) -> bool {
        self.run.is_over()
    }

    /// Waits for the end, after the stop, and returns the report. Its `error` is the reason why the run failed.
    pub fn finish(self) -> Report {
        let mut ended = self.run.join();
        let proven = ended.proofs.pop();
        let failure = ended.failures().of_run;
        let run = ended.summary();
        let failure = failure.or(match run.ended_by {
            Some(Reason::InterfaceGone(what)) => Some(format!("the interface {what}")),
            Some(Reason::Failed(failure)) => Some(failure),
            _ => None,
        });
        let mut report = proven.map_or_else(Report::default, |proven| proven.report);
        report.outcome.seconds = self.started.elapsed().as_secs_f64();
        report.outcome.notes.extend(run.notes);
        match failure {
            Some(failure) => report.failed(failure),
            None => report,
        }
    }
}
