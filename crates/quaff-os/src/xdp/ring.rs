//! The rings of an AF_XDP socket (linux/if_xdp.h): one that user space fills and the kernel empties, and one
//! in the opposite direction. Both indices only grow and wrap at 2^32.

use crate::shared_memory::SharedMemory;
use std::sync::atomic::{Ordering, fence};

/// Offsets in a ring's memory (`struct xdp_ring_offset`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
    /// Number of entries, a power of two.
    pub(super) count: u32,
}

/// A ring that user space fills.
#[derive(Debug)]
pub(super) struct Producer {
    memory: SharedMemory,
    layout: Layout,
    /// Entries written so far, submitted or not.
    written: u32,
    /// The kernel's consumer index as last read.
    consumed: u32,
}

/// A ring that user space empties.
#[derive(Debug)]
pub(super) struct Consumer {
    memory: SharedMemory,
    layout: Layout,
    /// The kernel's producer index as last read.
    produced: u32,
    /// Entries read so far.
    taken: u32,
}

impl Producer {
    pub(super) fn new(memory: SharedMemory, layout: Layout) -> Self {
        Self { memory, layout, written: 0, consumed: 0 }
    }

    /// Returns whether there is room for one more entry.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        if self.written.wrapping_sub(self.consumed) < self.layout.count {
            return true;
        }
        self.pending() < self.layout.count
    }

    /// Writes a descriptor (`struct xdp_desc`), which the kernel sees after [`Producer::submit`].
    #[inline]
    pub(super) fn write(&mut self, address: u64, bytes: u32) {
        let mut desc = [0; 16];
        desc[..8].copy_from_slice(&address.to_ne_bytes());
        desc[8..12].copy_from_slice(&bytes.to_ne_bytes());
        let index = (self.written & (self.layout.count - 1)) as usize;
        self.memory.write(self.layout.entries + index * desc.len(), &desc);
        self.written = self.written.wrapping_add(1);
    }

    /// Writes an address: an entry of a fill ring, which the kernel sees after [`Producer::submit`].
    #[inline]
    pub(super) fn write_address(&mut self, address: u64) {
        let index = (self.written & (self.layout.count - 1)) as usize;
        self.memory.write(self.layout.entries + index * 8, &address.to_ne_bytes());
        self.written = self.written.wrapping_add(1);
    }

    /// As [`Producer::pending`], without updating the copy of the consumer index.
    #[inline]
    pub(super) fn level(&self) -> u32 {
        // Written by the kernel. Relaxed: the number alone counts, and nothing is overwritten on its account.
        self.written.wrapping_sub(self.memory.word(self.layout.consumer).load(Ordering::Relaxed))
    }

    /// Publishes the written entries to the kernel.
    pub(super) fn submit(&self) {
        // Written here, read by the kernel on any core. Release: it sees the descriptors and the frames.
        self.memory.word(self.layout.producer).store(self.written, Ordering::Release);
    }

    /// The number of entries that the kernel has not consumed yet.
    pub(super) fn pending(&mut self) -> u32 {
        // Written by the kernel. Acquire: an entry is overwritten only after the kernel has read it.
        self.consumed = self.memory.word(self.layout.consumer).load(Ordering::Acquire);
        self.written.wrapping_sub(self.consumed)
    }

    /// Bytes of the frame that the kernel consumed last, as of the last [`Producer::pending`].
    pub(super) fn last_consumed_bytes(&self) -> u32 {
        let index = (self.consumed.wrapping_sub(1) & (self.layout.count - 1)) as usize;
        self.memory.read_u64(self.layout.entries + index * 16 + 8) as u32
    }

    /// Returns whether the kernel needs a system call to continue (XDP_RING_NEED_WAKEUP).
    pub(super) fn needs_wakeup(&self) -> bool {
        // The kernel sets the flag and then reads the ring; this thread submits and then reads the flag.
        // Without the fence each could miss the other's write. Relaxed: the fence orders the load.
        fence(Ordering::SeqCst);
        self.memory.word(self.layout.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl Consumer {
    pub(super) fn new(memory: SharedMemory, layout: Layout) -> Self {
        Self { memory, layout, produced: 0, taken: 0 }
    }

    /// The next address that the kernel has completed.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.taken == self.produced {
            // Written by the kernel. Acquire: its entries are visible.
            self.produced = self.memory.word(self.layout.producer).load(Ordering::Acquire);
            if self.taken == self.produced {
                return None;
            }
        }
        let index = (self.taken & (self.layout.count - 1)) as usize;
        let address = self.memory.read_u64(self.layout.entries + index * 8);
        self.taken = self.taken.wrapping_add(1);
        Some(address)
    }

    /// The number of entries that the kernel has produced and that were not read yet.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        // Written by the kernel. Acquire: its entries, and the frames that they describe, are visible.
        self.produced = self.memory.word(self.layout.producer).load(Ordering::Acquire);
        self.produced.wrapping_sub(self.taken)
    }

    /// The descriptor (`struct xdp_desc`) `ahead` entries after the next one, below [`Consumer::available`]: address
    /// and bytes.
    #[inline]
    pub(super) fn peek(&self, ahead: u32) -> (u64, u32) {
        let index = (self.taken.wrapping_add(ahead) & (self.layout.count - 1)) as usize;
        let at = self.layout.entries + index * 16;
        (self.memory.read_u64(at), self.memory.read_u64(at + 8) as u32)
    }

    /// Marks `count` entries as read.
    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        self.taken = self.taken.wrapping_add(count);
    }

    /// Returns the entries that were read to the kernel.
    pub(super) fn release(&self) {
        // Written here, read by the kernel. Release: it overwrites an entry only after it was read.
        self.memory.word(self.layout.consumer).store(self.taken, Ordering::Release);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn layout(count: u32) -> Layout {
        Layout { producer: 0, consumer: 64, flags: 128, entries: 192, count }
    }

    /// The kernel's side of a [`Producer`].
    pub(crate) fn consume(ring: &Producer) -> Option<(u64, u32)> {
        let word = |at: usize| ring.memory.word(at);
        let at = word(ring.layout.consumer).load(Ordering::Acquire);
        if at == word(ring.layout.producer).load(Ordering::Acquire) {
            return None;
        }
        let entry = ring.layout.entries + (at & (ring.layout.count - 1)) as usize * 16;
        let found = (ring.memory.read_u64(entry), ring.memory.read_u64(entry + 8) as u32);
        word(ring.layout.consumer).store(at.wrapping_add(1), Ordering::Release);
        Some(found)
    }

    /// The kernel's side of a [`Consumer`]; `false` when it is full.
    pub(crate) fn produce(ring: &mut Consumer, address: u64) -> bool {
        let at = ring.memory.word(ring.layout.producer).load(Ordering::Acquire);
        let consumed = ring.memory.word(ring.layout.consumer).load(Ordering::Acquire);
        if at.wrapping_sub(consumed) == ring.layout.count {
            return false;
        }
        let entry = ring.layout.entries + (at & (ring.layout.count - 1)) as usize * 8;
        ring.memory.write(entry, &address.to_ne_bytes());
        ring.memory.word(ring.layout.producer).store(at.wrapping_add(1), Ordering::Release);
        true
    }

    /// The kernel's side of a fill ring.
    pub(crate) fn consume_address(ring: &Producer) -> Option<u64> {
        let word = |at: usize| ring.memory.word(at);
        let at = word(ring.layout.consumer).load(Ordering::Acquire);
        if at == word(ring.layout.producer).load(Ordering::Acquire) {
            return None;
        }
        let found = ring.memory.read_u64(ring.layout.entries + (at & (ring.layout.count - 1)) as usize * 8);
        word(ring.layout.consumer).store(at.wrapping_add(1), Ordering::Release);
        Some(found)
    }

    /// The kernel's side of a receive ring, which has room.
    pub(crate) fn produce_desc(ring: &mut Consumer, address: u64, len: u32) {
        let at = ring.memory.word(ring.layout.producer).load(Ordering::Acquire);
        let entry = ring.layout.entries + (at & (ring.layout.count - 1)) as usize * 16;
        ring.memory.write(entry, &address.to_ne_bytes());
        ring.memory.write(entry + 8, &u64::from(len).to_ne_bytes());
        ring.memory.word(ring.layout.producer).store(at.wrapping_add(1), Ordering::Release);
    }

    pub(crate) fn producer(count: u32) -> Producer {
        Producer::new(SharedMemory::anonymous(4096), layout(count))
    }

    pub(crate) fn consumer(count: u32) -> Consumer {
        Consumer::new(SharedMemory::anonymous(4096), layout(count))
    }

    proptest! {
        /// Entries come out once, in order, and only after they are submitted, also where the indices wrap.
        #[test]
        fn a_producer_keeps_the_order(start in prop_oneof![Just(0u32), Just(u32::MAX - 5)],
                                             steps in prop::collection::vec(0usize..3, 1..200)) {
            let mut ring = producer(4);
            (ring.written, ring.consumed) = (start, start);
            for at in [ring.layout.producer, ring.layout.consumer] {
                ring.memory.word(at).store(start, Ordering::Relaxed);
            }
            let (mut written, mut submitted, mut consumed) = (0u64, 0, 0);
            for step in steps {
                match step {
                    0 if ring.has_room() => {
                        ring.write(written * 2048, written as u32);
                        written += 1;
                    }
                    0 => prop_assert_eq!(written - consumed, 4),
                    1 => {
                        ring.submit();
                        submitted = written;
                    }
                    _ => {
                        let expected = (consumed < submitted).then_some((consumed * 2048, consumed as u32));
                        prop_assert_eq!(consume(&ring), expected);
                        if let Some((_, bytes)) = expected {
                            ring.pending();
                            prop_assert_eq!(ring.last_consumed_bytes(), bytes);
                        }
                        consumed += u64::from(expected.is_some());
                    }
                }
            }
            prop_assert_eq!(u64::from(ring.pending()), written - consumed);
        }

        #[test]
        fn a_consumer_keeps_the_order(start in prop_oneof![Just(0u32), Just(u32::MAX - 5)],
                                               steps in prop::collection::vec(0usize..3, 1..200)) {
            let mut ring = consumer(4);
            (ring.produced, ring.taken) = (start, start);
            for at in [ring.layout.producer, ring.layout.consumer] {
                ring.memory.word(at).store(start, Ordering::Relaxed);
            }
            let (mut produced, mut taken, mut released) = (0u64, 0, 0);
            for step in steps {
                match step {
                    0 => {
                        let room = produced - released < 4;
                        prop_assert_eq!(produce(&mut ring, produced), room);
                        produced += u64::from(room);
                    }
                    1 => {
                        let expected = (taken < produced).then_some(taken);
                        prop_assert_eq!(ring.take(), expected);
                        taken += u64::from(expected.is_some());
                    }
                    _ => {
                        ring.release();
                        released = taken;
                    }
                }
            }
        }
    }

    #[test]
    fn the_wakeup_flag_is_read() {
        let ring = producer(4);
        assert!(!ring.needs_wakeup());
        ring.memory.word(ring.layout.flags).store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
        assert!(ring.needs_wakeup());
    }
}
