//! The words about a run on streams.

use crate::cmd::capture::terms;
use crate::show::{self, name};
use quaff::streams::{Gap, ObjectTally, StreamsReport};
use quaff_file::read::GONE;

/// The destination of the streams of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Files, and an index of them.
    Files,
    /// A list of conversations of TCP and UDP, or the text of one of them.
    Text,
}

/// Prints the sums on stderr.
pub(super) fn print(report: &StreamsReport) {
    show::say(words(report).trim_end());
}

fn words(report: &StreamsReport) -> String {
    let seconds = report.seconds.max(1e-9);
    let of_files = if report.objects.is_some() { "object" } else { "file" };
    let mut text = format!(
        "{} in {}, in {:.1} s, {}; {} with {}\n",
        show::number_of(report.packets, "packet"),
        show::number_of(report.connections.seen, "TCP connection"),
        report.seconds,
        show::pps(report.packets as f64 / seconds),
        show::number_of(report.objects.map_or(report.files, |objects| objects.files), of_files),
        show::bytes(report.objects.map_or(report.file_bytes, |objects| objects.bytes)),
    );
    if report.bodies.files > 0 && report.objects.is_none() {
        let bodies = show::number_of(report.bodies.files, "HTTP body");
        text += &format!("  {bodies} with {}\n", show::bytes(report.bodies.bytes));
    }
    text += &missing_words(report, Place::Files);
    text += &other_words(report, Place::Files);
    text + &input_words(report)
}

/// Files that are gone, damage of the input, warnings, and the failure.
pub(super) fn input_words(report: &StreamsReport) -> String {
    let mut text = String::new();
    for missing in report.input.iter().flat_map(|input| &input.missing) {
        text += &format!("  MISSING: {}, {GONE}\n", name(missing));
    }
    for damage in report.input.iter().flat_map(|input| &input.damages) {
        text += &format!("  DAMAGED: {}; the packets before it are read\n", name(damage));
    }
    for note in &report.notes {
        text += &format!("  {}\n", name(note));
    }
    if let Some(failure) = &report.failure {
        text += &format!("  failed: {}\n", name(failure));
    }
    text
}

/// Bytes that are missing in the streams, by the reason.
pub(super) fn missing_words(report: &StreamsReport, place: Place) -> String {
    let gaps = &report.gaps;
    let words = |gap: Gap, words: &str| {
        let (bytes, gaps) = (show::bytes(gap.bytes), show::number_of(gap.count, "gap"));
        if gap.count > 0 { format!("  missing {bytes} in {gaps}: {words}\n") } else { String::new() }
    };
    let mut text = words(gaps.acknowledged, "acknowledged by the receiver, and not in the capture");
    if gaps.acknowledged.count > 0 {
        text += "    of these, 'quaff verify' counts as lost what the sender has named as well, of connections captured \
                 from their start\n";
    }
    text += &words(gaps.ended, "not in the capture before the end of the connection");
    text += &words(gaps.time, "they did not come in time");
    text += &words(gaps.capped, "memory was needed");
    text += &words(gaps.snapped, "cut by the snaplen");
    let of = |bytes: u64, words: &str| (bytes, format!("bytes {} {words}", place.none()));
    let counts = [
        (report.files_refused, "streams without a file: raise --max-files".into()),
        (report.bodies.refused, "bodies of HTTP without a file: raise --max-files".into()),
        (objects(report).limited, "objects cut: more bytes than the limit when decoded".into()),
        (report.bytes.capped, "bytes dropped: memory was needed".into()),
        of(report.bytes.before_start, "before the start of their stream"),
        of(report.bytes.after_end, "after the end of their stream, never acknowledged"),
        of(report.bytes.out_of_window, "outside of the receiver's window"),
        of(report.bytes.late, "they came after their gap had been declared"),
        (report.datagrams.incomplete, "datagrams missing: not all of their fragments came".into()),
        (report.cut_bytes, "bytes of UDP missing: cut by the snaplen".into()),
        (report.ignored.truncated, "packets with cut headers".into()),
    ];
    text + &show::counted("  ", counts)
}

fn objects(report: &StreamsReport) -> ObjectTally {
    report.objects.unwrap_or_default()
}

impl Place {
    /// The words about bytes that are captured and not there.
    fn none(self) -> &'static str {
        match self {
            Self::Files => "in no file:",
            Self::Text => "of no stream:",
        }
    }
}

/// Packets and bytes that need not be in the streams.
pub(super) fn other_words(report: &StreamsReport, place: Place) -> String {
    let (ignored, bytes) = (&report.ignored, &report.bytes);
    let (not_tcp, differences) = match place {
        Place::Files => ("packets ignored: not TCP", "overlaps with different bytes: see the index"),
        Place::Text => ("packets ignored: neither TCP nor UDP", "overlaps with different bytes"),
    };
    let ObjectTally { partial, limited, .. } = objects(report);
    let cut_bodies = if report.objects.is_some() { 0 } else { report.bodies.cut };
    let counts = [
        (ignored.not_ip, "packets ignored: not IP"),
        (ignored.not_tcp, not_tcp),
        (ignored.damaged, "packets ignored: damaged headers"),
        (cut_bodies, "bodies of HTTP with missing bytes: see the index"),
        (partial - limited, "objects with missing or damaged bytes: their names end in .partial"),
        (bytes.duplicate, "bytes repeated"),
        (report.differences, differences),
        (report.datagrams.differences, "overlaps of fragments with different bytes"),
        (report.datagrams.killed, "datagrams dropped, as Linux does: their fragments overlap"),
        (bytes.beyond_cutoff, "bytes after the cut-off"),
        (report.connections.midstream, "directions without captured SYN"),
        (report.connections.evicted, "connections ended early: too many at a time"),
        (report.udp.evicted, "conversations of UDP ended early: too many at a time"),
    ];
    let own =
        [("filtered", "packets rejected by the filter"), ("not_tunnel", "packets dropped: not in a tunnel")];
    show::counted("  ", terms(report, false, &own)) + &show::counted("  ", counts)
}
