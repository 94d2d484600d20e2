//! The report of generation: frames intended, sent, confirmed, and the timing. It never prints.

use super::plan::{Pacing, SendPlan};
use crate::confirm::{Confirmed, SendDrops, Witness};
use crate::state::{Lateness, State, word};
use crate::tally::mean_pps;
use serde::Serialize;

/// The result of generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SendReport {
    /// Frames to send; equals `sent` if the plan has no count.
    pub intended: u64,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// Frames counted by the kernel's counter, see `witness`.
    pub confirmed: u64,
    pub witness: Witness,
    #[serde(flatten)]
    pub drops: SendDrops,
    /// Time from the first to the last frame, s.
    pub seconds: f64,
    /// Frames/s: the number of intervals between the first and the last frame over `seconds`.
    pub pps: Option<f64>,
    /// Bits per second of the frames, without FCS.
    pub bits_per_second: Option<f64>,
    /// Mean interval over the planned one, minus 1; `None` for an unpaced run.
    pub pace_error: Option<f64>,
    /// Lateness of the frames; `None` for an unpaced run.
    pub lateness: Option<Lateness>,
    /// Offers that found no room and were repeated.
    pub retried: u64,
    /// True if the watcher stopped the run before all frames were sent.
    pub interrupted: bool,
    /// `inject` or `send`.
    pub via: &'static str,
    pub interface: String,
    /// Bytes of a frame, without FCS.
    pub frame_bytes: usize,
    pub stream: u16,
    /// Frames from other senders that the counter included.
    #[serde(skip)]
    pub others: u64,
}

impl SendReport {
    pub(super) fn new(
        plan: &SendPlan,
        pacing: &Pacing,
        state: &State,
        (witness, Confirmed { frames: confirmed, drops }): (Witness, Confirmed),
        stopped: bool,
    ) -> Self {
        let sent = state.load(word::SENT);
        let span_ns = state.load(word::LAST_NS).saturating_sub(state.load(word::FIRST_NS));
        let seconds = span_ns as f64 / 1e9;
        let gaps = sent.saturating_sub(1) as f64;
        let paced = pacing.interval > 0;
        let pps = mean_pps(sent, span_ns, paced);
        let planned_ns = gaps * pacing.interval as f64 / 65_536.0;
        Self {
            intended: pacing.count.unwrap_or(sent),
            sent,
            confirmed,
            witness,
            drops,
            seconds,
            pps,
            bits_per_second: pps.map(|pps| pps * plan.frame_bytes as f64 * 8.0),
            pace_error: (paced && planned_ns > 0.0).then(|| span_ns as f64 / planned_ns - 1.0),
            lateness: paced.then(|| state.lateness()),
            retried: state.load(word::RETRIED),
            interrupted: stopped && pacing.count.is_none_or(|count| sent < count),
            via: if plan.inject { "inject" } else { "send" },
            interface: plan.interface.clone(),
            frame_bytes: plan.frame_bytes,
            stream: plan.stream,
            // A tap counts only the frames of the run.
            others: if witness == Witness::Tap { 0 } else { confirmed.saturating_sub(sent) },
        }
    }

    /// Returns `true` if the frames intended, sent and confirmed agree. For a stopped run only the confirmation counts.
    /// A counter of the interface may include frames from other senders.
    pub fn agrees(&self) -> bool {
        let complete = self.interrupted || self.sent == self.intended;
        complete && (self.confirmed == self.sent || self.others > 0)
    }
}
