//! The arrivals of one stream: tallies per phase and second, delays, and loss periods.

use super::delay_variation::DelayVariation;
use super::plan::StreamPlan;
use super::report::StreamReport;
use super::sender::SentStream;
use super::tally::{self, Received, Seconds, at};
use super::tx_log::TxLog;
use super::window::{Arrival, WINDOW_FRAMES, Window};
use quaff_wire::probe::TrialHeader;

/// Length of a gap whose send times are remembered, in case the log no longer has them.
const GAP_FRAMES: u64 = WINDOW_FRAMES / 2;

/// Statistics of one stream.
pub(super) struct RxStats<'a> {
    pub(super) id: u16,
    /// Frames that arrived, without duplicates.
    pub(super) received: u64,
    sizes: &'a [u32],
    window: Window,
    variation: DelayVariation,
    losses: Losses<'a>,
}

/// Tallies per phase and second, and the lost frames.
struct Losses<'a> {
    log: &'a TxLog,
    phases: Vec<Received>,
    /// Phase of the latest frame.
    phase: usize,
    /// `None`: no tallies per second.
    by: Option<Seconds>,
    seconds: Vec<Received>,
    /// Sequence number and send time of the newest frame that arrived.
    newest: (u64, u64),
    /// Sequence numbers and send times before and after the latest long gap.
    gap: [(u64, u64); 2],
    /// The current loss period: first and last number.
    run: Option<(u64, u64)>,
    /// Number of loss periods (RFC 3357), and the longest of them.
    runs: u64,
    run_max: u64,
}

impl<'a> RxStats<'a> {
    /// Statistics of a stream that is sent from `begun_ns` on and logged in `log`.
    pub(super) fn new(stream: &'a StreamPlan, log: &'a TxLog, begun_ns: u64, by: Option<Seconds>) -> Self {
        let losses = Losses {
            log,
            phases: vec![Received::default(); stream.phases.len()],
            phase: 0,
            by,
            seconds: Vec::new(),
            newest: (0, begun_ns),
            gap: [(0, begun_ns); 2],
            run: None,
            runs: 0,
            run_max: 0,
        };
        Self {
            id: stream.id,
            received: 0,
            sizes: &stream.sizes,
            window: Window::new(),
            variation: DelayVariation::new(),
            losses,
        }
    }

    /// Maximum delay, ns.
    pub(super) fn delay_max_ns(&self) -> u64 {
        self.variation.max_ns()
    }

    /// Counts a frame; `false` if it is not part of this trial, or counts as lost.
    #[inline]
    pub(super) fn take(&mut self, header: &TrialHeader, arrived_ns: u64) -> bool {
        let losses = &mut self.losses;
        if header.seq >= losses.log.end() {
            return false;
        }
        losses.look_for_gap(header.seq, header.sent_ns);
        let arrival = self.window.take(header.seq, |first, last| losses.lose(first, last));
        if arrival == Arrival::TooLate {
            return false;
        }
        if arrival == Arrival::Duplicate {
            losses.count(header, |received| received.tally.duplicates += 1);
            return true;
        }
        self.received += 1;
        let bytes = self.sizes[(header.seq % self.sizes.len() as u64) as usize];
        let delay_ns = arrived_ns.wrapping_sub(header.sent_ns) as i64;
        let is_late = arrival == Arrival::Late;
        losses.count(header, |received| received.take(bytes, arrived_ns, delay_ns, is_late));
        if !is_late {
            losses.newest = (header.seq, header.sent_ns);
        }
        self.variation.take(header.seq, delay_ns);
        true
    }

    /// The report, once no more frames are expected.
    ///
    /// # Errors
    /// A description, if more frames arrived than were sent.
    pub(super) fn finish(self, sent: &SentStream) -> Result<StreamReport, String> {
        let Self { id, mut window, mut losses, .. } = self;
        let all_sent = tally::all_sent(&sent.phases);
        losses.look_for_gap(all_sent.sent, all_sent.last_ns);
        window.finish(all_sent.sent, |first, last| losses.lose(first, last));
        losses.end_run();
        let all_received = tally::all_received(&losses.phases);
        let name = |why: String| format!("of stream {id} {why}");
        let join = |sent: &[_], received: &[_]| tally::join(sent, received).map_err(name);
        let total = join(&[all_sent], &[all_received])?.remove(0);
        if total.received != self.received {
            return Err(name(format!(
                "{} frames were received and {} counted",
                self.received, total.received
            )));
        }
        Ok(StreamReport {
            id,
            total,
            phases: join(&sent.phases, &losses.phases)?,
            seconds: join(&sent.seconds, &losses.seconds)?,
            delay: self.variation.figures(),
            loss_periods: losses.runs,
            loss_period_max: losses.run_max,
        })
    }
}

impl Losses<'_> {
    /// Counts a frame in its phase and its second.
    #[inline]
    fn count(&mut self, header: &TrialHeader, count: impl Fn(&mut Received)) {
        self.phase = self.log.phase_of(header.seq, self.phase);
        count(&mut self.phases[self.phase]);
        if let Some(by) = &self.by {
            count(at(&mut self.seconds, by.of(header.sent_ns)));
        }
    }

    /// Remembers the ends of a gap whose times the log may lose.
    fn look_for_gap(&mut self, seq: u64, sent_ns: u64) {
        if seq.saturating_sub(self.newest.0) >= GAP_FRAMES {
            self.gap = [self.newest, (seq, sent_ns)];
        }
    }

    /// Adds a range of lost frames, in order, to the current loss period or to a new one.
    fn lose(&mut self, first: u64, last: u64) {
        match &mut self.run {
            Some(run) if run.1 + 1 == first => run.1 = last,
            _ => {
                self.end_run();
                self.run = Some((first, last));
            }
        }
    }

    /// Counts the current loss period in its phases and seconds.
    fn end_run(&mut self) {
        let Some((first, last)) = self.run.take() else { return };
        self.runs += 1;
        self.run_max = self.run_max.max(last - first + 1);
        let (from, to) = (self.log.phase_of(first, self.phase), self.log.phase_of(last, self.phase));
        for phase in from..=to {
            let (start, end) = self.log.range_of(phase);
            let (first, last) = (first.max(start), last.min(end.saturating_sub(1)));
            if first > last {
                continue;
            }
            for sent_ns in [first, last].map(|seq| self.sent_ns(seq)).into_iter().flatten() {
                self.phases[phase].tally.lose(sent_ns);
            }
        }
        if let (Some(by), Some(first_ns), Some(last_ns)) = (self.by, self.sent_ns(first), self.sent_ns(last))
        {
            for second in by.of(first_ns)..=by.of(last_ns) {
                let tally = &mut at(&mut self.seconds, second).tally;
                // A period that crosses a boundary of seconds covers each second up to the boundary.
                tally.lose(first_ns.max(by.start_ns(second)));
                tally.lose(last_ns.min(by.start_ns(second + 1) - 1));
            }
        }
    }

    /// Send time of a frame, from the log or interpolated in the latest long gap.
    fn sent_ns(&self, seq: u64) -> Option<u64> {
        self.log.sent_ns(seq).or_else(|| {
            let [(before, before_ns), (after, after_ns)] = self.gap;
            let share =
                (before < seq && seq < after).then(|| (seq - before) as f64 / (after - before) as f64)?;
            Some(before_ns + (after_ns.saturating_sub(before_ns) as f64 * share) as u64)
        })
    }
}

#[cfg(test)]
mod tests;
