//! The feed of synthetic frames. It never sends.

use super::Maker;
use crate::arena::{Arena, FrameMeta};
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use crate::tally::FeedTally;
use quaff_wire::synth::Made;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames of a recipe; the times of their [`FrameMeta`] are their deadlines, from 0.
struct SynthFeed {
    /// The maker in its initial state.
    first: Maker,
    maker: Maker,
    /// Deadline of the frame that did not fit in the last arena.
    held_ns: Option<u64>,
    made: Arc<Mutex<Made>>,
}

impl Maker {
    /// A feed of the frames, and the counts of the frames made so far, slightly ahead of those sent.
    pub fn into_feed(self) -> (Box<dyn Feed>, Arc<Mutex<Made>>) {
        let made = Arc::<Mutex<Made>>::default();
        let feed = SynthFeed { first: self.clone(), maker: self, held_ns: None, made: made.clone() };
        (Box::new(feed), made)
    }
}

impl SynthFeed {
    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed for SynthFeed {
    fn begin(&mut self, _: bool) -> Result<(), SendError> {
        Ok(())
    }

    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        let more = loop {
            let due_ns = self.held_ns.take().or_else(|| self.maker.make().map(|(due_ns, _)| due_ns));
            let Some(due_ns) = due_ns else { break false };
            let frame = self.maker.synth.frame();
            let meta = FrameMeta { time_ns: due_ns, wire_len: frame.len() as u32, out: 0 };
            if !arena.push(frame, meta) {
                self.held_ns = Some(due_ns);
                break true;
            }
        };
        *self.made() = self.maker.synth.made();
        Ok(more)
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        self.maker = self.first.clone();
        self.held_ns = None;
        Ok(true)
    }

    fn tally(&self) -> FeedTally {
        FeedTally { seen: self.made().frames, ..FeedTally::default() }
    }

    fn flows(&self) -> Option<u64> {
        Some(self.made().flows)
    }

    fn longest(&self) -> Result<Option<Vec<u8>>, PlanError> {
        Ok(Some(self.first.synth.longest()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::testing::drain_times;
    use crate::generate::Length;
    use crate::synth::{ArrivalPattern, OfferedRate};
    use quaff_wire::synth::*;

    fn feed(frames: u64) -> Box<dyn Feed> {
        let recipe = Recipe {
            sizes: "64-200".parse::<Sizes>().unwrap(),
            size_limits: (1, 9000),
            content: Content::Random,
            link: LinkHeaders { dst_mac: [2; 6], src_mac: [4; 6], tags: Vec::new(), labels: Vec::new() },
            tunnel: None,
            tuples: Tuples {
                src: "10.0.0.0/24".parse().unwrap(),
                dst: "10.0.1.1".parse().unwrap(),
                src_ports: Ports::from(1),
                dst_ports: Ports::from(2),
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
        let rate = OfferedRate::Frames(1000.0);
        Maker::new(recipe, rate, ArrivalPattern::Constant, Length::Count(frames)).unwrap().into_feed().0
    }

    #[test]
    fn no_frame_is_lost_between_arenas_and_a_rewind_repeats_all() {
        let (mut small, mut large) = (feed(300), feed(300));
        let frames = drain_times(&mut *small, 500);
        assert_eq!(frames, drain_times(&mut *large, 1 << 20));
        assert_eq!(frames.len(), 300);
        assert!(frames.iter().zip(0..).all(|((_, time_ns), n)| *time_ns == n * 1_000_000));
        assert_eq!((small.flows(), small.tally().seen), (Some(5), 300));
        assert!(small.rewind().unwrap());
        assert_eq!(frames, drain_times(&mut *small, 500));
        assert_eq!(small.longest().unwrap().map(|frame| frame.len()), Some(200));
    }
}
