//! Tests with real packets: a path through an impaired link with known rules, and a plain link for the calibration.

mod methods;
mod path;

use super::plan::Path;
use super::session::Session;
use crate::testing::turn;
use crate::trial::PathEnd;
use quaff_lab::{FAR, Lab, LabPlan, Layout, MIDDLE_IFS, RX, TX};
use quaff_os::{Netns, cpu};
use quaff_testkit::impaired_link::{Counts, ImpairedLink, ImpairedLinkPlan, Rules};
use quaff_testkit::lab_of;
use std::sync::MutexGuard;

/// Two ends joined by an impaired link, and two joined by a plain one.
pub(super) struct Bed {
    through: Lab,
    bare: Lab,
    _turn: MutexGuard<'static, ()>,
}

impl Bed {
    /// Returns `None` after a skip.
    pub(super) fn new(test: &str) -> Option<Self> {
        let turn = turn();
        let through = lab_of(test, &LabPlan { layout: Layout::Apart, ..LabPlan::default() })?;
        let bare = lab_of(test, &LabPlan::default())?;
        Some(Self { through, bare, _turn: turn })
    }

    /// The sending end and the far end beyond the device.
    pub(super) fn ends(&self) -> [PathEnd; 2] {
        [end(&self.through.tx, TX.name), end(self.through.far.as_ref().expect("a second end"), FAR.name)]
    }

    /// The ends of the plain link.
    pub(super) fn null(&self) -> [PathEnd; 2] {
        [end(&self.bare.tx, TX.name), end(&self.bare.rx, RX.name)]
    }

    /// An open session over both.
    pub(super) fn session(&self) -> Session {
        let [from, to] = self.ends();
        Session::open(&Path::Between { from, to, routed: None }, Some(&self.null()), None).expect("a path")
    }

    /// Runs `work` while the link has these rules. Also returns the counters of the forward direction.
    pub(super) fn with<T>(&self, there: Rules, work: impl FnOnce() -> T) -> (T, Counts) {
        let core = cpu::allowed().expect("cores").last().copied();
        let plan = ImpairedLinkPlan { there, core, ..ImpairedLinkPlan::default() };
        let mid = self.through.mid.as_ref().expect("a middle");
        let device = ImpairedLink::start(mid, MIDDLE_IFS, &plan).expect("it starts");
        let done = work();
        let [counts, _] = device.stop().expect("it worked");
        assert_eq!(counts.missed, 0, "{counts:?}");
        (done, counts)
    }
}

pub(super) fn end(netns: &Netns, interface: &str) -> PathEnd {
    PathEnd { netns: Some(netns.name.clone()), interface: interface.to_owned() }
}
