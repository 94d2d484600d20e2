//! Packets one by one, without a ring: a system call and a copy for each, as before PACKET_MMAP.
//!
//! The kernel takes VLAN tags out of packets, and nothing here puts them back.

use super::{Insn, KernelDrops, REJECT_ALL, socket};
use crate::{Result, Try};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// A packet socket to be read by recvfrom(2).
#[derive(Debug)]
pub struct Receiver {
    fd: OwnedFd,
    is_closed: bool,
}

impl Receiver {
    /// Receives from the return on what passes `filter` on an interface, in promiscuous mode. The buffer is the
    /// kernel's default (`net.core.rmem_default`), or what of `buffer_bytes` it grants.
    ///
    /// # Errors
    /// What the kernel refuses; a buffer above `net.core.rmem_max` only without CAP_NET_ADMIN.
    pub fn open(ifindex: u32, name: &str, filter: &[Insn], buffer_bytes: Option<usize>) -> Result<Self> {
        let fd = socket::open()?;
        socket::attach_filter(&fd, filter)?;
        if let Some(bytes) = buffer_bytes {
            // Who may not go beyond the limit gets what is within it.
            setsockopt(&fd, sockopt::RcvBufForce, &bytes)
                .or_else(|_| setsockopt(&fd, sockopt::RcvBuf, &bytes))
                .trying(|| format!("set a receive buffer of {bytes} bytes"))?;
        }
        socket::set_promiscuous(&fd, ifindex)?;
        socket::bind(&fd, ifindex, name)?;
        Ok(Self { fd, is_closed: false })
    }

    /// Receives from the return on the frames of one EtherType on an interface, in promiscuous mode.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn open_for(ifindex: u32, name: &str, ethertype: u16) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_promiscuous(&fd, ifindex)?;
        socket::bind_protocol(&fd, ifindex, name, ethertype)?;
        Ok(Self { fd, is_closed: false })
    }

    /// How long [`receive`](Self::receive) waits for a packet.
    pub fn set_wait(&self, wait: Duration) -> Result<()> {
        let wait = TimeVal::microseconds(wait.as_micros().clamp(1, i64::MAX as u128) as i64);
        setsockopt(&self.fd, sockopt::ReceiveTimeout, &wait).trying(|| "set a time to wait")
    }

    /// The next packet: its length, of which what fits is in `buffer`. `None` when none came in time; after
    /// [`close`](Self::close), when there is none left.
    ///
    /// # Errors
    /// `ENETDOWN` when the interface went down, and whatever else recvfrom(2) says.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.take(buffer, if self.is_closed { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() })
    }

    /// As [`receive`](Self::receive), without waiting.
    ///
    /// # Errors
    /// The same.
    pub fn receive_now(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.take(buffer, MsgFlags::MSG_DONTWAIT)
    }

    fn take(&self, buffer: &mut [u8], wait: MsgFlags) -> Result<Option<usize>> {
        match recv(self.fd.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC | wait) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(None),
            Err(errno) => Err(errno).trying(|| "receive a packet"),
        }
    }

    /// Lets nothing more in; what is in the buffer can still be received.
    pub fn close(&mut self) -> Result<()> {
        self.is_closed = true;
        socket::attach_filter(&self.fd, &[REJECT_ALL])
    }

    /// What came and what was dropped since it was last asked (PACKET_STATISTICS).
    pub fn statistics(&self) -> Result<KernelDrops> {
        socket::statistics(&self.fd)
    }
}
