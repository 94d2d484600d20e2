//! Signals that are waited for: blocked in every thread and read from one signalfd(2).
//!
//! Call [`Signals::block`] before starting the first thread, so that all threads inherit the mask.
//! Blocked signals are queued even if the shell set them to be ignored, so a command that a script
//! started in the background still receives SIGINT.

use crate::wakeup::{Wakeup, timeout};
use crate::{Result, Try};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;
use std::time::Duration;

pub use nix::sys::signal::Signal;

/// Returns whether `signal` is ignored, as nohup(1) does with SIGHUP.
pub fn is_ignored(signal: Signal) -> bool {
    // SAFETY: sigaction is plain data; all zero is a valid value.
    let mut action: nix::libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with a null new action the kernel only writes the current one.
    let answer = unsafe { nix::libc::sigaction(signal as i32, std::ptr::null(), &mut action) };
    answer == 0 && action.sa_sigaction == nix::libc::SIG_IGN
}

/// Reaching a limit on the size of files (RLIMIT_FSIZE) fails one write with EFBIG in this process, instead of ending
/// it by SIGXFSZ. Programs that it starts end by the signal as before.
pub fn survive_file_limit() {
    extern "C" fn ignore(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(ignore), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing. Unlike an ignored signal, execve(2) resets one with a handler.
    // Fails for an invalid signal only.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &action) };
}

/// A signalfd for a set of blocked signals.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
}

/// A signal and its origin (`struct signalfd_siginfo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInfo {
    pub signal: Signal,
    /// `SI_KERNEL`: not sent by a process. SIGINT by the kernel is Ctrl-C, which the terminal sends to
    /// every process of its foreground group.
    pub by_kernel: bool,
}

impl Signals {
    /// Blocks `signals` in this thread and in the threads that it starts from now on.
    pub fn block(signals: &[Signal]) -> Result<Self> {
        let set: SigSet = signals.iter().copied().collect();
        set.thread_block().trying(|| "block signals")?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self { fd: SignalFd::with_flags(&set, flags).trying(|| "open a signalfd")? })
    }

    /// The next signal; `None` when none arrives within `wait`.
    pub fn next(&self, wait: Duration) -> Result<Option<SignalInfo>> {
        self.wait([PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)], wait)
    }

    /// As [`Signals::next`], or `None` as soon as `wakeup` is signalled; it is not cleared.
    pub fn next_or(&self, wakeup: &Wakeup, wait: Duration) -> Result<Option<SignalInfo>> {
        self.wait([self.fd.as_fd(), wakeup.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN)), wait)
    }

    fn wait<const N: usize>(&self, mut fds: [PollFd; N], wait: Duration) -> Result<Option<SignalInfo>> {
        match poll(&mut fds, timeout(wait)) {
            Ok(0) | Err(nix::Error::EINTR) => return Ok(None),
            Ok(_) => {}
            Err(errno) => return Err(errno).trying(|| "wait for a signal"),
        }
        let info = self.fd.read_signal().trying(|| "read a signal")?;
        Ok(info.and_then(|info| {
            let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
            Some(SignalInfo { signal, by_kernel: info.ssi_code == libc::SI_KERNEL })
        }))
    }
}
