//! The slots of a TPACKET_V2 transmit ring (linux/if_packet.h, Documentation/networking/packet_mmap.rst):
//! who owns which, and what became of the frames in them.
//!
//! ```text
//!   [ free ][ sending ][ sending ][ queued ][ queued ][ free ]
//!             ^ oldest                                  ^ next
//! ```
//!
//! The kernel looks at one slot after the other and stops at the first that is not queued. It
//! gives a slot back when the driver is done with the frame, and only then the frame counts as sent.
//! A frame that it cannot send it marks as of wrong format, and stays in front of it: that one is
//! taken out here, and those behind it move up, so that nothing is lost and the order holds.
//! Nothing here makes a system call.

use crate::shared::Shared;
use crate::stats::TxCounts;
use std::sync::atomic::Ordering;

/// `struct tpacket2_hdr`: where its fields are.
mod field {
    pub(super) const STATUS: usize = 0;
    pub(super) const LEN: usize = 4;
}

/// Where the frame of a slot begins: TPACKET2_HDRLEN - sizeof(struct sockaddr_ll).
pub(super) const FRAME_START: usize = 32;

/// The states of a slot that is not ours. A slot that is may have bits for time stamps set.
const BUSY: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING | libc::TP_STATUS_WRONG_FORMAT;

/// The ring's memory, and where we are in it.
#[derive(Debug)]
pub(super) struct Slots {
    memory: Shared,
    slot_bytes: usize,
    slot_count: usize,
    oldest: usize,
    taken: usize,
    counts: TxCounts,
}

impl Slots {
    /// Slots of `slot_bytes` each, a multiple of 16, all free.
    pub(super) fn new(memory: Shared, slot_bytes: usize, slot_count: usize) -> Self {
        Self { memory, slot_bytes, slot_count, oldest: 0, taken: 0, counts: TxCounts::default() }
    }

    /// The longest frame that a slot holds, bytes.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.slot_bytes - FRAME_START
    }

    /// Whether a slot is free.
    pub(super) fn has_room(&self) -> bool {
        self.taken < self.slot_count
    }

    /// Queues a frame behind the others.
    ///
    /// # Panics
    /// When there is no room, or the frame is longer than a slot.
    pub(super) fn push(&mut self, frame: &[u8]) {
        assert!(self.has_room() && frame.len() <= self.frame_bytes_max());
        let start = self.start(self.taken);
        self.memory.write(start + FRAME_START, frame);
        self.memory.word(start + field::LEN).store(frame.len() as u32, Ordering::Relaxed);
        self.taken += 1;
        self.counts.unsent_bytes += frame.len() as u64;
        // Written by us, read by the kernel: Release, so that it sees the frame that goes with it.
        self.memory.word(start + field::STATUS).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
    }

    /// Takes back the slots whose frames the kernel has sent.
    pub(super) fn reap(&mut self) {
        while self.taken > 0 && self.status(0) & BUSY == 0 {
            let bytes = self.memory.word(self.start(0) + field::LEN).load(Ordering::Relaxed);
            self.counts.unsent_bytes -= u64::from(bytes);
            self.oldest = (self.oldest + 1) % self.slot_count;
            self.taken -= 1;
            self.counts.confirmed += 1;
        }
    }

    /// Takes out the frame at which the kernel has stopped because it is of wrong format, if there
    /// is one. Only to be called while no other thread is in a system call on the ring.
    pub(super) fn take_out_refused(&mut self) -> bool {
        let is_refused = |ahead: &usize| self.status(*ahead) & libc::TP_STATUS_WRONG_FORMAT != 0;
        let Some(refused) = (0..self.taken).find(is_refused) else { return false };
        for ahead in refused + 1..self.taken {
            let (from, to) = (self.start(ahead), self.start(ahead - 1));
            let bytes = self.memory.word(from + field::LEN).load(Ordering::Relaxed) as usize;
            self.memory.copy(from + field::LEN, to + field::LEN, FRAME_START - field::LEN + bytes);
            self.memory.word(to + field::STATUS).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        }
        self.taken -= 1;
        let last = self.start(self.taken);
        self.memory.word(last + field::STATUS).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        self.counts.refused += 1;
        true
    }

    /// Notes that the kernel had no room further down.
    pub(super) fn add_retry(&mut self) {
        self.counts.retried += 1;
    }

    /// What became of the frames so far.
    pub(super) fn counts(&self) -> TxCounts {
        TxCounts { pending: self.taken as u64, ..self.counts }
    }

    fn status(&self, ahead: usize) -> u32 {
        // Written by the kernel on any core: Acquire, so that we write to the slot only after it has
        // read it.
        self.memory.word(self.start(ahead) + field::STATUS).load(Ordering::Acquire)
    }

    /// Where the slot begins that is so many behind the oldest one that is not ours.
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

    /// What tpacket_snd() and tpacket_destruct_skb() of net/packet/af_packet.c do with the slots.
    #[derive(Default)]
    struct Kernel {
        head: usize,
        sending: VecDeque<usize>,
        wire: Vec<Vec<u8>>,
    }

    impl Kernel {
        /// One call: sends what is queued, at most `most`; false when it met a frame of wrong format.
        fn send(&mut self, slots: &Slots, most: usize) -> bool {
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

        /// The driver is done with the `which`th frame that it has, in whatever order.
        fn complete(&mut self, slots: &Slots, which: usize) {
            if let Some(slot) = self.sending.remove(which % self.sending.len().max(1)) {
                let stamped = libc::TP_STATUS_TS_SOFTWARE * (slot as u32 & 1);
                slots.memory.word(slot * SLOT_BYTES).store(stamped, Ordering::Relaxed);
            }
        }
    }

    fn slots() -> Slots {
        Slots::new(Shared::anonymous(4096), SLOT_BYTES, SLOTS)
    }

    proptest! {
        /// Whatever the kernel does when: every frame that fits is on the wire once, in order, the
        /// others are counted, and only what is done counts as sent.
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
                prop_assert!(left > 0, "it goes on for ever");
                // Each fourth step is as good as can be, so that there is an end.
                let (what, many) = if left % 4 == 0 { (left / 4 % 4, 9) } else { steps.next().unwrap() };
                match what {
                    0 => for _ in 0..many {
                        if at < frames.len() && slots.has_room() {
                            slots.push(&frames[at]);
                            at += 1;
                        }
                    },
                    1 => if !kernel.send(&slots, many) {
                        prop_assert!(slots.take_out_refused());
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
    fn nothing_is_taken_out_that_was_not_refused() {
        let mut slots = slots();
        slots.push(&[1; 60]);
        assert!(!slots.take_out_refused());
        assert_eq!(slots.counts(), TxCounts { pending: 1, unsent_bytes: 60, ..TxCounts::default() });
    }
}
