//! A command that runs beside us and that cannot outlive us: killed when this is dropped, and when
//! the thread that started it ends.

use crate::{Error, Result};
use quaff_os::Try;
use quaff_os::process::{Usage, end_with_parent, own_signals, reap, send};
use quaff_os::signal::Signal;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A command that runs, with all that it writes collected.
#[derive(Debug)]
pub struct Running {
    tried: String,
    child: Child,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<String>,
    heard: String,
    /// Once it has ended; from then on its process id may be another's.
    ended: Option<(ExitStatus, Usage)>,
}

/// How a command ended, and what it wrote.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// The CPU time that it has used.
    pub usage: Usage,
    /// All that it wrote to stdout.
    pub stdout: Vec<u8>,
    /// All that it wrote to stderr.
    pub stderr: String,
}

impl Running {
    /// Starts `command` with stdin empty, and stdout and stderr collected.
    pub fn start(mut command: Command) -> Result<Self> {
        let tried = format!("run {}", command.get_program().display());
        own_signals(&mut command);
        end_with_parent(&mut command, Signal::SIGKILL);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().trying(|| tried.as_str())?;
        let stdout = collect(child.stdout.take(), |mut from, to| {
            let mut bytes = Vec::new();
            // A pipe that breaks ends what there is to collect.
            let _ = from.read_to_end(&mut bytes);
            let _ = to.send(bytes);
        });
        let stderr = collect(child.stderr.take(), |from, to| {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let _ = to.send(String::from_utf8_lossy(&line).into_owned());
                line.clear();
            }
        });
        Ok(Self { tried, child, stdout, stderr, heard: String::new(), ended: None })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a line on stderr holds `text`, at most `wait`; returns whether it came.
    pub fn hears(&mut self, text: &str, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        loop {
            if self.heard.lines().any(|line| line.contains(text)) {
                return true;
            }
            match self.stderr.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.heard.push_str(&line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// What was heard on stderr so far.
    pub fn heard(&self) -> &str {
        &self.heard
    }

    /// Sends it a signal; nobody gets one when it was seen to have [ended](Self::has_ended).
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match self.ended {
            None => Ok(send(self.child.id(), signal)?),
            Some(_) => Ok(()),
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.ended.is_none() {
            self.ended = reap(self.child.id())?;
        }
        Ok(self.ended.is_some())
    }

    /// Waits for its end and the end of what it writes, at most `wait`; kills it when it takes longer.
    ///
    /// # Errors
    /// `TimedOut`, also when it has ended but what it started still holds its stdout or stderr.
    pub fn finish(mut self, wait: Duration) -> Result<Finished> {
        let end = Instant::now() + wait;
        let late = |tried: &str, what: &str| {
            let late = io::Error::new(io::ErrorKind::TimedOut, format!("{what} after {wait:?}"));
            Error::from(quaff_os::Error::new(tried, late))
        };
        let (status, usage) = loop {
            self.has_ended()?;
            match self.ended {
                Some(ended) => break ended,
                None if Instant::now() < end => std::thread::sleep(BETWEEN_LOOKS),
                None => return Err(late(&self.tried, "it still runs")),
            }
        };
        let left = || end.saturating_duration_since(Instant::now());
        let open = |_| late(&self.tried, "its output is still open");
        let stdout = self.stdout.recv_timeout(left()).map_err(open)?;
        let mut stderr = std::mem::take(&mut self.heard);
        loop {
            match self.stderr.recv_timeout(left()) {
                Ok(line) => stderr.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => return Ok(Finished { status, usage, stdout, stderr }),
                Err(timeout) => return Err(open(timeout)),
            }
        }
    }
}

/// Reads a pipe on a thread of its own, so that nobody has to read it for the command to go on.
fn collect<P: Send + 'static, T: Send + 'static>(
    pipe: Option<P>,
    read: impl FnOnce(P, Sender<T>) + Send + 'static,
) -> Receiver<T> {
    let (to, from) = channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || read(pipe, to));
    }
    from
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Both fail only when it has ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start(command).expect("sh runs")
    }

    #[test]
    fn what_it_writes_is_collected() {
        let mut running = sh("echo ready >&2; read nothing; echo out; echo err >&2; exit 3");
        assert!(running.hears("ready", Duration::from_secs(5)));
        let finished = running.finish(Duration::from_secs(5)).expect("it ends");
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout, b"out\n");
        assert_eq!(finished.stderr, "ready\nerr\n");
    }

    #[test]
    fn what_it_has_started_does_not_hold_us_up() {
        let begun = Instant::now();
        assert!(sh("sleep 5 & exit 0").finish(Duration::from_millis(200)).is_err());
        assert!(begun.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn its_cpu_time_is_its_own() {
        let busy = sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
        let idle = sh("exec sleep 0.2");
        let used = |running: Running| running.finish(Duration::from_secs(20)).expect("it ends").usage.total();
        let (busy, idle) = (used(busy), used(idle));
        assert!(busy > idle, "{busy:?} {idle:?}");
        assert!(idle < Duration::from_millis(100), "{idle:?}");
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let running = sh("exec sleep 60");
        let pid = running.pid();
        assert!(running.finish(Duration::from_millis(50)).is_err());
        assert!(send(pid, Signal::SIGCONT).is_err(), "it is gone");
    }
}
