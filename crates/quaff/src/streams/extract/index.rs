//! The index of extracted streams: a line of JSON for each connection.
//!
//! Lists of gaps and of differing bytes have limits; what a line does not list it counts.

use super::bodies::{BodyLine, BodySide, LISTED_MAX};
use crate::streams::names::{begin_name, end_name};
use quaff_stream::tracker::{CloseReason, Closed, Opened};
use quaff_stream::{Difference, EndReason, GapCause, Sender};
use serde::Serialize;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Bytes of the lists of all connections that have not ended.
pub(super) const LISTS_BYTES_MAX: usize = 64 << 20;

/// A gap of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct GapLine {
    /// Offset in the stream.
    offset: u64,
    bytes: u64,
    /// Offset of the gap in the file, which has no bytes for it.
    file_offset: u64,
    cause: &'static str,
}

/// Two versions of the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DifferenceLine {
    offset: u64,
    /// Number of bytes that differ.
    bytes: u32,
    /// `first` or `second`.
    kept: &'static str,
    /// The first 256 bytes of each version, in hexadecimal digits.
    first: String,
    second: String,
}

/// The lists of a stream in its line.
#[derive(Debug, Default)]
pub(super) struct Lists {
    gaps: Vec<GapLine>,
    differences: Vec<DifferenceLine>,
    /// Memory of both lists, bytes.
    pub(super) bytes: usize,
}

/// One direction of a connection, with what its file and its line need.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) lists: Lists,
    pub(super) gaps: u64,
    pub(super) gap_bytes: u64,
    pub(super) differences: u64,
    /// Bytes that were delivered but have no file.
    pub(super) skipped_bytes: u64,
    /// The length with gaps, and the end.
    end: Option<(u64, EndReason)>,
}

impl Stream {
    /// Notes a gap before the byte `file_offset` of the file. `room` are bytes left for lists.
    pub(super) fn note_gap(
        &mut self,
        offset: u64,
        bytes: u64,
        cause: GapCause,
        file_offset: u64,
        room: usize,
    ) {
        self.gaps += 1;
        self.gap_bytes += bytes;
        if self.lists.gaps.len() < LISTED_MAX && size_of::<GapLine>() <= room {
            let cause = GapCause::NAMES[cause.index()];
            self.lists.gaps.push(GapLine { offset, bytes, file_offset, cause });
            self.lists.bytes += size_of::<GapLine>();
        }
    }

    /// Notes different versions of bytes.
    pub(super) fn note_difference(&mut self, difference: &Difference, room: usize) {
        self.differences += 1;
        let Difference { offset, old, new, differing, is_new_kept } = *difference;
        let bytes = size_of::<DifferenceLine>() + 2 * (old.len() + new.len());
        if self.lists.differences.len() < LISTED_MAX && bytes <= room {
            let kept = if is_new_kept { "second" } else { "first" };
            let (first, second) = (hex(old), hex(new));
            self.lists.differences.push(DifferenceLine { offset, bytes: differing, kept, first, second });
            self.lists.bytes += bytes;
        }
    }

    pub(super) fn note_end(&mut self, offset: u64, reason: EndReason) {
        self.end = Some((offset, reason));
    }

    /// Returns true if the stream has bytes, gaps or differences.
    pub(super) fn is_worth_a_line(&self) -> bool {
        self.gaps + self.differences + self.skipped_bytes > 0
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(digits, "{byte:02x}").expect("a String takes all");
    }
    digits
}

/// The line of a connection.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    number: u64,
    protocol: &'static str,
    client: IpAddr,
    client_port: u16,
    server: IpAddr,
    server_port: u16,
    first_ns: u64,
    last_ns: u64,
    opened: &'static str,
    closed: &'static str,
    from_client: Side<'a>,
    from_server: Side<'a>,
}

#[derive(Debug, Serialize)]
struct Side<'a> {
    file: Option<String>,
    /// Bytes of the file.
    bytes: u64,
    /// The length with gaps.
    stream_bytes: u64,
    gap_bytes: u64,
    gaps: &'a [GapLine],
    gaps_unlisted: u64,
    differences: &'a [DifferenceLine],
    differences_unlisted: u64,
    skipped_bytes: u64,
    /// Bodies of HTTP, if they are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies: Option<&'a [BodyLine]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies_unlisted: Option<u64>,
    end: &'static str,
}

/// A stream with the name and the size of its file.
pub(super) struct Shown<'a> {
    pub(super) stream: &'a Stream,
    pub(super) file: Option<String>,
    pub(super) bytes: u64,
    pub(super) bodies: Option<&'a BodySide>,
}

impl<'a> Line<'a> {
    /// The line of a connection with the streams of A and B.
    pub(super) fn new(opened: &Opened, closed: &Closed, streams: [Shown<'a>; 2]) -> Self {
        let client = closed.client.unwrap_or(opened.client);
        let [from_a, from_b] = streams.map(Side::new);
        let (from_client, from_server) =
            if client == Sender::A { (from_a, from_b) } else { (from_b, from_a) };
        let end = |sender: Sender| -> SocketAddr { opened.ends[sender.index()] };
        Self {
            number: opened.number,
            protocol: "tcp",
            client: end(client).ip(),
            client_port: end(client).port(),
            server: end(client.other()).ip(),
            server_port: end(client.other()).port(),
            first_ns: opened.first_ns,
            last_ns: closed.last_ns,
            opened: begin_name(closed, client),
            closed: CloseReason::NAMES[closed.reason as usize],
            from_client,
            from_server,
        }
    }
}

impl<'a> Side<'a> {
    fn new(shown: Shown<'a>) -> Self {
        let Shown { stream, file, bytes, bodies } = shown;
        let Lists { gaps, differences, .. } = &stream.lists;
        Self {
            file,
            bytes,
            stream_bytes: stream.end.map_or(0, |(offset, _)| offset),
            gap_bytes: stream.gap_bytes,
            gaps,
            gaps_unlisted: stream.gaps - gaps.len() as u64,
            differences,
            differences_unlisted: stream.differences - differences.len() as u64,
            skipped_bytes: stream.skipped_bytes,
            bodies: bodies.map(|bodies| &bodies.lines[..]),
            bodies_unlisted: bodies.map(|bodies| bodies.unlisted),
            end: end_name(stream.end.map(|(_, reason)| reason)),
        }
    }
}
