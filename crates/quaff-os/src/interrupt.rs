//! Ends another thread's system call early, by a signal whose handler does nothing.

use crate::{Result, Try};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{Pid, getpid, gettid};

/// The signal; free for this use in each of quaff's commands.
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
        let tried = || "prepare to be interrupted";
        // No SA_RESTART: the call has to return.
        let action = SigAction::new(SigHandler::Handler(ignore), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler touches nothing, so it may run at any moment.
        unsafe { sigaction(SIGNAL, &action) }.trying(tried)?;
        SigSet::from(SIGNAL).thread_unblock().trying(tried)?;
        Ok(Self { process: getpid(), thread: gettid() })
    }

    /// Interrupts the call that the thread is in, if any. A call that it is about to make is not
    /// affected, so this is repeated until the thread has noticed. Harmless when the thread is gone.
    pub fn send(&self) {
        // SAFETY: tgkill(2) takes numbers; for a thread that has ended it fails with ESRCH.
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
    fn a_blocked_thread_comes_back() {
        let (tell, told) = mpsc::channel();
        let (mut reader, _writer) = std::io::pipe().unwrap();
        let thread = std::thread::spawn(move || {
            tell.send(Interrupt::here().unwrap()).unwrap();
            std::io::Read::read(&mut reader, &mut [0]).unwrap_err().kind()
        });
        let interrupt = told.recv().unwrap();
        while !thread.is_finished() {
            interrupt.send();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(thread.join().unwrap(), std::io::ErrorKind::Interrupted);
    }
}
