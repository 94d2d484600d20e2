//! The slots of a TPACKET_V2 transmit ring (linux/if_packet.h, Documentation/networking/packet_mmap.rst):
//! their owners, and the fate of the frames in them.
//!
//! ```text
//!   [ free ][ sending ][ sending ][ queued ][ queued ][ free ]
//!             ^ oldest                                  ^ next
//! ```
//!
//! The kernel sends slot after slot and stops at the first that is not queued. It returns a slot when
//! the driver has completed the frame; only then does the frame count as sent. A frame that it cannot
//! send it marks TP_STATUS_WRONG_FORMAT, and stops there: this module removes that frame and moves the
//! following ones forward, so that no other frame is lost or reordered. It never makes a system call.

use super::TxCounts;
use crate::shared_memory::SharedMemory;
use std::sync::atomic::Ordering;

/// Offsets in `struct tpacket2_hdr`.
mod field {
    pub(super) const STATUS: usize = 0;
    pub(super) const LEN: usize = 4;
}

/// Offset of the frame in a slot: TPACKET2_HDRLEN - sizeof(struct sockaddr_ll).
pub(super) const FRAME_START: usize = 32;

/// The states of a slot that the kernel owns. A free slot may have time stamp bits set.
const BUSY: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING | libc::TP_STATUS_WRONG_FORMAT;

/// The ring's memory and the position in it.
#[derive(Debug)]
pub(super) struct TxSlots {
    memory: SharedMemory,
    slot_bytes: usize,
    slot_count: usize,
    oldest: usize,
    taken: usize,
    counts: TxCounts,
}

impl TxSlots {
    /// Free slots of `slot_bytes` each, a multiple of 16.
    pub(super) fn new(memory: SharedMemory, slot_bytes: usize, slot_count: usize) -> Self {
        Self { memory, slot_bytes, slot_count, oldest: 0, taken: 0, counts: TxCounts::default() }
    }

    /// The longest frame that fits a slot, bytes.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.slot_bytes - FRAME_START
    }

    /// Returns whether a slot is free.
    pub(super) fn has_room(&self) -> bool {
        self.taken < self.slot_count
    }

    /// Queues a frame after the others.
    ///
    /// # Panics
    /// When no slot is free, or the frame is longer than a slot.
    pub(super) fn push(&mut self, frame: &[u8]) {
        assert!(self.has_room() && frame.len() <= self.frame_bytes_max());
        let start = self.start(self.taken);
        self.memory.write(start + FRAME_START, frame);
        // Read by the kernel after the status. Relaxed: the Release below orders it.
        self.memory.word(start + field::LEN).store(frame.len() as u32, Ordering::Relaxed);
        self.taken += 1;
        self.counts.unsent_bytes += frame.len() as u64;
        // Written here, read by the kernel. Release: it sees the frame and its length.
        self.memory.word(start + field::STATUS).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
    }

    /// Frees the slots whose frames the kernel has sent.
    pub(super) fn reap(&mut self) {
        while self.taken > 0 && self.status(0) & BUSY == 0 {
            // Written by `push` on this thread; the kernel only reads it.
            let bytes = self.memory.word(self.start(0) + field::LEN).load(Ordering::Relaxed);
            self.counts.unsent_bytes -= u64::from(bytes);
            self.oldest = (self.oldest + 1) % self.slot_count;
            self.taken -= 1;
            self.counts.confirmed += 1;
        }
    }

    /// Removes the frame at which the kernel stopped because of its format; returns whether there is one. Must not
    /// be called while another thread is in a system call on the ring.
    pub(super) fn remove_refused(&mut self) -> bool {
        let is_refused = |ahead: &usize| self.status(*ahead) & libc::TP_STATUS_WRONG_FORMAT != 0;
        let Some(refused) = (0..self.taken).find(is_refused) else { return false };
        for ahead in refused + 1..self.taken {
            let (from, to) = (self.start(ahead), self.start(ahead - 1));
            let bytes = self.memory.word(from + field::LEN).load(Ordering::Relaxed) as usize;
            self.memory.copy(from + field::LEN, to + field::LEN, FRAME_START - field::LEN + bytes);
            // As in `push`.
            self.memory.word(to + field::STATUS).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        }
        self.taken -= 1;
        let last = self.start(self.taken);
        self.memory.word(last + field::STATUS).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        self.counts.refused += 1;
        true
    }

    /// Counts a call in which the kernel had no room in the driver or in the socket's memory.
    pub(super) fn add_retry(&mut self) {
        self.counts.retried += 1;
    }

    /// The fate of the frames so far.
    pub(super) fn counts(&self) -> TxCounts {
        TxCounts { pending: self.taken as u64, ..self.counts }
    }

    fn status(&self, ahead: usize) -> u32 {
        // Written by the kernel on any core. Acquire: a slot is overwritten only after the kernel has read it.
        self.memory.word(self.start(ahead) + field::STATUS).load(Ordering::Acquire)
    }

    /// Offset of the slot that is `ahead` slots after the oldest one that the kernel owns.
    fn start(&self, ahead: usize) -> usize {
        (self.oldest + ahead) % self.slot_count * self.slot_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const SLOT_BYTES: usize = 128;
    const SLOTS: usize = 5;
    const MTU: usize = 60;

    /// A model of tpacket_snd() and tpacket_destruct_skb() (net/packet/af_packet.c).
    #[derive(Default)]
    struct Kernel {
        head: usize,
        sending: VecDeque<usize>,
        wire: Vec<Vec<u8>>,
    }

    impl Kernel {
        /// One call: sends up to `most` queued frames; `false` if it stopped at a frame of wrong format.
        fn send(&mut self, slots: &TxSlots, most: usize) -> bool {
            for _ in 0..most {
                let start = self.head * SLOT_BYTES;
                let word = |at: usize| slots.memory.word(start + at);
                if word(field::STATUS).load(Ordering::Relaxed) != libc::TP_STATUS_SEND_REQUEST {
                    break;
                }
                let bytes = word(field::LEN).load(Ordering::Relaxed) as usize;
                if bytes > MTU {
                    word(field::STATUS).store(libc::TP_STATUS_WRONG_FORMAT, Ordering::Relaxed);
                    return false;
                }
                let padded = (0..bytes.next_multiple_of(8)).step_by(8);
                let frame =
                    padded.flat_map(|at| slots.memory.read_u64(start + FRAME_START + at).to_ne_bytes());
                self.wire.push(frame.take(bytes).collect());
                word(field::STATUS).store(libc::TP_STATUS_SENDING, Ordering::Relaxed);
                self.sending.push_back(self.head);
                self.head = (self.head + 1) % SLOTS;
            }
            true
        }

        /// The driver completes the `which`th of its frames; the order is arbitrary.
        fn complete(&mut self, slots: &TxSlots, which: usize) {
            if let Some(slot) = self.sending.remove(which % self.sending.len().max(1)) {
                let stamped = libc::TP_STATUS_TS_SOFTWARE * (slot as u32 & 1);
                slots.memory.word(slot * SLOT_BYTES).store(stamped, Ordering::Relaxed);
            }
        }
    }

    fn slots() -> TxSlots {
        TxSlots::new(SharedMemory::anonymous(4096), SLOT_BYTES, SLOTS)
    }

    proptest! {
        /// Whatever the order of events: every frame that fits is on the wire once, in order; the others are
        /// counted; and only completed frames count as sent.
        #[test]
        fn frames_keep_their_order_and_are_all_accounted_for(
            frames in prop::collection::vec((1usize..90, any::<u8>()), 0..40),
            steps in prop::collection::vec((0usize..4, 0usize..6), 1..60),
        ) {
            let frames: Vec<_> = frames.into_iter().map(|(bytes, fill)| vec![fill; bytes]).collect();
            let (mut slots, mut kernel, mut at) = (slots(), Kernel::default(), 0);
            let mut steps = steps.into_iter().cycle();
            let mut left = 10_000;
            while at < frames.len() || slots.counts().pending > 0 {
                left -= 1;
                prop_assert!(left > 0, "it does not end");
                // Every fourth step makes all possible progress, so that the test ends.
                let (what, many) = if left % 4 == 0 { (left / 4 % 4, 9) } else { steps.next().unwrap() };
                match what {
                    0 => for _ in 0..many {
                        if at < frames.len() && slots.has_room() {
                            slots.push(&frames[at]);
                            at += 1;
                        }
                    },
                    1 => if !kernel.send(&slots, many) {
                        prop_assert!(slots.remove_refused());
                    },
                    2 => kernel.complete(&slots, many),
                    _ => slots.reap(),
                }
                let counts = slots.counts();
                prop_assert_eq!(counts.confirmed + counts.refused + counts.pending, at as u64);
                prop_assert!(counts.confirmed <= (kernel.wire.len() - kernel.sending.len()) as u64);
            }
            let fitting: Vec<_> = frames.iter().filter(|frame| frame.len() <= MTU).cloned().collect();
            prop_assert_eq!(slots.counts().confirmed, fitting.len() as u64);
            let too_long = frames.iter().map(Vec::len).filter(|bytes| *bytes > MTU);
            prop_assert_eq!(slots.counts().unsent_bytes, too_long.sum::<usize>() as u64);
            prop_assert_eq!(slots.counts().refused, (frames.len() - fitting.len()) as u64);
            prop_assert_eq!(kernel.wire, fitting);
        }
    }

    #[test]
    fn only_a_refused_frame_is_removed() {
        let mut slots = slots();
        slots.push(&[1; 60]);
        assert!(!slots.remove_refused());
        assert_eq!(slots.counts(), TxCounts { pending: 1, unsent_bytes: 60, ..TxCounts::default() });
    }
}
