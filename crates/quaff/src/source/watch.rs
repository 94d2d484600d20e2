//! `--hotplug`: watches for interfaces that come, and gives them to spare lanes. It never opens or reads a packet
//! socket.

use super::names::stand_for;
use super::spare::{Failure, Mailbox};
use crate::Result;
use crate::plan::HotplugPlan;
use quaff_os::rtnl::{Link, LinkMonitor, Rtnl};
use quaff_os::{Stop, Wakeup};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest wait for a change: lanes are asked then for what they could not bind.
const LOOK: Duration = Duration::from_millis(500);
/// Pause after a change, which comes as several messages.
const SETTLE: Duration = Duration::from_millis(2);
/// Sentences that are kept.
const MISSED_MAX: usize = 64;

/// Interfaces that came and are not captured: a sentence each. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct Missed(Arc<Mutex<Vec<String>>>);

impl Missed {
    /// Returns the sentences after the first `known` ones.
    pub fn since(&self, known: usize) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(known..).unwrap_or_default().to_vec()
    }

    fn add(&self, sentence: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MISSED_MAX {
            all.push(sentence);
        }
    }
}

/// The watch before its thread starts.
pub(crate) struct Watch {
    names: Vec<String>,
    mailboxes: Vec<Arc<Mailbox>>,
    /// Interfaces that are captured, or were missed, by index.
    known: BTreeSet<u32>,
    missed: Missed,
}

impl Watch {
    /// `known` are the interfaces of the start.
    pub(super) fn new(plan: &HotplugPlan, known: &[Link], mailboxes: Vec<Arc<Mailbox>>) -> Self {
        let known = known.iter().map(|link| link.index).collect();
        Self { names: plan.names.clone(), mailboxes, known, missed: Missed::default() }
    }

    pub(crate) fn missed(&self) -> Missed {
        self.missed.clone()
    }

    /// Opens the sockets, and starts the thread, which ends with `stop`.
    pub(crate) fn start(self, stop: &Stop) -> Result<JoinHandle<()>> {
        // Listening comes first, so that nothing is missed in between.
        let (monitor, rtnl, wakeup) = (LinkMonitor::open()?, Rtnl::open()?, Wakeup::new()?);
        stop.wake(wakeup.clone());
        let stop = stop.clone();
        Ok(quaff_os::spawn("quaff-hotplug", move || self.run(&monitor, rtnl, &wakeup, &stop))?)
    }

    fn run(mut self, monitor: &LinkMonitor, mut rtnl: Rtnl, wakeup: &Wakeup, stop: &Stop) {
        let (mut is_due, mut failure) = (true, None);
        while !stop.raised() {
            if is_due {
                // A list that could not be read is read again: it may have changed meanwhile.
                failure = rtnl.links().map(|links| self.look(&links)).err();
            }
            self.take_failures();
            is_due = match monitor.wait(wakeup, LOOK) {
                Ok(is_changed) => is_changed || failure.is_some(),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            if is_due {
                std::thread::sleep(SETTLE);
            }
        }
        self.take_failures();
        if let Some(error) = failure {
            self.missed.add(format!("interfaces that came may not be captured: {error}"));
        }
    }

    /// Gives each interface that has come to a free lane.
    fn look(&mut self, links: &[Link]) {
        self.known.retain(|index| links.iter().any(|link| link.index == *index));
        for link in links {
            if !stand_for(&self.names, link) || !self.known.insert(link.index) {
                continue;
            }
            if !self.mailboxes.iter().any(|mailbox| mailbox.offer(link)) {
                let (name, lanes) = (&link.name, self.mailboxes.len());
                self.missed.add(format!(
                    "{name} came and is not captured: no lane is left; use a larger `hotplug` (now {lanes})"
                ));
            }
        }
    }

    fn take_failures(&self) {
        for Failure { name, reason, .. } in self.mailboxes.iter().filter_map(|mailbox| mailbox.take_failure())
        {
            self.missed.add(format!("{name} came and is not captured: {reason}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str) -> Link {
        Link { index, name: name.into(), arphrd: 1, ..quaff_os::rtnl::link("lo").expect("lo") }
    }

    #[test]
    fn each_interface_that_comes_gets_a_lane_until_there_is_none() {
        let plan = HotplugPlan { names: vec!["veth*".into()], lanes: 2 };
        let mailboxes: Vec<_> = (0..2).map(|_| Arc::<Mailbox>::default()).collect();
        let mut watch = Watch::new(&plan, &[link(1, "veth0")], mailboxes.clone());
        watch.look(&[link(1, "veth0"), link(2, "eth0")]);
        watch.look(&[link(1, "veth0"), link(3, "veth3")]);
        watch.look(&[link(1, "veth0"), link(3, "veth3")]);
        // Removed and made again under its name.
        watch.look(&[link(1, "veth0"), link(4, "veth3")]);
        assert!(watch.missed().since(0).is_empty());
        assert!(mailboxes.iter().all(|mailbox| !mailbox.offer(&link(99, "test"))), "both have an interface");
        watch.look(&[link(4, "veth3"), link(5, "veth5")]);
        watch.look(&[link(4, "veth3"), link(5, "veth5")]);
        let missed = watch.missed().since(0);
        assert!(
            missed.len() == 1 && missed[0].starts_with("veth5 came and is not captured: no lane is left"),
            "{missed:?}"
        );
        assert!(watch.missed().since(1).is_empty() && watch.missed().since(9).is_empty());
    }
}
