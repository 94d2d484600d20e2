//! A child process that cannot outlive its parent: it is killed when its handle is dropped, and when the thread that
//! started it ends.

use crate::{Error, Result};
use quaff_os::process::{Prepare, Usage, reap, send};
use quaff_os::{Signal, Try};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval of polling for the end of the process.
const POLL: Duration = Duration::from_millis(5);
/// Minimum number of last stderr bytes that are kept; the buffer never exceeds twice that.
const KEPT_BYTES: usize = 1 << 20;
/// The same for stdout, which carries packets and reports.
const KEPT_STDOUT_BYTES: usize = 64 << 20;
/// Bytes per read.
const PIECE_BYTES: usize = 64 << 10;

/// A running command whose output is collected.
#[derive(Debug)]
pub struct ChildProcess {
    tried: String,
    child: Child,
    stdout: Arc<Collected>,
    stderr: Arc<Collected>,
    /// Complete stderr lines, as of the last [`hears`](Self::hears).
    pub heard: String,
    /// Exit status and CPU time, once [`has_ended`](Self::has_ended) has returned `true`: the process ID may be reused
    /// from then on.
    pub ended: Option<(ExitStatus, Usage)>,
}

/// The output of a command on one stream.
#[derive(Debug, Default)]
struct Collected {
    state: Mutex<State>,
    /// Notified at each change of `state`.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// True once the stream is closed.
    is_closed: bool,
}

/// The result of a command that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub status: ExitStatus,
    pub usage: Usage,
    /// At least the last 64 MiB.
    pub stdout: Vec<u8>,
    /// At least the last MiB.
    pub stderr: String,
}

impl ChildProcess {
    /// Starts `command` with stdin empty, and stdout and stderr collected.
    pub fn start(command: Command) -> Result<Self> {
        Self::start_with(command, Stdio::null(), None)
    }

    /// Starts `command`; output to a given `stdout` is not collected.
    pub fn start_with(mut command: Command, stdin: Stdio, stdout: Option<Stdio>) -> Result<Self> {
        let tried = format!("run {}", command.get_program().display());
        command.reset_signals().signal_on_parent_death(Signal::SIGKILL);
        command.stdin(stdin).stdout(stdout.unwrap_or_else(Stdio::piped)).stderr(Stdio::piped());
        let mut child = command.spawn().trying(|| tried.as_str())?;
        let collected = collect(child.stdout.take(), KEPT_STDOUT_BYTES)
            .and_then(|stdout| Ok((stdout, collect(child.stderr.take(), KEPT_BYTES)?)));
        let (stdout, stderr) = collected.inspect_err(|_| {
            // Both fail only if the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Self { tried, child, stdout, stderr, heard: String::new(), ended: None })
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits up to `wait` for a stderr line that contains `text`; returns whether there is one.
    pub fn hears(&mut self, text: &str, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        let is_in = |heard: &str| heard.lines().any(|line| line.contains(text));
        let state = self.stderr.wait_until(end, |state| is_in(&lines(&state.bytes)));
        self.heard = lines(&state.bytes);
        is_in(&self.heard)
    }

    /// Waits up to `wait` for stderr to close: the last lines of a process that has ended may still arrive, and a
    /// descendant may hold it open.
    pub fn hear_the_end(&mut self, wait: Duration) {
        self.heard = lines(&self.stderr.wait_until(Instant::now() + wait, |_| false).bytes);
    }

    /// Sends a signal; does nothing after [`has_ended`](Self::has_ended) has returned `true`.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match self.ended {
            None => Ok(send(self.child.id(), signal)?),
            Some(_) => Ok(()),
        }
    }

    /// True once the process has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.ended.is_none() {
            self.ended = reap(self.child.id())?;
        }
        Ok(self.ended.is_some())
    }

    /// Waits up to `wait` for the process to end and close its output; then kills it.
    ///
    /// # Errors
    /// `TimedOut`, also if the process has ended but a descendant holds its stdout or stderr open.
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
                None if Instant::now() < end => std::thread::sleep(POLL),
                None => return Err(late(&self.tried, "it is still running")),
            }
        };
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(|output| {
            let state = output.wait_until(end, |_| false);
            state.is_closed.then(|| state.bytes.clone())
        });
        match (stdout, stderr) {
            (Some(stdout), Some(stderr)) => {
                Ok(Finished { status, usage, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
            }
            _ => Err(late(&self.tried, "its output is still open")),
        }
    }
}

/// The complete lines in `bytes`.
fn lines(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Collected {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the bytes inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_enough` holds, the stream is closed, or `end` is reached.
    fn wait_until(&self, end: Instant, is_enough: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let left = end.saturating_duration_since(Instant::now());
        let waited =
            self.changed.wait_timeout_while(self.lock(), left, |state| !state.is_closed && !is_enough(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn add(&self, piece: &[u8], kept_bytes: usize) {
        let mut state = self.lock();
        state.bytes.extend_from_slice(piece);
        if state.bytes.len() > 2 * kept_bytes {
            let old = state.bytes.len() - kept_bytes;
            state.bytes.drain(..old);
        }
        self.changed.notify_all();
    }

    fn end(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

/// Reads a pipe on a separate thread, so that the command never blocks on a full pipe.
fn collect(pipe: Option<impl Read + Send + 'static>, kept_bytes: usize) -> quaff_os::Result<Arc<Collected>> {
    let output = Arc::new(Collected::default());
    let Some(mut pipe) = pipe else {
        output.end();
        return Ok(output);
    };
    let shared = output.clone();
    quaff_os::spawn("quaff-collect", move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match pipe.read(&mut piece) {
                Ok(bytes @ 1..) => shared.add(&piece[..bytes], kept_bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A read error ends the collection.
                Ok(0) | Err(_) => break shared.end(),
            }
        }
    })?;
    Ok(output)
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Both fail only if the process has already ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> ChildProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ChildProcess::start(command).expect("sh runs")
    }

    #[test]
    fn any_line_is_waited_for() {
        let mut running = sh("sleep 0.1; echo now >&2; sleep 60");
        assert!(!running.hears("", Duration::from_millis(1)));
        assert!(running.hears("", Duration::from_secs(10)));
        assert_eq!(running.heard, "now\n");
    }

    #[test]
    fn output_is_collected() {
        let mut running = sh("echo ready >&2; read nothing; echo out; echo err >&2; exit 3");
        assert!(running.hears("ready", Duration::from_secs(5)));
        let finished = running.finish(Duration::from_secs(5)).expect("it ends");
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout, b"out\n");
        assert_eq!(finished.stderr, "ready\nerr\n");
    }

    #[test]
    fn the_last_lines_of_a_process_that_has_ended_are_heard() {
        let mut running = sh("(sleep 0.2; echo late >&2) & exit 0");
        while !running.has_ended().expect("asked") {}
        running.hear_the_end(Duration::from_secs(10));
        assert_eq!(running.heard, "late\n");
    }

    #[test]
    fn children_of_a_child_do_not_delay_its_end() {
        let begun = Instant::now();
        assert!(sh("sleep 5 & exit 0").finish(Duration::from_millis(200)).is_err());
        assert!(begun.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn its_cpu_time_is_its_own() {
        let busy = sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
        let idle = sh("exec sleep 0.2");
        let used = |running: ChildProcess| {
            let usage = running.finish(Duration::from_secs(20)).expect("it ends").usage;
            usage.user + usage.system
        };
        let (busy, idle) = (used(busy), used(idle));
        assert!(busy > idle, "{busy:?} {idle:?}");
        assert!(idle < Duration::from_millis(100), "{idle:?}");
    }

    #[test]
    fn of_one_that_talks_without_end_the_last_is_kept() {
        let mut running =
            sh("echo begun >&2; yes nonsense | head -c 30000000 >&2; echo enough >&2; read nothing");
        assert!(running.hears("enough", Duration::from_secs(20)));
        assert!(running.heard.len() <= 2 * KEPT_BYTES);
        let finished = running.finish(Duration::from_secs(5)).expect("it ends");
        assert!(finished.stderr.len() >= KEPT_BYTES && finished.stderr.ends_with("enough\n"));
    }

    #[test]
    fn redirected_output_is_not_collected() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2"]);
        let running = ChildProcess::start_with(command, Stdio::null(), Some(Stdio::null())).expect("sh runs");
        let finished = running.finish(Duration::from_secs(5)).expect("it ends");
        assert_eq!((finished.stdout.as_slice(), finished.stderr.as_str()), (b"".as_slice(), "err\n"));
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let running = sh("exec sleep 60");
        let pid = running.pid();
        assert!(running.finish(Duration::from_millis(50)).is_err());
        assert!(send(pid, Signal::SIGCONT).is_err(), "it is gone");
    }
}
