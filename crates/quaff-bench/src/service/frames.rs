//! Converts a plan's sizes and information rates into frames and streams. Sizes are bytes with FCS here, as in plans;
//! only a stream's sizes exclude it.

use super::plan::Service;
use super::result::Way;
use crate::trial::{Length, Phase, StreamPlan};

/// Frame check sequence, bytes.
pub(super) const FCS_BYTES: u32 = 4;
/// Preamble, start-of-frame delimiter and inter-packet gap, bytes (IEEE 802.3).
const LINE_BYTES: f64 = 20.0;
/// First stream id of the reverse direction.
const BACK_ID: u16 = 1000;

/// Mean frame size, bytes; the sizes are sent in turn.
pub(super) fn mean_size(sizes: &[u32]) -> f64 {
    sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / sizes.len().max(1) as f64
}

/// Frames/s of a full link (RFC 2544, appendix B).
pub(super) fn line_pps(link_mbps: f64, size: f64) -> f64 {
    link_mbps * 1e6 / (8.0 * (size + LINE_BYTES))
}

/// Frames/s of an information rate in Mbit/s.
pub(super) fn pps(mbps: f64, size: f64) -> f64 {
    mbps * 1e6 / (8.0 * size)
}

/// Information rate, Mbit/s, of `frames` that have `bytes` without their FCS.
pub(super) fn mbps(bytes: u64, frames: u64, seconds: f64) -> f64 {
    let bits = (bytes + frames * u64::from(FCS_BYTES)) as f64 * 8.0;
    if seconds > 0.0 { bits / seconds / 1e6 } else { 0.0 }
}

/// Stream id of a service; the two directions use separate ranges.
pub(super) fn id(way: Way, number: usize) -> u16 {
    let first = if way == Way::There { 1 } else { BACK_ID };
    first.saturating_add(number as u16)
}

/// A stream of frames of one size.
pub(super) fn stream(id: u16, size: u32, phases: Vec<Phase>) -> StreamPlan {
    StreamPlan { id, sizes: vec![size - FCS_BYTES], phases, vlan: None, dscp: 0 }
}

/// A stream with the sizes, VLAN and DSCP of a service.
pub(super) fn service_stream(service: &Service, id: u16, phases: Vec<Phase>) -> StreamPlan {
    let sizes = service.sizes.iter().map(|size| size - FCS_BYTES).collect();
    StreamPlan { id, sizes, phases, vlan: service.vlan, dscp: service.dscp }
}

/// A phase of `seconds` at `pps`.
pub(super) fn for_s(seconds: f64, pps: f64) -> Phase {
    Phase { length: Length::Seconds(seconds), pps: Some(pps) }
}

/// A phase of `frames` frames at `pps`.
pub(super) fn frames_at(frames: u64, pps: f64) -> Phase {
    Phase { length: Length::Frames(frames), pps: Some(pps) }
}

/// Formats a number with up to four significant digits and no trailing zeros.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats the range from `low` to `high` Mbit/s, with the digits that tell them apart down to 1 bit/s.
pub(super) fn range(low: f64, high: f64) -> String {
    let [short_low, short_high] = [low, high].map(number);
    if short_low != short_high {
        return format!("{short_low} to {short_high}");
    }
    let with = |digits: usize| [low, high].map(|value| format!("{value:.digits$}"));
    let apart = (0..=6).map(with).find(|[low, high]| low != high);
    apart.map_or(short_low, |[low, high]| format!("{low} to {high}"))
}

/// Formats frames/s: "400 kpps".
pub(super) fn pps_words(pps: f64) -> String {
    match pps {
        1e6.. => format!("{} Mpps", number(pps / 1e6)),
        1e3.. => format!("{} kpps", number(pps / 1e3)),
        _ => format!("{} pps", number(pps)),
    }
}

/// Name of a direction in reports.
pub(crate) fn way_words(way: Way) -> &'static str {
    match way {
        Way::There => "there",
        Way::Back => "back",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_link_carries_what_the_rfc_says() {
        // RFC 2544, appendix B, 10 Mbit/s.
        for (size, frames) in [(64.0, 14_880.0), (128.0, 8_445.0), (512.0, 2_349.0), (1518.0, 812.0)] {
            assert_eq!(line_pps(10.0, size).floor(), frames);
        }
        // Y.1564 counts from the addresses to the FCS: a full 1 Gbit/s link of 1518 B frames is 986.996 Mbit/s.
        let full = mbps(81_274 * 1514, 81_274, 1.0);
        assert!((full - 986.99).abs() < 0.01, "{full}");
        assert!((pps(986.996, 1518.0) - 81_274.0).abs() < 1.0);
        assert_eq!(mbps(100, 1, 0.0), 0.0);
    }

    #[test]
    fn a_stream_has_no_fcs() {
        assert_eq!(stream(1, 64, Vec::new()).sizes, [60]);
        assert_eq!(mean_size(&[64, 136]), 100.0);
        assert_ne!(id(Way::There, 0), id(Way::Back, 0));
    }

    #[test]
    fn a_range_has_the_digits_that_tell_its_ends_apart() {
        for (low, high, text) in [
            (2.0, 2.5, "2 to 2.5"),
            (2.0, 2.000_3, "2.0000 to 2.0003"),
            (1.999_9, 2.000_1, "1.9999 to 2.0001"),
            (2.0, 2.0, "2"),
            (2.0, 2.000_000_01, "2"),
        ] {
            assert_eq!(range(low, high), text);
        }
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        for (value, text) in [
            (0.0, "0"),
            (0.003, "0.003"),
            (0.012_345_6, "0.01235"),
            (12.0, "12"),
            (971.62, "971.6"),
            (81_274.0, "81274"),
            (1e-12, "0"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(pps_words(1_488_095.0), "1.488 Mpps");
        assert_eq!(pps_words(400_000.0), "400 kpps");
        assert_eq!(pps_words(12.5), "12.5 pps");
    }
}
