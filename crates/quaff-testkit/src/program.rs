//! Programs that a test puts somewhere and then runs.
//!
//! Another process writes them. A program that the test itself writes cannot always be run: where another test of
//! the same process starts a child meanwhile, the child has a copy of the open file until its own `execve`, and
//! Linux runs no file that is open for writing (ETXTBSY, execve(2)).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A copy of the program `from` at `to`, mode 755.
///
/// # Panics
/// When it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    write_program(to, std::fs::read(from).expect("the program can be read"));
}

/// A program of these bytes at `to`, mode 755, in the place of the file or link that was there.
///
/// # Panics
/// When it cannot be written.
pub fn write_program(to: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let to = to.as_ref();
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(to).stdin(Stdio::piped());
    let mut child = install.spawn().expect("install runs");
    let sent = child.stdin.take().expect("a pipe").write_all(bytes.as_ref());
    let status = child.wait().expect("install ends");
    assert!(status.success() && sent.is_ok(), "install {}: {status}, {sent:?}", to.display());
}

#[cfg(test)]
mod tests {
    use super::write_program;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Children are started all the time; each program must run at once all the same. With `fs::write` in the place
    /// of `write_program` this fails.
    #[test]
    fn a_program_runs_while_other_threads_start_children() {
        let dir = tempfile::tempdir().expect("a folder");
        // The test's thread writes, the others read; it orders nothing, so relaxed.
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        Command::new("true").status().expect("true runs");
                    }
                });
            }
            let ran: Vec<_> = (0..200)
                .map(|number| {
                    let path = dir.path().join(format!("p{number}"));
                    write_program(&path, "#!/bin/sh\nexit 7\n");
                    Command::new(&path).status()
                })
                .collect();
            over.store(true, Ordering::Relaxed);
            for status in ran {
                assert_eq!(status.expect("it runs").code(), Some(7));
            }
        });
    }
}
