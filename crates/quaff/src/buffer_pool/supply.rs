//! The buffers of a lane, and their return from its writer.

use super::common::Common;
use crate::gauge::BufferGauges;
use quaff_os::{Buffer, Gauge, Wakeup};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;

/// The buffers of one lane.
pub(crate) struct LanePool {
    /// The lane's side.
    pub(crate) supply: Supply,
    /// The writer's side.
    pub(crate) free_buffers: FreeBuffers,
}

/// The empty buffers of a lane: first the one that the writer returned last, which is in the cache, then fresh ones of
/// its share, which the pool's thread populates ahead, then common ones. So while the output keeps up, a lane reuses
/// the same one or two buffers.
#[derive(Debug)]
pub(crate) struct Supply {
    returned: Consumer<Buffer>,
    /// Returned buffers, the last one on top.
    warm: Vec<Buffer>,
    fresh: Consumer<Buffer>,
    /// Buffers of the lane's share.
    pub(crate) share: usize,
    /// The most buffers that the lane can have at a time, and places in each of its rings.
    pub(crate) most: usize,
    /// Number of fresh buffers that this lane has taken.
    taken: usize,
    lease: Arc<Lease>,
    common: Arc<Common>,
    gauges: Arc<BufferGauges>,
    /// Wakes the thread that populates more.
    wakeup: Wakeup,
}

/// The writer's side: returns buffers that are written.
#[derive(Debug)]
pub(crate) struct FreeBuffers {
    to_lane: Producer<Buffer>,
    lease: Arc<Lease>,
    common: Arc<Common>,
    gauges: Arc<BufferGauges>,
}

/// The common buffers that a lane has borrowed so far, and those that its writer has repaid.
#[derive(Debug, Default)]
struct Lease {
    /// Written by the lane.
    borrowed: Gauge,
    /// Written by its writer.
    repaid: Gauge,
}

/// The two sides of a lane whose share, of so many buffers, comes through `fresh`; it has `most` at a time.
pub(super) fn ends(
    fresh: Consumer<Buffer>,
    (share, most): (usize, usize),
    common: &Arc<Common>,
    gauges: &Arc<BufferGauges>,
    wakeup: &Wakeup,
) -> LanePool {
    let (to_lane, returned) = RingBuffer::new(most);
    let (lease, common, gauges) = (Arc::<Lease>::default(), common.clone(), gauges.clone());
    let free_buffers =
        FreeBuffers { to_lane, lease: lease.clone(), common: common.clone(), gauges: gauges.clone() };
    let warm = Vec::with_capacity(most);
    let wakeup = wakeup.clone();
    let supply = Supply { returned, warm, fresh, share, most, taken: 0, lease, common, gauges, wakeup };
    LanePool { supply, free_buffers }
}

impl Lease {
    /// Buffers borrowed and not repaid. Each side knows its own count and may see an earlier one of the other side, so
    /// the lane may get too high a number, its writer too low a one.
    fn open(&self) -> u64 {
        self.borrowed.get() - self.repaid.get()
    }
}

impl Supply {
    /// An empty buffer, if there is one.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        let buffer = self.take_own().or_else(|| self.borrow())?;
        self.gauges.take(buffer.len());
        Some(buffer)
    }

    fn take_own(&mut self) -> Option<Buffer> {
        while let Ok(buffer) = self.returned.pop() {
            self.warm.push(buffer);
        }
        if let Some(buffer) = self.warm.pop() {
            return Some(buffer);
        }
        let buffer = self.fresh.pop().ok()?;
        self.taken += 1;
        self.ask_for_more();
        Some(buffer)
    }

    fn borrow(&mut self) -> Option<Buffer> {
        let buffer = self.may_borrow().then(|| self.common.take())??;
        self.lease.borrowed.set(self.lease.borrowed.get() + 1);
        self.ask_for_more();
        Some(buffer)
    }

    /// Wakes the thread that populates buffers, until it has populated all.
    fn ask_for_more(&self) {
        if !self.fresh.is_abandoned() {
            self.wakeup.signal();
        }
    }

    /// Common buffers, of all lanes together.
    pub(crate) fn common_buffers(&self) -> usize {
        self.common.count()
    }

    fn may_borrow(&self) -> bool {
        self.lease.open() < (self.most - self.share) as u64
    }

    /// Returns whether the lane has an empty buffer of its own.
    pub(crate) fn has_own(&self) -> bool {
        !(self.warm.is_empty() && self.returned.is_empty() && self.fresh.is_empty())
    }

    /// Returns whether all buffers that the lane can have are in use. Otherwise some are empty, or are being populated.
    pub(crate) fn is_exhausted(&self) -> bool {
        // In this order: the last fresh buffer comes before the end of the thread that populates them.
        let is_populated = self.taken == self.share || self.fresh.is_abandoned();
        is_populated && !self.has_own() && (!self.may_borrow() || self.common.is_empty())
    }

    /// Buffers in use: being filled, waiting, or being written.
    pub(crate) fn out(&self) -> usize {
        self.taken + self.lease.open() as usize - self.warm.len() - self.returned.slots()
    }
}

impl FreeBuffers {
    /// Returns a buffer, to the common ones while the lane has borrowed any, so that the lane keeps no more than its
    /// share when it needs no more.
    pub(crate) fn push(&mut self, buffer: Buffer) {
        self.gauges.put(buffer.len());
        if self.lease.open() > 0 {
            self.lease.repaid.set(self.lease.repaid.get() + 1);
            return self.common.put(buffer);
        }
        let pushed = self.to_lane.push(buffer);
        assert!(pushed.is_ok(), "the ring back has a place for every buffer");
    }
}

#[cfg(test)]
impl LanePool {
    /// A lane to which all of the pool belongs, with its buffers ready.
    pub(crate) fn of(buffers: Vec<Buffer>) -> Self {
        let count = buffers.len();
        let (mut populated, fresh) = RingBuffer::new(count);
        let gauges = BufferGauges::new(buffers.iter().map(|buffer| buffer.len() as u64).sum());
        buffers.into_iter().for_each(|buffer| populated.push(buffer).expect("a place"));
        let wakeup = Wakeup::new().expect("an eventfd");
        ends(fresh, (count, count), &Arc::new(Common::new(0)), &Arc::new(gauges), &wakeup)
    }
}
