//! The supervision and the report lines that `generate` and `replay` share. It never sends.

use crate::show::{self, LiveLine};
use quaff_os::Signals;
use quaff_send::{Control, Lateness, ReplayReport, SendDrops, Snapshot, Witness};
use std::io::{BufRead as _, IsTerminal as _};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Shortest interval between two updates of the progress line.
const PROGRESS: Duration = Duration::from_millis(250);

/// Signals, progress and Enter of a run.
pub(super) struct Watch {
    signals: Signals,
    is_stopping: bool,
    line: LiveLine,
    every: Option<Duration>,
    last: Option<(Instant, u64)>,
    /// Lines of stdin, each of which releases a frame.
    lines: Option<Receiver<()>>,
}

impl Watch {
    /// A progress line on a terminal unless `is_quiet`, or lines every `stats`.
    pub(super) fn new(signals: Signals, stats: Option<Duration>, is_quiet: bool, is_stepwise: bool) -> Self {
        let is_line = stats.is_none() && !is_quiet && std::io::stderr().is_terminal();
        Self {
            signals,
            is_stopping: false,
            line: LiveLine { is_live: is_line },
            every: stats.map(|every| every.max(PROGRESS)).or(is_line.then_some(PROGRESS)),
            last: None,
            lines: is_stepwise.then(stdin_lines),
        }
    }

    pub(super) fn look(&mut self, snapshot: &Snapshot, wait: Duration) -> Control {
        self.show_progress(snapshot);
        // Without a readable signalfd no signal could end the run; better to end it with a report.
        let is_signalled = !matches!(self.signals.next(wait), Ok(None));
        if is_signalled && self.is_stopping {
            self.clear_line();
            show::message("ended immediately, without a report");
            std::process::exit(2);
        }
        self.is_stopping |= is_signalled;
        match self.lines.as_ref().map(Receiver::try_recv) {
            _ if self.is_stopping => Control::Stop,
            Some(Ok(())) => Control::Step,
            Some(Err(TryRecvError::Disconnected)) => Control::Stop,
            Some(Err(TryRecvError::Empty)) | None => Control::Go,
        }
    }

    fn show_progress(&mut self, snapshot: &Snapshot) {
        let Some(every) = self.every else { return };
        let now = Instant::now();
        let (then, sent) = *self.last.get_or_insert((now, snapshot.sent));
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
        if snapshot.retried > 0 {
            line += &format!("  retried {}", show::count(snapshot.retried));
        }
        if self.line.is_live {
            self.line.draw(&line)
        } else {
            show::say(&line)
        }
        self.last = Some((now, snapshot.sent));
    }

    pub(super) fn clear_line(&self) {
        self.line.draw("");
    }
}

/// A message for each line of stdin; disconnected at its end.
fn stdin_lines() -> Receiver<()> {
    let (sender, lines) = channel();
    // The thread ends with the input or with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || sender.send(()).is_err() {
                return;
            }
        }
    });
    lines
}

/// The transmit path and the interface: of `paths` the first for --inject, the second for --out. Clap requires one of
/// the two flags.
pub(super) fn destination<V>(inject: &Option<String>, out: &Option<String>, paths: [V; 2]) -> (V, String) {
    let [injected, sent] = paths;
    match (inject, out) {
        (Some(interface), _) => (injected, interface.clone()),
        (None, out) => (sent, out.clone().unwrap_or_default()),
    }
}

/// The counter that confirmed the frames, and the agreement of the counts.
pub(super) fn confirmation(
    witness: Witness,
    others: u64,
    agrees: bool,
    hint: Option<&str>,
    is_interrupted: bool,
) -> String {
    let mut parts = vec![
        match witness {
            Witness::Tap => "by a packet tap",
            Witness::RxOtherhostDropped => "by rx_otherhost_dropped",
            Witness::TxPackets => "by tx_packets",
            Witness::Softnet => "by the softnet counters",
        }
        .to_owned(),
    ];
    if others > 0 {
        parts.push(format!("{} of them from other senders", show::count(others)));
    }
    if !agrees {
        parts.push("the counts do not agree".to_owned());
    }
    parts.extend(hint.map(str::to_owned));
    if is_interrupted {
        parts.push("interrupted".to_owned());
    }
    parts.join(", ")
}

/// The drops that may explain `missing` frames of the interfaces.
pub(super) fn dropped<'a>(
    missing: u64,
    interfaces: impl IntoIterator<Item = (&'a str, SendDrops)>,
) -> Option<String> {
    let words = interfaces.into_iter().flat_map(|(name, drops)| {
        let places = [
            (
                drops.qdisc_dropped,
                format!("the queueing discipline of {name} ('tc -s qdisc show dev {name}')"),
            ),
            (drops.tx_dropped, format!("the driver of {name} (tx_dropped)")),
            (drops.backlog_dropped, format!("a backlog of {name} (net.core.netdev_max_backlog)")),
        ];
        places.into_iter().filter(|(frames, _)| *frames > 0)
    });
    let words: Vec<_> =
        words.map(|(frames, place)| format!("{} dropped by {place}", show::count(frames))).collect();
    (missing > 0 && !words.is_empty()).then(|| words.join(", "))
}

/// The drops that may explain why fewer frames were confirmed than sent.
pub(super) fn dropped_of(report: &ReplayReport) -> Option<String> {
    let interfaces = report.interfaces.iter().map(|one| (one.name.as_str(), one.drops));
    dropped(report.sent.saturating_sub(report.confirmed), interfaces)
}

/// The lines of a replay: what was sent and what confirmed it, with a `verdict`, and the time.
pub(super) fn sent(report: &ReplayReport, verdict: &str) -> String {
    let (sent, bytes) = (show::count(report.sent), show::bytes(report.bytes));
    let confirmed = show::count(report.confirmed);
    format!("  sent       {sent}  ({bytes})\n  confirmed  {confirmed}  ({verdict})\n")
        + &time(report.seconds, report.pps, report.bits_per_second)
}

/// The line of the time.
pub(super) fn time(seconds: f64, pps: Option<f64>, bits_per_second: Option<f64>) -> String {
    let rates = match pps.zip(bits_per_second) {
        Some((pps, bits)) => format!("{}, {}", show::pps(pps), show::bits(bits)),
        None => "too short for a rate".into(),
    };
    format!("  time       {seconds:.3} s, {rates}\n")
}

/// The line of the pace: the error as a percentage of `of`.
pub(super) fn pace(error: Option<f64>, of: &str) -> String {
    error.map_or_else(String::new, |error| format!("  pace       {:+.4} % from {of}\n", error * 100.0))
}

/// The line of the lateness.
pub(super) fn lateness(late: Option<Lateness>) -> String {
    let Some(late) = late else { return String::new() };
    let [mean, p50, p99, max] = [late.mean_ns, late.p50_ns, late.p99_ns, late.max_ns].map(show::span_ns);
    format!("  late       mean {mean}, median {p50}, p99 {p99}, max {max}\n")
}
