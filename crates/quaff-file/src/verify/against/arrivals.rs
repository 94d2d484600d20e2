//! Frames of a capture, one after the other, each matched with the frame of the file that it is.
//!
//! The n-th frame of the m-th loop has the position m * frames + n. A frame is expected at the position
//! behind the frame before it, so an arrival that belongs where it came costs one comparison. One
//! whose content stands more than once in the file is either the expected one or has no position: it
//! is counted, and says nothing about order. How many are lost or came twice is counted by content
//! and does not depend on positions.

use super::index::{Claim, Index};
use super::spread::Spread;
use quaff_wire::fingerprint::Sketch;
use std::collections::VecDeque;

/// Frames without an equal are looked for so many positions around where they came.
const AROUND: u64 = 256;
/// They wait until so many frames have come after them: the frame itself may still come.
const PATIENCE: u64 = 65_536;
/// So many wait at most.
const WAITING_MAX: usize = 1 << 20;

/// What has come so far.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) index: Index,
    /// Positions that were sent: 0 to here.
    sent: u64,
    /// The position of the frame matched last, and its time when it was also the last that came.
    last: Option<u64>,
    last_ns: Option<u64>,
    highest: Option<u64>,
    /// Frames matched so far.
    matched: u64,
    waiting: VecDeque<Stranger>,
    /// How many of their kind came since the last match.
    since: u64,
    patience: u64,
    pub(super) reordered: u64,
    /// By how many positions those came late.
    pub(super) late: Spread,
    /// By how much the time since the frame before differs from the file's, ns.
    pub(super) gaps: Spread,
    /// Frames that resemble one that did not come.
    pub(super) alike: u64,
    /// Frames that resemble none.
    pub(super) extra: u64,
}

/// A frame without an equal in the file.
#[derive(Debug)]
struct Stranger {
    sketch: Sketch,
    /// Where it should be, counted from the match before and from the match behind.
    guesses: [u64; 2],
    /// Just as many strangers came between these matches as frames are missing there.
    fits: bool,
    /// How many had been matched when it came.
    at: u64,
}

impl Arrivals {
    /// `sent` is how many frames were sent: those of the index, perhaps several times over.
    pub(super) fn new(index: Index, sent: u64) -> Self {
        // In the next loop nobody could tell any more that it was missing in this one.
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
            late: Spread::default(),
            gaps: Spread::default(),
            alike: 0,
            extra: 0,
        }
    }

    /// Takes the next frame of the capture.
    #[inline]
    pub(super) fn take(&mut self, content: u64, time_ns: u64, sketch: impl FnOnce() -> Sketch) {
        let next = self.last.map_or(0, |last| last + 1);
        if self.is_free(next) && self.index.is(self.place(next), content) {
            return self.settle(next, time_ns);
        }
        let Some(first) = self.index.find(content) else { return self.wait(sketch()) };
        match self.choose(first, content, next) {
            Some(position) => self.settle(position, time_ns),
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

    /// Whether nothing has come yet for a position, or only a frame that resembles it.
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

    /// The free position of a content, where it can be told.
    fn choose(&self, first: u32, content: u64, next: u64) -> Option<u64> {
        let position = if self.index.is_repeated(first) {
            let behind = self.highest.map_or(0, |highest| highest + 1);
            self.index.is(self.place(behind), content).then_some(behind)?
        } else {
            self.nearest(first, next)?
        };
        self.is_free(position).then_some(position)
    }

    /// The position of a place in the loop that brings it nearest to `next`.
    fn nearest(&self, place: u32, next: u64) -> Option<u64> {
        let (place, frames) = (u64::from(place), self.index.len());
        let last_turn = (self.sent.checked_sub(1)?.checked_sub(place)?) / frames;
        let turn = (next.saturating_sub(place) + frames / 2) / frames;
        Some(place + turn.min(last_turn) * frames)
    }

    /// Takes a frame for the one at `position`.
    #[inline]
    fn settle(&mut self, position: u64, time_ns: u64) {
        let (place, turn) = (self.place(position), self.turn(position));
        let entry = self.index.entry(place);
        if entry.claim() == Claim::Alike(turn) {
            // What resembled it was not it.
            self.alike -= 1;
            self.extra += 1;
        }
        entry.set(Claim::Same(turn));
        entry.got += 1;
        let gap_ns = entry.gap_ns;
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
            let gap = time_ns as i64 - before_ns as i64;
            self.gaps.add((gap as f64 - f64::from(gap_ns)).abs().round() as u64);
        }
        if self.since > 0 {
            self.bound(position);
        }
        self.last = Some(position);
        self.last_ns = Some(time_ns);
        self.matched += 1;
        while self.waiting.front().is_some_and(|stranger| self.matched - stranger.at > self.patience) {
            self.look();
        }
    }

    #[cold]
    fn wait(&mut self, sketch: Sketch) {
        if self.waiting.len() == WAITING_MAX {
            self.look();
        }
        let guess = self.last.map_or(0, |last| last + 1) + self.since;
        self.waiting.push_back(Stranger { sketch, guesses: [guess; 2], fits: false, at: self.matched });
        self.since += 1;
        self.last_ns = None;
    }

    /// Lets the strangers since the last match know of the match behind them.
    #[cold]
    fn bound(&mut self, position: u64) {
        let before = self.last.map_or(0, |last| last + 1);
        let fits = position.checked_sub(before) == Some(self.since);
        for (back, stranger) in (1..=self.since).zip(self.waiting.iter_mut().rev()) {
            stranger.guesses[1] = position.saturating_sub(back);
            stranger.fits = fits;
        }
        self.since = 0;
    }

    /// Looks for what the stranger that has waited longest may have been.
    #[cold]
    fn look(&mut self) {
        let Some(stranger) = self.waiting.pop_front() else { return };
        let found = self.with_changed_head(&stranger).or_else(|| self.with_changed_rest(&stranger));
        self.conclude(found);
    }

    fn conclude(&mut self, found: Option<u64>) {
        match found {
            Some(position) => {
                let (place, turn) = (self.place(position), self.turn(position));
                self.index.entry(place).set(Claim::Alike(turn));
                self.alike += 1;
            }
            None => self.extra += 1,
        }
    }

    /// The frame with the same second half: there is hardly another one.
    fn with_changed_head(&self, stranger: &Stranger) -> Option<u64> {
        let sketch = stranger.sketch;
        self.around(stranger, |entry| entry.half == sketch.half && entry.len == sketch.len)
    }

    /// The frame whose place this one takes, or one of the same flow.
    fn with_changed_rest(&self, stranger: &Stranger) -> Option<u64> {
        let (sketch, [ahead, _]) = (stranger.sketch, stranger.guesses);
        if stranger.fits && self.is_open(ahead) && self.sketch(ahead).len == sketch.len {
            return Some(ahead);
        }
        self.around(stranger, |entry| entry.flow == sketch.flow)
    }

    fn around(&self, stranger: &Stranger, is_it: impl Fn(Sketch) -> bool) -> Option<u64> {
        let [ahead, back] = stranger.guesses;
        let at = |distance: u64| {
            let around = |guess: u64| [guess.checked_add(distance), guess.checked_sub(distance)];
            [around(ahead), around(back)].into_iter().flatten().flatten()
        };
        (0..=AROUND).flat_map(at).find(|at| self.is_open(*at) && is_it(self.sketch(*at)))
    }

    /// Whether nothing at all has come yet for a position.
    fn is_open(&self, position: u64) -> bool {
        position < self.sent
            && match self.claim(position) {
                Claim::Free => true,
                Claim::Same(turn) | Claim::Alike(turn) => turn < self.turn(position),
            }
    }

    fn sketch(&self, position: u64) -> Sketch {
        self.index.entries[self.place(position) as usize].sketch()
    }

    /// All have come. Who is sure of a place takes it before the others.
    pub(super) fn finish(&mut self) {
        let mut unsure = Vec::new();
        for stranger in std::mem::take(&mut self.waiting) {
            match self.with_changed_head(&stranger) {
                Some(position) => self.conclude(Some(position)),
                None => unsure.push(stranger),
            }
        }
        for stranger in unsure {
            let found = self.with_changed_rest(&stranger);
            self.conclude(found);
        }
    }
}
