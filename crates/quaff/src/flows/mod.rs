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
mod sinks;

pub use report::{Ended, FlowReport, Ignored};
pub use sinks::{SinkCounters, SinkPlan, SinkReport};

use crate::gauge::{LaneGauges, MeterGauges};
use crate::output::{Meter, MeterEnd};
use crate::plan::InputPlan;
use crate::run::{LaneEnd, Run, join, start_thread};
use crate::source::{Declaration, Sources};
use crate::{Error, Result};
use export::{Exported, Exporter, SharedCounters};
use quaff_file::write::Format;
use quaff_flow::plan::MeterPlan;
use quaff_os::{Stop, Wakeup};
use sinks::{Pressure, Sinks};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// The plan of a run of flow metering.
#[derive(Debug, Clone)]
pub struct FlowsPlan {
    pub input: InputPlan,
    pub meter: MeterPlan,
    /// May be empty: flows are then counted only.
    pub sinks: Vec<SinkPlan>,
}

/// A running meter.
pub struct Flows {
    run: Run,
    exporter: JoinHandle<Result<Exported>>,
    ends: Receiver<MeterEnd>,
    stop: Stop,
    plan: FlowsPlan,
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
        self.input = self.input.validate()?;
        let refuse = |words: &str| Err(Error::Plan(words.into()));
        let MeterPlan { active_ns, idle_ns, flows_max, .. } = self.meter;
        match () {
            () if active_ns == 0 || idle_ns == 0 => refuse("`active` and `idle` must be more than 0"),
            () if flows_max == 0 => refuse("`max-flows` must be at least 1"),
            () => Ok(self),
        }
    }
}

impl Flows {
    /// Starts the lanes and the exporter. When this returns, every packet that arrives is metered.
    pub fn start(plan: FlowsPlan, stop: Stop) -> Result<Self> {
        let plan = plan.validate()?;
        let described = Declaration::AsDescribed;
        let prepared = Sources::prepare(&plan.input, &[], Format::default(), described, &stop)?;
        let is_live = plan.input.read.is_none();
        let pressure = if is_live { Pressure::Drop } else { Pressure::Wait };
        let sinks = Sinks::start(plan.sinks.clone(), pressure, stop.clone())?;
        let sources = prepared.open(&plan.input, &stop)?;
        let (wakeup, (end, ends)) = (Wakeup::new()?, channel());
        let has_tunnels = plan.input.decap.is_some();
        let (mut meters, mut inlets, mut lane_ends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in &sources.lanes {
            let interfaces = sources.interfaces.clone();
            let (meter, inlet) =
                Meter::new(&plan.meter, interfaces, has_tunnels, is_live, wakeup.clone(), end.clone());
            meters.push(meter.gauges());
            inlets.push(inlet);
            lane_ends.push(LaneEnd { stages: Vec::new(), output: Box::new(meter) });
        }
        let (mut run, lanes) = (Run::new(&plan.input, &sources, &stop), sources.gauges());
        let exporter = Exporter::new(inlets, sinks, wakeup);
        let counters = exporter.counters();
        // On failure the exporter is dropped first, so that no lane waits for it.
        let started = run.start_lanes(sources, lane_ends);
        let started = match started {
            Ok(()) => start_thread("quaff-export", &stop, None, || Ok(exporter), Exporter::run),
            Err(error) => {
                drop(exporter);
                Err(error)
            }
        };
        match started {
            Ok(exporter) => {
                let notes = run.notes.clone();
                Ok(Self { run, exporter, ends, stop, plan, lanes, meters, counters, notes })
            }
            Err(error) => Err(run.abandon(error)),
        }
    }

    /// The counters of the sinks, in the order of the plan.
    pub fn sinks(&self) -> Vec<SinkCounters> {
        self.counters.get()
    }

    /// Returns whether all threads have ended. Call it often after the stop.
    pub fn is_over(&self) -> bool {
        self.run.is_over() && self.exporter.is_finished()
    }

    /// Waits for the end, after the stop or the end of the input, and returns the report, which includes a failure.
    pub fn finish(self) -> FlowReport {
        let mut ended = self.run.join();
        let exported = join(self.exporter).unwrap_or_else(|error| {
            ended.failure.get_or_insert(error);
            Exported::default()
        });
        let meters: Vec<_> = self.ends.try_iter().collect();
        let block_bytes = self.plan.input.block_bytes as u64;
        report::sum_up(ended, &meters, exported, block_bytes, self.stop.reason())
    }
}
