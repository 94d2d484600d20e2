//! DNS messages: datagrams over UDP, and length-prefixed messages over TCP.
//!
//! Names and data are texts in zone-file syntax (RFC 1035, section 5.1): unprintable bytes are `\DDD`, a dot within a
//! label is `\.`. The number of records is limited, and a damaged message keeps what was read before the damage.

use crate::event::Sender;
use quaff_wire::application::{FieldReader, dns};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of questions and records that are read.
const RECORDS_MAX: usize = 256;
/// Maximum bytes of unknown data that are shown.
const DATA_BYTES_MAX: usize = 256;
/// Size of the length prefix over TCP, bytes (RFC 1035, section 4.2.2).
const LENGTH_BYTES: usize = 2;

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const DNAME: u16 = 39;

/// Names of record types (IANA, DNS parameters).
static KINDS: [(u16, &str); 27] = [
    (A, "A"),
    (NS, "NS"),
    (CNAME, "CNAME"),
    (SOA, "SOA"),
    (PTR, "PTR"),
    (13, "HINFO"),
    (MX, "MX"),
    (TXT, "TXT"),
    (AAAA, "AAAA"),
    (29, "LOC"),
    (SRV, "SRV"),
    (35, "NAPTR"),
    (DNAME, "DNAME"),
    (41, "OPT"),
    (43, "DS"),
    (44, "SSHFP"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (50, "NSEC3"),
    (52, "TLSA"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
    (257, "CAA"),
];

/// Names of response codes, from 0.
static CODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE",
];

/// A message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsMessage {
    pub id: u16,
    pub is_response: bool,
    /// Opcode: 0 for a query, 5 for an update.
    pub operation: u8,
    pub is_authoritative: bool,
    /// True if the rest did not fit; the client repeats the query over TCP.
    pub is_truncated: bool,
    pub recursion_desired: bool,
    pub recursion_available: bool,
    /// See [`code_name`].
    pub code: u8,
    pub questions: Vec<DnsQuestion>,
    pub answers: Vec<DnsRecord>,
    pub authorities: Vec<DnsRecord>,
    pub additionals: Vec<DnsRecord>,
    /// True if everything that the header counts was read.
    pub is_whole: bool,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuestion {
    pub name: String,
    /// See [`kind_name`].
    pub kind: u16,
    pub class: u16,
}

/// A resource record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsRecord {
    pub name: String,
    /// See [`kind_name`].
    pub kind: u16,
    pub class: u16,
    pub ttl_s: u32,
    /// In zone-file syntax; for unknown types in that of RFC 3597, up to a limit.
    pub data: String,
}

/// The name of a record type, such as `AAAA` or `TYPE4711`.
pub fn kind_name(kind: u16) -> Cow<'static, str> {
    let known = KINDS.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("TYPE{kind}").into(), |(_, name)| (*name).into())
}

/// The name of a response code, such as `NXDOMAIN`.
pub fn code_name(code: u8) -> Cow<'static, str> {
    CODES.get(usize::from(code)).map_or_else(|| format!("RCODE{code}").into(), |name| (*name).into())
}

impl DnsMessage {
    /// Reads a datagram; `None` if its header is truncated, or its first question is invalid.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut header = FieldReader(bytes);
        let (id, flags) = (header.short()?, header.short()?);
        let counts = [header.short()?, header.short()?, header.short()?, header.short()?].map(usize::from);
        let mut message = Self {
            id,
            is_response: flags & 0x8000 != 0,
            operation: (flags >> 11 & 15) as u8,
            is_authoritative: flags & 0x400 != 0,
            is_truncated: flags & 0x200 != 0,
            recursion_desired: flags & 0x100 != 0,
            recursion_available: flags & 0x80 != 0,
            code: (flags & 15) as u8,
            ..Self::default()
        };
        if !matches!(message.operation, 0..=2 | 4..=6) {
            return None;
        }
        let is_read = message.read_sections(bytes, counts);
        if is_read.is_none() && message.questions.is_empty() && counts[0] > 0 {
            return None;
        }
        message.is_whole = is_read.is_some();
        Some(message)
    }

    /// Reads only the first question of a datagram; `None` without one.
    pub fn first_question(bytes: &[u8]) -> Option<DnsQuestion> {
        let mut header = FieldReader(bytes);
        let (_, _, questions) = (header.short()?, header.short()?, header.short()?);
        if questions == 0 { None } else { Some(question(bytes, dns::HEADER_BYTES)?.0) }
    }

    fn read_sections(&mut self, bytes: &[u8], counts: [usize; 4]) -> Option<()> {
        let (mut at, mut room) = (dns::HEADER_BYTES, RECORDS_MAX);
        for _ in 0..counts[0] {
            room = room.checked_sub(1)?;
            let (question, end) = question(bytes, at)?;
            self.questions.push(question);
            at = end;
        }
        let sections = [&mut self.answers, &mut self.authorities, &mut self.additionals];
        for (section, count) in sections.into_iter().zip(&counts[1..]) {
            for _ in 0..*count {
                room = room.checked_sub(1)?;
                let (record, end) = record(bytes, at)?;
                section.push(record);
                at = end;
            }
        }
        Some(())
    }
}

/// The question at this offset, and the offset after it.
fn question(bytes: &[u8], at: usize) -> Option<(DnsQuestion, usize)> {
    let (name, end) = name(bytes, at)?;
    let mut fields = FieldReader(bytes.get(end..)?);
    Some((DnsQuestion { name, kind: fields.short()?, class: fields.short()? }, end + 4))
}

/// The record at this offset, and the offset after it.
fn record(bytes: &[u8], at: usize) -> Option<(DnsRecord, usize)> {
    let (name, end) = name(bytes, at)?;
    let mut fields = FieldReader(bytes.get(end..)?);
    let (kind, class, ttl_s) = (fields.short()?, fields.short()?, fields.number(4)? as u32);
    let data = fields.whole_vector(2)?;
    let end = bytes.len() - fields.0.len();
    let text = data_text(bytes, kind, end - data.len(), data).unwrap_or_else(|| other_text(data));
    Some((DnsRecord { name, kind, class, ttl_s, data: text }, end))
}

/// The data of a known record type that start at this offset; `None` if they do not match the type.
fn data_text(bytes: &[u8], kind: u16, at: usize, data: &[u8]) -> Option<String> {
    let mut fields = FieldReader(data);
    // Names in data are compressed relative to the whole message, and end where the data end.
    let ending = |from: usize| name(bytes, at + from).filter(|(_, end)| *end == at + data.len());
    let ending = |from: usize| ending(from).map(|(name, _)| name);
    Some(match kind {
        A => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
        AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
        NS | CNAME | PTR | DNAME => ending(0)?,
        MX => format!("{} {}", fields.short()?, ending(2)?),
        SRV => format!("{} {} {} {}", fields.short()?, fields.short()?, fields.short()?, ending(6)?),
        TXT => strings(fields)?,
        SOA => {
            let (server, end) = name(bytes, at)?;
            let (mailbox, end) = name(bytes, end)?;
            let mut numbers = FieldReader(bytes.get(end..at + data.len()).filter(|rest| rest.len() == 20)?);
            let mut text = format!("{server} {mailbox}");
            while let Some(number) = numbers.number(4) {
                write!(text, " {number}").expect("a String takes all");
            }
            text
        }
        _ => return None,
    })
}

/// Strings, each in quotes.
fn strings(mut data: FieldReader<'_>) -> Option<String> {
    let mut text = String::new();
    while !data.0.is_empty() {
        let string = data.whole_vector(1)?;
        text.push_str(if text.is_empty() { "\"" } else { " \"" });
        string.iter().for_each(|byte| push(&mut text, *byte, b"\"\\", true));
        text.push('"');
    }
    Some(text)
}

fn other_text(data: &[u8]) -> String {
    let mut text = format!("\\# {}", data.len());
    if !data.is_empty() {
        text.push(' ');
    }
    for byte in data.iter().take(DATA_BYTES_MAX) {
        write!(text, "{byte:02x}").expect("a String takes all");
    }
    text
}

/// The name at this offset, `.` for the root, and the offset after it.
fn name(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let end = dns::name(bytes, at, |label| {
        if !text.is_empty() {
            text.push('.');
        }
        label.iter().for_each(|byte| push(&mut text, *byte, b".\\", false));
    })?;
    if text.is_empty() {
        text.push('.');
    }
    Some((text, end))
}

/// Appends a byte, escaped by a backslash if it is in `escaped`.
fn push(text: &mut String, byte: u8, escaped: &[u8], is_space_plain: bool) {
    let is_plain = byte.is_ascii_graphic() || byte == b' ' && is_space_plain;
    if escaped.contains(&byte) {
        text.push('\\');
    }
    match is_plain {
        true => text.push(char::from(byte)),
        false => write!(text, "\\{byte:03}").expect("a String takes all"),
    }
}

/// Reads the messages of a TCP connection; buffers at most 64 KiB per side.
#[derive(Debug, Default)]
pub struct DnsStream {
    halves: [DnsHalf; 2],
}

/// The state of one side.
#[derive(Debug, Default)]
struct DnsHalf {
    /// An incomplete message with its length prefix.
    waiting: Vec<u8>,
    /// True if bytes are missing or the data are not DNS: message boundaries cannot be found again.
    is_over: bool,
}

impl DnsStream {
    /// Processes the next bytes.
    pub fn data(&mut self, sender: Sender, bytes: &[u8], sink: &mut dyn FnMut(Sender, &DnsMessage)) {
        let half = &mut self.halves[sender.index()];
        let mut rest = bytes;
        while !half.is_over && !rest.is_empty() {
            let wanted = match half.waiting.first_chunk() {
                Some(length) => LENGTH_BYTES + usize::from(u16::from_be_bytes(*length)),
                None => LENGTH_BYTES,
            };
            let (taken, after) = rest.split_at(rest.len().min(wanted - half.waiting.len()));
            half.waiting.extend_from_slice(taken);
            rest = after;
            half.take_message(sender, sink);
        }
    }

    /// Notes that bytes of this side are missing.
    pub fn gap(&mut self, sender: Sender) {
        self.halves[sender.index()].stop();
    }

    /// Returns true if no more messages will be found.
    pub fn is_over(&self) -> bool {
        self.halves.iter().all(|half| half.is_over)
    }
}

impl DnsHalf {
    /// Passes the message on if it is complete.
    fn take_message(&mut self, sender: Sender, sink: &mut dyn FnMut(Sender, &DnsMessage)) {
        let Some((length, message)) = self.waiting.split_first_chunk() else { return };
        if message.len() < usize::from(u16::from_be_bytes(*length)) {
            return;
        }
        match DnsMessage::read(message) {
            Some(message) => sink(sender, &message),
            None => return self.stop(),
        }
        self.waiting.clear();
    }

    fn stop(&mut self) {
        *self = Self { waiting: Vec::new(), is_over: true };
    }
}

#[cfg(test)]
mod tests;
