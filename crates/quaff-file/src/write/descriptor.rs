//! Standard streams and pipes: the kind of a descriptor, the capacity of a pipe, and whether it has a reader. This
//! module never reads or writes their data.

use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// The kind of object that a descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdKind {
    /// pipe(7).
    Pipe,
    File,
    /// A terminal, a socket, a device.
    Other,
}

/// Returns the kind of object that `fd` refers to.
pub fn fd_kind(fd: impl AsFd) -> FdKind {
    match file_type(fd) {
        SFlag::S_IFIFO => FdKind::Pipe,
        SFlag::S_IFREG => FdKind::File,
        _ => FdKind::Other,
    }
}

/// Returns whether `fd` is a pipe or a socket: its reader may leave.
pub(super) fn has_reader(fd: impl AsFd) -> bool {
    matches!(file_type(fd), SFlag::S_IFIFO | SFlag::S_IFSOCK)
}

/// Returns the type of a descriptor; empty if fstat(2) fails.
fn file_type(fd: impl AsFd) -> SFlag {
    let mode = fstat(fd).map_or(SFlag::empty(), |found| SFlag::from_bits_truncate(found.st_mode));
    mode & SFlag::S_IFMT
}

/// Capacity of an enlarged pipe, bytes; a larger one no longer fits the caches.
const CAPACITY_BYTES: usize = 1 << 20;

/// Enlarges a pipe to 1 MiB, or to the limit in `/proc/sys/fs/pipe-max-size` (F_SETPIPE_SZ); never shrinks it. Returns
/// its capacity in bytes, 0 if it is not a pipe.
pub fn enlarge(pipe: impl AsFd) -> usize {
    let pipe = pipe.as_fd();
    let bytes_now = || fcntl(pipe, FcntlArg::F_GETPIPE_SZ).ok().and_then(|bytes| usize::try_from(bytes).ok());
    let Some(bytes) = bytes_now() else { return 0 };
    let most = fs::read_to_string("/proc/sys/fs/pipe-max-size").ok();
    let most = most.and_then(|text| text.trim().parse().ok()).unwrap_or(CAPACITY_BYTES).min(CAPACITY_BYTES);
    if bytes < most {
        // Refused when this user's pipes have too many pages already: the capacity stays as it is.
        let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(most as i32));
    }
    bytes_now().unwrap_or(bytes)
}

/// Returns whether the pipe or socket `out` has lost its reader.
pub(super) fn is_closed(out: impl AsFd) -> bool {
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO) == Ok(1)
        && fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Returns whether a file has a name. One whose link count cannot be read counts as named.
pub(in crate::write) fn has_name(file: &File) -> bool {
    file.metadata().map_or(true, |meta| meta.nlink() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_distinguished_from_a_file_and_enlarged() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert_eq!((fd_kind(&reader), fd_kind(&writer)), (FdKind::Pipe, FdKind::Pipe));
        let file = tempfile::tempfile().unwrap();
        assert_eq!((fd_kind(&file), enlarge(&file)), (FdKind::File, 0));
        let null = fs::File::open("/dev/null").unwrap();
        assert_eq!((fd_kind(&null), has_reader(&null), has_reader(&writer)), (FdKind::Other, false, true));
        let bytes = enlarge(&writer);
        assert!(bytes >= 4096 && enlarge(&reader) == bytes, "{bytes}");
    }

    #[test]
    fn a_closed_pipe_is_reported() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_closed(&writer));
        drop(reader);
        assert!(is_closed(&writer));
    }
}
