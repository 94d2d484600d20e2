//! The editing flags of `quaff capture --read` (`--from`, `--dedup`, …), and the plan they make.

use crate::flags::{GrepArg, RangesArgs, SpanArgs, nanoseconds_of, of};
use crate::units::{Choice, choice};
use quaff::plan::{DedupWindow, Duplicates, EditPlan};

/// Options of editing.
#[derive(Debug, Clone, clap::Args)]
#[command(
    next_help_heading = "Editing",
    mut_args(of("from", |arg| arg.requires("read"))),
    mut_args(of("to", |arg| arg.requires("read"))),
    mut_args(of("include", |arg| arg.requires("read"))),
    mut_args(of("exclude", |arg| arg.requires("read")))
)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    span: SpanArgs,
    #[command(flatten)]
    grep: GrepArg,
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
            from: self.span.from,
            to: self.span.to,
            pattern: (*self.grep).clone(),
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

fn offset(text: &str) -> Result<i64, String> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let ns = i64::try_from(nanoseconds_of(text)?).map_err(|_| format!("'{text}' is too long"))?;
    Ok(sign * ns)
}

/// A window of duplicates: a number of packets, or a time with its unit.
fn window(text: &str) -> Result<DedupWindow, String> {
    match text.parse() {
        Ok(packets) => Ok(DedupWindow::Packets(packets)),
        Err(_) if text.bytes().all(|digit| digit.is_ascii_digit()) => {
            Err(format!("'{text}' packets are too many"))
        }
        Err(_) => nanoseconds_of(text).map(DedupWindow::Time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::tests::{is_answered, texts};
    use proptest::prelude::*;
    use quaff_send::Ranges;

    proptest! {
        #[test]
        fn any_text_is_a_window_or_has_a_reason(text in texts()) {
            prop_assert!(is_answered(window(&text)) && is_answered(text.parse::<Ranges>()));
            if let Ok(ns) = offset(&text) {
                let is_back = text.starts_with('-');
                prop_assert!(ns == 0 || is_back == (ns < 0));
            }
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
