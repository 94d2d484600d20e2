//! Standard streams as something to move much through: what they are, how large, how full. It reads and
//! writes nothing.

use crate::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// What a descriptor leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pipe, pipe(7).
    Pipe,
    /// A regular file.
    File,
    /// A terminal, a socket, a device.
    Other,
}

/// Larger pipes than this only take the caches away from what is in them, bytes.
const ENOUGH_BYTES: usize = 1 << 20;

/// What `fd` leads to.
pub fn kind(fd: impl AsFd) -> Kind {
    let format = fstat(fd).map_or(SFlag::empty(), |found| SFlag::from_bits_truncate(found.st_mode));
    match format & SFlag::S_IFMT {
        SFlag::S_IFIFO => Kind::Pipe,
        SFlag::S_IFREG => Kind::File,
        _ => Kind::Other,
    }
}

/// Enlarges a pipe to 1 MiB, or as far as `/proc/sys/fs/pipe-max-size` permits (F_SETPIPE_SZ). Never
/// makes it smaller. Returns how many bytes it holds, 0 for what is not a pipe.
pub fn enlarge(pipe: impl AsFd) -> usize {
    let pipe = pipe.as_fd();
    let bytes_now = || fcntl(pipe, FcntlArg::F_GETPIPE_SZ).ok().and_then(|bytes| usize::try_from(bytes).ok());
    let Some(bytes) = bytes_now() else { return 0 };
    let most = fs::read_to_string("/proc/sys/fs/pipe-max-size").ok();
    let most = most.and_then(|text| text.trim().parse().ok()).unwrap_or(ENOUGH_BYTES).min(ENOUGH_BYTES);
    if bytes < most {
        // Refused when this user's pipes have too many pages already: it stays as it is.
        let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(most as i32));
    }
    bytes_now().unwrap_or(bytes)
}

/// Bytes that wait in a pipe to be read (FIONREAD); 0 where nobody knows.
pub fn waiting_bytes(pipe: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which is ours.
    match unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &mut bytes) } {
        0 => usize::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

/// Whether a pipe or a socket that we write to has lost its reader.
pub fn is_closed(out: impl AsFd) -> bool {
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO) == Ok(1)
        && fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Waits until one of `fds` has something to read, or `wait_ms` have passed; `None` waits for ever.
/// Says which have; a descriptor that has reached its end or is broken counts, since reading it tells.
///
/// # Errors
/// Those of poll(2); a signal is none.
pub fn wait_readable<const N: usize>(
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

    #[test]
    fn a_pipe_is_told_from_a_file_and_grows() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!((kind(&reader), kind(&writer)), (Kind::Pipe, Kind::Pipe));
        let file = tempfile::tempfile().unwrap();
        assert_eq!((kind(&file), enlarge(&file)), (Kind::File, 0));
        assert_eq!(kind(fs::File::open("/dev/null").unwrap()), Kind::Other);
        let bytes = enlarge(&writer);
        assert!(bytes >= 4096 && enlarge(&reader) == bytes, "{bytes}");
        assert_eq!(waiting_bytes(&reader), 0);
        writer.write_all(b"seven..").unwrap();
        assert_eq!(waiting_bytes(&reader), 7);
    }

    #[test]
    fn it_is_said_who_can_be_read_and_who_has_gone() {
        let (quiet, still_open) = std::io::pipe().unwrap();
        let (full, mut writer) = std::io::pipe().unwrap();
        let both = || wait_readable([quiet.as_fd(), full.as_fd()], Some(0)).unwrap();
        assert_eq!(both(), [false, false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(both(), [false, true]);
        assert!(!is_closed(&writer) && !is_closed(&still_open));
        drop(quiet);
        assert!(is_closed(&still_open) && !is_closed(&writer));
    }
}
