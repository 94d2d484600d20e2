//! Streams of capture files (`quaff streams extract`, `follow`): files are read, their TCP connections reassembled,
//! and a reader gets the bytes.
//!
//! ```text
//!   source → stages → reassembly → reader: files and an index, or one connection
//!     (one lane)
//! ```
//!
//! The streams of interfaces are not written: the reader may wait for a disk, on the lane. Scripts run on interfaces
//! too ([`Scripts`]).

mod extract;
mod folder;
mod follow;
mod records;
mod report;
mod script_report;
mod scripts;

pub use crate::output::BodyTally;
pub use extract::{ExtractPlan, INDEX, IndexTarget};
pub use follow::FollowPlan;
pub use records::{RecordFolder, RecordTarget};
pub use report::{Bytes, Connections, Datagrams, Gap, Gaps, Ignored, StreamsReport};
pub use script_report::{ScriptsReport, StreamSums};
pub use scripts::{Scripts, ScriptsPlan};

use crate::gauge::LaneGauges;
use crate::output::{Reassembly, ReassemblyEnd, StreamReader};
use crate::plan::{InputPlan, SandboxPlan};
use crate::run::{LaneEnd, Run};
use crate::source::{Declaration, Sources};
use crate::{Error, Result};
use extract::{Extract, index_file};
use follow::Follow;
use quaff_file::write::{Format, Output};
use quaff_os::Stop;
use quaff_os::sandbox::{Limits, Sandbox, User};
use quaff_stream::tracker::TrackPlan;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// The reader of the streams.
pub enum ReaderPlan {
    Extract(ExtractPlan),
    Follow(FollowPlan),
}

/// The plan of a run.
pub struct StreamsPlan {
    /// Files.
    pub input: InputPlan,
    pub track: TrackPlan,
    pub reader: ReaderPlan,
    /// Outputs of the caller: none of them may be an input.
    pub also_written: Vec<Output>,
    /// The process gives away its capabilities, and all paths but those that it needs, before the first file is read.
    /// For a process that does nothing else; `None` keeps them.
    pub sandbox: Option<SandboxPlan>,
    /// To whom new files belong, unless the sandbox names a user; `None`: to the user of this process.
    pub owner: Option<User>,
}

/// A run.
pub struct Streams {
    run: Run,
    end: Receiver<ReassemblyEnd>,
    sandbox: Option<Sandbox>,
    block_bytes: u64,
    stop: Stop,
    pub lanes: Vec<Arc<LaneGauges>>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

impl StreamsPlan {
    /// The files that are written.
    fn outputs(&self) -> Vec<Output> {
        let index = match &self.reader {
            ReaderPlan::Extract(plan) => index_file(plan),
            ReaderPlan::Follow(_) => None,
        };
        index.map(Output::File).into_iter().chain(self.also_written.clone()).collect()
    }

    /// The needs of the run after its start.
    fn limits(&self, user: Option<User>) -> Limits {
        let is_path = |path: &&PathBuf| path.as_os_str() != "-";
        let read = self.input.read.iter().flat_map(|read| &read.files).filter(is_path).cloned();
        let write = match &self.reader {
            ReaderPlan::Extract(plan) => vec![plan.dir.clone()],
            ReaderPlan::Follow(_) => Vec::new(),
        };
        Limits { user, read: read.collect(), write, ..Limits::default() }
    }

    /// To whom new files belong.
    fn owner(&self) -> Result<Option<User>> {
        let named = self.sandbox.as_ref().and_then(|sandbox| sandbox.user.as_deref());
        Ok(named.map(User::find).transpose()?.or_else(|| self.owner.clone()))
    }
}

impl Streams {
    /// Opens the outputs, gives rights away, and starts the lane.
    pub fn start(plan: StreamsPlan, stop: Stop) -> Result<Self> {
        if plan.input.read.is_none() {
            return Err(Error::Plan("streams are those of files: `read` is missing".into()));
        }
        let (input, outputs, owner) = (plan.input.clone().validate()?, plan.outputs(), plan.owner()?);
        let outputs: Vec<_> = outputs.iter().collect();
        let described = Declaration::AsDescribed;
        let prepared = Sources::prepare(&input, &outputs, Format::default(), described, &stop)?;
        let limits = plan.sandbox.as_ref().map(|_| plan.limits(owner.clone()));
        let reader = open(plan.reader, owner.as_ref(), &stop)?;
        let sandbox = limits.as_ref().map(Sandbox::confine).transpose()?;
        let sources = prepared.open(&input, &stop)?;
        let (end, ended) = channel();
        let output = Reassembly::new(plan.track, sources.interfaces.clone(), reader, end);
        let (mut run, lanes) = (Run::new(&input, &sources, &stop), sources.gauges());
        let lane = LaneEnd { stages: Vec::new(), output: Box::new(output) };
        if let Err(error) = run.start_lanes(sources, vec![lane]) {
            return Err(run.abandon(error));
        }
        run.notes.extend(sandbox.iter().flat_map(|sandbox| sandbox.notes.clone()));
        let (notes, block_bytes) = (run.notes.clone(), input.block_bytes as u64);
        Ok(Self { run, end: ended, sandbox, block_bytes, stop, lanes, notes })
    }

    /// Returns whether the lane has ended.
    pub fn is_over(&self) -> bool {
        self.run.is_over()
    }

    /// Waits for the end, and returns the report, which includes a failure.
    pub fn finish(self) -> StreamsReport {
        let ended = self.run.join();
        let lane = self.end.try_recv().ok();
        report::sum_up(ended, lane, self.sandbox, self.block_bytes, self.stop.reason())
    }
}

/// Opens the outputs of a reader so that they belong to `user`.
fn open(plan: ReaderPlan, user: Option<&User>, stop: &Stop) -> Result<Box<dyn StreamReader>> {
    let _rights = user.map(User::use_files).transpose()?;
    Ok(match plan {
        ReaderPlan::Extract(plan) => Box::new(Extract::open(plan, stop.clone())?),
        ReaderPlan::Follow(plan) => Box::new(Follow::new(plan)),
    })
}
