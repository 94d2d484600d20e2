//! Merges two captures of one link, one per direction, by time. It never reads files or sends.

use crate::arena::{Arena, FrameMeta};
use crate::error::SendError;
use crate::feed::Feed;
use crate::tally::FeedTally;

/// Read-ahead memory per direction.
const SIDE_BYTES: usize = 1 << 20;
const SIDE_FRAMES: usize = 4096;

/// Two feeds merged by time.
struct DualFeed {
    sides: [Side; 2],
}

struct Side {
    feed: Box<dyn Feed>,
    ready: Arena,
    /// Number of frames of `ready` that have been taken.
    at: usize,
    is_over: bool,
}

/// Merges two feeds by time: frames of `first` leave through interface 0, those of `second` through interface 1.
pub fn merge(first: Box<dyn Feed>, second: Box<dyn Feed>) -> Box<dyn Feed> {
    Box::new(DualFeed { sides: [first, second].map(Side::new) })
}

impl Side {
    fn new(feed: Box<dyn Feed>) -> Self {
        Self { feed, ready: Arena::new(SIDE_BYTES, SIDE_FRAMES), at: 0, is_over: false }
    }

    /// Time of the next frame; `None` if no frame is ready.
    fn next_ns(&mut self) -> Result<Option<u64>, SendError> {
        if self.at == self.ready.len() && !self.is_over {
            self.ready.clear();
            self.at = 0;
            self.is_over = !self.feed.fill(&mut self.ready)?;
        }
        Ok((self.at < self.ready.len()).then(|| self.ready.frame(self.at).1.time_ns))
    }

    /// Returns `true` if no frame is ready and more may follow.
    fn is_waiting(&self) -> bool {
        self.at == self.ready.len() && !self.is_over
    }
}

impl Feed for DualFeed {
    fn begin(&mut self, loads_programs: bool) -> Result<(), SendError> {
        self.sides.iter_mut().try_for_each(|side| side.feed.begin(loads_programs))
    }

    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        loop {
            let [first, second] = &mut self.sides;
            let (out, side) = match (first.next_ns()?, second.next_ns()?) {
                // The order is unknown until both have a frame.
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
    use crate::feed::testing::{Frames, drain};

    /// Frames with these times, few for each call.
    fn times(times: impl IntoIterator<Item = u64>, burst: usize) -> Box<dyn Feed> {
        Box::new(Frames::new(
            times.into_iter().map(|time_ns| (time_ns.to_be_bytes().to_vec(), time_ns)),
            burst,
        ))
    }

    fn all(feed: &mut dyn Feed) -> Vec<(u64, u8)> {
        drain(feed, 80, 10).0.into_iter().map(|(_, meta)| (meta.time_ns, meta.out)).collect()
    }

    #[test]
    fn frames_of_two_directions_are_merged_by_time() {
        let second = [0, 5, 6, 7, 50, 90, 91, 92, 93];
        let mut feed = merge(times((0..80).step_by(5), 1), times(second, 2));
        let mut expected: Vec<_> = (0..80).step_by(5).map(|time_ns| (time_ns, 0)).collect();
        expected.extend(second.map(|time_ns| (time_ns, 1)));
        expected.sort_unstable();
        for _ in 0..3 {
            assert_eq!(all(&mut *feed), expected);
            assert!(feed.rewind().unwrap());
        }
        let mut one_sided = merge(times([], 1), times([3, 4], 1));
        assert_eq!(all(&mut *one_sided), [(3, 1), (4, 1)]);
    }
}
