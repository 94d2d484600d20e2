//! What a meter writes down of one stream: a tally for each phase and second, delays, and runs of lost frames.

use super::delay_variation::DelayVariation;
use super::plan::StreamPlan;
use super::report::StreamReport;
use super::sender::SentStream;
use super::tally::{self, Got, Seconds, at};
use super::tx_log::TxLog;
use super::window::{Arrival, WINDOW_FRAMES, Window};
use quaff_wire::probe::trial::TrialHeader;

/// A gap of so many frames is remembered, should the log have forgotten its times.
const GAP_FRAMES: u64 = WINDOW_FRAMES / 2;

/// The book of one stream.
pub(super) struct RxStats<'a> {
    id: u16,
    sizes: &'a [u32],
    window: Window,
    runs: Runs,
    variation: DelayVariation,
    pages: Pages<'a>,
    /// Different frames that have come.
    received: u64,
}

/// Tallies by phase and by second, and what it takes to tell which.
struct Pages<'a> {
    log: &'a TxLog,
    phases: Vec<Got>,
    /// The phase that the last frame was sent in.
    phase: usize,
    /// `None`: nothing is written down by the second.
    by: Option<Seconds>,
    seconds: Vec<Got>,
    /// Number and time of sending of the newest frame that has come.
    newest: (u64, u64),
    /// The same in front of the latest long gap, and behind it.
    gap: [(u64, u64); 2],
}

/// Runs of consecutive lost frames (RFC 3357 loss periods), put together from ranges in order.
#[derive(Debug, Default)]
struct Runs {
    open: Option<(u64, u64)>,
    count: u64,
    frames_max: u64,
}

impl<'a> RxStats<'a> {
    /// For a stream that is sent from `begun_ns` on, and `log` is of.
    pub(super) fn new(stream: &'a StreamPlan, log: &'a TxLog, begun_ns: u64, by: Option<Seconds>) -> Self {
        let pages = Pages {
            log,
            phases: vec![Got::default(); stream.phases.len()],
            phase: 0,
            by,
            seconds: Vec::new(),
            newest: (0, begun_ns),
            gap: [(0, begun_ns); 2],
        };
        Self {
            id: stream.id,
            sizes: &stream.sizes,
            window: Window::new(),
            runs: Runs::default(),
            variation: DelayVariation::new(),
            pages,
            received: 0,
        }
    }

    /// The stream's id.
    pub(super) fn id(&self) -> u16 {
        self.id
    }

    /// Different frames that have come.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The longest that one took, ns.
    pub(super) fn delay_max_ns(&self) -> u64 {
        self.variation.max_ns()
    }

    /// Takes a frame that arrived then; `false` when it is none of this trial's, or was given up.
    #[inline]
    pub(super) fn take(&mut self, mark: &TrialHeader, arrived_ns: u64) -> bool {
        let Self { window, runs, pages, .. } = self;
        if mark.seq >= pages.log.end() {
            return false;
        }
        pages.look_for_gap(mark.seq, mark.sent_ns);
        let arrival = window.take(mark.seq, |first, last| runs.add(first, last, |run| pages.lose(run)));
        if arrival == Arrival::TooLate {
            return false;
        }
        if arrival == Arrival::Duplicate {
            pages.of(mark, |got| got.duplicates += 1);
            return true;
        }
        self.received += 1;
        let bytes = self.sizes[(mark.seq % self.sizes.len() as u64) as usize];
        let delay_ns = arrived_ns.wrapping_sub(mark.sent_ns) as i64;
        let is_late = arrival == Arrival::Late;
        pages.of(mark, |got| got.take(bytes, arrived_ns, delay_ns, is_late));
        if !is_late {
            pages.newest = (mark.seq, mark.sent_ns);
        }
        self.variation.take(mark.seq, delay_ns);
        true
    }

    /// The report, now that nothing more will come of what was sent.
    ///
    /// # Errors
    /// In words, when more came than was sent.
    pub(super) fn finish(mut self, sent: &SentStream) -> Result<StreamReport, String> {
        let (all_sent, _) = tally::total(&sent.phases, &[]);
        let (runs, pages) = (&mut self.runs, &mut self.pages);
        pages.look_for_gap(all_sent.frames, all_sent.last_ns);
        self.window.finish(all_sent.frames, |first, last| runs.add(first, last, |run| pages.lose(run)));
        if let Some(run) = runs.close() {
            pages.lose(run);
        }
        let (_, all_got) = tally::total(&[], &pages.phases);
        let name = |why: String| format!("of stream {} {why}", self.id);
        let join = |sent: &[_], got: &[_]| tally::join(sent, got).map_err(name);
        let total = join(&[all_sent], &[all_got])?.remove(0);
        if total.received != self.received {
            return Err(name(format!(
                "{} frames were received and {} counted",
                self.received, total.received
            )));
        }
        Ok(StreamReport {
            id: self.id,
            total,
            phases: join(&sent.phases, &pages.phases)?,
            seconds: join(&sent.seconds, &pages.seconds)?,
            delay: self.variation.figures(),
            loss_periods: runs.count,
            loss_period_max: runs.frames_max,
        })
    }
}

impl Pages<'_> {
    /// Writes a frame down on all pages that it belongs to.
    #[inline]
    fn of(&mut self, mark: &TrialHeader, write: impl Fn(&mut Got)) {
        self.phase = self.log.phase_of(mark.seq, self.phase);
        write(&mut self.phases[self.phase]);
        if let Some(by) = &self.by {
            write(at(&mut self.seconds, by.of(mark.sent_ns)));
        }
    }

    /// Remembers where frames were missing for so long that the log may forget when they were sent.
    fn look_for_gap(&mut self, seq: u64, sent_ns: u64) {
        if seq.saturating_sub(self.newest.0) >= GAP_FRAMES {
            self.gap = [self.newest, (seq, sent_ns)];
        }
    }

    /// A run of frames, first and last, is lost for good.
    fn lose(&mut self, (first, last): (u64, u64)) {
        let (from, to) = (self.log.phase_of(first, self.phase), self.log.phase_of(last, self.phase));
        for phase in from..=to {
            let (start, end) = self.log.range_of(phase);
            let (first, last) = (first.max(start), last.min(end.saturating_sub(1)));
            if first > last {
                continue;
            }
            for sent_ns in [first, last].map(|seq| self.sent_ns(seq)).into_iter().flatten() {
                self.phases[phase].lose(sent_ns);
            }
        }
        self.lose_by_second(first, last);
    }

    fn lose_by_second(&mut self, first: u64, last: u64) {
        let (Some(by), Some(first_ns), Some(last_ns)) = (self.by, self.sent_ns(first), self.sent_ns(last))
        else {
            return;
        };
        for second in by.of(first_ns)..=by.of(last_ns) {
            let page = at(&mut self.seconds, second);
            // A run that goes on before or behind a second has all of it up to there.
            page.lose(first_ns.max(by.start_ns(second)));
            page.lose(last_ns.min(by.start_ns(second + 1) - 1));
        }
    }

    /// When a frame was sent: by the log, or by the frames around a long gap.
    fn sent_ns(&self, seq: u64) -> Option<u64> {
        self.log.sent_ns(seq).or_else(|| {
            let [(before, before_ns), (behind, behind_ns)] = self.gap;
            let share =
                (before < seq && seq < behind).then(|| (seq - before) as f64 / (behind - before) as f64)?;
            Some(before_ns + (behind_ns.saturating_sub(before_ns) as f64 * share) as u64)
        })
    }
}

impl Runs {
    /// Takes the next range, and tells a run once it is known to be whole.
    fn add(&mut self, first: u64, last: u64, tell: impl FnOnce((u64, u64))) {
        match &mut self.open {
            Some(open) if open.1 + 1 == first => open.1 = last,
            _ => {
                if let Some(run) = self.close() {
                    tell(run);
                }
                self.open = Some((first, last));
            }
        }
    }

    fn close(&mut self) -> Option<(u64, u64)> {
        let run = self.open.take()?;
        self.count += 1;
        self.frames_max = self.frames_max.max(run.1 - run.0 + 1);
        Some(run)
    }
}

#[cfg(test)]
mod tests;
