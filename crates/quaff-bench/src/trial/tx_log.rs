//! The sender's log, which the meter reads while both run: the first frame of each phase, and the send times.
//!
//! The meter needs the send times of lost frames. The log keeps the latest ones: for every frame while memory permits,
//! otherwise for every sixteenth.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of times that are kept: 2 MiB.
const TIMES_MAX: u64 = 1 << 18;
/// A longer stream keeps the time of one in 2^SHIFT frames, for its last four million.
const SHIFT: u32 = 4;

/// The log of one stream, written by one thread.
#[derive(Debug)]
pub(super) struct TxLog {
    /// Number of the first frame of each phase; `u64::MAX` before it begins.
    starts: Box<[AtomicU64]>,
    /// Frames with lower numbers may have been sent.
    end: AtomicU64,
    times: Box<[AtomicU64]>,
    shift: u32,
    /// Send time of the newest frame.
    newest_ns: AtomicU64,
}

impl TxLog {
    /// The log of a stream with `phases` phases and, if known, `frames` frames.
    pub(super) fn new(phases: usize, frames: Option<u64>) -> Self {
        let kept = frames.unwrap_or(u64::MAX).clamp(1, TIMES_MAX);
        let is_whole = frames.is_some_and(|frames| frames <= TIMES_MAX);
        Self {
            starts: (0..phases).map(|_| AtomicU64::new(u64::MAX)).collect(),
            end: AtomicU64::new(0),
            times: (0..kept).map(|_| AtomicU64::new(0)).collect(),
            shift: if is_whole { 0 } else { SHIFT },
            newest_ns: AtomicU64::new(0),
        }
    }

    /// Records that a phase starts with frame `seq`; may be repeated until that frame has been sent.
    pub(super) fn begin(&self, phase: usize, seq: u64) {
        self.starts[phase].store(seq, Ordering::Relaxed);
    }

    /// Records the time of a frame that is about to be sent, possibly again; later frames have not been sent.
    #[inline]
    pub(super) fn note(&self, seq: u64, sent_ns: u64) {
        if seq & self.mask() == 0 {
            let slot = (seq >> self.shift) % self.times.len() as u64;
            self.times[slot as usize].store(sent_ns, Ordering::Relaxed);
        }
        self.newest_ns.store(sent_ns, Ordering::Relaxed);
        // Written by the sender before it sends the frame, read by the meter after its arrival: Release, so that a
        // reader that sees the number also sees the times above.
        self.end.store(seq + 1, Ordering::Release);
    }

    /// Frames with lower numbers may have been sent.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// The phase in which a frame was sent; `hint` is tried first.
    #[inline]
    pub(super) fn phase_of(&self, seq: u64, hint: usize) -> usize {
        if self.start(hint) <= seq && seq < self.start(hint + 1) {
            return hint;
        }
        // The last phase that has started: a phase without frames starts with the same frame as the next one.
        (0..self.starts.len()).rev().find(|phase| self.start(*phase) <= seq).unwrap_or(0)
    }

    /// First number of a phase, and of the next one.
    pub(super) fn range_of(&self, phase: usize) -> (u64, u64) {
        (self.start(phase), self.start(phase + 1))
    }

    /// Send time of a frame, ns since 1970, interpolated between the kept times; `None` if it is no longer known.
    pub(super) fn sent_ns(&self, seq: u64) -> Option<u64> {
        let newest = self.end().checked_sub(1)?;
        let (slot, last) = (seq >> self.shift, newest >> self.shift);
        // The oldest entry may be overwritten during the read.
        let is_gone = self.shift > 0 && (last + 1).saturating_sub(slot) >= self.times.len() as u64;
        if seq > newest || is_gone {
            return None;
        }
        let time = |slot: u64| self.times[(slot % self.times.len() as u64) as usize].load(Ordering::Relaxed);
        let (before_ns, into) = (time(slot), seq & self.mask());
        let (after_ns, frames) = match slot == last {
            true => (self.newest_ns.load(Ordering::Relaxed), newest & self.mask()),
            false => (time(slot + 1), 1 << self.shift),
        };
        let span_ns = u128::from(after_ns.saturating_sub(before_ns)) * u128::from(into);
        Some(before_ns + (span_ns / u128::from(frames.max(1))) as u64)
    }

    fn start(&self, phase: usize) -> u64 {
        self.starts.get(phase).map_or(u64::MAX, |start| start.load(Ordering::Relaxed))
    }

    fn mask(&self) -> u64 {
        (1 << self.shift) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(frames: Option<u64>, sent: u64) -> TxLog {
        let log = TxLog::new(1, frames);
        log.begin(0, 0);
        (0..sent).for_each(|seq| log.note(seq, 1_000_000 + 10 * seq));
        log
    }

    #[test]
    fn each_time_of_a_short_stream_is_known() {
        let log = log(Some(1000), 1000);
        assert!((0..1000).all(|seq| log.sent_ns(seq) == Some(1_000_000 + 10 * seq)));
        assert_eq!((log.sent_ns(1000), log.end()), (None, 1000));
        let log = self::log(Some(TIMES_MAX), TIMES_MAX);
        assert_eq!(log.sent_ns(0), Some(1_000_000));
    }

    #[test]
    fn of_a_long_stream_the_latest_are_known() {
        let sent = 3 * (TIMES_MAX << SHIFT) + 5;
        for frames in [None, Some(1 << 40)] {
            let log = log(frames, sent);
            let first = sent - (TIMES_MAX << SHIFT) + 64;
            let last = (sent - 1) & !15;
            assert!((first..last).step_by(7).all(|seq| log.sent_ns(seq) == Some(1_000_000 + 10 * seq)));
            assert_eq!(log.sent_ns(last + 3), Some(1_000_000 + 10 * (last + 3)));
            assert_eq!(log.sent_ns(sent), None);
            assert_eq!((log.sent_ns(0), log.sent_ns(first - 200)), (None, None), "written over");
        }
    }

    #[test]
    fn phases_are_found_whatever_the_hint() {
        let log = TxLog::new(5, None);
        // The third phase has no frame, the fifth has not started.
        for (phase, seq) in [(0, 0), (1, 10), (2, 20), (3, 20)] {
            log.begin(phase, seq);
        }
        for hint in 0..5 {
            let phases = [0, 9, 10, 19, 20, 1000].map(|seq| log.phase_of(seq, hint));
            assert_eq!(phases, [0, 0, 1, 1, 3, 3], "hint {hint}");
        }
        log.begin(3, 25);
        log.begin(4, 30);
        assert_eq!([24, 25, 30].map(|seq| log.phase_of(seq, 2)), [2, 3, 4], "noted again");
    }
}
