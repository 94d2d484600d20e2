//! Notice of changes to the interfaces of a network namespace: multicast messages of route netlink (`RTMGRP_LINK`,
//! rtnetlink(7)). What has changed is read anew by the caller: messages may be lost.

use crate::wakeup::{Wakeup, timeout};
use crate::{Error, Result, Try};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::poll::{PollFd, PollFlags, poll};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Messages are discarded, so they need not fit.
const MESSAGE_BYTES: usize = 4096;

/// A socket that becomes readable when an interface is created, changed or removed.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: Socket,
}

impl LinkMonitor {
    /// Starts to listen in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE).trying(|| "open a route netlink socket")?;
        socket
            .bind(&SocketAddr::new(0, libc::RTMGRP_LINK as u32))
            .trying(|| "listen for changes of interfaces")?;
        socket.set_non_blocking(true).trying(|| "listen for changes of interfaces")?;
        Ok(Self { socket })
    }

    /// Waits for a change or for `wakeup`, for at most `wait`. Returns whether something may have changed since the
    /// last call.
    pub fn wait(&self, wakeup: &Wakeup, wait: Duration) -> Result<bool> {
        use std::os::fd::AsFd;
        // SAFETY: the socket is open as long as `self`, which outlives the call.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) };
        let mut fds =
            [PollFd::new(socket, PollFlags::POLLIN), PollFd::new(wakeup.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout(wait)) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(Error::new("wait for changes of interfaces", errno)),
        }
        wakeup.clear();
        self.drain()
    }

    fn drain(&self) -> Result<bool> {
        let (mut has_any, mut message) = (false, Vec::with_capacity(MESSAGE_BYTES));
        loop {
            message.clear();
            match self.socket.recv(&mut message, 0) {
                Ok(_) => has_any = true,
                // Messages were lost (ENOBUFS).
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => has_any = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(has_any),
                Err(error) => return Err(Error::new("read changes of interfaces", error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_change_there_is_none() {
        let (monitor, wakeup) = (LinkMonitor::open().unwrap(), Wakeup::new().unwrap());
        wakeup.signal();
        // Other programs may change interfaces meanwhile.
        while monitor.wait(&wakeup, Duration::ZERO).unwrap() {}
        wakeup.signal();
        let begun = std::time::Instant::now();
        monitor.wait(&wakeup, Duration::from_secs(60)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30), "the wakeup ends the wait");
    }
}
