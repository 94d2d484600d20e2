//! A command that runs beside us and that cannot outlive us: killed when this is dropped, and when
//! the thread that started it ends.

use crate::{Error, Result};
use quaff_os::process::{Usage, reap, reset_signals, send, signal_on_parent_death};
use quaff_os::{Signal, Try};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Of what a command writes to stderr, at least so much is kept, the last of it, bytes: one that never stops
/// talking takes no more of our memory than twice that.
const KEPT_BYTES: usize = 1 << 20;
/// The same of stdout, where more is asked for: packets, reports.
const KEPT_STDOUT_BYTES: usize = 64 << 20;
/// What is read of it at once, bytes.
const PIECE_BYTES: usize = 64 << 10;

/// A command that runs, with what it writes collected.
#[derive(Debug)]
pub struct ChildProcess {
    tried: String,
    child: Child,
    stdout: Arc<Words>,
    stderr: Arc<Words>,
    heard: String,
    /// Once it has ended; from then on its process id may be another's.
    ended: Option<(ExitStatus, Usage)>,
}

/// What a command writes to one of its ends.
#[derive(Debug, Default)]
struct Words {
    said: Mutex<Said>,
    /// Signalled at each change.
    more: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    bytes: Vec<u8>,
    is_over: bool,
}

/// How a command ended, and what it wrote.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// The CPU time that it has used.
    pub usage: Usage,
    /// What it wrote to stdout, the last 64 MiB of it at least.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, the last MiB of it at least.
    pub stderr: String,
}

impl ChildProcess {
    /// Starts `command` with stdin empty, and stdout and stderr collected.
    pub fn start(command: Command) -> Result<Self> {
        Self::start_with(command, Stdio::null(), None)
    }

    /// Starts `command`; what it writes to a given `stdout` is not collected.
    pub fn start_with(mut command: Command, stdin: Stdio, stdout: Option<Stdio>) -> Result<Self> {
        let tried = format!("run {}", command.get_program().display());
        reset_signals(&mut command);
        signal_on_parent_death(&mut command, Signal::SIGKILL);
        command.stdin(stdin).stdout(stdout.unwrap_or_else(Stdio::piped)).stderr(Stdio::piped());
        let mut child = command.spawn().trying(|| tried.as_str())?;
        let stdout = collect(child.stdout.take(), KEPT_STDOUT_BYTES);
        let stderr = collect(child.stderr.take(), KEPT_BYTES);
        Ok(Self { tried, child, stdout, stderr, heard: String::new(), ended: None })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a line on stderr holds `text`, at most `wait`; returns whether it came.
    pub fn hears(&mut self, text: &str, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        let is_in = |heard: &str| heard.lines().any(|line| line.contains(text));
        let said = self.stderr.wait_until(end, |said| is_in(&lines(&said.bytes)));
        self.heard = lines(&said.bytes);
        is_in(&self.heard)
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

    /// How it has ended, once that was [seen](Self::has_ended).
    pub fn status(&self) -> Option<ExitStatus> {
        self.ended.map(|(status, _)| status)
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
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(|words| {
            let said = words.wait_until(end, |_| false);
            said.is_over.then(|| said.bytes.clone())
        });
        match (stdout, stderr) {
            (Some(stdout), Some(stderr)) => {
                Ok(Finished { status, usage, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
            }
            _ => Err(late(&self.tried, "its output is still open")),
        }
    }
}

/// Whole lines only: half a word is not what it said.
fn lines(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Words {
    fn lock(&self) -> MutexGuard<'_, Said> {
        // It holds bytes: whoever panicked left them whole.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_enough`, all is said, or `end`.
    fn wait_until(&self, end: Instant, is_enough: impl Fn(&Said) -> bool) -> MutexGuard<'_, Said> {
        let left = end.saturating_duration_since(Instant::now());
        let waited =
            self.more.wait_timeout_while(self.lock(), left, |said| !said.is_over && !is_enough(said));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn add(&self, piece: &[u8], kept_bytes: usize) {
        let mut said = self.lock();
        said.bytes.extend_from_slice(piece);
        if said.bytes.len() > 2 * kept_bytes {
            let old = said.bytes.len() - kept_bytes;
            said.bytes.drain(..old);
        }
        self.more.notify_all();
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.more.notify_all();
    }
}

/// Reads a pipe on a thread of its own, so that nobody has to read it for the command to go on.
fn collect(pipe: Option<impl Read + Send + 'static>, kept_bytes: usize) -> Arc<Words> {
    let words = Arc::new(Words::default());
    let Some(mut pipe) = pipe else {
        words.end();
        return words;
    };
    let ours = words.clone();
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match pipe.read(&mut piece) {
                Ok(bytes @ 1..) => ours.add(&piece[..bytes], kept_bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A pipe that breaks ends what there is to collect.
                Ok(0) | Err(_) => break ours.end(),
            }
        }
    });
    words
}

impl Drop for ChildProcess {
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
        assert_eq!(running.heard(), "now\n");
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
        let used =
            |running: ChildProcess| running.finish(Duration::from_secs(20)).expect("it ends").usage.total();
        let (busy, idle) = (used(busy), used(idle));
        assert!(busy > idle, "{busy:?} {idle:?}");
        assert!(idle < Duration::from_millis(100), "{idle:?}");
    }

    #[test]
    fn of_one_that_talks_without_end_the_last_is_kept() {
        let mut running =
            sh("echo begun >&2; yes nonsense | head -c 30000000 >&2; echo enough >&2; read nothing");
        assert!(running.hears("enough", Duration::from_secs(20)));
        assert!(running.heard().len() <= 2 * KEPT_BYTES);
        let finished = running.finish(Duration::from_secs(5)).expect("it ends");
        assert!(finished.stderr.len() >= KEPT_BYTES && finished.stderr.ends_with("enough\n"));
    }

    #[test]
    fn what_goes_elsewhere_is_not_collected() {
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
