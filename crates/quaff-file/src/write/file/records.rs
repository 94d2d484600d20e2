//! pcap with aligned writes. Records straddle the edges of writes, so a chunk counts as written with its
//! last byte, and after a failure the file is truncated to the end of the last complete chunk.

use crate::write::repack::Repack;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The repacker, and the chunks in it and in pending writes.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) repack: Repack,
    /// Packets of incomplete chunks and the file offsets of their ends, oldest first.
    pub(super) chunks: VecDeque<(u64, u64)>,
    /// File offset of the end of the last complete chunk.
    pub(super) valid: u64,
}

impl Records {
    pub(super) fn new(repack: Repack) -> Self {
        Self { repack, chunks: VecDeque::new(), valid: 0 }
    }

    /// Returns the number of bytes not submitted yet.
    pub(super) fn carried(&self) -> u64 {
        self.repack.carried() as u64
    }

    /// Records that the file is written up to `offset`; returns the packets of the chunks that this
    /// completes.
    pub(super) fn reach(&mut self, offset: u64) -> u64 {
        let mut packets = 0;
        while let Some((of_chunk, end)) = self.chunks.pop_front_if(|(_, end)| *end <= offset) {
            packets += of_chunk;
            self.valid = end;
        }
        packets
    }

    /// Offset of the end of the last record that is known to be whole.
    pub(super) fn valid(&self) -> u64 {
        self.valid
    }

    /// Records that the file is whole up to `end`, which is `packets` packets after the last complete chunk.
    pub(super) fn reach_packets(&mut self, end: u64, packets: u64) {
        self.valid = end;
        let mut left = packets;
        for (of_chunk, _) in &mut self.chunks {
            let taken = left.min(*of_chunk);
            (*of_chunk, left) = (*of_chunk - taken, left - taken);
        }
    }

    /// Resets the state for another file.
    pub(super) fn clear(&mut self) {
        self.repack.clear();
        self.valid = 0;
    }
}

/// Writes `bytes` at an unaligned `offset` of a file that is open for O_DIRECT, through the page cache. No other
/// write of the file is in flight.
pub(in crate::write) fn write_through_cache(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    through_cache(file, || file.write_all_at(bytes, offset))
}

/// Uses a file that is open for O_DIRECT through the page cache. No write of it is in flight.
pub(super) fn through_cache<T>(file: &File, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    // Opening it again would need a right that this process may have given away.
    fcntl(file, FcntlArg::F_SETFL(flags - OFlag::O_DIRECT))?;
    let done = work();
    fcntl(file, FcntlArg::F_SETFL(flags))?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_of_records_counts_with_its_last_byte() {
        let mut records = Records::new(Repack::new(512, 4096, 1).unwrap());
        records.chunks.extend([(10, 600), (5, 1000), (1, 5000)]);
        assert_eq!((records.reach(512), records.valid), (0, 0));
        assert_eq!((records.reach(600), records.valid), (10, 600));
        assert_eq!((records.reach(1024), records.valid), (5, 1000));
        assert_eq!(records.chunks.len(), 1);
    }
}
