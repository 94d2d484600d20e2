//! The report of a run on streams, with its sums checked.
//!
//! ```text
//!   received = packets = segments + fragments + ignored (+ datagrams of UDP, of a list and of what is followed)
//!   bytes: seen = delivered + duplicate + overlapped + late + before_start + beyond_cutoff + out_of_window
//!               + after_end + capped
//!   bytes.delivered = file_bytes + skipped_bytes
//! ```

use crate::output::{BodyTally, ObjectTally, ReaderTally, ReassemblyEnd};
use crate::run;
use crate::tally::{self, RunSummary, has_summary};
use quaff_stream::GapCause;
use quaff_stream::tally::{FragmentTally, StreamTally};
use quaff_stream::tracker::{CloseReason, TrackTally};
use serde::Serialize;

/// The result of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamsReport {
    /// Packets given to the reassembly.
    pub packets: u64,
    /// Segments of TCP among them, and fragments of TCP.
    pub segments: u64,
    pub fragments: u64,
    pub ignored: Ignored,
    /// Bytes of UDP that the snaplen cut: of a list, or of the conversation that is followed.
    #[serde(skip)]
    pub cut_bytes: u64,
    pub connections: Connections,
    /// Of a list, and of the ends that are followed.
    #[serde(skip)]
    pub udp: UdpConversations,
    /// Rows of a list: with a pattern those of connections and conversations that match.
    #[serde(skip)]
    pub listed: u64,
    /// Sides without a match in which not every match was looked for: memory was needed.
    #[serde(skip)]
    pub searched_in_part: u64,
    /// Payload of TCP, by its fate.
    pub bytes: Bytes,
    /// Bytes that are missing, by the reason.
    pub gaps: Gaps,
    pub datagrams: Datagrams,
    /// Differences between versions of the same bytes.
    pub differences: u64,
    /// Files, and bytes in them; of a connection that is followed the bytes that were passed on.
    pub files: u64,
    pub file_bytes: u64,
    /// Streams beyond the limit of files.
    pub files_refused: u64,
    /// Bytes that were delivered and are in no file.
    pub skipped_bytes: u64,
    /// Bodies of HTTP, if they are requested.
    pub bodies: BodyTally,
    /// Objects of HTTP, if they are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<ObjectTally>,
    #[serde(flatten)]
    pub run: RunSummary,
}

has_summary!(StreamsReport);

/// Packets that are no segments, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ignored {
    pub not_ip: u64,
    pub not_tcp: u64,
    /// The capture ends in the headers.
    pub truncated: u64,
    /// Headers that no receiver takes: too short, or longer than the packet.
    pub damaged: u64,
    /// Packets of connections other than the one that is followed.
    pub unselected: u64,
}

/// Connections by the reason of their end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    pub seen: u64,
    /// Connections with bytes, gaps or differences: those in the index.
    pub with_data: u64,
    /// Largest number at a time.
    pub high: u64,
    pub closed: u64,
    pub idle: u64,
    /// The table was full.
    pub evicted: u64,
    /// Another connection began between the same ends.
    pub reused: u64,
    pub input_ended: u64,
    /// Directions whose SYN was not captured.
    pub midstream: u64,
    /// Those of them whose other side's SYN was captured: the connection began in the capture, which lacks a packet of
    /// it. The others began before the capture.
    pub syns_missing: u64,
}

/// UDP conversations by the reason of their end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpConversations {
    pub seen: u64,
    pub idle: u64,
    /// The table was full.
    pub evicted: u64,
    pub input_ended: u64,
}

/// Payload of TCP, by its fate. [`StreamTally`] describes the terms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    pub seen: u64,
    pub delivered: u64,
    pub duplicate: u64,
    pub overlapped: u64,
    pub late: u64,
    pub before_start: u64,
    pub beyond_cutoff: u64,
    pub out_of_window: u64,
    pub after_end: u64,
    /// Single bytes among those out of the window or after the end: keep-alives with other numbers.
    pub probes: u64,
    pub capped: u64,
}

/// Gaps by their cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// The receiver acknowledged the bytes: the capture lacks them.
    pub acknowledged: Gap,
    /// The bytes did not arrive in time.
    pub time: Gap,
    /// Memory was needed.
    pub capped: Gap,
    /// The snaplen cut the bytes off.
    pub snapped: Gap,
    /// The connection, or the input, ended before the bytes arrived.
    pub ended: Gap,
}

/// Gaps of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gap {
    pub count: u64,
    pub bytes: u64,
}

/// Datagrams that came in fragments of TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    pub whole: u64,
    /// Datagrams of which some fragments did not arrive.
    pub incomplete: u64,
    /// Datagrams dropped because their fragments overlap.
    pub killed: u64,
    /// Overlaps with different bytes.
    pub differences: u64,
}

impl StreamsReport {
    /// Returns whether bytes are missing in what was delivered, were captured and not delivered, or were not searched.
    pub(crate) fn lacks_bytes(&self) -> bool {
        self.gaps.total().bytes
            + self.bytes.capped
            + self.bytes.unplaced()
            + self.ignored.truncated
            + self.cut_bytes
            + self.files_refused
            + self.bodies.refused
            + self.objects.map_or(0, |objects| objects.limited)
            + self.datagrams.incomplete
            + self.searched_in_part
            > 0
    }
}

impl Ignored {
    pub(super) fn new(track: &TrackTally) -> Self {
        Self {
            not_ip: track.not_ip,
            not_tcp: track.not_tcp,
            truncated: track.truncated,
            damaged: track.damaged,
            unselected: track.unselected,
        }
    }
}

impl Gaps {
    pub(super) fn new(tally: &StreamTally) -> Self {
        let of = |cause: GapCause| {
            let at = cause.index();
            Gap { count: tally.gaps[at], bytes: tally.gap_bytes[at] }
        };
        Self {
            acknowledged: of(GapCause::Acknowledged),
            time: of(GapCause::Time),
            capped: of(GapCause::Capped(quaff_stream::Cap::Lane)),
            snapped: of(GapCause::Snapped),
            ended: of(GapCause::Ended),
        }
    }

    /// Returns the sum of all causes.
    pub fn total(&self) -> Gap {
        let all = [self.acknowledged, self.time, self.capped, self.snapped, self.ended];
        all.iter().fold(Gap::default(), |sum, gap| Gap {
            count: sum.count + gap.count,
            bytes: sum.bytes + gap.bytes,
        })
    }
}

impl Bytes {
    /// Bytes that were captured and not delivered. A keep-alive with other numbers has none of a stream.
    pub(super) fn unplaced(&self) -> u64 {
        (self.before_start + self.after_end + self.out_of_window).saturating_sub(self.probes)
    }

    pub(super) fn new(tally: &StreamTally) -> Self {
        Self {
            seen: tally.seen_bytes,
            delivered: tally.delivered_bytes,
            duplicate: tally.duplicate_bytes,
            overlapped: tally.overlapped_bytes,
            late: tally.late_bytes,
            before_start: tally.before_start_bytes,
            beyond_cutoff: tally.beyond_cutoff_bytes,
            out_of_window: tally.out_of_window_bytes,
            probes: tally.probes_refused,
            after_end: tally.after_end_bytes,
            capped: tally.capped_bytes.iter().sum(),
        }
    }
}

impl Connections {
    pub(super) fn new(track: &TrackTally, streams: &StreamTally, reader: &ReaderTally) -> Self {
        let of = |reason: CloseReason| track.ended[reason as usize];
        Self {
            seen: track.connections,
            with_data: reader.connections,
            high: track.connections_high,
            closed: of(CloseReason::Closed),
            idle: of(CloseReason::Idle),
            evicted: of(CloseReason::Evicted),
            reused: of(CloseReason::Reused),
            input_ended: of(CloseReason::InputEnded),
            midstream: streams.midstream_starts,
            syns_missing: streams.syns_unseen,
        }
    }

    /// Directions of connections that began before the capture.
    pub fn before_capture(&self) -> u64 {
        self.midstream.saturating_sub(self.syns_missing)
    }
}

impl UdpConversations {
    fn new(track: &TrackTally) -> Self {
        let of = |reason: CloseReason| track.udp_ended[reason as usize];
        Self {
            seen: track.udp,
            idle: of(CloseReason::Idle),
            evicted: of(CloseReason::Evicted),
            input_ended: of(CloseReason::InputEnded),
        }
    }

    fn ended(&self) -> u64 {
        self.idle + self.evicted + self.input_ended
    }
}

impl Datagrams {
    pub(super) fn new(tally: &FragmentTally) -> Self {
        Self {
            whole: tally.wholes,
            incomplete: tally.expired + tally.capped,
            killed: tally.killed,
            differences: tally.differences,
        }
    }
}

/// The report of a run whose lane has ended.
pub(super) fn sum_up(ended: run::Ended, lane: Option<ReassemblyEnd>) -> StreamsReport {
    let mut report = lane.as_ref().map(of_lane).unwrap_or_default();
    report.run = ended.checked_summary(|received| match &lane {
        Some(lane) => check_streams(lane, received),
        None => Ok(()),
    });
    let of_reader = lane.and_then(|lane| lane.reader.failure);
    report.failure = of_reader.or(report.failure.take());
    let is_lost = report.lacks_bytes() || !report.is_input_whole();
    report.judge(is_lost);
    report
}

fn of_lane(lane: &ReassemblyEnd) -> StreamsReport {
    let ReassemblyEnd { track, streams, fragments, reader } = lane;
    StreamsReport {
        packets: track.packets,
        segments: track.segments,
        fragments: track.fragments,
        ignored: Ignored::new(track),
        cut_bytes: reader.cut_bytes,
        connections: Connections::new(track, streams, reader),
        udp: UdpConversations::new(track),
        listed: reader.listed,
        searched_in_part: reader.searched_in_part,
        bytes: Bytes::new(streams),
        gaps: Gaps::new(streams),
        datagrams: Datagrams::new(fragments),
        differences: streams.differences,
        files: reader.files,
        file_bytes: reader.bytes,
        files_refused: reader.files_refused,
        skipped_bytes: reader.skipped_bytes,
        bodies: reader.bodies,
        objects: reader.objects,
        ..StreamsReport::default()
    }
}

/// Checks the sums of a run that reads streams. A difference is a defect of quaff.
pub(super) fn check_streams(lane: &ReassemblyEnd, received: u64) -> Result<(), String> {
    let ReassemblyEnd { track, streams, fragments, reader } = lane;
    let ended: u64 = track.ended.iter().sum();
    let udp = UdpConversations::new(track);
    let TrackTally { segments, fragments: parts, datagrams, .. } = *track;
    let TrackTally { not_ip, not_tcp, truncated, damaged, unselected, .. } = *track;
    let ignored = not_ip + not_tcp + truncated + damaged + unselected;
    let sums = [
        ("received = packets", received, track.packets),
        (
            "packets = segments + fragments + datagrams + ignored",
            track.packets,
            segments + parts + datagrams + ignored,
        ),
        ("connections.seen = closed + idle + evicted + reused + input_ended", track.connections, ended),
        ("udp.seen = idle + evicted + input_ended", udp.seen, udp.ended()),
        (
            "bytes.delivered = file_bytes + skipped_bytes",
            streams.delivered_bytes,
            reader.bytes + reader.skipped_bytes,
        ),
        ("bytes that wait = 0 at the end", streams.held_bytes, 0),
    ];
    if !streams.is_balanced() || !fragments.is_balanced() {
        return Err("bytes of streams or of fragments have no fate".into());
    }
    tally::check(sums)
}
