//! An impaired link in a lab: it drops, delays, duplicates and reorders frames exactly by its rules, has outages or a
//! limited rate, and counts what it did, for comparison with the results of a service test.
//!
//! ```text
//!          a0 ──▶ rules ──▶ held until due ──▶ b0        one thread for both directions
//!          a0 ◀── held until due ◀── rules ◀── b0
//! ```
//!
//! The fate of a frame depends only on its number and on the time at which the kernel received it: on a busy machine it
//! is late, which is counted, but its fate is the same. Frames that the receive ring dropped are counted separately.

mod held;
mod rules;
mod work;

use quaff_lab::{Error, Result};
use quaff_os::packet::{Qdisc, TimeSource, TxSocket};
use quaff_os::testing::RxRingV2;
use quaff_os::{Netns, rtnl};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use work::{Lane, Work};

/// Bytes of each receive ring: at an MTU of 3000 it has 8192 slots, 20 ms at any rate that one thread forwards.
const RING_BYTES: usize = 32 << 20;
/// Link header and tags, bytes.
const LINK_BYTES: usize = 22;

/// The rules of both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImpairedLinkPlan {
    /// From the first port to the second.
    pub there: Rules,
    /// From the second to the first.
    pub back: Rules,
    /// The core to work on; `None`: any.
    pub core: Option<usize>,
}

/// The rules of one direction, applied in this order. "Every Nth" counts the frames that reach the rule, from 1; 0 is
/// never. Without any rule all frames pass at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// No frame passes for a time.
    pub outage: Option<Outage>,
    /// Every Nth frame is lost.
    pub drop_every: u64,
    /// The rate is limited.
    pub bucket: Option<Bucket>,
    /// Every Nth frame goes out twice.
    pub duplicate_every: u64,
    /// Every Nth frame is held longer than the others.
    pub delay_every: u64,
    /// The additional time.
    pub delay: Duration,
    /// Delay of all frames after their arrival.
    pub hold: Duration,
}

/// An outage, by the arrival times of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Time from the first frame, ever or after a second without frames, to the outage.
    pub after: Duration,
    /// Its duration.
    pub lasts: Duration,
}

/// A token bucket, and a queue before it that drops frames when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens per second, one for each frame; 1 or more.
    pub pps: u64,
    /// Most tokens: frames that pass at once after a pause; 1 or more.
    pub burst: u64,
    /// Most frames that wait for a token.
    pub queue: u64,
}

/// Counters of one direction.
/// `received = in_outage + dropped + overflowed + passed`, and `sent = passed + duplicated`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that came in.
    pub received: u64,
    /// Lost in an outage.
    pub in_outage: u64,
    /// Lost as every Nth.
    pub dropped: u64,
    /// Lost because the queue was full.
    pub overflowed: u64,
    /// Frames that were forwarded.
    pub passed: u64,
    /// Of these: twice.
    pub duplicated: u64,
    /// Of these: held longer.
    pub delayed: u64,
    /// Frames that left after one that had arrived later. Those held longer, unless none arrived in that time.
    pub overtaken: u64,
    /// Frames that went out.
    pub sent: u64,
    /// Frames that the receive ring dropped; not in `received`.
    pub missed: u64,
    /// Lateness of frames when they were given to the kernel: median, 99th percentile (right to 0.1 %), and largest,
    /// ns.
    pub late_ns: [u64; 3],
}

/// A running link. It ends when this is dropped.
#[derive(Debug)]
pub struct ImpairedLink {
    /// Written here once, read by the thread; nothing else hangs on it.
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<[Counts; 2]>>>,
}

impl ImpairedLink {
    /// Forwards between two interfaces of a namespace, which nothing else may bridge. Frames that arrive after the
    /// return are forwarded.
    ///
    /// # Errors
    /// No such interface; no receive ring for it.
    ///
    /// # Panics
    /// When a bucket has no rate or holds nothing.
    pub fn start(netns: &Netns, ports: [&str; 2], plan: &ImpairedLinkPlan) -> Result<Self> {
        let [from, to] = ports;
        let lanes = netns.run(|| {
            Ok::<_, Error>([Lane::new(open(from, to)?, &plan.there), Lane::new(open(to, from)?, &plan.back)])
        })??;
        let over = Arc::new(AtomicBool::new(false));
        let (work, core) = (Work::new(lanes, Arc::clone(&over)), plan.core);
        Ok(Self { over, thread: Some(std::thread::spawn(move || work.run(core))) })
    }

    /// Sends the frames that are still held, each when it is due, and ends. Returns the counters of both directions.
    ///
    /// # Errors
    /// An error during its run, such as an interface that went down.
    pub fn stop(mut self) -> Result<[Counts; 2]> {
        self.end().unwrap_or(Ok([Counts::default(); 2]))
    }

    fn end(&mut self) -> Option<Result<[Counts; 2]>> {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for ImpairedLink {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // `stop` returns the error; a panic was printed.
            let _ = thread.join();
        }
    }
}

/// A ring at one interface, and a socket to send from the other.
fn open(from: &str, to: &str) -> Result<(RxRingV2, TxSocket)> {
    let (from, to) = (rtnl::link(from)?, rtnl::link(to)?);
    let frame_bytes_max = from.mtu as usize + LINK_BYTES;
    let rx = RxRingV2::open(from.index, &from.name, TimeSource::Arrival, frame_bytes_max, RING_BYTES)?;
    Ok((rx, TxSocket::open(to.index, &to.name, Qdisc::Bypass)?))
}
