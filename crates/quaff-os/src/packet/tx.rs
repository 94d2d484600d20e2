//! Sends frames by sendmmsg(2), with or without the queueing discipline of the interface.

use super::socket::{self, Qdisc};
use crate::clock::{sleep_until, steady_ns};
use crate::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};

/// The most frames that one call sends.
pub const BATCH_FRAMES: usize = 64;

/// The fate of the frames that a transmit ring has accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxCounts {
    /// Frames that the kernel completed as sent.
    pub confirmed: u64,
    /// Accepted frames that were refused later: the interface cannot carry them, or its driver dropped them.
    pub refused: u64,
    /// Frames that are still queued or in flight.
    pub pending: u64,
    /// Bytes of the frames that were refused or are pending.
    pub unsent_bytes: u64,
    /// Calls in which the kernel had no room and which were repeated.
    pub retried: u64,
}

/// Polls until none of the `pending` frames is left, or none was completed for 0.1 s. `poll` makes the kernel send, and
/// returns the number of pending frames.
pub(crate) fn wait_until_sent<T>(
    tx: &mut T,
    mut pending: u64,
    mut poll: impl FnMut(&mut T) -> Result<u64>,
) -> Result<()> {
    /// Time without a completion after which the remaining frames count as not sent, ns.
    const TIMEOUT_NS: u64 = 100_000_000;
    /// Interval of polling for completions, ns.
    const POLL_NS: u64 = 100_000;
    let mut progress_ns = steady_ns();
    while pending > 0 {
        let before = std::mem::replace(&mut pending, poll(tx)?);
        let now_ns = steady_ns();
        if pending < before {
            progress_ns = now_ns;
        } else if now_ns > progress_ns + TIMEOUT_NS {
            break;
        } else {
            sleep_until(now_ns + POLL_NS);
        }
    }
    Ok(())
}

/// A packet socket that only sends.
#[derive(Debug)]
pub struct TxSocket {
    fd: OwnedFd,
    name: String,
}

impl TxSocket {
    /// Opens a socket that sends from one interface.
    pub fn open(ifindex: u32, name: &str, qdisc: Qdisc) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_qdisc(&fd, qdisc)?;
        socket::bind_to_send(&fd, ifindex, name)?;
        Ok(Self { fd, name: name.to_owned() })
    }

    /// Sends up to [`BATCH_FRAMES`] whole frames, beginning with the link header; returns how many were accepted.
    ///
    /// # Errors
    /// Only when the first frame is refused: ENOBUFS (no room now, retry), EINTR, EMSGSIZE (longer than the MTU
    /// permits), EINVAL (shorter than its header), ENETDOWN.
    pub fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
        // SAFETY: iovec and mmsghdr are plain data; all zero is a valid value.
        let mut iovecs: [libc::iovec; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // The fixed arrays come first in the zip: otherwise it would consume one frame too many.
        for ((iovec, message), frame) in iovecs.iter_mut().zip(&mut messages).zip(frames) {
            iovec.iov_base = frame.as_ptr().cast_mut().cast();
            iovec.iov_len = frame.len();
            message.msg_hdr.msg_iov = iovec;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: the first `count` messages point to iovecs that point to frames; all outlive the call. The
        // kernel reads them and writes only `msg_len`.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| self.refused())
    }

    /// Sends one whole frame by send(2), which is the cheapest call for a single frame.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_one(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: the kernel reads `frame.len()` bytes of `frame`.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(self.refused()) } else { Ok(()) }
    }

    fn refused(&self) -> Error {
        Error::last(format!("send from {}", self.name))
    }
}
