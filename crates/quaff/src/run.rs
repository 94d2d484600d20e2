//! Starts lanes from sources, stages and outputs, each on its own thread.
//!
//! Capture, split and any other product start here, live and from files. The order is fixed: the caller opens
//! its outputs first, because they fail most often; then the lanes start and capture into memory; writers start
//! last, so that a run that cannot start destroys nothing.

pub(crate) mod end_watch;
pub(crate) mod file_output;

use crate::buffer_pool::{LanePool, Pool, PoolPlan};
use crate::cores::Topology;
use crate::filter::FrameFilter;
use crate::lane::{self, Lane};
use crate::output::Output;
use crate::plan::{Duplicates, EditPlan, InputPlan, LoadPlan, PREFAULT, SNAPLEN_MAX, WritePlan};
use crate::source::{Declaration, LaneSource, Missed, SourceTally, Sources, Watch};
use crate::stage::{
    Compare, Decap, Declare, Dedup, Ethernet, Filter, Limit, Load, Numbered, Prove, ProveEnd, Quota,
    RecentPackets, Shift, SingleLink, Slice, Stage, Untag, Window, name_losses,
};
use crate::tally::{BelowTap, InputTally, LaneTally, LaneVerdict, Ledger, Reasons, sum};
use crate::verdict;
use crate::{Error, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quaff_file::Interfaces;
use quaff_file::tally::{FolderTally, WriterTally};
use quaff_file::verify::{LaneDrops, LaneEvidence, Report};
use quaff_file::write::Format;
use quaff_os::clock::steady_ns;
use quaff_os::softnet::SoftnetMeter;
use quaff_os::{Reason, Stop, Wakeup, cpu};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The part of the buffer that is divided into the shares of lanes, %. The rest is for the one that needs it: while the
/// output is late, one interface of several may use more than three quarters of the buffer.
const LANES_SHARES_PERCENT: usize = 25;
/// The same for the members of a split. A member that stands still for good must leave the others enough.
const OUTPUTS_SHARES_PERCENT: usize = 50;

/// The end of a lane: stages of the product, and the output.
pub(crate) struct LaneEnd {
    pub(crate) stages: Vec<Box<dyn Stage>>,
    pub(crate) output: Box<dyn Output>,
}

/// Running lanes.
pub struct Run {
    plan: InputPlan,
    stop: Stop,
    lanes: Vec<JoinHandle<Result<SourceTally>>>,
    filters: Vec<FrameFilter>,
    pub(crate) notes: Vec<String>,
    started_ns: u64,
    /// `None` for files.
    softnet: Option<SoftnetMeter>,
    /// Finds interfaces for spare lanes.
    watch: Option<JoinHandle<()>>,
    missed: Missed,
    /// The evidence of lanes; `None` where nothing is proven.
    proofs: Option<(Sender<ProveEnd>, Receiver<ProveEnd>)>,
    /// Those of the lanes, with their names.
    interfaces: Interfaces,
}

/// The verdict on the packets of an interface.
pub(crate) struct Proven {
    pub(crate) interface: String,
    pub(crate) report: Report,
}

/// The results of the lanes.
pub(crate) struct Ended {
    pub(crate) lanes: Vec<LaneTally>,
    pub(crate) input: Option<InputTally>,
    pub(crate) failure: Option<Error>,
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) below_tap: BelowTap,
    pub(crate) reasons: Reasons,
    pub(crate) proofs: Vec<Proven>,
}

impl Run {
    /// Starts lanes with the caller's outputs, one for each lane by its number. When this returns, every packet that
    /// arrives is captured.
    pub fn start(
        plan: InputPlan,
        stop: Stop,
        mut output: impl FnMut(usize, &Interfaces) -> Box<dyn Output>,
    ) -> Result<Self> {
        let plan = plan.validate()?;
        let described = Declaration::AsDescribed;
        let sources =
            Sources::prepare(&plan, &[], Format::default(), described, &stop)?.open(&plan, &stop)?;
        let end = |lane| LaneEnd { stages: Vec::new(), output: output(lane, &sources.interfaces) };
        let ends = (0..sources.lanes.len()).map(end).collect();
        let mut run = Self::new(&plan, &sources, &stop);
        match run.start_lanes(sources, ends) {
            Ok(()) => Ok(run),
            Err(error) => Err(run.abandon(error)),
        }
    }

    pub(crate) fn new(plan: &InputPlan, sources: &Sources, stop: &Stop) -> Self {
        Self {
            plan: plan.clone(),
            stop: stop.clone(),
            lanes: Vec::new(),
            filters: sources.filters(),
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
    pub(crate) fn start_lanes(&mut self, mut sources: Sources, ends: Vec<LaneEnd>) -> Result<()> {
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
        let (interfaces, is_live, places) = (&sources.interfaces, sources.is_live, self.plan.places());
        for (lane, ((source, mut stages), end)) in sources.lanes.into_iter().zip(stages).zip(ends).enumerate()
        {
            stages.extend(end.stages);
            if let Some((proofs, _)) = &self.proofs {
                let gauges = source.gauges.clone();
                let of = places.get(lane).map(|(interface, _)| *interface);
                let is_alone = places.iter().filter(|(interface, _)| Some(*interface) == of).count() < 2;
                let kind = (is_live, is_alone);
                stages.push(Box::new(Prove::new(lane, interfaces.clone(), kind, gauges, proofs.clone())));
            }
            self.lanes.push(start_lane(source, stages, end.output, &self.stop)?);
        }
        self.watch = watch.map(|watch| watch.start(&self.stop)).transpose()?;
        self.started_ns = steady_ns();
        self.softnet = self.plan.read.is_none().then(SoftnetMeter::open).and_then(|meter| meter.ok());
        Ok(())
    }

    /// Ends the running lanes after the rest of the run could not be started. Nothing has been written yet. The
    /// caller must have dropped everything that the lanes wait for.
    pub(crate) fn abandon(self, error: Error) -> Error {
        self.stop.raise(Reason::Failed(error.to_string()));
        self.lanes.into_iter().for_each(|lane| drop(lane.join()));
        error
    }

    /// Returns whether all lanes have ended.
    pub fn is_over(&self) -> bool {
        self.stop.raised() && self.lanes.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end, after the stop or the end of the input, and returns the ledger.
    pub fn finish(self) -> Ledger {
        let (block_bytes, reason) = (self.plan.block_bytes as u64, self.stop.clone());
        let ended = self.join();
        let written = sum(&ended.lanes, |lane| lane.packed);
        let writer = WriterTally { written, ..WriterTally::default() };
        ended.ledger(&writer, 0, block_bytes, reason.reason())
    }

    pub(crate) fn join(self) -> Ended {
        let (mut tallies, mut input, mut failure) = (BTreeMap::<_, Vec<_>>::new(), None, None);
        let (mut places, interfaces) = (BTreeMap::new(), self.plan.places());
        for (number, lane) in self.lanes.into_iter().enumerate() {
            match join(lane) {
                // A spare lane that was never used.
                Ok(of) if of.lane.interface.is_empty() && self.plan.hotplug.is_some() => {}
                Ok(of) => {
                    // Spare lanes, and that of files, follow, and have an interface each.
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
        reasons.lossy.extend(input.as_ref().and_then(verdict::late));
        Ended { lanes, input, failure, notes, seconds, below_tap, reasons, proofs }
    }
}

/// The interface of a lane, and its drops; those of files are not known.
struct Place {
    /// The same for all lanes of the interface.
    key: (bool, usize),
    interface: String,
    drops: Option<LaneDrops>,
}

impl Place {
    fn of(tally: &SourceTally, key: (bool, usize)) -> Self {
        let LaneTally { interface, nic_dropped, kernel_dropped, .. } = &tally.lane;
        let drops = LaneDrops { interface: *nic_dropped, kernel: *kernel_dropped, ..LaneDrops::default() };
        Self { key, interface: interface.clone(), drops: tally.input.is_none().then_some(drops) }
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
    /// The ledger of a run with one writer, with its sums checked.
    pub(crate) fn ledger(
        mut self,
        writer: &WriterTally,
        buffer_high_bytes: u64,
        block_bytes: u64,
        ended_by: Option<Reason>,
    ) -> Ledger {
        self.reasons.unknown.extend(verdict::unsynced(writer));
        self.reasons.lossy.extend(verdict::removed(writer));
        self.reasons.notes.extend(writer.notes.iter().cloned());
        let mut ledger = Ledger::new(self.lanes.clone(), writer, buffer_high_bytes, block_bytes);
        ledger.seconds = self.seconds;
        // The end of the input may come while what precedes the limit is written.
        ledger.ended_by = writer.limit.clone().or(ended_by);
        ledger.notes = self.notes();
        ledger.notes.extend(ledger.write_failures.iter().map(|failure| format!("writing failed: {failure}")));
        ledger.notes.extend(ended_folders(&ledger));
        ledger.cpu_seconds = cpu_seconds();
        ledger.failure = self.failure(ledger.check());
        ledger.judge(self.reasons);
        (ledger.below_tap, ledger.input) = (self.below_tap, self.input);
        ledger.proof =
            self.proofs.iter().map(|proven| LaneVerdict::new(&proven.interface, &proven.report)).collect();
        ledger
    }

    /// All warnings for the user.
    pub(crate) fn notes(&self) -> Vec<String> {
        let of_input = self.input.iter().flat_map(|input| &input.notes);
        let Reasons { lossy, unknown, notes } = &self.reasons;
        let reasons = lossy.iter().chain(unknown).chain(notes);
        self.notes.iter().chain(reasons).chain(of_input).cloned().collect()
    }

    /// The first failure of the run, of its sums, or of its input. After a failure of the run the sums may differ.
    pub(crate) fn failure(&self, sums: Result<(), String>) -> Option<String> {
        let of_run = self.failure.as_ref().map(Error::to_string);
        let of_input = || self.input.as_ref().and_then(|input| input.failure.clone());
        of_run.or(sums.err()).or_else(of_input)
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

/// The stages of a lane, in the order in which a batch passes them.
fn stages(plan: &InputPlan, sources: &Sources, lane: &LaneSource, mut last: Last) -> Vec<Box<dyn Stage>> {
    let (edit, interfaces) = (&plan.edit, || sources.interfaces.clone());
    let filter = |filter: &FrameFilter| Box::new(Filter::new(filter.clone(), interfaces()));
    let mut stages = selecting(edit, sources);
    if let Some(outer) = &sources.filter {
        stages.push(filter(outer));
    }
    if let Some(decap) = &plan.decap {
        let decap = Decap::new(decap, sources.format, interfaces(), lane.gauges.clone());
        let decap = decap.with_ethernet(edit.ethernet);
        stages.push(Box::new(if lane.hides_gaps { decap.without_gaps() } else { decap }));
    }
    if edit.ethernet {
        stages.push(Box::new(Ethernet::new(interfaces())));
    }
    if let Some(inner) = &sources.inner {
        stages.push(filter(inner));
    }
    if edit.strip_vlan {
        stages.push(Box::new(Untag::new(interfaces())));
    }
    if plan.snaplen < SNAPLEN_MAX {
        stages.push(Box::new(Slice { snaplen: plan.snaplen }));
    }
    stages.extend(edit.dedup.map(|window| Box::new(Dedup::new(window)) as Box<dyn Stage>));
    if edit.duplicates == Some(Duplicates::Remove) {
        stages.extend(last.compare.take().map(|compare| Box::new(compare) as Box<dyn Stage>));
    }
    if edit.shift_ns != 0 {
        stages.push(Box::new(Shift { by_ns: edit.shift_ns }));
    }
    if plan.load != LoadPlan::default() {
        stages.push(Box::new(Load::new(plan.load, SNAPLEN_MAX as usize)));
    }
    stages.extend(numbering(sources, last));
    stages
}

/// The stages that go by the numbers and times of packets in files.
fn selecting(edit: &EditPlan, sources: &Sources) -> Vec<Box<dyn Stage>> {
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    if edit.include.is_some() || edit.exclude.is_some() {
        stages.push(Box::new(Numbered::new(edit.include.clone(), edit.exclude.clone())));
    }
    if edit.from.is_some() || edit.to.is_some() {
        stages.push(Box::new(Window::new(edit.from, edit.to, sources.start_ns)));
    }
    stages
}

/// Stages that come last.
struct Last {
    limit: Option<Limit>,
    compare: Option<Compare>,
}

/// The last stages: what the output cannot hold is dropped before packets are counted, only those that remain are
/// compared with each other, and declare their interfaces.
fn numbering(sources: &Sources, last: Last) -> Vec<Box<dyn Stage>> {
    let (interfaces, mut stages) = (sources.interfaces.clone(), Vec::<Box<dyn Stage>>::new());
    let declares = interfaces.waits_for_packets();
    if declares && sources.format != Format::Pcapng {
        stages.push(Box::new(SingleLink::new(interfaces.clone())));
    }
    stages.extend(last.limit.map(|limit| Box::new(limit) as Box<dyn Stage>));
    stages.extend(last.compare.map(|compare| Box::new(compare) as Box<dyn Stage>));
    if declares {
        stages.push(Box::new(Declare::new(interfaces)));
    }
    stages
}

/// Starts a lane's thread and waits until its source is open.
fn start_lane(
    source: LaneSource,
    stages: Vec<Box<dyn Stage>>,
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
        let tally = lane::read(Lane { source, stages, output, stop: ended.clone(), gauges })?;
        // Keeps the reason of an earlier stop.
        if ends_run {
            ended.raise(Reason::InputEnded);
        }
        Ok(tally)
    })
}

/// Starts the buffer pool: `outputs` of each lane have buffers of their own, and those are ordered by lane.
pub(crate) fn start_pool(
    input: &InputPlan,
    write: &WritePlan,
    outputs: usize,
    stop: &Stop,
) -> Result<(Pool, Vec<LanePool>)> {
    let nodes = nodes(input).into_iter().flat_map(|node| std::iter::repeat_n(node, outputs));
    let nodes: Vec<_> = nodes.collect();
    let pool = PoolPlan {
        buffers: write.buffers(nodes.len()),
        buffer_bytes: write.chunk_bytes,
        shares_percent: if outputs > 1 { OUTPUTS_SHARES_PERCENT } else { LANES_SHARES_PERCENT },
        nodes,
        ready_buffers: 1,
        start_limit: PREFAULT,
        busy_cores: input.cpus().flatten().collect(),
    };
    Pool::start(&pool, stop)
}

/// The NUMA node of each lane: that of its core, where the machine has several.
fn nodes(input: &InputPlan) -> Vec<Option<usize>> {
    let cores = match &input.read {
        Some(read) => vec![read.cpu],
        None => {
            let (cores, last) = (input.cpus(), input.cpus().last().flatten());
            cores.chain(std::iter::repeat(last)).take(input.lanes()).collect()
        }
    };
    let is_pinned = cores.iter().any(Option::is_some);
    let topology = if is_pinned { Topology::here().ok() } else { None };
    cores.into_iter().map(|core| topology.as_ref()?.local_node(core?)).collect()
}

/// A guard that ends the run when its thread panics.
struct Alarm(Stop);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise(Reason::Failed("a thread panicked".into()));
        }
    }
}

/// Starts a thread on its core, and waits until `open` has succeeded there. A failure or a panic of `work` raises the
/// stop.
pub(crate) fn start_thread<T, R: Default + Send + 'static>(
    name: &str,
    stop: &Stop,
    core: Option<usize>,
    open: impl FnOnce() -> Result<T> + Send + 'static,
    work: impl FnOnce(T) -> Result<R> + Send + 'static,
) -> Result<JoinHandle<Result<R>>> {
    let (ready, is_ready) = channel();
    let (alarm, on_failure) = (Alarm(stop.clone()), stop.clone());
    let body = move || {
        let _alarm = alarm;
        let opened = match core.map_or(Ok(()), cpu::pin).map_err(Error::from).and_then(|()| open()) {
            Ok(opened) => opened,
            Err(error) => {
                let _ = ready.send(Err(error));
                return Ok(R::default());
            }
        };
        let _ = ready.send(Ok(()));
        work(opened).inspect_err(|error| on_failure.raise(Reason::Failed(error.to_string())))
    };
    let thread = std::thread::Builder::new().name(name.chars().take(15).collect());
    let thread = thread.spawn(body);
    let thread = thread.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
    is_ready.recv().map_err(|_| Error::Defect("a thread ended at its start".into()))??;
    Ok(thread)
}

pub(crate) fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(Error::Defect("a thread panicked".into())))
}

/// User and system time of this process, s.
pub(crate) fn cpu_seconds() -> f64 {
    // Added as whole µs: a sum of two fractions of a second shows its rounding error in a report.
    let time = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.user_time() + usage.system_time());
    time.map_or(0.0, |time| time.num_microseconds() as f64 / 1e6)
}
