//! Supervises a run: the calling thread watches while another thread sends. It never sends itself.

use crate::confirm::Confirm;
use crate::error::SendError;
use crate::state::{Snapshot, State, word};
use quaff_os::clock::steady_ns;
use quaff_os::{Interrupt, process, spawn_in};
use std::sync::OnceLock;
use std::time::Duration;

/// Interval at which the watcher is called, which bounds the delay until the end of a run is noticed, ns.
const WATCH_NS: u64 = 10_000_000;
/// Interval at which the confirming counters are read, ns: some have 32 bits and wrap.
const CONFIRM_NS: u64 = 1_000_000_000;

/// The watcher's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Continue.
    Go,
    /// Release one more frame of a stepwise run.
    Step,
    /// Stop the process until it is continued (SIGCONT), and send what follows that much later.
    Suspend,
    /// End early, with a report.
    Stop,
}

/// A run under supervision.
pub(crate) struct Run<'a> {
    pub(crate) state: &'a State,
    /// The sending thread, once it can be interrupted.
    pub(crate) interrupt: &'a OnceLock<Interrupt>,
    /// End of the run, ns after its first frame.
    pub(crate) stop_after_ns: Option<u64>,
    pub(crate) on_step: &'a dyn Fn(),
    /// Called, perhaps repeatedly, when the watcher stops the run or a counter cannot be read.
    pub(crate) on_stop: &'a dyn Fn(),
}

/// Calls `send` in a separate thread and watches until it returns. Returns its result, and `true` if the watcher
/// stopped the run.
pub(crate) fn supervise<T: Send>(
    run: &Run<'_>,
    send: impl FnOnce() -> T + Send,
    confirms: &mut [Confirm],
    watch: &mut impl FnMut(&Snapshot, Duration) -> Control,
) -> Result<(T, bool), SendError> {
    let state = run.state;
    std::thread::scope(|scope| {
        let sending = spawn_in(scope, "quaff-send", send)?;
        let (mut interrupted, mut watched) = (false, Ok(()));
        let mut confirm_at_ns = steady_ns() + CONFIRM_NS;
        while !sending.is_finished() {
            let now_ns = steady_ns();
            let wait_ns = run.remaining_ns(now_ns).min(WATCH_NS);
            match watch(&state.snapshot(now_ns), Duration::from_nanos(wait_ns)) {
                Control::Go => {}
                Control::Step => (run.on_step)(),
                Control::Suspend => suspend(state),
                Control::Stop => interrupted = true,
            }
            if now_ns >= confirm_at_ns && watched.is_ok() {
                watched = confirms.iter_mut().try_for_each(Confirm::poll);
                confirm_at_ns = now_ns + CONFIRM_NS;
            }
            if interrupted || watched.is_err() {
                (run.on_stop)();
            }
            if interrupted || watched.is_err() || run.remaining_ns(steady_ns()) == 0 {
                state.store(word::LIMIT, 0);
            }
            if state.left().is_none() || state.load(word::FAR_NS) > 0 {
                run.interrupt.get().inspect(|thread| thread.send());
            }
        }
        // A panic of the thread is a defect: propagate it.
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        watched?;
        Ok((sent, interrupted))
    })
}

/// Stops the process until it is continued. The sender waits for the word, so that it sends nothing late.
fn suspend(state: &State) {
    let (before, begun_ns) = (state.load(word::PAUSE), steady_ns());
    state.store(word::PAUSE, before | 1);
    // A process that cannot be stopped continues at once.
    let _ = process::stop_self();
    state.store(word::PAUSE, before + ((steady_ns() - begun_ns) << 1));
}

impl Run<'_> {
    /// Time until the run ends by the clock, ns.
    fn remaining_ns(&self, now_ns: u64) -> u64 {
        match (self.stop_after_ns, self.state.load(word::FIRST_NS)) {
            (None, _) | (_, 0) => u64::MAX,
            (Some(after_ns), first_ns) => first_ns.saturating_add(after_ns).saturating_sub(now_ns),
        }
    }
}
