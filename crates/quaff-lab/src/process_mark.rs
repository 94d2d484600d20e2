//! Finds all descendants of a run in any session by a mark in their environment, which children inherit; and those that
//! overwrite their environment with a title, as pmacctd does, by their process group.

use quaff_os::Signal;
use quaff_os::process::send;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The environment variable.
const VARIABLE: &str = "QUAFF_LAB_RUN";
/// Time limit for killed processes to end.
const GONE_MAX: Duration = Duration::from_secs(5);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// Number of marks created by this process. Any thread adds; Relaxed: only the value matters.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A mark in the environment of a process and of its descendants.
#[derive(Debug)]
pub struct ProcessMark {
    value: String,
    /// The process group of the run.
    group: Option<u32>,
}

impl ProcessMark {
    /// Adds a mark, unique within this process, to the environment of a command.
    pub fn put_on(command: &mut Command) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}.{number}", std::process::id());
        command.env(VARIABLE, &value);
        Self { value, group: None }
    }

    /// Counts members of a process group as carriers. The group's number is not reused while any member runs.
    pub fn count_group(&mut self, group: u32) {
        self.group = Some(group);
    }

    /// The running processes that carry the mark.
    pub fn carriers(&self) -> Vec<u32> {
        let wanted = format!("{VARIABLE}={}", self.value);
        let is_marked = |environ: &[u8]| environ.split(|byte| *byte == 0).any(|var| var == wanted.as_bytes());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // A process that cannot be inspected is not a descendant.
        let has_mark = |pid: u32| fs::read(format!("/proc/{pid}/environ")).is_ok_and(|text| is_marked(&text));
        pids.filter(|pid| has_mark(*pid) || self.group.is_some() && running_group(*pid) == self.group)
            .collect()
    }

    /// Kills all processes that carry the mark, including those that start in the meantime.
    pub fn kill_all(&self) {
        let begun = Instant::now();
        loop {
            let carriers = self.carriers();
            if carriers.is_empty() || begun.elapsed() > GONE_MAX {
                return;
            }
            for pid in carriers {
                // It may already have ended.
                let _ = send(pid, Signal::SIGKILL);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The process group of a process that is still running (state and pgrp in /proc/PID/stat, proc_pid_stat(5)).
fn running_group(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may contain a parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, group) = (fields.next()?, fields.nth(1)?);
    if matches!(state, "Z" | "X") { None } else { group.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn those_without_the_environment_are_found_by_their_group() {
        let mut command = Command::new("sh");
        command.args(["-c", "env -i sleep 60 & sleep 61; true"]).process_group(0);
        let mut mark = ProcessMark::put_on(&mut command);
        let mut leader = command.spawn().expect("sh runs");
        let begun = Instant::now();
        let is_seen = |mark: &ProcessMark, count: usize| {
            while mark.carriers().len() != count && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(LOOK);
            }
            mark.carriers().len() == count
        };
        // sh and the second sleep.
        assert!(is_seen(&mark, 2), "{:?}", mark.carriers());
        mark.count_group(leader.id());
        assert!(is_seen(&mark, 3), "{:?}", mark.carriers());
        mark.kill_all();
        assert!(mark.carriers().is_empty(), "one that has ended and was not waited for does not run");
        leader.wait().expect("it was killed");
    }

    #[test]
    fn those_that_left_home_are_found_and_killed() {
        let mut command = Command::new("sh");
        // In a session of its own, reparented to init.
        command.args(["-c", "setsid sh -c 'sleep 60 & sleep 61' >/dev/null 2>&1 & exit 0"]);
        let other = ProcessMark::put_on(&mut Command::new("sh"));
        let mark = ProcessMark::put_on(&mut command);
        command.status().expect("sh runs");
        let begun = Instant::now();
        while mark.carriers().len() < 2 && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(LOOK);
        }
        // Not all shells exec the last command.
        assert!(mark.carriers().len() >= 2);
        assert!(other.carriers().is_empty());
        other.kill_all();
        assert!(mark.carriers().len() >= 2);
        mark.kill_all();
        assert!(mark.carriers().is_empty());
    }
}
