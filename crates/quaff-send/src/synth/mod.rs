//! Synthetic traffic: frames of a recipe, each with its deadline.
//!
//! [`quaff_wire::synth`] makes the frames; here they get their deadlines ([`ArrivalPattern`]) and go to a sender
//! ([`Maker::into_feed`]) or into a file ([`write()`]). [`learn()`] reads sizes from a capture. Nothing here sends.

mod arrival;
mod feed;
mod learn;
mod write;

pub use arrival::{ArrivalClock, ArrivalPattern, OfferedRate};
pub use learn::learn;
pub use write::{WriteReport, write};

use quaff_wire::synth::Synth;

/// The end of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this number of frames.
    Frames(u64),
    /// Before this deadline, ns after the first frame.
    DueNs(u64),
    /// Never.
    Forever,
}

/// Makes the frames of a recipe with their deadlines.
#[derive(Debug, Clone)]
pub struct Maker {
    pub synth: Synth,
    pub clock: ArrivalClock,
    pub until: Until,
}

impl Maker {
    /// Number of frames, if known.
    fn planned(&self) -> Option<u64> {
        match self.until {
            Until::Frames(frames) => Some(frames),
            Until::DueNs(_) | Until::Forever => None,
        }
    }

    /// Makes the next frame. Returns its deadline, ns after the first one; `None` at the end.
    fn make(&mut self) -> Option<(u64, &[u8])> {
        let frames = self.synth.frames();
        let due_ns = self.clock.due_ns;
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
}
