//! Frames that arrive on an interface: the BPF program of `program`, run on live frames.
//!
//! One call sets up for some 20 ms, so a run is one call: the program keeps the pace. Only when
//! frames are so far apart that a core should not spin for them is there one call for each.

use super::plan::Pacing;
use super::program::{self, Constants, Template};
use crate::pacer;
use crate::state::{State, WORDS, word};
use quaff_os::bpf::{ArrayMap, LiveRun, Program};
use quaff_os::clock;
use quaff_os::rtnl::Link;
use quaff_os::{Errno, Error, Result};

/// Frames of this size are accepted by all kernels that have live frames: page size (4096) minus
/// headroom, `struct xdp_page_head` and `struct skb_shared_info`, which vary a little (6.18: 3408).
const FRAME_BYTES_SURE: usize = 3400;
/// Frames that the kernel collects before it hands them on, when there is no pace to keep: few
/// enough that all their pages stay in the core's cache.
const BATCH_UNPACED: u32 = 16;
/// A paced frame may wait so long for others that leave with it.
const BATCH_NS: u64 = 4_000;
/// From here on (20 pps) frames are paced by one call for each.
const SLOW_NS: u64 = 50_000_000;
/// So long before its frame is due such a call is made: setting up may take some ms.
const LEAD_NS: u64 = 20_000_000;
/// Runs of the program in such a call; each spins at least 20 µs while its frame is not due.
const LEAD_REPEAT: u32 = 1000;
/// The frame after it is so far off that the rest of the call returns at once.
const FAR_NS: i32 = 25_000_000;

/// A program, ready to run.
pub(super) struct Injector {
    program: Program,
    template: Template,
    ifindex: u32,
    pacing: Pacing,
}

impl Injector {
    /// Loads the program; nothing is sent yet.
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

    /// Injects until nothing is left to send.
    pub(super) fn run(&self, state: &State) -> Result<()> {
        while let Some(left) = state.left() {
            if is_slow(&self.pacing)
                && !pacer::sleep_until(state.load(word::DUE_NS).saturating_sub(LEAD_NS), || {
                    state.left().is_none()
                })
            {
                break;
            }
            let (repeat, batch) = (self.repeat(left), self.batch());
            let run = LiveRun { ifindex: self.ifindex, frame: self.template.bytes(), repeat, batch };
            match self.program.run_live(run) {
                Err(error) if error.raw() != Errno::EINTR as i32 => return Err(self.explain(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs of the program in one call. A paced one may run idle any number of times, so it continues
    /// until the watcher interrupts it.
    fn repeat(&self, left: u64) -> u32 {
        match self.pacing.interval {
            0 => left.min(u64::from(u32::MAX)) as u32,
            _ if is_slow(&self.pacing) => LEAD_REPEAT,
            _ => u32::MAX,
        }
    }

    fn batch(&self) -> u32 {
        match self.pacing.interval_ns() {
            0 => BATCH_UNPACED,
            interval_ns => (BATCH_NS / interval_ns).clamp(1, u64::from(BATCH_UNPACED)) as u32,
        }
    }

    fn explain(&self, error: Error) -> Error {
        if error.raw() != Errno::EINVAL as i32 {
            error
        } else if self.template.bytes().len() > FRAME_BYTES_SURE {
            error.advise("the kernel injects frames of one page less its headroom; send larger ones with -o")
        } else {
            error.advise("BPF live frames need Linux 5.18 or newer")
        }
    }
}

fn is_slow(pacing: &Pacing) -> bool {
    pacing.interval_ns() >= SLOW_NS
}
