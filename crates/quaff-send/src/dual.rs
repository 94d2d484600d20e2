//! Two captures of one link, one for each direction, merged by time: each leaves by its own interface.

use crate::arena::{Arena, FrameMeta};
use crate::error::SendError;
use crate::feed::Feed;
use crate::tally::FeedTally;

/// Read-ahead memory of each direction.
const SIDE_BYTES: usize = 1 << 20;
const SIDE_FRAMES: usize = 4096;

/// Two feeds as one.
pub struct DualFeed {
    sides: [Side; 2],
}

struct Side {
    feed: Box<dyn Feed>,
    ready: Arena,
    /// Frames of `ready` that were taken.
    at: usize,
    is_over: bool,
}

impl DualFeed {
    /// The first leaves by interface 0, the second by interface 1.
    pub fn new(first: Box<dyn Feed>, second: Box<dyn Feed>) -> Self {
        Self { sides: [Side::new(first), Side::new(second)] }
    }
}

impl Side {
    fn new(feed: Box<dyn Feed>) -> Self {
        Self { feed, ready: Arena::new(SIDE_BYTES, SIDE_FRAMES), at: 0, is_over: false }
    }

    /// The time of the next frame; `None` when none is ready.
    fn next_ns(&mut self) -> Result<Option<u64>, SendError> {
        if self.at == self.ready.len() && !self.is_over {
            self.ready.clear();
            self.at = 0;
            self.is_over = !self.feed.fill(&mut self.ready)?;
        }
        Ok((self.at < self.ready.len()).then(|| self.ready.frame(self.at).1.time_ns))
    }

    /// Returns whether no frame is ready and more may come.
    fn is_waiting(&self) -> bool {
        self.at == self.ready.len() && !self.is_over
    }
}

impl Feed for DualFeed {
    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        loop {
            let [first, second] = &mut self.sides;
            let (out, side) = match (first.next_ns()?, second.next_ns()?) {
                // The order is not known before both have a frame.
                _ if first.is_waiting() || second.is_waiting() => return Ok(true),
                (None, None) => return Ok(false),
                (Some(first_ns), Some(second_ns)) if first_ns > second_ns => (1, second),
                (None, Some(_)) => (1, second),
                (Some(_), _) => (0, first),
            };
            let (frame, meta) = side.ready.frame(side.at);
            if !arena.push(frame, FrameMeta { out, ..meta }) {
                return Ok(true);
            }
            side.at += 1;
        }
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        for side in &mut self.sides {
            if !side.feed.rewind()? {
                return Ok(false);
            }
            side.ready.clear();
            (side.at, side.is_over) = (0, false);
        }
        Ok(true)
    }

    fn bytes_hint(&self) -> Option<u64> {
        let [first, second] = &self.sides;
        Some(first.feed.bytes_hint()? + second.feed.bytes_hint()?)
    }

    fn tally(&self) -> FeedTally {
        let [first, second] = self.sides.each_ref().map(|side| side.feed.tally());
        FeedTally {
            seen: first.seen + second.seen,
            excluded: first.excluded + second.excluded,
            link_type: first.link_type + second.link_type,
            cut: first.cut + second.cut,
            ..first
        }
    }

    fn damage(&self) -> Option<String> {
        self.sides.iter().find_map(|side| side.feed.damage())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames with these times; a few at a time, and sometimes none.
    struct Times {
        all: Vec<u64>,
        at: usize,
        turn: usize,
    }

    impl Times {
        fn of(all: impl IntoIterator<Item = u64>) -> Box<dyn Feed> {
            Box::new(Self { all: all.into_iter().collect(), at: 0, turn: 0 })
        }
    }

    impl Feed for Times {
        fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
            self.turn += 1;
            for _ in 0..self.turn % 3 {
                let Some(&time_ns) = self.all.get(self.at) else { break };
                assert!(arena.push(&time_ns.to_be_bytes(), FrameMeta { time_ns, ..FrameMeta::default() }));
                self.at += 1;
            }
            Ok(self.at < self.all.len())
        }

        fn rewind(&mut self) -> Result<bool, SendError> {
            self.at = 0;
            Ok(true)
        }
    }

    fn all(feed: &mut DualFeed) -> Vec<(u64, u8)> {
        let (mut arena, mut out) = (Arena::new(80, 10), Vec::new());
        loop {
            arena.clear();
            let more = feed.fill(&mut arena).unwrap();
            out.extend(arena.frames().map(|(_, meta)| (meta.time_ns, meta.out)));
            if !more {
                return out;
            }
        }
    }

    #[test]
    fn frames_of_both_come_by_their_times() {
        let second = [0, 5, 6, 7, 50, 90, 91, 92, 93];
        let mut feed = DualFeed::new(Times::of((0..80).step_by(5)), Times::of(second));
        let mut expected: Vec<_> = (0..80).step_by(5).map(|time_ns| (time_ns, 0)).collect();
        expected.extend(second.map(|time_ns| (time_ns, 1)));
        expected.sort_unstable();
        for _ in 0..3 {
            assert_eq!(all(&mut feed), expected);
            assert!(feed.rewind().unwrap());
        }
        let mut one_sided = DualFeed::new(Times::of([]), Times::of([3, 4]));
        assert_eq!(all(&mut one_sided), [(3, 1), (4, 1)]);
    }
}
