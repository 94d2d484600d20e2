//! The buffer: slabs that are populated and locked before they are needed.
//!
//! The first few hundred MiB are ready before the first packet; a thread of low priority prepares
//! the rest while the capture already runs.

use crate::chunk::Supply;
use crate::plan::{CapturePlan, POPULATE_BYTES};
use crate::stop::Stop;
use crate::{Error, Result};
use quaff_os::cpu;
use quaff_os::mem::Slab;
use rtrb::{Producer, RingBuffer};
use std::thread::JoinHandle;

/// One lane's share.
pub(super) struct LanePool {
    /// For the lane.
    pub(super) supply: Supply,
    /// For the writer.
    pub(super) home: Producer<Slab>,
}

/// The thread that prepares the rest.
pub(super) struct Pool {
    thread: JoinHandle<Option<String>>,
    notes: Vec<String>,
}

/// Slabs of one size, locked as long as the limit allows.
struct Maker {
    slab_bytes: usize,
    refused: Option<String>,
}

impl Pool {
    /// Prepares the first slabs, then returns and goes on with the rest.
    pub(super) fn start(plan: &CapturePlan, stop: Stop) -> Result<(Self, Vec<LanePool>)> {
        let count = plan.slabs_per_lane();
        let mut maker = Maker { slab_bytes: plan.chunk_bytes, refused: None };
        let ready = (POPULATE_BYTES / plan.interfaces.len() / plan.chunk_bytes).clamp(1, count);
        let mut lanes = Vec::new();
        let mut fresh_ends = Vec::new();
        for _ in &plan.interfaces {
            let (home, from_home) = RingBuffer::new(count);
            let (mut to_fresh, fresh) = RingBuffer::new(count);
            for _ in 0..ready {
                let pushed = to_fresh.push(maker.make()?);
                assert!(pushed.is_ok(), "there is a place for every slab");
            }
            fresh_ends.push(to_fresh);
            lanes.push(LanePool { supply: Supply::new(from_home, fresh, count), home });
        }
        let notes = maker.refused.iter().cloned().collect();
        let thread = std::thread::Builder::new()
            .name("quaff-pool".into())
            .spawn(move || prepare(maker, fresh_ends, count - ready, &stop))
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

fn prepare(mut maker: Maker, mut lanes: Vec<Producer<Slab>>, each: usize, stop: &Stop) -> Option<String> {
    cpu::background();
    for _ in 0..each {
        for lane in &mut lanes {
            if stop.raised() || lane.is_abandoned() {
                return None;
            }
            match maker.make() {
                Ok(slab) => assert!(lane.push(slab).is_ok(), "there is a place for every slab"),
                Err(error) => return Some(format!("the buffer stays smaller than asked for: {error}")),
            }
        }
    }
    None
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
