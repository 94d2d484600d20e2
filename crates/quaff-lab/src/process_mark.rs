//! Finds all descendants of a run, in any session, by a mark in their environment, which children inherit.

use quaff_os::Signal;
use quaff_os::process::send;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The environment variable.
const VARIABLE: &str = "QUAFF_LAB_RUN";
/// Time limit for killed processes to disappear.
const GONE_MAX: Duration = Duration::from_secs(5);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// Number of marks of this process. Any thread adds; Relaxed: only the value matters.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A mark in the environment of a process and of its descendants.
#[derive(Debug)]
pub struct ProcessMark {
    value: String,
}

impl ProcessMark {
    /// Adds a mark that no other process of this run has to the environment of a command.
    pub fn put_on(command: &mut Command) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}.{number}", std::process::id());
        command.env(VARIABLE, &value);
        Self { value }
    }

    /// The running processes that carry the mark.
    pub fn carriers(&self) -> Vec<u32> {
        let wanted = format!("{VARIABLE}={}", self.value);
        let is_marked = |environ: &[u8]| environ.split(|byte| *byte == 0).any(|var| var == wanted.as_bytes());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // A process that cannot be inspected is not a descendant.
        pids.filter(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| is_marked(&environ)))
            .collect()
    }

    /// Kills all processes that carry the mark, including those that start meanwhile.
    pub fn kill_all(&self) {
        let begun = Instant::now();
        loop {
            let carriers = self.carriers();
            if carriers.is_empty() || begun.elapsed() > GONE_MAX {
                return;
            }
            for pid in carriers {
                // It may have ended by itself.
                let _ = send(pid, Signal::SIGKILL);
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_left_home_are_found_and_killed() {
        let mut command = Command::new("sh");
        // In a session of its own, and no child of anybody's.
        command.args(["-c", "setsid sh -c 'sleep 60 & sleep 61' >/dev/null 2>&1 & exit 0"]);
        let other = ProcessMark::put_on(&mut Command::new("sh"));
        let mark = ProcessMark::put_on(&mut command);
        command.status().expect("sh runs");
        let begun = Instant::now();
        while mark.carriers().len() < 2 && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(LOOK);
        }
        // Shells differ in whether they stay for the last command.
        assert!(mark.carriers().len() >= 2);
        assert!(other.carriers().is_empty());
        other.kill_all();
        assert!(mark.carriers().len() >= 2);
        mark.kill_all();
        assert!(mark.carriers().is_empty());
    }
}
