//! Sends frames by an AF_XDP socket: written into memory that the kernel has too, told to it by a ring,
//! and confirmed by another.

use super::ring::{Consumer, Producer};
use super::socket;
use super::umem::Umem;
use crate::clock::{sleep_until, steady_ns};
use crate::stats::TxCounts;
use crate::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The longest frame: a chunk is at most a page.
pub const FRAME_BYTES_MAX: usize = 4096;

/// Frames that fit such a chunk get one; the others a page.
const SMALL_CHUNK_BYTES: usize = 2048;
/// Chunks when the driver reads frames from where they lie, and they are in flight for long.
const CHUNKS_ZERO_COPY: usize = 4096;
/// Chunks when the kernel copies: fewer, so that they stay in the processor's cache.
const CHUNKS_COPY: usize = 512;
/// Frames for one call when the kernel copies.
const BUDGET_FRAMES: u32 = 256;
/// What the driver does not give back for so long counts as not sent, ns.
const PATIENCE_NS: u64 = 100_000_000;
/// Between two looks at what it has given back, ns.
const LOOK_NS: u64 = 100_000;

/// Who reads frames from the socket's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// The driver, from where they lie.
    ZeroCopy,
    /// The kernel, which copies each into a buffer of its own.
    Copy,
}

/// A socket that sends from one queue of an interface.
#[derive(Debug)]
pub struct XdpTx {
    tx: Producer,
    done: Consumer,
    umem: Umem,
    fd: OwnedFd,
    mode: XdpMode,
    frame_bytes_max: usize,
    /// Frames that the driver has dropped, though the kernel gave their chunks back.
    dropped: u64,
    taken: u64,
    /// Bytes of frames that were taken, and not confirmed.
    unsent_bytes: u64,
    retried: u64,
    name: String,
}

impl XdpTx {
    /// Opens a socket on `queue` of an interface, for frames up to `frame_bytes_max`: with zero-copy
    /// where the driver can.
    ///
    /// # Errors
    /// EMSGSIZE for frames longer than [`FRAME_BYTES_MAX`]; EBUSY when another program has the queue;
    /// EINVAL when there is no such queue.
    pub fn open(ifindex: u32, name: &str, queue: u32, frame_bytes_max: usize) -> Result<Self> {
        let open = |mode| Self::open_in(ifindex, name, queue, frame_bytes_max, mode);
        match open(XdpMode::ZeroCopy).and_then(Self::proven) {
            // What a driver says that cannot do it is up to the driver.
            Err(error) if !matches!(error.raw(), libc::EPERM | libc::EBUSY | libc::EMSGSIZE) => {
                open(XdpMode::Copy)
            }
            opened => opened,
        }
    }

    /// Some drivers have zero-copy only with an XDP program attached, and say so at the first wakeup.
    fn proven(mut self) -> Result<Self> {
        self.wake_up()?;
        Ok(self)
    }

    /// As [`XdpTx::open`], in this mode or not at all.
    pub fn open_in(
        ifindex: u32,
        name: &str,
        queue: u32,
        frame_bytes_max: usize,
        mode: XdpMode,
    ) -> Result<Self> {
        if frame_bytes_max > FRAME_BYTES_MAX {
            let tried = format!("send frames of {frame_bytes_max} bytes from {name} by AF_XDP");
            return Err(Error::new(tried, io::Error::from_raw_os_error(libc::EMSGSIZE))
                .advise(format!("AF_XDP carries frames up to {FRAME_BYTES_MAX} bytes")));
        }
        let chunk_bytes =
            if frame_bytes_max <= SMALL_CHUNK_BYTES { SMALL_CHUNK_BYTES } else { FRAME_BYTES_MAX };
        let (chunks, flag) = match mode {
            XdpMode::ZeroCopy => (CHUNKS_ZERO_COPY, libc::XDP_ZEROCOPY),
            XdpMode::Copy => (CHUNKS_COPY, libc::XDP_COPY),
        };
        let umem = Umem::new(chunk_bytes, chunks)?;
        let fd = socket::open()?;
        socket::register(&fd, &umem)?;
        let (tx, tx_layout, done, done_layout) = socket::make_rings(&fd, chunks as u32, chunks as u32)?;
        if mode == XdpMode::Copy {
            socket::set_send_buffer(&fd, 2 * umem.memory().len());
            socket::set_budget(&fd, BUDGET_FRAMES);
        }
        bind(&fd, ifindex, name, queue, flag)?;
        Ok(Self {
            tx: Producer::new(tx, tx_layout),
            done: Consumer::new(done, done_layout),
            umem,
            fd,
            mode,
            frame_bytes_max,
            dropped: 0,
            taken: 0,
            unsent_bytes: 0,
            retried: 0,
            name: name.to_owned(),
        })
    }

    /// Who reads the frames.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Takes frames, link header first, as long as the next chunk is free, and has the kernel send
    /// them; says how many were taken. [`XdpTx::counts`] tells what became of them.
    ///
    /// # Errors
    /// EMSGSIZE when the first frame is longer than was said at the start; ENETDOWN, ENXIO.
    pub fn send<'a>(&mut self, mut frames: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
        let mut taken = 0;
        while self.has_room()? {
            let Some(frame) = frames.next() else { break };
            match self.push(frame) {
                Err(error) if taken == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => taken += 1,
            }
        }
        self.kick()?;
        Ok(taken)
    }

    /// Whether there is room for a frame.
    #[inline]
    pub fn has_room(&mut self) -> Result<bool> {
        if !self.umem.has_room() {
            self.reap()?;
        }
        Ok(self.umem.has_room() && self.tx.has_room())
    }

    /// Takes one frame, which the kernel does not see before [`XdpTx::kick`].
    ///
    /// # Errors
    /// EMSGSIZE when it is longer than was said at the start.
    ///
    /// # Panics
    /// When there is no room.
    pub fn push(&mut self, frame: &[u8]) -> Result<()> {
        if frame.len() > self.frame_bytes_max {
            return Err(self.error(io::Error::from_raw_os_error(libc::EMSGSIZE)));
        }
        self.tx.write(self.umem.write(frame), frame.len() as u32);
        self.taken += 1;
        self.unsent_bytes += frame.len() as u64;
        Ok(())
    }

    /// Has the kernel send what was pushed.
    pub fn kick(&mut self) -> Result<()> {
        self.tx.submit();
        self.push_on()
    }

    /// Waits until the kernel has given back all frames, or none for 0.1 s: [`XdpTx::counts`] tells.
    ///
    /// # Errors
    /// ENETDOWN and the like.
    pub fn flush(&mut self) -> Result<()> {
        let mut moved_ns = steady_ns();
        while self.umem.flying() > 0 {
            let before = self.umem.flying();
            self.push_on()?;
            self.reap()?;
            let now_ns = steady_ns();
            if self.umem.flying() < before {
                moved_ns = now_ns;
            } else if now_ns > moved_ns + PATIENCE_NS {
                break;
            } else {
                sleep_until(now_ns + LOOK_NS);
            }
        }
        Ok(())
    }

    /// What became of the frames so far. Those that the kernel threw away stay pending.
    pub fn counts(&self) -> TxCounts {
        let pending = self.umem.flying() as u64;
        TxCounts {
            confirmed: (self.taken - pending).saturating_sub(self.dropped),
            refused: self.dropped,
            pending,
            unsent_bytes: self.unsent_bytes,
            retried: self.retried,
        }
    }

    /// Descriptors that the kernel has thrown away; more than 0 is a defect of ours.
    pub fn invalid(&self) -> Result<u64> {
        socket::invalid(&self.fd)
    }

    /// Takes back the chunks that the kernel is done with.
    fn reap(&mut self) -> Result<()> {
        let mut any = false;
        while let Some(address) = self.done.take() {
            self.unsent_bytes -= u64::from(self.umem.land(address)?);
            any = true;
        }
        if any {
            self.done.release();
        }
        Ok(())
    }

    /// Has the kernel look at the ring where it wants to be told, until all was seen or it gets no
    /// further for the moment.
    fn push_on(&mut self) -> Result<()> {
        let mut pending = self.tx.pending();
        while pending > 0 && self.tx.needs_wakeup() {
            self.wake_up()?;
            let before = std::mem::replace(&mut pending, self.tx.pending());
            if pending == before {
                self.retried += 1;
                break;
            }
        }
        Ok(())
    }

    /// Has the kernel look at the ring.
    fn wake_up(&mut self) -> Result<()> {
        // SAFETY: no data and no address are given; the kernel looks at the ring.
        let sent = unsafe {
            let (none, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
            libc::sendto(self.fd.as_raw_fd(), none, 0, flags, std::ptr::null(), 0)
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match heard(error.raw_os_error().unwrap_or(0)) {
            Heard::NotAll => Ok(()),
            Heard::Dropped => {
                if self.mode == XdpMode::Copy {
                    self.tx.pending();
                    self.dropped += 1;
                    // Its chunk comes back all the same.
                    self.unsent_bytes += u64::from(self.tx.last_consumed_bytes());
                }
                Ok(())
            }
            Heard::Deaf => Err(self
                .error(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
                .advise("the driver has AF_XDP only with an XDP program attached; choose another way")),
            Heard::Failed => Err(self.error(error)),
        }
    }

    fn error(&self, errno: io::Error) -> Error {
        Error::new(format!("send from {} by AF_XDP", self.name), errno)
    }
}

/// What the kernel means by an error of a wakeup.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// More is in the ring than one call sends, or there is no room further down.
    NotAll,
    /// net/xdp/xsk.c: the driver has dropped the frame (NET_XMIT_DROP).
    Dropped,
    /// The driver does not look at the ring. It is not about a frame, though EINVAL elsewhere is.
    Deaf,
    /// Anything else: the interface is down or gone.
    Failed,
}

fn heard(errno: i32) -> Heard {
    match errno {
        libc::EAGAIN | libc::EINTR | libc::ENOBUFS => Heard::NotAll,
        libc::EBUSY => Heard::Dropped,
        libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP => Heard::Deaf,
        _ => Heard::Failed,
    }
}

/// Binds, and is patient with a queue that seems taken: the kernel lets go of one only some time after
/// the socket that had it was closed.
fn bind(fd: &OwnedFd, ifindex: u32, name: &str, queue: u32, flags: u16) -> Result<()> {
    let end_ns = steady_ns() + PATIENCE_NS;
    loop {
        match socket::bind(fd, ifindex, name, queue, flags) {
            Err(error) if error.raw() == libc::EBUSY && steady_ns() < end_ns => {
                sleep_until(steady_ns() + LOOK_NS * 50);
            }
            bound => return bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wakeup_never_says_that_a_frame_was_refused() {
        // ixgbe, i40e and ice without an XDP program; who sends takes EINVAL for a frame's fault.
        assert_eq!(heard(libc::EINVAL), Heard::Deaf);
        assert_eq!(heard(libc::ENXIO), Heard::Failed);
        assert_eq!(heard(libc::EAGAIN), Heard::NotAll);
        assert_eq!(heard(libc::EBUSY), Heard::Dropped);
        assert_eq!(heard(libc::ENETDOWN), Heard::Failed);
    }
}
