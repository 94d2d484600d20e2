//! The memory that frames are sent from: chunks of one size, used one after the other, all of them,
//! before the first is used again. So frames are in flight while others are written, and nothing
//! waits unless the very next chunk is still with the kernel.

use crate::mem::Buffer;
use crate::{Error, Result};
use std::io;

/// The chunks, and which of them are in flight.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Buffer,
    chunk_bytes: usize,
    /// Bytes of the frame that is in flight from each chunk, if one is.
    in_flight: Vec<Option<u32>>,
    next: usize,
    flying: usize,
}

impl Umem {
    /// `chunk_count` chunks of `chunk_bytes` each, present in memory.
    pub(super) fn new(chunk_bytes: usize, chunk_count: usize) -> Result<Self> {
        let memory = Buffer::new(chunk_bytes * chunk_count)?;
        memory.populate()?;
        Ok(Self { memory, chunk_bytes, in_flight: vec![None; chunk_count], next: 0, flying: 0 })
    }

    /// All of it.
    pub(super) fn memory(&self) -> &[u8] {
        &self.memory[..self.chunk_bytes * self.in_flight.len()]
    }

    /// Bytes of a chunk.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Whether the next chunk is ours.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.in_flight[self.next].is_none()
    }

    /// Writes a frame into the next chunk, which is in flight from here on; says where it lies.
    ///
    /// # Panics
    /// When there is no room, or the frame is longer than a chunk.
    #[inline]
    pub(super) fn write(&mut self, frame: &[u8]) -> u64 {
        assert!(self.has_room() && frame.len() <= self.chunk_bytes);
        let start = self.next * self.chunk_bytes;
        self.memory[start..start + frame.len()].copy_from_slice(frame);
        self.in_flight[self.next] = Some(frame.len() as u32);
        self.flying += 1;
        self.next = (self.next + 1) % self.in_flight.len();
        start as u64
    }

    /// Takes a chunk back that the kernel is done with; says how many bytes its frame had.
    ///
    /// # Errors
    /// When the kernel names one that it does not have.
    #[inline]
    pub(super) fn land(&mut self, address: u64) -> Result<u32> {
        match self.in_flight.get_mut(address as usize / self.chunk_bytes).and_then(Option::take) {
            Some(bytes) => {
                self.flying -= 1;
                Ok(bytes)
            }
            None => Err(Error::new(
                format!("take back the frame at {address} of an AF_XDP socket's memory"),
                io::Error::from_raw_os_error(libc::EFAULT),
            )),
        }
    }

    /// Chunks in flight.
    pub(super) fn flying(&self) -> usize {
        self.flying
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::tests::{consume, consumer, produce, producer};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A kernel that completes in any order: no frame is overwritten while it has it, every frame
        /// arrives once and in order, and all land in the end.
        #[test]
        fn frames_in_flight_are_left_alone(steps in prop::collection::vec((0usize..3, 0usize..9), 1..300)) {
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
                        prop_assert_eq!(umem.land(taken).unwrap(), 8);
                    },
                }
                prop_assert_eq!(umem.flying() as u64, written - seen + with_kernel.len() as u64);
            }
        }
    }

    #[test]
    fn all_chunks_are_used_before_the_first_is_used_again() {
        let mut umem = Umem::new(2048, 3).unwrap();
        assert_eq!([0; 3].map(|_| umem.write(b"frame")), [0, 2048, 4096]);
        umem.land(4096).unwrap();
        assert!(!umem.has_room(), "the next one is the first, and that is in flight");
        umem.land(0).unwrap();
        assert_eq!(umem.write(b"frame"), 0);
    }

    #[test]
    fn a_chunk_lands_once() {
        let mut umem = Umem::new(2048, 2).unwrap();
        umem.write(b"frame");
        assert!(umem.land(2048).is_err());
        assert!(umem.land(1 << 40).is_err());
        umem.land(0).unwrap();
        assert!(umem.land(0).is_err());
    }
}
