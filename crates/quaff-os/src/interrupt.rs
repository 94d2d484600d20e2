//! Interrupts another thread's system call by a signal with an empty handler.

use crate::{Result, Try};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{Pid, getpid, gettid};

/// The signal used; no command of quaff uses it for anything else.
const SIGNAL: Signal = Signal::SIGUSR2;

/// A thread whose blocking system calls can be made to return EINTR.
#[derive(Debug, Clone, Copy)]
pub struct Interrupt {
    process: Pid,
    thread: Pid,
}

impl Interrupt {
    /// Makes the calling thread interruptible.
    pub fn here() -> Result<Self> {
        let tried = || "make a thread interruptible";
        // Without SA_RESTART the system call returns EINTR.
        let action = SigAction::new(SigHandler::Handler(ignore), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler accesses nothing, so it may run at any time.
        unsafe { sigaction(SIGNAL, &action) }.trying(tried)?;
        SigSet::from(SIGNAL).thread_unblock().trying(tried)?;
        Ok(Self { process: getpid(), thread: gettid() })
    }

    /// Interrupts the system call that the thread is in, if any. A call that it is about to make is not
    /// affected, so callers repeat this until the thread reacts. No effect when the thread has ended.
    pub fn send(&self) {
        // SAFETY: tgkill(2) takes numbers only; it fails with ESRCH for a thread that has ended.
        unsafe {
            libc::syscall(libc::SYS_tgkill, self.process.as_raw(), self.thread.as_raw(), SIGNAL as i32);
        }
    }
}

extern "C" fn ignore(_signal: i32) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_blocked_thread_returns() {
        let (sender, receiver) = mpsc::channel();
        let (mut reader, _writer) = std::io::pipe().unwrap();
        let thread = std::thread::spawn(move || {
            sender.send(Interrupt::here().unwrap()).unwrap();
            std::io::Read::read(&mut reader, &mut [0]).unwrap_err().kind()
        });
        let interrupt = receiver.recv().unwrap();
        while !thread.is_finished() {
            interrupt.send();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(thread.join().unwrap(), std::io::ErrorKind::Interrupted);
    }
}
