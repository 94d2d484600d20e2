//! The start and the constants that `capture` and `split` share. It never captures.

use crate::show::say;
use quaff_os::{Reason, Signal, Signals, Stop, is_ignored};
use std::time::Duration;

/// Interval of checks for the last write of an ending run.
pub(super) const LOOK_END: Duration = Duration::from_millis(2);
/// timeout(1) signals its child and then its process group: two signals within this time are one.
pub(super) const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// Blocks the signals that end a run, and `more`. SIGHUP stays ignored where it is, as by nohup(1).
pub(super) fn signals(more: &[Signal]) -> anyhow::Result<Signals> {
    let hangup = Some(Signal::SIGHUP).filter(|signal| !is_ignored(*signal));
    let wanted = [Signal::SIGINT, Signal::SIGTERM].into_iter().chain(hangup).chain(more.iter().copied());
    Ok(Signals::block(&wanted.collect::<Vec<_>>())?)
}

/// Starts a run on a thread of its own: locking memory and waiting for a pipe can take seconds, during which signals
/// must be handled. Returns `None` if a signal ended the start; `discard` then ends the run.
pub(super) fn start<T: Send + 'static, E: Send + Into<anyhow::Error> + 'static>(
    signals: &Signals,
    stop: &Stop,
    start: impl FnOnce(Stop) -> Result<T, E> + Send + 'static,
    discard: impl FnOnce(T),
) -> anyhow::Result<Option<T>> {
    let its_stop = stop.clone();
    let starting = std::thread::spawn(move || start(its_stop));
    while !starting.is_finished() {
        match signals.next(Duration::from_millis(5))?.map(|heard| heard.signal) {
            Some(Signal::SIGUSR1) | None => {}
            Some(_) if stop.raised() => {
                // The start may wait forever, such as for the reader of a pipe.
                say("quaff: ended before the first packet");
                std::process::exit(2);
            }
            Some(_) => stop.raise(Reason::Signal),
        }
    }
    let started = starting.join().map_err(|_| anyhow::anyhow!("a defect of quaff: the start panicked"))?;
    if stop.reason() == Some(Reason::Signal) {
        let _ = started.map(discard);
        say("quaff: ended before the first packet");
        return Ok(None);
    }
    started.map(Some).map_err(Into::into)
}
