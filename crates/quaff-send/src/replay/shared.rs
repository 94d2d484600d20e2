//! The state that the threads of a replay share. It sends nothing.

use super::passes::Passes;
use super::plan::ReplayPlan;
use crate::state::{State, word};
use crate::transmitter::Outlet;
use quaff_os::rtnl::Link;
use quaff_os::{Interrupt, Stop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The state that the threads of a run share.
pub(super) struct Shared<'a> {
    pub(super) plan: &'a ReplayPlan,
    /// The interface and the optional second one.
    pub(super) links: &'a [Link],
    /// Why the transmit path was chosen, if the plan left it open.
    pub(super) why: Option<String>,
    /// Totals of each interface of a user-space backend.
    pub(super) outlets: OnceLock<Vec<Outlet>>,
    pub(super) state: State,
    pub(super) stop: Stop,
    /// Number of frames to send; [`u64::MAX`] until that is known.
    pub(super) total: AtomicU64,
    /// True at the end of the run: no more frames are sent.
    pub(super) over: AtomicBool,
    /// The source with its counts, after the end of the sending thread.
    pub(super) passes: Mutex<Option<Passes>>,
    pub(super) interrupt: OnceLock<Interrupt>,
}

impl Shared<'_> {
    pub(super) fn link(&self) -> &Link {
        &self.links[0]
    }

    /// Sets the number of frames to send, which also releases them unless the run is stepwise.
    pub(super) fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        if !self.plan.stepwise && !self.stop.raised() {
            self.state.store(word::LIMIT, total);
        }
    }

    /// Stores the source, for its counts.
    pub(super) fn keep(&self, passes: Passes) {
        *self.passes.lock().unwrap_or_else(PoisonError::into_inner) = Some(passes);
    }

    /// Returns `true` at the end of the run, when no thread sends or prepares frames.
    pub(super) fn is_over(&self) -> bool {
        self.stop.raised() || self.over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.state.store(word::LIMIT, 0);
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(super) fn step(&self) {
        let next = self.state.load(word::LIMIT).saturating_add(1);
        self.state.store(word::LIMIT, next.min(self.total()));
    }
}
