//! The feed of a replay: the source of the frames to send, and a thread that reads ahead of the sender. It never sends.

use crate::arena::Arena;
use crate::error::{PlanError, SendError};
use crate::tally::FeedTally;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// A source of frames, which are streamed through arenas of fixed size.
pub trait Feed: Send {
    /// Called once before the first fill, when the sockets that send are open: nothing of the input is read earlier.
    /// With `loads_programs` the sender loads a BPF program when it knows the frames.
    fn begin(&mut self, loads_programs: bool) -> Result<(), SendError>;

    /// Appends frames until the arena is full or no frame is available at the moment. Returns `false` at the end of
    /// the source; the frames appended until then still count.
    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError>;

    /// Restarts with the same frames in the same order. Returns `false` if the source cannot be read again.
    fn rewind(&mut self) -> Result<bool, SendError> {
        Ok(false)
    }

    /// Approximate bytes of the frames of one pass, if known.
    fn bytes_hint(&self) -> Option<u64> {
        None
    }

    /// Counts of the first pass.
    fn tally(&self) -> FeedTally {
        FeedTally::default()
    }

    /// Number of distinct flows so far, if the source counts them; otherwise each frame is parsed to count them.
    fn flows(&self) -> Option<u64> {
        None
    }

    /// A frame as long as the longest one, if the source makes its frames and all of them should be sent.
    fn longest(&self) -> Result<Option<Vec<u8>>, PlanError> {
        Ok(None)
    }

    /// Describes the damage of a file that could not be read further; all frames before the damage are sent.
    fn damage(&self) -> Option<String> {
        None
    }
}

/// A thread that fills arenas ahead of the sender.
#[derive(Debug)]
pub(crate) struct ReadAhead<F> {
    full: Receiver<Result<Arena, SendError>>,
    empty: SyncSender<Arena>,
    thread: JoinHandle<F>,
    waits: u64,
}

impl<F: Feed + 'static> ReadAhead<F> {
    /// Starts a thread that fills `arenas` from `feed`; the sender recycles them.
    pub(crate) fn start(feed: F, arenas: Vec<Arena>) -> quaff_os::Result<Self> {
        let (empty, to_fill) = sync_channel(arenas.len());
        let (filled, full) = sync_channel(arenas.len());
        for arena in arenas {
            // The channel has a place for each.
            empty.try_send(arena).ok();
        }
        let thread = quaff_os::spawn("quaff-feed", move || run(feed, &to_fill, &filled))?;
        Ok(Self { full, empty, thread, waits: 0 })
    }

    /// Waits for the next arena, which may be empty; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Result<Arena, SendError>> {
        match self.full.try_recv() {
            Err(TryRecvError::Empty) => {
                self.waits += 1;
                self.full.recv().ok()
            }
            other => other.ok(),
        }
    }

    /// Number of arenas that were not ready in time, excluding the first one, which never is.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.saturating_sub(1)
    }

    /// Returns an arena to the thread, which fills it again.
    pub(crate) fn recycle(&mut self, arena: Arena) {
        // Fails after the end of the source, when no arena is needed.
        self.empty.send(arena).ok();
    }

    /// Ends the thread and returns the source.
    pub(crate) fn finish(self) -> F {
        let Self { full, empty, thread, .. } = self;
        // The thread ends when the channels close.
        drop((full, empty));
        // A panic of the thread is a defect: propagate it.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Body of the thread: ends with the source, with an error, or when the handle is dropped.
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
pub(crate) mod testing {
    //! A feed for tests, and a reader of all frames of a feed.

    use super::*;
    use crate::arena::FrameMeta;

    /// A feed of given frames, at most `burst` per call; 0: as many as fit.
    #[derive(Debug)]
    pub(crate) struct Frames {
        frames: Vec<(Vec<u8>, FrameMeta)>,
        burst: usize,
        at: usize,
    }

    impl Frames {
        pub(crate) fn new(frames: impl IntoIterator<Item = (Vec<u8>, u64)>, burst: usize) -> Self {
            let with_meta = |(frame, time_ns): (Vec<u8>, u64)| {
                let wire_len = frame.len() as u32;
                (frame, FrameMeta { time_ns, wire_len, out: 0 })
            };
            Self { frames: frames.into_iter().map(with_meta).collect(), burst, at: 0 }
        }

        pub(crate) fn boxed(frames: impl IntoIterator<Item = (Vec<u8>, u64)>) -> Box<dyn Feed> {
            Box::new(Self::new(frames, 0))
        }
    }

    impl Feed for Frames {
        fn begin(&mut self, _: bool) -> Result<(), SendError> {
            Ok(())
        }

        fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
            let most = if self.burst == 0 { usize::MAX } else { self.burst };
            let fitting = |(frame, meta): &&(Vec<u8>, FrameMeta)| arena.push(frame, *meta);
            self.at += self.frames[self.at..].iter().take(most).take_while(fitting).count();
            Ok(self.at < self.frames.len())
        }

        fn rewind(&mut self) -> Result<bool, SendError> {
            self.at = 0;
            Ok(true)
        }
    }

    /// All frames of a pass, read through arenas of this size, and the number of passes that ended meanwhile.
    pub(crate) fn drain(
        feed: &mut (impl Feed + ?Sized),
        bytes: usize,
        frames: usize,
    ) -> (Vec<(Vec<u8>, FrameMeta)>, u64) {
        let (mut arena, mut all, mut passes) = (Arena::new(bytes, frames), Vec::new(), 0);
        loop {
            arena.clear();
            let more = feed.fill(&mut arena).unwrap();
            passes += u64::from(arena.ends_pass);
            all.extend(arena.frames().map(|(frame, meta)| (frame.to_vec(), meta)));
            if !more {
                return (all, passes);
            }
        }
    }

    /// Like [`drain`], with the times of the frames only.
    pub(crate) fn drain_times(feed: &mut (impl Feed + ?Sized), bytes: usize) -> Vec<(Vec<u8>, u64)> {
        drain(feed, bytes, 100).0.into_iter().map(|(frame, meta)| (frame, meta.time_ns)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Frames;
    use super::*;

    fn numbers(end: u32) -> Frames {
        Frames::new((0..end).map(|number| (number.to_be_bytes().to_vec(), 0)), 0)
    }

    #[test]
    fn read_ahead_keeps_the_order() {
        let mut ahead = ReadAhead::start(numbers(1000), (0..3).map(|_| Arena::new(64, 9)).collect()).unwrap();
        let mut expected = 0u32;
        while let Some(arena) = ahead.next() {
            let arena = arena.unwrap();
            for (frame, _) in arena.frames() {
                assert_eq!(frame, expected.to_be_bytes());
                expected += 1;
            }
            ahead.recycle(arena);
        }
        assert_eq!(expected, 1000);
        assert!(!ahead.finish().fill(&mut Arena::new(64, 9)).unwrap(), "the source is at its end");
    }

    #[test]
    fn read_ahead_ends_when_it_is_finished_early() {
        let mut ahead = ReadAhead::start(numbers(1000), vec![Arena::new(64, 9)]).unwrap();
        assert_eq!(ahead.next().unwrap().unwrap().len(), 9);
        let mut next = Arena::new(64, 9);
        ahead.finish().fill(&mut next).unwrap();
        assert_eq!(next.frame(0).0, 9u32.to_be_bytes(), "no frame was read in vain");
    }
}
