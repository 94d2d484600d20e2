//! The terminal: what is written to stdout and stderr as text passes here and is made harmless. Wrapped text, times.
//!
//! Names in capture files, of interfaces and of files, and messages of other programs are text of others: whoever
//! writes them must not reach the terminal of the reader. Packets, and scripts for a shell, are not text and do not
//! pass here.

use crate::flags;
use anyhow::Context as _;
pub(crate) use quaff::format::{bits, byte_rate, bytes, count, pps, span_ns};
use quaff_wire::printable;
pub(crate) use quaff_wire::printable::name;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// The stream that is not taken by packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Prints a line on stderr, with settings written as flags. A closed stderr is not an error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable::lines(&flags::named(line)));
}

/// Prints a message of quaff on stderr. Its further lines are indented: no text of others in it looks like a message.
pub(crate) fn message(words: &str) {
    say(&format!("quaff: {}", words.trim_end().replace('\n', "\n  ")));
}

/// Prints a line on stdout. A closed stdout is not an error.
pub(crate) fn print(line: &str) {
    // An error would be that of a message about it, too.
    let _ = try_print(line);
}

/// Prints a line on stdout. That no program reads it any more is not an error.
pub(crate) fn try_print(line: &str) -> anyhow::Result<()> {
    put(Stream::Stdout, &printable::lines(line))
}

/// Ends the output of this process, which is about to exit: a thread that waits for a disk in the kernel keeps the
/// process and its descriptors alive until the disk answers, and readers of the output would wait for that.
pub(crate) fn close() {
    let _ = io::stdout().lock().flush();
    quaff_os::process::close_output();
}

/// Prints a line on stdout in which the sequences of [`STYLES`] take effect.
pub(crate) fn print_styled(line: &str) {
    let _ = put(Stream::Stdout, &styled(line));
}

/// Prints a value as one line of JSON.
pub(crate) fn json(stream: Stream, value: &impl Serialize) -> anyhow::Result<()> {
    json_text(stream, &serde_json::to_string(value).context("write the report as JSON")?)
}

/// Prints JSON that is text already.
pub(crate) fn json_text(stream: Stream, text: &str) -> anyhow::Result<()> {
    put(stream, &printable::json(text))
}

fn put(stream: Stream, text: &str) -> anyhow::Result<()> {
    let line = format!("{text}\n");
    let (done, name) = match stream {
        Stream::Stdout => (io::stdout().lock().write_all(line.as_bytes()), "stdout"),
        Stream::Stderr => (io::stderr().lock().write_all(line.as_bytes()), "stderr"),
    };
    match done {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context(format!("write to {name}")),
        _ => Ok(()),
    }
}

/// The attributes of text in a report (ECMA-48, SGR): bold, faint, red, green, and plain again.
const STYLES: [&str; 5] = ["\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"];

fn styled(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut shown = printable::lines(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let style = STYLES.iter().find(|style| part.starts_with(&style[1..]));
        shown += style.unwrap_or(&"\u{fffd}");
        shown += &printable::lines(&part[style.map_or(0, |style| style.len() - 1)..]);
    }
    shown
}

/// A progress line on stderr; a terminal shows it in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveLine {
    pub(crate) is_live: bool,
}

impl LiveLine {
    /// Returns to the start of the line and erases it (ECMA-48 EL).
    const ERASE: &str = "\r\x1b[K";

    /// Replaces the line on a terminal.
    pub(crate) fn draw(self, line: &str) {
        if self.is_live {
            let mut err = io::stderr().lock();
            let _ = write!(err, "{}{}", Self::ERASE, name(line));
            let _ = err.flush();
        }
    }

    /// Prints the line permanently.
    pub(crate) fn print(self, line: &str) {
        self.draw("");
        say(line);
    }
}

/// A line for each number that is not 0: `head`, the number, its words.
pub(crate) fn counted<W: Display>(head: &str, counts: impl IntoIterator<Item = (u64, W)>) -> String {
    present(counts).map(|line| format!("{head}{line}\n")).collect()
}

/// The numbers that are not 0, each with its words.
pub(crate) fn present<W: Display>(
    counts: impl IntoIterator<Item = (u64, W)>,
) -> impl Iterator<Item = String> {
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    counts.map(|(number, words)| format!("{} {words}", count(number)))
}

/// A moment, ns since 1970, in UTC: `2026-11-20T09:04:11.123456789Z`.
pub(crate) fn time_ns(ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(ns.into()) {
        Ok(time) => format!("{time:.9}"),
        Err(_) => format!("{ns} ns since 1970"),
    }
}

/// Breaks lines where they get longer than `columns`, between words.
pub(crate) fn wrap(columns: usize, text: &str) -> String {
    let (mut wrapped, mut at) = (String::new(), 0);
    for word in text.split_whitespace() {
        let width = word.chars().count();
        let between = match at {
            0 => "",
            at if at + 1 + width > columns => "\n",
            _ => " ",
        };
        at = if between == "\n" { width } else { at + between.len() + width };
        wrapped += between;
        wrapped += word;
    }
    wrapped + "\n"
}

/// A word quoted for a shell.
pub(crate) fn quote(word: &std::ffi::OsStr) -> String {
    quaff::format::quote(&word.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let wrapped = wrap(79, &"word ".repeat(40));
        assert!(wrapped.lines().all(|line| line.len() <= 79 && !line.ends_with(' ')), "{wrapped}");
        assert_eq!(wrapped.split_whitespace().count(), 40);
        assert_eq!(wrapped.lines().count(), 3);
        let long = "x".repeat(200);
        assert_eq!(wrap(79, &format!("a {long} b")), format!("a\n{long}\nb\n"));
    }

    #[test]
    fn only_the_styles_of_reports_reach_the_terminal() {
        assert_eq!(
            styled("\x1b[1mquaff\x1b[0m, \x1b[31mlost\x1b[0m"),
            "\x1b[1mquaff\x1b[0m, \x1b[31mlost\x1b[0m"
        );
        assert_eq!(styled("\x1b[1ma\x1b]0;b\x07\x1b[8mc"), "\x1b[1ma\u{fffd}]0;b\u{fffd}\u{fffd}[8mc");
        assert_eq!(styled(""), "");
    }

    #[test]
    fn a_time_has_all_its_digits() {
        assert_eq!(time_ns(1_700_000_000_000_000_001), "2023-11-14T22:13:20.000000001Z");
    }
}
