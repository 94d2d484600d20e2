//! How a run ends: one flag, the first reason, and bells for those who are asleep.

use quaff_os::event::Event;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Raises the stop when the thread that it lives on dies of a panic: nobody waits for the dead.
pub(crate) struct Alarm(pub(crate) Stop);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise(Reason::Failed("a thread panicked".into()));
        }
    }
}
