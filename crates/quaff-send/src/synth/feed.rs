//! A [`Maker`] as a source of what is replayed.

use super::Maker;
use crate::arena::{Arena, FrameMeta};
use crate::error::SendError;
use crate::feed::Feed;
use crate::tally::FeedTally;
use quaff_wire::synth::Made;
use std::sync::{Arc, Mutex, PoisonError};

/// Frames of a recipe; the times of their [`FrameMeta`] are those at which they are due, from 0.
#[derive(Debug)]
pub struct SynthFeed {
    /// As it was in the beginning.
    first: Maker,
    maker: Maker,
    /// Deadline of the frame that found no room in the last arena.
    held_ns: Option<u64>,
    made: MadeSoFar,
}

/// Counts of the frames made, somewhat ahead of those sent.
#[derive(Debug, Clone, Default)]
pub struct MadeSoFar(Arc<Mutex<Made>>);

impl MadeSoFar {
    /// As it is now.
    pub fn get(&self) -> Made {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, made: Made) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = made;
    }
}

impl SynthFeed {
    /// Nothing is made yet.
    pub fn new(maker: Maker) -> Self {
        Self { first: maker.clone(), maker, held_ns: None, made: MadeSoFar::default() }
    }

    /// A handle to the counts.
    pub fn made(&self) -> MadeSoFar {
        self.made.clone()
    }
}

impl Feed for SynthFeed {
    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        let more = loop {
            let due_ns = self.held_ns.take().or_else(|| self.maker.make().map(|(due_ns, _)| due_ns));
            let Some(due_ns) = due_ns else { break false };
            let frame = self.maker.frame();
            let meta = FrameMeta { time_ns: due_ns, wire_len: frame.len() as u32, out: 0 };
            if !arena.push(frame, meta) {
                self.held_ns = Some(due_ns);
                break true;
            }
        };
        self.made.set(self.maker.made());
        Ok(more)
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        self.maker = self.first.clone();
        self.held_ns = None;
        Ok(true)
    }

    fn tally(&self) -> FeedTally {
        FeedTally { seen: self.made.get().frames, ..FeedTally::default() }
    }

    fn flows(&self) -> Option<u64> {
        Some(self.made.get().flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{ArrivalClock, ArrivalPattern, OfferedRate, Until};
    use quaff_wire::synth::*;

    fn feed(frames: u64) -> SynthFeed {
        let recipe = Recipe {
            sizes: Sizes::parse("64-200").unwrap(),
            size_limits: (1, 9000),
            content: Content::Random,
            link: LinkHeaders { dst_mac: [2; 6], src_mac: [4; 6], tags: Vec::new(), labels: Vec::new() },
            tunnel: None,
            tuples: Tuples {
                src: "10.0.0.0/24".parse().unwrap(),
                dst: "10.0.1.1".parse().unwrap(),
                src_ports: Ports::one(1),
                dst_ports: Ports::one(2),
            },
            flows: Flows { concurrent: 5, new: New::Never },
            kind: PacketKind::Udp,
            fragment: None,
            damage: Damage::default(),
            stream: None,
            seed: 1,
            start_ns: 0,
            count: None,
        };
        let clock = ArrivalClock::new(OfferedRate::Frames(1000.0), ArrivalPattern::Constant, 1).unwrap();
        SynthFeed::new(Maker::new(Synth::new(recipe).unwrap(), clock, Until::Frames(frames)))
    }

    /// All frames, through arenas of this many bytes.
    fn all(feed: &mut SynthFeed, bytes: usize) -> Vec<(Vec<u8>, u64)> {
        let mut arena = Arena::new(bytes, 100);
        let mut frames = Vec::new();
        loop {
            arena.clear();
            let more = feed.fill(&mut arena).unwrap();
            frames.extend(arena.frames().map(|(frame, meta)| (frame.to_vec(), meta.time_ns)));
            if !more {
                return frames;
            }
        }
    }

    #[test]
    fn no_frame_is_lost_between_arenas_and_all_come_again() {
        let (mut small, mut large) = (feed(300), feed(300));
        let frames = all(&mut small, 500);
        assert_eq!(frames, all(&mut large, 1 << 20));
        assert_eq!(frames.len(), 300);
        assert!(frames.iter().zip(0..).all(|((_, time_ns), n)| *time_ns == n * 1_000_000));
        assert_eq!((small.flows(), small.tally().seen), (Some(5), 300));
        assert!(small.rewind().unwrap());
        assert_eq!(frames, all(&mut small, 500));
    }
}
