//! The bytes of a connection, or the datagrams of a UDP conversation, as text, in hexadecimal digits, as they are, or
//! as lines of JSON.

use super::json_line::{JsonContent, JsonLine};
use crate::show;
use quaff::format::clause;
use quaff_stream::tracker::{CloseReason, Closed, ConnectionSink, Opened, UdpPayload};
use quaff_stream::{Event, GapCause, Sender};
use std::fmt::Write as _;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// Bytes of a line in hexadecimal digits.
const LINE_BYTES: usize = 16;
/// Bytes that are collected before they are printed.
const BUFFER_BYTES: usize = 64 << 10;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Hex,
    Raw,
    Json,
}

/// Prints one connection.
#[derive(Debug)]
pub(super) struct Printer {
    form: Form,
    side: Option<Side>,
    opened: Option<Opened>,
    /// The sender of the last bytes that were printed.
    last: Option<Sender>,
    /// Output that is not printed yet; text and digits are ASCII without control characters but line feeds and tabs.
    out: Vec<u8>,
    /// Bytes of a line in hexadecimal digits that is not full, and the offset of the first one.
    line: Vec<u8>,
    line_at: u64,
    print: fn(&[u8]),
}

impl Printer {
    pub(super) fn new(form: Form, side: Option<Side>) -> Self {
        let (out, line, print) = (Vec::new(), Vec::new(), show::script);
        Self { form, side, opened: None, last: None, out, line, line_at: 0, print }
    }

    fn side_of(&self, sender: Sender) -> Side {
        let client = self.opened.map_or(Sender::A, |opened| opened.client);
        if sender == client { Side::Client } else { Side::Server }
    }

    /// Returns true for bytes that were asked for.
    fn is_wanted(&self, sender: Sender) -> bool {
        self.side.is_none_or(|side| side == self.side_of(sender))
    }

    /// Begins the bytes of a side with a line, if the last ones were the other's.
    fn change_side(&mut self, sender: Sender, time_ns: u64) {
        let is_text = matches!(self.form, Form::Text | Form::Hex);
        let Some(opened) = self.opened.filter(|_| is_text && self.last != Some(sender)) else { return };
        self.end_line();
        let [from, to] = [sender, sender.other()].map(|sender| opened.ends[sender.index()]);
        self.words(&format!("--- {from} > {to}  {}", show::time_ns(time_ns)));
        self.last = Some(sender);
    }

    /// Adds a line of words.
    fn words(&mut self, words: &str) {
        self.out.extend_from_slice(words.as_bytes());
        self.out.push(b'\n');
    }

    /// Ends a line that is not ended.
    fn end_line(&mut self) {
        self.put_hex_line();
        if self.form == Form::Text && self.out.last().is_some_and(|last| *last != b'\n') {
            self.out.push(b'\n');
        }
    }

    /// Adds bytes of a side, known at `time_ns`.
    fn put(&mut self, (sender, time_ns): (Sender, u64), offset: u64, bytes: &[u8]) {
        match self.form {
            Form::Raw => self.out.extend_from_slice(bytes),
            Form::Json => {
                self.put_json(sender, time_ns, JsonContent::Data { offset, bytes: bytes.len(), data: bytes })
            }
            Form::Text => {
                self.out.extend(bytes.iter().filter(|byte| **byte != b'\r').map(|byte| shown(*byte)))
            }
            Form::Hex => self.put_hex(offset, bytes),
        }
    }

    /// Prints what is collected, if it is much. Headings and gaps collect as well as bytes.
    fn flush_if_full(&mut self) {
        if self.out.len() >= BUFFER_BYTES {
            // The last character stays: a line that is not ended has to be known.
            let rest = self.out.split_off(self.out.len() - 1);
            (self.print)(&self.out);
            self.out = rest;
        }
    }

    /// Adds a line of JSON, which is ASCII: of others it has the bytes alone, in base64.
    fn put_json(&mut self, sender: Sender, time_ns: u64, content: JsonContent<'_>) {
        let Some(opened) = self.opened else { return };
        let [from, to] = [sender, sender.other()].map(|sender| opened.ends[sender.index()]);
        let side = match self.side_of(sender) {
            Side::Client => "client",
            Side::Server => "server",
        };
        let line = JsonLine { time_ns, side, from, to, content };
        serde_json::to_writer(&mut self.out, &line).expect("a Vec takes all");
        self.out.push(b'\n');
    }

    fn put_hex(&mut self, offset: u64, bytes: &[u8]) {
        if self.line.is_empty() {
            self.line_at = offset;
        }
        for byte in bytes {
            self.line.push(*byte);
            if self.line.len() == LINE_BYTES {
                self.put_hex_line();
            }
        }
    }

    /// Adds the collected bytes as a line.
    fn put_hex_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let mut text = format!("{:08x} ", self.line_at);
        for at in 0..LINE_BYTES {
            text += if at == LINE_BYTES / 2 { "  " } else { " " };
            match self.line.get(at) {
                Some(byte) => write!(text, "{byte:02x}").expect("a String takes all"),
                None => text += "  ",
            }
        }
        text += "  ";
        text.extend(
            self.line
                .iter()
                .map(|byte| if *byte == b'\n' || *byte == b'\t' { '.' } else { shown(*byte).into() }),
        );
        self.line_at += self.line.len() as u64;
        self.line.clear();
        self.words(&text);
    }

    fn gap(&mut self, (sender, time_ns): (Sender, u64), offset: u64, lost_bytes: u64, cause: GapCause) {
        match self.form {
            Form::Raw => {}
            Form::Json => self.put_json(sender, time_ns, JsonContent::gap(offset, lost_bytes, cause)),
            Form::Text | Form::Hex => {
                self.end_line();
                let missing = clause(lost_bytes, "byte", "are missing");
                self.words(&format!("--- {missing} ({})", GapCause::NAMES[cause.index()]));
            }
        }
    }

    /// Prints what is not printed yet.
    fn finish(&mut self) {
        self.end_line();
        (self.print)(&self.out);
        self.out.clear();
    }
}

/// A byte as a character that a terminal shows; line feeds and tabs stay.
fn shown(byte: u8) -> u8 {
    match byte {
        b' '..=b'~' | b'\n' | b'\t' => byte,
        _ => b'.',
    }
}

impl ConnectionSink for Printer {
    fn begin(&mut self, _: u32, opened: &Opened) {
        self.opened = Some(*opened);
    }

    fn client(&mut self, _: u32, client: Sender) {
        if let Some(opened) = &mut self.opened {
            opened.client = client;
        }
    }

    fn event(&mut self, _: u32, sender: Sender, time_ns: u64, event: Event) {
        if !self.is_wanted(sender) || matches!(event, Event::Difference(_) | Event::End { .. }) {
            return;
        }
        self.change_side(sender, time_ns);
        let of = (sender, time_ns);
        match event {
            Event::Data { offset, bytes } => self.put(of, offset, bytes),
            Event::Urgent { offset, byte } => self.put(of, offset, &[byte]),
            Event::Gap { offset, lost_bytes, cause } => self.gap(of, offset, lost_bytes, cause),
            Event::Difference(_) | Event::End { .. } => {}
        }
        self.flush_if_full();
    }

    fn end(&mut self, _: u32, _: &Closed) {
        self.finish();
    }

    fn begin_udp(&mut self, _: u32, opened: &Opened) {
        self.opened = Some(*opened);
    }

    fn datagram(&mut self, _: u32, sender: Sender, time_ns: u64, payload: UdpPayload) {
        if !self.is_wanted(sender) {
            return;
        }
        // Each datagram has a line before it.
        self.last = None;
        self.change_side(sender, time_ns);
        let of = (sender, time_ns);
        self.put(of, 0, payload.bytes);
        if payload.cut_bytes() > 0 {
            self.gap(of, payload.bytes.len() as u64, payload.cut_bytes(), GapCause::Snapped);
        }
        self.flush_if_full();
    }

    fn end_udp(&mut self, _: u32, _: u64, _: CloseReason) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer(form: Form, side: Option<Side>) -> Printer {
        let ends = ["10.0.0.1:80", "10.0.0.2:4711"].map(|end| end.parse().unwrap());
        let mut printer = Printer::new(form, side);
        printer.begin(0, &Opened { number: 1, ends, client: Sender::B, first_ns: 0 });
        for (sender, event) in [
            (Sender::B, Event::Data { offset: 0, bytes: b"GET /\r\n\x1b[31m\xc3\xa4" }),
            (Sender::A, Event::Gap { offset: 0, lost_bytes: 7, cause: GapCause::Acknowledged }),
            (Sender::A, Event::Data { offset: 7, bytes: b"0123456789abcdef" }),
            (Sender::A, Event::Data { offset: 23, bytes: b"\t\n" }),
        ] {
            printer.event(0, sender, 1_000_000_000, event);
        }
        printer.end_line();
        printer
    }

    fn text(form: Form, side: Option<Side>) -> String {
        String::from_utf8(printer(form, side).out).unwrap()
    }

    #[test]
    fn text_has_nothing_that_a_terminal_obeys() {
        let expected = "--- 10.0.0.2:4711 > 10.0.0.1:80  1970-01-01T00:00:01.000000000Z\nGET /\n.[31m..\n\
                        --- 10.0.0.1:80 > 10.0.0.2:4711  1970-01-01T00:00:01.000000000Z\n\
                        --- 7 bytes are missing (acknowledged)\n0123456789abcdef\t\n";
        assert_eq!(text(Form::Text, None), expected);
        assert!(text(Form::Text, Some(Side::Client)).ends_with("GET /\n.[31m..\n"));
    }

    #[test]
    fn each_datagram_has_a_line_before_it() {
        let shown = |form: Form| {
            let mut printer = printer(form, None);
            printer.out.clear();
            let of = |bytes: &'static [u8], wire_bytes| UdpPayload { bytes, wire_bytes };
            for payload in [of(b"one", 3), of(b"", 0), of(b"two\n", 9)] {
                printer.datagram(0, Sender::B, 2_000_000_000, payload);
            }
            printer.end_line();
            String::from_utf8(printer.out).unwrap()
        };
        let head = "--- 10.0.0.2:4711 > 10.0.0.1:80  1970-01-01T00:00:02.000000000Z\n";
        let expected = format!("{head}one\n{head}{head}two\n--- 5 bytes are missing (snapped)\n");
        assert_eq!(shown(Form::Text), expected);
        assert_eq!(shown(Form::Raw), "onetwo\n");
        let hex = shown(Form::Hex);
        assert!(hex.contains("\n00000000  6f 6e 65 ") && hex.contains("\n00000000  74 77 6f 0a "), "{hex}");
        let lines: Vec<serde_json::Value> =
            shown(Form::Json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let field = |at: usize, name: &str| lines[at][name].clone();
        assert_eq!((field(0, "side"), field(0, "data")), ("client".into(), "b25l".into()));
        assert_eq!((field(3, "offset"), field(3, "gap_bytes")), (4.into(), 5.into()));
    }

    #[test]
    fn gaps_and_empty_datagrams_are_not_collected_without_a_limit() {
        for form in [Form::Text, Form::Hex, Form::Json] {
            let mut printer = Printer { print: |_| {}, ..printer(form, None) };
            for number in 0..2_000 {
                let sender = if number % 2 == 0 { Sender::A } else { Sender::B };
                let gap = Event::Gap { offset: number, lost_bytes: 1, cause: GapCause::Time };
                printer.event(0, sender, number, gap);
                printer.datagram(0, sender, number, UdpPayload { bytes: b"", wire_bytes: 0 });
                assert!(printer.out.len() < BUFFER_BYTES + 1024, "{form:?}: {number}");
            }
        }
    }

    #[test]
    fn the_client_is_the_one_that_a_later_packet_shows() {
        let mut printer = printer(Form::Json, Some(Side::Client));
        printer.out.clear();
        printer.client(0, Sender::A);
        printer.event(0, Sender::A, 1, Event::Data { offset: 25, bytes: b"GET" });
        printer.event(0, Sender::B, 1, Event::Data { offset: 15, bytes: b"answer" });
        let line: serde_json::Value = serde_json::from_slice(&printer.out).unwrap();
        assert_eq!((&line["side"], &line["data"]), (&"client".into(), &"R0VU".into()));
    }

    #[test]
    fn digits_have_the_offsets_of_the_stream() {
        let lines: Vec<String> = text(Form::Hex, Some(Side::Server)).lines().map(str::to_owned).collect();
        assert_eq!(lines[2], "00000007  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef");
        assert_eq!(lines[3], format!("00000017  09 0a{}  ..", " ".repeat(43)));
        assert_eq!(printer(Form::Raw, Some(Side::Server)).out, b"0123456789abcdef\t\n");
    }
}
