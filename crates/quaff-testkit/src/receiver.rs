//! The frames that arrive in a lab, received by a packet ring of the test. A thread reads it all the time, so that the
//! ring never becomes full.

use quaff_lab::Lab;
use quaff_os::packet::{Cursor, Packet};
use quaff_os::packet::{RingPlan, RxRing, TimeSource, accept};
use quaff_os::{Netns, Wakeup, rtnl};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time without a frame that ends the wait.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Time for surplus frames to arrive.
const SURPLUS_WAIT: Duration = Duration::from_millis(30);
const LOOK: Duration = Duration::from_millis(5);

/// Frames with their times of arrival, ns since 1970.
type Frames = Vec<(u64, Vec<u8>)>;

/// A ring at an interface of a lab, and its reader.
#[derive(Debug)]
pub struct Receiver {
    arrived: Arc<Mutex<Frames>>,
    /// Set once here, read by the thread; no other data is published through it.
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Receives all frames at `interface` of the receiving namespace from now on.
    ///
    /// # Panics
    /// When there is no such interface, or no ring for it.
    pub fn at(lab: &Lab, interface: &str) -> Self {
        Self::within(&lab.rx, interface)
    }

    /// The same in any namespace.
    ///
    /// # Panics
    /// As [`Receiver::at`].
    pub fn within(netns: &Netns, interface: &str) -> Self {
        let plan = RingPlan {
            block_bytes: 1 << 20,
            block_count: 64,
            retire_ms: 10,
            promiscuous: true,
            filter: vec![accept(u32::MAX)],
            time_source: TimeSource::Host,
        };
        let open = || -> quaff_os::Result<RxRing> {
            let ring = RxRing::allocate(interface, &plan)?;
            ring.bind(rtnl::link(interface)?.index, interface)?;
            Ok(ring)
        };
        let ring = netns.run(open).expect("a thread in the namespace").expect("a ring");
        let (arrived, over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (arrived, over) = (Arc::clone(&arrived), Arc::clone(&over));
            std::thread::spawn(move || read(ring, &arrived, &over))
        };
        Self { arrived, over, thread: Some(thread) }
    }

    /// The frames so far when there are `count`, or when none has arrived for a while; with the VLAN tags that the
    /// kernel removes.
    pub fn frames(self, count: usize) -> Frames {
        let (mut seen, mut last) = (0, Instant::now());
        while seen < count && last.elapsed() < IDLE_MAX {
            std::thread::sleep(LOOK);
            let now = self.arrived().len();
            if now != seen {
                (seen, last) = (now, Instant::now());
            }
        }
        std::thread::sleep(SURPLUS_WAIT);
        std::mem::take(&mut *self.arrived())
    }

    /// The same, without the times.
    pub fn bytes(self, count: usize) -> Vec<Vec<u8>> {
        self.frames(count).into_iter().map(|(_, frame)| frame).collect()
    }

    fn arrived(&self) -> std::sync::MutexGuard<'_, Frames> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was printed.
            let _ = thread.join();
        }
    }
}

fn read(mut ring: RxRing, arrived: &Mutex<Frames>, over: &AtomicBool) {
    let wakeup = Wakeup::new().expect("a wakeup");
    while !over.load(Ordering::Relaxed) {
        let Some(block) = ring.block() else {
            ring.wait(&wakeup, LOOK).expect("a wait");
            continue;
        };
        let mut frames = Vec::new();
        Cursor::new(block).walk(block, u32::MAX, |packet| {
            let time_ns = u64::from(packet.sec) * 1_000_000_000 + u64::from(packet.nsec);
            frames.push((time_ns, whole(block, &packet)));
        });
        ring.release();
        arrived.lock().unwrap_or_else(PoisonError::into_inner).append(&mut frames);
    }
}

fn whole(block: &[u8], packet: &Packet) -> Vec<u8> {
    let mut frame = block[packet.start as usize..][..packet.snaplen as usize].to_vec();
    if let Some((tpid, tci)) = packet.vlan {
        let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
        frame.splice(12..12, tag);
    }
    frame
}
