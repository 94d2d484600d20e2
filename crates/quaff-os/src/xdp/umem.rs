//! The memory that frames are sent from (UMEM): chunks of one size, used in rotation. Frames are written while
//! others are in flight; a sender waits only if the next chunk is still in flight.

use crate::mem::Buffer;
use crate::{Error, Result};
use std::io;

/// The chunks, and the frames in flight.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Buffer,
    chunk_bytes: usize,
    /// Bytes of the frame that is in flight from each chunk, if one is.
    frame_bytes: Vec<Option<u32>>,
    next: usize,
    in_flight: usize,
}

impl Umem {
    /// `chunk_count` populated chunks of `chunk_bytes` each.
    pub(super) fn new(chunk_bytes: usize, chunk_count: usize) -> Result<Self> {
        let memory = Buffer::new(chunk_bytes * chunk_count)?;
        memory.populate()?;
        Ok(Self { memory, chunk_bytes, frame_bytes: vec![None; chunk_count], next: 0, in_flight: 0 })
    }

    /// The memory of all chunks.
    pub(super) fn memory(&self) -> &[u8] {
        &self.memory[..self.chunk_bytes * self.frame_bytes.len()]
    }

    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Returns whether the next chunk is free.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.frame_bytes[self.next].is_none()
    }

    /// Writes a frame to the next chunk, which is in flight from then on; returns its address.
    ///
    /// # Panics
    /// When there is no room, or the frame is longer than a chunk.
    #[inline]
    pub(super) fn write(&mut self, frame: &[u8]) -> u64 {
        assert!(self.has_room() && frame.len() <= self.chunk_bytes);
        let start = self.next * self.chunk_bytes;
        self.memory[start..start + frame.len()].copy_from_slice(frame);
        self.frame_bytes[self.next] = Some(frame.len() as u32);
        self.in_flight += 1;
        self.next = (self.next + 1) % self.frame_bytes.len();
        start as u64
    }

    /// Frees a chunk that the kernel has completed; returns the length of its frame.
    ///
    /// # Errors
    /// EFAULT when the chunk is not in flight.
    #[inline]
    pub(super) fn complete(&mut self, address: u64) -> Result<u32> {
        match self.frame_bytes.get_mut(address as usize / self.chunk_bytes).and_then(Option::take) {
            Some(bytes) => {
                self.in_flight -= 1;
                Ok(bytes)
            }
            None => Err(Error::new(
                format!("complete the frame at {address} of an AF_XDP socket's memory"),
                io::Error::from_raw_os_error(libc::EFAULT),
            )),
        }
    }

    /// The number of chunks in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::tests::{consume, consumer, produce, producer};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// With a kernel that completes in any order: no frame in flight is overwritten, and every frame
        /// arrives once and in order.
        #[test]
        fn frames_in_flight_are_not_overwritten(steps in prop::collection::vec((0usize..3, 0usize..9), 1..300)) {
            let (mut umem, mut tx, mut done) = (Umem::new(64, 6).unwrap(), producer(4), consumer(8));
            let (mut written, mut seen) = (0u64, 0u64);
            let mut with_kernel: Vec<(u64, u64)> = Vec::new();
            for (what, which) in steps {
                match what {
                    0 if umem.has_room() && tx.has_room() => {
                        let at = umem.write(&written.to_ne_bytes());
                        prop_assert!(with_kernel.iter().all(|(address, _)| *address != at));
                        tx.write(at, 8);
                        tx.submit();
                        written += 1;
                    }
                    0 => {}
                    1 => if let Some((address, bytes)) = consume(&tx) {
                        let found = &umem.memory()[address as usize..][..bytes as usize];
                        prop_assert_eq!(found, seen.to_ne_bytes());
                        with_kernel.push((address, seen));
                        seen += 1;
                    },
                    _ => if !with_kernel.is_empty() {
                        let (address, number) = with_kernel.remove(which % with_kernel.len());
                        let found = &umem.memory()[address as usize..][..8];
                        prop_assert_eq!(found, number.to_ne_bytes(), "overwritten in flight");
                        prop_assert!(produce(&mut done, address));
                        let taken = done.take().unwrap();
                        done.release();
                        prop_assert_eq!(umem.complete(taken).unwrap(), 8);
                    },
                }
                prop_assert_eq!(umem.in_flight() as u64, written - seen + with_kernel.len() as u64);
            }
        }
    }

    #[test]
    fn all_chunks_are_used_before_the_first_is_used_again() {
        let mut umem = Umem::new(2048, 3).unwrap();
        assert_eq!([0; 3].map(|_| umem.write(b"frame")), [0, 2048, 4096]);
        umem.complete(4096).unwrap();
        assert!(!umem.has_room(), "the next chunk is the first, which is in flight");
        umem.complete(0).unwrap();
        assert_eq!(umem.write(b"frame"), 0);
    }

    #[test]
    fn a_chunk_completes_once() {
        let mut umem = Umem::new(2048, 2).unwrap();
        umem.write(b"frame");
        assert!(umem.complete(2048).is_err());
        assert!(umem.complete(1 << 40).is_err());
        umem.complete(0).unwrap();
        assert!(umem.complete(0).is_err());
    }
}
