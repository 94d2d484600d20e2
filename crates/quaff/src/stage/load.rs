//! Artificial load: work on each frame as a slow application would do it, without effect. For measurements only.

use super::Stage;
use crate::batch::Batch;
use crate::plan::LoadPlan;
use crate::tally::LaneTally;
use flate2::{Compress, Compression, FlushCompress};
use std::hint::black_box;

/// The load stage; it discards the results.
pub struct Load {
    copies: u32,
    compress: Option<Compress>,
    scratch: Vec<u8>,
}

impl Load {
    /// A stage that works on the first `frame_bytes_max` bytes of each frame.
    pub fn new(plan: LoadPlan, frame_bytes_max: usize) -> Self {
        let level = Compression::new(plan.compression.min(9));
        Self {
            copies: plan.copies,
            compress: (plan.compression > 0).then(|| Compress::new(level, true)),
            // Incompressible data grows slightly (RFC 1950, RFC 1951).
            scratch: vec![0; frame_bytes_max + frame_bytes_max / 8 + 64],
        }
    }

    /// Works on one frame. Returns its compressed size, 0 without compression.
    pub fn work(&mut self, bytes: &[u8]) -> u64 {
        let bytes = &bytes[..bytes.len().min(self.scratch.len())];
        for _ in 0..self.copies {
            // black_box keeps the copy, although nothing reads it.
            black_box(&mut self.scratch)[..bytes.len()].copy_from_slice(black_box(bytes));
        }
        let Some(compress) = &mut self.compress else { return 0 };
        compress.reset();
        // The output buffer is large enough, so this cannot fail.
        let _ = compress.compress(bytes, black_box(&mut self.scratch), FlushCompress::Finish);
        compress.total_out()
    }
}

impl Stage for Load {
    fn pass(&mut self, batch: &mut Batch<'_>, _tally: &mut LaneTally) {
        let memory = batch.memory();
        for frame in batch.frames.iter() {
            let bytes = memory.of(frame);
            self.work(&bytes[..bytes.len().min(frame.keep as usize)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_copied_and_compressed() {
        let mut load = Load::new(LoadPlan { copies: 2, compression: 3 }, 1500);
        let frame: Vec<u8> = (0..200).collect();
        load.work(&frame);
        // The compressed bytes overwrite the first of the copied ones.
        let mut plain = Load::new(LoadPlan { copies: 1, compression: 0 }, 1500);
        assert_eq!(plain.work(&frame), 0);
        assert_eq!(plain.scratch[..200], frame);
        let small = load.work(&[7; 1500]);
        assert!((10..100).contains(&small), "{small}");
        assert_eq!(load.work(&[7; 1500]), small, "each frame begins anew");
        assert!(load.work(&[1; 9000]) > 0, "a longer frame is truncated");
    }
}
