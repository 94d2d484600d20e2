//! Stages: what happens to a batch between the source and the packer. A stage cannot fail; it
//! counts what it removes.

mod decap;
mod inner;
mod limit;
mod load;
mod slice;
pub mod split;

pub use decap::Decap;
pub use inner::Inner;
pub use limit::{Limit, Quota};
pub use load::Load;
pub use slice::Slice;
pub use split::Split;

use crate::batch::Batch;
use crate::tally::{LaneTally, Removed};
use quaff_file::tally::Counts;

/// One step of a lane. Called per batch, never per packet.
pub trait Stage: Send {
    /// Edits the descriptors; counts what it takes out.
    fn pass(&mut self, batch: &mut Batch<'_>, removed: &mut Removed);

    /// Whether frames wait in it for others; then it is also called when nothing comes.
    fn is_holding(&self) -> bool {
        false
    }

    /// Brings its share of a lane's counts up to date.
    fn count(&self, _counts: &mut Counts) {}

    /// Says at the end what it has to say.
    fn sum_up(&mut self, _tally: &mut LaneTally) {}
}
