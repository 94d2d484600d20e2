//! A trial (RFC 2544 §23): sends frames of several streams from one interface to another, and determines the fate of
//! each by sequence number and time.
//!
//! ```text
//!   sender (a core)                        path                        meter (a core)
//!   streams, each with a schedule ──→ from ══════════════ to ──→ kernel ring ──→ statistics of each stream
//!     probe header: stream, number, time sent         time received: the kernel's, or the card's
//! ```
//!
//! Both directions of a path are two of these at the same time. The caller selects and judges trials; nothing is
//! printed.

mod arp_responder;
mod board;
mod delay_variation;
mod ends;
mod error;
mod filter;
mod meter;
mod plan;
mod report;
mod rx_stats;
mod schedule;
mod sender;
mod tally;
#[cfg(test)]
mod tests;
mod tx_log;
mod window;

use arp_responder::ArpResponder;
use board::{Begin, Board, Done, LaneBoard, START_NS};
use ends::Ends;
use meter::{Arrivals, Meter};
use quaff_os::clock::{steady_ns, wall_ns};
use quaff_os::{cpu, spawn_in};
use rx_stats::RxStats;
use sender::{Sender, SentStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use tally::Seconds;
use tx_log::TxLog;

pub(crate) use error::TrialError;
pub use plan::PathEnd;
pub use report::Delays;

pub(crate) use plan::{Direction, Length, Phase, Route, StreamPlan, TrialPlan};
pub(crate) use report::{DirectionReport, StreamReport, TrialReport};
pub(crate) use tally::Tally;

const START_STREAM_NS: u64 = 2_000_000;
/// Polling interval for the end of the threads.
const LOOK: Duration = Duration::from_millis(10);
/// Interval at which the watcher is called, ns.
const WATCH_NS: u64 = 100_000_000;

/// Progress of a trial, summed over both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Progress {
    /// Elapsed time, s.
    pub(crate) elapsed_s: f64,
    /// Frames that the kernel accepted.
    pub(crate) sent: u64,
    /// Frames that arrived, without duplicates.
    pub(crate) received: u64,
}

/// A direction and the data that its threads share.
struct Lane<'a> {
    plan: &'a Direction,
    logs: Vec<TxLog>,
    board: LaneBoard,
}

/// Result of a sender: the sent frames of each stream, and the largest lateness, ns.
type SendResult = quaff_os::Result<(Vec<SentStream>, u64)>;

/// The two threads of a direction.
struct Threads<'scope, 'a> {
    sender: ScopedJoinHandle<'scope, SendResult>,
    meter: ScopedJoinHandle<'scope, Result<Arrivals<'a>, TrialError>>,
}

/// Runs a trial. `watch` is called about ten times a second; `false` stops sending early, and the report covers what
/// was sent until then.
///
/// # Errors
/// An invalid plan, an unusable interface, or an error of the kernel during the trial.
pub(crate) fn run(
    plan: &TrialPlan,
    mut watch: impl FnMut(&Progress) -> bool,
) -> Result<TrialReport, TrialError> {
    plan.check()?;
    let ends =
        plan.directions.iter().map(|direction| Ends::open(plan, direction)).collect::<Result<Vec<_>, _>>()?;
    let log = |stream: &StreamPlan| TxLog::new(stream.phases.len(), stream.frames());
    let lane =
        |plan| Lane { plan, logs: plan.streams.iter().map(log).collect(), board: LaneBoard::default() };
    let lanes: Vec<_> = plan.directions.iter().map(lane).collect();
    let board = Board::default();
    let streams: usize = lanes.iter().map(|lane| lane.logs.len()).sum();
    let start_ns = START_NS + START_STREAM_NS * streams as u64;
    let begin = Begin { steady_ns: steady_ns() + start_ns, wall_ns: wall_ns() + start_ns };
    std::thread::scope(|scope| {
        let (mut threads, mut responders) = (Vec::new(), Vec::new());
        for (lane, mut ends) in lanes.iter().zip(ends) {
            responders.append(&mut ends.responders);
            let (tx, sender, meter) = lane.prepare(plan, ends, begin, &board);
            let (tx_core, rx_core) = (lane.plan.tx_core, lane.plan.rx_core);
            let board = &board;
            let meter = spawn_in(scope, "quaff-meter", move || {
                on(rx_core, || meter.run()).inspect_err(|_| board.fail())
            })
            .inspect_err(|_| board.fail())?;
            let sender = spawn_in(scope, "quaff-sender", move || {
                let _done = Done(&lane.board);
                on(tx_core, || sender.run(tx)).inspect_err(|_| board.fail())
            })
            .inspect_err(|_| board.fail())?;
            threads.push(Threads { sender, meter });
        }
        let interrupted = supervise(&lanes, &threads, responders, (&board, begin), &mut watch);
        // All threads are joined before an error is returned.
        let reports: Vec<_> = lanes.iter().zip(threads).map(|(lane, threads)| lane.report(threads)).collect();
        Ok(TrialReport { directions: reports.into_iter().collect::<Result<_, _>>()?, interrupted })
    })
}

impl<'a> Lane<'a> {
    fn prepare(
        &'a self,
        plan: &TrialPlan,
        ends: Ends,
        begin: Begin,
        board: &'a Board,
    ) -> (quaff_send::Transmitter, Sender<'a>, Meter<'a>) {
        let by = plan.is_by_second.then(|| Seconds::new(begin.wall_ns, plan.seconds()));
        let mut sender = Sender::new(begin, by, board, &self.board);
        let mut arrivals = Arrivals::default();
        for (at, ((plan, log), frames)) in
            self.plan.streams.iter().zip(&self.logs).zip(ends.frames).enumerate()
        {
            sender.add(plan, log, frames, at as f64 / self.logs.len() as f64);
            arrivals.streams.push(RxStats::new(plan, log, begin.wall_ns, by));
        }
        let meter = Meter {
            source: ends.source,
            begun_ns: begin.wall_ns,
            residual_ns: (plan.residual_s * 1e9) as u64,
            board,
            lane: &self.board,
            arrivals,
        };
        (ends.tx, sender, meter)
    }

    /// Joins both threads and their results.
    fn report(&self, threads: Threads<'_, '_>) -> Result<DirectionReport, TrialError> {
        let (sent, arrivals) = (join(threads.sender), join(threads.meter));
        let ((sent, late_max_ns), arrivals) = (sent?, arrivals?);
        let streams = arrivals.streams.into_iter().zip(&sent).map(|(stats, sent)| stats.finish(sent));
        Ok(DirectionReport {
            streams: streams.collect::<Result<_, _>>().map_err(TrialError::Sums)?,
            tx_clock: "user space, before the call".to_owned(),
            rx_clock: if arrivals.is_hardware_timed { "hardware" } else { "kernel" }.to_owned(),
            foreign: arrivals.foreign,
            corrupt: arrivals.corrupt,
            meter_dropped: arrivals.meter_dropped,
            nic_dropped: arrivals.nic_dropped,
            late_max_ns,
        })
    }
}

/// Joins a thread; resumes its panic.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `work` on a core, with a raised priority if permitted.
fn on<T, E: From<quaff_os::Error>>(core: Option<usize>, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    core.map_or(Ok(()), cpu::pin)?;
    cpu::raise_priority();
    work()
}

/// Waits until all threads have ended. Returns true if the trial was stopped early.
fn supervise(
    lanes: &[Lane<'_>],
    threads: &[Threads<'_, '_>],
    mut responders: Vec<ArpResponder>,
    (board, begin): (&Board, Begin),
    watch: &mut impl FnMut(&Progress) -> bool,
) -> bool {
    let is_running =
        |threads: &Threads<'_, '_>| !threads.sender.is_finished() || !threads.meter.is_finished();
    let sum = |count: fn(&LaneBoard) -> &AtomicU64| {
        lanes.iter().map(|lane| count(&lane.board).load(Ordering::Relaxed)).sum()
    };
    let is_sending = || lanes.iter().any(|lane| lane.board.done_ns.load(Ordering::Relaxed) == 0);
    let (mut interrupted, mut watch_ns) = (false, 0);
    while threads.iter().any(is_running) {
        responders.iter_mut().for_each(ArpResponder::respond);
        let now_ns = steady_ns();
        if now_ns >= watch_ns {
            watch_ns = now_ns + WATCH_NS;
            let progress = Progress {
                elapsed_s: now_ns.saturating_sub(begin.steady_ns) as f64 / 1e9,
                sent: sum(|lane| &lane.sent),
                received: sum(|lane| &lane.received),
            };
            if !watch(&progress) && is_sending() {
                interrupted = true;
                board.stopped.store(true, Ordering::Relaxed);
            }
        }
        std::thread::sleep(LOOK);
    }
    interrupted
}
