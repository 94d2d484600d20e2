//! Truncates frames to a snaplen.

use super::Stage;
use crate::batch::Batch;
use crate::tally::LaneTally;

/// The stage that limits `keep` to a snaplen.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Bytes to keep of each frame.
    pub snaplen: u32,
}

impl Stage for Slice {
    fn pass(&mut self, batch: &mut Batch<'_>, _tally: &mut LaneTally) {
        for frame in batch.frames.iter_mut() {
            frame.keep = frame.keep.min(self.snaplen);
        }
    }
}
