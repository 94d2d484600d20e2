//! Permissions of this process, determined by trying or by reading /proc.

use crate::{Error, Result, Try, packet};
use io_uring::{IoUring, opcode};
use nix::sys::resource::{Resource, getrlimit};
use std::fs;
use std::io;

/// CAP_IPC_LOCK (linux/capability.h): may lock memory without limit.
const CAP_IPC_LOCK: u32 = 14;

/// CAP_SYS_NICE (linux/capability.h): may raise scheduling priority.
const CAP_SYS_NICE: u32 = 23;

/// Tries to open a packet socket, and closes it.
///
/// # Errors
/// `EPERM` without CAP_NET_RAW in the user namespace that owns the network namespace.
pub fn packet_socket() -> Result<()> {
    packet::socket::open().map(drop)
}

/// Tries an io_uring with one no-op request.
///
/// # Errors
/// `EPERM` where it is disabled (sysctl `kernel.io_uring_disabled`) or a container's seccomp filter
/// forbids it; `ENOSYS` on a kernel without it.
pub fn io_uring() -> Result<()> {
    let advise = |error: Error| match disabled() {
        Some(value) => {
            error.advise(format!("kernel.io_uring_disabled is {value}; 0 permits it to every process"))
        }
        None if error.raw() == libc::EPERM => {
            error.advise("a seccomp filter forbids it, as is usual in containers")
        }
        None => error,
    };
    let mut ring = IoUring::new(1).trying(|| "set up an io_uring").map_err(advise)?;
    // SAFETY: a NOP refers to no memory.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }
        .map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))
        .trying(|| "queue a request on an io_uring")?;
    ring.submit_and_wait(1).trying(|| "submit to an io_uring")?;
    let result = ring.completion().next().map_or(-libc::EIO, |entry| entry.result());
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result))
            .trying(|| "complete a no-op request on an io_uring");
    }
    Ok(())
}

fn disabled() -> Option<u32> {
    let value = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    value.trim().parse().ok().filter(|&value| value != 0)
}

/// Returns whether this process may raise its scheduling priority.
pub fn may_raise_priority() -> bool {
    has_capability(CAP_SYS_NICE)
}

/// Returns whether this process has the capability `number` in effect (`CapEff`, proc_pid_status(5)).
fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.is_some_and(|hex| u64::from_str_radix(hex.trim(), 16).is_ok_and(|caps| caps >> number & 1 == 1))
}

/// The limit on locked memory, bytes (RLIMIT_MEMLOCK); `None` when there is none.
pub fn memlock_bytes() -> Result<Option<u64>> {
    if has_capability(CAP_IPC_LOCK) {
        return Ok(None);
    }
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).trying(|| "read the limit on locked memory")?;
    Ok((soft != libc::RLIM_INFINITY).then_some(soft))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_limits_agree_with_proc() {
        // A process with all capabilities has CAP_IPC_LOCK; no process has number 63.
        assert!(!has_capability(63));
        let all = fs::read_to_string("/proc/self/status").unwrap().contains("CapEff:\t000001ffffffffff");
        assert!(!all || has_capability(CAP_IPC_LOCK));
        assert_eq!(memlock_bytes().unwrap().is_none(), has_capability(CAP_IPC_LOCK) || unlimited());
    }

    fn unlimited() -> bool {
        fs::read_to_string("/proc/self/limits").unwrap().lines().any(|line| {
            line.strip_prefix("Max locked memory").is_some_and(|rest| rest.trim().starts_with("unlimited"))
        })
    }

    #[test]
    fn an_io_uring_works_or_reports_why_not() {
        if let Err(error) = io_uring() {
            crate::testing::skip("an_io_uring_works_or_reports_why_not", &error.to_string());
        }
    }
}
