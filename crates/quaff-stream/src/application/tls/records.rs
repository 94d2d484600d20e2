//! The records of TLS in both directions of a connection (RFC 8446, section 5; RFC 5246, section 6.2).
//!
//! Records follow each other without a mark, so each one is found by the length of the one before it. The first bytes
//! of a side are a record if they look like one. After missing bytes, damage or another protocol, a record is read only
//! if it begins with a piece of data, and is a hello or its last byte is followed by another record of the same
//! version, by missing bytes or by the end. Nothing is decrypted.

pub use super::messages::HandshakeMessage;

use super::messages::Handshakes;
use super::names::{self, ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HEARTBEAT, Name};
use super::{HANDSHAKE, RECORD_BYTES, begins_hello, version_name};
use crate::event::Sender;
use quaff_wire::application::preface::before_tls_bytes;
use serde::Serialize;

/// Maximum length of the content of a record (RFC 5246, section 6.2.3), bytes.
const CONTENT_BYTES_MAX: usize = (16 << 10) + 2048;
const TLS_12: u16 = 0x0303;
const TLS_13: u16 = 0x0304;

/// A record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TlsRecord {
    /// Time of the packet with its last byte, ns since 1970.
    #[serde(skip)]
    pub time_ns: u64,
    /// Offset of its header in the stream of the side.
    pub offset: u64,
    /// `handshake`, `application_data`, …
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `TLS 1.3` once a ServerHello has chosen that and the header has the number of TLS 1.2; else that of the header.
    pub version: &'static str,
    /// The version in its header.
    pub record_version: &'static str,
    /// Length in its header, bytes.
    pub length: usize,
    /// Bytes of the content that are missing.
    pub missing_bytes: usize,
    /// True if the content cannot be read.
    #[serde(rename = "encrypted")]
    pub is_encrypted: bool,
    /// Handshake messages that end in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<HandshakeMessage>,
    /// The handshake message that continues in the next record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_message: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_level: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert: Option<Name>,
}

/// A part of one side of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordItem {
    Record(TlsRecord),
    /// Bytes in which no record certainly begins.
    Unread {
        offset: u64,
        bytes: u64,
        /// True directly before the first record of the side, and at the end of a side without one.
        is_first: bool,
        /// True at the end of the side.
        is_last: bool,
    },
}

/// Reads the records of a TCP connection. Of each side it keeps one record and one handshake message of at most 64 KiB.
#[derive(Debug, Default)]
pub struct RecordReader {
    halves: [RecordHalf; 2],
}

impl RecordReader {
    /// Processes the next bytes, at an offset of the stream of their sender, and returns what they complete.
    pub fn data(&mut self, sender: Sender, offset: u64, time_ns: u64, bytes: &[u8]) -> Vec<RecordItem> {
        self.process(sender, |half| half.data(offset, time_ns, bytes))
    }

    /// Notes missing bytes, and returns what ends there.
    pub fn gap(&mut self, sender: Sender, lost_bytes: u64) -> Vec<RecordItem> {
        self.process(sender, |half| half.gap(lost_bytes))
    }

    /// Notes the end of a side, once or more, and returns what is left.
    pub fn end(&mut self, sender: Sender) -> Vec<RecordItem> {
        self.process(sender, RecordHalf::end)
    }

    fn process(&mut self, sender: Sender, process: impl FnOnce(&mut RecordHalf)) -> Vec<RecordItem> {
        let half = &mut self.halves[sender.index()];
        process(half);
        let (found, is_13) = (std::mem::take(&mut half.found), half.is_13);
        self.halves.iter_mut().for_each(|half| half.is_13 |= is_13);
        found
    }
}

/// The parser state of a side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Before the first byte.
    #[default]
    Start,
    /// No record certainly begins here.
    Lost,
    /// In a record that is uncertain until another one follows it.
    Unproven,
    /// In a record, or where one begins.
    Proven,
    Over,
}

/// The state of one side.
#[derive(Debug, Default)]
struct RecordHalf {
    phase: Phase,
    /// An incomplete header, and its offset.
    header: Vec<u8>,
    header_at: u64,
    /// The record whose header is complete.
    open: Option<OpenRecord>,
    /// A complete record that is not proven.
    held: Option<OpenRecord>,
    handshakes: Handshakes,
    /// The version in the last header.
    version: [u8; 2],
    has_records: bool,
    /// True if a server chose TLS 1.3.
    is_13: bool,
    /// Offset and number of the last bytes in which no record begins.
    unread: (u64, u64),
    /// Items that are not returned yet.
    found: Vec<RecordItem>,
}

/// A record with a whole header.
#[derive(Debug, Default)]
struct OpenRecord {
    time_ns: u64,
    offset: u64,
    kind: u8,
    version: u16,
    length: usize,
    present_bytes: usize,
    missing_bytes: usize,
    /// The content of a handshake or an alert.
    body: Vec<u8>,
}

impl OpenRecord {
    fn rest_bytes(&self) -> usize {
        self.length - self.present_bytes - self.missing_bytes
    }

    fn add(&mut self, bytes: &[u8]) {
        self.present_bytes += bytes.len();
        if matches!(self.kind, HANDSHAKE | ALERT) {
            self.body.extend_from_slice(bytes);
        }
    }
}

/// True if bytes are the header of a record, or the first ones of it.
fn begins_record(bytes: &[u8]) -> bool {
    let length =
        bytes.get(3..RECORD_BYTES).map_or(0, |length| usize::from(length[0]) << 8 | usize::from(length[1]));
    bytes.first().is_none_or(|kind| names::record_type(*kind).is_some())
        && bytes.get(1).is_none_or(|major| *major == 3)
        && bytes.get(2).is_none_or(|minor| *minor <= 4)
        && length <= CONTENT_BYTES_MAX
}

/// The bytes of messages that may precede TLS, if a hello follows them.
fn before_hello_bytes(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    while !begins_hello(rest) {
        let length = before_tls_bytes(rest).filter(|length| *length > 0)?;
        rest = rest.get(length..)?;
    }
    Some(bytes.len() - rest.len())
}

impl RecordHalf {
    fn data(&mut self, offset: u64, time_ns: u64, bytes: &[u8]) {
        if bytes.is_empty() || self.phase == Phase::Over {
            return;
        }
        let mut taken = 0;
        if matches!(self.phase, Phase::Start | Phase::Lost) {
            let before = self.find(bytes);
            taken = before.unwrap_or(bytes.len());
            self.leave_out(offset, taken);
            if before.is_some() && self.phase == Phase::Proven {
                self.end_unread(false);
            }
        }
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let at = offset + taken as u64;
            if self.phase == Phase::Lost {
                return self.leave_out(at, rest.len());
            }
            taken += self.take(at, time_ns, rest);
        }
    }

    /// Searches for a record at the start of a piece, and returns the bytes before it.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let is_start = self.phase == Phase::Start;
        let is_whole = bytes.len() >= RECORD_BYTES;
        let (phase, before) = if begins_hello(bytes) || is_start && begins_record(bytes) {
            (Phase::Proven, Some(0))
        } else if is_whole && begins_record(bytes) {
            (Phase::Unproven, Some(0))
        } else {
            let before = if self.has_records { None } else { before_hello_bytes(bytes) };
            (if before.is_some() { Phase::Proven } else { Phase::Lost }, before)
        };
        self.phase = phase;
        before
    }

    /// Takes bytes of one header or of one record, and returns their number.
    fn take(&mut self, at: u64, time_ns: u64, bytes: &[u8]) -> usize {
        if let Some(open) = &mut self.open {
            let taken = bytes.len().min(open.rest_bytes());
            open.add(&bytes[..taken]);
            open.time_ns = time_ns;
            self.end_record_if_whole();
            return taken;
        }
        if self.header.is_empty() {
            self.header_at = at;
        }
        let taken = bytes.len().min(RECORD_BYTES - self.header.len());
        self.header.extend_from_slice(&bytes[..taken]);
        let is_other = self.held.is_some() && self.header.len() > 2 && self.header[1..3] != self.version;
        if is_other || !begins_record(&self.header) {
            self.lose();
        } else if let [kind, major, minor, high, low] = self.header[..] {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let version = u16::from_be_bytes([major, minor]);
            let offset = self.header_at;
            self.begin_record(OpenRecord { time_ns, offset, kind, version, length, ..OpenRecord::default() });
        }
        taken
    }

    /// Begins a record, which proves the one before it.
    fn begin_record(&mut self, record: OpenRecord) {
        self.prove();
        self.version = record.version.to_be_bytes();
        self.header.clear();
        self.open = Some(record);
        self.end_record_if_whole();
    }

    /// Passes on a record that is certain now, and the bytes before it.
    fn prove(&mut self) {
        if let Some(held) = self.held.take() {
            self.phase = Phase::Proven;
            self.end_unread(false);
            self.pass_on(held);
        }
    }

    fn end_record_if_whole(&mut self) {
        let Some(record) = self.open.take_if(|open| open.rest_bytes() == 0) else { return };
        if self.phase == Phase::Unproven {
            self.held = Some(record);
        } else {
            self.pass_on(record);
        }
    }

    fn gap(&mut self, lost_bytes: u64) {
        if self.phase == Phase::Over {
            return;
        }
        if let Some(open) = self.open.as_mut().filter(|_| self.phase == Phase::Proven) {
            let rest_bytes = open.rest_bytes();
            open.missing_bytes += usize::try_from(lost_bytes).unwrap_or(usize::MAX).min(rest_bytes);
            self.end_record_if_whole();
            // The next record begins where this one ends.
            if lost_bytes <= rest_bytes as u64 {
                return;
            }
        }
        self.end_data();
        self.end_unread(false);
    }

    fn end(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        if let Some(open) = self.open.as_mut().filter(|_| self.phase == Phase::Proven) {
            open.missing_bytes += open.rest_bytes();
            self.end_record_if_whole();
        }
        self.end_data();
        self.end_unread(true);
        self.phase = Phase::Over;
    }

    /// Ends the bytes before a gap. A record that ends exactly there is as certain as one that another one follows.
    fn end_data(&mut self) {
        if self.open.is_none() && self.header.is_empty() {
            self.prove();
        }
        self.lose();
    }

    /// Leaves out bytes that may belong to a record, and those that follow until one certainly begins.
    fn lose(&mut self) {
        for record in [self.held.take(), self.open.take()].into_iter().flatten() {
            self.leave_out(record.offset, RECORD_BYTES + record.present_bytes);
        }
        let header_bytes = std::mem::take(&mut self.header).len();
        self.leave_out(self.header_at, header_bytes);
        self.handshakes.reset();
        self.phase = Phase::Lost;
    }

    /// Adds bytes to those in which no record begins.
    fn leave_out(&mut self, offset: u64, bytes: usize) {
        if self.unread.1 == 0 {
            self.unread.0 = offset;
        }
        self.unread.1 += bytes as u64;
    }

    /// Passes on the bytes in which no record begins.
    fn end_unread(&mut self, is_last: bool) {
        let (offset, bytes) = std::mem::take(&mut self.unread);
        if bytes > 0 {
            // Before missing bytes it is not known if a record follows.
            let is_first = !self.has_records && (is_last || self.phase != Phase::Lost);
            self.found.push(RecordItem::Unread { offset, bytes, is_first, is_last });
        }
    }

    fn pass_on(&mut self, open: OpenRecord) {
        self.has_records = true;
        let record_version = version_name(open.version);
        let mut record = TlsRecord {
            time_ns: open.time_ns,
            offset: open.offset,
            kind: names::record_type(open.kind).unwrap_or_default(),
            record_version,
            length: open.length,
            missing_bytes: open.missing_bytes,
            ..TlsRecord::default()
        };
        self.read_content(&open, &mut record);
        let is_13 = self.is_13 && open.version == TLS_12;
        record.version = if is_13 { version_name(TLS_13) } else { record_version };
        self.found.push(RecordItem::Record(record));
    }

    /// Reads the content of a record, as far as it is in the clear.
    fn read_content(&mut self, open: &OpenRecord, record: &mut TlsRecord) {
        match open.kind {
            CHANGE_CIPHER_SPEC => self.handshakes.reset(),
            // What is encrypted is longer than an alert.
            ALERT => match open.body[..] {
                [level, description] if open.length == 2 => {
                    record.alert_level = Some(names::alert_level(level));
                    record.alert = Some(names::alert(description));
                }
                _ => record.is_encrypted = open.length > 2,
            },
            HANDSHAKE if open.missing_bytes > 0 => {
                record.is_encrypted = self.handshakes.is_changed();
                self.handshakes.reset();
            }
            HANDSHAKE => match self.handshakes.read(&open.body) {
                Some(messages) => {
                    self.is_13 |= messages.chosen == Some(TLS_13);
                    (record.messages, record.open_message) = (messages.ended, messages.open);
                }
                None => record.is_encrypted = true,
            },
            APPLICATION_DATA => record.is_encrypted = true,
            HEARTBEAT => record.is_encrypted = self.is_13 || self.handshakes.is_changed(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
