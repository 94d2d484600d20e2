//! How a run ends: one flag, the first reason, and wakeups for those who are asleep.
//!
//! [`Stop`] is how a run is told to end, [`Ends`] how it tells that it has.

use crate::wakeup::Wakeup;
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
    wakeups: Mutex<Vec<Wakeup>>,
}

impl Stop {
    /// Has `wakeup` signalled when the flag is raised.
    pub fn wake(&self, wakeup: Wakeup) {
        self.inner.wakeups.lock().unwrap_or_else(PoisonError::into_inner).push(wakeup);
    }

    /// Raises the flag. The first reason is the one that is kept.
    pub fn raise(&self, reason: Reason) {
        self.inner.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        // Written by whoever ends the run, read by every lane: Release and Acquire, so that the
        // reason is there for those who see the flag.
        self.inner.raised.store(true, Ordering::Release);
        for wakeup in self.inner.wakeups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wakeup.signal();
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

/// Whether threads have ended, and a wakeup that the last one signals. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Ends {
    left: Arc<AtomicUsize>,
    wakeup: Wakeup,
}

/// Lives on a thread, and is dropped when that ends, whatever it dies of.
pub struct End(Ends);

impl Ends {
    /// For so many threads, each of which is given an [`End`].
    pub fn of(threads: usize) -> crate::Result<Self> {
        Ok(Self { left: Arc::new(AtomicUsize::new(threads)), wakeup: Wakeup::new()? })
    }

    pub fn end(&self) -> End {
        End(self.clone())
    }

    /// Whether the last one has ended.
    pub fn all(&self) -> bool {
        // Written by each thread when it ends (Release), read by who waits for them (Acquire): what
        // they did is there for whoever sees that none is left.
        self.left.load(Ordering::Acquire) == 0
    }

    pub fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::Release) == 1 {
            self.0.wakeup.signal();
        }
    }
}

/// Raises the stop when the thread that it lives on dies of a panic: nobody waits for the dead.
pub struct Alarm(pub Stop);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise(Reason::Failed("a thread panicked".into()));
        }
    }
}
