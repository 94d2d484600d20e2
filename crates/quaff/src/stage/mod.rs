//! Stages: the steps of a lane between source and output. A stage cannot fail, and counts what it removes.

mod decap;
mod filter;
mod limit;
mod load;
mod slice;
mod split;

pub(crate) use decap::Decap;
pub(crate) use filter::Filter;
pub(crate) use limit::{Limit, Quota};
pub use load::Load;
pub(crate) use slice::Slice;
pub use split::Sorting;
pub(crate) use split::{
    Balance, Conversation, Knowledge, MEMBERS_MAX, PEAK_WINDOWS_NS, Peak, Presence, Rendezvous, Share, Split,
    WEIGHTS_MAX,
};

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
