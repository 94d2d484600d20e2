//! The buffer: slabs that are populated and locked before they are needed.
//!
//! A part of it is ready before the first packet. A thread, on other cores than the lanes' where it
//! can, always keeps that much more ready than is in use, at full speed; and with a tiny share of a
//! core it makes the rest ready. Touching memory costs CPU time (seconds per GiB on a virtual machine
//! whose host has to find the pages), and a disk that keeps up never needs it.

use crate::chunk::Supply;
use crate::plan::CapturePlan;
use crate::stop::Stop;
use crate::{Error, Result};
use quaff_os::cpu;
use quaff_os::event::Event;
use quaff_os::mem::Slab;
use rtrb::{Producer, RingBuffer};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the thread sleeps when there is nothing to do and nobody rings.
const PATIENCE: Duration = Duration::from_secs(1);
/// What is not needed yet is made ready too, with so small a share of a core: one part in so many.
const TRICKLE: u32 = 200;

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
    /// How many are to be ready at any time.
    ready: usize,
}

impl Pool {
    /// Prepares the first slabs, then returns and keeps more ready.
    pub(super) fn start(plan: &CapturePlan, stop: Stop) -> Result<(Self, Vec<LanePool>)> {
        let count = plan.slabs_per_lane();
        let ready = (plan.populate_bytes / plan.interfaces.len() / plan.chunk_bytes).clamp(1, count);
        let mut maker = Maker { slab_bytes: plan.chunk_bytes, refused: None };
        let bell = Event::new()?;
        stop.wake(bell.clone());
        let (mut lanes, mut fresh_ends) = (Vec::new(), Vec::new());
        for _ in &plan.interfaces {
            let (home, from_home) = RingBuffer::new(count);
            let (to_lane, fresh) = RingBuffer::new(count);
            let mut end = Fresh { to_lane, left: count, ready };
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
    loop {
        lanes.retain(|lane| lane.left > 0 && !lane.to_lane.is_abandoned());
        if stop.raised() || lanes.is_empty() {
            return None;
        }
        // Whoever is short comes first, at full speed; otherwise one slab now and then.
        let next = lanes.iter().position(Fresh::is_short);
        let started = Instant::now();
        if let Err(error) = lanes[next.unwrap_or(0)].add(&mut maker) {
            return Some(format!("the buffer stays smaller than asked for: {error}"));
        }
        lanes.rotate_left(1);
        if next.is_none() {
            bell.wait((started.elapsed() * TRICKLE).min(PATIENCE)).ok()?;
        }
    }
}

impl Fresh {
    /// Whether less is ready than should be.
    fn is_short(&self) -> bool {
        self.left > 0 && self.to_lane.buffer().capacity() - self.to_lane.slots() < self.ready
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
