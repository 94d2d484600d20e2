//! Sends frames from an interface: sendmmsg(2), past the queueing disciplines.

use super::socket;
use crate::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames that one call takes.
pub const BATCH_FRAMES: usize = 64;

/// A packet socket that sends and receives nothing.
#[derive(Debug)]
pub struct TxSocket {
    fd: OwnedFd,
    name: String,
}

impl TxSocket {
    /// Opens a socket to send from one interface.
    pub fn open(ifindex: u32, name: &str) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_qdisc_bypass(&fd)?;
        socket::bind_to_send(&fd, ifindex, name)?;
        Ok(Self { fd, name: name.to_owned() })
    }

    /// Sends up to [`BATCH_FRAMES`] whole frames, link header first; says how many were taken.
    ///
    /// # Errors
    /// Only when the first one was refused: ENOBUFS (no room for the moment, try again), EINTR,
    /// EMSGSIZE (larger than the interface's MTU allows), ENETDOWN.
    pub fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
        // SAFETY: iovec and mmsghdr are plain data; all zero is a valid value.
        let mut iovecs: [libc::iovec; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        for (frame, (iovec, message)) in frames.zip(iovecs.iter_mut().zip(&mut messages)) {
            iovec.iov_base = frame.as_ptr().cast_mut().cast();
            iovec.iov_len = frame.len();
            message.msg_hdr.msg_iov = iovec;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` messages point to iovecs that point to frames, all of which live
        // until the call returns; the kernel reads them, and writes only `msg_len`.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| Error::last(format!("send from {}", self.name)))
    }
}
