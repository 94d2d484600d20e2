//! The ledger of a replay: in the files, intended, sent, confirmed; and how well the pace was kept.

use super::passes::{Passes, Skipped};
use super::{ReplayVia, Shared};
use crate::backend::BackendReport;
use crate::confirm::Witness;
use crate::error::SendError;
use crate::state::{Lateness, State, word};
use crate::tally::FeedTally;
use crate::transmitter::Outlet;
use serde::Serialize;

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayReport {
    /// Packets of the files, read once: all of them, or those that were read, which is somewhat ahead of
    /// what is sent, when a limit or a signal ended it.
    pub in_file: u64,
    /// Frames that were to be sent: all loops, without what the ranges leave out and what cannot be
    /// sent. Of a run without a planned end, those it came to.
    pub intended: u64,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// Frames that the witness counted.
    pub confirmed: u64,
    /// The counter that counted them.
    pub witness: Witness,
    /// Bytes of the frames sent, without FCS.
    pub bytes: u64,
    /// From the first frame to the last, s.
    pub seconds: f64,
    /// Different flows among the frames sent: 5-tuples, each direction for itself. With --unique-ip
    /// those of a pass times the passes, of which some may by chance be the same.
    pub flows: u64,
    /// There may be more flows: to bound memory, not all were distinguished.
    pub more_flows: bool,
    /// Frames of the first pass that belong to a flow.
    pub flow_packets: u64,
    /// Frames of the first pass that are not IP.
    pub non_flow_packets: u64,
    /// Frames of the first pass whose headers cannot be read.
    pub invalid_packets: u64,
    /// Frames per second: the gaps between the first and the last frame, over `seconds`.
    pub pps: f64,
    /// Bits per second of whole frames, without FCS.
    pub bits_per_second: f64,
    /// Passes through the files, the last one perhaps not to its end.
    pub loops: u64,
    /// The time taken over the time planned, minus 1; none for an unpaced run.
    pub pace_error: Option<f64>,
    /// Lateness of the frames; none for an unpaced run.
    pub lateness: Option<Lateness>,
    /// The most frames in a row that were more than 16 µs late.
    pub longest_burst: u64,
    /// Frames that were not sent because they were late (`late` is `drop`).
    pub late_dropped: u64,
    /// Sum by which deadlines were moved because frames were late (`late` is `shift`), ns.
    pub shifted_ns: u64,
    /// Times that no frame was ready, because the files could not be read fast enough.
    pub starved: u64,
    pub feed: FeedTally,
    /// Frames of a pass that were not sent.
    pub skipped: Skipped,
    /// The damage of a file that could not be read to its end.
    pub damage: Option<String>,
    /// Why not all could be sent.
    pub error: Option<String>,
    /// The watcher ended the run before all was sent.
    pub interrupted: bool,
    pub via: ReplayVia,
    /// Why so, when that was not asked for.
    pub why: Option<String>,
    /// By which interface, and how many.
    pub interfaces: Vec<InterfaceCount>,
}

/// Frames of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InterfaceCount {
    /// Its name.
    pub name: String,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// Frames that the witness counted there.
    pub confirmed: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that the kernel refused.
    pub failed: u64,
    /// Frames that were refused for want of room, and tried again (ENOBUFS).
    pub enobufs: u64,
    /// The same, said by EAGAIN, or by a ring that was full.
    pub eagain: u64,
    pub way: Option<BackendReport>,
}

/// Frames handed to the kernel so far.
pub(super) fn sent(state: &State) -> u64 {
    let not_sent = state.load(word::LATE_DROPPED) + state.load(word::FAILED);
    state.load(word::SENT).saturating_sub(not_sent)
}

/// The same of each interface.
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
        (witness, confirmed): (Witness, &[u64]),
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
        let per_second = |count: f64| if span_ns == 0 { 0.0 } else { count / seconds };
        let pps = per_second(sent.saturating_sub(1) as f64);
        let mean_bytes = bytes as f64 / sent.max(1) as f64;
        let paced = plan.rate.is_paced() && taken > 0;
        let counts = passes.flow_counts();
        Self {
            in_file: passes.feed().tally().seen,
            intended,
            sent,
            confirmed: confirmed.iter().sum(),
            witness,
            bytes,
            seconds,
            flows: passes.flows(taken),
            more_flows: passes.has_more_flows(),
            flow_packets: counts.flow_packets,
            non_flow_packets: counts.non_flow_packets,
            invalid_packets: counts.invalid_packets,
            pps,
            bits_per_second: pps * mean_bytes * 8.0,
            loops: passes.begun(taken),
            pace_error: if paced { pace_error(state, span_ns) } else { None },
            lateness: paced.then(|| state.lateness()),
            longest_burst: load(word::BURST_MAX),
            late_dropped: load(word::LATE_DROPPED),
            shifted_ns: load(word::SHIFTED_NS),
            starved: load(word::STARVED),
            feed: passes.feed().tally(),
            skipped: passes.skipped(),
            damage: passes.feed().damage(),
            error: error.map(|error| error.to_string()),
            interrupted: stopped && taken != shared.total(),
            via: plan.via,
            why: why(shared),
            interfaces: interfaces(shared, confirmed),
        }
    }

    /// All that was intended was sent and confirmed, and nothing had to be left out.
    ///
    /// A run that was ended early only has to have confirmed what it sent. Counters may show more than
    /// ours, because others use the interface too.
    pub fn agrees(&self) -> bool {
        let left_out = self.skipped.too_large
            + self.skipped.too_short
            + self.feed.link_type
            + self.feed.rewritten.mtu_skipped;
        let complete = self.interrupted || self.sent == self.intended;
        complete
            && self.confirmed >= self.sent
            && left_out == 0
            && self.damage.is_none()
            && self.error.is_none()
    }

    /// Frames of others that were counted meanwhile.
    pub fn others(&self) -> u64 {
        self.confirmed.saturating_sub(self.sent)
    }
}

fn interfaces(shared: &Shared<'_>, confirmed: &[u64]) -> Vec<InterfaceCount> {
    let of_outlet = |(outlet, confirmed): (&Outlet, &u64)| InterfaceCount {
        name: outlet.interface.clone(),
        sent: outlet.sent,
        confirmed: *confirmed,
        bytes: outlet.bytes,
        failed: outlet.refused,
        enobufs: outlet.backend.retried_enobufs,
        eagain: outlet.backend.retried_eagain,
        way: Some(outlet.backend.clone()),
    };
    let state = &shared.state;
    match shared.outlets.get() {
        Some(outlets) => outlets.iter().zip(confirmed).map(of_outlet).collect(),
        None => vec![InterfaceCount {
            name: shared.link.name.clone(),
            sent: sent(state),
            confirmed: confirmed.iter().sum(),
            bytes: state.load(word::BYTES),
            failed: state.load(word::FAILED),
            enobufs: 0,
            eagain: 0,
            way: None,
        }],
    }
}

/// Why frames left as they did, by what was known before and by what was measured.
fn why(shared: &Shared<'_>) -> Option<String> {
    let measured = shared.outlets.get().and_then(|outlets| outlets.first()?.backend.remark.clone());
    let words: Vec<_> = shared.why.iter().cloned().chain(measured).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The actual time from the first frame to the last, over the planned time, minus 1.
fn pace_error(state: &State, span_ns: u64) -> Option<f64> {
    let due_ns = state.load(word::DUE_NS).saturating_sub(state.load(word::FIRST_NS));
    let planned_ns = due_ns.saturating_sub(state.load(word::SHIFTED_NS));
    (planned_ns > 0).then(|| span_ns as f64 / planned_ns as f64 - 1.0)
}
