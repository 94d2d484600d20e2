//! A segment of a spool as bytes: a beginning, the messages of templates that its data needs, and its data.
//!
//! The beginning is [`MAGIC`] and the length of the segment (little endian), which is 0 until nothing is appended any
//! more: a segment that was shortened later, at the end of a frame too, lacks bytes that its length counts. Segments of
//! earlier versions begin with [`OLD_MAGIC`] and record no length.
//!
//! Each frame is a header of [`FRAME_HEADER`] bytes (little endian: length, sequence units, records, packets, bytes,
//! flags, checksum) and a message. A frame whose checksum is wrong ends its segment. Bytes only: `spool` has the files.

use crate::export::{Carried, Message, Version};

const MAGIC: &[u8; 8] = b"quaffsp2";
const OLD_MAGIC: &[u8; 8] = b"quaffsp1";
/// The place of the length.
pub(super) const LENGTH_AT: u64 = MAGIC.len() as u64;
/// Bytes before the first frame.
pub(super) const BEGINNING: usize = MAGIC.len() + 8;
pub(super) const FRAME_HEADER: usize = 48;
/// The longest message.
pub(super) const MESSAGE_BYTES_MAX: usize = 65_535;
const HAS_TEMPLATES: u32 = 1;

/// The length of a segment, as its beginning has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedLength {
    /// Of an earlier version, or damaged from the first byte on.
    None,
    /// Messages are appended, or the run that appended them was killed.
    Open,
    Closed(u64),
}

impl RecordedLength {
    /// The bytes by which a segment of this length differs from what was written.
    pub(super) fn difference(self, bytes: u64) -> u64 {
        match self {
            Self::Closed(length) => length.abs_diff(bytes),
            Self::None | Self::Open => 0,
        }
    }
}

/// The beginning of a segment that messages are appended to.
pub(super) fn beginning() -> Vec<u8> {
    [&MAGIC[..], &[0; 8]].concat()
}

/// Records the length of a whole segment in its beginning.
pub(super) fn set_length(segment: &mut [u8], length: u64) {
    segment[MAGIC.len()..BEGINNING].copy_from_slice(&length.to_le_bytes());
}

/// Reads a beginning; returns its length too.
pub(super) fn parse_beginning(bytes: &[u8]) -> (usize, RecordedLength) {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return (if bytes.starts_with(OLD_MAGIC) { OLD_MAGIC.len() } else { 0 }, RecordedLength::None);
    };
    match rest.first_chunk().map(|length| u64::from_le_bytes(*length)) {
        // Cut within the length: it had more bytes than there are.
        None => (bytes.len(), RecordedLength::Closed(BEGINNING as u64)),
        Some(0) => (BEGINNING, RecordedLength::Open),
        Some(length) => (BEGINNING, RecordedLength::Closed(length)),
    }
}

/// Appends a message as a frame.
pub(super) fn append_frame(out: &mut Vec<u8>, message: &Message) {
    let start = out.len();
    out.extend((message.bytes.len() as u32).to_le_bytes());
    out.extend(message.units.to_le_bytes());
    for number in [message.carried.records, message.carried.packets, message.carried.bytes] {
        out.extend(number.to_le_bytes());
    }
    let flags = if message.has_templates { HAS_TEMPLATES } else { 0 };
    out.extend(flags.to_le_bytes());
    out.extend([0; 4]);
    let sum = checksum(&out[start..], &message.bytes);
    out.extend(sum.to_le_bytes());
    out.extend(&message.bytes);
}

/// A frame, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpoolFrame {
    /// The message, and the bytes of its frame.
    Message(Message, usize),
    End,
    Damaged,
}

pub(super) fn parse_frame(bytes: &[u8]) -> SpoolFrame {
    if bytes.is_empty() {
        return SpoolFrame::End;
    }
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER) else { return SpoolFrame::Damaged };
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let length = word(0) as usize;
    if length > MESSAGE_BYTES_MAX {
        return SpoolFrame::Damaged;
    }
    let Some(message) = rest.get(..length) else { return SpoolFrame::Damaged };
    if checksum(&header[..40], message) != long(40) {
        return SpoolFrame::Damaged;
    }
    let carried = Carried { records: long(8), packets: long(16), bytes: long(24) };
    let has_templates = word(32) & HAS_TEMPLATES != 0;
    let message = Message { bytes: message.to_vec(), units: word(4), carried, has_templates };
    SpoolFrame::Message(message, FRAME_HEADER + length)
}

/// FNV-1a over both. It finds damage, not malice: a user who can write the spool can write messages.
fn checksum(header: &[u8], message: &[u8]) -> u64 {
    header
        .iter()
        .chain(message)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The sets of templates and options templates in a message, without its header and its data. Two announcements with
/// the same templates have the same, whatever their times and options.
pub(super) fn template_records(message: &[u8], version: Version) -> Vec<u8> {
    let header = match version {
        Version::V5 => return Vec::new(),
        Version::V9 => 20,
        Version::Ipfix => 16,
    };
    let mut found = Vec::new();
    let mut rest = message.get(header..).unwrap_or_default();
    while let [id_high, id_low, high, low, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(set) = rest.get(..length).filter(|_| length >= 4) else { break };
        // Numbers of data begin at 256 in both.
        if u16::from_be_bytes([id_high, id_low]) < 256 {
            found.extend(set);
        }
        rest = &rest[length..];
    }
    found
}

/// Reads all messages of a segment's bytes, up to damage. For tests of the format: a spool reads one at a time.
pub fn parse_segment(bytes: &[u8]) -> Vec<Message> {
    let (mut at, _) = parse_beginning(bytes);
    let mut messages = Vec::new();
    while let SpoolFrame::Message(message, length) = parse_frame(&bytes[at..]) {
        messages.push(message);
        at += length;
    }
    messages
}
