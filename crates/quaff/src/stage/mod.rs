//! Stages: the steps of a lane between source and output. A stage cannot fail, and counts what it removes.
//!
//! One file each: decapsulation, filters, limits, the edits of files (`--from`, `--dedup`, …), made Ethernet headers.

mod compare;
mod decap;
mod declare;
mod dedup;
mod ethernet;
mod filter;
mod limit;
mod load;
mod numbered;
mod prove;
mod search;
mod shift;
mod single_link;
mod slice;
mod split;
mod untag;
mod window;

pub(crate) use compare::{Compare, RecentPackets};
pub(crate) use decap::Decap;
pub(crate) use declare::Declare;
pub(crate) use dedup::Dedup;
pub(crate) use ethernet::Ethernet;
pub(crate) use filter::Filter;
pub(crate) use limit::{Limit, Quota};
pub use load::Load;
pub(crate) use numbered::Numbered;
pub(crate) use prove::{Prove, ProveEnd, name as name_losses};
pub(crate) use search::Search;
pub(crate) use shift::Shift;
pub(crate) use single_link::SingleLink;
pub(crate) use slice::Slice;
pub use split::Sorting;
pub(crate) use split::{
    Balance, Conversation, Knowledge, MEMBERS_MAX, PEAK_WINDOWS_NS, Peak, Presence, Rendezvous, Share, Split,
    WEIGHTS_MAX,
};
pub(crate) use untag::Untag;
pub(crate) use window::Window;

use crate::batch::Batch;
use crate::tally::LaneTally;
use quaff_file::tally::Counts;

/// One step of a lane. Called per batch, never per packet.
pub(crate) trait Stage: Send {
    /// Edits the descriptors, and counts the frames that it removes in the tally of the lane.
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally);

    /// Returns whether it holds frames back; then it is also called when no frames arrive.
    fn is_holding(&self) -> bool {
        false
    }

    /// Updates its part of a lane's counts.
    fn count(&self, _counts: &mut Counts) {}

    /// Adds its results to the tally at the end of the run.
    fn sum_up(&mut self, _tally: &mut LaneTally) {}
}

#[cfg(test)]
pub(crate) mod testing {
    //! One batch through a stage.

    use super::Stage;
    use crate::batch::{Batch, Frame};
    use crate::tally::LaneTally;

    /// Passes frames whose bytes are all `bytes`; returns those that are left with their bytes, and the tally.
    pub(crate) fn pass_one(
        stage: &mut dyn Stage,
        frames: &[Frame],
        bytes: &[u8],
    ) -> (Vec<(Frame, Vec<u8>)>, LaneTally) {
        let len = bytes.len() as u32;
        let whole = |frame: &Frame| Frame { len, wire_len: len, keep: u32::MAX, ..*frame };
        let mut frames: Vec<_> = frames.iter().map(whole).collect();
        let (mut scratch, mut tally) = (Vec::new(), LaneTally::default());
        let mut batch = Batch {
            bytes,
            scratch: &mut scratch,
            frames: &mut frames,
            ids: &mut Vec::new(),
            now_ns: 0,
            is_last: false,
        };
        stage.pass(&mut batch, &mut tally);
        let memory = batch.memory();
        (batch.frames.iter().map(|frame| (*frame, memory.of(frame).to_vec())).collect(), tally)
    }

    /// Passes the end of a run.
    pub(crate) fn pass_last(stage: &mut dyn Stage) {
        let (mut scratch, mut frames) = (Vec::new(), Vec::new());
        let mut batch = Batch {
            bytes: &[],
            scratch: &mut scratch,
            frames: &mut frames,
            ids: &mut Vec::new(),
            now_ns: 0,
            is_last: true,
        };
        stage.pass(&mut batch, &mut LaneTally::default());
    }
}
