//! Streams of capture files (`quaff streams list`, `follow`, `extract`): files are read, their TCP connections
//! reassembled, and a reader gets the bytes; also the datagrams of UDP, if it wants them.
//!
//! ```text
//!   source → stages → reassembly → reader: a row for each connection, one connection, or files and an index
//!     (one lane)
//! ```
//!
//! The streams of interfaces are not written: the reader may wait for a disk, on the lane. Scripts run on interfaces
//! too ([`Scripts`]).

mod extract;
mod folder;
mod follow;
mod list;
mod names;
mod protocol;
mod records;
mod report;
mod script_report;
mod scripts;

pub use crate::output::{BodyTally, ObjectTally};
pub use extract::{Contents, ExtractPlan, IndexTarget};
pub use follow::FollowPlan;
pub use list::{ListPlan, RowSink, StreamMatch, StreamRow, StreamSide};
pub use protocol::StreamProtocol;
pub use records::{RecordFolder, RecordTarget};
pub use report::{Bytes, Connections, Datagrams, Gap, Gaps, Ignored, StreamsReport, UdpConversations};
pub use script_report::{ScriptsReport, StreamSums};
pub use scripts::{Scripts, ScriptsPlan};

use crate::gauge::LaneGauges;
use crate::output::{Reassembly, ReassemblyEnd, StreamReader};
use crate::plan::{InputPlan, SandboxPlan};
use crate::run::{LaneEnd, Run, Setup, Starting};
use crate::sandbox::Rights;
use crate::{Error, Result};
use extract::{Extract, list_files};
use follow::Follow;
use list::List;
use quaff_file::write::Output;
use quaff_os::Stop;
use quaff_os::sandbox::{Limits, User};
use quaff_stream::tracker::TrackPlan;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// The reader of the streams.
pub enum ReaderPlan {
    Extract(ExtractPlan),
    Follow(FollowPlan),
    List(ListPlan),
}

/// The plan of a run.
pub struct StreamsPlan {
    /// Files.
    pub input: InputPlan,
    pub track: TrackPlan,
    pub reader: ReaderPlan,
    /// The caller's outputs, none of which may be an input.
    pub also_written: Vec<Output>,
    /// The process drops its capabilities, and all paths but those that it needs, before the first file is read. For a
    /// process that does nothing else; `None` keeps them.
    pub sandbox: Option<SandboxPlan>,
    /// The owner of new files, unless the sandbox names a user; `None` is the user of this process.
    pub owner: Option<User>,
}

/// A run.
pub struct Streams {
    run: Run,
    end: Receiver<ReassemblyEnd>,
    pub lanes: Vec<Arc<LaneGauges>>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

impl StreamsPlan {
    /// The files that are written.
    fn outputs(&self) -> Vec<Output> {
        let lists = match &self.reader {
            ReaderPlan::Extract(plan) => list_files(plan),
            ReaderPlan::Follow(_) | ReaderPlan::List(_) => Vec::new(),
        };
        lists.into_iter().map(Output::File).chain(self.also_written.clone()).collect()
    }

    /// The folder in which files are made.
    fn folder(&self) -> Option<PathBuf> {
        match &self.reader {
            ReaderPlan::Extract(plan) => Some(plan.dir.clone()),
            ReaderPlan::Follow(_) | ReaderPlan::List(_) => None,
        }
    }
}

impl Streams {
    /// Opens the outputs, drops rights, and starts the lane.
    pub fn start(plan: StreamsPlan, stop: Stop) -> Result<Self> {
        if plan.input.read.is_none() {
            return Err(Error::Plan("streams are those of files: `read` is missing".into()));
        }
        let (outputs, write) = (plan.outputs(), plan.folder().into_iter().collect());
        let StreamsPlan { input, track, reader, sandbox, owner, .. } = plan;
        let track = match &reader {
            ReaderPlan::Follow(plan) => plan.choose(track),
            ReaderPlan::Extract(_) | ReaderPlan::List(_) => track,
        };
        let rights = Rights { sandbox: sandbox.as_ref(), owner: owner.as_ref(), ..Rights::default() };
        let limits = Limits { write, ..Limits::default() };
        let setup = Setup { rights, limits, ..Setup::new(input.validate()?, &outputs) };
        let starting = Starting::prepare(setup, &stop)?;
        let reader = starting.as_user(|| open(reader, &stop))?;
        let ready = starting.open()?;
        let (end, ended) = channel();
        let output = Reassembly::new(track, ready.sources.interfaces.clone(), reader, end);
        let (run, ()) =
            ready.start(vec![LaneEnd { front: Some(output.front()), ..LaneEnd::of(output) }], || Ok(()))?;
        let (lanes, notes) = (run.lanes.clone(), run.notes.clone());
        Ok(Self { run, end: ended, lanes, notes })
    }

    /// Returns whether the lane has ended.
    pub fn is_over(&self) -> bool {
        self.run.is_over()
    }

    /// Waits for the end, and returns the report, which includes a failure.
    pub fn finish(self) -> StreamsReport {
        report::sum_up(self.run.join().with_unknown_links(), self.end.try_recv().ok())
    }
}

/// Opens the outputs of a reader.
fn open(plan: ReaderPlan, stop: &Stop) -> Result<Box<dyn StreamReader>> {
    Ok(match plan {
        ReaderPlan::Extract(plan) => Box::new(Extract::open(plan, stop.clone())?),
        ReaderPlan::Follow(plan) => Box::new(Follow::new(plan)),
        ReaderPlan::List(plan) => Box::new(List::new(plan, stop.clone())?),
    })
}
