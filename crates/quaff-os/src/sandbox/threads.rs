//! Makes each thread of this process restrict itself.
//!
//! Credentials and Landlock domains belong to a thread and cannot be set for another one. A signal's handler runs in
//! the thread that gets the signal, so a handler that makes system calls only can do it there, whatever the thread is
//! doing; glibc does the same for setuid(2). A system call that the signal interrupts is restarted, or returns EINTR
//! where it always may.

use super::capabilities;
use crate::{Error, Result, Try};
use nix::errno::Errno;
use nix::unistd::{getpid, gettid};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time in which a thread must answer: one that waits for a disk cannot before the disk does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_micros(50);

/// The work of each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    step: i32,
    /// The capabilities that stay, a bit for each number.
    keep: u64,
    /// The descriptor of a Landlock ruleset; -1 without one.
    ruleset: i32,
}

const PREPARE: i32 = 1;
const CONFINE: i32 = 2;

impl Order {
    /// Empties the sets that execve(2) uses, while CAP_SETPCAP is there, and keeps the others through a change of
    /// user.
    pub(super) const PREPARE: Self = Self { step: PREPARE, keep: 0, ruleset: -1 };

    /// Drops all capabilities but `keep`, forbids new privileges, and applies the ruleset.
    pub(super) fn confine(keep: u64, ruleset: Option<&OwnedFd>) -> Self {
        Self { step: CONFINE, keep, ruleset: ruleset.map_or(-1, AsRawFd::as_raw_fd) }
    }

    /// Restricts the calling thread. Async-signal-safe.
    fn run(self) -> io::Result<()> {
        if self.step == PREPARE {
            capabilities::drop_for_exec();
            capabilities::keep_across_setuid(true);
            return Ok(());
        }
        capabilities::keep_only(self.keep)?;
        capabilities::keep_across_setuid(false);
        // SAFETY: takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if self.ruleset < 0 {
            return Ok(());
        }
        // SAFETY: takes numbers only; the descriptor is open as long as the order is carried out.
        match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.ruleset, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn post(self) {
        KEEP.store(self.keep, Ordering::Relaxed);
        RULESET.store(self.ruleset, Ordering::Relaxed);
        STEP.store(self.step, Ordering::Release);
    }

    fn posted() -> Self {
        let step = STEP.load(Ordering::Acquire);
        Self { step, keep: KEEP.load(Ordering::Relaxed), ruleset: RULESET.load(Ordering::Relaxed) }
    }
}

/// The order: written by the thread in [`in_all`] before it sends a signal, read by the handlers. Release and Acquire
/// on `STEP` make the other two visible.
static STEP: AtomicI32 = AtomicI32::new(0);
static KEEP: AtomicU64 = AtomicU64::new(0);
static RULESET: AtomicI32 = AtomicI32::new(-1);
/// The errno of the thread in `ANSWERED`, or 0. Written by a handler, read by [`in_all`]; Release and Acquire on
/// `ANSWERED` make it visible.
static ERRNO: AtomicI32 = AtomicI32::new(0);
/// The thread that carried out the order last.
static ANSWERED: AtomicI32 = AtomicI32::new(0);

extern "C" fn obey(_signal: i32) {
    let interrupted = Errno::last_raw();
    let errno = Order::posted().run().map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
    ERRNO.store(errno, Ordering::Relaxed);
    ANSWERED.store(gettid().as_raw(), Ordering::Release);
    Errno::set_raw(interrupted);
}

/// The signal: nothing else here uses a real-time one, and glibc keeps the first ones to itself.
fn signal() -> i32 {
    libc::SIGRTMIN() + 3
}

/// Makes all threads carry out `order`, the calling one last.
pub(super) fn in_all(order: Order) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    listen()?;
    order.post();
    let mut done = vec![gettid().as_raw()];
    // A thread that has not received the signal yet may start others: repeat until no new one is found.
    loop {
        let left: Vec<_> = ids()?.into_iter().filter(|thread| !done.contains(thread)).collect();
        if left.is_empty() {
            return order.run().trying(|| "restrict a thread").map_err(advise);
        }
        for thread in left {
            ask(thread)?;
            done.push(thread);
        }
    }
}

fn advise(error: Error) -> Error {
    error.advise("use `no-sandbox` if this machine cannot do it")
}

/// Installs the handler.
fn listen() -> Result<()> {
    // SAFETY: sigaction is plain data; all zero is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = obey as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler makes system calls and uses atomics only, and restores errno.
    match unsafe { libc::sigaction(signal(), &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(Error::last("install a signal handler")),
    }
}

/// The threads of this process, but for the kernel's workers of an io_uring, which get no signals. They have the
/// credentials of the thread for which they work, from the time of their start.
pub(super) fn ids() -> Result<Vec<i32>> {
    let entries = fs::read_dir("/proc/self/task").trying(|| "read /proc/self/task")?;
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(ids.filter(|thread| !is_worker(*thread)).collect())
}

fn is_worker(thread: i32) -> bool {
    name(thread).is_some_and(|name| name.starts_with("iou-"))
}

/// `None` for a thread that has ended.
fn name(thread: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/self/task/{thread}/comm")).ok().map(|name| name.trim().to_owned())
}

/// Sends the signal to a thread and waits for its answer, or its end.
fn ask(thread: i32) -> Result<()> {
    ANSWERED.store(0, Ordering::Relaxed);
    let until = Instant::now() + ANSWER_TIMEOUT;
    let mut is_there = send(thread, signal());
    while is_there {
        if ANSWERED.load(Ordering::Acquire) == thread {
            return match ERRNO.load(Ordering::Relaxed) {
                0 => Ok(()),
                errno => {
                    let tried = format!("restrict the thread {}", name(thread).unwrap_or_default());
                    Err(advise(Error::new(tried, io::Error::from_raw_os_error(errno))))
                }
            };
        }
        if Instant::now() > until {
            let tried = format!("restrict the thread {}", name(thread).unwrap_or_default());
            return Err(Error::new(tried, io::ErrorKind::TimedOut)
                .advise("it waits for something that does not answer, such as a disk"));
        }
        std::thread::sleep(LOOK);
        // A worker that starts has another name at first.
        is_there = send(thread, 0) && !is_worker(thread);
    }
    Ok(())
}

/// Returns whether the thread exists.
fn send(thread: i32, signal: i32) -> bool {
    // SAFETY: tgkill(2) takes numbers only; it fails with ESRCH for a thread that has ended.
    unsafe { libc::syscall(libc::SYS_tgkill, getpid().as_raw(), thread, signal) == 0 }
}

/// Checks that all threads have the capabilities `keep` and no others, and can get no new ones.
///
/// # Errors
/// A thread has more: a defect.
pub(super) fn check(keep: u64) -> Result<()> {
    for thread in ids()? {
        let Ok(status) = fs::read_to_string(format!("/proc/self/task/{thread}/status")) else { continue };
        let set = |name: &str| field(&status, name).and_then(|set| u64::from_str_radix(set, 16).ok());
        let is_left = ["CapEff", "CapPrm", "CapInh", "CapAmb"]
            .iter()
            .any(|name| set(name).is_none_or(|set| set & !keep != 0));
        if is_left || field(&status, "NoNewPrivs") != Some("1") {
            let tried = format!("restrict the thread {}", name(thread).unwrap_or_default());
            return Err(Error::new(tried, io::Error::other("it still has privileges; a defect of quaff")));
        }
    }
    Ok(())
}

/// A field of proc_pid_status(5).
pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
