//! Supervision of a run: signals and the progress line.

use crate::show;
use quaff_os::{Signal, Signals};
use quaff_send::{Control, Snapshot};
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Interval of the progress line.
const PROGRESS: Duration = Duration::from_millis(250);

/// For one run.
pub(super) struct Watch {
    signals: Signals,
    stopping: bool,
    line: bool,
    written: Option<(Instant, u64)>,
    paced: bool,
}

impl Watch {
    pub(super) fn new(signals: Signals, paced: bool) -> Self {
        Self { signals, stopping: false, line: std::io::stderr().is_terminal(), written: None, paced }
    }

    pub(super) fn look(&mut self, snapshot: &Snapshot, wait: Duration) -> Control {
        if self.line {
            self.write_line(snapshot);
        }
        // A signalfd that cannot be read would leave us deaf; better to end with a report.
        let heard = self.signals.next(wait).unwrap_or(Some(Signal::SIGTERM));
        if heard.is_some() && self.stopping {
            self.clear_line();
            eprintln!("quaff: ended immediately, without a report");
            std::process::exit(2);
        }
        self.stopping |= heard.is_some();
        if self.stopping { Control::Stop } else { Control::Go }
    }

    fn write_line(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        let (then, sent) = *self.written.get_or_insert((now, snapshot.sent));
        let passed = now - then;
        if passed < PROGRESS {
            return;
        }
        let rate = (snapshot.sent - sent) as f64 / passed.as_secs_f64();
        let mut line = format!("sent {}  {}", show::count(snapshot.sent), show::pps(rate));
        if self.paced {
            line += &format!("  latest {}", show::span_ns(snapshot.late_max_ns));
        }
        if snapshot.retried > 0 {
            line += &format!("  retried {}", show::count(snapshot.retried));
        }
        eprint!("\r\x1b[2K{line}");
        self.written = Some((now, snapshot.sent));
    }

    pub(super) fn clear_line(&mut self) {
        if self.line {
            eprint!("\r\x1b[2K");
            let _ = std::io::stderr().flush();
        }
    }
}
