//! Lines of text protocols such as FTP, SMTP and telnet, in one direction.
//!
//! A line ends with LF, CR LF or, in telnet, CR NUL. Telnet commands are removed (RFC 854, RFC 855): UTF-8 text never
//! contains their first byte. A line above the limit is cut, and its rest skipped.

/// Maximum length of a line without its end, bytes.
pub const LINE_BYTES_MAX: usize = 8192;
/// Maximum length of a telnet subnegotiation, bytes; a longer one counts as unterminated.
const SUBNEGOTIATION_BYTES_MAX: u16 = 1024;

const SUBNEGOTIATION_END: u8 = 240;
const SUBNEGOTIATION: u8 = 250;
const WILL: u8 = 251;
const DONT: u8 = 254;
/// Interpret as command.
const IAC: u8 = 255;

/// A line without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub text: &'a [u8],
    /// Number of the line, from 1.
    pub number: u64,
    /// True if bytes are missing: the line was too long, there was a gap, or the stream ended.
    pub is_cut: bool,
}

/// The parser state within a telnet command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Telnet {
    #[default]
    Text,
    Command,
    Option,
    /// Number of bytes in a subnegotiation, and whether the last one was IAC.
    Subnegotiation(u16, bool),
}

/// The reader of one direction; buffers at most [`LINE_BYTES_MAX`] + 1 bytes.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// The last byte of the line, kept or not; 0 at its start.
    last: u8,
    has_text: bool,
    is_cut: bool,
    telnet: Telnet,
    number: u64,
}

impl Lines {
    /// Processes the next bytes.
    pub fn data(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Line<'_>)) {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            if self.telnet != Telnet::Text {
                if self.command(*first) {
                    self.keep(&[IAC]);
                }
                rest = after;
                continue;
            }
            let stop = rest.iter().position(|byte| matches!(*byte, b'\n' | 0 | IAC));
            let Some((before, [stop, after @ ..])) = stop.map(|stop| rest.split_at(stop)) else {
                return self.keep(rest);
            };
            let is_after_cr = before.last().copied().unwrap_or(self.last) == b'\r';
            match stop {
                b'\n' => self.end_line(before, sink),
                0 if is_after_cr => self.end_line(before, sink),
                0 => {
                    self.keep(before);
                    self.keep(&[0]);
                }
                _ => {
                    self.keep(before);
                    self.telnet = Telnet::Command;
                }
            }
            rest = after;
        }
    }

    /// Notes missing bytes: the lines before and after them are cut.
    pub fn gap(&mut self, sink: &mut dyn FnMut(Line<'_>)) {
        self.finish(sink);
        (self.telnet, self.is_cut) = (Telnet::Text, true);
    }

    /// Notes the end of the stream: passes on an incomplete line.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Line<'_>)) {
        if self.has_text {
            self.is_cut = true;
            self.end_line(&[], sink);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        (self.last, self.has_text) = (*last, true);
        // One more byte, which may be the CR of the line end.
        let room = LINE_BYTES_MAX + 1 - self.line.len();
        self.is_cut |= bytes.len() > room;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Ends a line; `rest` has not been kept.
    fn end_line(&mut self, rest: &[u8], sink: &mut dyn FnMut(Line<'_>)) {
        let text = if self.line.is_empty() {
            rest
        } else {
            self.keep(rest);
            &self.line
        };
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let is_cut = self.is_cut || text.len() > LINE_BYTES_MAX;
        self.number += 1;
        sink(Line { text: &text[..text.len().min(LINE_BYTES_MAX)], number: self.number, is_cut });
        self.line.clear();
        (self.last, self.has_text, self.is_cut) = (0, false, false);
    }

    /// Processes a byte of a command; returns true if it is a literal byte 255.
    fn command(&mut self, byte: u8) -> bool {
        let before = self.telnet;
        self.telnet = match (before, byte) {
            (Telnet::Command, SUBNEGOTIATION) => Telnet::Subnegotiation(0, false),
            (Telnet::Command, WILL..=DONT) => Telnet::Option,
            (Telnet::Subnegotiation(SUBNEGOTIATION_BYTES_MAX, _), _) => Telnet::Text,
            (Telnet::Subnegotiation(_, true), SUBNEGOTIATION_END) => Telnet::Text,
            (Telnet::Subnegotiation(bytes, was_iac), _) => {
                Telnet::Subnegotiation(bytes + 1, byte == IAC && !was_iac)
            }
            _ => Telnet::Text,
        };
        before == Telnet::Command && byte == IAC
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Found = Vec<(Vec<u8>, bool)>;

    /// The lines of a stream in these pieces; an empty piece is a gap.
    fn lines(pieces: &[&[u8]]) -> Found {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut sink = |line: Line<'_>| {
            found.push((line.text.to_vec(), line.is_cut));
            assert_eq!(line.number, found.len() as u64);
        };
        for piece in pieces {
            match piece.is_empty() {
                true => lines.gap(&mut sink),
                false => lines.data(piece, &mut sink),
            }
        }
        lines.finish(&mut sink);
        found
    }

    fn whole(texts: &[&str]) -> Found {
        texts.iter().map(|text| (text.as_bytes().to_vec(), false)).collect()
    }

    #[test]
    fn ends_of_lines_and_commands_of_telnet_are_removed() {
        assert_eq!(lines(&[b"220 a\r\nUSER b\n\r\n\n"]), whole(&["220 a", "USER b", "", ""]));
        assert_eq!(lines(&[b"root\r", b"\0pass\r\0a\rb\0c\n"]), whole(&["root", "pass", "a\rb\0c"]));
        let telnet = b"\xff\xfd\x18lo\xff\xfa\x18\x01\n\xff\xff\xff\xf0gin: \xff\xf9\xff\xfb\nx\n";
        assert_eq!(lines(&[telnet]), whole(&["login: x"]), "a line feed may be the number of an option");
        assert_eq!(lines(&[b"\xff\xff\n"]), [(vec![255], false)]);
        assert_eq!(lines(&[b"no end"]), [(b"no end".to_vec(), true)]);
    }

    #[test]
    fn a_gap_cuts_the_lines_around_it() {
        let found = lines(&[b"one\ntw", b"", b"ee\nfour\n"]);
        let texts: Vec<_> =
            found.iter().map(|(text, is_cut)| (std::str::from_utf8(text).unwrap(), *is_cut)).collect();
        assert_eq!(texts, [("one", false), ("tw", true), ("ee", true), ("four", false)]);
    }

    #[test]
    fn long_lines_and_subnegotiations_without_end_are_bounded() {
        for (bytes, is_cut) in [(LINE_BYTES_MAX, false), (LINE_BYTES_MAX + 1, true), (100_000, true)] {
            let text = [&vec![b'a'; bytes][..], b"\r\nb\n"].concat();
            let expected = [(vec![b'a'; bytes.min(LINE_BYTES_MAX)], is_cut), (b"b".to_vec(), false)];
            assert_eq!(lines(&[&text]), expected);
            assert_eq!(lines(&text.chunks(1000).collect::<Vec<_>>()), expected);
            let telnet = [&text[..bytes], b"\r\0b\n"].concat();
            assert_eq!(lines(&telnet.chunks(977).collect::<Vec<_>>()), expected);
        }
        let endless = [&b"\xff\xfa"[..], &[b'a'; 2000], b"\nb\n"].concat();
        assert_eq!(lines(&[&endless]).last(), Some(&(b"b".to_vec(), false)));
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_come(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0u8), 240u8..=255, b'a'..b'd'], 1..200),
            cuts in prop::collection::vec(0usize..200, 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            cuts.dedup();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(lines(&pieces), lines(&[&bytes]));
        }
    }
}
