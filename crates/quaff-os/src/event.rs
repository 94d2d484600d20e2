//! A bell between threads: an eventfd that can be rung, waited for, and polled beside other fds.

use crate::{Error, Result, Try};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// A bell. Clones ring the same one.
#[derive(Debug, Clone)]
pub struct Event {
    fd: Arc<EventFd>,
}

impl Event {
    /// A bell that has not been rung.
    pub fn new() -> Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let fd = EventFd::from_value_and_flags(0, flags).trying(|| "open an eventfd")?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// Rings it. Ringing twice before anybody looked is as good as once.
    pub fn ring(&self) {
        // A full counter (EAGAIN) means that it has been rung already.
        let _ = self.fd.write(1);
    }

    /// Waits until it is rung, or `wait` has passed, or a signal or a completion interrupts.
    /// Says whether it was rung, and silences it.
    pub fn wait(&self, wait: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout(wait)) {
            Ok(0) | Err(nix::Error::EINTR) => Ok(false),
            Ok(_) => Ok(self.silence()),
            Err(errno) => Err(Error::new("wait for an eventfd", errno)),
        }
    }

    /// Takes the ringing away; says whether there was any.
    pub fn silence(&self) -> bool {
        self.fd.read().is_ok()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A poll(2) timeout: rounded up to the next ms, so that a wait never ends just before its time.
pub(crate) fn timeout(wait: Duration) -> PollTimeout {
    let ms = wait.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_heard_once() {
        let bell = Event::new().unwrap();
        assert!(!bell.wait(Duration::ZERO).unwrap());
        bell.clone().ring();
        bell.ring();
        assert!(bell.wait(Duration::from_secs(5)).unwrap());
        assert!(!bell.wait(Duration::ZERO).unwrap());
    }
}
