//! Runs a shell command of the user (`--exec`) for each finished file, one at a time and with low priority.
//!
//! A shell that starts with the folder runs the commands: once packets flow, this process can start no other and has
//! no rights that a command may need. It gets a name at a time and answers with the exit status. A thread waits for
//! that; adding a file never blocks.

use crate::{Error, Result};
use quaff_os::process::Prepare;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Reads one name per line and answers with the exit status of the command, `$1`, for that file of the folder `$2`. A
/// name cannot lead to another folder. The file's path is an argument of the command and never part of the script, so
/// no name can inject commands.
const SCRIPT: &str = r#"
while IFS= read -r name; do
    case $name in
        */*) status=126 ;;
        *) /bin/sh -c "$1 \"\$1\"" quaff "$2$name" </dev/null >&2; status=$? ;;
    esac
    echo "$status"
done"#;

/// Counts of commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CommandRuns {
    pub(super) count: u64,
    /// Commands that failed or could not be started.
    pub(super) failed: u64,
}

/// The thread that waits for commands, and its queue.
#[derive(Debug)]
pub(super) struct PostRotate {
    files: Option<Sender<PathBuf>>,
    /// Files queued whose command has not ended.
    waiting: Arc<AtomicU64>,
    thread: Option<JoinHandle<CommandRuns>>,
}

impl PostRotate {
    /// Starts a shell and the thread. `command` is a shell command line; the path of a file in `dir` is its last
    /// argument.
    pub(super) fn start(command: &str, dir: &Path) -> Result<Self> {
        let (files, finished) = channel::<PathBuf>();
        let shell = Shell::start(command, dir);
        let mut shell = shell
            .map_err(|errno| Error::Os(quaff_os::Error::new("start /bin/sh for finished files", errno)))?;
        let waiting = Arc::new(AtomicU64::new(0));
        let left = waiting.clone();
        let thread = quaff_os::spawn("quaff-post-rot", move || {
            let mut runs = CommandRuns::default();
            while let Ok(path) = finished.recv() {
                runs.count += 1;
                runs.failed += u64::from(!shell.run(&path).unwrap_or(false));
                // Release: what the command did to the file is done when its number is read.
                left.fetch_sub(1, Ordering::Release);
            }
            shell.finish();
            runs
        })?;
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

/// A shell that waits for names of files.
#[derive(Debug)]
struct Shell {
    child: Child,
    names: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Shell {
    fn start(command: &str, dir: &Path) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        // With an empty last component it ends in a slash.
        let folder: OsString = dir.join("").into();
        shell.args(["-c", SCRIPT, "quaff", command]).arg(folder);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        // ^C on a terminal ends the capture, but not the command. stdout may carry packets, so that of the command is
        // stderr.
        shell.process_group(0).reset_signals().lower_priority().leave_privileges();
        let mut child = shell.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(names), Some(answers)) = pipes else { return Err(io::ErrorKind::BrokenPipe.into()) };
        Ok(Self { child, names, answers: BufReader::new(answers) })
    }

    /// Runs the command for a file and waits; returns whether it succeeded.
    fn run(&mut self, path: &Path) -> io::Result<bool> {
        let name = path.file_name().unwrap_or_default().as_bytes();
        if name.is_empty() || name.contains(&b'\n') {
            return Ok(false);
        }
        self.names.write_all(&[name, b"\n"].concat())?;
        let mut status = String::new();
        self.answers.read_line(&mut status)?;
        Ok(status.trim_end() == "0")
    }

    fn finish(self) {
        let Self { mut child, names, .. } = self;
        drop(names);
        // It ends at the end of its input.
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_runs_for_each_file_and_failures_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let script =
            format!("f() {{ [ -f \"$1\" ] && mv \"$1\" '{}/done-'$(nice); }}; f", dir.path().display());
        let post_rotate = PostRotate::start(&script, dir.path()).unwrap();
        std::fs::write(dir.path().join("a file; with $(words)"), b"x").unwrap();
        post_rotate.add(dir.path().join("a file; with $(words)"));
        post_rotate.add(dir.path().join("missing"));
        assert_eq!(post_rotate.finish(), CommandRuns { count: 2, failed: 1 });
        assert!(dir.path().join("done-19").is_file(), "at nice 19");
    }

    #[test]
    fn a_missing_command_fails() {
        let post_rotate = PostRotate::start("no-such-command-anywhere", Path::new("/dev")).unwrap();
        post_rotate.add("/dev/null".into());
        assert_eq!(post_rotate.finish(), CommandRuns { count: 1, failed: 1 });
    }

    #[test]
    fn a_path_is_the_one_that_the_user_gave_and_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let (given, list) = (dir.path().join("a folder"), dir.path().join("list"));
        std::fs::create_dir(&given).unwrap();
        let script = format!("f() {{ echo \"$#$1\" >>'{}'; }}; f", list.display());
        let mut shell = Shell::start(&script, &given).unwrap();
        for name in ["b", " c\\ ", "--help"] {
            assert!(shell.run(&given.join(name)).unwrap(), "{name}");
        }
        assert!(!shell.run(Path::new("two\nlines")).unwrap());
        // As an intruder in this process would.
        shell.names.write_all(b"../list\n").unwrap();
        let mut status = String::new();
        shell.answers.read_line(&mut status).unwrap();
        assert_eq!(status, "126\n");
        shell.finish();
        let expected = ["b", " c\\ ", "--help"].map(|name| format!("1{}\n", given.join(name).display()));
        assert_eq!(std::fs::read_to_string(list).unwrap(), expected.concat());
    }

    #[test]
    fn a_command_can_read_nothing_and_speaks_on_stderr() {
        let dir = tempfile::tempdir().unwrap();
        // It would wait for a name, or take it, and the answer would not be a status.
        let mut shell =
            Shell::start("f() { read -r line; echo 7; test -z \"$line\"; }; f", dir.path()).unwrap();
        assert!(shell.run(&dir.path().join("a")).unwrap() && shell.run(&dir.path().join("b")).unwrap());
        shell.finish();
    }
}
