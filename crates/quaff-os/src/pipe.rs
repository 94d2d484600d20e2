//! Pipes and other standard streams: their kind and fill level. This module never reads or writes their data.

use nix::sys::stat::{SFlag, fstat};
use std::os::fd::{AsFd, AsRawFd};

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
    let format = fstat(fd).map_or(SFlag::empty(), |found| SFlag::from_bits_truncate(found.st_mode));
    match format & SFlag::S_IFMT {
        SFlag::S_IFIFO => FdKind::Pipe,
        SFlag::S_IFREG => FdKind::File,
        _ => FdKind::Other,
    }
}

/// Bytes queued in a pipe (FIONREAD); 0 where the kernel does not report them.
pub fn queued_bytes(pipe: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which is local.
    match unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &mut bytes) } {
        0 => usize::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_pipe_is_distinguished_from_a_file() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!((fd_kind(&reader), fd_kind(&writer)), (FdKind::Pipe, FdKind::Pipe));
        let file = tempfile::tempfile().unwrap();
        assert_eq!(fd_kind(&file), FdKind::File);
        assert_eq!(fd_kind(std::fs::File::open("/dev/null").unwrap()), FdKind::Other);
        assert_eq!(queued_bytes(&reader), 0);
        writer.write_all(b"seven..").unwrap();
        assert_eq!(queued_bytes(&reader), 7);
    }
}
