//! What the tests of this crate and of the ones above share: a test that cannot run here is
//! skipped with a word, and counted; the plainest way to put a frame on a link, to hold our own
//! generator against; and the kernel's own opinion of a filter.

mod noise;

use crate::packet::{Insn, socket};
use crate::{Error, Result, Try};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub use noise::{Disturbance, Noise, assert_when_quiet};

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

/// A filter in the kernel, to ask what it does with any bytes.
///
/// A classic filter on a datagram socket of AF_UNIX sees the datagram from its first byte on, so
/// neither an interface nor a privilege is needed.
#[derive(Debug)]
pub struct KernelFilter {
    sender: OwnedFd,
    receiver: OwnedFd,
}

impl KernelFilter {
    /// Gives the program to the kernel, which checks it as it does for a packet socket.
    pub fn new(program: &[Insn]) -> Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (sender, receiver) = socketpair(AddressFamily::Unix, SockType::Datagram, None, flags)
            .trying(|| "make a pair of sockets")?;
        socket::attach_filter(&receiver, program)?;
        Ok(Self { sender, receiver })
    }

    /// How many of these bytes the filter lets pass; 0 is none.
    pub fn run(&self, bytes: &[u8]) -> Result<usize> {
        send(self.sender.as_raw_fd(), bytes, MsgFlags::empty()).trying(|| "send to a filter")?;
        let mut passed = [0; 1 << 16];
        match recv(self.receiver.as_raw_fd(), &mut passed, MsgFlags::MSG_DONTWAIT) {
            Err(nix::errno::Errno::EAGAIN) => Ok(0),
            got => got.trying(|| "receive from a filter"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::accept;

    #[test]
    fn a_filter_in_the_kernel_sees_a_datagram_from_its_start() {
        let insn = |code: u32, jt, jf, k| Insn { code: code as u16, jt, jf, k };
        let (load, equal) =
            (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
        let program = [insn(load, 0, 0, 2), insn(equal, 0, 1, 7), accept(4), accept(0)];
        let filter = KernelFilter::new(&program).unwrap();
        assert_eq!(filter.run(&[5, 6, 7, 8, 9]).unwrap(), 4);
        assert_eq!(filter.run(&[5, 6, 7]).unwrap(), 3);
        assert_eq!(filter.run(&[5, 6, 0, 8, 9]).unwrap(), 0);
        assert_eq!(filter.run(&[7, 7]).unwrap(), 0, "a load outside rejects");
        assert!(KernelFilter::new(&[insn(load, 0, 0, 2)]).is_err(), "the kernel checks programs");
    }
}
