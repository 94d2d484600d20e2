//! Synthetic traffic: frames of a recipe, each with its deadline.
//!
//! [`quaff_wire::synth`] builds the frames; here they get their deadlines ([`ArrivalPattern`]) and go to a sender
//! ([`Maker::into_feed`]) or to a file ([`Maker::write`]). [`learn_sizes`] reads sizes from a capture. Nothing here
//! sends.

mod arrival;
mod feed;
mod learn;
mod write;

pub use arrival::{ArrivalPattern, OfferedRate};
pub use learn::learn_sizes;
pub use write::WriteReport;

use crate::error::PlanError;
use crate::generate::Length;
use arrival::ArrivalClock;
use quaff_wire::synth::{Recipe, Synth};

/// Builds the frames of a recipe with their deadlines.
#[derive(Debug, Clone)]
pub struct Maker {
    pub synth: Synth,
    clock: ArrivalClock,
    length: Length,
}

impl Maker {
    /// Checks a recipe, a rate and a pattern. A duration ends before the frame that is due then.
    pub fn new(
        recipe: Recipe,
        offered: OfferedRate,
        pattern: ArrivalPattern,
        length: Length,
    ) -> Result<Self, PlanError> {
        let clock = ArrivalClock::new(offered, pattern, recipe.seed)?;
        Ok(Self { synth: Synth::new(recipe)?, clock, length })
    }

    /// Builds the next frame. Returns its deadline, ns after the first one; `None` at the end.
    fn make(&mut self) -> Option<(u64, &[u8])> {
        let frames = self.synth.frames();
        let due_ns = self.clock.due_ns;
        let is_over = match self.length {
            Length::Count(end) => frames >= end,
            Length::Duration(time) => u128::from(due_ns) >= time.as_nanos() && frames > 0,
            Length::Endless => false,
        };
        if is_over {
            return None;
        }
        let frame = self.synth.make(due_ns);
        self.clock.advance(frame.len());
        Some((due_ns, frame))
    }
}
