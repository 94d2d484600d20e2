//! A lab as a site. [`Layout::Pair`]: frames are injected into the capturer's interface, as if from the wire. Layouts
//! with two senders: half of the traffic comes from each end, with its own probe headers, through a switch or a tap
//! that copies both directions to the capturer.

use super::arrivals::Arrivals;
use super::{Sent, Site, Watch, sending};
use crate::lab::{FAR, RX, TX};
use crate::traffic::{Out, Traffic};
use crate::{Lab, Result, interface_facts};
use quaff_os::{Netns, rtnl};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A lab, and the program that generates traffic in it.
#[derive(Debug)]
pub struct LabSite {
    pub lab: Lab,
    pub quaff: PathBuf,
}

impl LabSite {
    fn inject(
        &self,
        traffic: &Traffic,
        core: usize,
        watch: Watch<'_>,
        look: &mut dyn FnMut(),
    ) -> Result<Sent> {
        let mut command = self.lab.rx.command(&self.quaff)?;
        command.args(traffic.words(Out::Inject(RX.name), 1));
        // Injected frames pass no queue: every socket was offered the confirmed ones.
        sending::send(vec![command], Some(core), traffic, watch, look)
    }

    fn send_both_ways(
        &self,
        far: &Netns,
        traffic: &Traffic,
        core: usize,
        watch: Watch<'_>,
        look: &mut dyn FnMut(),
    ) -> Result<Sent> {
        let commands = senders([&self.lab.tx, far], &self.quaff, halves(traffic))?;
        let arrivals = self.lab.rx.run(|| Arrivals::begin(&rtnl::link(RX.name)?))??;
        let sum = sending::send(commands, Some(core), traffic, watch, look)?;
        let arrived = arrivals.finish(sum.sent)?;
        // A queue on the path drops before the last interface counts, so no offered frame is lost there.
        let (offered, others) = (arrived.frames.min(sum.sent), arrived.frames.saturating_sub(sum.sent));
        Ok(Sent { offered, others, ..sum })
    }
}

impl Site for LabSite {
    fn interface(&self) -> &str {
        RX.name
    }

    fn command(&self, program: &Path) -> Result<Command> {
        Ok(self.lab.rx.command(program)?)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.lab.rx.run(|| interface_facts(RX.name)).unwrap_or_default()
    }

    fn send(&self, traffic: &Traffic, core: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent> {
        match &self.lab.far {
            None => self.inject(traffic, core, watch, look),
            Some(far) => self.send_both_ways(far, traffic, core, watch, look),
        }
    }
}

/// The sender commands of the two ends, each with its part of the traffic and its own stream number.
pub(super) fn senders(ends: [&Netns; 2], quaff: &Path, parts: [Traffic; 2]) -> Result<Vec<Command>> {
    let mut commands = Vec::new();
    for (((end, interface), part), stream) in ends.into_iter().zip([TX, FAR]).zip(parts).zip(1..) {
        if part.count > 0 {
            let mut command = end.command(quaff)?;
            command.args(part.words(Out::Send(interface.name), stream));
            commands.push(command);
        }
    }
    Ok(commands)
}

/// The traffic of each end.
pub(super) fn halves(traffic: &Traffic) -> [Traffic; 2] {
    let less = |number: u64| number / 2;
    let more = |number: u64| number - number / 2;
    let half = |of: fn(u64) -> u64| Traffic {
        count: of(traffic.count),
        pps: traffic.pps.map(of),
        ..traffic.clone()
    };
    [half(more), half(less)]
}
