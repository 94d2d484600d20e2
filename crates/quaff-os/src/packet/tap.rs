//! Counts the packets that an interface offers to packet sockets, without receiving them.
//!
//! The kernel runs the filter, finds the minimal receive buffer full, and counts a drop without copying. So
//! the count equals what every other packet socket on the interface was offered.

use super::{Insn, REJECT_ALL, socket};
use crate::Result;
use std::os::fd::OwnedFd;

/// A packet socket of which only the statistics are read.
#[derive(Debug)]
pub struct CountingTap {
    fd: OwnedFd,
    total: u64,
}

impl CountingTap {
    /// Starts to count the packets that an interface receives and sends and that pass `filter`, if any.
    pub fn open(ifindex: u32, name: &str, filter: Option<&[Insn]>) -> Result<Self> {
        let fd = socket::open()?;
        if let Some(program) = filter {
            socket::attach_filter(&fd, program)?;
        }
        Self::bind(fd, ifindex, name)
    }

    /// A socket that counts nothing until [`Self::attach`].
    pub fn unbound() -> Result<Self> {
        let fd = socket::open()?;
        socket::set_receive_buffer_min(&fd)?;
        Ok(Self { fd, total: 0 })
    }

    /// Starts to count the packets that an interface receives and sends.
    pub fn attach(&self, ifindex: u32, name: &str) -> Result<()> {
        socket::bind(&self.fd, ifindex, name)
    }

    /// Starts to count the packets that an interface receives.
    pub fn open_incoming(ifindex: u32, name: &str) -> Result<Self> {
        let fd = socket::open()?;
        socket::ignore_outgoing(&fd)?;
        Self::bind(fd, ifindex, name)
    }

    fn bind(fd: OwnedFd, ifindex: u32, name: &str) -> Result<Self> {
        socket::set_receive_buffer_min(&fd)?;
        socket::bind(&fd, ifindex, name)?;
        Ok(Self { fd, total: 0 })
    }

    /// The packets so far. The kernel counts in 32 bits: call it every second.
    pub fn read(&mut self) -> Result<u64> {
        self.total += socket::statistics(&self.fd)?.packets;
        Ok(self.total)
    }

    /// Stops counting.
    pub fn stop(&self) -> Result<()> {
        socket::attach_filter(&self.fd, &[REJECT_ALL])
    }
}
