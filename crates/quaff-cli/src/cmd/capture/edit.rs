//! The editing flags of `quaff capture --read` (`--from`, `--dedup`, …), and the plan they make.

use crate::flags::{RangesArgs, of};
use crate::units::{self, Choice, choice};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use quaff::plan::{DedupWindow, Duplicates, EditPlan, Pattern, TimeBound};

/// Options of editing.
#[derive(Debug, Clone, clap::Args)]
#[command(
    next_help_heading = "Editing",
    mut_args(of("include", |arg| arg.requires("read"))),
    mut_args(of("exclude", |arg| arg.requires("read")))
)]
pub(crate) struct EditArgs {
    /// Keep packets from TIME on: '2026-11-23 04:55:00' (local time), with Z or +01:00 at its end (UTC or that
    /// offset), @SECONDS since 1970, or +TIME after the first packet, such as +90s
    #[arg(long, value_name = "TIME", value_parser = bound, requires = "read")]
    from: Option<TimeBound>,
    /// Keep packets before TIME, written as for --from
    #[arg(long, value_name = "TIME", value_parser = bound, requires = "read")]
    to: Option<TimeBound>,
    /// Keep packets whose payload matches a regular expression, such as '^GET /' or '(?i)password'
    ///
    /// Payload is what follows the header of TCP or UDP, or otherwise the IP header; a packet without one is searched as a
    /// whole. Each packet is searched by itself, and '^' is the start of its payload. A byte is written \xff.
    #[arg(long, value_name = "REGEX", value_parser = Pattern::new)]
    grep: Option<Pattern>,
    #[command(flatten)]
    ranges: RangesArgs,
    /// Add TIME to the time of each packet, such as 1h or -250ms
    #[arg(long, value_name = "[-]TIME", value_parser = offset, allow_hyphen_values = true, requires = "read")]
    shift_time: Option<i64>,
    /// Remove all VLAN tags of Ethernet and Linux cooked frames
    #[arg(long)]
    strip_vlan: bool,
    /// Drop packets with the same bytes as one shortly before: among N packets, this one included, or within TIME
    ///
    /// The window is editcap's: -d is --dedup, -D N is --dedup=N, -w 0.01 is --dedup=10ms. Bytes that --snaplen
    /// cuts off do not count.
    #[arg(
        long,
        value_name = "N|TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        value_parser = window,
        requires = "read"
    )]
    dedup: Option<DedupWindow>,
    /// Find packets that came before by another interface, VLAN, MAC address or TTL, within 1 ms
    ///
    /// A mirror port, or a second tap, delivers such duplicates. All bytes from the IP header on have to be equal,
    /// but for TTL and header checksum; equal packets of the same place are retransmissions, and only counted.
    #[arg(long, value_name = "ACTION", value_parser = choice(ACTIONS), conflicts_with = "dedup")]
    duplicates: Option<Duplicates>,
    /// Put a made Ethernet header in front of bare IP packets, for programs that read nothing else
    ///
    /// For packets inside tunnels (--decap) and of files. The addresses are 02:00:00:00:00:01 and
    /// 02:00:00:00:00:02; the description of the interface in the file mentions them.
    #[arg(long)]
    ethernet: bool,
}

/// The actions of --duplicates.
const ACTIONS: [Choice<Duplicates>; 3] = [
    ("count", Duplicates::Count, "report their number"),
    ("mark", Duplicates::Mark, "give all sightings of a packet the same epb_packetid; pcapng only"),
    ("remove", Duplicates::Remove, "keep the first sighting; with --read only"),
];

impl EditArgs {
    pub(super) fn plan(&self) -> EditPlan {
        EditPlan {
            from: self.from,
            to: self.to,
            pattern: self.grep.clone(),
            include: self.ranges.include.clone(),
            exclude: self.ranges.exclude.clone(),
            shift_ns: self.shift_time.unwrap_or(0),
            strip_vlan: self.strip_vlan,
            ethernet: self.ethernet,
            dedup: self.dedup,
            duplicates: self.duplicates,
        }
    }
}

/// A time: absolute, or after the first packet.
fn bound(text: &str) -> Result<TimeBound, String> {
    let text = text.trim();
    if let Some(after) = text.strip_prefix('+') {
        return Ok(TimeBound::AfterFirst(nanoseconds(after)?));
    }
    if let Some(seconds) = text.strip_prefix('@') {
        return epoch(seconds)
            .map(TimeBound::At)
            .ok_or_else(|| format!("'{text}' is no time: write @1700000000.5"));
    }
    let local = || Some(TimeZone::system().to_zoned(text.parse::<DateTime>().ok()?).ok()?.timestamp());
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

fn nanoseconds(text: &str) -> Result<u64, String> {
    let ns = units::duration(text)?.as_nanos();
    u64::try_from(ns).map_err(|_| format!("'{text}' is too long"))
}

fn offset(text: &str) -> Result<i64, String> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let ns = i64::try_from(nanoseconds(text)?).map_err(|_| format!("'{text}' is too long"))?;
    Ok(sign * ns)
}

/// A window of duplicates: a number of packets, or a time with its unit.
fn window(text: &str) -> Result<DedupWindow, String> {
    match text.parse() {
        Ok(packets) => Ok(DedupWindow::Packets(packets)),
        Err(_) if text.bytes().all(|digit| digit.is_ascii_digit()) => {
            Err(format!("'{text}' packets are too many"))
        }
        Err(_) => nanoseconds(text).map(DedupWindow::Time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::tests::{is_answered, texts};
    use proptest::prelude::*;
    use quaff_send::Ranges;

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
            prop_assert!(is_answered(bound(&text)) && is_answered(window(&text)) && is_answered(text.parse::<Ranges>()));
            if let Ok(ns) = offset(&text) {
                let is_back = text.starts_with('-');
                prop_assert!(ns == 0 || is_back == (ns < 0));
            }
            // Each time of the format is one that can be written.
            let (seconds, decimals) = (ns / 1_000_000_000, ns % 1_000_000_000);
            prop_assert_eq!(bound(&format!("@{seconds}.{decimals:09}")), Ok(TimeBound::At(ns)));
        }
    }

    #[test]
    fn offsets_have_a_sign_and_windows_a_unit() {
        assert_eq!((offset("1h"), offset("+2ms")), (Ok(3_600_000_000_000), Ok(2_000_000)));
        assert_eq!(offset("-250ms"), Ok(-250_000_000));
        assert_eq!(window("5"), Ok(DedupWindow::Packets(5)));
        assert_eq!(window("10ms"), Ok(DedupWindow::Time(10_000_000)));
        assert!(offset("--1s").is_err() && offset("300y").is_err() && window("99999999999").is_err());
    }
}
