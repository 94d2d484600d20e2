//! Sends frames by an AF_XDP socket: written to shared memory, announced by the transmit ring, and confirmed by
//! the completion ring.

use super::ring::{Consumer, Producer};
use super::socket;
use super::umem::Umem;
use crate::clock::{sleep_until, steady_ns};
use crate::packet::{TxCounts, wait_until_sent};
use crate::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The longest frame: a chunk is at most a page.
pub const FRAME_BYTES_MAX: usize = 4096;

/// Chunk size for frames up to this length; longer ones get a page.
const SMALL_CHUNK_BYTES: usize = 2048;
/// Chunks in zero-copy mode, where frames stay in flight for long.
const CHUNKS_ZERO_COPY: usize = 4096;
/// Chunks in copy mode: fewer, so that they stay in the cache.
const CHUNKS_COPY: usize = 512;
/// Frames that one call sends in copy mode.
const BUDGET_FRAMES: u32 = 256;
/// Time limit for a queue that a closed socket still holds, ns: the kernel frees it in a work item that waits for the
/// rtnl lock (`xp_release_deferred`), which others may hold for seconds while they remove interfaces.
const BUSY_NS: u64 = 3_000_000_000;
/// Interval of attempts to bind to it, ns.
const RETRY_NS: u64 = 5_000_000;

/// The mode of an AF_XDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// The driver reads frames in place.
    ZeroCopy,
    /// The kernel copies each frame.
    Copy,
}

/// A socket that sends from one queue of an interface.
#[derive(Debug)]
pub struct XdpTx {
    tx: Producer,
    completion: Consumer,
    umem: Umem,
    fd: OwnedFd,
    pub mode: XdpMode,
    frame_bytes_max: usize,
    /// Frames that the driver dropped although the kernel completed their chunks.
    dropped: u64,
    taken: u64,
    /// Bytes of accepted frames that are not confirmed.
    unsent_bytes: u64,
    retried: u64,
    name: String,
}

impl XdpTx {
    /// Opens a socket on `queue` of an interface, for frames up to `frame_bytes_max`, in `mode` or, where that
    /// is `None`, in zero-copy mode if the driver supports it.
    ///
    /// # Errors
    /// EMSGSIZE for frames longer than [`FRAME_BYTES_MAX`]; EBUSY when another socket uses the queue;
    /// EINVAL when there is no such queue.
    pub fn open(
        ifindex: u32,
        name: &str,
        queue: u32,
        frame_bytes_max: usize,
        mode: Option<XdpMode>,
    ) -> Result<Self> {
        let open = |mode| Self::open_in(ifindex, name, queue, frame_bytes_max, mode);
        if let Some(mode) = mode {
            return open(mode);
        }
        match open(XdpMode::ZeroCopy).and_then(Self::check_wakeup) {
            // The errno for a missing zero-copy mode depends on the driver.
            Err(error) if !matches!(error.raw(), libc::EPERM | libc::EBUSY | libc::EMSGSIZE) => {
                open(XdpMode::Copy)
            }
            opened => opened,
        }
    }

    /// Some drivers support zero-copy only with an XDP program attached, and report that at the first wakeup.
    fn check_wakeup(mut self) -> Result<Self> {
        self.wake_up()?;
        Ok(self)
    }

    fn open_in(ifindex: u32, name: &str, queue: u32, frame_bytes_max: usize, mode: XdpMode) -> Result<Self> {
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
        let (tx, tx_layout, completion, completion_layout) =
            socket::make_rings(&fd, chunks as u32, chunks as u32)?;
        if mode == XdpMode::Copy {
            socket::set_send_buffer(&fd, 2 * umem.memory().len());
            socket::set_budget(&fd, BUDGET_FRAMES);
        }
        bind(&fd, ifindex, name, queue, flag)?;
        Ok(Self {
            tx: Producer::new(tx, tx_layout),
            completion: Consumer::new(completion, completion_layout),
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

    /// Returns whether there is room for a frame.
    #[inline]
    pub fn has_room(&mut self) -> Result<bool> {
        if !self.umem.has_room() {
            self.reap()?;
        }
        Ok(self.umem.has_room() && self.tx.has_room())
    }

    /// Queues one frame, beginning with the link header, which the kernel sees after [`XdpTx::kick`].
    ///
    /// # Errors
    /// EMSGSIZE when it is longer than `frame_bytes_max`.
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

    /// Makes the kernel send the queued frames.
    pub fn kick(&mut self) -> Result<()> {
        self.tx.submit();
        self.wake_until_consumed()
    }

    /// Waits until the kernel has completed all frames, or none for 0.1 s; see [`XdpTx::counts`].
    ///
    /// # Errors
    /// ENETDOWN and other errors of send(2).
    pub fn flush(&mut self) -> Result<()> {
        let pending = self.umem.in_flight() as u64;
        wait_until_sent(self, pending, |tx| {
            tx.wake_until_consumed()?;
            tx.reap()?;
            Ok(tx.umem.in_flight() as u64)
        })
    }

    /// The fate of the frames so far. Those that the kernel discarded stay pending.
    pub fn counts(&self) -> TxCounts {
        let pending = self.umem.in_flight() as u64;
        TxCounts {
            confirmed: (self.taken - pending).saturating_sub(self.dropped),
            refused: self.dropped,
            pending,
            unsent_bytes: self.unsent_bytes,
            retried: self.retried,
        }
    }

    /// Frees the chunks that the kernel has completed.
    fn reap(&mut self) -> Result<()> {
        let mut any = false;
        while let Some(address) = self.completion.take() {
            self.unsent_bytes -= u64::from(self.umem.complete(address)?);
            any = true;
        }
        if any {
            self.completion.release();
        }
        Ok(())
    }

    /// Wakes the kernel, if it needs that, until it has consumed all entries or makes no progress.
    fn wake_until_consumed(&mut self) -> Result<()> {
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

    /// Makes the kernel read the transmit ring.
    fn wake_up(&mut self) -> Result<()> {
        // SAFETY: the call passes no data and no address; the kernel reads the ring.
        let sent = unsafe {
            let (none, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
            libc::sendto(self.fd.as_raw_fd(), none, 0, flags, std::ptr::null(), 0)
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match wakeup_error(error.raw_os_error().unwrap_or(0)) {
            WakeupError::Partial => Ok(()),
            WakeupError::Dropped => {
                if self.mode == XdpMode::Copy {
                    self.tx.pending();
                    self.dropped += 1;
                    // Its completion will subtract these bytes.
                    self.unsent_bytes += u64::from(self.tx.last_consumed_bytes());
                }
                Ok(())
            }
            WakeupError::Unsupported => Err(self
                .error(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
                .advise("the driver supports AF_XDP only with an XDP program attached; use another backend")),
            WakeupError::Failed => Err(self.error(error)),
        }
    }

    fn error(&self, errno: io::Error) -> Error {
        Error::new(format!("send from {} by AF_XDP", self.name), errno)
    }
}

/// The meaning of an error of a wakeup.
#[derive(Debug, PartialEq, Eq)]
enum WakeupError {
    /// The ring has more frames than one call sends, or the driver has no room.
    Partial,
    /// The driver dropped the frame (NET_XMIT_DROP, net/xdp/xsk.c).
    Dropped,
    /// The driver does not read the ring. EINVAL does not refer to a frame here.
    Unsupported,
    /// Any other error: the interface is down or removed.
    Failed,
}

fn wakeup_error(errno: i32) -> WakeupError {
    match errno {
        libc::EAGAIN | libc::EINTR | libc::ENOBUFS => WakeupError::Partial,
        libc::EBUSY => WakeupError::Dropped,
        libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP => WakeupError::Unsupported,
        _ => WakeupError::Failed,
    }
}

/// Binds, and retries while the queue is busy: the kernel frees a queue some time after its socket is closed.
pub(super) fn bind(fd: &OwnedFd, ifindex: u32, name: &str, queue: u32, flags: u16) -> Result<()> {
    let end_ns = steady_ns() + BUSY_NS;
    loop {
        match socket::bind(fd, ifindex, name, queue, flags) {
            Err(error) if error.raw() == libc::EBUSY && steady_ns() < end_ns => {
                sleep_until(steady_ns() + RETRY_NS);
            }
            bound => return bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wakeup_error_never_refuses_a_frame() {
        // EINVAL: ixgbe, i40e and ice without an XDP program. Senders take EINVAL as a fault of the frame.
        assert_eq!(wakeup_error(libc::EINVAL), WakeupError::Unsupported);
        assert_eq!(wakeup_error(libc::ENXIO), WakeupError::Failed);
        assert_eq!(wakeup_error(libc::EAGAIN), WakeupError::Partial);
        assert_eq!(wakeup_error(libc::EBUSY), WakeupError::Dropped);
        assert_eq!(wakeup_error(libc::ENETDOWN), WakeupError::Failed);
    }
}
