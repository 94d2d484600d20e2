//! `quaff verify -i`: watches whether an interface receives all packets, by the evidence in them. It keeps none.
//!
//! ```text
//!   source → stages → prove → (discarded)
//!   (one lane or several)
//! ```

use crate::gauge::LaneGauges;
use crate::output::Discard;
use crate::plan::{InputPlan, SandboxPlan};
use crate::run::{LaneEnd, Run};
use crate::source::{Declaration, Sources};
use crate::{Error, Result};
use quaff_file::verify::Report;
use quaff_file::write::{Format, Output};
use quaff_os::sandbox::{Limits, Sandbox, User};
use quaff_os::{Reason, Stop};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ProofPlan {
    /// One interface.
    pub input: InputPlan,
    /// Files of the caller, written after the run.
    pub also_written: Vec<Output>,
    /// The process gives away its capabilities, and all paths but those that it needs. For a process that does nothing
    /// else; `None` keeps them.
    pub sandbox: Option<SandboxPlan>,
}

/// A run.
pub struct Proof {
    run: Run,
    stop: Stop,
    started: std::time::Instant,
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
        let outputs: Vec<_> = also_written.iter().collect();
        let described = Declaration::AsDescribed;
        let sources = Sources::prepare(&input, &outputs, Format::default(), described, &stop)?;
        let sources = sources.open(&input, &stop)?;
        let (mut run, lanes) = (Run::new(&input, &sources, &stop), sources.gauges());
        let end = |_| LaneEnd { stages: Vec::new(), output: Box::new(Discard::default()) };
        let ends = sources.lanes.iter().map(end).collect();
        let started = run.start_lanes(sources, ends).and_then(|()| {
            let limits = sandbox.as_ref().map(|plan| limits(plan, &also_written)).transpose()?;
            Ok(limits.as_ref().map(Sandbox::confine).transpose()?)
        });
        let sandbox = match started {
            Ok(sandbox) => sandbox,
            Err(error) => return Err(run.abandon(error)),
        };
        run.notes.extend(sandbox.iter().flat_map(|sandbox| sandbox.notes.clone()));
        let notes = run.notes.clone();
        Ok(Self { run, stop, started: std::time::Instant::now(), lanes, notes })
    }

    /// Returns whether all lanes have ended.
    pub fn is_over(&self) -> bool {
        self.run.is_over()
    }

    /// Waits for the end, after the stop, and returns the report. Its `error` is why the run failed; of files it would
    /// be a part that was not read.
    pub fn finish(self) -> Report {
        let mut ended = self.run.join();
        let proven = ended.proofs.pop();
        let failure = ended.failure.as_ref().map(Error::to_string).or_else(|| match self.stop.reason() {
            Some(Reason::InterfaceGone(interface)) => Some(format!("interface {interface} disappeared")),
            Some(Reason::Failed(failure)) => Some(failure),
            _ => None,
        });
        let mut report = proven.map_or_else(Report::default, |proven| proven.report);
        report.outcome.seconds = self.started.elapsed().as_secs_f64();
        report.outcome.notes.extend(ended.notes());
        match failure {
            Some(failure) => report.failed(failure),
            None => report,
        }
    }
}

/// The needs of the run after its start.
fn limits(plan: &SandboxPlan, also_written: &[Output]) -> Result<Limits> {
    let folder = |output: &Output| match output {
        Output::File(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.map_or_else(|| PathBuf::from("."), Path::to_path_buf))
        }
        _ => None,
    };
    let user = plan.user.as_deref().map(User::find).transpose()?;
    Ok(Limits { user, write: also_written.iter().filter_map(folder).collect(), ..Limits::default() })
}
