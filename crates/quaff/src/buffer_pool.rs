//! The pool of buffers, which are populated and locked before they are needed.
//!
//! Some are ready before the first packet. A thread, on other cores than the lanes' where possible, populates
//! ahead of use: at full speed the arrivals of a quarter of a second while packets arrive, and the rest with
//! a small share of a core. Populating memory takes CPU time (seconds per GiB on a virtual machine), and with a disk
//! that keeps up most of it is never needed.

use crate::{Error, Result};
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use quaff_os::{Buffer, Stop, Wakeup};
use rtrb::{Consumer, Producer, RingBuffer};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the thread measures the rate, while buffers are left to populate.
const LOOK: Duration = Duration::from_millis(100);
/// The arrivals of this time are kept populated beyond the buffers in use.
const RESERVE: Duration = Duration::from_millis(250);

/// The size of the pool.
pub(crate) struct PoolPlan {
    pub(crate) buffers_per_lane: usize,
    pub(crate) buffer_bytes: usize,
    /// Buffers of each lane that are ready before the first byte, and beyond those in use.
    pub(crate) ready_buffers: usize,
    /// Populating buffers ahead of need uses one part in `trickle` of a core.
    pub(crate) trickle: u32,
    /// Cores that the thread avoids if there are others.
    pub(crate) busy_cores: Vec<usize>,
}

/// Returns the bytes that have arrived so far for a lane.
pub(crate) type Arrived = Box<dyn Fn() -> u64 + Send>;

/// One lane's share.
pub(crate) struct LanePool {
    /// For the lane.
    pub(crate) supply: Supply,
    /// For the writer.
    pub(crate) free_buffers: Producer<Buffer>,
}

/// The thread that keeps buffers ready.
pub(crate) struct Pool {
    thread: JoinHandle<Option<String>>,
    /// Warnings for the user, such as memory that could not be locked.
    pub(crate) notes: Vec<String>,
}

/// Makes buffers of one size, locked within the limit.
struct Maker {
    buffer_bytes: usize,
    refused: Option<String>,
}

/// One lane's fresh buffers.
struct Fresh {
    to_lane: Producer<Buffer>,
    /// Buffers not made yet.
    left: usize,
    /// Buffers kept ready; grows with the rate.
    ready: usize,
    arrived: Arrived,
    /// The last reading of `arrived`.
    arrived_bytes: u64,
    /// Nothing arrived between the last two readings, so the ready buffers suffice for now.
    is_calm: bool,
}

impl Pool {
    /// Prepares the first buffers, then returns and keeps more ready.
    pub(crate) fn start(plan: PoolPlan, arrived: Vec<Arrived>, stop: Stop) -> Result<(Self, Vec<LanePool>)> {
        let count = plan.buffers_per_lane;
        let ready = plan.ready_buffers.clamp(1, count);
        let mut maker = Maker { buffer_bytes: plan.buffer_bytes, refused: None };
        let wakeup = Wakeup::new()?;
        stop.wake(wakeup.clone());
        let (mut lanes, mut fresh_ends) = (Vec::new(), Vec::new());
        for arrived in arrived {
            let (free_buffers, returned) = RingBuffer::new(count);
            let (to_lane, fresh) = RingBuffer::new(count);
            let mut end = Fresh { to_lane, left: count, ready, arrived, arrived_bytes: 0, is_calm: false };
            // At least one buffer circulates, with which a lane can end its work.
            while end.left == count || end.is_short() && !stop.raised() {
                end.add(&mut maker)?;
            }
            fresh_ends.push(end);
            lanes
                .push(LanePool { supply: Supply::new(returned, fresh, wakeup.clone(), count), free_buffers });
        }
        let notes = maker.refused.iter().cloned().collect();
        let thread = std::thread::Builder::new()
            .name("quaff-pool".into())
            .spawn(move || {
                leave_cores(&plan.busy_cores);
                prepare(maker, fresh_ends, plan.trickle, &wakeup, &stop)
            })
            .map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        Ok((Self { thread, notes }, lanes))
    }

    /// Waits for the thread; returns its warning.
    pub(crate) fn finish(self) -> Option<String> {
        self.thread.join().ok().flatten()
    }
}

/// Removes `cores` from the affinity of the calling thread, unless no other core is left.
fn leave_cores(cores: &[usize]) {
    let Ok(mut set) = sched_getaffinity(Pid::from_raw(0)) else { return };
    for core in cores {
        let _ = set.unset(*core);
    }
    // The kernel refuses an empty set: there are no other cores.
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}

fn prepare(
    mut maker: Maker,
    mut lanes: Vec<Fresh>,
    share: u32,
    wakeup: &Wakeup,
    stop: &Stop,
) -> Option<String> {
    let mut looked = Instant::now();
    let mut trickle = looked + LOOK;
    loop {
        lanes.retain(|lane| lane.left > 0 && !lane.to_lane.is_abandoned());
        if stop.raised() || lanes.is_empty() {
            return None;
        }
        if looked.elapsed() >= LOOK {
            lanes.iter_mut().for_each(|lane| lane.look(looked.elapsed(), maker.buffer_bytes));
            looked = Instant::now();
        }
        // Lanes that are short come first, at full speed; otherwise one buffer at intervals.
        let next = lanes.iter().position(Fresh::is_short);
        let is_due = next.is_some() || Instant::now() >= trickle;
        if is_due {
            let started = Instant::now();
            if let Err(error) = lanes[next.unwrap_or(0)].add(&mut maker) {
                return Some(format!("the buffer stays smaller than requested: {error}"));
            }
            lanes.rotate_left(1);
            trickle = Instant::now() + started.elapsed() * share;
        }
        if next.is_none() {
            wakeup.wait(LOOK).ok()?;
        }
    }
}

impl Fresh {
    /// Returns whether too few are ready while packets arrive; the first packet after a pause counts.
    fn is_short(&self) -> bool {
        let ready = self.to_lane.buffer().capacity() - self.to_lane.slots();
        self.left > 0 && ready < self.ready && (!self.is_calm || (self.arrived)() != self.arrived_bytes)
    }

    /// Adapts the number of ready buffers to the rate.
    fn look(&mut self, since: Duration, buffer_bytes: usize) {
        let arrived_bytes = (self.arrived)();
        let arrived = (arrived_bytes - self.arrived_bytes) as f64;
        self.is_calm = arrived_bytes == self.arrived_bytes;
        self.arrived_bytes = arrived_bytes;
        let reserve_bytes = arrived * RESERVE.as_secs_f64() / since.as_secs_f64();
        self.ready = self.ready.max((reserve_bytes / buffer_bytes as f64) as usize);
    }

    fn add(&mut self, maker: &mut Maker) -> Result<()> {
        let pushed = self.to_lane.push(maker.make()?);
        assert!(pushed.is_ok(), "there is a place for every buffer");
        self.left -= 1;
        Ok(())
    }
}

impl Maker {
    fn make(&mut self) -> Result<Buffer> {
        let buffer = Buffer::new(self.buffer_bytes)?;
        buffer.populate()?;
        if self.refused.is_none()
            && let Err(error) = buffer.lock()
        {
            self.refused = Some(format!("the buffer is not locked and could be swapped out: {error}"));
        }
        Ok(buffer)
    }
}

/// The empty buffers of a lane: first those that the writer returned last, which are in the cache, then fresh ones,
/// which the pool's thread populates ahead.
#[derive(Debug)]
pub(crate) struct Supply {
    returned: Consumer<Buffer>,
    /// Returned buffers, the last one on top; has a place for all.
    warm: Vec<Buffer>,
    fresh: Consumer<Buffer>,
    /// Signalled when a fresh one was taken, so that the thread makes another.
    more: Wakeup,
    pub(crate) count: usize,
    /// Fresh ones that this lane has taken.
    taken: usize,
}

impl Supply {
    /// A supply of `count` buffers in all.
    pub(crate) fn new(
        returned: Consumer<Buffer>,
        fresh: Consumer<Buffer>,
        more: Wakeup,
        count: usize,
    ) -> Self {
        Self { returned, warm: Vec::with_capacity(count), fresh, more, count, taken: 0 }
    }

    /// An empty buffer, if there is one.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        while let Ok(buffer) = self.returned.pop() {
            self.warm.push(buffer);
        }
        if let Some(buffer) = self.warm.pop() {
            return Some(buffer);
        }
        let buffer = self.fresh.pop().ok()?;
        self.taken += 1;
        self.more.signal();
        Some(buffer)
    }

    /// Buffers in use: being filled, waiting, or being written.
    pub(crate) fn out(&self) -> usize {
        self.taken - self.warm.len() - self.returned.slots()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn nothing_is_urgent_while_nothing_comes_and_all_is_with_the_next_packet() {
        let bytes = Arc::new(AtomicU64::new(0));
        let seen = bytes.clone();
        let arrived: Arrived = Box::new(move || seen.load(Ordering::Relaxed));
        let (to_lane, _lane) = RingBuffer::new(64);
        let mut fresh = Fresh { to_lane, left: 64, ready: 2, arrived, arrived_bytes: 0, is_calm: false };
        assert!(fresh.is_short(), "before the first look");
        fresh.look(LOOK, 1 << 20);
        assert!(!fresh.is_short(), "nothing has come");
        bytes.store(8 << 20, Ordering::Relaxed);
        assert!(fresh.is_short(), "at once, before the next look");
        fresh.look(LOOK, 1 << 20);
        // 8 MiB in 100 ms are 20 in a quarter of a second.
        assert!(fresh.is_short() && fresh.ready == 20, "{}", fresh.ready);
        fresh.look(LOOK, 1 << 20);
        assert!(!fresh.is_short() && fresh.ready == 20, "silence again: less hurry, no smaller reserve");
    }
}
