//! The bytes of a connection as text, in hexadecimal digits, or as they are.

use crate::show;
use quaff_stream::tracker::{Closed, ConnectionSink, Opened};
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
}

impl Printer {
    pub(super) fn new(form: Form, side: Option<Side>) -> Self {
        Self { form, side, opened: None, last: None, out: Vec::new(), line: Vec::new(), line_at: 0 }
    }

    /// Returns true for bytes that were asked for.
    fn is_wanted(&self, sender: Sender) -> bool {
        let client = self.opened.map_or(Sender::A, |opened| opened.client);
        match self.side {
            None => true,
            Some(Side::Client) => sender == client,
            Some(Side::Server) => sender != client,
        }
    }

    /// Begins the bytes of a side with a line, if the last ones were the other's.
    fn change_side(&mut self, sender: Sender, time_ns: u64) {
        let Some(opened) = self.opened.filter(|_| self.form != Form::Raw && self.last != Some(sender)) else {
            return;
        };
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

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        match self.form {
            Form::Raw => self.out.extend_from_slice(bytes),
            Form::Text => {
                self.out.extend(bytes.iter().filter(|byte| **byte != b'\r').map(|byte| shown(*byte)))
            }
            Form::Hex => self.put_hex(offset, bytes),
        }
        if self.out.len() >= BUFFER_BYTES {
            // The last character stays: a line that is not ended has to be known.
            let rest = self.out.split_off(self.out.len() - 1);
            show::script(&self.out);
            self.out = rest;
        }
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

    fn gap(&mut self, lost_bytes: u64, cause: GapCause) {
        if self.form != Form::Raw {
            self.end_line();
            self.words(&format!("--- {lost_bytes} bytes are missing ({})", GapCause::NAMES[cause.index()]));
        }
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

    fn event(&mut self, _: u32, sender: Sender, time_ns: u64, event: Event) {
        if !self.is_wanted(sender) || matches!(event, Event::Difference(_) | Event::End { .. }) {
            return;
        }
        self.change_side(sender, time_ns);
        match event {
            Event::Data { offset, bytes } => self.put(offset, bytes),
            Event::Urgent { offset, byte } => self.put(offset, &[byte]),
            Event::Gap { lost_bytes, cause, .. } => self.gap(lost_bytes, cause),
            Event::Difference(_) | Event::End { .. } => {}
        }
    }

    fn end(&mut self, _: u32, _: &Closed) {
        self.end_line();
        show::script(&self.out);
        self.out.clear();
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
    fn digits_have_the_offsets_of_the_stream() {
        let lines: Vec<String> = text(Form::Hex, Some(Side::Server)).lines().map(str::to_owned).collect();
        assert_eq!(lines[2], "00000007  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef");
        assert_eq!(lines[3], format!("00000017  09 0a{}  ..", " ".repeat(43)));
        assert_eq!(printer(Form::Raw, Some(Side::Server)).out, b"0123456789abcdef\t\n");
    }
}
