//! Test gear of this crate and of those above: skips, noise, a filter run by the kernel, and a
//! receive ring of single frames.
//!
//! Compiled for tests only: the feature `testing` is enabled by dev-dependencies, and by `quaff-testkit`.

mod noise;
mod rx_ring_v2;

use crate::packet::{Insn, socket};
use crate::{Error, Result, Try};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

pub use noise::{Disturbance, Noise, assert_when_quiet};
pub use rx_ring_v2::{Arrival, RxRingV2};

/// Reports that `test` is skipped, on stderr and in the file `QUAFF_SKIP_LOG`, as `SKIP test: reason`. The script that
/// runs the tests counts the lines of that file.
#[allow(clippy::print_stderr, reason = "a skipped test has no other way to be reported")]
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

/// Returns whether an error means that this machine does not permit the operation, so that its test is skipped; any
/// other error fails the test.
pub fn is_refusal(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull, Unsupported};
    // ENOSPC: the limit on the number of namespaces is reached (namespaces(7)).
    matches!(error.errno.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull | Unsupported)
}

/// A classic filter that the kernel runs on any bytes.
///
/// On an AF_UNIX datagram socket a filter sees the datagram from its first byte, so the test needs neither an interface
/// nor a privilege.
#[derive(Debug)]
pub struct KernelFilter {
    sender: OwnedFd,
    receiver: OwnedFd,
}

impl KernelFilter {
    /// Attaches the program, which the kernel checks as for a packet socket.
    pub fn new(program: &[Insn]) -> Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (sender, receiver) = socketpair(AddressFamily::Unix, SockType::Datagram, None, flags)
            .trying(|| "create a socket pair")?;
        socket::attach_filter(&receiver, program)?;
        Ok(Self { sender, receiver })
    }

    /// Returns the number of bytes that the filter accepts; 0 is none.
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
