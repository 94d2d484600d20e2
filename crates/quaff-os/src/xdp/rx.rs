//! Receives frames by an AF_XDP socket: the kernel takes chunks from the fill ring, stores frames in them, and
//! announces them in the receive ring. Chunks that were read return to the fill ring.
//!
//! Both rings have a place for every chunk, so the receive ring is never full: a lane that is late runs out of
//! chunks, which the kernel counts as an empty fill ring. It never interprets a frame.

use super::XdpMode;
use super::ring::{Consumer, Producer};
use super::socket;
use super::tx::bind;
use crate::mem::{Buffer, prefetch};
use crate::packet::WaitOutcome;
use crate::wakeup::{Wakeup, timeout};
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Bytes that the kernel keeps free at the start of each chunk (`XDP_PACKET_HEADROOM`, linux/bpf.h).
const PACKET_HEADROOM_BYTES: usize = 256;
/// Bytes before a frame that the redirecting program fills: the time, and [`STAMP_MAGIC`].
pub(super) const STAMP_BYTES: usize = 16;
/// The word after the time. Drivers may put other things before a frame.
pub(super) const STAMP_MAGIC: u64 = 0x7175_6166_6674_6d31;
/// Sizes of a chunk: two to a page, or a page.
const CHUNKS_BYTES: [usize; 2] = [2048, 4096];
/// Frames whose stamps and first bytes are prefetched.
const AHEAD: u32 = 8;
/// Most frames between two calls of [`XdpRx::release`].
const HELD_MAX: usize = 512;

/// Bytes of a chunk that holds frames up to `frame_bytes`; `None` if none does.
pub fn chunk_bytes(frame_bytes: usize) -> Option<usize> {
    CHUNKS_BYTES.into_iter().find(|chunk| frame_bytes <= frame_bytes_max(*chunk))
}

/// The longest frame that a chunk holds.
const fn frame_bytes_max(chunk_bytes: usize) -> usize {
    chunk_bytes - PACKET_HEADROOM_BYTES - STAMP_BYTES
}

/// The longest frame of all.
pub const RX_FRAME_BYTES_MAX: usize = frame_bytes_max(CHUNKS_BYTES[1]);

/// A frame in the memory of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpFrame {
    /// Offset in [`XdpRx::bytes`].
    pub start: u32,
    pub len: u32,
    /// Time at which the program saw it, CLOCK_MONOTONIC ns; `None` if the driver does not carry it.
    pub steady_ns: Option<u64>,
}

/// Frames that the kernel could not deliver to a socket, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct XdpDrops {
    /// The receive ring was full.
    pub ring_full: u64,
    /// Copy mode: no chunk was in the fill ring.
    pub fill_empty: u64,
    /// Any other reason, such as a frame that no chunk holds.
    pub other: u64,
    /// Zero-copy mode: number of times that the driver needed a chunk and found none. It drops frames for that before
    /// the program sees them.
    pub starved: u64,
    /// Entries of the fill ring that are no addresses: a defect. The kernel skips them, which costs no frame.
    pub invalid: u64,
}

/// A socket that receives from one queue of an interface.
#[derive(Debug)]
pub struct XdpRx {
    rx: Consumer,
    fill: Producer,
    umem: Buffer,
    fd: OwnedFd,
    mode: XdpMode,
    chunk_bytes: usize,
    chunk_count: u32,
    /// The chunks of frames that were read and not released.
    held: Vec<u64>,
    /// The stamp of each chunk's last frame, 0 before the first: a frame that has it was not stamped. Erasing it in the
    /// chunk would take the line from the core that writes the next frame there.
    stamps: Vec<u64>,
}

impl XdpRx {
    /// Opens a socket on `queue` of an interface with `chunk_count` chunks, a power of two, of `chunk_bytes`, as
    /// [`chunk_bytes`] returns it; in zero-copy mode where `may_share` and the driver supports it.
    ///
    /// # Errors
    /// EBUSY when another socket uses the queue; EINVAL when there is no such queue.
    pub fn open(
        (ifindex, name, queue): (u32, &str, u32),
        chunk_bytes: usize,
        chunk_count: u32,
        may_share: bool,
    ) -> Result<Self> {
        let umem = Buffer::with_huge_pages(chunk_bytes * chunk_count as usize)?;
        umem.populate()?;
        let (umem, error) = match may_share {
            true => match Self::open_in((ifindex, name, queue), umem, chunk_bytes, XdpMode::ZeroCopy) {
                Ok(socket) => return Ok(socket),
                Err((umem, error)) => (umem, Some(error)),
            },
            false => (umem, None),
        };
        // The errno for a missing zero-copy mode depends on the driver.
        match error {
            Some(error) if matches!(error.raw(), libc::EPERM | libc::EBUSY) => Err(error),
            _ => Self::open_in((ifindex, name, queue), umem, chunk_bytes, XdpMode::Copy)
                .map_err(|(_, error)| error),
        }
    }

    fn open_in(
        (ifindex, name, queue): (u32, &str, u32),
        umem: Buffer,
        chunk_bytes: usize,
        mode: XdpMode,
    ) -> Result<Self, (Buffer, Error)> {
        let chunk_count = (umem.len() / chunk_bytes) as u32;
        let opened = socket::open().and_then(|fd| {
            socket::register_memory(&fd, &umem, chunk_bytes, STAMP_BYTES as u32)?;
            let rings = socket::make_receive_rings(&fd, chunk_count)?;
            Ok((fd, rings))
        });
        let (fd, (rx, rx_layout, fill, fill_layout)) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err((umem, error)),
        };
        let mut fill = Producer::new(fill, fill_layout);
        // Before the socket is bound: some drivers take chunks then, and never ask again without any.
        (0..u64::from(chunk_count)).for_each(|chunk| fill.write_address(chunk * chunk_bytes as u64));
        fill.submit();
        let flag = match mode {
            XdpMode::ZeroCopy => libc::XDP_ZEROCOPY,
            XdpMode::Copy => libc::XDP_COPY,
        };
        match bind(&fd, ifindex, name, queue, flag) {
            Ok(()) => {
                let (rx, held) = (Consumer::new(rx, rx_layout), Vec::with_capacity(HELD_MAX));
                let stamps = vec![0; chunk_count as usize];
                Ok(Self { rx, fill, umem, fd, mode, chunk_bytes, chunk_count, held, stamps })
            }
            Err(error) => Err((umem, error)),
        }
    }

    /// The mode in which frames are written to its memory.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Bytes of the memory, the most that can wait in it.
    pub fn memory_bytes(&self) -> usize {
        self.umem.len()
    }

    /// The memory. Only the bytes of frames that were read and not released may be read: the kernel writes to the rest
    /// meanwhile.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.umem
    }

    /// Describes the next frames, at most `most`, and returns their number. They stay until [`XdpRx::release`].
    ///
    /// # Errors
    /// EFAULT when the kernel announces a frame outside the memory.
    #[inline]
    pub fn read(&mut self, most: usize, mut take: impl FnMut(XdpFrame)) -> Result<usize> {
        let most = most.min(HELD_MAX - self.held.len()) as u32;
        let available = self.rx.available();
        let count = available.min(most);
        for at in 0..count {
            // The ring lists the frames ahead, whose lines the kernel wrote on another core.
            if at + AHEAD < available {
                prefetch(&self.umem, (self.rx.peek(at + AHEAD).0 as usize).wrapping_sub(STAMP_BYTES));
            }
            let (address, len) = self.rx.peek(at);
            let start = address as usize;
            let stamp = start.checked_sub(STAMP_BYTES).and_then(|from| self.umem.get(from..start));
            let is_inside = start.checked_add(len as usize).is_some_and(|end| end <= self.umem.len());
            let last = self.stamps.get_mut(start / self.chunk_bytes);
            let (Some(stamp), Some(last), true) = (stamp, last, is_inside) else {
                let tried =
                    format!("read the frame of {len} bytes at {address} of an AF_XDP socket's memory");
                return Err(Error::new(tried, io::Error::from_raw_os_error(libc::EFAULT)));
            };
            let steady_ns = read_stamp(stamp).filter(|ns| std::mem::replace(last, *ns) != *ns);
            take(XdpFrame { start: start as u32, len, steady_ns });
            self.held.push(address);
        }
        self.rx.skip(count);
        Ok(count as usize)
    }

    /// Returns the chunks of all frames that were read to the kernel.
    #[inline]
    pub fn release(&mut self) {
        if self.held.is_empty() {
            return;
        }
        for address in self.held.drain(..) {
            self.fill.write_address(address & !(self.chunk_bytes as u64 - 1));
        }
        self.rx.release();
        self.fill.submit();
        if self.mode == XdpMode::ZeroCopy && self.fill.needs_wakeup() {
            self.wake_up();
        }
    }

    /// The number of frames that wait.
    #[inline]
    pub fn ready(&mut self) -> u32 {
        self.rx.available()
    }

    /// The number of chunks that the kernel can fill.
    #[inline]
    pub fn free_chunks(&self) -> u32 {
        self.fill.level()
    }

    /// Bytes of the chunks that the kernel cannot fill.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        (self.chunk_count - self.free_chunks()) as usize * self.chunk_bytes
    }

    /// Returns whether five eighths of the chunks are in use.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.free_chunks() < self.chunk_count / 8 * 3
    }

    /// Waits until a frame is ready or `wakeup` is signalled, for at most `wait`. Clears `wakeup`.
    pub fn wait(&self, wakeup: &Wakeup, wait: Duration) -> Result<WaitOutcome> {
        wait_for_frames(self.fd.as_fd(), wakeup, wait)
    }

    /// The frames that the kernel dropped at this socket.
    pub fn drops(&self) -> Result<XdpDrops> {
        let found = socket::statistics(&self.fd)?;
        let empty = found.rx_fill_ring_empty_descs;
        let (fill_empty, starved) = match self.mode {
            // A frame without a chunk is in `rx_dropped` as well (`__xsk_rcv`, net/xdp/xsk.c).
            XdpMode::Copy => (empty.min(found.rx_dropped), 0),
            XdpMode::ZeroCopy => (0, empty),
        };
        Ok(XdpDrops {
            ring_full: found.rx_ring_full,
            fill_empty,
            other: found.rx_dropped - fill_empty,
            starved,
            invalid: found.rx_invalid_descs,
        })
    }

    /// Makes the driver read the fill ring.
    fn wake_up(&self) {
        // SAFETY: the call receives no data: the kernel only looks at the rings. It fails where it has nothing to do,
        // and is made again with the next batch.
        unsafe {
            let (none, flags) = (std::ptr::null_mut(), libc::MSG_DONTWAIT);
            libc::recvfrom(self.fd.as_raw_fd(), none, 0, flags, std::ptr::null_mut(), std::ptr::null_mut());
        }
    }
}

impl AsFd for XdpRx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until the descriptor `frames` can be read or `wakeup` is signalled, for at most `wait`. Clears `wakeup`.
pub(super) fn wait_for_frames(
    frames: BorrowedFd<'_>,
    wakeup: &Wakeup,
    wait: Duration,
) -> Result<WaitOutcome> {
    let mut fds = [PollFd::new(frames, PollFlags::POLLIN), PollFd::new(wakeup.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, timeout(wait)) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(errno) => return Err(Error::new("wait for frames of an XDP program", errno)),
    }
    let [socket, signalled] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
    if signalled.contains(PollFlags::POLLIN) {
        wakeup.clear();
    }
    match socket.contains(PollFlags::POLLERR) {
        // The kernel unbinds the socket of an interface that is removed.
        true => Ok(WaitOutcome::Gone(libc::ENODEV)),
        false => Ok(WaitOutcome::Check),
    }
}

/// The time in the bytes before a frame, if the program has put it there.
#[inline]
fn read_stamp(stamp: &[u8]) -> Option<u64> {
    let word = |at: usize| stamp.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes);
    if word(8)? == STAMP_MAGIC { word(0) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::ring::tests::layout;
    use super::*;
    use crate::shared_memory::SharedMemory;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::fs::File;

    const CHUNK_BYTES: usize = 2048;
    const CHUNKS: u32 = 8;

    /// A socket of which a test is the kernel's side.
    fn socket() -> XdpRx {
        let ring = || SharedMemory::anonymous(4096);
        let mut fill = Producer::new(ring(), layout(CHUNKS));
        (0..u64::from(CHUNKS)).for_each(|chunk| fill.write_address(chunk * CHUNK_BYTES as u64));
        fill.submit();
        XdpRx {
            rx: Consumer::new(ring(), layout(CHUNKS)),
            fill,
            umem: Buffer::new(CHUNK_BYTES * CHUNKS as usize).expect("memory"),
            fd: File::open("/dev/null").expect("a descriptor").into(),
            mode: XdpMode::Copy,
            chunk_bytes: CHUNK_BYTES,
            chunk_count: CHUNKS,
            held: Vec::new(),
            stamps: vec![0; CHUNKS as usize],
        }
    }

    impl XdpRx {
        /// The kernel's side: stores a frame and its stamp in the next chunk; `false` without one.
        fn store(&mut self, number: u64, is_stamped: bool) -> bool {
            let Some(address) = self.fill.consume_address() else { return false };
            let start = address as usize + PACKET_HEADROOM_BYTES + STAMP_BYTES;
            self.umem[start..start + 8].copy_from_slice(&number.to_ne_bytes());
            if is_stamped {
                self.umem[start - 16..start - 8].copy_from_slice(&(number + 1000).to_ne_bytes());
                self.umem[start - 8..start].copy_from_slice(&STAMP_MAGIC.to_ne_bytes());
            }
            self.rx.produce_desc(start as u64, 8);
            true
        }
    }

    proptest! {
        /// Every frame is read once, in order, with its own time; none is overwritten before it is released, and the
        /// kernel has all chunks again at the end.
        #[test]
        fn frames_are_read_once_and_chunks_return(steps in prop::collection::vec((0usize..4, any::<bool>()), 1..300)) {
            let mut socket = socket();
            let (mut stored, mut waiting, mut held) = (0u64, VecDeque::new(), VecDeque::new());
            for (step, flag) in steps {
                match step {
                    0 | 1 => {
                        let has_room = waiting.len() + held.len() < CHUNKS as usize;
                        prop_assert_eq!(socket.store(stored, flag), has_room);
                        if has_room {
                            waiting.push_back((stored, flag));
                            stored += 1;
                        }
                    }
                    2 => {
                        let mut frames = Vec::new();
                        socket.read(3, |frame| frames.push(frame)).expect("frames inside the memory");
                        prop_assert_eq!(frames.len(), waiting.len().min(3));
                        for frame in frames {
                            let (number, is_stamped) = waiting.pop_front().expect("as many");
                            prop_assert_eq!(frame.steady_ns, is_stamped.then_some(number + 1000));
                            held.push_back((frame, number));
                        }
                    }
                    _ => {
                        socket.release();
                        held.clear();
                    }
                }
                for (frame, number) in &held {
                    prop_assert_eq!(&socket.bytes()[frame.start as usize..][..8], number.to_ne_bytes());
                }
                prop_assert_eq!(socket.ready() as usize, waiting.len());
                prop_assert_eq!(socket.free_chunks() as usize, CHUNKS as usize - waiting.len() - held.len());
                prop_assert_eq!(socket.is_nearly_full(), socket.free_chunks() < 3);
            }
        }
    }

    #[test]
    fn a_frame_outside_the_memory_is_an_error() {
        for (address, len) in [(0, 60), (8, 60), ((CHUNK_BYTES * 8 - 30) as u64, 60), (u64::MAX - 4, 60)] {
            let mut socket = socket();
            socket.rx.produce_desc(address, len);
            let error = socket.read(1, |_| panic!("nothing to take")).expect_err("outside");
            assert_eq!(error.raw(), libc::EFAULT, "{error}");
        }
    }

    #[test]
    fn a_chunk_holds_a_frame_or_is_refused() {
        assert_eq!([60, 1522, 1776].map(chunk_bytes), [Some(2048); 3]);
        assert_eq!([1777, 3824].map(chunk_bytes), [Some(4096); 2]);
        assert_eq!([3825, 9022].map(chunk_bytes), [None; 2]);
        assert_eq!(RX_FRAME_BYTES_MAX, 3824);
    }

    impl Producer {
        fn consume_address(&mut self) -> Option<u64> {
            super::super::ring::tests::consume_address(self)
        }
    }

    impl Consumer {
        fn produce_desc(&mut self, address: u64, len: u32) {
            super::super::ring::tests::produce_desc(self, address, len);
        }
    }

    #[test]
    fn the_level_of_the_fill_ring_is_that_of_the_kernel() {
        let mut socket = socket();
        assert_eq!(socket.free_chunks(), CHUNKS);
        socket.store(1, false);
        assert_eq!(socket.free_chunks(), CHUNKS - 1);
    }
}
