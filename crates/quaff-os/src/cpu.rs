//! Cores and scheduling of the calling thread: affinity and priority.

use crate::{Error, Result, Try};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// Pins the calling thread to one core.
pub fn pin(core: usize) -> Result<()> {
    let advice = || format!("this machine has cores 0 to {}", cores().saturating_sub(1));
    let tried = || format!("pin a thread to core {core}");
    set_affinity(&[core]).trying(tried).map_err(|error| error.advise(advice()))
}

/// Restricts the calling thread to `cores`; an empty list changes nothing.
pub fn allow(cores: &[usize]) -> Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let list = || cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let mut set = CpuSet::new();
    let added = cores.iter().try_for_each(|core| set.set(*core));
    let advice = || format!("this machine has cores 0 to {}", self::cores().saturating_sub(1));
    let done = added.and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    done.trying(|| format!("put a thread on core {}", list())).map_err(|error| error.advise(advice()))
}

/// Restricts the calling thread to `cores`, without allocation.
pub(crate) fn set_affinity(cores: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().try_for_each(|core| set.set(*core))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// The number of cores online.
pub fn cores() -> usize {
    // SAFETY: sysconf takes and returns numbers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// The cores that the calling thread may run on, ascending.
pub fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).trying(|| "read the affinity of the calling thread")?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
}

/// The core numbers in a file of /sys or /proc; `None` if it cannot be read.
pub fn read_list(path: &Path) -> Option<Vec<usize>> {
    fs::read_to_string(path).ok().map(|text| list(&text))
}

/// Parses a list in the kernel's format, such as `0-3,8`; ignores invalid parts.
pub fn list(text: &str) -> Vec<usize> {
    /// Limit on core numbers, against damaged lists.
    const CORES_MAX: usize = 1 << 14;
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            numbers.extend(first..=last.min(CORES_MAX));
        }
    }
    numbers
}

/// Parses a mask in the kernel's format, such as `00000003,00000000`: 32 cores a word, the highest first.
pub(crate) fn mask(text: &str) -> Vec<usize> {
    let words = text.trim().split(',').rev().map(|word| u32::from_str_radix(word.trim(), 16).unwrap_or(0));
    let cores = words
        .enumerate()
        .flat_map(|(at, word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 32 * at + bit));
    cores.collect()
}

/// Sets SCHED_FIFO at `priority` (1 to 99) for the calling thread. Needs CAP_SYS_NICE.
pub fn real_time(priority: i32) -> Result<()> {
    // SAFETY: sched_param is plain data; all zero is a valid value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: 0 is the calling thread, and the kernel only reads `param`.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(Error::last(format!("set real-time priority {priority}"))
            .advise("grant CAP_SYS_NICE, or raise 'ulimit -r'")),
    }
}

/// Raises the priority of the calling thread (nice -10), where permitted (CAP_SYS_NICE).
pub fn raise_priority() {
    // SAFETY: 0 is the calling thread (setpriority(2), "C library/kernel differences"); a refusal
    // leaves the priority as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Makes the calling thread run only while its core is idle otherwise (SCHED_IDLE), permanently: leaving that policy
/// needs CAP_SYS_NICE or a high RLIMIT_NICE.
pub fn idle_priority() {
    // SAFETY: sched_param is plain data; all zero is a valid value, and the one that the policy requires.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread, and the kernel only reads `param`. After a refusal the thread keeps its policy.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) };
}
