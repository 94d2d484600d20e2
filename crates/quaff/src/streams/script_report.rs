//! The report of a run of scripts, with its sums checked.
//!
//! ```text
//!   received = packets
//!   of streams: as of `quaff streams extract`
//! ```

use super::report::{Bytes, Connections, Datagrams, Gaps, Ignored, check_streams};
use crate::output::{ReaderTally, ReassemblyEnd, RecordTally};
use crate::run;
use crate::tally::{self, RunSummary, has_summary};
use quaff_script::{EngineEnd, ScriptTally, Tracked};
use serde::Serialize;

/// The result of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ScriptsReport {
    /// Packets given to the scripts.
    pub packets: u64,
    /// Flows that scripts requested.
    pub flows: u64,
    pub scripts: Vec<ScriptTally>,
    /// The reassembly; `None` unless a script needs it.
    pub streams: Option<StreamSums>,
    /// Files of rows and of packets, and bytes in them; of lines the bytes that were passed on.
    pub files: u64,
    pub file_bytes: u64,
    /// Flows whose packets have no file because of the limit of files.
    pub files_refused: u64,
    /// Bytes of rows and packets without room, or that could not be written.
    pub dropped_bytes: u64,
    /// Packets of flows that were saved, and those without room.
    pub saved_packets: u64,
    pub saved_packets_dropped: u64,
    #[serde(flatten)]
    pub run: RunSummary,
}

has_summary!(ScriptsReport);

/// The sums of the reassembly, as in the report of `extract`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamSums {
    /// Packets given to the reassembly: those of the ports that scripts ask for.
    pub packets: u64,
    pub segments: u64,
    pub fragments: u64,
    pub ignored: Ignored,
    pub connections: Connections,
    pub bytes: Bytes,
    pub gaps: Gaps,
    pub datagrams: Datagrams,
    pub differences: u64,
}

impl StreamSums {
    fn new(tracked: &Tracked) -> Self {
        let Tracked { track, streams, fragments } = tracked;
        let reader = ReaderTally { connections: track.connections, ..ReaderTally::default() };
        Self {
            packets: track.packets,
            segments: track.segments,
            fragments: track.fragments,
            ignored: Ignored::new(track),
            connections: Connections::new(track, streams, &reader),
            bytes: Bytes::new(streams),
            gaps: Gaps::new(streams),
            datagrams: Datagrams::new(fragments),
            differences: streams.differences,
        }
    }

    /// Returns whether bytes are missing.
    pub(crate) fn lacks_bytes(&self) -> bool {
        self.gaps.total().bytes
            + self.bytes.capped
            + self.bytes.unplaced()
            + self.ignored.truncated
            + self.datagrams.incomplete
            > 0
    }
}

/// The report of a run whose lanes have ended, with the sums of what they have sent.
pub(super) fn sum_up(ended: run::Ended, sums: Option<(EngineEnd, RecordTally)>) -> ScriptsReport {
    let mut report = sums.as_ref().map(of_lanes).unwrap_or_default();
    report.run = ended.checked_summary(|received| match &sums {
        Some((engine, _)) => check(&report, engine, received),
        None => Ok(()),
    });
    let of_records = sums.and_then(|(_, records)| records.failure);
    report.failure = of_records.or(report.failure.take());
    judge(&mut report);
    report
}

fn of_lanes((engine, records): &(EngineEnd, RecordTally)) -> ScriptsReport {
    ScriptsReport {
        packets: engine.packets,
        flows: engine.flows,
        scripts: engine.scripts.clone(),
        streams: engine.tracked.as_ref().map(StreamSums::new),
        files: records.files,
        file_bytes: records.bytes,
        files_refused: records.files_refused,
        dropped_bytes: records.dropped_bytes,
        saved_packets: engine.saved_packets,
        saved_packets_dropped: engine.saved_packets_dropped,
        ..ScriptsReport::default()
    }
}

/// Checks the sums. A difference is a defect of quaff.
fn check(report: &ScriptsReport, engine: &EngineEnd, received: u64) -> Result<(), String> {
    tally::check([("received = packets", received, report.packets)])?;
    match engine.tracked {
        Some(Tracked { track, streams, fragments }) => {
            let reader = ReaderTally { skipped_bytes: streams.delivered_bytes, ..ReaderTally::default() };
            check_streams(&ReassemblyEnd { track, streams, fragments, reader }, track.packets)
        }
        None => Ok(()),
    }
}

fn judge(report: &mut ScriptsReport) {
    let recorded = report.files_refused + report.dropped_bytes + report.saved_packets_dropped;
    let rows: u64 = report.scripts.iter().map(|script| script.rows_dropped).sum();
    let lacks = report.streams.as_ref().is_some_and(StreamSums::lacks_bytes) || !report.is_input_whole();
    let failed = report.scripts.iter().filter(|script| !script.is_whole());
    let failed: Vec<_> = failed.map(|script| format!("{} did not see or keep all", script.name)).collect();
    report.reasons.unknown.extend(failed);
    report.run.judge(recorded + rows > 0 || lacks);
}
