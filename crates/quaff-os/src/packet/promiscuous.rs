//! Promiscuous mode of an interface without a capture.

use super::socket;
use crate::Result;
use std::os::fd::OwnedFd;

/// A packet socket that receives nothing and keeps an interface promiscuous while it is open
/// (`PACKET_MR_PROMISC`, packet(7)). The kernel ends that mode when the process ends, however it ends.
#[derive(Debug)]
pub struct Promiscuous {
    _fd: OwnedFd,
}

impl Promiscuous {
    /// Makes interface `ifindex` of the calling thread's network namespace promiscuous.
    pub fn hold(ifindex: u32) -> Result<Self> {
        let fd = socket::open()?;
        socket::set_promiscuous(&fd, ifindex)?;
        Ok(Self { _fd: fd })
    }
}
