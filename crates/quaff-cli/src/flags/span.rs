//! The flags of a span of time, and the texts of times.

use crate::units;
use jiff::Timestamp;
use jiff::civil::DateTime;
use quaff::plan::TimeBound;
use quaff_file::moment;

flags! {
    /// Show points in time in UTC instead of local time, and read those without a zone as UTC
    #[arg(long, help_heading = "Report")]
    UtcArg { utc: bool }
}

/// A span of time.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SpanArgs {
    /// Keep packets from TIME on: '2026-11-23 04:55:00' (local time, or UTC with --utc), with Z or +01:00 at its
    /// end (UTC or that offset), @SECONDS since 1970, or +TIME after the first packet, such as +90s
    #[arg(long, value_name = "TIME", value_parser = bound)]
    pub(crate) from: Option<TimeBound>,
    /// Keep packets before TIME, written as for --from
    #[arg(long, value_name = "TIME", value_parser = bound)]
    pub(crate) to: Option<TimeBound>,
}

/// A time: absolute, or after the first packet.
fn bound(text: &str) -> Result<TimeBound, String> {
    let text = text.trim();
    if let Some(after) = text.strip_prefix('+') {
        return Ok(TimeBound::AfterFirst(nanoseconds_of(after)?));
    }
    if let Some(seconds) = text.strip_prefix('@') {
        return epoch(seconds)
            .map(TimeBound::At)
            .ok_or_else(|| format!("'{text}' is no time: write @1700000000.5"));
    }
    let local = || Some(moment::zone().to_zoned(text.parse::<DateTime>().ok()?).ok()?.timestamp());
    let time = text.parse::<Timestamp>().ok().or_else(local);
    let ns = time.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    ns.map(TimeBound::At).ok_or_else(|| {
        format!("'{text}' is no time from 1970 to 2554: write '2026-11-23 04:55:00', @1700000000 or +90s")
    })
}

/// ns of seconds since 1970, with up to nine decimals.
fn epoch(text: &str) -> Option<u64> {
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if decimals.is_empty() || decimals.len() > 9 || !decimals.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let ns: u64 = format!("{decimals:0<9}").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

pub(crate) fn nanoseconds_of(text: &str) -> Result<u64, String> {
    let ns = units::duration(text)?.as_nanos();
    u64::try_from(ns).map_err(|_| format!("'{text}' is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::tests::{is_answered, texts};
    use proptest::prelude::*;

    const NOON_NS: u64 = 1_795_435_200_000_000_000;

    #[test]
    fn times_are_absolute_or_relative() {
        let at = |text| match bound(text) {
            Ok(TimeBound::At(ns)) => ns,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(at("2026-11-23T12:00:00Z"), NOON_NS);
        assert_eq!(at("2026-11-23 12:00:00.000000001Z"), NOON_NS + 1);
        assert_eq!(at("2026-11-23 13:00:00+01:00"), NOON_NS);
        assert_eq!(at("@1795435200"), NOON_NS);
        assert_eq!(at("@1795435200.000000001"), NOON_NS + 1);
        assert_eq!(at("@1795435200.5"), NOON_NS + 500_000_000);
        assert_eq!(bound("+90s"), Ok(TimeBound::AfterFirst(90_000_000_000)));
        for wrong in [
            "",
            "noon",
            "@",
            "@1.",
            "@1.0123456789",
            "1969-12-31T00:00:00Z",
            "+",
            "+x",
            "2026-13-01 00:00:00",
        ] {
            assert!(bound(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_has_a_reason(text in texts(), ns in any::<u64>()) {
            prop_assert!(is_answered(bound(&text)));
            // Each time of the format is one that can be written.
            let (seconds, decimals) = (ns / 1_000_000_000, ns % 1_000_000_000);
            prop_assert_eq!(bound(&format!("@{seconds}.{decimals:09}")), Ok(TimeBound::At(ns)));
        }
    }
}
