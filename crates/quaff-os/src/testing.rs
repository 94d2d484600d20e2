//! What the tests of this crate and of the ones above share: a test that cannot run here is
//! skipped with a word, and counted; and the plainest way to put a frame on a link, to hold our own
//! generator against.

use crate::{Error, Result};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Says that `test` was skipped and why, on stderr and in the file that `QUAFF_SKIP_LOG` names.
///
/// The line is `SKIP test: reason`; whoever runs the tests counts the lines of that file.
#[allow(clippy::print_stderr, reason = "a skipped test has no other way to be heard")]
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("QUAFF_SKIP_LOG") {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        if let Err(error) = opened.and_then(|mut log| writeln!(log, "{line}")) {
            panic!("cannot write to QUAFF_SKIP_LOG {}: {error}", path.display());
        }
    }
}

/// Whether an error means that this machine does not permit the thing, so that a test of it is to
/// be skipped; any other error is a test that fails.
pub fn is_refusal(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull, Unsupported};
    // ENOSPC is what a limit on the number of namespaces says (namespaces(7)).
    matches!(error.errno.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull | Unsupported)
}

/// A raw packet socket that sends whole frames from one interface, one system call each.
#[derive(Debug)]
pub struct FrameSender {
    socket: OwnedFd,
    address: libc::sockaddr_ll,
}

impl FrameSender {
    /// Will send from interface `ifindex` of the calling thread's network namespace.
    pub fn open(ifindex: u32) -> Result<Self> {
        // SAFETY: socket(2) takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Error::last("open a packet socket"));
        }
        // SAFETY: the descriptor was just returned and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: sockaddr_ll is plain data; all zero is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = ifindex as i32;
        Ok(Self { socket, address })
    }

    /// Sends one frame, from the destination address on, without FCS.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let bytes = size_of_val(&self.address) as libc::socklen_t;
        // SAFETY: the kernel reads `frame` and a valid sockaddr_ll of `bytes` bytes.
        let sent = unsafe {
            let to = (&raw const self.address).cast();
            libc::sendto(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, to, bytes)
        };
        if sent < 0 { Err(Error::last(format!("send a frame of {} bytes", frame.len()))) } else { Ok(()) }
    }
}
