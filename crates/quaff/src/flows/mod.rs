//! Flow metering: interfaces or files, a meter for each lane, and sinks for the records.
//!
//! ```text
//!   source → stages → meter ─ lists of records ─ ring →│ exporter → sink: collector, file, …
//!     (lane, one core)  ▲                              │          → sink: a thread each
//!                       └──────── empty lists ─────────┘
//! ```
//!
//! The records of all lanes reach the sinks off the lanes' cores. A slow sink never stops a live lane: what it misses
//! is counted at that sink.

mod export;
mod report;

pub use report::{Ended, FlowReport, Ignored};

use crate::gauge::{LaneGauges, MeterGauges};
use crate::output::{Meter, MeterEnd};
use crate::plan::{InputPlan, SandboxPlan};
use crate::run::{LaneEnd, Run, Setup, Starting, join, start_thread};
use crate::sandbox::{Rights, folders_of};
use crate::{Error, Result};
use export::{Exported, Exporter, SharedCounters};
use quaff_file::Interfaces;
use quaff_file::write::Output;
use quaff_flow::collector::{
    CollectorPlan, InputStart, OpenSinks, Pressure, SinkPlan, SinkReport, SinksPlan, Target, Transport,
};
use quaff_flow::export::Interface;
use quaff_flow::plan::MeterPlan;
use quaff_os::sandbox::{Limits, User};
use quaff_os::{Stop, Wakeup, rtnl};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// Least memory of a table, bytes.
const BYTES_LEAST: u64 = 1 << 20;

/// The plan of a run of flow metering.
pub struct FlowsPlan {
    pub input: InputPlan,
    pub meter: MeterPlan,
    /// May be empty: flows are then counted only. The interfaces are filled in.
    pub sinks: Vec<SinkPlan>,
    /// Collectors get lists of records in turn, instead of all records each.
    pub is_round_robin: bool,
    /// Records that may wait for each sink.
    pub queue_records: usize,
    /// The caller's outputs beside the sinks, and stdout if a sink has it: none of them may be an input.
    pub also_written: Vec<Output>,
    /// The caller draws on its terminal while flows are metered.
    pub draws: bool,
    /// The process drops its capabilities, and all paths and TCP ports but those that it needs, when everything has
    /// started. For a process that does nothing else; `None` keeps them.
    pub sandbox: Option<SandboxPlan>,
    /// The owner of new files, unless the sandbox names a user; `None` is the user of this process.
    pub owner: Option<User>,
}

/// A running meter.
pub struct Flows {
    run: Run,
    exporter: JoinHandle<Result<Exported>>,
    ends: Receiver<MeterEnd>,
    is_round_robin: bool,
    /// The gauges of the lanes and of their meters, in the same order.
    pub lanes: Vec<Arc<LaneGauges>>,
    pub meters: Vec<Arc<MeterGauges>>,
    counters: SharedCounters,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

impl FlowsPlan {
    /// Checks the plan.
    pub fn validate(mut self) -> Result<Self> {
        self.input.keep_together("flow metering")?;
        self.input = self.input.validate()?;
        let refuse = |words: &str| Err(Error::Plan(words.into()));
        let MeterPlan { active_ns, idle_ns, flows_max, bytes_max, .. } = self.meter;
        match () {
            // Sinks learn the numbers of the interfaces when they start, and the sandbox permits no binding.
            () if self.input.hotplug.is_some() => {
                refuse("flows are metered on the interfaces of the start only: leave `hotplug` out")
            }
            () if active_ns == 0 || idle_ns == 0 => refuse("`active` and `idle` must be more than 0"),
            () if bytes_max < BYTES_LEAST => refuse("`max-memory` must be at least 1M"),
            () if flows_max == 0 => refuse("`max-flows` must be at least 1"),
            () => Ok(self),
        }
    }

    /// The files that are written.
    fn files(&self) -> Vec<Output> {
        let path = |sink: &SinkPlan| match sink {
            SinkPlan::File { target: Target::Path(path), .. } => Some(Output::File(path.clone())),
            _ => None,
        };
        self.sinks.iter().filter_map(path).chain(self.also_written.clone()).collect()
    }

    /// The needs of the run after its start, when sockets and files are open; its inputs are added.
    fn limits(&self) -> Limits {
        let collectors = self.sinks.iter().filter_map(|sink| match sink {
            SinkPlan::Collector(collector) => Some(&**collector),
            SinkPlan::File { .. } | SinkPlan::Store { .. } | SinkPlan::Memory { .. } => None,
        });
        let stores = self.sinks.iter().filter_map(|sink| match sink {
            SinkPlan::Store { store, .. } => Some(store.folder()),
            _ => None,
        });
        let spools =
            collectors.clone().filter_map(|plan| plan.spool.as_ref().map(|spool| spool.folder.clone()));
        let is_datagram = |plan: &CollectorPlan| plan.url.transport == Transport::Udp;
        Limits {
            write: spools.chain(stores.clone()).chain(folders_of(&self.also_written)).collect(),
            make_folders: stores.collect(),
            connect: collectors.clone().filter(|plan| !is_datagram(plan)).map(|plan| plan.url.port).collect(),
            sends_datagrams: collectors.clone().any(is_datagram),
            draws: self.draws,
            ..Limits::default()
        }
    }
}

impl Flows {
    /// Starts the lanes and the exporter. When this returns, every packet that arrives is metered.
    pub fn start(plan: FlowsPlan, stop: Stop) -> Result<Self> {
        let plan = plan.validate()?;
        let (files, limits) = (plan.files(), plan.limits());
        refuse_one_file_twice(&files)?;
        let FlowsPlan { input, meter, mut sinks, is_round_robin, queue_records, sandbox, owner, .. } = plan;
        let rights = Rights { sandbox: sandbox.as_ref(), owner: owner.as_ref(), ..Rights::default() };
        let setup = Setup { rights, limits, ..Setup::new(input, &files) };
        let starting = Starting::prepare(setup, &stop)?;
        if let Some(interfaces) = starting.interfaces() {
            describe(&mut sinks, interfaces);
        }
        let is_live = starting.interfaces().is_some();
        let pressure = if is_live { Pressure::Drop } else { Pressure::Wait(stop.clone()) };
        let shared = SinksPlan { pressure, is_round_robin, queue_records, is_prompt: !starting.is_at_once() };
        let sinks = starting.as_user(|| Ok(OpenSinks::open(sinks, shared)?))?;
        let ready = starting.open()?;
        let sources = &ready.sources;
        // Before the first packet: some collectors take a time of 0 ms since the start for none.
        let boot_ns = Some(sources.start_ns.saturating_sub(1_000_000_000));
        let sinks = sinks.start(InputStart { now_ns: sources.start_ns, boot_ns })?;
        let (wakeup, (end, ends)) = (Wakeup::new()?, channel());
        let (mut meters, mut inlets, mut lane_ends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in &sources.lanes {
            let interfaces = sources.interfaces.clone();
            let kind = (sources.is_live, sources.is_at_once);
            let (output, inlet) = Meter::new(&meter, interfaces, kind, wakeup.clone(), end.clone());
            meters.push(output.gauges());
            inlets.push(inlet);
            let front = output.front();
            lane_ends.push(LaneEnd { front, ..LaneEnd::of(output) });
        }
        let exporter = Exporter::new(inlets, sinks, meters.clone(), wakeup, stop.clone(), is_live);
        let counters = exporter.counters();
        // Its thread starts last: until it runs, its sinks leave their files as they were.
        let export = || start_thread("quaff-export", &stop, None, || Ok(exporter), Exporter::run);
        let (run, exporter) = ready.start(lane_ends, export)?;
        let (lanes, notes) = (run.lanes.clone(), run.notes.clone());
        Ok(Self { run, exporter, ends, is_round_robin, lanes, meters, counters, notes })
    }

    /// The counters of the sinks, in the order of the plan.
    pub fn sinks(&self) -> Vec<SinkReport> {
        self.counters.get()
    }

    /// Returns whether all threads have ended. Call it often after the stop.
    pub fn is_over(&self) -> bool {
        self.run.is_over() && self.exporter.is_finished()
    }

    /// Waits for the end, after the stop or the end of the input, and returns the report, which includes a failure.
    pub fn finish(self) -> FlowReport {
        let mut ended = self.run.join().with_unknown_links();
        let exported = join(self.exporter).unwrap_or_else(|error| {
            ended.failure.get_or_insert(error);
            Exported::default()
        });
        let meters: Vec<_> = self.ends.try_iter().collect();
        let end = report::FlowsEnd { run: ended, meters, sinks: exported.sinks };
        report::sum_up(end, self.is_round_robin)
    }
}

/// Refuses a file that two outputs would write.
fn refuse_one_file_twice(outputs: &[Output]) -> Result<()> {
    let mut known = Vec::new();
    for path in outputs.iter().map(|output| match output {
        Output::Stdout => Path::new("/dev/stdout"),
        Output::File(path) => path.as_path(),
        _ => Path::new(""),
    }) {
        let place = match path.metadata() {
            Ok(meta) if meta.is_file() => Place::Known(meta.dev(), meta.ino()),
            // A device or a pipe takes the bytes of both.
            Ok(_) => continue,
            Err(_) => Place::New(std::path::absolute(path).unwrap_or_default()),
        };
        if !path.as_os_str().is_empty() && known.contains(&place) {
            let words = format!("{} would be written twice at once: give another file", path.display());
            return Err(Error::Plan(words));
        }
        known.push(place);
    }
    Ok(())
}

/// The identity of a file.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Device and inode.
    Known(u64, u64),
    New(PathBuf),
}

/// Fills in the interfaces.
fn describe(sinks: &mut [SinkPlan], interfaces: &Interfaces) {
    let interfaces = indexed(interfaces);
    for sink in sinks {
        let scene = match sink {
            SinkPlan::Collector(collector) => &mut collector.scene,
            SinkPlan::File { scene, .. } | SinkPlan::Store { scene, .. } => scene,
            SinkPlan::Memory { .. } => continue,
        };
        scene.interfaces.clone_from(&interfaces);
    }
}

/// The interfaces with the numbers that the kernel has for them.
fn indexed(interfaces: &Interfaces) -> Vec<Interface> {
    let known = (0..interfaces.count() as u16).map_while(|number| interfaces.get(number));
    known
        .map(|known| {
            let index = rtnl::link(&known.name).map_or(0, |link| link.index);
            Interface { index, name: known.name, description: known.description }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HotplugPlan;
    use quaff_flow::collector::{CollectorPlan, FlowSum, RecordStore, SpoolPlan, StoreOutcome};
    use quaff_flow::export::{EncoderPlan, Scene, Version};
    use quaff_flow::ledger::FlowLedger;
    use quaff_flow::record::FlowRecord;

    struct Folder;

    impl RecordStore for Folder {
        fn kind(&self) -> &'static str {
            "folder"
        }
        fn folder(&self) -> PathBuf {
            "/store".into()
        }
        fn open(&mut self, _scene: Scene) -> quaff_os::Result<()> {
            Ok(())
        }
        fn take(&mut self, _records: &[FlowRecord], _now_ns: u64) -> StoreOutcome {
            StoreOutcome::default()
        }
        fn tick(&mut self) -> StoreOutcome {
            StoreOutcome::default()
        }
        fn ledger(&mut self, _ledger: &FlowLedger) {}
        fn missed(&mut self, _missed: FlowSum) {}
        fn finish(&mut self) -> StoreOutcome {
            StoreOutcome::default()
        }
    }

    fn plan(sinks: Vec<SinkPlan>) -> FlowsPlan {
        FlowsPlan {
            input: InputPlan::files(["/in/a.pcap".into(), "-".into()]),
            meter: MeterPlan::default(),
            sinks,
            is_round_robin: false,
            queue_records: 1,
            also_written: vec![Output::File("/ledger/file".into())],
            draws: false,
            sandbox: None,
            owner: None,
        }
    }

    #[test]
    fn folders_are_made_in_a_store_only() {
        let url = "tcp://10.0.0.1:4739".parse().unwrap();
        let mut collector = CollectorPlan::new(url, EncoderPlan::new(Version::Ipfix));
        collector.spool = Some(SpoolPlan { folder: "/spool".into(), bytes_max: 1 << 20 });
        let store = SinkPlan::Store { store: Box::new(Folder), scene: Scene::default() };
        let limits = plan(vec![SinkPlan::Collector(Box::new(collector)), store]).limits();
        assert_eq!(limits.write, ["/spool", "/store", "/ledger"].map(PathBuf::from));
        assert_eq!(limits.make_folders, [PathBuf::from("/store")]);
        assert_eq!((limits.connect, limits.binds), (vec![4739], false));
    }

    #[test]
    fn interfaces_that_come_later_are_refused() {
        let hotplug = |hotplug| {
            let input = InputPlan { hotplug, ..InputPlan::live(["lo".to_owned()]) };
            FlowsPlan { input, ..plan(Vec::new()) }.validate().err().map(|error| error.to_string())
        };
        assert_eq!(hotplug(None), None);
        let error = hotplug(Some(HotplugPlan { names: vec!["any".into()], lanes: 1 })).unwrap_or_default();
        assert!(error.contains("`hotplug`"), "{error}");
    }
}
