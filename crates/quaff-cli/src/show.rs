//! Terminal output: lines, and the format of rates, sizes, counts and times.

use crate::flags;
use std::io::Write;

/// Prints a line on stderr, with settings written as flags. A closed stderr is not an error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(&flags::named(line)));
}

/// Prints a line on stdout. A closed stdout is not an error.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", harmless(line));
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

/// `1234567` as `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in binary units: `512 B`, `4.0 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A rate of packets: `400 kpps`.
pub(crate) fn pps(rate: f64) -> String {
    scaled(rate, 1000.0, &["pps", "kpps", "Mpps", "Gpps"])
}

/// A rate of bits: `4.80 Gb/s`.
pub(crate) fn bits(rate: f64) -> String {
    scaled(rate, 1000.0, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"])
}

/// A rate of bytes in decimal units, as disks are sold: `1.62 GB/s`.
pub(crate) fn byte_rate(rate: f64) -> String {
    scaled(rate, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s"])
}

/// A moment, ns since 1970, in UTC: `2026-11-20T09:04:11.123456789Z`.
pub(crate) fn time_ns(ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(ns.into()) {
        Ok(time) => format!("{time:.9}"),
        Err(_) => format!("{ns} ns since 1970"),
    }
}

/// A span of time: `31.0 µs`.
pub(crate) fn span_ns(ns: u64) -> String {
    scaled(ns as f64, 1000.0, &["ns", "µs", "ms", "s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    match (unit, value) {
        (0, v) => format!("{v:.0} {}", units[0]),
        (_, v) if v < 10.0 => format!("{v:.2} {}", units[unit]),
        (_, v) if v < 100.0 => format!("{v:.1} {}", units[unit]),
        (_, v) => format!("{v:.0} {}", units[unit]),
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
    let text = word.to_string_lossy();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,+@%".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
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
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(3_000_000), "3,000,000");
        assert_eq!(bytes(4 << 20), "4.00 MiB");
        assert_eq!(pps(400_000.0), "400 kpps");
        assert_eq!(bits(4.8e9), "4.80 Gb/s");
        assert_eq!(time_ns(1_700_000_000_000_000_001), "2023-11-14T22:13:20.000000001Z");
        assert_eq!(span_ns(31_000), "31.0 µs");
        assert_eq!(span_ns(7_200_000_000_000), "7200 s");
    }
}
