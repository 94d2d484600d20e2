//! A run: lanes of sources, stages and outputs, each on its own thread, and their end. [`start`] has the order of the
//! start, which all products share.

pub(crate) mod end_watch;
pub(crate) mod file_output;
mod pool;
mod stages;
mod start;
mod thread;

pub(crate) use pool::start_pool;
pub(crate) use start::{Setup, Starting};
pub(crate) use thread::{join, start_thread};

use crate::filter::FrameFilter;
use crate::front::{FrontPlan, MakeFront};
use crate::gauge::LaneGauges;
use crate::lane::{self, Lane};
use crate::output::Output;
use crate::plan::{InputPlan, SandboxPlan};
use crate::source::{LaneSource, Missed, SourceTally, Sources, Watch};
use crate::stage::{Compare, Limit, Prove, ProveEnd, Quota, RecentPackets, Stage, name_losses};
use crate::tally::{
    self, BelowTap, IDENTITY, InputTally, LaneTally, LaneVerdict, Ledger, Reasons, RunSummary, sum,
};
use crate::verdict;
use crate::{Error, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quaff_file::Interfaces;
use quaff_file::tally::{FolderTally, WriterTally};
use quaff_file::verify::{LaneDrops, LaneEvidence, Report};
use quaff_file::write::Output as OutputPlan;
use quaff_os::clock::steady_ns;
use quaff_os::sandbox::Sandbox;
use quaff_os::softnet::SoftnetMeter;
use quaff_os::{Reason, Stop, Wakeup, cpu};
use stages::{Last, stages};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The end of a lane: stages of the product, and the output.
pub(crate) struct LaneEnd {
    pub(crate) stages: Vec<Box<dyn Stage>>,
    pub(crate) output: Box<dyn Output>,
    /// The part of the output's work that threads may do ahead.
    pub(crate) front: Option<MakeFront>,
}

impl LaneEnd {
    /// An output without stages of the product.
    pub(crate) fn of(output: impl Output + 'static) -> Self {
        Self { stages: Vec::new(), output: Box::new(output), front: None }
    }
}

/// Running lanes.
pub struct Run {
    plan: InputPlan,
    pub(crate) stop: Stop,
    threads: Vec<JoinHandle<Result<SourceTally>>>,
    filters: Vec<FrameFilter>,
    sandbox: Option<Sandbox>,
    pub lanes: Vec<Arc<LaneGauges>>,
    /// Warnings for the user.
    pub notes: Vec<String>,
    started_ns: u64,
    /// The backlogs' counters; `None` for files.
    softnet: Option<SoftnetMeter>,
    /// Finds interfaces for spare lanes.
    watch: Option<JoinHandle<()>>,
    missed: Missed,
    /// The evidence of lanes; `None` where nothing is proven.
    proofs: Option<(Sender<ProveEnd>, Receiver<ProveEnd>)>,
    /// The interfaces of the lanes, with their names.
    interfaces: Interfaces,
}

/// The verdict on the packets of an interface.
pub(crate) struct Proven {
    pub(crate) interface: String,
    pub(crate) report: Report,
}

/// The results of the lanes.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) lanes: Vec<LaneTally>,
    pub(crate) input: Option<InputTally>,
    pub(crate) failure: Option<Error>,
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) below_tap: BelowTap,
    pub(crate) reasons: Reasons,
    pub(crate) proofs: Vec<Proven>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) ended_by: Option<Reason>,
    pub(crate) block_bytes: u64,
}

/// The plan of a run whose outputs are the caller's.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    pub input: InputPlan,
    /// Files of the caller, which are opened after the start too: none of them may be an input.
    pub also_written: Vec<OutputPlan>,
    /// The process drops its capabilities, and all paths but those that it needs. For a process that does nothing else;
    /// `None` keeps them.
    pub sandbox: Option<SandboxPlan>,
}

impl Run {
    fn new(plan: &InputPlan, sources: &Sources, stop: &Stop) -> Self {
        Self {
            plan: plan.clone(),
            stop: stop.clone(),
            threads: Vec::new(),
            filters: sources.filters(),
            sandbox: None,
            lanes: sources.gauges(),
            notes: sources.notes.clone(),
            started_ns: steady_ns(),
            softnet: None,
            watch: None,
            missed: sources.watch.as_ref().map(Watch::missed).unwrap_or_default(),
            proofs: plan.prove.then(channel),
            interfaces: sources.interfaces.clone(),
        }
    }

    /// Starts a lane for each source. They capture at once.
    fn start_lanes(&mut self, mut sources: Sources, ends: Vec<LaneEnd>) -> Result<()> {
        let watch = sources.watch.take();
        let quota = self.plan.count.map(Quota::new);
        let limit = || quota.as_ref().map(|quota| Limit::new(quota.clone(), self.stop.clone()));
        let recent = self
            .plan
            .edit
            .duplicates
            .map(|action| (action, Arc::new(RecentPackets::new(sources.lanes.len(), sources.is_live))));
        let compare = |lane| {
            let (action, recent) = recent.as_ref()?;
            Some(Compare::new(lane, *action, sources.interfaces.clone(), recent.clone()))
        };
        let lanes = sources.lanes.iter().enumerate();
        let stages_of = |(number, lane)| {
            stages(&self.plan, &sources, lane, Last { limit: limit(), compare: compare(number) })
        };
        let stages: Vec<_> = lanes.map(stages_of).collect();
        let filter = sources.filter.clone().filter(|_| self.plan.edit.selects_nothing());
        let filter = filter.map(|filter| (filter, sources.interfaces.clone()));
        let (interfaces, is_live, places) = (&sources.interfaces, sources.is_live, self.plan.places());
        for (lane, ((source, mut stages), end)) in sources.lanes.into_iter().zip(stages).zip(ends).enumerate()
        {
            let end_stages = end.stages.len();
            stages.extend(end.stages);
            if let Some((proofs, _)) = &self.proofs {
                let gauges = source.gauges.clone();
                let of = places.get(lane).map(|(interface, _)| *interface);
                let is_alone = places.iter().filter(|(interface, _)| Some(*interface) == of).count() < 2;
                let kind = (is_live, is_alone);
                stages.push(Box::new(Prove::new(lane, interfaces.clone(), kind, gauges, proofs.clone())));
            }
            let front_stages = usize::from(filter.is_some());
            // A stage of the product may hold frames back.
            let has_front = self.plan.has_front() && end_stages == 0;
            // A front reads frames as the output gets them.
            let output = end.front.filter(|_| stages.len() == front_stages);
            if has_front {
                // Nothing else sets it.
                let _ = source.front.set(FrontPlan { filter: filter.clone(), output });
            }
            self.threads.push(start_lane(source, (stages, front_stages), end.output, &self.stop)?);
        }
        self.watch = watch.map(|watch| watch.start(&self.stop)).transpose()?;
        self.started_ns = steady_ns();
        self.softnet = self.plan.read.is_none().then(SoftnetMeter::open).and_then(|meter| meter.ok());
        Ok(())
    }

    /// Ends the running lanes after the rest of the run could not be started. Nothing has been written yet. The
    /// caller must have dropped everything that the lanes wait for.
    fn abandon(self, error: Error) -> Error {
        self.stop.raise(Reason::Failed(error.to_string()));
        self.threads.into_iter().for_each(|lane| drop(lane.join()));
        error
    }

    /// Returns whether all lanes have ended.
    pub fn is_over(&self) -> bool {
        self.stop.raised() && self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end, after the stop or the end of the input, and returns the ledger.
    pub fn finish(self) -> Ledger {
        let ended = self.join();
        let written = sum(&ended.lanes, |lane| lane.packed);
        ended.ledger(&WriterTally { written, ..WriterTally::default() }, 0)
    }

    pub(crate) fn join(self) -> Ended {
        let (mut tallies, mut input, mut failure) = (BTreeMap::<_, Vec<_>>::new(), None, None);
        let (mut places, interfaces) = (BTreeMap::new(), self.plan.places());
        for (number, lane) in self.threads.into_iter().enumerate() {
            match join(lane) {
                // A spare lane that was never used.
                Ok(of) if of.lane.interface.is_empty() && self.plan.hotplug.is_some() => {}
                Ok(of) => {
                    // Spare lanes, and the lane of files, come after these and have an interface each.
                    let interface = interfaces.get(number).map_or(number, |(interface, _)| *interface);
                    let key = (number >= interfaces.len(), interface);
                    places.insert(number, Place::of(&of, key));
                    tallies.entry(key).or_default().push(of.lane);
                    input = input.or(of.input);
                }
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        let lanes: Vec<_> = tallies.into_values().map(LaneTally::of_interface).collect();
        let meaningless = self.filters.iter().find_map(FrameFilter::failure);
        let failure = failure.or(meaningless);
        let mut notes = self.notes;
        notes.extend(self.filters.iter().flat_map(FrameFilter::notes));
        let seconds = (steady_ns() - self.started_ns) as f64 / 1e9;
        if let Some(watch) = self.watch {
            // A panic there costs no packet.
            let _ = watch.join();
        }
        let (below_tap, mut reasons) = verdict::judge(&lanes, self.softnet, self.plan.hotplug.is_some());
        let may_be_more = below_tap.rx_dropped > 0 || !reasons.unknown.is_empty();
        let proofs = self
            .proofs
            .map_or_else(Vec::new, |(_, ended)| proven(&ended, &places, may_be_more, &self.interfaces));
        reasons.unknown.extend(self.missed.since(0));
        reasons.lossy.extend(input.as_ref().and_then(verdict::recorded));
        reasons.lossy.extend(input.iter().flat_map(verdict::outside_times));
        let (sandbox, ended_by, block_bytes) =
            (self.sandbox, self.stop.reason(), self.plan.block_bytes as u64);
        Ended {
            lanes,
            input,
            failure,
            notes,
            seconds,
            below_tap,
            reasons,
            proofs,
            sandbox,
            ended_by,
            block_bytes,
        }
    }
}

/// The interface of a lane, and its drops; those of files are not known.
struct Place {
    /// Equal for all lanes of the interface.
    key: (bool, usize),
    interface: String,
    drops: Option<LaneDrops>,
}

impl Place {
    fn of(tally: &SourceTally, key: (bool, usize)) -> Self {
        let lane = &tally.lane;
        let (interface, kernel) = (lane.nic_dropped, lane.kernel_dropped);
        let drops = LaneDrops { interface, kernel, ..LaneDrops::default() };
        Self { key, interface: lane.interface.clone(), drops: tally.input.is_none().then_some(drops) }
    }
}

/// The verdicts on the packets of interfaces whose lanes have ended, in their order. `may_be_more`: counters below the
/// sockets have risen.
fn proven(
    ended: &Receiver<ProveEnd>,
    places: &BTreeMap<usize, Place>,
    may_be_more: bool,
    interfaces: &Interfaces,
) -> Vec<Proven> {
    let mut all: Vec<_> = ended.try_iter().collect();
    all.sort_by_key(|(lane, _)| *lane);
    let mut sums = BTreeMap::<_, (LaneEvidence, Option<LaneDrops>, String)>::new();
    for (lane, evidence) in all {
        let Some(Place { key, interface, drops }) = places.get(&lane) else { continue };
        match sums.entry(*key) {
            Entry::Vacant(place) => drop(place.insert((evidence, *drops, interface.clone()))),
            Entry::Occupied(mut known) => {
                let (sum, known_drops, _) = known.get_mut();
                sum.add(evidence);
                name_losses(sum, interfaces);
                *known_drops = known_drops.zip(*drops).map(|(one, other)| one.plus(other));
            }
        }
    }
    let verdict = |(evidence, drops, interface): (LaneEvidence, Option<LaneDrops>, String)| {
        let drops = drops.map(|drops| LaneDrops { may_be_more, ..drops });
        Proven { interface, report: evidence.judge(drops) }
    };
    sums.into_values().map(verdict).collect()
}

impl Ended {
    /// Adds notes on packets that the product cannot look into, and which count as not IP.
    pub(crate) fn with_unknown_links(mut self) -> Self {
        let all = self.input.iter().flat_map(|input| &input.unknown_links);
        let words = |(linktype, packets): (&u16, &u64)| {
            let name =
                quaff_wire::linktype::name(*linktype).map_or_else(String::new, |name| format!(" ({name})"));
            let words = format!("are of link type {linktype}{name}, in which quaff does not look for IP");
            crate::format::clause(*packets, "packet", &words)
        };
        let notes: Vec<_> = all.map(words).collect();
        if let Some(input) = &mut self.input {
            input.notes.extend(notes);
        }
        self
    }

    /// The ledger of a run with one writer, with its sums checked.
    pub(crate) fn ledger(mut self, writer: &WriterTally, buffer_high_bytes: u64) -> Ledger {
        self.reasons.unknown.extend(verdict::unsynced(writer));
        self.reasons.lossy.extend(verdict::removed(writer));
        self.reasons.notes.extend(writer.notes.iter().cloned());
        // The input may end while packets before the limit are still being written.
        self.ended_by = writer.limit.clone().or(self.ended_by);
        let proofs = std::mem::take(&mut self.proofs);
        let (block_bytes, failures) = (self.block_bytes, self.failures());
        let mut ledger = Ledger::new(self.summary(), writer, buffer_high_bytes, block_bytes);
        let write_failures = ledger.write_failures.iter().map(|failure| format!("writing failed: {failure}"));
        let notes: Vec<_> = write_failures.chain(ended_folders(&ledger)).collect();
        ledger.notes.extend(notes);
        ledger.failure = failures.with(ledger.check());
        ledger.judge();
        ledger.proof =
            proofs.iter().map(|proven| LaneVerdict::new(&proven.interface, &proven.report)).collect();
        ledger
    }

    /// The common part of a report, with the sums of the lanes and those of `own` checked. The product judges it.
    pub(crate) fn checked_summary(mut self, own: impl FnOnce(u64) -> Result<(), String>) -> RunSummary {
        let packed = sum(&self.lanes, |lane| lane.packed + lane.lost_in_buffer);
        let (received, failures) = (sum(&self.lanes, |lane| lane.received), self.failures());
        let mut run = self.summary();
        let identities = [
            (IDENTITY, run.offered, received + run.terms.sum()),
            ("received = written + lost", received, packed),
        ];
        run.failure = failures.with(tally::check(identities).and_then(|()| own(received)));
        run
    }

    /// The common part of a report, without its failure and its verdict. All threads of the run have ended.
    pub(crate) fn summary(mut self) -> RunSummary {
        self.notes.extend(self.sandbox.as_mut().and_then(Sandbox::count_refused));
        let notes = self.notes();
        RunSummary {
            below_tap: self.below_tap,
            reasons: self.reasons,
            seconds: self.seconds,
            cpu_seconds: cpu_seconds(),
            ended_by: self.ended_by,
            input: self.input,
            sandbox: self.sandbox,
            notes,
            ..RunSummary::of(self.lanes)
        }
    }

    /// All warnings for the user.
    fn notes(&self) -> Vec<String> {
        let of_input = self.input.iter().flat_map(|input| &input.notes);
        let Reasons { lossy, unknown, notes } = &self.reasons;
        let reasons = lossy.iter().chain(unknown).chain(notes);
        self.notes.iter().chain(reasons).chain(of_input).cloned().collect()
    }

    /// Takes the failures of the run and of its input.
    pub(crate) fn failures(&mut self) -> Failures {
        let of_input = self.input.as_ref().and_then(|input| input.failure.clone());
        Failures { of_run: self.failure.take().map(|error| error.to_string()), of_input }
    }
}

/// The failures of a run and of its input.
pub(crate) struct Failures {
    pub(crate) of_run: Option<String>,
    of_input: Option<String>,
}

impl Failures {
    /// The first failure: of the run, of its sums, or of its input. After a failure of the run the sums may differ.
    pub(crate) fn with(self, sums: Result<(), String>) -> Option<String> {
        self.of_run.or(sums.err()).or(self.of_input)
    }
}

/// Notes on folders that ended before the run.
fn ended_folders(ledger: &Ledger) -> Vec<String> {
    let has_other = ledger.outputs.iter().any(|folder| folder.failure.is_none());
    let rest = if has_other { "; what it had not written went to another folder" } else { "" };
    let note = |folder: &FolderTally| {
        Some(format!("writing to {} ended early: {}{rest}", folder.dir, folder.failure.as_ref()?))
    };
    ledger.outputs.iter().filter_map(note).collect()
}

/// Starts a lane's thread and waits until its source is open.
fn start_lane(
    source: LaneSource,
    (stages, front_stages): (Vec<Box<dyn Stage>>, usize),
    output: Box<dyn Output>,
    stop: &Stop,
) -> Result<JoinHandle<Result<SourceTally>>> {
    let LaneSource { thread, open, core, real_time, is_urgent, ends_run, gauges, .. } = source;
    let (waken, ended) = (stop.clone(), stop.clone());
    let open = move || {
        let wakeup = Wakeup::new()?;
        waken.wake(wakeup.clone());
        real_time.map_or(Ok(()), cpu::real_time)?;
        if is_urgent {
            cpu::raise_priority();
        }
        open(wakeup)
    };
    start_thread(&thread, stop, core, open, move |source| {
        let tally = lane::read(Lane { source, stages, front_stages, output, stop: ended.clone(), gauges })?;
        // Keeps the reason of an earlier stop.
        if ends_run {
            ended.raise(Reason::InputEnded);
        }
        Ok(tally)
    })
}

/// User and system time of this process, s.
pub(crate) fn cpu_seconds() -> f64 {
    // Added as whole µs: a sum of two fractions of a second shows its rounding error in a report.
    let time = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.user_time() + usage.system_time());
    time.map_or(0.0, |time| time.num_microseconds() as f64 / 1e6)
}
