//! Synthetic traffic: frames of a recipe, each with its deadline.
//!
//! [`quaff_wire::synth`] makes the frames; here they get their deadlines ([`ArrivalPattern`]) and go to a sender
//! ([`SynthFeed`]) or into a file ([`write()`]). [`learn()`] reads sizes from a capture.

mod arrival;
mod feed;
mod learn;
mod write;

pub use arrival::{ArrivalClock, ArrivalError, ArrivalPattern, OfferedRate};
pub use feed::{MadeSoFar, SynthFeed};
pub use learn::{LearnError, learn};
pub use write::{WriteReport, write};

use quaff_wire::synth::{Made, Synth};

/// The end of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After so many frames.
    Frames(u64),
    /// At this deadline, ns after the first frame.
    DueNs(u64),
    /// Never.
    Forever,
}

/// Frames of a recipe with their times.
#[derive(Debug, Clone)]
pub struct Maker {
    synth: Synth,
    clock: ArrivalClock,
    until: Until,
}

impl Maker {
    /// Prepares the frames; none is made yet.
    pub fn new(synth: Synth, clock: ArrivalClock, until: Until) -> Self {
        Self { synth, clock, until }
    }

    /// Counts of the frames made so far.
    pub fn made(&self) -> Made {
        self.synth.made()
    }

    /// Frames in all, where that is known.
    pub fn planned(&self) -> Option<u64> {
        match self.until {
            Until::Frames(frames) => Some(frames),
            Until::DueNs(_) | Until::Forever => None,
        }
    }

    /// Makes the next frame. Returns its deadline, ns after the first one; `None` at the end.
    pub fn make(&mut self) -> Option<(u64, &[u8])> {
        let frames = self.synth.frames();
        let due_ns = self.clock.due_ns();
        let is_over = match self.until {
            Until::Frames(end) => frames >= end,
            Until::DueNs(end_ns) => due_ns >= end_ns && frames > 0,
            Until::Forever => false,
        };
        if is_over {
            return None;
        }
        let frame = self.synth.make(due_ns);
        self.clock.advance(frame.len());
        Some((due_ns, frame))
    }

    /// The frame that was made last.
    pub fn frame(&self) -> &[u8] {
        self.synth.frame()
    }
}
