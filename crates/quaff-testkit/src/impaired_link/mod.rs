//! A device in a lab that does to frames what it is told, exactly, and counts it: it loses, holds, doubles and
//! reorders frames, is gone for a while, or has no more than a rate. What a service test finds on a path through
//! it can be held against what it did.
//!
//! ```text
//!          a0 ──▶ rules ──▶ held until due ──▶ b0        one thread for both directions
//!          a0 ◀── held until due ◀── rules ◀── b0
//! ```
//!
//! A frame's fate hangs on its number and on the time at which the kernel took it in, and on nothing else: a busy
//! machine makes it late, which is counted, and never another fate. Frames that the device's own ring has no room
//! for are counted apart: they are nobody's rule.

mod held;
mod rules;
mod work;

use quaff_lab::{Error, Result};
use quaff_os::packet::{Qdisc, RxRingV2, TimeSource, TxSocket};
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

/// What becomes of frames, each way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImpairedLinkPlan {
    /// From the first port to the second.
    pub there: Rules,
    /// From the second to the first.
    pub back: Rules,
    /// The core to work on; `None`: any.
    pub core: Option<usize>,
}

/// What becomes of frames that go one way, in this order. "Every Nth" counts the frames that come to that rule,
/// from 1; 0 is never. Without any rule all frames pass at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Nothing passes for a while.
    pub outage: Option<Outage>,
    /// Every Nth frame is lost.
    pub drop_every: u64,
    /// No more than a rate passes.
    pub bucket: Option<Bucket>,
    /// Every Nth frame goes out twice.
    pub duplicate_every: u64,
    /// Every Nth frame is held longer than the others.
    pub delay_every: u64,
    /// So much longer.
    pub delay: Duration,
    /// All frames go out so long after the kernel took them in.
    pub hold: Duration,
}

/// A while in which nothing passes, by the times at which frames come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// It begins so long after the first frame that came behind a second of silence, or ever.
    pub after: Duration,
    /// And takes so long.
    pub lasts: Duration,
}

/// A token bucket, and a queue in front of it that loses what comes when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens, one a frame, that come in a second; 1 or more.
    pub pps: u64,
    /// Tokens that it holds at most: so many frames pass at once after a pause. 1 or more.
    pub burst: u64,
    /// Frames that wait for a token at most.
    pub queue: u64,
}

/// What was done with frames that came one way.
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
    /// Frames that went on.
    pub passed: u64,
    /// Of these: twice.
    pub duplicated: u64,
    /// Of these: held longer.
    pub delayed: u64,
    /// Frames that went out.
    pub sent: u64,
    /// Frames that its ring had no room for: they are not among those received.
    pub missed: u64,
    /// How much later than due frames were given to the kernel: half of them not later, 99 of 100 not later
    /// (upper ends of buckets of 1 µs), and the latest, ns.
    pub late_ns: [u64; 3],
}

/// A device at work. It ends when this is dropped.
#[derive(Debug)]
pub struct ImpairedLink {
    /// Written here once, read by the thread; nothing else hangs on it.
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<[Counts; 2]>>>,
}

impl ImpairedLink {
    /// Begins to forward between two interfaces of a namespace that nothing else joins. What comes after the
    /// return is forwarded.
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

    /// Sends what is still held, each frame when it is due, and ends; says what was done there and back.
    ///
    /// # Errors
    /// What went wrong meanwhile: an interface that went down.
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
            // Whoever wanted to know how it ended has stopped it; what it panicked with was printed.
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
