//! Packs records into sets, and sets into messages of limited size; assigns the sequence numbers of a session.
//!
//! The encoders do not write the sequence number. A [`Session`] writes it when a message is sent, so that unsent
//! messages can be sent in another session. Nothing here reads a clock.

use super::ipfix;
use super::template::Dialect;
use super::time_base::Stamp;
use super::v9;
use std::collections::VecDeque;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    V5,
    V9,
    Ipfix,
}

impl Version {
    /// The version number, with which a message begins.
    pub fn number(self) -> u16 {
        match self {
            Self::V5 => 5,
            Self::V9 => 9,
            Self::Ipfix => 10,
        }
    }

    /// Offset of the sequence number in the header.
    fn sequence_at(self) -> usize {
        match self {
            Self::V5 => 16,
            Self::V9 => 12,
            Self::Ipfix => 8,
        }
    }
}

/// Flows in a message, or flows that were not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Records as encoded: a conversation may be two.
    pub records: u64,
    /// Packets and IP bytes of those flows.
    pub packets: u64,
    pub bytes: u64,
}

impl std::ops::AddAssign for Carried {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// A message, complete except for its sequence number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    pub bytes: Vec<u8>,
    /// The number by which this message advances the sequence: v5 flows, v9 messages, IPFIX data records.
    pub units: u32,
    pub carried: Carried,
    /// True if it defines templates.
    pub has_templates: bool,
}

/// The sequence of one transport session and observation domain.
#[derive(Debug, Clone)]
pub struct Session {
    version: Version,
    sequence: u32,
}

impl Session {
    /// A new session, whose first message has the number 0.
    pub fn new(version: Version) -> Self {
        Self { version, sequence: 0 }
    }

    /// Writes the sequence number of the message that is sent next, and advances the sequence.
    pub fn seal(&mut self, message: &mut Message) {
        let at = self.version.sequence_at();
        if let Some(place) = message.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&self.sequence.to_be_bytes());
        }
        self.skip(message);
    }

    /// Advances the sequence by a message that is not sent, so that the collector notices the loss (RFC 7011, 10.4.4).
    pub fn skip(&mut self, message: &Message) {
        self.sequence = self.sequence.wrapping_add(message.units);
    }

    /// Advances the sequence by records that were lost before they were encoded. NetFlow v9 counts messages, and these
    /// records never became one.
    pub fn lose(&mut self, records: u64) {
        if self.version != Version::V9 {
            self.sequence = self.sequence.wrapping_add(records as u32);
        }
    }

    /// Sets the export time of a message that is sent later than it was made. NetFlow keeps the time, because the times
    /// of its flows are relative to it.
    pub fn delay(&self, message: &mut Message, now_ns: u64) {
        if self.version == Version::Ipfix
            && let Some(place) = message.bytes.get_mut(4..8)
        {
            place.copy_from_slice(&((now_ns / 1_000_000_000) as u32).to_be_bytes());
        }
    }
}

/// The error for a record that is longer than a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oversize;

/// The parameters of a record that is added to a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// The number of a template, or of a set of templates.
    pub(crate) set: u16,
    /// Minimum length of a record of the set: padding has to be shorter (RFC 3954, erratum 2096).
    pub(crate) bytes_min: usize,
    /// Data records that it adds to the sequence number of IPFIX.
    pub(crate) units: u32,
    pub(crate) carried: Carried,
}

/// Bytes of the header of a set: its number and its length.
const SET_HEADER_BYTES: usize = 4;
/// Bytes reserved beyond the first record that does not fit a message, so that the buffer is never reallocated.
const ROOM_BYTES: usize = 16;
/// Minimum of the limit of a message: each options record fits.
pub(crate) const BYTES_MIN: usize = 256;

/// Packs records into messages.
#[derive(Debug)]
pub(crate) struct Packer {
    dialect: Dialect,
    /// Observation domain or source ID.
    domain: u32,
    bytes_max: usize,
    open: Message,
    /// Records of any kind in the open message, which the header of NetFlow v9 counts.
    records: u16,
    set: Option<OpenSet>,
    pub(crate) ready: VecDeque<Message>,
}

#[derive(Debug, Clone, Copy)]
struct OpenSet {
    id: u16,
    at: usize,
    bytes_min: usize,
}

impl Packer {
    pub(crate) fn new(dialect: Dialect, domain: u32, bytes_max: usize) -> Self {
        let bytes_max = bytes_max.clamp(BYTES_MIN, 65_535);
        let (open, ready) = (Message::default(), VecDeque::new());
        Self { dialect, domain, bytes_max, open, records: 0, set: None, ready }
    }

    fn header_bytes(&self) -> usize {
        match self.dialect {
            Dialect::V9 => v9::HEADER_BYTES,
            Dialect::Ipfix => ipfix::HEADER_BYTES,
        }
    }

    /// Maximum length of a record in an empty message.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let padding_max = if self.dialect == Dialect::V9 { 3 } else { 0 };
        self.bytes_max - self.header_bytes() - SET_HEADER_BYTES - padding_max
    }

    /// An empty packer for messages of the same exporter.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.dialect, self.domain, self.bytes_max)
    }

    /// Limits the messages from the next one on.
    pub(crate) fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.clamp(BYTES_MIN, 65_535);
    }

    /// Appends a record, to a new message if the open one has no room.
    pub(crate) fn append(
        &mut self,
        entry: Entry,
        stamp: Stamp,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<(), Oversize> {
        for is_retry in [false, true] {
            if self.open.bytes.is_empty() {
                // A record is written before its length is checked.
                self.open.bytes.reserve(self.bytes_max + entry.bytes_min + ROOM_BYTES);
                self.open.bytes.resize(self.header_bytes(), 0);
            }
            self.enter_set(&entry);
            let before = self.open.bytes.len();
            write(&mut self.open.bytes);
            let padding_max = if self.dialect == Dialect::V9 { 3 } else { 0 };
            if self.open.bytes.len() + padding_max <= self.bytes_max && self.records < u16::MAX {
                self.records += 1;
                self.open.units += entry.units;
                self.open.carried += entry.carried;
                self.open.has_templates |= entry.set < 256;
                return Ok(());
            }
            self.open.bytes.truncate(before);
            self.drop_empty_set();
            if is_retry || self.records == 0 {
                break;
            }
            self.flush(stamp);
        }
        if self.records == 0 {
            self.open = Message::default();
            self.set = None;
        }
        Err(Oversize)
    }

    /// Opens the set of an entry, unless it is already open.
    fn enter_set(&mut self, entry: &Entry) {
        if self.set.is_some_and(|set| set.id == entry.set) {
            return;
        }
        self.close_set();
        let at = self.open.bytes.len();
        self.open.bytes.extend(entry.set.to_be_bytes());
        self.open.bytes.extend([0, 0]);
        self.set = Some(OpenSet { id: entry.set, at, bytes_min: entry.bytes_min });
    }

    fn drop_empty_set(&mut self) {
        if let Some(set) = self.set.filter(|set| set.at + 4 == self.open.bytes.len()) {
            self.open.bytes.truncate(set.at);
            self.set = None;
        }
    }

    /// Pads the open set and writes its length.
    fn close_set(&mut self) {
        let Some(set) = self.set.take() else { return };
        if self.dialect == Dialect::V9 {
            let padding = self.open.bytes.len().next_multiple_of(4) - self.open.bytes.len();
            if padding < set.bytes_min {
                self.open.bytes.extend(std::iter::repeat_n(0, padding));
            }
        }
        let length = (self.open.bytes.len() - set.at) as u16;
        self.open.bytes[set.at + 2..set.at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Completes the open message, if it has a record.
    pub(crate) fn flush(&mut self, stamp: Stamp) {
        if self.records == 0 {
            return;
        }
        self.close_set();
        let mut message = std::mem::take(&mut self.open);
        match self.dialect {
            Dialect::V9 => {
                v9::write_header(&mut message.bytes, self.records, stamp, self.domain);
                message.units = 1;
            }
            Dialect::Ipfix => ipfix::write_header(&mut message.bytes, stamp.now_ns, self.domain),
        }
        self.records = 0;
        self.ready.push_back(message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::time_base::Uptime;
    use super::*;

    fn entry(set: u16, bytes_min: usize) -> Entry {
        Entry { set, bytes_min, units: 1, carried: Carried { records: 1, packets: 2, bytes: 3 } }
    }

    fn stamp() -> Stamp {
        Stamp { now_ns: 5_000_000_000, uptime: Uptime::new(2_000_000_000) }
    }

    fn packed(dialect: Dialect, entries: &[(u16, usize)], bytes_max: usize) -> Vec<Message> {
        let mut packer = Packer::new(dialect, 9, bytes_max);
        for (set, bytes) in entries {
            packer.append(entry(*set, *bytes), stamp(), |out| out.extend(vec![7; *bytes])).unwrap();
        }
        packer.flush(stamp());
        packer.ready.into()
    }

    #[test]
    fn sets_of_v9_are_padded_and_those_of_ipfix_are_not() {
        let v9 = packed(Dialect::V9, &[(256, 5), (257, 6)], 1400);
        assert_eq!(v9[0].bytes.len(), 20 + (4 + 5 + 3) + (4 + 6 + 2));
        assert_eq!(v9[0].bytes[2..4], [0, 2], "the count is one of records");
        assert_eq!(v9[0].units, 1);
        let ipfix = packed(Dialect::Ipfix, &[(256, 5), (257, 6)], 1400);
        assert_eq!(ipfix[0].bytes.len(), 16 + 4 + 5 + 4 + 6);
        assert_eq!(ipfix[0].units, 2);
    }

    /// With three bytes of padding, a set of one-byte records would have three more of them (RFC 3954, erratum 2096).
    #[test]
    fn padding_is_shorter_than_a_record() {
        let v9 = packed(Dialect::V9, &[(256, 1)], 1400);
        assert_eq!(v9[0].bytes.len(), 20 + 4 + 1);
    }

    #[test]
    fn no_message_is_longer_than_its_limit() {
        let entries: Vec<(u16, usize)> =
            (0..200).map(|at| (256 + at % 3, 10 + usize::from(at) % 50)).collect();
        for dialect in [Dialect::V9, Dialect::Ipfix] {
            let messages = packed(dialect, &entries, 300);
            assert!(messages.iter().all(|message| message.bytes.len() <= 300));
            assert_eq!(messages.iter().map(|message| message.carried.records).sum::<u64>(), 200);
        }
    }

    #[test]
    fn a_record_without_room_is_refused_and_costs_nothing_else() {
        let mut packer = Packer::new(Dialect::Ipfix, 0, 200);
        packer.append(entry(256, 9), stamp(), |out| out.extend([1; 9])).unwrap();
        assert_eq!(packer.append(entry(257, 500), stamp(), |out| out.extend([2; 500])), Err(Oversize));
        packer.append(entry(256, 9), stamp(), |out| out.extend([3; 9])).unwrap();
        packer.flush(stamp());
        let records: u64 = packer.ready.iter().map(|message| message.carried.records).sum();
        assert_eq!(records, 2);
    }

    #[test]
    fn a_session_numbers_what_it_sends_and_what_it_lost() {
        let mut messages = packed(Dialect::Ipfix, &[(256, 100), (256, 100), (256, 100)], 230);
        assert_eq!(messages.len(), 2);
        let mut session = Session::new(Version::Ipfix);
        session.seal(&mut messages[0]);
        session.skip(&messages[0].clone());
        session.seal(&mut messages[1]);
        assert_eq!(messages[0].bytes[8..12], [0, 0, 0, 0]);
        assert_eq!(messages[1].bytes[8..12], [0, 0, 0, 4]);
    }
}
