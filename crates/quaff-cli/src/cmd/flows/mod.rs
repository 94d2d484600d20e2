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

use crate::cmd::receiving::{self, Asked, LOOK_END, ReadProgress};
use crate::exit::Exit;
use crate::show::{self, LiveLine, message, say};
use anyhow::ensure;
use incidents::Incidents;
use quaff::LaneGauges;
use quaff::flows::{FlowReport, Flows, FlowsPlan};
use quaff::plan::InputPlan;
use quaff_flow::collector::SinkReport;
use quaff_flow::ledger::FlowLedger;
use quaff_os::{Reason, Signal, Signals, Stop, Wakeup, was_stdout_closed};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval of looks at a running meter.
const LOOK: Duration = Duration::from_millis(250);
/// Interval of the progress line on a terminal.
const DRAW: Duration = Duration::from_millis(500);

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

/// Output and end of a run.
#[derive(Debug, Clone, Copy, Default)]
struct Pulse {
    /// 1: only errors and "capturing", 2: only errors.
    quiet: u8,
    /// A progress line is drawn.
    has_line: bool,
    duration: Option<Duration>,
    /// Interval of progress lines without a terminal.
    stats: Option<Duration>,
    /// There is no sink.
    counts_only: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        None => run_with(args, std::io::stderr().is_terminal() && args.quiet == 0, &mut |_| {}),
        Some(FlowsCommand::Top(args)) => top::run(args),
        Some(FlowsCommand::Report(args)) => breakdown::run(args),
    }
}

/// Runs the meter for another command line too: `look` receives the progress. `has_line`: a progress line is drawn.
pub(crate) fn run_with(args: &Args, has_line: bool, look: &mut dyn FnMut(&Progress)) -> anyhow::Result<Exit> {
    check_stdout(args)?;
    let plan = args.plan()?.validate()?;
    if let Some(note) = args.note(&plan.meter).filter(|_| args.quiet == 0) {
        message(&note);
    }
    let Some(report) = meter(plan, args.pulse(has_line), look)? else { return Ok(Exit::Failed) };
    report::print(&report, args)?;
    Ok(report::exit(&report))
}

/// Meters until the end of the input, of the duration, or a signal. `None`: a signal ended the start.
fn meter(
    plan: FlowsPlan,
    pulse: Pulse,
    look: &mut dyn FnMut(&Progress),
) -> anyhow::Result<Option<FlowReport>> {
    let plan = plan.validate()?;
    let (signals, stop) = (receiving::signals(&[Signal::SIGUSR1])?, Stop::default());
    let input = plan.input.clone();
    let start = |stop| Flows::start(plan, stop);
    let started = receiving::start(&signals, &stop, start)?;
    let Some(flows) = started else { return Ok(None) };
    greet(pulse, &input, &flows);
    watch(pulse, &input, &flows, (&signals, &stop), look)?;
    let mut last = progress(&flows);
    let report = flows.finish();
    last.end(&report);
    look(&last);
    Ok(Some(report))
}

/// Refuses a stdout that records cannot go to: one that was closed, or a terminal for bytes.
fn check_stdout(args: &Args) -> anyhow::Result<()> {
    let is_closed = args.takes_stdout() && was_stdout_closed();
    ensure!(!is_closed, "stdout is closed: name a file instead of '-', or use a pipe");
    let is_binary = args.sinks.has_binary_stdout() && std::io::stdout().is_terminal();
    ensure!(!is_binary, "stdout is a terminal, and IPFIX is not text: name a file, or use a pipe");
    Ok(())
}

fn greet(pulse: Pulse, input: &InputPlan, flows: &Flows) {
    if pulse.quiet == 0 {
        flows.notes.iter().for_each(|note| message(note));
        if pulse.counts_only {
            message("no collector and no file is named: flows are counted only");
        }
    }
    if input.read.is_none() && pulse.quiet < 2 {
        // Scripts wait for this word: from now on every packet is metered.
        say("capturing");
    }
}

/// Waits for the end: a signal, the duration, or the meter itself.
fn watch(
    pulse: Pulse,
    input: &InputPlan,
    flows: &Flows,
    (signals, stop): (&Signals, &Stop),
    look: &mut dyn FnMut(&Progress),
) -> anyhow::Result<()> {
    let started = Instant::now();
    let ending = Wakeup::new()?;
    stop.wake(ending.clone());
    let (mut asked, read) = (Asked::new(stop), ReadProgress::new(input));
    let live = LiveLine { is_live: pulse.has_line };
    let mut incidents = Incidents::default();
    let (mut line, mut drawn, mut printed) = (report::Line::new(read), started, started);
    while !flows.is_over() {
        let left = pulse.duration.map_or(LOOK, |time| time.saturating_sub(started.elapsed()).min(LOOK));
        let wait = if stop.raised() { LOOK_END } else { left };
        let heard = signals.next_or(&ending, wait)?.map(|heard| heard.signal);
        let now = progress(flows);
        look(&now);
        for incident in incidents.look(&flows.sinks(), stop.raised(), Instant::now()) {
            if incident.is_severe || pulse.quiet == 0 {
                live.draw("");
                show::incident(&incident.words);
            }
        }
        match heard {
            Some(Signal::SIGUSR1) => live.print(&show::joined(&line.parts(flows, &now))),
            Some(signal) if asked.is_second(signal, stop) => {
                live.draw("");
                message("ended immediately; flows in the table are not exported");
                show::close();
                std::process::exit(2);
            }
            _ => {}
        }
        if !stop.raised() && pulse.duration.is_some_and(|duration| started.elapsed() >= duration) {
            stop.raise(Reason::Duration);
        }
        if pulse.stats.is_some_and(|each| printed.elapsed() >= each) {
            printed = Instant::now();
            live.print(&show::joined(&line.parts(flows, &now)));
        }
        if live.is_live && drawn.elapsed() >= DRAW {
            drawn = Instant::now();
            live.draw_parts(&line.parts(flows, &now));
        }
        ending.clear();
    }
    live.draw("");
    Ok(())
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
