//! The owner of a lab that stays up: the process that called `quaff lab up`, such as a shell. It is known by its number
//! and its start, because numbers are used again.

use quaff_os::{ProcessStat, ancestors};
use serde::{Deserialize, Serialize};

/// Programs that run a command for another process and end with it.
const RUNNERS: [&str; 8] = ["sudo", "su", "doas", "env", "time", "timeout", "nice", "unshare"];

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Its start, clock ticks after boot.
    start: u64,
}

impl Owner {
    /// The process that called this program. `None` where that is the first process, which takes over those whose
    /// caller has ended.
    pub(crate) fn caller() -> Option<Self> {
        let caller = ancestors().find(|parent| !RUNNERS.contains(&parent.name.as_str()))?;
        (caller.pid > 1).then_some(Self { pid: caller.pid, start: caller.start })
    }

    /// Another process than those that have called this program, and it still runs.
    pub(crate) fn is_other(&self) -> bool {
        let is_running = ProcessStat::read(self.pid).is_some_and(|stat| stat.start == self.start);
        is_running && !ancestors().any(|parent| parent.pid == self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_no_others_and_neither_is_a_process_that_has_ended() {
        assert!(Owner::caller().is_none_or(|caller| !caller.is_other()));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let start = ProcessStat::read(child.id()).expect("it runs").start;
        let owner = Owner { pid: child.id(), start };
        assert!(owner.is_other() && !Owner { start: owner.start + 1, ..owner.clone() }.is_other());
        child.kill().expect("ours");
        child.wait().expect("ended");
        assert!(!owner.is_other());
    }
}
