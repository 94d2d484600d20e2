//! A wakeup between threads: an eventfd(2), which poll(2) can wait for beside other descriptors.

use crate::{Error, Result, Try};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// An eventfd that one thread signals and another waits for. Clones share the descriptor.
#[derive(Debug, Clone)]
pub struct Wakeup {
    fd: Arc<EventFd>,
}

impl Wakeup {
    /// A wakeup that is not signalled yet.
    pub fn new() -> Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let fd = EventFd::from_value_and_flags(0, flags).trying(|| "open an eventfd")?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// Wakes the waiting thread, now or at its next wait. Several signals before a wait count as one.
    pub fn signal(&self) {
        // A full counter (EAGAIN) means that it is signalled already.
        let _ = self.fd.write(1);
    }

    /// Waits for a signal, for at most `wait`; an interrupted system call (EINTR) ends the wait early.
    /// Returns whether it was signalled, and clears it.
    pub fn wait(&self, wait: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout(wait)) {
            Ok(0) | Err(nix::Error::EINTR) => Ok(false),
            Ok(_) => Ok(self.clear()),
            Err(errno) => Err(Error::new("wait for an eventfd", errno)),
        }
    }

    /// Clears the signal; returns whether there was one.
    pub fn clear(&self) -> bool {
        self.fd.read().is_ok()
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The poll(2) timeout for `wait`, rounded up to the next ms so that a wait never ends early.
pub(crate) fn timeout(wait: Duration) -> PollTimeout {
    let ms = wait.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_are_one_wakeup() {
        let wakeup = Wakeup::new().unwrap();
        assert!(!wakeup.wait(Duration::ZERO).unwrap());
        wakeup.clone().signal();
        wakeup.signal();
        assert!(wakeup.wait(Duration::from_secs(5)).unwrap());
        assert!(!wakeup.wait(Duration::ZERO).unwrap());
    }
}
