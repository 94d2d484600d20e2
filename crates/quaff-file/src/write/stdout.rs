//! Stdout as an output: a file is opened again with O_DIRECT, a pipe without blocking.

use crate::write::descriptor::{FdKind, fd_kind};
use crate::{Error, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::fstat;
use quaff_os::disk::direct_align;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;

/// The path of stdout as a file, in messages and to leave its offset at the end.
pub(super) const STDOUT: &str = "/dev/stdout";

/// Opens the pipe on stdout again, non-blocking: a reader that blocks can be abandoned, and other programs that write
/// to the pipe keep their own mode. `None` if it is not a pipe, or cannot be opened.
pub(super) fn without_blocking(stdout: &File) -> Option<File> {
    if fd_kind(stdout) != FdKind::Pipe {
        return None;
    }
    let path = format!("/proc/self/fd/{}", stdout.as_raw_fd());
    File::options().write(true).custom_flags(nix::libc::O_NONBLOCK).open(path).ok()
}

/// Moves the offset of a file on stdout to its end when it is dropped, for the next program that writes there.
#[derive(Debug)]
pub(super) struct StdoutEnd;

impl Drop for StdoutEnd {
    fn drop(&mut self) {
        if let Ok(mut stdout) = stdout() {
            // A failure does no harm to what was written.
            let _ = stdout.seek(SeekFrom::End(0));
        }
    }
}

pub(super) fn stdout() -> Result<File> {
    let fd = io::stdout().as_fd().try_clone_to_owned();
    fd.map(File::from).map_err(|errno| Error::path("write to", "stdout", errno))
}

/// Reopens the file on stdout with O_DIRECT; returns it with its alignment. `None` where stdout is not a
/// file, is appended to, is also stderr, or is on a file system without O_DIRECT.
pub(super) fn reopen(stdout: &File) -> Option<(File, usize)> {
    let flags = OFlag::from_bits_retain(fcntl(stdout, FcntlArg::F_GETFL).ok()?);
    let is_writable = flags & OFlag::O_ACCMODE != OFlag::O_RDONLY;
    if !stdout.metadata().is_ok_and(|found| found.is_file())
        || !is_writable
        || flags.contains(OFlag::O_APPEND)
        || is_stderr(stdout)
    {
        return None;
    }
    let path = format!("/proc/self/fd/{}", stdout.as_raw_fd());
    let file = File::options().write(true).custom_flags(OFlag::O_DIRECT.bits()).open(path).ok()?;
    let align = direct_align(&file)?;
    Some((file, align))
}

/// Returns `true` if stderr is the same file: its messages would be overwritten.
fn is_stderr(file: &File) -> bool {
    let stderr = io::stderr();
    match (fstat(file), fstat(stderr.as_fd())) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}
