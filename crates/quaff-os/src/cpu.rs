//! Cores and scheduling: pin a thread, ask for real-time priority, read what a thread has used.

use crate::{Error, Result, Try};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Pins the calling thread to one core.
pub fn pin(core: usize) -> Result<()> {
    let advice = || format!("cores here are 0 to {}", cores().saturating_sub(1));
    let tried = || format!("pin a thread to core {core}");
    let mut set = CpuSet::new();
    set.set(core).trying(tried).map_err(|error| error.advise(advice()))?;
    sched_setaffinity(Pid::from_raw(0), &set).trying(tried).map_err(|error| error.advise(advice()))
}

/// How many cores the machine has on line.
pub fn cores() -> usize {
    // SAFETY: sysconf reads a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// The cores that the calling thread may run on, in order.
pub fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).trying(|| "ask which cores there are")?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
}

/// Gives the calling thread SCHED_FIFO at `priority` (1 to 99). Needs CAP_SYS_NICE.
pub fn real_time(priority: i32) -> Result<()> {
    // SAFETY: sched_param is plain data; all zero is a valid value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: 0 is the calling thread, and the kernel only reads `param`.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(Error::last(format!("take real-time priority {priority}"))
            .advise("give CAP_SYS_NICE, or raise 'ulimit -r'")),
    }
}

/// Has the calling thread go before others (nice -10), where that is permitted (CAP_SYS_NICE).
pub fn step_forward() {
    // SAFETY: 0 is the calling thread (setpriority(2), "C library/kernel differences"); a refusal
    // leaves the priority as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Keeps the calling thread off `cores` where it may run on other ones.
pub fn keep_off(cores: &[usize]) {
    let Ok(mut set) = sched_getaffinity(Pid::from_raw(0)) else { return };
    for core in cores {
        let _ = set.unset(*core);
    }
    // An empty set is refused: then there are no other cores.
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}

/// User and system time of this process so far, ns.
pub fn process_ns() -> (u64, u64) {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    let ns =
        |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000_000 + time.tv_usec() as u64 * 1000;
    usage.map_or((0, 0), |usage| (ns(usage.user_time()), ns(usage.system_time())))
}
