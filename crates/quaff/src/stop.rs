//! How a run ends: one flag, the first reason, and bells for those who are asleep.
//!
//! [`Stop`] is how a run is told to end, [`Ends`] how it tells that it has.

use quaff_os::event::Event;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// SIGINT, SIGTERM.
    Signal,
    /// `--count` was reached.
    Count,
    /// The files that were read have ended.
    InputEnded,
    /// `--duration` was over.
    Duration,
    /// The reader of our output went away. That is success.
    OutputClosed,
    /// No room on the disk, and no rule that says what may go.
    DiskFull,
    /// A write failed.
    WriteError(String),
    /// An interface went away for good.
    InterfaceGone(String),
    /// A thread failed.
    Failed(String),
}

/// The flag. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicBool,
    reason: Mutex<Option<Reason>>,
    bells: Mutex<Vec<Event>>,
}

impl Stop {
    /// Has `bell` rung when the flag is raised.
    pub fn wake(&self, bell: Event) {
        self.inner.bells.lock().unwrap_or_else(PoisonError::into_inner).push(bell);
    }

    /// Raises the flag. The first reason is the one that is kept.
    pub fn raise(&self, reason: Reason) {
        self.inner.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        // Written by whoever ends the run, read by every lane: Release and Acquire, so that the
        // reason is there for those who see the flag.
        self.inner.raised.store(true, Ordering::Release);
        for bell in self.inner.bells.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            bell.ring();
        }
    }

    /// Whether the run is to end.
    pub fn raised(&self) -> bool {
        self.inner.raised.load(Ordering::Acquire)
    }

    /// Why, once it has been raised.
    pub fn reason(&self) -> Option<Reason> {
        self.inner.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether threads have ended, and a bell that the last one rings. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    left: Arc<AtomicUsize>,
    bell: Event,
}

/// Lives on a thread, and is dropped when that ends, whatever it dies of.
pub(crate) struct End(Ends);

impl Ends {
    /// For so many threads, each of which is given an [`End`].
    pub(crate) fn of(threads: usize) -> quaff_os::Result<Self> {
        Ok(Self { left: Arc::new(AtomicUsize::new(threads)), bell: Event::new()? })
    }

    pub(crate) fn end(&self) -> End {
        End(self.clone())
    }

    /// Whether the last one has ended.
    pub(crate) fn all(&self) -> bool {
        // Written by each thread when it ends (Release), read by who waits for them (Acquire): what
        // they did is there for whoever sees that none is left.
        self.left.load(Ordering::Acquire) == 0
    }

    pub(crate) fn bell(&self) -> &Event {
        &self.bell
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::Release) == 1 {
            self.0.bell.ring();
        }
    }
}

/// Raises the stop when the thread that it lives on dies of a panic: nobody waits for the dead.
pub(crate) struct Alarm(pub(crate) Stop);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise(Reason::Failed("a thread panicked".into()));
        }
    }
}
