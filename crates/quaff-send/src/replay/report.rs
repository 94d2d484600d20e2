//! The report of a replay: packets in the files, intended, sent, confirmed, and the timing. It never prints.

use super::passes::{Passes, Skipped};
use super::plan::ReplayVia;
use super::shared::Shared;
use crate::backend::BackendReport;
use crate::confirm::{Confirmed, SendDrops, Witness};
use crate::error::SendError;
use crate::state::{Lateness, State, word};
use crate::tally::FeedTally;
use crate::tally::mean_pps;
use crate::transmitter::Outlet;
use serde::Serialize;

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayReport {
    /// Packets read from the files in one pass: all of them unless a limit or a signal ended the run. Reading is
    /// slightly ahead of sending.
    pub in_file: u64,
    /// Frames to send: all loops, without excluded packets and frames that cannot be sent. Equals the handled frames if
    /// the run had no planned end.
    pub intended: u64,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// Frames counted by the kernel's counter.
    pub confirmed: u64,
    pub witness: Witness,
    /// Bytes of the frames sent, without FCS.
    pub bytes: u64,
    /// Time from the first to the last frame, s.
    pub seconds: f64,
    /// Distinct flows among the sent frames: 5-tuples, each direction separately. If each pass has its own addresses:
    /// the flows of a pass times the passes; some may coincide.
    pub flows: u64,
    /// True if there may be more flows: the limit of distinguished flows was reached.
    pub more_flows: bool,
    /// Frames of the first pass that belong to a flow.
    pub flow_packets: u64,
    /// Frames of the first pass that are not IP.
    pub non_flow_packets: u64,
    /// Frames of the first pass whose headers cannot be read.
    pub invalid_packets: u64,
    /// Frames/s: the number of intervals between the first and the last frame over `seconds`.
    pub pps: Option<f64>,
    /// Bits per second of the frames, without FCS.
    pub bits_per_second: Option<f64>,
    /// Passes through the files, including one that was not completed.
    pub loops: u64,
    /// Actual duration over planned duration, minus 1; `None` for an unpaced run.
    pub pace_error: Option<f64>,
    /// Lateness of the frames; `None` for an unpaced run.
    pub lateness: Option<Lateness>,
    /// Largest number of consecutive frames that were more than 16 µs late.
    pub longest_burst: u64,
    /// Frames dropped because they were late (`late` is `drop`).
    pub late_dropped: u64,
    /// Sum of the shifts because frames were late (`late` is `shift`), ns.
    pub shifted_ns: u64,
    /// Number of times that no frame was ready because the files were not read fast enough.
    pub starved: u64,
    pub feed: FeedTally,
    /// Frames of a pass that cannot be sent.
    pub skipped: Skipped,
    /// Damage of a file that could not be read to its end.
    pub damage: Option<String>,
    /// The error that ended the run.
    pub error: Option<String>,
    /// True if the watcher stopped the run before all frames were sent.
    pub interrupted: bool,
    pub via: ReplayVia,
    /// Why `via` was chosen, if the plan left it open.
    pub why: Option<String>,
    pub interfaces: Vec<InterfaceCount>,
    /// Frames from other senders that the counter included.
    #[serde(skip)]
    pub others: u64,
}

/// Counts of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InterfaceCount {
    pub name: String,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// Frames counted by the kernel's counter.
    pub confirmed: u64,
    #[serde(flatten)]
    pub drops: SendDrops,
    /// Bytes of the frames sent, without FCS.
    pub bytes: u64,
    /// Frames that the kernel refused.
    pub failed: u64,
    /// Calls without room (ENOBUFS), which were repeated.
    pub enobufs: u64,
    /// Calls without room (EAGAIN or a full ring), which were repeated.
    pub eagain: u64,
    /// The backend in user space.
    #[serde(rename = "way")]
    pub backend: Option<BackendReport>,
}

/// Frames handed to the kernel so far.
pub(super) fn sent(state: &State) -> u64 {
    let not_sent = state.load(word::LATE_DROPPED) + state.load(word::FAILED);
    state.load(word::SENT).saturating_sub(not_sent)
}

/// Frames handed to the kernel so far, of each interface.
pub(super) fn sent_by_interface(shared: &Shared<'_>) -> Vec<u64> {
    match shared.outlets.get() {
        Some(outlets) => outlets.iter().map(|outlet| outlet.sent).collect(),
        None => vec![sent(&shared.state)],
    }
}

impl ReplayReport {
    pub(super) fn new(
        shared: &Shared<'_>,
        passes: &Passes,
        (witness, confirmed): (Witness, &[Confirmed]),
        stopped: bool,
        error: Option<SendError>,
    ) -> Self {
        let (plan, state) = (shared.plan, &shared.state);
        let load = |word| state.load(word);
        let (taken, sent, bytes) = (load(word::SENT), sent(state), load(word::BYTES));
        let intended = match shared.total() {
            u64::MAX => taken,
            _ if plan.duration.is_some() => taken,
            total => total,
        };
        let span_ns = load(word::LAST_NS).saturating_sub(load(word::FIRST_NS));
        let seconds = span_ns as f64 / 1e9;
        let mean_bytes = bytes as f64 / sent.max(1) as f64;
        let paced = plan.rate.is_paced() && taken > 0;
        let pps = mean_pps(sent, span_ns, paced);
        let counts = passes.flows.count.counts;
        let all_confirmed: u64 = confirmed.iter().map(|one| one.frames).sum();
        Self {
            in_file: passes.feed.tally().seen,
            intended,
            sent,
            confirmed: all_confirmed,
            witness,
            bytes,
            seconds,
            flows: passes.flows(taken),
            more_flows: passes.flows.is_full(),
            flow_packets: counts.flow_packets,
            non_flow_packets: counts.non_flow_packets,
            invalid_packets: counts.invalid_packets,
            pps,
            bits_per_second: pps.map(|pps| pps * mean_bytes * 8.0),
            loops: passes.begun(taken),
            pace_error: if paced { pace_error(state, span_ns) } else { None },
            lateness: paced.then(|| state.lateness()),
            longest_burst: load(word::BURST_MAX),
            late_dropped: load(word::LATE_DROPPED),
            shifted_ns: load(word::SHIFTED_NS),
            starved: load(word::STARVED),
            feed: passes.feed.tally(),
            skipped: passes.skipped,
            damage: passes.feed.damage(),
            error: error.map(|error| error.to_string()),
            interrupted: stopped && taken != shared.total(),
            via: plan.via,
            why: why(shared),
            interfaces: interfaces(shared, confirmed),
            others: all_confirmed.saturating_sub(sent),
        }
    }

    /// Returns `true` if all intended frames were sent and confirmed, and none had to be skipped. For a stopped run
    /// only the confirmation counts. A counter may include frames from other senders.
    pub fn agrees(&self) -> bool {
        let skipped = self.skipped.too_large
            + self.skipped.too_short
            + self.feed.link_type
            + self.feed.rewritten.mtu_skipped;
        let complete = self.interrupted || self.sent == self.intended;
        complete
            && self.confirmed >= self.sent
            && skipped == 0
            && self.damage.is_none()
            && self.error.is_none()
    }
}

fn interfaces(shared: &Shared<'_>, confirmed: &[Confirmed]) -> Vec<InterfaceCount> {
    let of_outlet = |(outlet, confirmed): (&Outlet, &Confirmed)| InterfaceCount {
        name: outlet.interface.clone(),
        sent: outlet.sent,
        confirmed: confirmed.frames,
        drops: confirmed.drops,
        bytes: outlet.bytes,
        failed: outlet.refused,
        enobufs: outlet.backend.retried_enobufs,
        eagain: outlet.backend.retried_eagain,
        backend: Some(outlet.backend.clone()),
    };
    let state = &shared.state;
    match shared.outlets.get() {
        Some(outlets) => outlets.iter().zip(confirmed).map(of_outlet).collect(),
        None => vec![InterfaceCount {
            name: shared.link().name.clone(),
            sent: sent(state),
            confirmed: confirmed.iter().map(|one| one.frames).sum(),
            // There is only one interface.
            drops: confirmed.first().map(|one| one.drops).unwrap_or_default(),
            bytes: state.load(word::BYTES),
            failed: state.load(word::FAILED),
            enobufs: 0,
            eagain: 0,
            backend: None,
        }],
    }
}

/// Why the transmit path and the backend were chosen.
fn why(shared: &Shared<'_>) -> Option<String> {
    let measured = shared.outlets.get().and_then(|outlets| outlets.first()?.backend.remark.clone());
    let words: Vec<_> = shared.why.iter().cloned().chain(measured).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The actual duration between the first and the last frame over the planned one, minus 1.
fn pace_error(state: &State, span_ns: u64) -> Option<f64> {
    let due_ns = state.load(word::DUE_NS).saturating_sub(state.load(word::FIRST_NS));
    let planned_ns = due_ns.saturating_sub(state.load(word::SHIFTED_NS));
    (planned_ns > 0).then(|| span_ns as f64 / planned_ns as f64 - 1.0)
}
