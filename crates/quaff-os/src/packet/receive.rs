//! Receives packets one by one without a ring: one system call and one copy for each.
//!
//! The kernel removes the outer VLAN tag from a packet; this module does not restore it.

use super::{Insn, PacketStats, REJECT_ALL, socket};
use crate::{Result, Try};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// A packet socket that is read by recvfrom(2).
#[derive(Debug)]
pub struct Receiver {
    fd: OwnedFd,
    is_stopped: bool,
}

impl Receiver {
    /// Opens a socket that receives the packets of an interface that pass `filter`, in promiscuous mode. Its
    /// receive buffer has the default size (`net.core.rmem_default`) or as much of `buffer_bytes` as the kernel
    /// grants: without CAP_NET_ADMIN at most `net.core.rmem_max`. [`receive`](Self::receive) waits for at most
    /// `wait`.
    pub fn open(
        ifindex: u32,
        name: &str,
        filter: &[Insn],
        buffer_bytes: Option<usize>,
        wait: Duration,
    ) -> Result<Self> {
        let fd = socket::open()?;
        socket::attach_filter(&fd, filter)?;
        if let Some(bytes) = buffer_bytes {
            // Without CAP_NET_ADMIN: as much as rmem_max permits.
            setsockopt(&fd, sockopt::RcvBufForce, &bytes)
                .or_else(|_| setsockopt(&fd, sockopt::RcvBuf, &bytes))
                .trying(|| format!("set a receive buffer of {bytes} bytes"))?;
        }
        Self::bind(fd, ifindex, name, libc::ETH_P_ALL as u16, wait)
    }

    /// Opens a socket that receives the frames of one EtherType on an interface, in promiscuous mode.
    pub fn open_ethertype(ifindex: u32, name: &str, ethertype: u16, wait: Duration) -> Result<Self> {
        Self::bind(socket::open()?, ifindex, name, ethertype, wait)
    }

    fn bind(fd: OwnedFd, ifindex: u32, name: &str, protocol: u16, wait: Duration) -> Result<Self> {
        let wait = TimeVal::microseconds(wait.as_micros().clamp(1, i64::MAX as u128) as i64);
        setsockopt(&fd, sockopt::ReceiveTimeout, &wait)
            .trying(|| "set the receive timeout of a packet socket")?;
        socket::set_promiscuous(&fd, ifindex)?;
        socket::bind_protocol(&fd, ifindex, name, protocol)?;
        Ok(Self { fd, is_stopped: false })
    }

    /// Receives the next packet and returns its whole length; `buffer` has as much of it as fits. `None` when
    /// the timeout expires or, after [`stop_receiving`](Self::stop_receiving), when no packet is left.
    ///
    /// # Errors
    /// `ENETDOWN` when the interface went down, and the others of recvfrom(2).
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.take(buffer, if self.is_stopped { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() })
    }

    /// As [`receive`](Self::receive), without waiting.
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

    /// Rejects all further packets; those in the receive buffer can still be received.
    pub fn stop_receiving(&mut self) -> Result<()> {
        self.is_stopped = true;
        socket::attach_filter(&self.fd, &[REJECT_ALL])
    }

    /// Packets received and dropped since the last call (PACKET_STATISTICS).
    pub fn statistics(&self) -> Result<PacketStats> {
        socket::statistics(&self.fd)
    }
}
