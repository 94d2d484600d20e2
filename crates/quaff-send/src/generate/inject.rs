//! Injection of frames into the receive path: runs the BPF program of `program` on live frames.
//!
//! A call takes some 20 ms to set up, so a run is one call, in which the program keeps the pace. Only frames that are
//! too far apart to spin get one call each. It never builds frames itself.

use super::plan::Pacing;
use super::program::{self, Constants, Template};
use crate::bpf_live;
use crate::pacer;
use crate::state::{State, WORDS, word};
use quaff_os::Result;
use quaff_os::bpf::{ArrayMap, LiveRun, Program};
use quaff_os::clock;
use quaff_os::rtnl::Link;

/// Frames that the kernel collects per batch, if unpaced; their pages fit in the cache of a core.
const BATCH_UNPACED: u32 = 16;
/// Minimum interval at which each frame gets a call of its own (20 pps), ns.
const SLOW_NS: u64 = 50_000_000;
/// Lead time of such a call before its frame is due: the setup may take some ms, ns.
const LEAD_NS: u64 = 20_000_000;
/// Invocations of the program in such a call; each spins for at least 20 µs while its frame is not due.
const LEAD_REPEAT: u32 = 1000;
/// Distance of the next deadline above which the remaining invocations of the call return immediately, ns.
const FAR_NS: i32 = 25_000_000;

/// A program, ready to run.
pub(super) struct Injector {
    program: Program,
    template: Template,
    ifindex: u32,
    pacing: Pacing,
}

impl Injector {
    /// Loads the program, without sending.
    pub(super) fn new(pacing: &Pacing, link: &Link, template: Template) -> Result<(Self, State)> {
        let map = ArrayMap::new("quaff_state", WORDS)?;
        let constants = Constants {
            template: &template,
            interval: pacing.interval,
            far_ns: is_slow(pacing).then_some(FAR_NS),
            count: pacing.count,
            epoch_offset_ns: clock::epoch_offset_ns(),
        };
        let program = Program::load_xdp("quaff_generate", program::assemble(&constants, &map))?;
        Ok((Self { program, template, ifindex: link.index, pacing: *pacing }, State::Kernel(map)))
    }

    /// Injects until all frames are sent.
    pub(super) fn run(&self, state: &State) -> Result<()> {
        while let Some(left) = state.left() {
            if is_slow(&self.pacing)
                && !pacer::sleep_until(state.load(word::DUE_NS).saturating_sub(LEAD_NS), || {
                    state.left().is_none()
                })
            {
                break;
            }
            let batch = bpf_live::batch(self.pacing.interval_ns(), BATCH_UNPACED);
            let (frame, repeat) = (&self.template.bytes[..], self.repeat(left));
            bpf_live::run(&self.program, LiveRun { ifindex: self.ifindex, frame, repeat, batch })?;
        }
        Ok(())
    }

    /// Invocations of the program in one call. A paced one may be idle in any number of them, so it is repeated until
    /// the supervisor interrupts it.
    fn repeat(&self, left: u64) -> u32 {
        match self.pacing.interval {
            0 => left.min(u64::from(u32::MAX)) as u32,
            _ if is_slow(&self.pacing) => LEAD_REPEAT,
            _ => u32::MAX,
        }
    }
}

fn is_slow(pacing: &Pacing) -> bool {
    pacing.interval_ns() >= SLOW_NS
}
