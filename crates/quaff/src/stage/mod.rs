//! Stages: what happens to a batch between the source and the packer. A stage cannot fail; it
//! counts what it removes.

mod limit;
mod slice;

pub use limit::{Limit, Quota};
pub use slice::Slice;

use crate::batch::Frame;

/// One step of a lane. Called per batch, never per packet.
pub trait Stage: Send {
    /// Edits the descriptors; returns how many it removed.
    fn pass(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> u64;
}
