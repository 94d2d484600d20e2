//! Counts what taps on an interface get to see, without receiving it.
//!
//! The kernel runs the filter, finds the (minimal) receive buffer full, and counts a drop; nothing
//! is copied. So the count is what any other packet socket on the interface was offered.

use super::{Insn, socket};
use crate::Result;
use std::os::fd::OwnedFd;

/// A packet socket that is only asked for its statistics.
#[derive(Debug)]
pub struct CountingTap {
    fd: OwnedFd,
    total: u64,
}

impl CountingTap {
    /// Counts from now on what arrives on (and leaves from) an interface, and passes `filter`, if any.
    pub fn open(ifindex: u32, name: &str, filter: Option<&[Insn]>) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_receive_buffer_min(&fd)?;
        if let Some(program) = filter {
            socket::attach_filter(&fd, program)?;
        }
        socket::bind(&fd, ifindex, name)?;
        Ok(Self { fd, total: 0 })
    }

    /// All packets so far. Must be called before the kernel's 32 bits overflow: each second will do.
    pub fn read(&mut self) -> Result<u64> {
        self.total += socket::statistics(&self.fd)?.packets;
        Ok(self.total)
    }
}
