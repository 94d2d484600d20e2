//! A source of frames to send, and a thread that reads ahead of the sender.

use crate::arena::Arena;
use crate::error::SendError;
use crate::tally::FeedTally;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// Where frames come from: files, or made up. They stream through arenas, so memory is bounded.
pub trait Feed: Send {
    /// Appends frames until the arena is full, nothing more comes, or nothing comes for the moment.
    /// `false`: nothing more will come (what was appended is still to be sent).
    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError>;

    /// Begins anew, with the same frames in the same order. `false`: it cannot.
    fn rewind(&mut self) -> Result<bool, SendError> {
        Ok(false)
    }

    /// How many bytes of frames one pass is about, where that is known.
    fn bytes_hint(&self) -> Option<u64> {
        None
    }

    /// What became of the packets that were there, in the first pass.
    fn tally(&self) -> FeedTally {
        FeedTally::default()
    }

    /// How many different flows have come so far, where the source knows; otherwise they are counted
    /// by looking at each frame.
    fn flows(&self) -> Option<u64> {
        None
    }

    /// What was wrong with a file that could not be read further; all that came before is sent.
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

/// A thread that fills arenas ahead of whoever sends them.
#[derive(Debug)]
pub struct Ahead<F> {
    full: Receiver<Result<Arena, SendError>>,
    empty: SyncSender<Arena>,
    thread: JoinHandle<F>,
    waits: u64,
}

impl<F: Feed + 'static> Ahead<F> {
    /// Begins to fill the arenas, which go round, from `feed`.
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

    /// The next arena with frames, perhaps none; `None` at the end. Waits for it.
    #[allow(clippy::should_implement_trait, reason = "an arena has to be given back")]
    pub fn next(&mut self) -> Option<Result<Arena, SendError>> {
        match self.full.try_recv() {
            Err(TryRecvError::Empty) => {
                self.waits += 1;
                self.full.recv().ok()
            }
            other => other.ok(),
        }
    }

    /// How often the next arena was not there in time. The first one never is.
    pub fn waits(&self) -> u64 {
        self.waits.saturating_sub(1)
    }

    /// Gives an arena back, to be filled again.
    pub fn give_back(&mut self, arena: Arena) {
        // After the end nobody wants it.
        self.empty.send(arena).ok();
    }

    /// Ends it, wherever it is, and gives the source back.
    pub fn finish(self) -> F {
        let Self { full, empty, thread, .. } = self;
        // Without arenas the thread ends; what it has filled is thrown away here.
        drop((full, empty));
        // A panic in the thread is a defect; it goes on here.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The thread: ends with the source, with an error, or when the other end is gone.
fn run<F: Feed>(mut feed: F, empty: &Receiver<Arena>, full: &SyncSender<Result<Arena, SendError>>) -> F {
    while let Ok(mut arena) = empty.recv() {
        arena.clear();
        let more = feed.fill(&mut arena);
        let goes_on = matches!(more, Ok(true));
        if full.send(more.map(|_| arena)).is_err() || !goes_on {
            break;
        }
    }
    feed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Meta;

    struct Count(u32, u32);

    impl Feed for Count {
        fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
            while self.0 < self.1 && arena.push(&self.0.to_be_bytes(), Meta::default()) {
                self.0 += 1;
            }
            Ok(self.0 < self.1)
        }
    }

    #[test]
    fn all_comes_in_order_whoever_is_faster() {
        let mut ahead = Ahead::start(Count(0, 1000), (0..3).map(|_| Arena::new(64, 9)).collect());
        let mut expected = 0u32;
        while let Some(arena) = ahead.next() {
            let arena = arena.unwrap();
            for (frame, _) in arena.frames() {
                assert_eq!(frame, expected.to_be_bytes());
                expected += 1;
            }
            ahead.give_back(arena);
        }
        assert_eq!((expected, ahead.finish().0), (1000, 1000));
        let mut left = Ahead::start(Count(0, 1000), vec![Arena::new(64, 9)]);
        assert_eq!(left.next().unwrap().unwrap().len(), 9);
        assert_eq!(left.finish().0, 9);
    }
}
