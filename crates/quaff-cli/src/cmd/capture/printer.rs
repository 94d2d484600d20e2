//! `--print`: tcpdump(1) makes a line of each packet. It reads the packets from a pipe, and its lines pass through this
//! process: so they are made harmless as all text is, and a tcpdump without a reader can be ended. It is started before
//! the sandbox closes, after which this process can neither start nor kill another. This module never reads a packet.

use super::interface_names::{self, InterfaceIndexes};
use crate::show::Relay;
use anyhow::{Context, anyhow, ensure};
use quaff_file::write::Pipe;
use quaff_os::process::Prepare;
use quaff_os::sandbox::User;
use quaff_os::{Interrupt, Reason, Signal, Signals, Stop, was_stdout_closed};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The program that prints.
pub(super) const PROGRAM: &str = "tcpdump";
/// Its paths on systems that have it for root alone.
const ELSEWHERE: [&str; 2] = ["/usr/sbin/tcpdump", "/sbin/tcpdump"];
/// No names of hosts, a line at a time, from stdin. Words of the user follow.
const ARGS: [&str; 2] = ["-nlr", "-"];
/// Beginnings of what it says on stderr without an error. It doubts names because it takes its input for a file.
const USUAL: [&str; 3] =
    ["reading from file -", "dropped privs to ", "Warning: interface names might be incorrect"];
/// Part of its error on an interface whose link type is not that of the first one.
const SEVERAL_LINKS: &str = "different from the type of the first interface";
/// Lines of stderr that are kept.
const ERRORS_MAX: usize = 3;
/// After the end of its input, time without a line after which it is ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that it has to end after it has lost the reader of its lines.
const END_WAIT: Duration = Duration::from_millis(500);
/// Interval of checks at the end.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of lines that are passed on at once.
const LINES_BYTES: usize = 64 << 10;

/// Returns the path of tcpdump.
pub(super) fn find() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places =
        std::env::split_paths(&path).map(|dir| dir.join(PROGRAM)).chain(ELSEWHERE.map(PathBuf::from));
    places.find(|place| place.is_file()).ok_or_else(|| {
        anyhow!(
            "packets are printed by tcpdump, which is not installed: install it (apt install tcpdump, dnf install \
             tcpdump), or name a file with --write or a folder with --dir, without --print"
        )
    })
}

/// The form in which tcpdump prints packets.
#[derive(Debug)]
pub(super) struct Printed {
    /// The user's letters.
    pub(super) letters: Vec<String>,
    /// Times are in UTC instead of local time.
    pub(super) is_utc: bool,
    /// The names of interfaces, by their indexes.
    pub(super) indexes: Option<InterfaceIndexes>,
}

/// A running tcpdump.
pub(super) struct Printer {
    /// Ends after tcpdump. tcpdump is its child: the kernel kills it when the thread ends.
    thread: JoinHandle<()>,
    interrupt: Interrupt,
    shared: Arc<Shared>,
    is_reported: Cell<bool>,
}

/// The state that both threads see; each field stands for itself, so Relaxed.
#[derive(Debug, Default)]
struct Shared {
    /// Lines passed on so far, in bytes. Written by the thread.
    relayed: AtomicU64,
    /// The thread waits for the reader of stdout. Written by the thread.
    is_writing: AtomicBool,
    /// tcpdump is waited for no longer. Set by [`Printer::finish`].
    is_abandoned: AtomicBool,
    /// The reader of stdout has left. Written by the thread.
    has_left: AtomicBool,
    /// Why tcpdump ended too early, or with an error. Written by the thread.
    failure: OnceLock<String>,
}

impl Printer {
    /// Starts tcpdump as `user`, if there is one, and puts the end of the pipe to it into `pipe`. `stop` is raised when
    /// the reader of stdout leaves.
    pub(super) fn start(
        pipe: &Pipe,
        printed: Printed,
        user: Option<&str>,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        ensure!(!was_stdout_closed(), "stdout is closed, and --print writes to it");
        let (path, relay) = (find()?, Relay::new().context("cannot use stdout")?);
        let user = user.map(User::find).transpose()?;
        let (ready, is_ready) = channel();
        let (shared, stop) = (Arc::<Shared>::default(), stop.clone());
        let of_thread = shared.clone();
        let body = move || {
            let is_known = printed.indexes.is_some() && interface_names::are_known_to(&path);
            let started = spawn(&path, &printed, user.as_ref()).and_then(|(end, child, out, errors)| {
                let end = match printed.indexes.filter(|_| is_known) {
                    Some(indexes) => indexes.pass_on(end, fails(&of_thread))?,
                    None => OwnedFd::from(end).into(),
                };
                Ok((end, child, out, errors))
            });
            // The receiver waits for it.
            let (child, out, errors) = match started {
                Ok((end, child, out, errors)) => {
                    let _ = ready.send(Ok((end, Interrupt::here())));
                    (child, out, errors)
                }
                Err(error) => return drop(ready.send(Err(error))),
            };
            Work { child, relay, shared: of_thread, stop }.run(out, errors);
        };
        let thread = quaff_os::spawn("quaff-print", body)?;
        let (end, interrupt) = is_ready.recv().context("a defect of quaff: the printing thread ended")??;
        pipe.set(end);
        Ok(Self { thread, interrupt: interrupt?, shared, is_reported: Cell::new(false) })
    }

    /// Why tcpdump failed, if it did.
    pub(super) fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// The same, once.
    pub(super) fn news(&self) -> Option<&str> {
        self.failure().filter(|_| !self.is_reported.replace(true))
    }

    /// Returns whether the reader of stdout left before the last line.
    pub(super) fn has_left(&self) -> bool {
        self.shared.has_left.load(Ordering::Relaxed)
    }

    /// Waits for tcpdump after the end of its input. The reader of stdout may take any time, until a signal.
    pub(super) fn finish(&self, signals: &Signals, stop: &Stop) -> anyhow::Result<()> {
        let mut is_asked = matches!(stop.reason(), Some(Reason::Signal | Reason::Duration));
        let (mut relayed, mut since) = (0, Instant::now());
        while !self.thread.is_finished() {
            let now = self.shared.relayed.load(Ordering::Relaxed);
            if now != relayed {
                (relayed, since) = (now, Instant::now());
            }
            let waits_for_reader = self.shared.is_writing.load(Ordering::Relaxed);
            if since.elapsed() >= PATIENCE && (is_asked || !waits_for_reader) {
                self.shared.is_abandoned.store(true, Ordering::Relaxed);
                self.interrupt.send();
            }
            let heard = signals.next(LOOK)?.map(|heard| heard.signal);
            is_asked |= heard.is_some_and(|signal| signal != Signal::SIGUSR1);
        }
        Ok(())
    }
}

/// Records a failure of what feeds tcpdump.
fn fails(shared: &Arc<Shared>) -> impl FnOnce(String) + Send + use<> {
    let shared = shared.clone();
    move |failure| {
        let _ = shared.failure.set(failure);
    }
}

/// Starts tcpdump from the calling thread.
fn spawn(
    path: &Path,
    printed: &Printed,
    user: Option<&User>,
) -> anyhow::Result<(ChildStdin, Child, ChildStdout, ChildStderr)> {
    let rights = user.map(User::use_files).transpose()?;
    let mut command = Command::new(path);
    command
        .args(ARGS)
        .args(&printed.letters)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if printed.is_utc {
        command.env("TZ", "UTC0");
    }
    // ^C on a terminal ends the capture, and tcpdump with its input. What changes the user clears the last setting.
    command.process_group(0).reset_signals().leave_privileges().signal_on_parent_death(Signal::SIGKILL);
    let started = command.spawn().with_context(|| format!("cannot start {}", path.display()));
    drop(rights);
    let mut child = started?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(end), Some(out), Some(errors)) = pipes else {
        return Err(io::Error::from(ErrorKind::BrokenPipe)).context("cannot use the pipes of tcpdump");
    };
    Ok((end, child, out, errors))
}

/// The thread.
struct Work {
    child: Child,
    relay: Relay,
    shared: Arc<Shared>,
    stop: Stop,
}

impl Work {
    fn run(mut self, mut out: ChildStdout, errors: ChildStderr) {
        let said = quaff_os::spawn("quaff-print-err", move || errors_in(errors));
        let has_reader = self.relay_all(&mut out);
        // Its next line ends a tcpdump without a reader (SIGPIPE).
        drop(out);
        let status = self.wait(if has_reader { PATIENCE } else { END_WAIT });
        let is_abandoned = self.shared.is_abandoned.load(Ordering::Relaxed);
        if !has_reader && !is_abandoned {
            self.shared.has_left.store(true, Ordering::Relaxed);
            return self.stop.raise(Reason::OutputClosed);
        }
        let said = || said.ok().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let failure = match status {
            Some(status) if status.success() || is_abandoned => return,
            Some(status) => {
                let said = said();
                format!("tcpdump, which prints the packets, ended with {status}{said}{}", advice(&said))
            }
            None => "tcpdump, which prints the packets, did not end, and was killed".to_owned(),
        };
        let _ = self.shared.failure.set(failure);
    }

    /// Passes whole lines on until the end; returns whether stdout took all.
    fn relay_all(&mut self, out: &mut ChildStdout) -> bool {
        let shared = &self.shared;
        let is_wanted = || !shared.is_abandoned.load(Ordering::Relaxed);
        let (mut lines, mut len) = (vec![0; LINES_BYTES], 0);
        loop {
            let bytes = match out.read(&mut lines[len..]) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted && is_wanted() => continue,
                Err(_) => return false,
            };
            len += bytes;
            let end = lines[..len].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            // The last line may lack its end, and one may be too long.
            let end = if bytes == 0 || end == 0 && len == lines.len() { len } else { end };
            shared.is_writing.store(true, Ordering::Relaxed);
            let is_taken = self.relay.put(&lines[..end], is_wanted);
            shared.is_writing.store(false, Ordering::Relaxed);
            if bytes == 0 || !is_taken {
                return is_taken;
            }
            shared.relayed.fetch_add(end as u64, Ordering::Relaxed);
            lines.copy_within(end..len, 0);
            len -= end;
        }
    }

    /// Waits for tcpdump's end; `None` if it takes too long.
    fn wait(&mut self, most: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if begun.elapsed() < most => std::thread::sleep(LOOK),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

/// Advice after such an error; empty if the error is enough.
fn advice(said: &str) -> &'static str {
    match said.contains(SEVERAL_LINKS) {
        true => {
            "; tshark prints several link types ('quaff capture … -w - | tshark -r -'), and 'quaff info' shows those of \
             each file"
        }
        false => "",
    }
}

/// The errors of tcpdump on stderr: `: `, and the lines.
fn errors_in(stderr: ChildStderr) -> String {
    let lines = BufReader::new(stderr).split(b'\n').map_while(Result::ok);
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let mut kept: Vec<String> = Vec::new();
    for line in lines.filter(|line| !USUAL.iter().any(|usual| line.starts_with(usual))) {
        if kept.len() < ERRORS_MAX {
            kept.push(line.strip_prefix("tcpdump: ").unwrap_or(&line).to_owned());
        }
    }
    if kept.is_empty() { String::new() } else { format!(": {}", kept.join("; ")) }
}
