//! The meter of one direction: one thread that reads the kernel's ring and counts arrivals per stream.
//!
//! It ends when all frames have arrived, or after the residual time.

use super::board::{Board, LaneBoard, START_NS};
use super::error::TrialError;
use super::filter::FOREIGN_BYTES;
use super::rx_stats::RxStats;
use quaff::batch::{BATCH_FRAMES, Frame, Memory};
use quaff::source::AfPacket;
use quaff::source::{Pull, Source};
use quaff_os::clock::steady_ns;
use quaff_os::softnet::SoftnetMeter;
use quaff_wire::probe::{Classified, TrialHeader};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum wait for frames.
const WAIT: Duration = Duration::from_millis(10);
/// Time to wait for duplicates after all frames have arrived, ns.
const LINGER_NS: u64 = 25_000_000;
/// Tolerance for a send time before the trial's start, in case a clock is adjusted, ns. Nothing is sent within twice
/// that time before a start.
const SLACK_NS: u64 = START_NS / 2;

/// The meter of one direction.
pub(super) struct Meter<'a> {
    pub(super) source: AfPacket,
    /// Start of the trial, ns since 1970; frames sent earlier belong to a previous trial.
    pub(super) begun_ns: u64,
    /// Residual time: wait for the last frames, ns.
    pub(super) residual_ns: u64,
    pub(super) board: &'a Board,
    pub(super) lane: &'a LaneBoard,
    pub(super) arrivals: Arrivals<'a>,
}

/// The counters of a meter.
#[derive(Default)]
pub(super) struct Arrivals<'a> {
    pub(super) streams: Vec<RxStats<'a>>,
    /// Index of the latest frame's stream, the likely stream of the next frame.
    pub(super) latest: usize,
    pub(super) foreign: u64,
    pub(super) corrupt: u64,
    pub(super) meter_dropped: u64,
    pub(super) nic_dropped: u64,
    /// True if any frame had a timestamp of the card's clock.
    pub(super) is_hardware_timed: bool,
}

impl<'a> Meter<'a> {
    /// Reads until the end.
    ///
    /// # Errors
    /// Those of the ring, or the interface was removed.
    pub(super) fn run(mut self) -> Result<Arrivals<'a>, TrialError> {
        // Counts frames that the kernel drops before its stack, if readable.
        let mut softnet = SoftnetMeter::open().ok();
        let mut frames = Vec::with_capacity(BATCH_FRAMES as usize);
        let (mut complete_since_ns, mut is_closed) = (None, false);
        loop {
            match self.source.pull(&mut frames, WAIT)? {
                Pull::Batch => {
                    let memory = Memory { bytes: self.source.bytes(), scratch: &[], options: &[], ids: &[] };
                    self.arrivals.take(memory, &frames, self.begun_ns);
                    self.source.release();
                    self.lane.received.store(self.arrivals.received(), Ordering::Relaxed);
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
        let rises = softnet.as_mut().and_then(|softnet| softnet.read().ok());
        let backlog = rises.map_or(0, |rises| rises.of(tally.link.cores.as_ref()).dropped);
        let nic_dropped = tally.nic_dropped + tally.tap().may_lack(backlog);
        Ok(Arrivals { meter_dropped: tally.kernel_dropped, nic_dropped, ..self.arrivals })
    }

    /// True if all frames have arrived, or the residual time is over.
    fn is_over(&self, complete_since_ns: &mut Option<u64>) -> bool {
        // Written by the sender's thread at its end (Release): a reader that sees it also sees the counts of all sent
        // frames.
        let done_ns = self.lane.done_ns.load(Ordering::Acquire);
        if done_ns == 0 {
            return false;
        }
        let now_ns = steady_ns();
        if self.arrivals.received() < self.lane.sent.load(Ordering::Relaxed) {
            return self.board.abandoned.load(Ordering::Relaxed) || now_ns - done_ns >= self.residual_ns;
        }
        // A frame in a forwarding loop returns after about its first delay.
        let delay_ns = self.arrivals.streams.iter().map(RxStats::delay_max_ns).max().unwrap_or(0);
        let linger_ns = (LINGER_NS + delay_ns).min(LINGER_NS.max(self.residual_ns));
        now_ns - *complete_since_ns.get_or_insert(now_ns) >= linger_ns
    }
}

impl Arrivals<'_> {
    fn received(&self) -> u64 {
        self.streams.iter().map(|stream| stream.received).sum()
    }

    /// Counts the frames of a batch.
    fn take(&mut self, memory: Memory<'_>, frames: &[Frame], begun_ns: u64) {
        for frame in frames {
            self.is_hardware_timed |= frame.flags & Frame::HARDWARE_TIME != 0;
            let class = match frame.len {
                FOREIGN_BYTES => Classified::Foreign,
                _ => TrialHeader::classify(memory.of(frame), frame.wire_len as usize, frame.time_ns),
            };
            match class {
                Classified::Corrupt => self.corrupt += 1,
                Classified::Intact(header) if self.count(&header, frame.time_ns, begun_ns) => {}
                Classified::Intact(_) | Classified::Foreign => self.foreign += 1,
            }
        }
    }

    /// Counts a frame in its stream, which is tried at `latest` first; `false` if it is not part of this trial.
    #[inline]
    fn count(&mut self, header: &TrialHeader, arrived_ns: u64, begun_ns: u64) -> bool {
        if header.sent_ns + SLACK_NS < begun_ns {
            return false;
        }
        let is_its = |stream: &RxStats<'_>| stream.id == header.stream;
        if !self.streams.get(self.latest).is_some_and(is_its) {
            let Some(found) = self.streams.iter().position(is_its) else { return false };
            self.latest = found;
        }
        self.streams[self.latest].take(header, arrived_ns)
    }
}
