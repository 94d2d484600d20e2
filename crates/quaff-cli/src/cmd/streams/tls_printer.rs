//! The TLS records of a connection: a line or an object for each, in the order in which they were complete.

use super::json_line::{JsonContent, JsonLine};
use super::printer::Side;
use crate::show;
use quaff::format::clause;
use quaff_stream::application::tls::records::{HandshakeMessage, RecordItem, RecordReader, TlsRecord};
use quaff_stream::tracker::{Closed, ConnectionSink, Opened};
use quaff_stream::{Event, GapCause, Sender};

/// Bytes of text that are collected before they are printed.
const BUFFER_BYTES: usize = 64 << 10;

/// Prints the records of one connection.
#[derive(Debug)]
pub(super) struct TlsPrinter {
    is_json: bool,
    side: Option<Side>,
    opened: Option<Opened>,
    reader: RecordReader,
    sums: [Sums; 2],
    /// True if the line with the ends was made.
    has_head: bool,
    /// Whole lines that are not printed yet.
    out: String,
    print: fn(&str),
}

/// The sums of one side.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    records: u64,
    /// Bytes of its stream that were captured.
    bytes: u64,
    /// Those in the content of records of the type application_data.
    application_bytes: u64,
}

impl TlsPrinter {
    pub(super) fn new(is_json: bool, side: Option<Side>) -> Self {
        Self {
            is_json,
            side,
            opened: None,
            reader: RecordReader::default(),
            sums: [Sums::default(); 2],
            has_head: false,
            out: String::new(),
            print: show::print,
        }
    }

    fn side_of(&self, sender: Sender) -> Side {
        let client = self.opened.map_or(Sender::A, |opened| opened.client);
        if sender == client { Side::Client } else { Side::Server }
    }

    /// Returns true for a side that was asked for.
    fn is_wanted(&self, sender: Sender) -> bool {
        self.side.is_none_or(|side| side == self.side_of(sender))
    }

    /// Adds a line: as text `words` after the arrow of the sender, or an object with this content.
    fn line(
        &mut self,
        sender: Sender,
        time_ns: u64,
        words: impl FnOnce() -> String,
        content: JsonContent<'_>,
    ) {
        let Some(opened) = self.opened.filter(|_| self.is_wanted(sender)) else { return };
        let side = self.side_of(sender);
        if self.is_json {
            let [from, to] = [sender, sender.other()].map(|sender| opened.ends[sender.index()]);
            let side = if side == Side::Client { "client" } else { "server" };
            let line = JsonLine { time_ns, side, from, to, content };
            self.out += &serde_json::to_string(&line).expect("its keys are texts");
        } else {
            self.add_head(&opened);
            let arrow = if side == Side::Client { "→" } else { "←" };
            self.out += &format!("{arrow} {}", words());
        }
        self.out.push('\n');
    }

    /// Adds the line that explains the arrows, once.
    fn add_head(&mut self, opened: &Opened) {
        if !std::mem::replace(&mut self.has_head, true) {
            let [client, server] = [opened.client, opened.client.other()].map(|end| opened.ends[end.index()]);
            self.out += &format!("client {client} → server {server}\n");
        }
    }

    /// Adds what was read of a side by a packet at `time_ns`.
    fn add(&mut self, sender: Sender, time_ns: u64, items: Vec<RecordItem>) {
        for item in items {
            match item {
                RecordItem::Record(record) => self.add_record(sender, &record),
                RecordItem::Unread { offset, bytes, is_first, is_last } => {
                    let words = || {
                        let words = unread_words(offset, bytes, is_first, is_last);
                        format!("{}  {words}", show::time_ns(time_ns))
                    };
                    self.line(sender, time_ns, words, JsonContent::Unread { offset, unread_bytes: bytes });
                }
            }
        }
        self.flush(BUFFER_BYTES);
    }

    fn add_record(&mut self, sender: Sender, record: &TlsRecord) {
        let sums = &mut self.sums[sender.index()];
        sums.records += 1;
        if record.kind == "application_data" {
            sums.application_bytes += (record.length - record.missing_bytes) as u64;
        }
        self.line(sender, record.time_ns, || record_words(record), JsonContent::Record(record));
    }

    fn add_gap(&mut self, sender: Sender, time_ns: u64, offset: u64, lost_bytes: u64, cause: GapCause) {
        let words = || {
            let missing = clause(lost_bytes, "byte", "are missing");
            format!("{}  {missing} ({})", show::time_ns(time_ns), GapCause::NAMES[cause.index()])
        };
        self.line(sender, time_ns, words, JsonContent::gap(offset, lost_bytes, cause));
    }

    /// Adds the sums of both sides.
    fn add_sums(&mut self, time_ns: u64) {
        let client = self.opened.map_or(Sender::A, |opened| opened.client);
        for sender in [client, client.other()] {
            let Sums { records, bytes, application_bytes } = self.sums[sender.index()];
            let words = || {
                let [bytes, content] = [bytes, application_bytes].map(|bytes| show::number_of(bytes, "byte"));
                format!("{}, {bytes}, {content} of application_data", show::number_of(records, "record"))
            };
            self.line(sender, time_ns, words, JsonContent::Sums { records, bytes, application_bytes });
        }
    }

    /// Prints the collected lines, if they have so many bytes.
    fn flush(&mut self, bytes: usize) {
        if self.out.len() >= bytes && !self.out.is_empty() {
            (self.print)(self.out.trim_end());
            self.out.clear();
        }
    }
}

impl ConnectionSink for TlsPrinter {
    fn begin(&mut self, _: u32, opened: &Opened) {
        self.opened = Some(*opened);
    }

    fn client(&mut self, _: u32, client: Sender) {
        if let Some(opened) = &mut self.opened {
            opened.client = client;
        }
    }

    fn event(&mut self, _: u32, sender: Sender, time_ns: u64, event: Event) {
        match event {
            Event::Data { offset, bytes } => {
                self.sums[sender.index()].bytes += bytes.len() as u64;
                let items = self.reader.data(sender, offset, time_ns, bytes);
                self.add(sender, time_ns, items);
            }
            Event::Gap { offset, lost_bytes, cause } => {
                let items = self.reader.gap(sender, lost_bytes);
                self.add(sender, time_ns, items);
                self.add_gap(sender, time_ns, offset, lost_bytes, cause);
            }
            Event::End { .. } => {
                let items = self.reader.end(sender);
                self.add(sender, time_ns, items);
            }
            // The receiver takes an urgent byte out of the stream.
            Event::Urgent { .. } | Event::Difference(_) => {}
        }
    }

    fn end(&mut self, _: u32, closed: &Closed) {
        for sender in [Sender::A, Sender::B] {
            let items = self.reader.end(sender);
            self.add(sender, closed.last_ns, items);
        }
        self.add_sums(closed.last_ns);
        self.flush(0);
    }
}

/// The words about bytes in which no record certainly begins.
fn unread_words(offset: u64, bytes: u64, is_first: bool, is_last: bool) -> String {
    let number = show::number_of(bytes, "byte");
    match (is_first, is_last) {
        (true, true) => format!("cannot be read: no TLS record begins in {number}"),
        (true, false) => format!("{number} before the first record"),
        (false, true) => {
            format!("cannot be read further: {number} from offset {} on", show::count(offset))
        }
        (false, false) => {
            format!("{} not read: the start of a record is uncertain", clause(bytes, "byte", "are"))
        }
    }
}

/// A record in words: time, type, version, length, content.
fn record_words(record: &TlsRecord) -> String {
    let mut content: Vec<String> = record.messages.iter().map(message_words).collect();
    content.extend(record.open_message.iter().map(|name| format!("part of {name}")));
    if let (Some(level), Some(alert)) = (&record.alert_level, &record.alert) {
        content.push(format!("{level}: {alert}"));
    }
    if record.is_encrypted {
        content.push("encrypted".into());
    }
    if record.missing_bytes > 0 {
        content.push(clause(record.missing_bytes as u64, "byte", "are missing"));
    }
    let (time, length) = (show::time_ns(record.time_ns), show::count(record.length as u64));
    let line =
        format!("{time}  {:<18}  {:<7}  {length:>6} B  {}", record.kind, record.version, content.join(" | "));
    line.trim_end().to_owned()
}

/// A handshake message in words: its name, and its fields.
fn message_words(message: &HandshakeMessage) -> String {
    let mut said = Vec::new();
    said.extend(message.server_name.iter().map(|name| format!("server name {name}")));
    said.extend(message.version.iter().map(ToString::to_string));
    said.extend(message.cipher_suite.iter().map(ToString::to_string));
    if !message.alpn.is_empty() {
        said.push(format!("ALPN {}", message.alpn.join(", ")));
    }
    if !message.versions.is_empty() {
        said.push(format!("versions {}", message.versions.join(", ")));
    }
    said.extend(
        message.certificates.map(|count| certificate_words(count as u64, &message.certificate_bytes)),
    );
    if message.is_skipped {
        said.push(format!("{}, not read", show::number_of(message.bytes as u64, "byte")));
    }
    if said.is_empty() { message.name.to_string() } else { format!("{}: {}", message.name, said.join("; ")) }
}

/// The number of certificates, and their lengths, as far as they are listed.
fn certificate_words(count: u64, lengths: &[usize]) -> String {
    let listed: Vec<String> = lengths.iter().map(|length| show::count(*length as u64)).collect();
    let more = if count > lengths.len() as u64 { ", …" } else { "" };
    let number = show::number_of(count, "certificate");
    if listed.is_empty() { number } else { format!("{number} of {}{more} B", listed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_page() {
        let long = HandshakeMessage {
            name: "certificate".into(),
            bytes: 131_072,
            is_skipped: true,
            ..HandshakeMessage::default()
        };
        assert_eq!(message_words(&long), "certificate: 131,072 bytes, not read");
        assert_eq!(certificate_words(1, &[1200]), "1 certificate of 1,200 B");
        assert_eq!(certificate_words(0, &[]), "0 certificates");
        assert!(certificate_words(17, &[5; 16]).ends_with("5, 5, … B"));
        let unread = [(true, true), (true, false), (false, true), (false, false)]
            .map(|(is_first, is_last)| unread_words(7, 1, is_first, is_last));
        let expected = [
            "cannot be read: no TLS record begins in 1 byte",
            "1 byte before the first record",
            "cannot be read further: 1 byte from offset 7 on",
            "1 byte is not read: the start of a record is uncertain",
        ];
        assert_eq!(unread, expected);
    }

    #[test]
    fn lines_are_not_collected_without_a_limit() {
        for is_json in [true, false] {
            let mut printer = TlsPrinter { print: |_| {}, ..TlsPrinter::new(is_json, None) };
            let ends = ["10.0.0.1:443", "10.0.0.2:4711"].map(|end| end.parse().unwrap());
            printer.begin(0, &Opened { number: 1, ends, client: Sender::B, first_ns: 0 });
            for number in 0..4_000 {
                let bytes = [23, 3, 3, 0, 0];
                printer.event(0, Sender::A, 1, Event::Data { offset: number * 6, bytes: &bytes });
                let gap = Event::Gap { offset: number * 6 + 5, lost_bytes: 1, cause: GapCause::Time };
                printer.event(0, Sender::B, 1, gap);
                assert!(printer.out.len() < BUFFER_BYTES + 1024, "{number}");
            }
            assert_eq!(printer.sums[Sender::A.index()].records, 4_000);
        }
    }
}
