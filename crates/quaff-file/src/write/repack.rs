//! pcap for aligned writes. pcap has no padding, so the rest of each aligned buffer is carried over to the
//! next: one more copy, which is a reason that pcapng is the default.

use quaff_os::Buffer;

/// Size of a buffer of [`Repack`], bytes.
pub(super) const REPACK_BYTES: usize = 4 << 20;
/// Number of spare buffers of [`Repack`].
pub(super) const REPACK_BUFFERS: usize = 4;

/// Collects bytes into buffers that begin at aligned offsets of the file.
#[derive(Debug)]
pub struct Repack {
    align: usize,
    spare: Vec<Buffer>,
    open: Buffer,
    len: usize,
    /// Bytes of `open` that are in the file already, by a write through the page cache.
    tail_written: usize,
}

impl Repack {
    /// Allocates `count` spare buffers of `buffer_bytes`, a multiple of `align`.
    pub fn new(align: usize, buffer_bytes: usize, count: usize) -> quaff_os::Result<Self> {
        let mut spare = Vec::new();
        for _ in 0..count {
            let buffer = Buffer::new(buffer_bytes)?;
            buffer.populate()?;
            spare.push(buffer);
        }
        Ok(Self { align, spare, open: Buffer::new(buffer_bytes)?, len: 0, tail_written: 0 })
    }

    /// Copies as many of `bytes` as fit; returns their number.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.open.len() - self.len);
        self.open[self.len..self.len + count].copy_from_slice(&bytes[..count]);
        self.len += count;
        count
    }

    /// Returns `true` if [`Repack::take`] must be called before more fits.
    pub(super) fn is_full(&self) -> bool {
        self.len == self.open.len()
    }

    /// Returns a buffer and the length of its aligned part, which is to be written; carries the rest over
    /// to a spare buffer. `None` without an aligned part or a spare buffer.
    pub(super) fn take(&mut self) -> Option<(Buffer, usize)> {
        let aligned = self.len / self.align * self.align;
        if aligned == 0 {
            return None;
        }
        let mut next = self.spare.pop()?;
        let carried = self.len - aligned;
        next[..carried].copy_from_slice(&self.open[aligned..self.len]);
        self.len = carried;
        self.tail_written = 0;
        Some((std::mem::replace(&mut self.open, next), aligned))
    }

    /// Returns the bytes after the last aligned one, unless they were returned before.
    pub(super) fn tail(&mut self) -> Option<&[u8]> {
        if self.len >= self.align || self.len == self.tail_written {
            return None;
        }
        self.tail_written = self.len;
        Some(&self.open[..self.len])
    }

    /// Resets the state for another file.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.tail_written = 0;
    }

    /// Takes a written buffer back.
    pub(super) fn recycle(&mut self, buffer: Buffer) {
        self.spare.push(buffer);
    }

    /// Returns the number of bytes not taken yet.
    pub(super) fn carried(&self) -> usize {
        self.len
    }

    /// Returns `true` if there is a spare buffer.
    pub(super) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The file holds the same bytes for any pieces and any flushes.
        #[test]
        fn the_file_is_the_sum_of_its_pieces(
            pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9000), any::<bool>()), 0..20)
        ) {
            let mut repack = Repack::new(512, 8192, 1).unwrap();
            let (mut file, mut offset) = (Vec::<u8>::new(), 0usize);
            let put = |file: &mut Vec<u8>, at: usize, bytes: &[u8]| {
                file.resize(file.len().max(at + bytes.len()), 0);
                file[at..at + bytes.len()].copy_from_slice(bytes);
            };
            for (piece, flush) in &pieces {
                let mut left = &piece[..];
                loop {
                    left = &left[repack.fill(left)..];
                    if repack.is_full() || (left.is_empty() && *flush) {
                        if let Some((buffer, len)) = repack.take() {
                            prop_assert!(offset.is_multiple_of(512) && len.is_multiple_of(512));
                            put(&mut file, offset, &buffer[..len]);
                            offset += len;
                            repack.recycle(buffer);
                        }
                        if let Some(tail) = repack.tail() {
                            put(&mut file, offset, tail);
                        }
                    }
                    if left.is_empty() {
                        break;
                    }
                }
            }
            if let Some((buffer, len)) = repack.take() {
                put(&mut file, offset, &buffer[..len]);
                offset += len;
            }
            if let Some(tail) = repack.tail() {
                put(&mut file, offset, tail);
            }
            let whole: Vec<u8> = pieces.into_iter().flat_map(|(piece, _)| piece).collect();
            prop_assert_eq!(file, whole);
        }
    }
}
