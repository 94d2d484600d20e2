//! What tests of service tests share: a path through a device that is told what to do, and a bare link beside it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use quaff_bench::service::Session;
use quaff_bench::service::plan::Path;
use quaff_bench::trial::End;
use quaff_lab::lab::{FAR_IF, Layout, MIDDLE_IFS, RX_IF, TX_IF};
use quaff_lab::{Lab, LabPlan};
use quaff_os::{Netns, cpu};
use quaff_testkit::impaired_link::{Counts, ImpairedLink, ImpairedLinkPlan, Rules};
use quaff_testkit::lab_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Two cores: one path at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The machine to oneself.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two ends that a device of ours joins, and two that only a link does.
pub(crate) struct Bed {
    through: Lab,
    bare: Lab,
    _turn: MutexGuard<'static, ()>,
}

impl Bed {
    /// `None` after a skip that says why.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let turn = turn();
        let through = lab_of(test, &LabPlan { layout: Layout::Apart, ..LabPlan::default() })?;
        let bare = lab_of(test, &LabPlan::default())?;
        Some(Self { through, bare, _turn: turn })
    }

    /// From the end that sends, through the device, to the other end.
    pub(crate) fn ends(&self) -> [End; 2] {
        [end(&self.through.tx, TX_IF), end(self.through.far.as_ref().expect("a second end"), FAR_IF)]
    }

    /// The ends of the bare link.
    pub(crate) fn null(&self) -> [End; 2] {
        [end(&self.bare.tx, TX_IF), end(&self.bare.rx, RX_IF)]
    }

    /// Both of them, open.
    pub(crate) fn session(&self) -> Session {
        let [from, to] = self.ends();
        Session::open(&Path::Between { from, to, routed: None }, Some(&self.null())).expect("a path")
    }

    /// Does something while the device has these rules; what the device says of the way there, too.
    pub(crate) fn with<T>(&self, there: Rules, work: impl FnOnce() -> T) -> (T, Counts) {
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

fn end(netns: &Netns, interface: &str) -> End {
    End { netns: Some(netns.name.clone()), interface: interface.to_owned() }
}
