//! The start, the constants and the words that `capture` and `split` share. It never captures.

use crate::show::{self, Part, message};
use anyhow::ensure;
use quaff::plan::InputPlan;
use quaff::{BufferGauges, format};
use quaff_os::{Reason, Signal, Signals, Stop, is_ignored, was_stdout_closed};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval of checks for the last write of an ending run.
pub(super) const LOOK_END: Duration = Duration::from_millis(2);
/// timeout(1) signals its child and then its process group: two signals within this time are one.
pub(super) const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// Refuses a stdout that packets cannot go to: a terminal, or one that was closed.
pub(super) fn check_stdout(takes_packets: bool) -> anyhow::Result<()> {
    ensure!(!takes_packets || !was_stdout_closed(), "stdout is closed: name a file with -w, or use a pipe");
    let is_text = takes_packets && std::io::stdout().is_terminal();
    ensure!(!is_text, "stdout is a terminal, and packets are not text: name a file with -w, or use a pipe");
    Ok(())
}

/// Blocks the signals that end a run, and `more`. SIGHUP stays ignored where it is, as by nohup(1).
pub(super) fn signals(more: &[Signal]) -> anyhow::Result<Signals> {
    let hangup = Some(Signal::SIGHUP).filter(|signal| !is_ignored(*signal));
    let wanted = [Signal::SIGINT, Signal::SIGTERM].into_iter().chain(hangup).chain(more.iter().copied());
    Ok(Signals::block(&wanted.collect::<Vec<_>>())?)
}

/// Starts a run on a thread of its own: locking memory and waiting for a pipe can take seconds, during which signals
/// must be handled. Returns `None` if a signal ended the start. A run that was started meanwhile may have taken
/// packets: it is returned, with `stop` raised, and ends as any other, with its ledger.
pub(super) fn start<T: Send + 'static, E: Send + Into<anyhow::Error> + 'static>(
    signals: &Signals,
    stop: &Stop,
    start: impl FnOnce(Stop) -> Result<T, E> + Send + 'static,
) -> anyhow::Result<Option<T>> {
    let (its_stop, mut asked) = (stop.clone(), Asked::default());
    let starting = std::thread::spawn(move || start(its_stop));
    while !starting.is_finished() {
        match signals.next(Duration::from_millis(5))?.map(|heard| heard.signal) {
            // A terminal that is resized, or a process that continues, does not end.
            Some(Signal::SIGUSR1 | Signal::SIGWINCH | Signal::SIGTSTP | Signal::SIGCONT) | None => {}
            Some(signal) if asked.is_second(signal, stop) => {
                // The start may wait forever, such as for the reader of a pipe.
                message("ended before the first packet");
                std::process::exit(2);
            }
            Some(_) => {}
        }
    }
    let started = starting.join().map_err(|_| anyhow::anyhow!("a defect of quaff: the start panicked"))?;
    if started.is_err() && stop.reason() == Some(Reason::Signal) {
        message("ended before the first packet");
        return Ok(None);
    }
    started.map(Some).map_err(Into::into)
}

/// The part of a progress line while the buffer is not resident as a whole.
pub(super) fn resident_words(buffer: &BufferGauges) -> String {
    let (resident, all) = (buffer.resident.get() >> 20, buffer.bytes >> 20);
    if resident < all { format!("{resident} of {all} MiB ready") } else { String::new() }
}

/// The progress of reading files whose sizes are known.
#[derive(Debug)]
pub(super) struct ReadProgress {
    total_bytes: Option<u64>,
    begun: Instant,
}

impl ReadProgress {
    pub(super) fn new(input: &InputPlan) -> Self {
        let size =
            |path: &PathBuf| path.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
        let files = input.read.as_ref().filter(|read| !read.follow);
        let total_bytes = files.and_then(|read| read.files.iter().map(size).sum());
        Self { total_bytes, begun: Instant::now() }
    }

    /// The part of a progress line after `read_bytes`: the share, the total, and the time left. Empty for interfaces.
    pub(super) fn part(&self, read_bytes: u64) -> Part {
        let Some(total) = self.total_bytes.filter(|total| *total > 0) else { return Part::new("", "", 0) };
        let share = (read_bytes as f64 / total as f64).min(1.0);
        let percent = format!("{:.0} %", 100.0 * share);
        let left = match share {
            0.0 => String::new(),
            share => {
                let seconds = self.begun.elapsed().as_secs_f64() * (1.0 - share) / share;
                format!(", {} left", format::span(seconds))
            }
        };
        Part::new(format!("{percent} of {}{left}", show::bytes(total)), percent, 5)
    }
}

/// The signals that asked a run to end.
#[derive(Debug, Default)]
pub(super) struct Asked {
    first: Option<Instant>,
}

impl Asked {
    /// For a run that begins: a signal that came during its start was the first one.
    pub(super) fn new(stop: &Stop) -> Self {
        Self { first: stop.raised().then(Instant::now) }
    }

    /// Takes a signal. The first one raises `stop`. Returns true for a second SIGINT or SIGTERM: the run must end
    /// without waiting for the packets in memory.
    pub(super) fn is_second(&mut self, signal: Signal, stop: &Stop) -> bool {
        let is_second = self.first.is_some_and(|first| first.elapsed() > SAME_SIGNAL);
        if is_second && matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
            return true;
        }
        self.first.get_or_insert_with(Instant::now);
        stop.raise(Reason::Signal);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_sigint_or_sigterm_ends_a_run_and_a_second_sighup_does_not() {
        for (second, ends) in [(Signal::SIGINT, true), (Signal::SIGTERM, true), (Signal::SIGHUP, false)] {
            let (mut asked, stop) = (Asked::default(), Stop::default());
            assert!(!asked.is_second(Signal::SIGTERM, &stop) && stop.raised());
            assert!(!asked.is_second(second, &stop), "timeout(1) sends a signal twice");
            std::thread::sleep(SAME_SIGNAL + Duration::from_millis(20));
            assert_eq!(asked.is_second(second, &stop), ends, "{second}");
        }
    }
}
