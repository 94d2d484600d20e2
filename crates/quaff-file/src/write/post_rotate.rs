//! Runs a shell command of the user for each finished file, one at a time and with low priority.
//!
//! A thread waits for the command; adding a file never blocks.

use crate::{Error, Result};
use quaff_os::process::Prepare;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Counts of commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CommandRuns {
    pub(super) count: u64,
    /// Commands that failed or could not be started.
    pub(super) failed: u64,
}

/// The thread that runs the command, and its queue.
#[derive(Debug)]
pub(super) struct PostRotate {
    files: Option<Sender<PathBuf>>,
    /// Files queued whose command has not ended.
    waiting: Arc<AtomicU64>,
    thread: Option<JoinHandle<CommandRuns>>,
}

impl PostRotate {
    /// Starts the thread. `command` is a shell command line; the file's path is its last argument.
    pub(super) fn start(command: &str) -> Result<Self> {
        let (files, finished) = channel::<PathBuf>();
        let command = command.to_owned();
        let waiting = Arc::new(AtomicU64::new(0));
        let left = waiting.clone();
        let thread = std::thread::Builder::new().name("quaff-post-rot".into()).spawn(move || {
            let mut runs = CommandRuns::default();
            while let Ok(path) = finished.recv() {
                runs.count += 1;
                let has_worked = run(&command, &path).is_ok_and(|status| status.success());
                runs.failed += u64::from(!has_worked);
                // Release: what the command did to the file is done when its number is read.
                left.fetch_sub(1, Ordering::Release);
            }
            runs
        });
        let thread = thread.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        Ok(Self { files: Some(files), waiting, thread: Some(thread) })
    }

    /// Queues a finished file.
    pub(super) fn add(&self, path: PathBuf) {
        if let Some(files) = &self.files {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            // Sending cannot fail: the thread ends only after the sender is dropped.
            let _ = files.send(path);
        }
    }

    /// Returns the number of queued files whose command has not ended: the newest ones.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Acquire)
    }

    /// Waits until the command has run for every queued file.
    pub(super) fn finish(mut self) -> CommandRuns {
        self.files = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn run(command: &str, path: &Path) -> io::Result<ExitStatus> {
    let mut shell = Command::new("/bin/sh");
    // The path is an argument and never part of the script, so no file name can inject commands.
    shell.args(["-c", &format!("{command} \"$1\""), "quaff"]).arg(path);
    // stdout may carry packets.
    let stdout = io::stderr().as_fd().try_clone_to_owned()?;
    // ^C on a terminal ends the capture, but not the command.
    shell.stdin(Stdio::null()).stdout(stdout).process_group(0);
    shell.reset_signals().lower_priority().status()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_runs_for_each_file_and_failures_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let script =
            format!("f() {{ [ -f \"$1\" ] && mv \"$1\" '{}/done-'$(nice); }}; f", dir.path().display());
        let post_rotate = PostRotate::start(&script).unwrap();
        std::fs::write(dir.path().join("a file; with $(words)"), b"x").unwrap();
        post_rotate.add(dir.path().join("a file; with $(words)"));
        post_rotate.add(dir.path().join("missing"));
        assert_eq!(post_rotate.finish(), CommandRuns { count: 2, failed: 1 });
        assert!(dir.path().join("done-19").is_file(), "at nice 19");
    }

    #[test]
    fn a_missing_command_fails() {
        let post_rotate = PostRotate::start("no-such-command-anywhere").unwrap();
        post_rotate.add("/dev/null".into());
        assert_eq!(post_rotate.finish(), CommandRuns { count: 1, failed: 1 });
    }
}
