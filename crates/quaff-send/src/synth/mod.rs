//! Made-up traffic as something to be sent: frames of a recipe, each with the time at which it is due.
//!
//! The frames are made by [`quaff_wire::synth`]; here they get their time ([`Shape`]), and flow to
//! whoever sends them ([`SynthFeed`]) or into a file ([`write()`]). [`learn()`] reads sizes from a capture.

mod feed;
mod learn;
mod shape;
mod write;

pub use feed::{MadeSoFar, SynthFeed};
pub use learn::{LearnError, learn};
pub use shape::{Clock, Pace, Shape, ShapeError};
pub use write::{WriteReport, write};

use quaff_wire::synth::{Made, Synth};

/// When there is nothing more to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After so many frames.
    Frames(u64),
    /// When a frame would be due so long after the first, ns.
    DueNs(u64),
    /// Never.
    Forever,
}

/// Frames of a recipe with their times.
#[derive(Debug, Clone)]
pub struct Maker {
    synth: Synth,
    clock: Clock,
    until: Until,
}

impl Maker {
    /// Nothing is made yet.
    pub fn new(synth: Synth, clock: Clock, until: Until) -> Self {
        Self { synth, clock, until }
    }

    /// What was made so far.
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

    /// Makes the next frame; says when it is due, ns after the first one. `None`: all was made.
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
