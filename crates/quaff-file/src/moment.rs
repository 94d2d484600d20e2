//! Points in time as text for people: in local time with its offset from UTC, or in UTC where the user asks for that.
//! Every sentence, table and page takes them from here. What is written into a file has UTC instead, see [`utc`], and
//! JSON has ns since 1970.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::sync::OnceLock;

/// The zone of this process, chosen once.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Shows all points in time in UTC, instead of in local time. It has to precede the first one that is shown.
pub fn use_utc() {
    // A second call finds it set.
    let _ = ZONE.set(TimeZone::UTC);
}

/// The time zone of what is shown, and of times that a user writes without one: by `TZ`, or the system's.
pub fn zone() -> &'static TimeZone {
    ZONE.get_or_init(TimeZone::system)
}

/// The time of day now, as messages have it: `14:05:09`.
pub fn clock() -> String {
    Timestamp::now().to_zoned(zone().clone()).strftime("%H:%M:%S").to_string()
}

/// A moment, ns since 1970, with so many digits of its second: `2026-11-20T10:04:11.123+01:00`, or with `Z` where the
/// offset is 0.
pub fn text(ns: u64, digits: usize) -> String {
    text_in(zone(), ns, digits)
}

/// As [`text`], in UTC: for what is written into files.
pub fn utc(ns: u64, digits: usize) -> String {
    text_in(&TimeZone::UTC, ns, digits)
}

fn text_in(zone: &TimeZone, ns: u64, digits: usize) -> String {
    let Ok(time) = Timestamp::from_nanosecond(ns.into()) else { return format!("{ns} ns since 1970") };
    let time = time.to_zoned(zone.clone());
    format!("{}{}", time.strftime("%Y-%m-%dT%H:%M:%S"), ending(&time, ns, digits))
}

/// The digits of the second, cut and not rounded, and the offset.
fn ending(time: &Zoned, ns: u64, digits: usize) -> String {
    let decimals = format!("{:09}", ns % 1_000_000_000);
    let decimals = match digits.min(decimals.len()) {
        0 => String::new(),
        digits => format!(".{}", &decimals[..digits]),
    };
    match time.offset().seconds() {
        0 => decimals + "Z",
        _ => format!("{decimals}{}", time.strftime("%:z")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: u64 = 1_795_435_200_123_456_789;

    #[test]
    fn a_moment_has_the_offset_of_its_zone() {
        let utc = [0, 3, 9].map(|digits| utc(NS, digits));
        assert_eq!(
            utc,
            ["2026-11-23T12:00:00Z", "2026-11-23T12:00:00.123Z", "2026-11-23T12:00:00.123456789Z"]
        );
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        assert_eq!(text_in(&zone, NS, 3), "2026-11-23T13:00:00.123+01:00");
        assert_eq!(text_in(&zone, NS - 150 * 86_400_000_000_000, 0), "2026-06-26T14:00:00+02:00");
        let zone = TimeZone::posix("IST-5:30").expect("a zone");
        assert_eq!(text_in(&zone, NS, 0), "2026-11-23T17:30:00+05:30");
    }

    #[test]
    fn each_time_of_a_file_can_be_written() {
        assert!(utc(0, 9).starts_with("1970-01-01T00:00:00.000000000"));
        assert!(utc(u64::MAX, 9).starts_with("2554-07-21T23:34:33.709551615"));
        assert_eq!(text(0, 0).len(), text(NS, 0).len());
    }
}
