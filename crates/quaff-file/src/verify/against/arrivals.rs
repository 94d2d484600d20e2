//! Matches the frames of a capture, in order, with those of the file.
//!
//! The n-th frame of the m-th loop has the position m * frames + n. A frame is expected at the position
//! after its predecessor, so a frame in order costs one comparison. A frame whose content occurs more than
//! once in the file is either the expected one or has no position: it is counted, but not for the order.
//! Lost and duplicate frames are counted by content, independently of positions.

use super::index::{Claim, Index};
use crate::histogram::Histogram;
use quaff_wire::fingerprint::Sketch;
use std::collections::VecDeque;

/// Positions around an unmatched frame that are searched for a similar one.
const SEARCH_DISTANCE: u64 = 256;
/// Number of later frames that an unmatched frame waits for: the original may still come.
const PATIENCE: u64 = 65_536;
/// Largest number of waiting frames.
const WAITING_MAX: usize = 1 << 20;

/// The frames received so far.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) index: Index,
    /// Number of positions sent.
    sent: u64,
    /// The position of the last matched frame, and its time if no unmatched frame followed.
    last: Option<u64>,
    last_ns: Option<u64>,
    highest: Option<u64>,
    /// Number of frames matched so far.
    matched: u64,
    waiting: VecDeque<Unmatched>,
    /// Number of unmatched frames since the last match.
    since: u64,
    patience: u64,
    pub(super) reordered: u64,
    /// Positions by which reordered frames were late.
    pub(super) late: Histogram,
    /// Differences between the frame spacing of the capture and of the file, ns.
    pub(super) gaps: Histogram,
    /// Frames similar to one that was not received.
    pub(super) similar: u64,
    /// Frames similar to none.
    pub(super) extra: u64,
}

/// A frame whose content is not in the file.
#[derive(Debug)]
struct Unmatched {
    sketch: Sketch,
    /// Its expected positions, counted from the previous and from the next match.
    guesses: [u64; 2],
    /// The number of unmatched frames between these matches equals that of the frames missing there.
    fits: bool,
    /// Number of frames matched before it.
    at: u64,
}

impl Arrivals {
    /// `sent` is the number of frames sent, over all loops of the index.
    pub(super) fn new(index: Index, sent: u64) -> Self {
        // In the next loop, a frame missing in this one could no longer be recognised.
        let patience = if sent > index.len() { PATIENCE.min(index.len() / 2) } else { PATIENCE };
        Self {
            index,
            sent,
            patience,
            last: None,
            last_ns: None,
            highest: None,
            matched: 0,
            waiting: VecDeque::new(),
            since: 0,
            reordered: 0,
            late: Histogram::default(),
            gaps: Histogram::default(),
            similar: 0,
            extra: 0,
        }
    }

    /// Takes the next frame of the capture.
    #[inline]
    pub(super) fn take(&mut self, content: u64, time_ns: u64, sketch: impl FnOnce() -> Sketch) {
        let next = self.last.map_or(0, |last| last + 1);
        if self.is_free(next) && self.index.is(self.place(next), content) {
            return self.accept(next, time_ns);
        }
        let Some(first) = self.index.find(content) else { return self.wait(sketch()) };
        match self.choose(first, content, next) {
            Some(position) => self.accept(position, time_ns),
            None => {
                self.index.entry(first.into()).got += 1;
                self.last_ns = None;
            }
        }
    }

    fn place(&self, position: u64) -> u64 {
        let frames = self.index.len();
        if position < frames { position } else { position % frames.max(1) }
    }

    fn turn(&self, position: u64) -> u32 {
        (position / self.index.len().max(1)) as u32
    }

    /// Returns `true` if no frame, or only a similar one, was received for a position.
    fn is_free(&self, position: u64) -> bool {
        position < self.sent
            && match self.claim(position) {
                Claim::Same(turn) => turn < self.turn(position),
                _ => true,
            }
    }

    fn claim(&self, position: u64) -> Claim {
        self.index.entries[self.place(position) as usize].claim()
    }

    /// Returns the free position of a content, if it is unambiguous.
    fn choose(&self, first: u32, content: u64, next: u64) -> Option<u64> {
        let position = if self.index.is_repeated(first) {
            let following = self.highest.map_or(0, |highest| highest + 1);
            self.index.is(self.place(following), content).then_some(following)?
        } else {
            self.nearest(first, next)?
        };
        self.is_free(position).then_some(position)
    }

    /// Returns the position of a place in the loop that is nearest to `next`.
    fn nearest(&self, place: u32, next: u64) -> Option<u64> {
        let (place, frames) = (u64::from(place), self.index.len());
        let last_turn = (self.sent.checked_sub(1)?.checked_sub(place)?) / frames;
        let turn = (next.saturating_sub(place) + frames / 2) / frames;
        Some(place + turn.min(last_turn) * frames)
    }

    /// Matches a frame with the one at `position`.
    #[inline]
    fn accept(&mut self, position: u64, time_ns: u64) {
        let (place, turn) = (self.place(position), self.turn(position));
        let entry = self.index.entry(place);
        if entry.claim() == Claim::Similar(turn) {
            // The similar frame was a different one.
            self.similar -= 1;
            self.extra += 1;
        }
        entry.set(Claim::Same(turn));
        entry.got += 1;
        match self.highest {
            Some(highest) if highest > position => {
                self.reordered += 1;
                self.late.add(highest - position);
            }
            _ => self.highest = Some(position),
        }
        if let (Some(before_ns), true) =
            (self.last_ns, self.last == Some(position.wrapping_sub(1)) && place > 0)
        {
            let gap_ns = time_ns.wrapping_sub(before_ns) as i64;
            self.gaps.add(gap_ns.abs_diff(self.index.gap_ns(place)));
        }
        if self.since > 0 {
            self.bound(position);
        }
        self.last = Some(position);
        self.last_ns = Some(time_ns);
        self.matched += 1;
        while self.waiting.front().is_some_and(|unmatched| self.matched - unmatched.at > self.patience) {
            self.resolve_oldest();
        }
    }

    #[cold]
    fn wait(&mut self, sketch: Sketch) {
        if self.waiting.len() == WAITING_MAX {
            self.resolve_oldest();
        }
        let guess = self.last.map_or(0, |last| last + 1) + self.since;
        self.waiting.push_back(Unmatched { sketch, guesses: [guess; 2], fits: false, at: self.matched });
        self.since += 1;
        self.last_ns = None;
    }

    /// Records the match after the unmatched frames since the last match.
    #[cold]
    fn bound(&mut self, position: u64) {
        let before = self.last.map_or(0, |last| last + 1);
        let fits = position.checked_sub(before) == Some(self.since);
        for (back, unmatched) in (1..=self.since).zip(self.waiting.iter_mut().rev()) {
            unmatched.guesses[1] = position.saturating_sub(back);
            unmatched.fits = fits;
        }
        self.since = 0;
    }

    /// Searches for the original of the unmatched frame that has waited longest.
    #[cold]
    fn resolve_oldest(&mut self) {
        let Some(unmatched) = self.waiting.pop_front() else { return };
        let found = self.with_changed_head(&unmatched).or_else(|| self.with_changed_rest(&unmatched));
        self.conclude(found);
    }

    fn conclude(&mut self, found: Option<u64>) {
        match found {
            Some(position) => {
                let (place, turn) = (self.place(position), self.turn(position));
                self.index.entry(place).set(Claim::Similar(turn));
                self.similar += 1;
            }
            None => self.extra += 1,
        }
    }

    /// Searches for a frame with the same second half, which is nearly unique.
    fn with_changed_head(&self, unmatched: &Unmatched) -> Option<u64> {
        let sketch = unmatched.sketch;
        self.search_near(unmatched, |entry| entry.half == sketch.half && entry.len == sketch.len)
    }

    /// Returns the frame in whose place this one came, or searches for one of the same flow, or else for one of the
    /// same length where frames are missing: the addresses of a short frame, which may have changed, are in its second
    /// half too.
    fn with_changed_rest(&self, unmatched: &Unmatched) -> Option<u64> {
        let (sketch, [ahead, _]) = (unmatched.sketch, unmatched.guesses);
        if unmatched.fits && self.is_unclaimed(ahead) && self.sketch(ahead).len == sketch.len {
            return Some(ahead);
        }
        self.search_near(unmatched, |entry| entry.flow == sketch.flow).or_else(|| self.in_gap(unmatched))
    }

    /// Searches for a frame of the same length between the matches before and after an unmatched one, at its place
    /// among the other unmatched ones there.
    fn in_gap(&self, unmatched: &Unmatched) -> Option<u64> {
        let [first, last] = unmatched.guesses;
        let is_it = |at: &u64| self.is_unclaimed(*at) && self.sketch(*at).len == unmatched.sketch.len;
        (first..=last).take(SEARCH_DISTANCE as usize).find(is_it)
    }

    fn search_near(&self, unmatched: &Unmatched, is_it: impl Fn(Sketch) -> bool) -> Option<u64> {
        let [ahead, back] = unmatched.guesses;
        let at = |distance: u64| {
            let around = |guess: u64| [guess.checked_add(distance), guess.checked_sub(distance)];
            [around(ahead), around(back)].into_iter().flatten().flatten()
        };
        (0..=SEARCH_DISTANCE).flat_map(at).find(|at| self.is_unclaimed(*at) && is_it(self.sketch(*at)))
    }

    /// Returns `true` if not even a similar frame was received for a position.
    fn is_unclaimed(&self, position: u64) -> bool {
        position < self.sent
            && match self.claim(position) {
                Claim::Free => true,
                Claim::Same(turn) | Claim::Similar(turn) => turn < self.turn(position),
            }
    }

    fn sketch(&self, position: u64) -> Sketch {
        self.index.entries[self.place(position) as usize].sketch()
    }

    /// Resolves the waiting frames after the end of the capture; those with the same second half first.
    pub(super) fn finish(&mut self) {
        if self.since > 0 {
            self.bound(self.sent);
        }
        let mut unsure = Vec::new();
        for unmatched in std::mem::take(&mut self.waiting) {
            match self.with_changed_head(&unmatched) {
                Some(position) => self.conclude(Some(position)),
                None => unsure.push(unmatched),
            }
        }
        for unmatched in unsure {
            let found = self.with_changed_rest(&unmatched);
            self.conclude(found);
        }
    }
}
