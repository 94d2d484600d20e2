//! Scripts on packets, flows and streams: of files, or of one interface.
//!
//! ```text
//!   source → stages → scripts → rows: files of a folder, or lines of JSON
//!     (a lane, with a state of its own for each script)
//! ```
//!
//! A conversation and its fragments stay on one lane. The counts of all lanes are added at their end; the state of a
//! script is that of its lane.

use super::records::{RecordTarget, Records, RecordsThread};
use super::script_report::{self, ScriptsReport};
use crate::filter::{FrameFilter, FrameProgram};
use crate::gauge::LaneGauges;
use crate::output::{RecordSink, RecordTally, Recorded, Scripts as ScriptsOutput, ScriptsEnd};
use crate::plan::{InputPlan, SandboxPlan};
use crate::run::{LaneEnd, Run, Setup, Starting};
use crate::sandbox::Rights;
use crate::{Error, Result};
use quaff_file::write::Output;
use quaff_os::Stop;
use quaff_os::sandbox::{Limits, User};
use quaff_script::{
    Compile, Engine, EngineEnd, EnginePlan, Formats, Limits as ScriptLimits, Packet, Source, Test,
};
use quaff_stream::tracker::TrackPlan;
use quaff_wire::filter::Subject;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// The share of the lane's time that scripts may use while the ring of an interface is nearly full, %: the rest is for
/// emptying it.
const LANE_PERCENT: u32 = 25;

/// The plan of a run of scripts.
pub struct ScriptsPlan {
    /// Files, or one interface.
    pub input: InputPlan,
    pub track: TrackPlan,
    pub scripts: Vec<Source>,
    /// `lane_percent` is that of the run: `None` for files.
    pub limits: ScriptLimits,
    pub target: RecordTarget,
    /// The caller's outputs, none of which may be an input.
    pub also_written: Vec<Output>,
    /// The process drops its capabilities, and all paths but those that it needs. For a process that does nothing else;
    /// `None` keeps them.
    pub sandbox: Option<SandboxPlan>,
    /// The owner of new files, unless the sandbox names a user; `None` is the user of this process.
    pub owner: Option<User>,
}

/// A run.
pub struct Scripts {
    run: Run,
    end: Receiver<ScriptsEnd>,
    /// The thread that writes; `None` for files, whose lane writes itself.
    writer: Option<RecordsThread>,
    pub lanes: Vec<Arc<LaneGauges>>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

impl ScriptsPlan {
    fn check(&self) -> Result<()> {
        match () {
            () if self.input.interfaces.len() > 1 || self.input.hotplug.is_some() => {
                Err(Error::Plan("scripts run on one interface: name one".into()))
            }
            () if self.scripts.is_empty() => Err(Error::Plan("no script is named".into())),
            () => Ok(()),
        }
    }

    fn formats(&self) -> Formats {
        match &self.target {
            RecordTarget::Folder(folder) => {
                Formats { json: folder.has_json, csv: folder.has_csv, has_names: false }
            }
            RecordTarget::Lines(_) => Formats { json: true, csv: false, has_names: true },
        }
    }

    fn engine(&self) -> EnginePlan {
        EnginePlan {
            scripts: self.scripts.clone(),
            limits: ScriptLimits {
                lane_percent: self.input.read.is_none().then_some(LANE_PERCENT),
                ..self.limits
            },
            track: self.track.clone(),
            formats: self.formats(),
            can_save: matches!(self.target, RecordTarget::Folder(_)),
            compile: compiler(),
        }
    }

    /// The folder in which files are made.
    fn folder(&self) -> Option<PathBuf> {
        match &self.target {
            RecordTarget::Folder(folder) => Some(folder.dir.clone()),
            RecordTarget::Lines(_) => None,
        }
    }
}

impl Scripts {
    /// Loads the scripts, opens the outputs, drops rights, and starts the lanes.
    pub fn start(mut plan: ScriptsPlan, stop: Stop) -> Result<Self> {
        plan.check()?;
        plan.input.keep_together("a run of scripts")?;
        let (input, engine) = (plan.input.clone().validate()?, plan.engine());
        // Only a check: each lane makes its own engine, because Lua stays on one thread. A wrong script ends the start.
        drop(Engine::new(&engine, 0).map_err(Error::Plan)?);
        let (is_live, write) = (input.read.is_none(), plan.folder().into_iter().collect());
        let rights =
            Rights { sandbox: plan.sandbox.as_ref(), owner: plan.owner.as_ref(), ..Rights::default() };
        let limits = Limits { write, ..Limits::default() };
        let setup = Setup { rights, limits, ..Setup::new(input, &plan.also_written) };
        let starting = Starting::prepare(setup, &stop)?;
        let records = starting.as_user(|| Records::open(plan.target, stop.clone()))?;
        let mut ready = starting.open()?;
        let (end, ended) = channel();
        let (count, interfaces) = (ready.sources.lanes.len(), ready.sources.interfaces.clone());
        let is_prompt = !ready.sources.is_at_once;
        let output = |(lane, sink): (usize, Box<dyn RecordSink>)| {
            let (kind, place) = ((is_prompt, stop.clone()), [lane, count]);
            let (interfaces, end) = (interfaces.clone(), end.clone());
            LaneEnd::of(ScriptsOutput::new(engine.clone(), place, interfaces, sink, kind, end))
        };
        let (writer, sinks) = sinks(records, is_live, count)?;
        let outputs = sinks.into_iter().enumerate().map(output).collect();
        drop(end);
        ready.run.notes.extend(note_on_lanes(count));
        let (run, ()) = ready.start(outputs, || Ok(()))?;
        let (lanes, notes) = (run.lanes.clone(), run.notes.clone());
        Ok(Self { run, end: ended, writer, lanes, notes })
    }

    /// Returns whether all lanes have ended.
    pub fn is_over(&self) -> bool {
        self.run.is_over()
    }

    /// Waits for the end, and returns the report, which includes a failure.
    pub fn finish(self) -> ScriptsReport {
        let ended = self.run.join().with_unknown_links();
        let lanes = close(self.end.try_iter().collect(), self.writer);
        script_report::sum_up(ended, lanes)
    }
}

/// The sinks of lanes, in their order.
type Sinks = Vec<Box<dyn RecordSink>>;

/// The sinks of all lanes, and the thread that writes for those of an interface.
fn sinks(records: Records, is_live: bool, lanes: usize) -> Result<(Option<RecordsThread>, Sinks)> {
    if !is_live {
        return Ok((None, vec![Box::new(records)]));
    }
    let thread = RecordsThread::start(records)?;
    let sinks = (0..lanes).map(|_| Box::new(thread.sink()) as Box<dyn RecordSink>).collect();
    Ok((Some(thread), sinks))
}

/// Returns a warning about the effect of several lanes on scripts.
fn note_on_lanes(lanes: usize) -> Option<String> {
    (lanes > 1).then(|| {
        format!(
            "each of the {lanes} lanes has its own state of each script: what a script remembers of several pairs of \
             hosts is a part; histograms are sums"
        )
    })
}

/// Adds the results of all lanes, writes their histograms, and ends the sinks. `None` without a result.
fn close(mut ends: Vec<ScriptsEnd>, writer: Option<RecordsThread>) -> Option<(EngineEnd, RecordTally)> {
    ends.sort_by_key(|end| end.lane);
    let (mut sum, mut sinks, has_any) = (EngineEnd::default(), Vec::new(), !ends.is_empty());
    for ScriptsEnd { engine, sink, .. } in ends {
        sum.add(engine);
        sinks.push(sink);
    }
    std::mem::take(&mut sum.histograms).rows(|recorder, rows| {
        let recorded = Recorded::Rows { recorder: recorder.clone(), json: rows.json, csv: rows.csv };
        match (&writer, sinks.first_mut()) {
            (Some(writer), _) => writer.put(recorded),
            (None, Some(sink)) => sink.put(recorded),
            (None, None) => {}
        }
    });
    let mut tally = RecordTally::default();
    sinks.iter_mut().for_each(|sink| tally.add(sink.finish()));
    // After the sinks: the thread ends when the last of them has ended.
    writer.into_iter().for_each(|writer| tally.add(writer.finish()));
    has_any.then_some((sum, tally))
}

/// Compiles tcpdump expressions once: names of hosts can be looked up at the start only.
fn compiler() -> Compile {
    let known: Mutex<HashMap<String, FrameFilter>> = Mutex::default();
    Arc::new(move |expression| {
        // Ignores poisoning: the table is consistent between any two statements.
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(expression) {
            let made = FrameFilter::new(expression, "`filter`").map_err(|error| error.to_string())?;
            known.insert(expression.to_owned(), made);
        }
        let filter = known.get(expression).cloned().ok_or_else(|| "no filter".to_owned())?;
        Ok(Box::new(FilterTest { filter, programs: Vec::new() }) as Box<dyn Test>)
    })
}

/// An expression on the packets of a script.
struct FilterTest {
    filter: FrameFilter,
    /// By link type; `None` where the expression means nothing.
    programs: Vec<(u16, Option<FrameProgram>)>,
}

impl Test for FilterTest {
    #[inline]
    fn wants(&mut self, packet: &Packet) -> bool {
        let Packet { bytes, wire_bytes, linktype, tag, .. } = *packet;
        let at = self.programs.iter().position(|(of, _)| *of == linktype).unwrap_or_else(|| {
            self.programs.push((linktype, self.filter.program(linktype)));
            self.programs.len() - 1
        });
        let program = self.programs[at].1.as_ref();
        program.is_some_and(|program| program.wants(&Subject { bytes, wire_len: wire_bytes, tag }))
    }
}
