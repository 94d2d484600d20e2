//! Supervision of a running replay: signals, the progress line, statistics, and Enter.

use super::Args;
use crate::show;
use quaff_os::{Signal, Signals};
use quaff_send::{Control, Snapshot};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Interval of the progress line.
const PROGRESS: Duration = Duration::from_millis(250);

/// Signals, progress and Enter of a run.
pub(super) struct Watch {
    signals: Signals,
    stopping: bool,
    /// True to overwrite one line, false to print lines.
    is_line: bool,
    every: Option<Duration>,
    told: Option<(Instant, u64)>,
    lines: Option<Receiver<()>>,
}

impl Watch {
    pub(super) fn new(signals: Signals, args: &Args) -> Self {
        let is_line = args.stats.is_none() && !args.quiet && std::io::stderr().is_terminal();
        Self {
            signals,
            stopping: false,
            is_line,
            every: args.stats.map(|every| every.max(PROGRESS)).or(is_line.then_some(PROGRESS)),
            told: None,
            lines: args.one_at_a_time.then(lines),
        }
    }

    pub(super) fn look(&mut self, snapshot: &Snapshot, wait: Duration) -> Control {
        self.tell(snapshot);
        // A signalfd that cannot be read would leave us deaf; better to end with a report.
        let heard = self.signals.next(wait).unwrap_or(Some(Signal::SIGTERM));
        if heard.is_some() && self.stopping {
            self.clear_line();
            show::say("quaff: ended immediately, without a report");
            std::process::exit(2);
        }
        self.stopping |= heard.is_some();
        match self.lines.as_ref().map(Receiver::try_recv) {
            _ if self.stopping => Control::Stop,
            Some(Ok(())) => Control::Step,
            Some(Err(TryRecvError::Disconnected)) => Control::Stop,
            Some(Err(TryRecvError::Empty)) | None => Control::Go,
        }
    }

    fn tell(&mut self, snapshot: &Snapshot) {
        let Some(every) = self.every else { return };
        let now = Instant::now();
        let (then, sent) = *self.told.get_or_insert((now, snapshot.sent));
        let passed = now - then;
        if passed < every {
            return;
        }
        let rate = (snapshot.sent - sent) as f64 / passed.as_secs_f64();
        let seconds = snapshot.elapsed_ns as f64 / 1e9;
        let mut line = format!("{seconds:.1} s  sent {}  {}", show::count(snapshot.sent), show::pps(rate));
        if snapshot.late_max_ns > 0 {
            line += &format!("  latest {}", show::span_ns(snapshot.late_max_ns));
        }
        if self.is_line {
            let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
        } else {
            show::say(&line);
        }
        self.told = Some((now, snapshot.sent));
    }

    pub(super) fn clear_line(&mut self) {
        if self.is_line {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
            let _ = std::io::stderr().flush();
        }
    }
}

/// A message for each line of standard input; disconnected at its end.
fn lines() -> Receiver<()> {
    let (tell, told) = channel();
    // It ends with the input, or with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || tell.send(()).is_err() {
                return;
            }
        }
    });
    told
}
