//! Runs scripts on the packets of a lane, and passes on what they record.
//!
//! Files wait for the disk to which rows go; an interface never does. An engine of Lua stays on one thread: it is made
//! there, and this output only has its plan.

use super::meter::secret;
use super::{Arrival, Now, Output, OutputTally, Pause};
use crate::batch::{Frame, Memory};
use crate::links::Links;
use quaff_file::Interfaces;
use quaff_file::tally::Counts;
use quaff_os::clock::steady_ns;
use quaff_os::{Reason, Stop};
use quaff_script::{Engine, EngineEnd, EnginePlan, Packet, Recorder, SavedPiece};
use std::cell::RefCell;
use std::sync::mpsc::Sender;

/// Bytes of rows and packets that are passed on at once.
const PASS_BYTES: usize = 64 << 10;
/// Frames after which the lane looks how full its ring is: each may be a call of every script.
const FRAMES_AT_ONCE: usize = 32;
/// Time that scripts have for the packets in hand after a signal, and then for the ends of flows, ns.
const GRACE_NS: u64 = 1_000_000_000;
/// Longest time until rows leave the lane while packets are still to come, ns.
const FLUSH_NS: u64 = 200_000_000;

thread_local! {
    /// The engine of this thread's lane.
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

/// Something that scripts recorded.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// Lines of JSON and of CSV.
    Rows {
        recorder: Recorder,
        json: Vec<u8>,
        csv: Vec<u8>,
    },
    Packets(SavedPiece),
}

/// Takes what scripts of one lane recorded, and counts the bytes that it could not take.
pub(crate) trait RecordSink: Send {
    fn put(&mut self, recorded: Recorded);
    /// Ends it: all that it took is written, has failed, or is passed to the thread that writes.
    fn finish(&mut self) -> RecordTally;
}

/// The counters of a sink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecordTally {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Flows whose packets have no file because of the limit of files.
    pub(crate) files_refused: u64,
    /// Bytes for which there was no room, or that could not be written.
    pub(crate) dropped_bytes: u64,
    /// The first failure.
    pub(crate) failure: Option<String>,
}

impl RecordTally {
    pub(crate) fn add(&mut self, other: Self) {
        let Self { files, bytes, files_refused, dropped_bytes, failure } = other;
        self.files += files;
        self.bytes += bytes;
        self.files_refused += files_refused;
        self.dropped_bytes += dropped_bytes;
        self.failure = self.failure.take().or(failure);
    }
}

/// The results of a lane. Its sink is still open: the histograms of all lanes follow.
pub(crate) struct ScriptsEnd {
    pub(crate) lane: usize,
    pub(crate) engine: EngineEnd,
    pub(crate) sink: Box<dyn RecordSink>,
}

/// The output of one lane.
pub(crate) struct Scripts {
    plan: EnginePlan,
    /// The lane, and the number of all.
    lane: [usize; 2],
    links: Links,
    /// Until the end of the lane.
    sink: Option<Box<dyn RecordSink>>,
    /// Packets come while the run lasts: rows leave soon.
    is_prompt: bool,
    stop: Stop,
    /// A signal has ended the run, and the scripts know until when they may work.
    is_ending: bool,
    taken: u64,
    passed_ns: u64,
    end: Sender<ScriptsEnd>,
}

impl Scripts {
    /// An output for the packets of `interfaces` on a lane of all. `end` receives the results.
    pub(crate) fn new(
        plan: EnginePlan,
        lane: [usize; 2],
        interfaces: Interfaces,
        sink: Box<dyn RecordSink>,
        (is_prompt, stop): (bool, Stop),
        end: Sender<ScriptsEnd>,
    ) -> Self {
        let (links, sink) = (Links::new(interfaces), Some(sink));
        Self { plan, lane, links, sink, is_prompt, stop, is_ending: false, taken: 0, passed_ns: 0, end }
    }

    /// Limits the time of scripts once a signal has ended the run: those that are slow miss the rest.
    #[cold]
    fn note_stop(&mut self, engine: &mut Engine) {
        if !self.is_ending && self.stop.reason() == Some(Reason::Signal) {
            self.is_ending = true;
            engine.end_by(steady_ns() + GRACE_NS);
        }
    }

    /// Runs `work` with the engine, which is made before the first packet.
    fn with<R>(&mut self, work: impl FnOnce(&mut Self, &mut Engine) -> R) -> Option<R> {
        let taken = ENGINE.with_borrow_mut(Option::take);
        let [lane, lanes] = self.lane.map(|number| number as u64);
        let make = || Engine::new(&self.plan, secret()[0]).map(|engine| engine.for_lane(lane, lanes));
        let made = taken.map_or_else(make, Ok);
        let mut engine = match made {
            Ok(engine) => engine,
            Err(error) => {
                // It was loaded at the start: it depends on the time or on addresses of memory.
                self.stop.raise(Reason::Failed(error));
                return None;
            }
        };
        let done = work(self, &mut engine);
        ENGINE.set(Some(engine));
        Some(done)
    }

    fn pass_on(&mut self, engine: &mut Engine) {
        let Some(sink) = &mut self.sink else { return };
        engine.take_rows(|recorder, rows| {
            let [json, csv] = [&mut rows.json, &mut rows.csv].map(std::mem::take);
            sink.put(Recorded::Rows { recorder: recorder.clone(), json, csv });
        });
        for piece in engine.take_packets() {
            sink.put(Recorded::Packets(piece));
        }
    }
}

impl Output for Scripts {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], arrival: Arrival) -> usize {
        let is_prompt = self.is_prompt;
        self.with(|this, engine| {
            if is_prompt {
                engine.note_late(arrival.is_late);
            }
            for frame in frames.iter() {
                if this.stop.raised() {
                    this.note_stop(engine);
                }
                let bytes = memory.of(frame);
                engine.packet(&Packet {
                    bytes: &bytes[..bytes.len().min(frame.keep as usize)],
                    wire_bytes: frame.wire_len,
                    linktype: this.links.of(frame.interface).linktype,
                    tag: (frame.tpid != 0).then_some((frame.tpid, frame.tci)),
                    time_ns: frame.time_ns,
                });
                if engine.pending_bytes() >= PASS_BYTES {
                    this.pass_on(engine);
                }
            }
        });
        self.taken += frames.len() as u64;
        frames.len()
    }

    fn frames_at_once(&self) -> usize {
        if self.is_prompt { FRAMES_AT_ONCE } else { usize::MAX }
    }

    fn tick(&mut self, pause: Pause, _: &dyn Fn(&mut Counts)) {
        let Pause { now, is_idle, .. } = pause;
        if !self.is_prompt || now.steady_ns.saturating_sub(self.passed_ns) < FLUSH_NS {
            return;
        }
        self.passed_ns = now.steady_ns;
        self.with(|this, engine| {
            if is_idle {
                engine.tick(now.wall_ns);
            }
            this.pass_on(engine);
        });
    }

    fn patience_ns(&self, _: Now) -> u64 {
        if self.is_prompt { FLUSH_NS } else { u64::MAX }
    }

    fn finish(&mut self, _: u64, _: &dyn Fn(&mut Counts)) {
        let engine = self.with(|this, engine| {
            this.pass_on(engine);
            this.is_ending = false;
            this.note_stop(engine);
            let end = engine.finish();
            this.pass_on(engine);
            end
        });
        ENGINE.set(None);
        let (lane, engine) = (self.lane[0], engine.unwrap_or_default());
        let end = self.sink.take().map(|sink| ScriptsEnd { lane, engine, sink });
        // Without a receiver the run has failed at its start.
        end.into_iter().for_each(|end| drop(self.end.send(end)));
    }

    fn tally(&self) -> OutputTally {
        OutputTally { taken: self.taken, ..OutputTally::default() }
    }
}
