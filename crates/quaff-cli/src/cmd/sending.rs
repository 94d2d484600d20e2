//! The supervision and the report lines that `generate` and `replay` share. It never sends.

use crate::shell::{EndedEarly, Part, Product, Settings, Shell, WatchArgs};
use crate::show;
use anyhow::bail;
use quaff_send::{Control, Lateness, ReplayReport, SendDrops, Snapshot, Witness};
use quaff_wire::printable::quote;
use std::io::BufRead as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Longest wait for a file before signals are heard.
const LOOK: Duration = Duration::from_millis(20);

/// The effect of SIGUSR1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnUsr1 {
    /// Prints a progress line.
    Progress,
    /// Stops the process until SIGCONT, as tcpreplay.
    Suspend,
}

/// The shell of a run that the sender's loop drives, and Enter.
pub(super) struct Watch {
    shell: Shell,
    sending: Sending,
    /// Lines of stdin, each of which releases a frame.
    lines: Option<Receiver<()>>,
}

impl Watch {
    /// Blocks the signals: call it before the first thread. Each line of stdin releases a frame if `is_stepwise`.
    pub(super) fn new(args: &WatchArgs, is_stepwise: bool) -> anyhow::Result<Self> {
        Self::with(args, is_stepwise, OnUsr1::Progress)
    }

    /// The same with another meaning of SIGUSR1.
    pub(super) fn with(args: &WatchArgs, is_stepwise: bool, on_usr1: OnUsr1) -> anyhow::Result<Self> {
        let shell = Shell::new(Settings::new(args, None))?;
        let sending =
            Sending { now: Snapshot::default(), last: (Instant::now(), 0), on_usr1, is_suspending: false };
        Ok(Self { shell, sending, lines: is_stepwise.then(stdin_lines).transpose()? })
    }

    pub(super) fn look(&mut self, snapshot: &Snapshot, wait: Duration) -> Control {
        self.sending.now = *snapshot;
        let is_stopping = self.shell.turn(&mut self.sending, wait);
        match self.lines.as_ref().map(Receiver::try_recv) {
            _ if is_stopping => Control::Stop,
            _ if std::mem::take(&mut self.sending.is_suspending) => Control::Suspend,
            Some(Ok(())) => Control::Step,
            Some(Err(TryRecvError::Disconnected)) => Control::Stop,
            Some(Err(TryRecvError::Empty)) | None => Control::Go,
        }
    }

    /// Runs on a thread what may wait for the writer of a pipe, and hears signals meanwhile. After one the error is
    /// [`EndedEarly`], and the thread ends with the process.
    pub(super) fn during<T: Send + 'static>(
        &mut self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let (sender, done) = channel();
        quaff_os::spawn("quaff-open", move || drop(sender.send(read())))?;
        loop {
            match done.recv_timeout(LOOK) {
                Ok(read) => return Ok(read),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the thread that reads has panicked"),
            }
            if self.look(&Snapshot::default(), Duration::ZERO) == Control::Stop {
                return Err(EndedEarly.into());
            }
        }
    }

    pub(super) fn clear_line(&self) {
        self.shell.end_line();
    }
}

/// A sending run, as the shell watches it.
struct Sending {
    now: Snapshot,
    /// The time and the frames of the last progress line.
    last: (Instant, u64),
    on_usr1: OnUsr1,
    /// SIGUSR1 came, and suspends.
    is_suspending: bool,
}

impl Product for Sending {
    const LOSS: &'static str = "there is no report";
    type Report = ();

    fn is_over(&self) -> bool {
        false
    }

    fn finish(self) {}

    fn on_usr1(&mut self) -> Option<Vec<Part>> {
        self.is_suspending = self.on_usr1 == OnUsr1::Suspend;
        (self.on_usr1 == OnUsr1::Progress).then(|| self.progress())
    }

    fn progress(&mut self) -> Vec<Part> {
        let (Snapshot { sent, elapsed_ns, late_max_ns, retried, .. }, (at, before)) = (self.now, self.last);
        let rate = sent.saturating_sub(before) as f64 / at.elapsed().as_secs_f64().max(1e-3);
        self.last = (Instant::now(), sent);
        let rate = show::pps(rate);
        let some =
            |count: u64, words: String| Part::new(if count > 0 { words } else { String::new() }, "", 2);
        vec![
            Part::new(format!("{:.1} s", elapsed_ns as f64 / 1e9), "", 1),
            Part::new(format!("sent {}", show::count(sent)), "", 4),
            Part::new(rate, "", 3),
            some(late_max_ns, format!("latest {}", show::span_ns(late_max_ns))),
            some(retried, format!("retried {}", show::count(retried))),
        ]
    }
}

/// A message for each line of stdin; disconnected at its end.
fn stdin_lines() -> quaff_os::Result<Receiver<()>> {
    let (sender, lines) = channel();
    // The thread ends with the input or with the process.
    quaff_os::spawn("quaff-steps", move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || sender.send(()).is_err() {
                return;
            }
        }
    })?;
    Ok(lines)
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

/// Frames that were to be sent, that were handed to the kernel, and that a counter confirms.
pub(super) struct Counts {
    pub(super) intended: u64,
    pub(super) sent: u64,
    pub(super) confirmed: u64,
}

/// The counter that confirmed the frames, and whether the counts agree.
pub(super) fn confirmation(
    witness: Witness,
    others: u64,
    counts: &Counts,
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
    if counts.confirmed < counts.sent || others == 0 && counts.confirmed > counts.sent {
        parts.push("the counts do not agree".to_owned());
    } else if !is_interrupted && counts.sent != counts.intended {
        parts.push("not all were sent".to_owned());
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
                format!("the queueing discipline of {name} ('tc -s qdisc show dev {}')", quote(name)),
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

/// The counts of a replay.
pub(super) fn counts(report: &ReplayReport) -> Counts {
    Counts { intended: report.intended, sent: report.sent, confirmed: report.confirmed }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_disagree_where_confirmed_and_sent_differ() {
        let verdict = |[intended, sent, confirmed]: [u64; 3], others, is_interrupted| {
            let counts = Counts { intended, sent, confirmed };
            confirmation(Witness::TxPackets, others, &counts, None, is_interrupted)
        };
        assert_eq!(verdict([9, 9, 9], 0, false), "by tx_packets");
        assert_eq!(verdict([9, 9, 8], 0, false), "by tx_packets, the counts do not agree");
        assert_eq!(verdict([9, 8, 8], 0, false), "by tx_packets, not all were sent");
        assert_eq!(verdict([9, 8, 8], 0, true), "by tx_packets, interrupted");
        assert_eq!(verdict([9, 9, 12], 3, false), "by tx_packets, 3 of them from other senders");
    }
}
