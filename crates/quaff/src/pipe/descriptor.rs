//! Polls of the descriptors of pipes. This module never reads or writes their data.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;

/// Waits until one of `fds` is readable, for at most `wait_ms`; `None` waits without limit. Returns which
/// ones are; end of file and errors count as readable, because a read reports them.
///
/// # Errors
/// Those of poll(2), except EINTR, which ends the wait.
pub(super) fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    wait_ms: Option<u16>,
) -> nix::Result<[bool; N]> {
    let mut polled = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    match poll(&mut polled, wait_ms.map_or(PollTimeout::NONE, PollTimeout::from)) {
        Ok(_) => Ok(polled.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()))),
        Err(Errno::EINTR) => Ok([false; N]),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn readable_pipes_are_reported() {
        let (quiet, _still_open) = std::io::pipe().unwrap();
        let (full, mut writer) = std::io::pipe().unwrap();
        let both = || wait_readable([quiet.as_fd(), full.as_fd()], Some(0)).unwrap();
        assert_eq!(both(), [false, false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(both(), [false, true]);
    }
}
