//! The size of the pool, and the lanes that share it.

use std::time::Duration;

/// A lane never has more buffers than this many equal shares of the pool: its rings have a place for each buffer that
/// it can have, which costs memory if there are many lanes.
const EQUAL_PARTS_MAX: usize = 16;

/// The size of the pool, and the lanes.
pub(crate) struct PoolPlan {
    /// Buffers of all lanes; at least one per lane.
    pub(crate) buffers: usize,
    pub(crate) buffer_bytes: usize,
    /// All buffers are populated; otherwise as many as the lanes may need soon.
    pub(crate) is_populated: bool,
    /// The part of the pool that is divided into the lanes' shares, %. A single lane has all of it.
    pub(crate) shares_percent: usize,
    /// The NUMA node of each lane, whose memory it prefers.
    pub(crate) nodes: Vec<Option<usize>>,
    /// Buffers of each lane that the start populates, however long that takes; one at least.
    pub(crate) ready_buffers: usize,
    /// Time within which the start populates more buffers.
    pub(crate) start_limit: Duration,
    /// Cores that the pool's thread avoids if there are others.
    pub(crate) busy_cores: Vec<usize>,
}

impl PoolPlan {
    /// Buffers of a lane's share.
    pub(super) fn share(&self) -> usize {
        match self.nodes.len() {
            1 => self.buffers,
            lanes => (self.buffers * self.shares_percent / 100 / lanes).max(1),
        }
    }

    /// The most buffers that a lane can have at a time.
    pub(super) fn most(&self) -> usize {
        let (lanes, share) = (self.nodes.len(), self.share());
        let common = self.buffers.saturating_sub(lanes * share);
        (share + common).min(EQUAL_PARTS_MAX * self.buffers / lanes)
    }
}
