//! Child processes: how a command starts, which core and signals it gets, and how it ends.

use crate::{Result, Try, cpu, sandbox};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::unistd::{Pid, close, getpgrp, tcgetpgrp};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// CPU time and memory of a process, its threads and the children that it waited for (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// Peak resident memory, bytes; includes the peak of the parent before the fork.
    pub memory_bytes_max: u64,
}

/// The preparation of a command, between fork(2) and execve(2).
pub trait Prepare {
    /// No signal is blocked, and SIGINT, SIGTERM and SIGHUP have their default action.
    ///
    /// The command would inherit both otherwise: the mask of a caller that reads its signals from a
    /// [`Signals`](crate::signal::Signals), and an ignored SIGINT of a shell that started the caller in the
    /// background.
    fn reset_signals(&mut self) -> &mut Self;

    /// The kernel sends it `signal` when the thread that starts it ends (`PR_SET_PDEATHSIG`, prctl(2)).
    fn signal_on_parent_death(&mut self, signal: Signal) -> &mut Self;

    /// It runs on one core, and so do the processes that it starts (sched_setaffinity(2)).
    fn pin(&mut self, core: usize) -> &mut Self;

    /// As [`pin`](Self::pin), on any of several cores.
    fn pin_to(&mut self, cores: Vec<usize>) -> &mut Self;

    /// It has the lowest priority (nice 19, setpriority(2)).
    fn lower_priority(&mut self) -> &mut Self;

    /// It runs as the user whose file rights the calling thread has
    /// ([`User::use_files`](crate::sandbox::User::use_files)), and gets none of the capabilities that a service manager
    /// gave this process (the ambient ones).
    fn leave_privileges(&mut self) -> &mut Self;
}

impl Prepare for Command {
    fn reset_signals(&mut self) -> &mut Self {
        let reset = || {
            // SAFETY: writes a local set, and changes only this process's mask and dispositions.
            unsafe {
                let mut none: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
            }
            Ok(())
        };
        // SAFETY: `reset` runs between fork and exec and only makes system calls: no allocation, no lock.
        unsafe { self.pre_exec(reset) }
    }

    fn signal_on_parent_death(&mut self, signal: Signal) -> &mut Self {
        let parent = std::process::id();
        let set = move || {
            // SAFETY: system calls on plain numbers.
            unsafe {
                if libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) < 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have ended before the prctl.
                if libc::getppid() != parent as libc::pid_t {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            Ok(())
        };
        // SAFETY: as in `reset_signals`: only system calls.
        unsafe { self.pre_exec(set) }
    }

    fn pin(&mut self, core: usize) -> &mut Self {
        // SAFETY: as in `reset_signals`: the closure only makes a system call, on a set on its stack.
        unsafe { self.pre_exec(move || Ok(cpu::set_affinity(&[core])?)) }
    }

    fn pin_to(&mut self, cores: Vec<usize>) -> &mut Self {
        // SAFETY: as in `pin`; the list was allocated before the fork.
        unsafe { self.pre_exec(move || Ok(cpu::set_affinity(&cores)?)) }
    }

    fn lower_priority(&mut self) -> &mut Self {
        let lower = || {
            // SAFETY: takes numbers only; 0 is the calling process. Raising niceness needs no privilege.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
            Ok(())
        };
        // SAFETY: as in `reset_signals`: only system calls.
        unsafe { self.pre_exec(lower) }
    }

    fn leave_privileges(&mut self) -> &mut Self {
        let leave = || {
            sandbox::clear_ambient();
            sandbox::become_owner_of_files()
        };
        // SAFETY: as in `reset_signals`: only system calls.
        unsafe { self.pre_exec(leave) }
    }
}

/// Names this process, as ps(1) and top(1) show it, by the first 15 bytes of `name`. Call it on the main thread.
pub fn set_name(name: &str) {
    if let Ok(name) = CString::new(name) {
        // prctl(2) takes any text.
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Raises the limit of open files of this process to what it may have (setrlimit(2), RLIMIT_NOFILE).
pub fn raise_open_files() -> Result<()> {
    let tried = || "raise the limit of open files";
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).trying(tried)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).trying(tried)
}

/// Reaps a child: its exit status and resource usage, or `None` while it runs (wait4(2)). The process ID
/// is invalid afterwards.
///
/// # Errors
/// `ECHILD` when it is not a child of this process, or was reaped before.
pub fn reap(pid: u32) -> Result<Option<(ExitStatus, Usage)>> {
    let tried = || format!("wait for process {pid}");
    let wanted = match i32::try_from(pid) {
        Ok(pid @ 1..) => pid,
        _ => return Err(nix::Error::ECHILD).trying(tried),
    };
    let mut status = 0;
    // SAFETY: rusage is plain data; all zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one int and one `struct rusage`, both local.
    match unsafe { libc::wait4(wanted, &mut status, libc::WNOHANG, &mut usage) } {
        0 => Ok(None),
        found if found == wanted => {
            let time = |time: libc::timeval| {
                Duration::from_secs(time.tv_sec.unsigned_abs())
                    + Duration::from_micros(time.tv_usec.unsigned_abs())
            };
            let usage = Usage {
                user: time(usage.ru_utime),
                system: time(usage.ru_stime),
                // ru_maxrss is in KiB.
                memory_bytes_max: usage.ru_maxrss as u64 * 1024,
            };
            Ok(Some((ExitStatus::from_raw(status), usage)))
        }
        _ => Err(io::Error::last_os_error()).trying(tried),
    }
}

/// Sends `signal` to process `pid`.
///
/// # Errors
/// `ESRCH` when there is no such process; `EPERM` when it belongs to another user.
pub fn send(pid: u32, signal: Signal) -> Result<()> {
    let tried = || format!("send {signal} to process {pid}");
    kill(one_pid(pid).trying(tried)?, signal).trying(tried)
}

/// Stops this process, as ^Z does, until it is continued. A confined process may do it too (tgkill(2)).
pub fn stop_self() -> Result<()> {
    raise(Signal::SIGSTOP).trying(|| "stop this process".to_owned())
}

/// Sends `signal` to every process of the group that `leader` leads, as a terminal does.
///
/// # Errors
/// `ESRCH` when there is no such group; `EPERM` when all its processes belong to other users.
pub fn send_to_group(leader: u32, signal: Signal) -> Result<()> {
    let tried = || format!("send {signal} to process group {leader}");
    killpg(one_pid(leader).trying(tried)?, signal).trying(tried)
}

/// Refuses 0, 1 and negative numbers, which kill(2) takes for many processes.
fn one_pid(pid: u32) -> nix::Result<Pid> {
    i32::try_from(pid).ok().filter(|&pid| pid > 1).map(Pid::from_raw).ok_or(nix::Error::ESRCH)
}

/// Closes stdout and stderr; for a process that is about to exit.
pub fn close_output() {
    // An error means that they were closed before.
    let _ = close(1);
    let _ = close(2);
}

/// Returns whether this process is in the foreground of a terminal, where Ctrl-C reaches it and the other
/// processes of its group.
pub fn in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|tty| tcgetpgrp(&tty).is_ok_and(|group| group == getpgrp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Signals;
    use std::time::Duration;

    #[test]
    fn a_command_receives_signals_that_its_parent_blocks() {
        let signals = Signals::block(&[Signal::SIGTERM]).expect("blocked in this thread");
        let mut command = Command::new("sleep");
        command.arg("60").reset_signals().signal_on_parent_death(Signal::SIGKILL);
        let mut child = command.spawn().expect("sleep runs");
        send(child.id(), Signal::SIGTERM).expect("sent");
        let status = child.wait().expect("it ends");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
        assert_eq!(signals.next(Duration::ZERO).expect("asked"), None);
    }

    #[test]
    fn a_command_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("60").signal_on_parent_death(Signal::SIGKILL);
            command.spawn().expect("sleep runs")
        };
        let mut child = std::thread::spawn(start).join().expect("started");
        let status = child.wait().expect("it ends");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    }

    #[test]
    fn a_pinned_command_stays_on_its_core() {
        let core = crate::cpu::allowed().expect("asked").pop().expect("one at least");
        let mut command = Command::new("cat");
        let output = command.arg("/proc/self/status").pin(core).output().expect("cat runs");
        let status = String::from_utf8_lossy(&output.stdout).into_owned();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(list.map(str::trim), Some(core.to_string().as_str()));
    }

    #[test]
    fn a_child_is_reaped_once_with_its_usage() {
        let mut command = Command::new("sh");
        let child = command.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 7"]);
        let pid = child.spawn().expect("sh runs").id();
        let (status, usage) = loop {
            match reap(pid).expect("our child") {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!(status.code(), Some(7));
        assert!(usage.user > Duration::from_millis(1), "{usage:?}");
        assert_eq!(reap(pid).expect_err("it is gone").raw(), libc::ECHILD);
    }

    #[test]
    fn a_signal_never_goes_to_many_processes() {
        for pid in [0, 1, u32::MAX, i32::MAX as u32] {
            assert_eq!(send(pid, Signal::SIGCONT).expect_err("refused").raw(), libc::ESRCH);
            assert_eq!(send_to_group(pid, Signal::SIGCONT).expect_err("refused").raw(), libc::ESRCH);
        }
    }
}
