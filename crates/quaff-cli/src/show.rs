//! Output on the terminal: lines without control characters, wrapped text, times.

use crate::flags;
pub(crate) use quaff::format::{bits, byte_rate, bytes, count, pps, span_ns};
use std::fmt::Display;
use std::io::Write;

/// Prints a line on stderr, with settings written as flags. A closed stderr is not an error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(&flags::named(line)));
}

/// Prints a line on stdout. A closed stdout is not an error.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", harmless(line));
}

/// Ends the output of this process, which is about to exit: a thread that waits for a disk in the kernel keeps the process
/// and its descriptors alive until the disk answers, and readers of the output would wait for that.
pub(crate) fn close() {
    let _ = std::io::stdout().lock().flush();
    quaff_os::process::close_output();
}

/// Text without terminal control characters, which names and messages of other programs may contain.
fn harmless(text: &str) -> String {
    let obeys = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || is_bidi(c);
    text.chars().map(|c| if obeys(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Changes the writing direction of the following text (UAX 9, section 2).
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "{}{line}", Self::ERASE);
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
    fn control_characters_are_not_printed() {
        assert_eq!(harmless("a\tb\nµ – 1 %"), "a\tb\nµ – 1 %");
        assert_eq!(
            harmless("x\u{1b}]52;c;eA==\u{7}y\u{9b}z\u{202e}w\r"),
            "x\u{fffd}]52;c;eA==\u{fffd}y\u{fffd}z\u{fffd}w\u{fffd}"
        );
    }

    #[test]
    fn a_time_has_all_its_digits() {
        assert_eq!(time_ns(1_700_000_000_000_000_001), "2023-11-14T22:13:20.000000001Z");
    }
}
