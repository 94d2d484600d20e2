//! A source of frames to send, and a thread that reads ahead of the sender.

use crate::arena::Arena;
use crate::error::SendError;
use crate::tally::FeedTally;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// A source of frames. They stream through arenas, so memory is bounded.
pub trait Feed: Send {
    /// Appends frames until the arena is full or none is available at the moment. Returns `false` at the end of the
    /// source; the frames appended are still to be sent.
    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError>;

    /// Restarts with the same frames in the same order. Returns `false` if it cannot.
    fn rewind(&mut self) -> Result<bool, SendError> {
        Ok(false)
    }

    /// Approximate bytes of frames in one pass, where that is known.
    fn bytes_hint(&self) -> Option<u64> {
        None
    }

    /// Counts of the first pass.
    fn tally(&self) -> FeedTally {
        FeedTally::default()
    }

    /// Number of different flows so far, where the source knows it; otherwise each frame is parsed to count them.
    fn flows(&self) -> Option<u64> {
        None
    }

    /// Describes the damage of a file that could not be read further; all frames before it are sent.
    fn damage(&self) -> Option<String> {
        None
    }
}

impl Feed for Box<dyn Feed> {
    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        (**self).fill(arena)
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        (**self).rewind()
    }

    fn bytes_hint(&self) -> Option<u64> {
        (**self).bytes_hint()
    }

    fn tally(&self) -> FeedTally {
        (**self).tally()
    }

    fn flows(&self) -> Option<u64> {
        (**self).flows()
    }

    fn damage(&self) -> Option<String> {
        (**self).damage()
    }
}

/// A thread that fills arenas ahead of the sender.
#[derive(Debug)]
pub struct ReadAhead<F> {
    full: Receiver<Result<Arena, SendError>>,
    empty: SyncSender<Arena>,
    thread: JoinHandle<F>,
    waits: u64,
}

impl<F: Feed + 'static> ReadAhead<F> {
    /// Starts to fill the arenas, which are recycled, from `feed`.
    pub fn start(feed: F, arenas: Vec<Arena>) -> Self {
        let (empty, to_fill) = sync_channel(arenas.len());
        let (filled, full) = sync_channel(arenas.len());
        for arena in arenas {
            // There is a place for each.
            empty.try_send(arena).ok();
        }
        let thread = std::thread::spawn(move || run(feed, &to_fill, &filled));
        Self { full, empty, thread, waits: 0 }
    }

    /// Waits for the next arena, which may be empty; `None` at the end.
    #[allow(clippy::should_implement_trait, reason = "an arena has to be recycled")]
    pub fn next(&mut self) -> Option<Result<Arena, SendError>> {
        match self.full.try_recv() {
            Err(TryRecvError::Empty) => {
                self.waits += 1;
                self.full.recv().ok()
            }
            other => other.ok(),
        }
    }

    /// Number of arenas that were not ready in time; the first one never is, and is not counted.
    pub fn waits(&self) -> u64 {
        self.waits.saturating_sub(1)
    }

    /// Returns an arena, to be filled again.
    pub fn recycle(&mut self, arena: Arena) {
        // After the end it is not needed.
        self.empty.send(arena).ok();
    }

    /// Ends the thread and returns the source.
    pub fn finish(self) -> F {
        let Self { full, empty, thread, .. } = self;
        // Without arenas the thread ends; those that it has filled are dropped here.
        drop((full, empty));
        // A panic in the thread is a defect: it continues here.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The thread. Ends with the source, with an error, or when its owner is dropped.
fn run<F: Feed>(mut feed: F, empty: &Receiver<Arena>, full: &SyncSender<Result<Arena, SendError>>) -> F {
    while let Ok(mut arena) = empty.recv() {
        arena.clear();
        let more = feed.fill(&mut arena);
        let continues = matches!(more, Ok(true));
        if full.send(more.map(|_| arena)).is_err() || !continues {
            break;
        }
    }
    feed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::FrameMeta;

    struct Count(u32, u32);

    impl Feed for Count {
        fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
            while self.0 < self.1 && arena.push(&self.0.to_be_bytes(), FrameMeta::default()) {
                self.0 += 1;
            }
            Ok(self.0 < self.1)
        }
    }

    #[test]
    fn all_comes_in_order_whoever_is_faster() {
        let mut ahead = ReadAhead::start(Count(0, 1000), (0..3).map(|_| Arena::new(64, 9)).collect());
        let mut expected = 0u32;
        while let Some(arena) = ahead.next() {
            let arena = arena.unwrap();
            for (frame, _) in arena.frames() {
                assert_eq!(frame, expected.to_be_bytes());
                expected += 1;
            }
            ahead.recycle(arena);
        }
        assert_eq!((expected, ahead.finish().0), (1000, 1000));
        let mut left = ReadAhead::start(Count(0, 1000), vec![Arena::new(64, 9)]);
        assert_eq!(left.next().unwrap().unwrap().len(), 9);
        assert_eq!(left.finish().0, 9);
    }
}
