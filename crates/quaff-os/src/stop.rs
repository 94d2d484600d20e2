//! The end of a run: [`Stop`] requests it, with the first reason and the wakeups of waiting threads.

use crate::wakeup::Wakeup;
use serde::Serialize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The reason why a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// SIGINT, SIGTERM.
    Signal,
    /// The packet limit was reached.
    Count,
    /// All input files are read.
    InputEnded,
    /// The time limit was reached.
    Duration,
    /// The limit of the output's size was reached.
    Size,
    /// The limit of the number of files was reached.
    Files,
    /// The reader of the output closed it. This is a success.
    OutputClosed,
    /// The disk is full, and no retention rule permits to remove files.
    DiskFull,
    WriteError(String),
    /// An interface was removed: its name and what happened, "eth0 was removed".
    InterfaceGone(String),
    Failed(String),
}

/// The flag that ends a run. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Set once: the flag is raised when there is a reason.
    reason: OnceLock<Reason>,
    wakeups: Mutex<Vec<Wakeup>>,
}

impl Stop {
    /// Signals `wakeup` when the flag is raised.
    pub fn wake(&self, wakeup: Wakeup) {
        self.inner.wakeups.lock().unwrap_or_else(PoisonError::into_inner).push(wakeup);
    }

    /// Raises the flag. Only the first reason is kept.
    pub fn raise(&self, reason: Reason) {
        let _ = self.inner.reason.set(reason);
        for wakeup in self.inner.wakeups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wakeup.signal();
        }
    }

    /// Returns whether the run must end.
    pub fn raised(&self) -> bool {
        self.inner.reason.get().is_some()
    }

    /// The reason, once the flag is raised.
    pub fn reason(&self) -> Option<Reason> {
        self.inner.reason.get().cloned()
    }
}
