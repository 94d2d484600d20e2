//! The start of a run, in the one order that fails early, confines the process in time and destroys nothing.
//!
//! ```text
//!   prepare   interfaces are found, filters compiled, inputs compared with outputs
//!   as_user   the product opens its outputs, because they fail most often
//!   open      files: the process is confined, the rings of writers are made, then the first byte is read
//!   start     lanes capture into memory; interfaces: the process is confined; the product starts its writers, which
//!             empty existing files; system calls are restricted to those of a running process
//! ```

use super::{LaneEnd, Run, RunPlan};
use crate::Result;
use crate::output::Output as LaneOutput;
use crate::plan::InputPlan;
use crate::sandbox::{Rights, Seal, folders_of};
use crate::source::{Declaration, Prepared, Sources};
use quaff_file::Interfaces;
use quaff_file::write::{Format, Output};
use quaff_os::Stop;
use quaff_os::sandbox::Limits;

/// The decisions of a product about the start of its run.
pub(crate) struct Setup<'a> {
    /// The input; it has been validated.
    pub(crate) input: InputPlan,
    /// The outputs, none of which may be an input.
    pub(crate) outputs: &'a [Output],
    pub(crate) format: Format,
    pub(crate) declaration: Declaration,
    pub(crate) rights: Rights<'a>,
    /// The needs of the run after its start, beyond its inputs.
    pub(crate) limits: Limits,
}

impl<'a> Setup<'a> {
    /// A run whose outputs are no capture files, and that needs nothing but its inputs.
    pub(crate) fn new(input: InputPlan, outputs: &'a [Output]) -> Self {
        Self {
            input,
            outputs,
            format: Format::default(),
            declaration: Declaration::AsDescribed,
            rights: Rights::default(),
            limits: Limits::default(),
        }
    }
}

/// A run whose product opens its outputs.
pub(crate) struct Starting {
    input: InputPlan,
    stop: Stop,
    prepared: Prepared,
    seal: Seal,
}

impl Starting {
    /// Does everything that needs privileges, or files other than the inputs.
    pub(crate) fn prepare(setup: Setup, stop: &Stop) -> Result<Self> {
        let Setup { input, outputs, format, declaration, rights, limits } = setup;
        let outputs: Vec<_> = outputs.iter().collect();
        let prepared = Sources::prepare(&input, &outputs, format, declaration, stop)?;
        let seal = Seal::new(&rights, &input, limits)?;
        Ok(Self { input, stop: stop.clone(), prepared, seal })
    }

    /// Returns whether all packets exist already, so that no reader waits for the output.
    pub(crate) fn is_at_once(&self) -> bool {
        self.prepared.is_at_once()
    }

    /// The interfaces that are captured; `None` for files, of which none has been read yet.
    pub(crate) fn interfaces(&self) -> Option<&Interfaces> {
        self.prepared.interfaces()
    }

    /// Opens outputs so that their files belong to the user of the plan.
    pub(crate) fn as_user<T>(&self, open: impl FnOnce() -> Result<T>) -> Result<T> {
        self.seal.as_user(open)
    }

    /// Opens the sources: files up to their first packet, by a confined process.
    pub(crate) fn open(self) -> Result<Ready> {
        self.open_after(|| ())
    }

    /// As [`Self::open`]. `rings` makes the rings of the writers before the first byte of a file is read, because later
    /// none can be made; without files the writers make them.
    pub(crate) fn open_after(mut self, rings: impl FnOnce()) -> Result<Ready> {
        self.seal.before_files(rings)?;
        let sources = self.prepared.open(&self.input, &self.stop)?;
        let run = Run::new(&self.input, &sources, &self.stop);
        Ok(Ready { run, sources, seal: self.seal })
    }
}

/// A run whose sources are open.
pub(crate) struct Ready {
    pub(crate) run: Run,
    pub(crate) sources: Sources,
    seal: Seal,
}

impl Ready {
    /// Starts a lane with each end, and then the writers of the product. When this returns, every packet that arrives
    /// is captured, and the process is confined.
    ///
    /// On failure `writers` is dropped before the lanes are waited for, so that none waits for its writer.
    pub(crate) fn start<T>(
        self,
        ends: Vec<LaneEnd>,
        writers: impl FnOnce() -> Result<T>,
    ) -> Result<(Run, T)> {
        let Self { mut run, sources, mut seal } = self;
        let started =
            run.start_lanes(sources, ends).and_then(|()| seal.after_sockets()).and_then(|()| writers());
        let started = match started {
            Ok(started) => started,
            Err(error) => return Err(run.abandon(error)),
        };
        run.sandbox = seal.close();
        run.notes.extend(run.sandbox.iter().flat_map(|sandbox| sandbox.notes.clone()));
        Ok((run, started))
    }
}

impl Run {
    /// Starts lanes with the caller's outputs, one for each lane by its number. When this returns, every packet that
    /// arrives is captured.
    pub fn start(
        plan: RunPlan,
        stop: Stop,
        mut output: impl FnMut(usize, &Interfaces) -> Box<dyn LaneOutput>,
    ) -> Result<Self> {
        let RunPlan { input, also_written, sandbox } = plan;
        let limits = Limits { write: folders_of(&also_written), ..Limits::default() };
        let rights = Rights { sandbox: sandbox.as_ref(), ..Rights::default() };
        let setup = Setup { limits, rights, ..Setup::new(input.validate()?, &also_written) };
        let ready = Starting::prepare(setup, &stop)?.open()?;
        let interfaces = ready.sources.interfaces.clone();
        let ends = (0..ready.sources.lanes.len()).map(|lane| LaneEnd {
            stages: Vec::new(),
            output: output(lane, &interfaces),
            front: None,
        });
        let ends = ends.collect();
        Ok(ready.start(ends, || Ok(()))?.0)
    }
}
