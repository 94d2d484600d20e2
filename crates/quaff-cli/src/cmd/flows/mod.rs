//! `quaff flows`: meters flows and exports them, or shows them. It never meters or encodes itself.

mod args;
mod breakdown;
mod incidents;
pub(super) mod input;
mod parquet;
mod report;
mod sinks;
mod sums;
mod top;

pub(crate) use args::Args;
use args::FlowsCommand;

use crate::exit::Exit;
use crate::shell::{Incident, Part, Product, ReadProgress, Settings, Shell};
use crate::show::message;
use anyhow::ensure;
use incidents::Incidents;
use quaff::LaneGauges;
use quaff::flows::{FlowReport, Flows, FlowsPlan};
use quaff_flow::collector::SinkReport;
use quaff_flow::ledger::FlowLedger;
use quaff_os::was_stdout_closed;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval of looks at a running meter.
const LOOK: Duration = Duration::from_millis(250);

/// The counters of a running meter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Packets that were metered or ignored.
    pub(crate) packets: u64,
    /// Bytes on the wire of the packets that were received.
    pub(crate) bytes: u64,
    /// Records that have left the table, and of those what sinks have missed.
    pub(crate) exported: Totals,
    pub(crate) missed: Totals,
    /// Records that sinks have sent.
    pub(crate) sent: Totals,
    /// Flows in the table, and the most so far.
    pub(crate) active: u64,
    pub(crate) allocated: u64,
    /// Fragments that wait for their first one.
    pub(crate) fragments: u64,
    /// Flows that ended because the table was full.
    pub(crate) evicted: u64,
    /// Records that wait for the sink with the most, and places for them.
    pub(crate) queued: u64,
    pub(crate) queue_max: u64,
    /// The most places of the table that were looked at for a packet.
    pub(crate) probes_max: u64,
    /// Packets that the lanes received, and that the kernel and the interfaces dropped.
    pub(crate) received: u64,
    pub(crate) dropped: u64,
    /// The run has ended.
    pub(crate) is_last: bool,
}

/// Flows, and the packets and IP bytes in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) flows: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Receives the progress of a run.
pub(crate) type Look<'a> = &'a mut dyn FnMut(&Progress);

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        None => run_with(args, true, &mut |_| {}),
        Some(FlowsCommand::Top(args)) => top::run(args),
        Some(FlowsCommand::Report(args)) => breakdown::run(args),
    }
}

/// Runs the meter for another command line too: `look` receives the progress. `has_line`: a progress line may be drawn.
pub(crate) fn run_with(args: &Args, has_line: bool, look: Look<'_>) -> anyhow::Result<Exit> {
    check_stdout(args)?;
    let plan = args.plan()?.validate()?;
    let mut settings = args.settings();
    settings.has_line &= has_line;
    if args.watch.quiet == 0 {
        args.notes(&plan.meter).for_each(|note| message(&note));
    }
    let report = meter(plan, settings, look)?;
    report::print(&report, args)?;
    Ok(Exit::of(&report))
}

/// Meters until the end of the input, of the duration, or a signal.
fn meter(plan: FlowsPlan, settings: Settings, look: Look<'_>) -> anyhow::Result<FlowReport> {
    let plan = plan.validate()?;
    let mut shell = Shell::new(settings)?;
    let (is_live, read) = (plan.input.read.is_none(), ReadProgress::new(&plan.input));
    let flows = shell.start(|stop| Flows::start(plan, stop))?;
    shell.notes(&flows.notes);
    shell.begun(is_live);
    shell.run(Running { flows, line: report::Line::new(read), incidents: Incidents::default(), shown: look })
}

/// Refuses a stdout that records cannot go to: one that was closed, or a terminal for bytes.
fn check_stdout(args: &Args) -> anyhow::Result<()> {
    let is_closed = (args.takes_stdout() || args.sinks.prints_json()) && was_stdout_closed();
    ensure!(!is_closed, "stdout is closed: name a file instead of '-', or use a pipe");
    let is_binary = args.sinks.has_binary_stdout() && std::io::stdout().is_terminal();
    ensure!(!is_binary, "stdout is a terminal, and IPFIX is not text: name a file, or use a pipe");
    Ok(())
}

/// A meter, as the shell watches it.
struct Running<'a> {
    flows: Flows,
    line: report::Line,
    incidents: Incidents,
    shown: Look<'a>,
}

impl Product for Running<'_> {
    const LOSS: &'static str = "flows in the table are not exported";
    type Report = FlowReport;

    fn is_over(&self) -> bool {
        self.flows.is_over()
    }

    fn finish(self) -> FlowReport {
        let mut last = progress(&self.flows);
        let report = self.flows.finish();
        last.end(&report);
        (self.shown)(&last);
        report
    }

    fn progress(&mut self) -> Vec<Part> {
        let now = progress(&self.flows);
        self.line.parts(&self.flows, &now)
    }

    fn look(&mut self, is_ending: bool) -> Vec<Incident> {
        (self.shown)(&progress(&self.flows));
        self.incidents.look(&self.flows.sinks(), is_ending, Instant::now())
    }

    fn look_interval(&self) -> Duration {
        LOOK
    }
}

/// The counters of a running meter, of all lanes and sinks.
fn progress(flows: &Flows) -> Progress {
    let of_lanes = |of: fn(&LaneGauges) -> u64| flows.lanes.iter().map(|lane| of(lane)).sum::<u64>();
    let ledger: FlowLedger = flows.meters.iter().map(|meter| meter.ledger()).sum();
    let sinks = flows.sinks();
    let of_sinks = |of: fn(&SinkReport) -> u64| sinks.iter().map(of).sum::<u64>();
    let most = |of: fn(&SinkReport) -> u64| sinks.iter().map(of).max().unwrap_or(0);
    let not_queued: u64 = flows.meters.iter().map(|meter| meter.missed.get()).sum();
    Progress {
        packets: ledger.seen.packets,
        bytes: of_lanes(|lane| lane.wire_bytes.get()),
        exported: Totals {
            flows: ledger.flows_exported(),
            packets: ledger.exported.packets,
            bytes: ledger.exported.bytes,
        },
        missed: Totals {
            flows: of_sinks(|sink| sink.missed.total().records) + not_queued,
            packets: of_sinks(|sink| sink.missed.total().packets),
            bytes: of_sinks(|sink| sink.missed.total().bytes),
        },
        sent: Totals {
            flows: of_sinks(|sink| sink.sent.records),
            packets: of_sinks(|sink| sink.sent.packets),
            bytes: of_sinks(|sink| sink.sent.bytes),
        },
        active: ledger.flows_live,
        allocated: ledger.flows_high,
        fragments: ledger.held.packets,
        evicted: ledger.flows_by_reason[5],
        queued: most(|sink| sink.queued),
        queue_max: most(|sink| sink.queue_max),
        probes_max: ledger.probes_max,
        received: of_lanes(|lane| lane.received.get()),
        dropped: of_lanes(|lane| lane.nic_dropped.get() + lane.kernel_dropped.get()),
        is_last: false,
    }
}
