//! The pool of buffers of all lanes, which are populated and locked before they are needed.
//!
//! A part of the pool is divided: the share of a lane is its own, whatever the other lanes do. The rest is common: a
//! lane whose share is in use borrows, and its writer repays. So one lane of several can have most of the pool while
//! the output is late, and none of the others is ever without a buffer because of it.
//!
//! ```text
//!   pool's thread ─ fresh ─→ lane ─ chunks ─→ writer      own buffers, by rings: lane ←─ returned ─ writer
//!          └── populated ──→ common ← repaid ───┘
//!                              └── borrowed ──→ lane
//! ```
//!
//! | module | task |
//! |---|---|
//! | [`supply`] | the buffers of a lane, and their return from its writer |
//! | [`common`] | the buffers that no lane uses |
//! | [`stack`] | the order of the common buffers |
//! | [`filler`] | the threads that populate buffers |
//! | [`need`] | how many they populate |
//! | [`pages`] | the size of their pages |
//!
//! The start populates as many as its time permits; a thread, on other cores than the lanes' where possible, populates
//! more ahead of need: populating memory takes seconds per GiB on a virtual machine, and a flood does not wait for it.

mod common;
mod filler;
mod need;
mod pages;
mod plan;
mod stack;
mod supply;
#[cfg(test)]
mod tests;

pub(crate) use plan::PoolPlan;
pub(crate) use supply::{FreeBuffers, LanePool, Supply};

use crate::Result;
use crate::gauge::BufferGauges;
use common::Common;
use filler::{Filler, FillerThread, Fresh, Place, smaller};
use need::Need;
use quaff_os::{Buffer, Stop, Wakeup};
use rtrb::RingBuffer;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// The threads that populate buffers.
pub(crate) struct Pool {
    threads: Vec<FillerThread>,
    pub(crate) gauges: Arc<BufferGauges>,
    /// Warnings for the user, such as memory that could not be locked.
    pub(crate) notes: Vec<String>,
}

/// Buffers that are mapped, but not populated.
struct Mapped {
    /// The buffers of each lane's share.
    shares: Vec<Vec<Buffer>>,
    common: Vec<Buffer>,
    /// Warnings for the user.
    notes: Vec<String>,
}

impl Pool {
    /// Populates buffers until the start's time is over, then returns the buffers of each lane and continues in the
    /// background.
    pub(crate) fn start(plan: &PoolPlan, stop: &Stop) -> Result<(Self, Vec<LanePool>)> {
        let started = Instant::now();
        let mapped = map(plan)?;
        let notes = mapped.notes.clone();
        let wakeup = Wakeup::new()?;
        stop.wake(wakeup.clone());
        let (mut filler, lanes, gauges) = divide(plan, mapped, &wakeup);
        filler.fill_first(plan, started, stop)?;
        let threads = filler.start_rest(Place::without(&plan.busy_cores), &wakeup, stop)?;
        Ok((Self { threads, gauges, notes }, lanes))
    }

    /// Returns the warning of a thread. A thread that has not ended yet is not waited for: at its priority that could
    /// take long.
    pub(crate) fn finish(self) -> Option<String> {
        let ended = self.threads.into_iter().filter(JoinHandle::is_finished);
        ended.filter_map(|thread| thread.join().ok().flatten()).next()
    }
}

/// Maps all buffers, locked within the limit, but not populated: mapping takes a lock for which a lane might wait, so
/// no thread of low priority does it.
fn map(plan: &PoolPlan) -> Result<Mapped> {
    let lanes = plan.nodes.len();
    let mut mapped = Mapped { shares: Vec::new(), common: Vec::new(), notes: Vec::new() };
    mapped.shares.resize_with(lanes, Vec::new);
    let mut is_locked = true;
    for number in 0..plan.buffers {
        let lane = number % lanes;
        let buffer = match Buffer::with_huge_pages(plan.buffer_bytes) {
            Ok(buffer) => buffer,
            Err(error) if number < lanes => return Err(error.into()),
            Err(error) => {
                mapped.notes.push(smaller(&error));
                break;
            }
        };
        // A preference only: a container may refuse it.
        let _ = plan.nodes[lane].map(|node| buffer.prefer_node(node));
        if is_locked && let Err(error) = buffer.lock() {
            is_locked = false;
            mapped.notes.push(format!("the buffer is not locked and could be swapped out: {error}"));
        }
        let is_own = number / lanes < plan.share();
        if is_own { mapped.shares[lane].push(buffer) } else { mapped.common.push(buffer) }
    }
    Ok(mapped)
}

/// Makes all rings: the sides of the filler, and those of the lanes and their writers.
fn divide(plan: &PoolPlan, mapped: Mapped, wakeup: &Wakeup) -> (Filler, Vec<LanePool>, Arc<BufferGauges>) {
    let Mapped { shares, common: rest, .. } = mapped;
    let buffers = shares.iter().map(Vec::len).sum::<usize>() + rest.len();
    let gauges = Arc::new(BufferGauges::new((buffers * plan.buffer_bytes) as u64));
    let common = Arc::new(Common::new(rest.len()));
    let need = Need::new(plan.is_populated, plan.buffer_bytes);
    let ends = shares.into_iter().map(|mapped| {
        let (to_lane, fresh) = RingBuffer::new(mapped.len());
        let lane = supply::ends(fresh, (mapped.len(), plan.most()), &common, &gauges, wakeup);
        (lane, Fresh { mapped, to_lane })
    });
    let (lanes, fresh) = ends.unzip();
    (Filler::new(fresh, rest, common, gauges.clone(), need), lanes, gauges)
}
