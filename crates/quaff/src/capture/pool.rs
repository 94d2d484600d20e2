//! The buffer: slabs that are populated and locked before they are needed.
//!
//! A part of it is ready before the first packet. A thread, on other cores than the lanes' where it
//! can, keeps as much ready beyond what is in use as arrives in a quarter of a second, at full speed;
//! the rest it makes ready with a tiny share of a core. Touching memory costs CPU time (seconds per
//! GiB on a virtual machine whose host has to find the pages), and a disk that keeps up never needs it.

use crate::chunk::Supply;
use crate::gauge::LaneGauges;
use crate::plan::CapturePlan;
use crate::stop::Stop;
use crate::{Error, Result};
use quaff_os::cpu;
use quaff_os::event::Event;
use quaff_os::mem::Slab;
use rtrb::{Producer, RingBuffer};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks at the rate, while there is something left to make ready.
const LOOK: Duration = Duration::from_millis(100);
/// What arrives in this time is kept ready beyond what is in use.
const RESERVE: Duration = Duration::from_millis(250);
/// What is not needed yet is made ready too, with so small a share of a core: one part in so many.
const TRICKLE: u32 = 1000;

/// One lane's share.
pub(super) struct LanePool {
    /// For the lane.
    pub(super) supply: Supply,
    /// For the writer.
    pub(super) home: Producer<Slab>,
}

/// The thread that keeps slabs ready.
pub(super) struct Pool {
    thread: JoinHandle<Option<String>>,
    notes: Vec<String>,
}

/// Makes slabs of one size, locked as long as the limit allows.
struct Maker {
    slab_bytes: usize,
    refused: Option<String>,
}

/// One lane's fresh slabs.
struct Fresh {
    to_lane: Producer<Slab>,
    /// Slabs that are still to be made.
    left: usize,
    /// How many are to be ready at any time; grows with the rate.
    ready: usize,
    gauges: Arc<LaneGauges>,
    /// What the gauge showed when it was last looked at.
    wire_bytes: u64,
}

impl Pool {
    /// Prepares the first slabs, then returns and keeps more ready.
    pub(super) fn start(
        plan: &CapturePlan,
        gauges: &[Arc<LaneGauges>],
        stop: Stop,
    ) -> Result<(Self, Vec<LanePool>)> {
        let count = plan.slabs_per_lane();
        let ready = (plan.populate_bytes / plan.interfaces.len() / plan.chunk_bytes).clamp(1, count);
        let mut maker = Maker { slab_bytes: plan.chunk_bytes, refused: None };
        let bell = Event::new()?;
        stop.wake(bell.clone());
        let (mut lanes, mut fresh_ends) = (Vec::new(), Vec::new());
        for gauges in gauges {
            let (home, from_home) = RingBuffer::new(count);
            let (to_lane, fresh) = RingBuffer::new(count);
            let mut end = Fresh { to_lane, left: count, ready, gauges: gauges.clone(), wire_bytes: 0 };
            while end.is_short() && !stop.raised() {
                end.add(&mut maker)?;
            }
            fresh_ends.push(end);
            lanes.push(LanePool { supply: Supply::new(from_home, fresh, bell.clone(), count), home });
        }
        let notes = maker.refused.iter().cloned().collect();
        let cores: Vec<_> = plan.interfaces.iter().filter_map(|interface| interface.cpu).collect();
        let thread = std::thread::Builder::new()
            .name("quaff-pool".into())
            .spawn(move || {
                cpu::keep_off(&cores);
                prepare(maker, fresh_ends, &bell, &stop)
            })
            .map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        Ok((Self { thread, notes }, lanes))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Waits for the thread; what it had to say.
    pub(super) fn finish(self) -> Option<String> {
        self.thread.join().ok().flatten()
    }
}

fn prepare(mut maker: Maker, mut lanes: Vec<Fresh>, bell: &Event, stop: &Stop) -> Option<String> {
    let mut looked = Instant::now();
    let mut trickle = looked + LOOK;
    loop {
        lanes.retain(|lane| lane.left > 0 && !lane.to_lane.is_abandoned());
        if stop.raised() || lanes.is_empty() {
            return None;
        }
        if looked.elapsed() >= LOOK {
            lanes.iter_mut().for_each(|lane| lane.look(looked.elapsed(), maker.slab_bytes));
            looked = Instant::now();
        }
        // Whoever is short comes first, at full speed; otherwise one slab now and then.
        let next = lanes.iter().position(Fresh::is_short);
        let is_due = next.is_some() || Instant::now() >= trickle;
        if is_due {
            let started = Instant::now();
            if let Err(error) = lanes[next.unwrap_or(0)].add(&mut maker) {
                return Some(format!("the buffer stays smaller than asked for: {error}"));
            }
            lanes.rotate_left(1);
            trickle = Instant::now() + started.elapsed() * TRICKLE;
        }
        if next.is_none() {
            bell.wait(LOOK).ok()?;
        }
    }
}

impl Fresh {
    /// Whether less is ready than should be.
    fn is_short(&self) -> bool {
        self.left > 0 && self.to_lane.buffer().capacity() - self.to_lane.slots() < self.ready
    }

    /// Keeps as much ready as arrives in a moment at the rate of the last one.
    fn look(&mut self, since: Duration, slab_bytes: usize) {
        let wire_bytes = self.gauges.wire_bytes.get();
        let arrived = (wire_bytes - self.wire_bytes) as f64;
        self.wire_bytes = wire_bytes;
        let reserve_bytes = arrived * RESERVE.as_secs_f64() / since.as_secs_f64();
        self.ready = self.ready.max((reserve_bytes / slab_bytes as f64) as usize);
    }

    fn add(&mut self, maker: &mut Maker) -> Result<()> {
        let pushed = self.to_lane.push(maker.make()?);
        assert!(pushed.is_ok(), "there is a place for every slab");
        self.left -= 1;
        Ok(())
    }
}

impl Maker {
    fn make(&mut self) -> Result<Slab> {
        let slab = Slab::new(self.slab_bytes)?;
        slab.populate()?;
        if self.refused.is_none()
            && let Err(error) = slab.lock()
        {
            self.refused = Some(format!("the buffer is not locked and could be swapped out: {error}"));
        }
        Ok(slab)
    }
}
