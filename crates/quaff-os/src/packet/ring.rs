//! A TPACKET_V3 receive ring: blocks of MiB size that the kernel fills and we give back, in order.
//!
//! ```text
//!   kernel fills →  [ ours ][ ours ][ filling ][ free ][ free ]
//!   we read      →    ^ current
//! ```
//!
//! A block that is not given back freezes the whole ring once the kernel comes round to it, so a
//! block is borrowed ([`RxRing::block`]), never kept, and [`RxRing::release`] hands back that one.

use super::block::field;
use super::{Insn, KernelDrops, REJECT_ALL, TimeSource, socket};
use crate::wakeup::{Wakeup, timeout};
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What a ring is to be.
#[derive(Debug, Clone)]
pub struct RingPlan {
    /// Bytes of a block: a power of two, at least a page.
    pub block_bytes: usize,
    /// Blocks in the ring.
    pub block_count: usize,
    /// How long a block with packets in it may stay unfinished, ms (`tp_retire_blk_tov`).
    pub retire_ms: u32,
    /// Whether to see frames that are addressed to others.
    pub promiscuous: bool,
    /// The program that decides, in the kernel, what is kept and how much of it.
    pub filter: Vec<Insn>,
    /// Whose clock stamps the packets.
    pub time_source: TimeSource,
}

/// Why [`RxRing::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A block may be ready, the wakeup was signalled, or the time is over.
    Look,
    /// The interface went down (ENETDOWN). The socket stays bound and goes on when it comes back.
    Down,
    /// The interface is gone for good (ENODEV and whatever else).
    Gone(i32),
}

/// A receive ring on one interface.
#[derive(Debug)]
pub struct RxRing {
    fd: OwnedFd,
    map: NonNull<u8>,
    block_bytes: usize,
    block_count: usize,
    current: usize,
}

// SAFETY: the ring is the only owner of its mapping and of its descriptor; one thread at a time
// holds it, and the kernel does not care which.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Makes the ring and binds it to the interface: from the return on, packets arrive.
    pub fn open(ifindex: u32, name: &str, plan: &RingPlan) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_version(&fd)?;
        socket::attach_filter(&fd, &plan.filter)?;
        socket::set_time_source(&fd, name, plan.time_source)?;
        socket::set_ring(&fd, &request(plan)).map_err(|error| {
            let size = plan.block_bytes * plan.block_count;
            error.advise(format!("the kernel has no {} MiB for it; ask for a smaller --ring", size >> 20))
        })?;
        let map = map(&fd, plan.block_bytes * plan.block_count)?;
        let ring = Self { fd, map, block_bytes: plan.block_bytes, block_count: plan.block_count, current: 0 };
        if plan.promiscuous {
            socket::set_promiscuous(&ring.fd, ifindex)?;
        }
        socket::bind(&ring.fd, ifindex, name)?;
        Ok(ring)
    }

    /// The oldest block that the kernel has finished, or `None` when it has finished none.
    pub fn block(&self) -> Option<&[u8]> {
        self.is_ours(self.current).then(|| {
            let start = self.block_start(self.current);
            // SAFETY: `current` is below `block_count`, so the range lies in the mapping; the block is
            // ours (TP_STATUS_USER was seen with Acquire), and the kernel writes to it again only after
            // `release`, which takes `&mut self` and so cannot overlap this borrow.
            unsafe { std::slice::from_raw_parts(start.as_ptr(), self.block_bytes) }
        })
    }

    /// Whether packets were dropped before the current block was finished (TP_STATUS_LOSING).
    pub fn is_losing(&self) -> bool {
        self.status(self.current).load(Ordering::Relaxed) & libc::TP_STATUS_LOSING != 0
    }

    /// Gives the current block back to the kernel and goes on to the next.
    pub fn release(&mut self) {
        assert!(self.is_ours(self.current), "only a block that is ours can be given back");
        // Written by us, read by the kernel on any core: Release, so that our reads of the block are
        // over before the kernel may overwrite it.
        self.status(self.current).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.current = (self.current + 1) % self.block_count;
    }

    /// Waits until a block is ready or `wakeup` is signalled, for at most `wait`. Clears `wakeup`.
    pub fn wait(&self, wakeup: &Wakeup, wait: Duration) -> Result<Wake> {
        let mut fds =
            [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN), PollFd::new(wakeup.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout(wait)) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(Error::new("wait for packets", errno)),
        }
        let [socket, signalled] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        if signalled.contains(PollFlags::POLLIN) {
            wakeup.clear();
        }
        if !socket.contains(PollFlags::POLLERR) {
            return Ok(Wake::Look);
        }
        Ok(match socket::take_error(&self.fd)? {
            0 => Wake::Look,
            libc::ENETDOWN => Wake::Down,
            errno => Wake::Gone(errno),
        })
    }

    /// Whether the ring is so full that the kernel will soon have nowhere to write: five eighths of
    /// the blocks wait for us.
    ///
    /// From three quarters on the kernel looks, without a lock, whether the block in hand is still its
    /// own (`__packet_rcv_has_room`, net/packet/af_packet.c). When a timer on another core has just
    /// given that block to us, a packet is dropped although the ring has room.
    pub fn is_pressed(&self) -> bool {
        let ahead = (self.block_count * 5 / 8).saturating_sub(1);
        self.is_ours((self.current + ahead) % self.block_count)
    }

    /// How many blocks wait for us.
    pub fn waiting(&self) -> usize {
        (0..self.block_count)
            .take_while(|ahead| self.is_ours((self.current + ahead) % self.block_count))
            .count()
    }

    /// Blocks in the ring.
    pub fn block_count(&self) -> usize {
        self.block_count
    }

    /// Lets nothing in any more. What the kernel has taken in already stays to be read.
    pub fn stop_receiving(&self) -> Result<()> {
        socket::attach_filter(&self.fd, &[REJECT_ALL])
    }

    /// What the kernel counted since it was last asked. 32 bits wide there: ask each second.
    pub fn statistics(&self) -> Result<KernelDrops> {
        socket::statistics(&self.fd)
    }

    fn is_ours(&self, index: usize) -> bool {
        // Written by the kernel when it has finished the block, on any core: Acquire, so that what it
        // wrote before is seen after.
        self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        self.word(index, field::STATUS)
    }

    fn word(&self, index: usize, offset: usize) -> &AtomicU32 {
        let block = self.block_start(index);
        // SAFETY: the field lies in the header of a block of our mapping, is aligned to 4 because
        // blocks are aligned to pages, and both sides access it as one 32-bit word.
        unsafe { AtomicU32::from_ptr(block.add(offset).as_ptr().cast()) }
    }

    fn block_start(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.block_count);
        // SAFETY: the mapping is block_bytes * block_count long, and index is below block_count.
        unsafe { self.map.add(index * self.block_bytes) }
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open`, and no borrow of it outlives the ring.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.block_bytes * self.block_count) };
    }
}

fn request(plan: &RingPlan) -> libc::tpacket_req3 {
    // With TPACKET_V3 the frame size only has to be plausible: it limits what PACKET_RESERVE may take.
    let frame_bytes = 2048.min(plan.block_bytes);
    libc::tpacket_req3 {
        tp_block_size: plan.block_bytes as u32,
        tp_block_nr: plan.block_count as u32,
        tp_frame_size: frame_bytes as u32,
        tp_frame_nr: (plan.block_bytes / frame_bytes * plan.block_count) as u32,
        tp_retire_blk_tov: plan.retire_ms,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    }
}

/// Maps the ring with its page tables filled; locked where the limit allows it.
fn map(fd: &OwnedFd, bytes: usize) -> Result<NonNull<u8>> {
    let attempt = |extra: i32| {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE | extra;
        // SAFETY: a new mapping of the packet socket's ring touches no memory that exists.
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd.as_raw_fd(), 0) }
    };
    // The ring's pages belong to the kernel and are never swapped; MAP_LOCKED only keeps our page
    // table entries, so doing without is no loss.
    let mut start = attempt(libc::MAP_LOCKED);
    if start == libc::MAP_FAILED {
        start = attempt(0);
    }
    let failed = || Error::last(format!("map a ring of {} MiB", bytes >> 20));
    if start == libc::MAP_FAILED { Err(failed()) } else { NonNull::new(start.cast()).ok_or_else(failed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;

    const BLOCK_BYTES: usize = 4096;

    /// A ring in plain memory, of which the test plays the kernel's part.
    fn ring(block_count: usize) -> RxRing {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = BLOCK_BYTES * block_count;
        // SAFETY: a new anonymous mapping touches no memory that exists; the ring unmaps it.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let map = NonNull::new(start.cast()).expect("a mapping");
        let fd = File::open("/dev/null").expect("a descriptor").into();
        RxRing { fd, map, block_bytes: BLOCK_BYTES, block_count, current: 0 }
    }

    /// What the kernel does when it has finished block `index`.
    fn finish(ring: &RxRing, index: usize, packets: u32, status: u32) {
        ring.word(index, field::NUM_PKTS).store(packets, Ordering::Relaxed);
        ring.status(index).store(libc::TP_STATUS_USER | status, Ordering::Release);
    }

    /// The number of packets that the header of the current block has.
    fn packets(ring: &RxRing) -> Option<u32> {
        let header = ring.block()?.get(field::NUM_PKTS..field::NUM_PKTS + 4)?;
        Some(u32::from_ne_bytes(header.try_into().ok()?))
    }

    proptest! {
        #[test]
        fn blocks_are_read_in_order_and_each_once(steps in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut ring = ring(8);
            let (mut finished, mut read) = (0u32, 0u32);
            for kernel in steps {
                if kernel && finished - read < 8 {
                    finish(&ring, finished as usize % 8, finished, 0);
                    finished += 1;
                } else if !kernel && read < finished {
                    prop_assert_eq!(packets(&ring), Some(read));
                    ring.release();
                    read += 1;
                }
                prop_assert_eq!(ring.waiting(), (finished - read) as usize);
                prop_assert_eq!(ring.block().is_some(), read < finished);
                // Five eighths of eight blocks.
                prop_assert_eq!(ring.is_pressed(), finished - read >= 5);
            }
        }
    }

    #[test]
    fn a_block_that_is_finished_out_of_turn_waits() {
        let mut ring = ring(4);
        finish(&ring, 1, 7, 0);
        assert_eq!((ring.block(), ring.waiting()), (None, 0));
        finish(&ring, 0, 6, libc::TP_STATUS_LOSING);
        assert_eq!((packets(&ring), ring.waiting(), ring.is_losing()), (Some(6), 2, true));
        ring.release();
        assert_eq!((packets(&ring), ring.is_losing()), (Some(7), false));
    }

    #[test]
    #[should_panic(expected = "only a block that is ours")]
    fn a_block_of_the_kernel_is_not_released() {
        ring(2).release();
    }

    #[test]
    fn a_small_ring_is_pressed_by_its_first_block() {
        let ring = ring(1);
        assert!(!ring.is_pressed());
        finish(&ring, 0, 1, 0);
        assert!(ring.is_pressed());
    }
}
