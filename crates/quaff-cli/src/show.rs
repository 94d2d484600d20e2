//! The terminal: what is written to stdout and stderr as text passes here and is made harmless. Progress lines, wrapped
//! text, times, and the error of a stdout that did not take all.
//!
//! Names in capture files, of interfaces and of files, and messages of other programs are text of others: whoever
//! writes them must not reach the terminal of the reader. Packets, and scripts for a shell, are not text and do not
//! pass here.

use crate::settings;
use anyhow::{Context as _, ensure};
pub(crate) use quaff::format::{bits, byte_rate, bytes, count, number_of, pps, span_ns};
use quaff_file::moment;
use quaff_os::{stderr_columns, terminal_columns};
use quaff_wire::printable;
pub(crate) use quaff_wire::printable::name;
use serde::Serialize;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pause before another write to a stdout that takes nothing and does not wait.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// The first error of stdout, such as a full disk. Written once by the thread that printed, read at the end.
static STDOUT_ERROR: OnceLock<io::Error> = OnceLock::new();
/// A write to stdout has failed. A flag alone, so Relaxed.
static HAS_STDOUT_FAILED: AtomicBool = AtomicBool::new(false);

/// The stream that is not taken by packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// The stream of a report, beside packets or records that may take stdout.
    pub(crate) fn of_report(is_stdout_taken: bool) -> Self {
        if is_stdout_taken { Self::Stderr } else { Self::Stdout }
    }
}

/// Prints a line on stderr, with settings written as flags. A closed stderr is not an error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable::lines(&settings::named(line)));
}

/// Prints a message of quaff on stderr. Its further lines are indented: no text of others in it looks like a message.
pub(crate) fn message(words: &str) {
    say(&format!("quaff: {}", words.trim_end().replace('\n', "\n  ")));
}

/// Prints a message about what has just happened, with the local time.
pub(crate) fn incident(words: &str) {
    message(&format!("{} {words}", moment::clock()));
}

/// Prints a line on stdout. An error is kept for the end of the command, see [`stdout_error`].
pub fn print(line: &str) {
    put(Stream::Stdout, &printable::lines(line));
}

/// Prints a report. On a terminal lines that are too long for it are broken between words; elsewhere each stays whole.
pub(crate) fn report(stream: Stream, text: &str) {
    put(stream, &printable::lines(&fitting(stream, text)));
}

/// Prints a report whose first line is its verdict: on a terminal that line is green or red, or bold where it is open.
pub(crate) fn judged_report(stream: Stream, text: &str, is_good: Option<bool>) {
    let has_colours = columns(stream).is_some() && is_coloured();
    let (verdict, rest) = text.split_once('\n').unwrap_or((text, ""));
    if !has_colours {
        return report(stream, text);
    }
    let colour = match is_good {
        Some(true) => GREEN,
        Some(false) => RED,
        None => "",
    };
    let verdict = printable::lines(&fitting(stream, verdict)).into_owned();
    put(stream, &format!("{BOLD}{colour}{verdict}{PLAIN}"));
    if !rest.is_empty() {
        report(stream, rest);
    }
}

/// The columns of the terminal that a stream goes to; `None` without one.
fn columns(stream: Stream) -> Option<u16> {
    match stream {
        Stream::Stdout => terminal_columns(),
        Stream::Stderr => stderr_columns(),
    }
}

/// A text with settings as flags on stderr, and lines that fit a terminal.
fn fitting(stream: Stream, text: &str) -> String {
    let text = if stream == Stream::Stderr { settings::named(text) } else { text.into() };
    match columns(stream) {
        Some(columns) => broken(&text, usize::from(columns).max(COLUMNS_MIN)),
        None => text,
    }
}

/// Columns of text at least: narrower terminals break its lines themselves.
pub(crate) const COLUMNS_MIN: usize = 40;

/// Breaks lines that are longer than `columns` between words. What follows a label is aligned with the words after it,
/// other lines are indented.
fn broken(text: &str, columns: usize) -> String {
    text.lines().map(|line| broken_line(line, columns)).collect::<Vec<_>>().join("\n")
}

fn broken_line(line: &str, columns: usize) -> String {
    let indent = " ".repeat(hanging(line, columns));
    let (mut parts, mut rest) = (Vec::new(), line.to_owned());
    while rest.chars().count() > columns {
        let chars: Vec<char> = rest.chars().collect();
        // A word that is longer than the line stays whole, and a number stays with its unit.
        let is_end = |at: &usize| {
            let is_unit = chars.get(at + 1).is_some_and(|next| next.is_alphabetic() || *next == '%');
            chars[*at] == ' ' && chars[*at - 1] != ' ' && !(chars[*at - 1].is_ascii_digit() && is_unit)
        };
        let from = if parts.is_empty() { 1 } else { indent.len() + 1 };
        let end = (from..=columns).rev().find(is_end).or_else(|| (columns..chars.len()).find(is_end));
        let Some(end) = end else { break };
        parts.push(chars[..end].iter().collect::<String>());
        let left: String = chars[end..].iter().collect();
        rest = format!("{indent}{}", left.trim_start());
    }
    parts.push(rest);
    parts.join("\n")
}

/// The column of the words after the label of a line, or its own indent and two more.
fn hanging(line: &str, columns: usize) -> usize {
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let after = |at: usize| line.chars().skip(at).take_while(|c| *c == ' ').count();
    let chars: Vec<char> = line.chars().collect();
    let gap = (indent..chars.len().saturating_sub(1)).find(|at| chars[*at] == ' ' && chars[*at + 1] == ' ');
    let words = gap.map(|at| at + after(at)).filter(|words| *words <= columns / 2);
    words.unwrap_or(indent + 2)
}

/// Returns whether the user (no-color.org) and the terminal permit colours.
pub(crate) fn is_coloured() -> bool {
    let is_plain = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !is_plain && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints text for a program, such as a script for a shell, as it is.
pub(crate) fn script(text: &[u8]) {
    out(|stdout| stdout.write_all(text));
}

/// The sentence about output that did not reach stdout. That a reader has stopped reading is not an error: `| head`.
pub(crate) fn stdout_error() -> Option<String> {
    let error = STDOUT_ERROR.get()?;
    Some(format!(
        "cannot write to stdout: {error}; its output is incomplete: name a file or a pipe with room"
    ))
}

/// False once a write to stdout has failed, also because its reader has stopped reading.
pub(crate) fn takes_stdout() -> bool {
    !HAS_STDOUT_FAILED.load(Ordering::Relaxed)
}

/// Stdout for a screen: what is drawn on it is harmless because a cell of a screen holds no control character.
pub(crate) fn screen() -> io::Stdout {
    io::stdout()
}

/// Refuses a stdout that packets cannot go to: a terminal, or one that was closed.
pub(crate) fn check_stdout(takes_packets: bool) -> anyhow::Result<()> {
    let is_closed = takes_packets && quaff_os::was_stdout_closed();
    ensure!(!is_closed, "stdout is closed: name a file with -w, or use a pipe");
    let is_text = takes_packets && io::stdout().is_terminal();
    ensure!(!is_text, "stdout is a terminal, and packets are not text: name a file with -w, or use a pipe");
    Ok(())
}

/// Writes to stdout, and keeps the first error.
pub(crate) fn out(write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>) {
    let mut stdout = io::stdout().lock();
    let done = match quaff_os::was_stdout_closed() {
        true => Err(io::Error::from_raw_os_error(quaff_os::Errno::EBADF as i32)),
        false => write(&mut stdout).and_then(|()| stdout.flush()),
    };
    if let Err(error) = done {
        HAS_STDOUT_FAILED.store(true, Ordering::Relaxed);
        if error.kind() != ErrorKind::BrokenPipe {
            // A later error is that of the same stdout.
            let _ = STDOUT_ERROR.set(error);
        }
    }
}

/// The lines of another program on their way to stdout. Unlike those of the other functions here, its writes can be
/// interrupted.
pub(crate) struct Relay {
    out: File,
}

impl Relay {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { out: io::stdout().as_fd().try_clone_to_owned()?.into() })
    }

    /// Writes `lines`; after an interruption `is_wanted` is asked. Returns whether stdout takes more. An error is kept
    /// for [`stdout_error`], unless it is that of a reader who has left.
    pub(crate) fn put(&mut self, lines: &[u8], is_wanted: impl Fn() -> bool) -> bool {
        let text = String::from_utf8_lossy(lines);
        let text = printable::lines(&text);
        let mut left = text.as_bytes();
        while !left.is_empty() {
            let error = match self.out.write(left) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(bytes) => {
                    left = &left[bytes..];
                    continue;
                }
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Interrupted if is_wanted() => {}
                // Another program that has the same stdout made it non-blocking.
                ErrorKind::WouldBlock if is_wanted() => std::thread::sleep(RETRY_PAUSE),
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::BrokenPipe => return false,
                _ => {
                    let _ = STDOUT_ERROR.set(error);
                    return false;
                }
            }
        }
        true
    }
}

/// Ends the output of this process, which is about to exit: a thread that waits for a disk in the kernel keeps the
/// process and its descriptors alive until the disk answers, and readers of the output would wait for that.
pub(crate) fn close() {
    let _ = io::stdout().lock().flush();
    quaff_os::process::close_output();
}

/// Prints a line on stdout in which the sequences of [`STYLES`] take effect.
pub(crate) fn print_styled(line: &str) {
    put(Stream::Stdout, &styled(line));
}

/// Prints a value as one line of JSON.
pub(crate) fn json(stream: Stream, value: &impl Serialize) -> anyhow::Result<()> {
    json_text(stream, &serde_json::to_string(value).context("write the report as JSON")?);
    Ok(())
}

/// Prints JSON that is text already.
pub(crate) fn json_text(stream: Stream, text: &str) {
    put(stream, &printable::json(text));
}

fn put(stream: Stream, text: &str) {
    let line = format!("{text}\n");
    match stream {
        Stream::Stdout => out(|stdout| stdout.write_all(line.as_bytes())),
        // There is no other place for an error of stderr.
        Stream::Stderr => drop(io::stderr().lock().write_all(line.as_bytes())),
    }
}

/// The attributes of text in a report (ECMA-48, SGR).
pub(crate) const BOLD: &str = "\x1b[1m";
pub(crate) const FAINT: &str = "\x1b[2m";
pub(crate) const RED: &str = "\x1b[31m";
pub(crate) const GREEN: &str = "\x1b[32m";
pub(crate) const PLAIN: &str = "\x1b[0m";
const STYLES: [&str; 5] = [BOLD, FAINT, RED, GREEN, PLAIN];

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

/// A part of a progress line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    text: String,
    /// Its short form, where there is no room; empty: it is left out.
    short: String,
    /// Parts of a low rank are shortened first, of the same rank the last ones.
    rank: u8,
}

impl Part {
    /// A part and its short form. Where there is no room, parts of a low rank are shortened first.
    pub fn new(text: impl Into<String>, short: impl Into<String>, rank: u8) -> Self {
        Self { text: text.into(), short: short.into(), rank }
    }
}

/// Joins parts to a progress line.
pub(crate) fn joined(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| part.text.as_str())
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(" | ")
}

/// The parts in `room` characters: the least important ones are shortened or left out.
pub(crate) fn fitted(parts: &[Part], room: usize) -> String {
    let mut shown = parts.to_vec();
    let mut order: Vec<_> = (0..shown.len()).rev().collect();
    order.sort_by_key(|at| shown[*at].rank);
    for at in order {
        if joined(&shown).chars().count() <= room {
            break;
        }
        // Something has to stay.
        if !(at == 0 && shown[at].short.is_empty()) {
            shown[at].text = std::mem::take(&mut shown[at].short);
        }
    }
    let line = joined(&shown);
    match line.chars().count() <= room {
        true => line,
        false => line.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A progress line on stderr; a terminal shows it in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveLine {
    pub(crate) is_live: bool,
}

impl LiveLine {
    /// Returns to the start of the line and erases it (ECMA-48 EL).
    const ERASE: &str = "\r\x1b[K";

    /// Replaces the line on a terminal; an empty one is erased.
    pub(crate) fn draw(self, line: &str) {
        let parts: Vec<_> = line.split(" | ").map(|text| Part::new(text, "", 0)).collect();
        self.draw_parts(&parts);
    }

    /// Replaces the line on a terminal by as much of `parts` as it has room for: a line that is wrapped could not be
    /// erased.
    pub(crate) fn draw_parts(self, parts: &[Part]) {
        if self.is_live {
            // The last column stays free: some terminals break the line there.
            let room = stderr_columns().map_or(usize::MAX, |columns| usize::from(columns).saturating_sub(1));
            let mut err = io::stderr().lock();
            let _ = write!(err, "{}{}", Self::ERASE, name(&fitted(parts, room)));
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

/// The numbers that are not 0, each with its words, which may begin with a plural.
pub(crate) fn present<W: Display>(
    counts: impl IntoIterator<Item = (u64, W)>,
) -> impl Iterator<Item = String> {
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    counts.map(|(number, words)| {
        let words = quaff::format::after_number(number, &words.to_string());
        format!("{} {words}", count(number))
    })
}

/// A moment, ns since 1970, to the last digit: `2026-11-20T10:04:11.123456789+01:00`.
pub(crate) fn time_ns(ns: u64) -> String {
    moment::text(ns, 9)
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
    fn long_lines_of_a_report_are_broken_between_words() {
        let text = "short\n  end           the last frame of this stream was received\n  1,024 rejected by the filter as asked for";
        let expected = "short\n  end           the last frame of this\n                stream was received\n  1,024 rejected by the filter as asked\n    for";
        assert_eq!(broken(text, 40), expected);
        assert_eq!(broken(text, 200), text);
        let path = format!("  {}", "x".repeat(60));
        assert_eq!(broken(&path, 40), path, "a path stays whole");
        assert_eq!(
            broken(&format!("{path} {path} end"), 40),
            format!("{path}\n    {}\n    end", path.trim())
        );
        let rate = "  total  1,300 on the wire, 547 Mb/s, 10 %";
        assert_eq!(broken(rate, 32), "  total  1,300 on the wire,\n         547 Mb/s, 10 %");
        let row = "  lost                              1,234,567  in 12 gaps";
        assert_eq!(broken(row, 40), "  lost\n    1,234,567  in 12 gaps");
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
    fn a_progress_line_fits_the_terminal() {
        let parts = [
            Part::new("412 kpps 4.80 Gb/s", "412 kpps", 4),
            Part::new("written 12,345,678 9.87 GiB", "", 1),
            Part::new("ring 3% buffer 12% max 40%", "", 0),
            Part::new("lost: nic 0 kernel 7 buffer 0 disk 0", "lost 7", 3),
        ];
        let all = joined(&parts);
        assert_eq!(fitted(&parts, 199), all);
        assert_eq!(fitted(&parts, 79), "412 kpps 4.80 Gb/s | lost: nic 0 kernel 7 buffer 0 disk 0");
        assert_eq!(fitted(&parts, 39), "412 kpps 4.80 Gb/s | lost 7");
        assert_eq!(fitted(&parts, 20), "412 kpps | lost 7");
        assert_eq!(fitted(&parts, 9), "412 kpps…");
        assert_eq!(fitted(&[Part::new("3.0 s  sent 5", "", 0)], 8), "3.0 s  …");
        assert_eq!(fitted(&[Part::new("", "", 0)], 0), "");
    }

    #[test]
    fn a_time_has_all_its_digits() {
        assert_eq!(time_ns(1_700_000_000_000_000_001), "2023-11-14T22:13:20.000000001Z");
    }
}
