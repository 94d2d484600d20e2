//! A TPACKET_V3 receive ring: the kernel fills blocks of about 1 MiB, user space returns them in order
//! (Documentation/networking/packet_mmap.rst).
//!
//! ```text
//!   [ user ][ user ][ filling ][ free ][ free ]
//!     ^ current
//! ```
//!
//! A block that user space keeps freezes the ring when the kernel reaches it again. So a block is only
//! borrowed ([`RxRing::block`]), and [`RxRing::release`] returns it to the kernel.

use super::block::field;
use super::{AdapterClock, Insn, PacketStats, REJECT_ALL, TimeSource, socket};
use crate::shared_memory::SharedMemory;
use crate::wakeup::{Wakeup, timeout};
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The configuration of a receive ring.
#[derive(Debug, Clone)]
pub struct RingPlan {
    /// A power of two, at least a page.
    pub block_bytes: usize,
    pub block_count: usize,
    /// The longest time that a block with packets stays with the kernel, ms (`tp_retire_blk_tov`).
    pub retire_ms: u32,
    /// Receive frames that are addressed to other stations.
    pub promiscuous: bool,
    /// The program that selects and truncates packets in the kernel.
    pub filter: Vec<Insn>,
    pub time_source: TimeSource,
}

/// The reason why [`RxRing::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A block may be ready, the wakeup was signalled, or the time is over.
    Check,
    /// The interface went down (ENETDOWN). The socket stays bound and receives again once it is up.
    Down,
    /// The interface was removed (ENODEV), or another errno ended the socket.
    Gone(i32),
}

/// A receive ring on one interface.
#[derive(Debug)]
pub struct RxRing {
    // Before the socket, so that the memory is unmapped first.
    memory: SharedMemory,
    fd: OwnedFd,
    /// The adapter's time stamps, if they were requested.
    _clock: Option<AdapterClock>,
    block_bytes: usize,
    block_count: usize,
    promiscuous: bool,
    current: usize,
}

impl RxRing {
    /// Allocates the ring of a socket that receives nothing yet. `name` is the interface of the time stamps.
    ///
    /// The kernel may need a second for its blocks if memory is fragmented.
    pub fn allocate(name: &str, plan: &RingPlan) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_version(&fd)?;
        socket::attach_filter(&fd, &plan.filter)?;
        let clock = socket::set_time_source(&fd, name, plan.time_source)?;
        socket::set_ring(&fd, &request(plan)).map_err(|error| {
            let size = plan.block_bytes * plan.block_count;
            error
                .advise(format!("the kernel cannot allocate {} MiB for it; use a smaller `ring`", size >> 20))
        })?;
        let RingPlan { block_bytes, block_count, promiscuous, .. } = *plan;
        let memory = map(&fd, block_bytes * block_count)?;
        Ok(Self { memory, fd, _clock: clock, block_bytes, block_count, promiscuous, current: 0 })
    }

    /// Excludes the frames that the interface sends.
    pub fn ignore_outgoing(&self) -> Result<()> {
        socket::ignore_outgoing(&self.fd)
    }

    /// Binds the ring to an interface: packets arrive from here on.
    pub fn bind(&self, ifindex: u32, name: &str) -> Result<()> {
        if self.promiscuous {
            socket::set_promiscuous(&self.fd, ifindex)?;
        }
        socket::bind(&self.fd, ifindex, name)
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.fd
    }

    /// Clears the pending error of the socket, such as that its interface went down; returns the errno, 0 without one.
    pub fn take_error(&self) -> Result<i32> {
        socket::take_error(&self.fd)
    }

    /// The oldest block that the kernel has finished, if any.
    pub fn block(&self) -> Option<&[u8]> {
        self.is_user(self.current).then(|| {
            // SAFETY: `current` is below `block_count`, so the range lies in the mapping. The block belongs
            // to user space (TP_STATUS_USER was read with Acquire), and the kernel writes to it again only
            // after `release`, which takes `&mut self` and so ends this borrow.
            unsafe {
                let start = self.memory.start().add(self.current * self.block_bytes);
                std::slice::from_raw_parts(start.as_ptr(), self.block_bytes)
            }
        })
    }

    /// Returns the current block to the kernel; the next one becomes current.
    pub fn release(&mut self) {
        assert!(self.is_user(self.current), "only a block that user space owns can be released");
        // Written here, read by the kernel on any core. Release: all reads of the block are complete
        // before the kernel may overwrite it.
        self.status(self.current).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.current = (self.current + 1) % self.block_count;
    }

    /// Waits until a block is ready or `wakeup` is signalled, for at most `wait`. Clears `wakeup`.
    pub fn wait(&self, wakeup: &Wakeup, wait: Duration) -> Result<WaitOutcome> {
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
            return Ok(WaitOutcome::Check);
        }
        Ok(match socket::take_error(&self.fd)? {
            0 => WaitOutcome::Check,
            libc::ENETDOWN => WaitOutcome::Down,
            errno => WaitOutcome::Gone(errno),
        })
    }

    /// Returns whether at least five eighths of the blocks are ready to be read.
    ///
    /// Above three quarters the kernel checks without a lock whether it still owns the block that it fills
    /// (`__packet_rcv_has_room`, net/packet/af_packet.c). If a timer on another core has just retired that
    /// block, it drops a packet although the ring has room. Five eighths leave a reserve below that.
    pub fn is_nearly_full(&self) -> bool {
        let ahead = (self.block_count * 5 / 8).saturating_sub(1);
        self.is_user((self.current + ahead) % self.block_count)
    }

    /// The number of blocks that are ready to be read.
    pub fn ready_blocks(&self) -> usize {
        (0..self.block_count)
            .take_while(|ahead| self.is_user((self.current + ahead) % self.block_count))
            .count()
    }

    /// Rejects all further packets. Those that the kernel has already stored can still be read.
    pub fn stop_receiving(&self) -> Result<()> {
        socket::attach_filter(&self.fd, &[REJECT_ALL])
    }

    /// Receives the packets that pass `filter` from here on.
    pub fn start_receiving(&self, filter: &[Insn]) -> Result<()> {
        socket::attach_filter(&self.fd, filter)
    }

    /// Packets and drops since the last call. The kernel counts in 32 bits: call it every second.
    pub fn statistics(&self) -> Result<PacketStats> {
        socket::statistics(&self.fd)
    }

    fn is_user(&self, index: usize) -> bool {
        // Written by the kernel on any core when it has finished the block. Acquire: the contents that it
        // wrote before are visible afterwards.
        self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        self.memory.word(index * self.block_bytes + field::STATUS)
    }
}

fn request(plan: &RingPlan) -> libc::tpacket_req3 {
    // With TPACKET_V3 the frame size only limits PACKET_RESERVE.
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

/// Maps the ring with its page tables populated, and locked where the limit permits.
fn map(fd: &OwnedFd, bytes: usize) -> Result<SharedMemory> {
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    let map = |flags| SharedMemory::new(fd.as_raw_fd(), bytes, 0, flags, "a receive ring");
    // The ring's pages belong to the kernel and are never swapped. MAP_LOCKED only keeps the page table
    // entries, so the fallback loses little.
    map(flags | libc::MAP_LOCKED).or_else(|_| map(flags))
}

#[cfg(test)]
mod tests {
    use super::super::Cursor;
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;

    const BLOCK_BYTES: usize = 4096;

    /// A ring in anonymous memory, for a test that acts as the kernel.
    fn ring(block_count: usize) -> RxRing {
        let memory = SharedMemory::anonymous(BLOCK_BYTES * block_count);
        let fd = File::open("/dev/null").expect("a descriptor").into();
        RxRing {
            memory,
            fd,
            _clock: None,
            block_bytes: BLOCK_BYTES,
            block_count,
            promiscuous: false,
            current: 0,
        }
    }

    /// Finishes block `index` as the kernel does.
    fn finish(ring: &RxRing, index: usize, packets: u32, status: u32) {
        ring.memory.word(index * BLOCK_BYTES + field::NUM_PKTS).store(packets, Ordering::Relaxed);
        ring.status(index).store(libc::TP_STATUS_USER | status, Ordering::Release);
    }

    /// The packet count in the header of the current block.
    fn packets(ring: &RxRing) -> Option<u32> {
        ring.block().map(|block| Cursor::new(block).left)
    }

    fn is_losing(ring: &RxRing) -> Option<bool> {
        ring.block().map(|block| Cursor::new(block).is_losing)
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
                prop_assert_eq!(ring.ready_blocks(), (finished - read) as usize);
                prop_assert_eq!(ring.block().is_some(), read < finished);
                // Five eighths of eight blocks.
                prop_assert_eq!(ring.is_nearly_full(), finished - read >= 5);
            }
        }
    }

    #[test]
    fn a_block_that_is_finished_out_of_turn_waits() {
        let mut ring = ring(4);
        finish(&ring, 1, 7, 0);
        assert_eq!((ring.block(), ring.ready_blocks()), (None, 0));
        finish(&ring, 0, 6, libc::TP_STATUS_LOSING);
        assert_eq!((packets(&ring), ring.ready_blocks(), is_losing(&ring)), (Some(6), 2, Some(true)));
        ring.release();
        assert_eq!((packets(&ring), is_losing(&ring)), (Some(7), Some(false)));
    }

    #[test]
    #[should_panic(expected = "only a block that user space owns")]
    fn a_block_of_the_kernel_is_not_released() {
        ring(2).release();
    }

    #[test]
    fn a_small_ring_is_nearly_full_with_its_first_block() {
        let ring = ring(1);
        assert!(!ring.is_nearly_full());
        finish(&ring, 0, 1, 0);
        assert!(ring.is_nearly_full());
    }
}
