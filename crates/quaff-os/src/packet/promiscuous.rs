//! An interface that takes in all frames, whoever they are for, without a capture on it.

use super::socket;
use crate::Result;
use std::os::fd::OwnedFd;

/// A packet socket that receives nothing, and keeps an interface promiscuous while it is there
/// (`PACKET_MR_PROMISC`, packet(7)): the kernel undoes it however we end.
#[derive(Debug)]
pub struct Promiscuous {
    _fd: OwnedFd,
}

impl Promiscuous {
    /// Holds interface `ifindex` of the calling thread's network namespace in promiscuous mode.
    pub fn hold(ifindex: u32) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_promiscuous(&fd, ifindex)?;
        Ok(Self { _fd: fd })
    }
}
