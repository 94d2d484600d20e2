//! Two ends that talk through a switch or a tap, which shows the capturer both directions.

use super::arrivals::Arrivals;
use super::{Sent, Site, Watch, sending};
use crate::lab::{FAR_IF, RX_IF, TX_IF};
use crate::traffic::{Out, Traffic};
use crate::{Error, Lab, Result, interface_facts};
use quaff_os::rtnl;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A lab of two ends and a capturer; half of the traffic comes from each end, with stamps of its own.
#[derive(Debug)]
pub struct TwoEnds {
    lab: Lab,
    quaff: PathBuf,
}

impl TwoEnds {
    /// In `lab`, whose [layout](crate::lab::Layout) has two ends; `quaff` is the program of ours that generates.
    ///
    /// # Errors
    /// It has only one.
    pub fn new(lab: Lab, quaff: PathBuf) -> Result<Self> {
        match lab.far() {
            Some(_) => Ok(Self { lab, quaff }),
            None => Err(Error::Place(format!("the lab {} has no second end", lab.name()))),
        }
    }
}

impl Site for TwoEnds {
    fn interface(&self) -> &str {
        RX_IF
    }

    fn command(&self, program: &Path) -> Result<Command> {
        self.lab.command_rx(program)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.lab.rx().run(|| interface_facts(RX_IF)).unwrap_or_default()
    }

    fn send(&self, traffic: &Traffic, core: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent> {
        let ends = [(Some(self.lab.tx()), TX_IF), (self.lab.far(), FAR_IF)];
        let mut commands = Vec::new();
        for (((end, interface), half), stream) in ends.into_iter().zip(halves(traffic)).zip(1..) {
            if let (Some(end), 1..) = (end, half.count) {
                let mut command = end.command(&self.quaff)?;
                command.args(half.words(Out::Send(interface), stream));
                commands.push(command);
            }
        }
        let arrivals = self.lab.rx().run(|| Arrivals::begin(rtnl::link(RX_IF)?.index))??;
        let said = sending::send(commands, Some(core), traffic, watch, look)?;
        let arrived = arrivals.finish(said.sent)?;
        // A queue on the way drops before the last interface counts: nothing of what was offered is lost there.
        let (offered, others) = (arrived.frames.min(said.sent), arrived.frames.saturating_sub(said.sent));
        Ok(Sent { offered, others, ..said.into() })
    }
}

/// What each end sends.
fn halves(traffic: &Traffic) -> [Traffic; 2] {
    let less = |number: u64| number / 2;
    let more = |number: u64| number - number / 2;
    let half = |of: fn(u64) -> u64| Traffic {
        count: of(traffic.count),
        pps: traffic.pps.map(of),
        ..traffic.clone()
    };
    [half(more), half(less)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_together_send_what_is_wanted() {
        for (pps, count) in [(Some(1001), 7), (None, 8), (Some(1), 1)] {
            let [one, other] = halves(&Traffic::bytes(64, pps, count));
            assert_eq!(one.count + other.count, count);
            assert_eq!(pps, one.pps.zip(other.pps).map(|(one, other)| one + other));
        }
    }
}
