//! The meter of one direction: one thread at the kernel's ring, a book for each stream.
//!
//! It ends when all that was sent has come, or when it has waited long enough for the rest.

use super::filter::FOREIGN_BYTES;
use super::rx_stats::RxStats;
use super::{Board, LaneBoard, START_NS, TrialError};
use quaff::batch::{BATCH_FRAMES, Frame, Memory};
use quaff::source::afpacket::AfPacket;
use quaff::source::{Pull, Source};
use quaff_os::clock::steady_ns;
use quaff_os::machine::SoftnetMeter;
use quaff_wire::probe::Classified;
use quaff_wire::probe::trial::{self, TrialHeader};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long it waits for frames before it looks around.
const WAIT: Duration = Duration::from_millis(10);
/// When all have come, what comes twice may still be on its way, ns.
const LINGER_NS: u64 = 25_000_000;
/// A mark's time may be so much before the beginning, should a clock be adjusted at that moment, ns. Nothing is sent in
/// twice that time before a beginning.
const SLACK_NS: u64 = START_NS / 2;

/// The meter of one direction.
pub(super) struct Meter<'a> {
    pub(super) source: AfPacket,
    pub(super) books: Vec<RxStats<'a>>,
    /// When the trial begins, ns since 1970; what was sent before is an earlier one's.
    pub(super) begun_ns: u64,
    /// How long the last frames are waited for, ns.
    pub(super) residual_ns: u64,
    pub(super) board: &'a Board,
    pub(super) lane: &'a LaneBoard,
}

/// What a meter has to say.
pub(super) struct Metered<'a> {
    pub(super) books: Vec<RxStats<'a>>,
    pub(super) foreign: u64,
    pub(super) corrupt: u64,
    pub(super) meter_dropped: u64,
    pub(super) nic_dropped: u64,
    /// A frame had the card's time.
    pub(super) is_hardware_timed: bool,
}

/// What is none of the books'.
#[derive(Default)]
struct Others {
    foreign: u64,
    corrupt: u64,
    is_hardware_timed: bool,
}

impl<'a> Meter<'a> {
    /// Reads until the end.
    ///
    /// # Errors
    /// The ring's, and that the interface went away.
    pub(super) fn run(mut self) -> Result<Metered<'a>, TrialError> {
        // Frames that the kernel drops before its stack reach no meter. Where it does not say, none.
        let mut softnet = SoftnetMeter::open().ok();
        let mut frames = Vec::with_capacity(BATCH_FRAMES as usize);
        let mut others = Others::default();
        let (mut complete_since_ns, mut is_closed) = (None, false);
        loop {
            match self.source.pull(&mut frames, WAIT)? {
                Pull::Batch => {
                    let memory = Memory { bytes: self.source.bytes(), scratch: &[] };
                    take(&mut self.books, &mut others, memory, &frames, self.begun_ns);
                    self.source.release();
                    self.lane.received.store(self.received(), Ordering::Relaxed);
                }
                Pull::Idle => {}
                Pull::End => break,
            }
            if !is_closed && self.is_over(&mut complete_since_ns) {
                self.source.close()?;
                is_closed = true;
            }
        }
        let tally = Box::new(self.source).finish()?.lane;
        if !is_closed {
            return Err(TrialError::Gone(tally.interface));
        }
        let softnet = softnet.as_mut().and_then(|softnet| softnet.read().ok()).unwrap_or_default();
        Ok(Metered {
            books: self.books,
            foreign: others.foreign,
            corrupt: others.corrupt,
            meter_dropped: tally.kernel_dropped,
            nic_dropped: tally.nic_dropped + softnet.dropped,
            is_hardware_timed: others.is_hardware_timed,
        })
    }

    fn received(&self) -> u64 {
        self.books.iter().map(RxStats::received).sum()
    }

    /// Whether all has come, or enough time has passed since the last one was sent.
    fn is_over(&self, complete_since_ns: &mut Option<u64>) -> bool {
        // Written by the sender's thread at its end (Release): what it has sent is there for who sees the time.
        let done_ns = self.lane.done_ns.load(Ordering::Acquire);
        if done_ns == 0 {
            return false;
        }
        let now_ns = steady_ns();
        if self.received() < self.lane.sent.load(Ordering::Relaxed) {
            return self.board.is_abandoned() || now_ns - done_ns >= self.residual_ns;
        }
        // What goes round in a circle comes again after about as long as it took the first time.
        let delay_ns = self.books.iter().map(RxStats::delay_max_ns).max().unwrap_or(0);
        let linger_ns = (LINGER_NS + delay_ns).min(LINGER_NS.max(self.residual_ns));
        now_ns - *complete_since_ns.get_or_insert(now_ns) >= linger_ns
    }
}

/// Writes the frames of a batch down.
fn take(books: &mut [RxStats<'_>], others: &mut Others, memory: Memory<'_>, frames: &[Frame], begun_ns: u64) {
    let mut at = 0;
    for frame in frames {
        others.is_hardware_timed |= frame.flags & Frame::HARDWARE_TIME != 0;
        let read = match frame.len {
            FOREIGN_BYTES => Classified::Foreign,
            _ => trial::classify(memory.of(frame), frame.wire_len as usize, frame.time_ns),
        };
        let is_ours = match read {
            Classified::Foreign => false,
            Classified::Intact(mark) => write(books, &mut at, &mark, frame.time_ns, begun_ns),
            Classified::Corrupt => {
                others.corrupt += 1;
                continue;
            }
        };
        others.foreign += u64::from(!is_ours);
    }
}

/// Finds the book of a frame, probably that at `at`, and writes it down there.
#[inline]
fn write(
    books: &mut [RxStats<'_>],
    at: &mut usize,
    mark: &TrialHeader,
    arrived_ns: u64,
    begun_ns: u64,
) -> bool {
    if mark.sent_ns + SLACK_NS < begun_ns {
        return false;
    }
    if books.get(*at).is_none_or(|book| book.id() != mark.stream) {
        let Some(found) = books.iter().position(|book| book.id() == mark.stream) else { return false };
        *at = found;
    }
    books[*at].take(mark, arrived_ns)
}
