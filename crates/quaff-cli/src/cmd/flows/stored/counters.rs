//! The counters of stored records as a ledger, and the progress line. It reads nothing.

use crate::cmd::flows::sums::recorded_by;
use crate::show::{self, LiveLine};
use quaff::flows::{FlowReport, Ignored};
use quaff::tally::{Reasons, RunSummary, Verdict};
use quaff_flow::collector::FlowSum;
use quaff_flow::ledger;
use quaff_flow::summary::By;
use std::time::{Duration, Instant};

/// Interval of the progress line.
const DRAW: Duration = Duration::from_millis(500);

/// Properties of the application of a flow.
pub(super) const OF_APPLICATION: [By; 3] = [By::Application, By::Server, By::Alpn];

/// The counters of stored records.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// In the records, missed by their writer, and in no flow.
    pub(super) kept: FlowSum,
    pub(super) missed: FlowSum,
    pub(super) ignored: ledger::Ignored,
    /// Some records have no applications, because their meter did not look for them.
    pub(super) lacks_applications: bool,
    pub(super) reasons: Reasons,
    pub(super) seconds: f64,
}

impl Counters {
    /// The ledger, as that of a run. Nothing is known of packets that were dropped before the meter.
    pub(super) fn report(self, needs_applications: bool) -> FlowReport {
        let Self { kept, missed, ignored, lacks_applications, mut reasons, seconds } = self;
        if needs_applications && lacks_applications && kept.records > 0 {
            reasons.notes.push(format!(
                "records without applications: {} records the application and the server's name",
                recorded_by(&OF_APPLICATION)
            ));
        }
        let verdict = match (reasons.lossy.is_empty(), reasons.unknown.is_empty()) {
            (true, true) => Verdict::Lossless,
            (true, false) => Verdict::Unknown,
            (false, _) => Verdict::Lossy,
        };
        let (mut exported, mut ignored_sum) = (kept, FlowSum::default());
        add(&mut exported, missed);
        for of in [ignored.not_ip, ignored.truncated, ignored.not_sampled] {
            add(&mut ignored_sum, FlowSum { records: 0, packets: of.packets, bytes: of.bytes });
        }
        FlowReport {
            packets: exported.packets.saturating_add(ignored_sum.packets),
            bytes: exported.bytes.saturating_add(ignored_sum.bytes),
            flows_exported: exported.records,
            packets_in_flows: exported.packets,
            bytes_in_flows: exported.bytes,
            packets_ignored: ignored_sum.packets,
            bytes_ignored: ignored_sum.bytes,
            ignored: Ignored {
                not_ip: ignored.not_ip.packets,
                truncated: ignored.truncated.packets,
                not_sampled: ignored.not_sampled.packets,
            },
            run: RunSummary {
                verdict,
                lossless: verdict == Verdict::Lossless,
                reasons,
                seconds,
                ..RunSummary::default()
            },
            ..FlowReport::default()
        }
    }
}

/// Adds sums of files, which may claim any number.
pub(super) fn add(sum: &mut FlowSum, more: FlowSum) {
    sum.records = sum.records.saturating_add(more.records);
    sum.packets = sum.packets.saturating_add(more.packets);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}

/// Adds counters of files, which may claim any number.
pub(super) fn add_ignored(sum: &mut ledger::Ignored, more: &ledger::Ignored) {
    for (sum, more) in [
        (&mut sum.not_ip, more.not_ip),
        (&mut sum.truncated, more.truncated),
        (&mut sum.not_sampled, more.not_sampled),
    ] {
        sum.packets = sum.packets.saturating_add(more.packets);
        sum.bytes = sum.bytes.saturating_add(more.bytes);
    }
}

/// The progress line.
pub(super) struct Line {
    live: LiveLine,
    drawn: Instant,
    /// The name of several files.
    kind: &'static str,
    /// Files before the present one, and all of them.
    pub(super) read: usize,
    all: usize,
    pub(super) records: u64,
}

impl Line {
    pub(super) fn new(live: LiveLine, kind: &'static str, all: usize) -> Self {
        Self { live, drawn: Instant::now(), kind, read: 0, all, records: 0 }
    }

    /// Counts records, and draws the line if it is time to.
    pub(super) fn count(&mut self, records: usize) {
        self.records += records as u64;
        if self.live.is_live && self.drawn.elapsed() >= DRAW {
            self.drawn = Instant::now();
            let [read, all, records] = [self.read as u64, self.all as u64, self.records].map(show::count);
            self.live.draw(&format!("{read} of {all} {} | {records} records", self.kind));
        }
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        self.live.draw("");
    }
}
