//! A trial (RFC 2544 §23): frames of several streams at once from one interface to another, and what became of
//! each of them, by sequence number and by time.
//!
//! ```text
//!   sender (a core)                        path                        meter (a core)
//!   streams, each with its pace ──→ from ═══════════════ to ──→ kernel ring ──→ a book for each stream
//!        mark: stream, number, time sent               time received: the kernel's, or the card's
//! ```
//!
//! A path of both directions is two of these at the same time. What a trial means, and which trials to make, is
//! nothing of this room; it prints nothing.

mod arp_responder;
mod delay_variation;
mod ends;
mod filter;
mod meter;
pub mod plan;
pub mod report;
mod rx_stats;
mod schedule;
mod sender;
mod tally;
mod tx_log;
mod window;

use arp_responder::ArpResponder;
use ends::{Ends, planned_s};
use meter::{Meter, Metered};
use plan::{Direction, PlanError, TrialPlan};
use quaff_os::clock::{steady_ns, wall_ns};
use quaff_os::cpu;
use quaff_send::SendError;
use report::{DirectionReport, TrialReport};
use rx_stats::RxStats;
use sender::{Sender, SentStream, Template};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use tally::Seconds;
use tx_log::TxLog;

/// All threads are there by then, ns: so long, and longer for each stream, whose memory is touched.
const START_NS: u64 = 20_000_000;
const START_STREAM_NS: u64 = 2_000_000;
/// How soon the end of a trial is noticed.
const LOOK: Duration = Duration::from_millis(10);
/// How often the watcher is asked, ns.
const WATCH_NS: u64 = 100_000_000;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The plan asks for what cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An interface that cannot be used.
    #[error(transparent)]
    Interface(#[from] SendError),
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The meter's ring failed.
    #[error(transparent)]
    Ring(#[from] quaff::Error),
    /// It has no clock of its own.
    #[error("{0} does not stamp the frames that it receives ('ethtool -T {0}'); the kernel can")]
    Clock(String),
    /// An end needs an address that nobody has.
    #[error(
        "{ip} is an address of the machine itself, as seen from {interface}: a test needs one that nobody has"
    )]
    Taken {
        /// The address.
        ip: Ipv4Addr,
        /// The end.
        interface: String,
    },
    /// No frame can be sent to it.
    #[error("no router answers for {gateway} at {interface}: is that its address there, and is it up?")]
    Silent {
        /// Who was asked for.
        gateway: Ipv4Addr,
        /// Where.
        interface: String,
    },
    /// It went away for good while it was needed.
    #[error("{0} went away in the middle of a trial")]
    Gone(String),
    /// More came than was sent.
    #[error("the sums do not hold: {0}; does another trial with the same ids send to this interface?")]
    Sums(String),
}

impl From<TrialError> for quaff_lab::Error {
    fn from(error: TrialError) -> Self {
        Self::Service(error.to_string())
    }
}

/// How far a trial is, both directions together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Since the first frame was due, s.
    pub elapsed_s: f64,
    /// Frames that the kernel took.
    pub sent: u64,
    /// Different frames that arrived.
    pub received: u64,
}

/// What all threads look at.
#[derive(Default)]
struct Board {
    /// Nothing more is to be sent. Nothing is published through it.
    stopped: AtomicBool,
    /// What is still on its way is not waited for: a thread has failed.
    abandoned: AtomicBool,
}

/// What the threads of one direction show each other and the watching one.
#[derive(Default)]
struct LaneBoard {
    sent: AtomicU64,
    received: AtomicU64,
    /// When the sender had nothing more to send, CLOCK_MONOTONIC ns; 0 before that.
    done_ns: AtomicU64,
}

impl Board {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Ends all threads soon.
    fn fail(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl LaneBoard {
    fn is_done(&self) -> bool {
        self.done_ns.load(Ordering::Relaxed) > 0
    }
}

/// Tells the meter that its sender has ended, whatever it ended of.
struct Done<'a>(&'a LaneBoard);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done_ns.store(steady_ns(), Ordering::Release);
    }
}

/// A direction with what its threads share.
struct Lane<'a> {
    plan: &'a Direction,
    logs: Vec<TxLog>,
    board: LaneBoard,
}

/// What the sender of a direction comes to: each stream's share, and the longest lateness, ns.
type SendResult = quaff_os::Result<(Vec<SentStream>, u64)>;

/// The two threads of a direction.
struct Threads<'scope, 'a> {
    sender: ScopedJoinHandle<'scope, SendResult>,
    meter: ScopedJoinHandle<'scope, Result<Metered<'a>, TrialError>>,
}

/// When a trial begins, by both clocks.
#[derive(Clone, Copy)]
struct Begin {
    steady_ns: u64,
    wall_ns: u64,
}

/// Makes a trial. `watch` is called about ten times a second; `false` ends the sending early, and the report is of
/// what was sent until then.
///
/// # Errors
/// A plan or an interface that will not do, and what the kernel refuses meanwhile.
pub fn run(plan: &TrialPlan, mut watch: impl FnMut(&Progress) -> bool) -> Result<TrialReport, TrialError> {
    plan.check()?;
    let ends =
        plan.directions.iter().map(|direction| Ends::open(plan, direction)).collect::<Result<Vec<_>, _>>()?;
    let lanes: Vec<_> = plan.directions.iter().map(Lane::new).collect();
    let board = Board::default();
    let streams: usize = lanes.iter().map(|lane| lane.logs.len()).sum();
    let start_ns = START_NS + START_STREAM_NS * streams as u64;
    let begin = Begin { steady_ns: steady_ns() + start_ns, wall_ns: wall_ns() + start_ns };
    std::thread::scope(|scope| {
        let (mut threads, mut teachers) = (Vec::new(), Vec::new());
        for (lane, ends) in lanes.iter().zip(ends) {
            let (sender, meter, taught_by) = lane.prepare(plan, ends, begin, &board);
            teachers.extend(taught_by);
            let (tx_core, rx_core) = (lane.plan.tx_core, lane.plan.rx_core);
            let board = &board;
            let meter = scope.spawn(move || on(rx_core, || meter.run()).inspect_err(|_| board.fail()));
            let sender = scope.spawn(move || {
                let _done = Done(&lane.board);
                on(tx_core, || sender.run()).inspect_err(|_| board.fail())
            });
            threads.push(Threads { sender, meter });
        }
        let interrupted = supervise(&lanes, &threads, teachers, (&board, begin), &mut watch);
        let mut directions = Vec::new();
        for (lane, threads) in lanes.iter().zip(threads) {
            directions.push(lane.report(threads));
        }
        let directions = directions.into_iter().collect::<Result<_, _>>()?;
        Ok(TrialReport { directions, interrupted })
    })
}

impl<'a> Lane<'a> {
    fn new(plan: &'a Direction) -> Self {
        let log = |stream: &plan::StreamPlan| TxLog::new(stream.phases.len(), stream.frames());
        Self { plan, logs: plan.streams.iter().map(log).collect(), board: LaneBoard::default() }
    }

    fn prepare(
        &'a self,
        plan: &TrialPlan,
        ends: Ends,
        begin: Begin,
        board: &'a Board,
    ) -> (Sender<'a>, Meter<'a>, Vec<ArpResponder>) {
        let by = plan.is_by_second.then(|| Seconds::new(begin.wall_ns, planned_s(plan)));
        let streams = || self.plan.streams.iter().zip(&self.logs);
        let templates =
            streams().zip(ends.frames).map(|((plan, log), frames)| Template { plan, log, frames });
        let sender = Sender::new(ends.tx, templates.collect(), begin, by, (board, &self.board));
        let meter = Meter {
            source: ends.source,
            books: streams().map(|(plan, log)| RxStats::new(plan, log, begin.wall_ns, by)).collect(),
            begun_ns: begin.wall_ns,
            residual_ns: (plan.residual_s * 1e9) as u64,
            board,
            lane: &self.board,
        };
        (sender, meter, ends.teachers)
    }

    /// What came of it, once both threads have ended.
    fn report(&self, threads: Threads<'_, '_>) -> Result<DirectionReport, TrialError> {
        let (sent, metered) = (join(threads.sender), join(threads.meter));
        let ((sent, late_max_ns), metered) = (sent?, metered?);
        let streams = metered.books.into_iter().zip(&sent).map(|(book, sent)| book.finish(sent));
        Ok(DirectionReport {
            streams: streams.collect::<Result<_, _>>().map_err(TrialError::Sums)?,
            tx_clock: "user space, before the call".to_owned(),
            rx_clock: if metered.is_hardware_timed { "hardware" } else { "kernel" }.to_owned(),
            foreign: metered.foreign,
            corrupt: metered.corrupt,
            meter_dropped: metered.meter_dropped,
            nic_dropped: metered.nic_dropped,
            late_max_ns,
        })
    }
}

/// A panic in a thread is a defect; it goes on here.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `work` on a core, and before others where that is permitted.
fn on<T, E: From<quaff_os::Error>>(core: Option<usize>, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    core.map_or(Ok(()), cpu::pin)?;
    cpu::raise_priority();
    work()
}

/// Watches until all threads have ended. Says whether it was ended before all was sent.
fn supervise(
    lanes: &[Lane<'_>],
    threads: &[Threads<'_, '_>],
    mut teachers: Vec<ArpResponder>,
    (board, begin): (&Board, Begin),
    watch: &mut impl FnMut(&Progress) -> bool,
) -> bool {
    let is_running =
        |threads: &Threads<'_, '_>| !threads.sender.is_finished() || !threads.meter.is_finished();
    let is_sending = || lanes.iter().any(|lane| !lane.board.is_done());
    let (mut interrupted, mut watch_ns) = (false, 0);
    while threads.iter().any(is_running) {
        teachers.iter_mut().for_each(ArpResponder::teach);
        let now_ns = steady_ns();
        let is_told = now_ns >= watch_ns && {
            watch_ns = now_ns + WATCH_NS;
            !watch(&progress(lanes, begin, now_ns))
        };
        if is_told && is_sending() {
            interrupted = true;
            board.stopped.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(LOOK);
    }
    interrupted
}

fn progress(lanes: &[Lane<'_>], begin: Begin, now_ns: u64) -> Progress {
    let sum = |count: fn(&LaneBoard) -> &AtomicU64| {
        lanes.iter().map(|lane| count(&lane.board).load(Ordering::Relaxed)).sum()
    };
    Progress {
        elapsed_s: now_ns.saturating_sub(begin.steady_ns) as f64 / 1e9,
        sent: sum(|lane| &lane.sent),
        received: sum(|lane| &lane.received),
    }
}
