//! The ledger: the sums of all tallies of a run, and their identities.

use super::summary::{RunSummary, has_summary};
use super::terms::IDENTITY;
use super::{LaneVerdict, Verdict, all_sightings, check, sum};
use quaff_file::tally::{CompressionTally, CopyTally, FolderTally, Sightings, WriterTally};
use serde::Serialize;

/// The sums of all tallies of a run, in packets unless stated. [`LaneTally`](super::LaneTally) describes the fields of
/// the same names.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Ledger {
    #[serde(flatten)]
    pub run: RunSummary,
    pub received: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sightings: Option<Sightings>,
    /// Lost before the capture, by the sequence numbers of tunnels; in none of the sums.
    pub missing_before: u64,
    pub written: u64,
    /// Received and not written: the sum of the next two.
    pub lost: u64,
    /// Lost because no buffer was free.
    pub lost_in_buffer: u64,
    /// Lost because writing failed.
    pub lost_on_disk: u64,
    /// Written after a packet of a later time, by an output that orders packets.
    pub late: u64,
    pub bytes_written: u64,
    /// Files finished.
    pub files: u64,
    /// Files that end before a failed write, or that could not be synced or named.
    pub failed_files: u64,
    /// The first failures of files: path and error.
    #[serde(skip)]
    pub write_failures: Vec<String>,
    /// Files removed by retention, and those of them that earlier runs had left.
    pub pruned: u64,
    pub pruned_earlier: u64,
    /// A retention rule is in force.
    #[serde(skip)]
    pub has_retention: bool,
    /// The folders, if there are several: parts of the sums above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<FolderTally>,
    /// Maximum of the buffer in use.
    pub buffer_high_bytes: u64,
    /// Bytes of the buffer that were populated at the end.
    pub resident_bytes: u64,
    /// Maximum of the kernel's rings in use.
    pub ring_high_bytes: u64,
    /// Duration of the longest write.
    pub write_high_seconds: f64,
    /// Bytes of the files that a sync has completed for.
    pub synced_bytes: u64,
    /// Duration of the longest sync of a file that was being written.
    pub sync_high_seconds: f64,
    /// The compression of the output, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<CompressionTally>,
    /// The verdicts on the packets of each lane (`--prove`); not that of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<LaneVerdict>,
    /// The live copy, which does not count as written or lost.
    pub tee: Option<CopyTally>,
    /// Post-rotate commands, and those of them that failed.
    pub commands: u64,
    pub commands_failed: u64,
    /// The method of writing.
    pub writing: String,
}

has_summary!(Ledger);

impl Ledger {
    /// Adds up the tallies of the lanes of `run` and of the writer. `buffer_high_bytes` is the maximum of the buffer in
    /// use, `block_bytes` the size of a block of the rings.
    pub(crate) fn new(
        mut run: RunSummary,
        writer: &WriterTally,
        buffer_high_bytes: u64,
        block_bytes: u64,
    ) -> Self {
        let lanes = &run.interfaces;
        let (lost_in_buffer, received) =
            (sum(lanes, |lane| lane.lost_in_buffer), sum(lanes, |lane| lane.received));
        let missing = lanes.iter().flat_map(|lane| &lane.decap).flat_map(|decap| &decap.sessions);
        let missing_before = missing.map(|of| of.missing).sum();
        let sightings = all_sightings(lanes.iter().filter_map(|lane| lane.sightings.as_ref()));
        let ring_high_bytes = sum(lanes, |lane| lane.ring_high_blocks) * block_bytes;
        run.after_count += writer.after_close;
        Self {
            run,
            received: received.saturating_sub(writer.after_close),
            sightings,
            missing_before,
            written: writer.written,
            lost: lost_in_buffer + writer.lost,
            lost_in_buffer,
            lost_on_disk: writer.lost,
            late: writer.late,
            bytes_written: writer.bytes,
            files: writer.files,
            failed_files: writer.failed_files,
            write_failures: writer.failures.clone(),
            pruned: writer.pruned,
            pruned_earlier: writer.pruned_earlier,
            outputs: writer.folders.clone(),
            buffer_high_bytes,
            ring_high_bytes,
            write_high_seconds: writer.write_high_ns as f64 / 1e9,
            synced_bytes: writer.synced_bytes,
            sync_high_seconds: writer.sync_high_ns as f64 / 1e9,
            compression: writer.compression.clone(),
            tee: writer.copy,
            commands: writer.commands,
            commands_failed: writer.commands_failed,
            ..Self::default()
        }
    }

    /// Sets the verdict.
    pub(crate) fn judge(&mut self) {
        self.run.judge(self.lost > 0);
    }

    /// Records that the program to which packets were written has failed. That is a failure of the run, unless the
    /// program read a live copy.
    pub fn note_reader(&mut self, failure: &str, has_copy: bool) {
        self.notes.push(failure.to_owned());
        if !has_copy {
            self.failure.get_or_insert_with(|| failure.to_owned());
            self.lossless = false;
            if self.verdict == Verdict::Lossless {
                self.verdict = Verdict::Unknown;
            }
        }
    }

    /// Checks the sums. A difference is a defect of quaff.
    pub(crate) fn check(&self) -> Result<(), String> {
        let identities = [
            (IDENTITY, self.offered, self.received + self.terms.sum()),
            ("received = written + lost", self.received, self.written + self.lost),
        ];
        let copy = self.tee.map(|copy| {
            let (pushed, copied) =
                (self.written + self.lost_on_disk, copy.written + copy.lost + copy.after_close);
            ("written + lost_on_disk = tee: written + lost + after_close", pushed, copied)
        });
        let folders = (!self.outputs.is_empty()).then(|| {
            let of_folders = sum(&self.outputs, |folder| folder.written + folder.lost);
            ("written + lost_on_disk = those of all outputs", self.written + self.lost_on_disk, of_folders)
        });
        let xdp = self.interfaces.iter().filter_map(|lane| lane.xdp.as_ref()).map(|xdp| {
            let identity = "xdp: seen = received + ring_full + fill_empty + dropped + invalid + passed";
            (identity, xdp.seen, xdp.accounted())
        });
        check(identities.into_iter().chain(copy).chain(folders).chain(xdp))
    }
}
