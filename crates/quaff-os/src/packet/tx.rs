//! Sends frames from an interface: sendmmsg(2), with or without the queueing disciplines.

use super::socket;
use crate::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames that one call takes.
pub const BATCH_FRAMES: usize = 64;

/// Which way sent frames take to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Qdisc {
    /// At once (PACKET_QDISC_BYPASS). Captures on the sending interface do not see the frames.
    #[default]
    Bypass,
    /// Through the interface's queueing discipline, which may delay or drop them, and past captures.
    Through,
}

/// A packet socket that sends and receives nothing.
#[derive(Debug)]
pub struct TxSocket {
    fd: OwnedFd,
    name: String,
}

impl TxSocket {
    /// Opens a socket to send from one interface.
    pub fn open(ifindex: u32, name: &str, qdisc: Qdisc) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_qdisc(&fd, qdisc)?;
        socket::bind_to_send(&fd, ifindex, name)?;
        Ok(Self { fd, name: name.to_owned() })
    }

    /// Sends up to [`BATCH_FRAMES`] whole frames, link header first; says how many were taken.
    ///
    /// # Errors
    /// Only when the first one was refused: ENOBUFS (no room for the moment, try again), EINTR,
    /// EMSGSIZE (larger than the interface's MTU allows), EINVAL (no whole header), ENETDOWN.
    pub fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
        // SAFETY: iovec and mmsghdr are plain data; all zero is a valid value.
        let mut iovecs: [libc::iovec; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // The places come first: with the frames first, one frame too many would be taken from them.
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
        // SAFETY: the first `count` messages point to iovecs that point to frames, all of which live
        // until the call returns; the kernel reads them, and writes only `msg_len`.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| self.refused())
    }

    /// Sends one whole frame, by send(2): the shortest way there is for a frame that goes alone.
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
