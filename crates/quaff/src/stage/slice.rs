//! `-s`: keep only the beginning of each frame.

use super::Stage;
use crate::batch::Frame;

/// Lowers `keep` to a snaplen.
#[derive(Debug)]
pub struct Slice {
    /// Bytes to keep of each frame.
    pub snaplen: u32,
}

impl Stage for Slice {
    fn pass(&mut self, _bytes: &[u8], frames: &mut Vec<Frame>) -> u64 {
        for frame in frames {
            frame.keep = frame.keep.min(self.snaplen);
        }
        0
    }
}
