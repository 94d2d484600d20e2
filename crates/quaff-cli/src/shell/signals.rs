//! The signals that end a run, and which of them is the second one. It never ends a process.

use quaff_os::{Signal, Signals, is_ignored};
use std::time::{Duration, Instant};

/// timeout(1) signals its child and then its process group: two signals within this time are one.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// Blocks the signals that end a run, and `more`. SIGHUP stays ignored where it is, as by nohup(1).
pub(crate) fn block(more: &[Signal]) -> anyhow::Result<Signals> {
    let hangup = Some(Signal::SIGHUP).filter(|signal| !is_ignored(*signal));
    let wanted = [Signal::SIGINT, Signal::SIGTERM].into_iter().chain(hangup).chain(more.iter().copied());
    Ok(Signals::block(&wanted.collect::<Vec<_>>())?)
}

/// The first signal that asked a run to end.
#[derive(Debug, Default)]
pub(super) struct Asked {
    first: Option<Instant>,
}

impl Asked {
    /// Notes a signal or a key that asks the run to end.
    pub(super) fn note(&mut self) {
        self.first.get_or_insert_with(Instant::now);
    }

    /// Notes a signal. Returns true for a second SIGINT or SIGTERM: the run must end without waiting for the packets
    /// in memory.
    pub(super) fn is_second(&mut self, signal: Signal) -> bool {
        let is_second = self.first.is_some_and(|first| first.elapsed() > SAME_SIGNAL);
        self.note();
        is_second && matches!(signal, Signal::SIGINT | Signal::SIGTERM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_sigint_or_sigterm_ends_a_run_and_a_second_sighup_does_not() {
        for (second, ends) in [(Signal::SIGINT, true), (Signal::SIGTERM, true), (Signal::SIGHUP, false)] {
            let mut asked = Asked::default();
            assert!(!asked.is_second(Signal::SIGTERM));
            assert!(!asked.is_second(second), "timeout(1) sends a signal twice");
            std::thread::sleep(SAME_SIGNAL + Duration::from_millis(20));
            assert_eq!(asked.is_second(second), ends, "{second}");
        }
    }
}
