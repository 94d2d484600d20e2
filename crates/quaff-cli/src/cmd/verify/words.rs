//! The lines and words that the reports of verify share.

use crate::settings;
use crate::show::{self, name};
use quaff_file::verify::{Ledger, Outcome};
use std::fmt::Write;

/// The first line, and the reasons below it when there are several.
pub(super) fn verdict(out: &mut impl Write, reasons: &[String], complete: &str) -> std::fmt::Result {
    match reasons {
        [] => writeln!(out, "complete: {complete}"),
        [reason] => writeln!(out, "NOT complete: {}", name(reason)),
        reasons => {
            writeln!(out, "NOT complete:")?;
            reasons.iter().try_for_each(|reason| writeln!(out, "- {}", name(reason)))
        }
    }
}

/// Shortest check that has a rate, s.
const RATE_SECONDS_MIN: f64 = 0.01;

/// The last lines: the notes, and how fast so many `frames` were read.
pub(super) fn print_end(out: &mut impl Write, outcome: &Outcome, frames: u64) -> std::fmt::Result {
    outcome.notes.iter().try_for_each(|note| line(out, "note", note))?;
    let (bytes, seconds) = (outcome.bytes, outcome.seconds);
    let mut read = format!("{} in {seconds:.2} s", show::bytes(bytes));
    if seconds >= RATE_SECONDS_MIN {
        let of = |count: u64| count as f64 / seconds;
        read += &format!(": {}/s, {}", show::bytes(of(bytes) as u64), show::pps(of(frames)));
    }
    line(out, "read", &read)
}

pub(super) fn row(out: &mut impl Write, what: &str, count: u64, note: &str) -> std::fmt::Result {
    writeln!(out, "{}", format!("  {what:<12}{:>15}  {note}", show::count(count)).trim_end())
}

pub(super) fn line(out: &mut impl Write, what: &str, words: &str) -> std::fmt::Result {
    writeln!(out, "  {what:<12}  {}", settings::named(&name(words)))
}

const NO_LEDGER: &str = "none: the files record no drop counts";

/// The ledger of a capture without numbers: nothing says which packets its drops were.
pub(super) fn drop_words(ledger: Option<&Ledger>) -> String {
    let Some(ledger) = ledger else { return NO_LEDGER.into() };
    if !ledger.consistent {
        return "CONTRADICTS the frames, see above".into();
    }
    let mut words = match ledger.recorded_drops.max(ledger.epb_dropcount) {
        0 => "records no drops".into(),
        drops => format!("{} recorded{}", show::number_of(drops, "drop"), drop_places(ledger)),
    };
    if !ledger.covers_all {
        words += "; not for each interface, or not to its last frame";
    }
    words
}

/// The places of recorded drops, in parentheses.
fn drop_places(ledger: &Ledger) -> String {
    let places = [("interface", ledger.ifdrop), ("kernel", ledger.osdrop), ("buffer", ledger.undelivered)];
    let places = places.iter().filter(|(_, drops)| *drops > 0);
    let places: Vec<String> =
        places.map(|(place, drops)| format!("{place} {}", show::count(*drops))).collect();
    if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) }
}

pub(super) fn ledger_words(ledger: Option<&Ledger>) -> String {
    let Some(ledger) = ledger else { return NO_LEDGER.into() };
    if !ledger.consistent {
        return "CONTRADICTS the frames, see above".into();
    }
    let (drops, places) = (show::number_of(ledger.recorded_drops, "drop"), drop_places(ledger));
    let mut words = match (ledger.recorded_drops, ledger.unexplained) {
        (0, 0) => "agrees: no drops recorded, and nothing is missing".into(),
        (_, 0) => {
            format!("agrees: {drops} recorded{places}, and as many frames are missing")
        }
        (0, more) => format!("records no drops; {} missing", show::number_of(more.unsigned_abs(), "frame")),
        (_, more) if more > 0 => {
            let more = show::number_of(more.unsigned_abs(), "more frame");
            format!("{drops} recorded{places}; {more} missing")
        }
        (_, fewer) => {
            let fewer = show::count(fewer.unsigned_abs());
            format!(
                "{drops} recorded{places}; {fewer} of them after the last frame, or without a probe header"
            )
        }
    };
    if ledger.frames_behind > 0 {
        words += &format!(
            "; it ends {} before the end of the file",
            show::number_of(ledger.frames_behind, "frame")
        );
    }
    words
}
