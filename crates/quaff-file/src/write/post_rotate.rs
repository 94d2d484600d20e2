//! What is to be done with each finished file: a command of the user's, one file at a time, behind
//! everything else on the machine. Whoever finishes files only puts their names on a list.

use crate::tally::Runs;
use crate::{Error, Result};
use quaff_os::process::{lower_priority, reset_signals};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Runs a command after each finished file.
#[derive(Debug)]
pub(super) struct After {
    files: Option<Sender<PathBuf>>,
    thread: Option<JoinHandle<Runs>>,
}

impl After {
    /// Will run `command`, in the shell's language, with the file's path as its last argument.
    pub(super) fn start(command: &str) -> Result<Self> {
        let (files, finished) = channel::<PathBuf>();
        let command = command.to_owned();
        let thread = std::thread::Builder::new().name("quaff-after".into()).spawn(move || {
            let mut runs = Runs::default();
            while let Ok(path) = finished.recv() {
                runs.count += 1;
                let has_worked = run(&command, &path).is_ok_and(|status| status.success());
                runs.failed += u64::from(!has_worked);
            }
            runs
        });
        let thread = thread.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        Ok(Self { files: Some(files), thread: Some(thread) })
    }

    /// Puts a finished file on the list.
    pub(super) fn add(&self, path: PathBuf) {
        if let Some(files) = &self.files {
            // It is received as long as the thread lives, and that ends with us.
            let _ = files.send(path);
        }
    }

    /// Waits until the list is done.
    pub(super) fn finish(mut self) -> Runs {
        self.files = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn run(command: &str, path: &Path) -> io::Result<ExitStatus> {
    let mut shell = Command::new("/bin/sh");
    // The path is an argument, never a part of the script: its name cannot be one.
    shell.args(["-c", &format!("{command} \"$1\""), "quaff"]).arg(path);
    // Our stdout may be full of packets.
    let stdout = io::stderr().as_fd().try_clone_to_owned()?;
    // ^C on a terminal ends the capture; what is done with its files goes on.
    shell.stdin(Stdio::null()).stdout(stdout).process_group(0);
    reset_signals(&mut shell);
    lower_priority(&mut shell);
    shell.status()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_turn_and_failures_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let script =
            format!("f() {{ [ -f \"$1\" ] && mv \"$1\" '{}/done-'$(nice); }}; f", dir.path().display());
        let after = After::start(&script).unwrap();
        std::fs::write(dir.path().join("a file; with $(words)"), b"x").unwrap();
        after.add(dir.path().join("a file; with $(words)"));
        after.add(dir.path().join("not there"));
        assert_eq!(after.finish(), Runs { count: 2, failed: 1 });
        assert!(dir.path().join("done-19").is_file(), "at nice 19");
    }

    #[test]
    fn a_command_that_is_not_there_fails() {
        let after = After::start("no-such-command-anywhere").unwrap();
        after.add("/dev/null".into());
        assert_eq!(after.finish(), Runs { count: 1, failed: 1 });
    }
}
