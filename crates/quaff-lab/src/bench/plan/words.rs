//! Sizes and rates of a plan in words and in frames.

use super::{Content, Filter, Output, Rate, Setting, Size};
use quaff_wire::synth::Sizes;

/// FCS, preamble, start of frame and gap: what a frame takes on a link beside itself, bytes (IEEE 802.3).
const LINK_BYTES: f64 = 24.0;
/// The largest frame that a mix may have, bytes; what is larger is sent as large as that.
const FRAME_BYTES_MAX: u32 = 9216;

impl Size {
    /// Mean bytes of a frame; `None` when a file says it, or when no such mix is known.
    pub fn mean_bytes(&self) -> Option<f64> {
        match self {
            Self::Bytes(bytes) => Some(f64::from(*bytes)),
            Self::Mix(mix) => Sizes::parse(mix).ok().map(|sizes| sizes.mean(1, FRAME_BYTES_MAX)),
            Self::From(_) | Self::Replay(_) => None,
        }
    }

    /// The name of the mix or file; `None` for frames of one size.
    pub fn mix(&self) -> Option<&str> {
        match self {
            Self::Bytes(_) => None,
            Self::Mix(name) | Self::From(name) | Self::Replay(name) => Some(name),
        }
    }
}

impl Rate {
    /// Frames/s, when frames have `mean_bytes`; `None` as fast as possible.
    pub fn pps(self, mean_bytes: f64) -> Option<f64> {
        match self {
            Self::Max => None,
            Self::Pps(pps) => Some(pps as f64),
            Self::Mbps(mbps) => Some(mbps * 1e6 / (8.0 * mean_bytes)),
            Self::Util { percent, link_mbps } => {
                Some(percent / 100.0 * link_mbps * 1e6 / (8.0 * (mean_bytes + LINK_BYTES)))
            }
        }
    }

    /// As it was asked for: "400 kpps", "950 Mbit/s", "37.2 % of 1 Gbit/s", "as fast as possible".
    pub fn words(self) -> String {
        match self {
            Self::Max => "as fast as possible".into(),
            Self::Pps(pps) => scaled(pps as f64, &["pps", "kpps", "Mpps", "Gpps"]),
            Self::Mbps(mbps) => bits(mbps),
            Self::Util { percent, link_mbps } => format!("{} % of {}", short(percent), bits(link_mbps)),
        }
    }
}

impl Setting {
    /// What differs from the default, in words: "1 MiB of buffer", "4 capturers at once".
    pub fn words(&self) -> Vec<String> {
        let default = Self::default();
        let mut words = Vec::new();
        let mut say = |differs: bool, text: String| words.extend(differs.then_some(text));
        let Self { buffer_mib, capturers, filter, copies, compression, snaplen, output, cores } = self;
        say(buffer_mib.is_some(), format!("{} MiB of buffer", buffer_mib.unwrap_or(0)));
        say(*capturers != default.capturers, format!("{capturers} capturers at once"));
        say(*filter == Filter::AcceptAll, "a filter that accepts all".into());
        say(*filter == Filter::RejectAll, "a filter that rejects all".into());
        say(*copies > 0, format!("{copies} extra {}", if *copies == 1 { "copy" } else { "copies" }));
        say(*compression > 0, format!("each packet compressed, level {compression}"));
        say(snaplen.is_some(), format!("{} bytes of each packet", snaplen.unwrap_or(0)));
        say(*output == Output::Null, "to /dev/null".into());
        say(*output == Output::Pipe, "through a pipe".into());
        say(*output == Output::Screen, "to the screen".into());
        say(*cores != default.cores, if *cores == 1 { "one core".into() } else { format!("{cores} cores") });
        words
    }
}

impl Content {
    /// The word that `quaff generate --content` knows it by.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counting => "counting",
            Self::Zeros => "zeros",
            Self::Random => "random",
        }
    }
}

/// Mbit/s, or Gbit/s from a thousand on.
fn bits(mbps: f64) -> String {
    if mbps < 1000.0 { format!("{} Mbit/s", short(mbps)) } else { format!("{} Gbit/s", short(mbps / 1000.0)) }
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", short(value), units[unit])
}

/// Up to three digits behind the point, and no zeros at the end.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilisation_counts_what_a_frame_takes_on_the_link() {
        // The whitepaper's table: bytes with FCS, frames/s, utilisation of 1 Gbit/s.
        for (with_fcs, pps, percent) in [
            (64.0, 553_097.0, 37.2),
            (256.0, 158_490.0, 35.0),
            (512.0, 82_224.0, 35.0),
            (512.0, 117_489.0, 50.0),
            (512.0, 164_058.0, 69.8),
        ] {
            let rate = Rate::Util { percent, link_mbps: 1000.0 };
            let ours = rate.pps(with_fcs - 4.0).expect("a rate");
            assert!((ours / pps - 1.0).abs() < 0.001, "{with_fcs}: {ours} {pps}");
        }
        // 64 bytes fill 10 Gbit/s with 14 880 952 frames/s (RFC 2544, appendix B, scaled).
        let full = Rate::Util { percent: 100.0, link_mbps: 10_000.0 };
        assert_eq!(full.pps(60.0).map(f64::round), Some(14_880_952.0));
    }

    #[test]
    fn a_rate_reads_as_it_was_asked_for() {
        let util = |percent, link_mbps| Rate::Util { percent, link_mbps };
        for (rate, words) in [
            (Rate::Max, "as fast as possible"),
            (Rate::Pps(400_000), "400 kpps"),
            (Rate::Pps(553_097), "553.097 kpps"),
            (Rate::Pps(1_500_000), "1.5 Mpps"),
            (Rate::Mbps(950.0), "950 Mbit/s"),
            (Rate::Mbps(2500.0), "2.5 Gbit/s"),
            (util(37.2, 1000.0), "37.2 % of 1 Gbit/s"),
            (util(62.2, 100.0), "62.2 % of 100 Mbit/s"),
        ] {
            assert_eq!(rate.words(), words);
        }
        assert_eq!(Rate::Mbps(8.0).pps(100.0), Some(10_000.0));
    }

    #[test]
    fn a_mix_has_a_mean_and_a_file_says_it_later() {
        assert_eq!(Size::Bytes(60).mean_bytes(), Some(60.0));
        assert!((Size::Mix("imix".into()).mean_bytes().expect("a mean") - 353.833).abs() < 0.001);
        assert_eq!(Size::Mix("no such mix".into()).mean_bytes(), None);
        assert_eq!(Size::Replay("a.pcap".into()).mean_bytes(), None);
        assert_eq!(Size::Replay("a.pcap".into()).mix(), Some("a.pcap"));
    }

    #[test]
    fn a_setting_says_what_is_not_as_usual() {
        assert!(Setting::default().words().is_empty());
        let setting = Setting {
            buffer_mib: Some(1),
            capturers: 4,
            filter: Filter::AcceptAll,
            copies: 1,
            compression: 6,
            snaplen: Some(76),
            output: Output::Null,
            cores: 1,
        };
        assert_eq!(
            setting.words().join(", "),
            "1 MiB of buffer, 4 capturers at once, a filter that accepts all, 1 extra copy, each packet \
             compressed, level 6, 76 bytes of each packet, to /dev/null, one core"
        );
    }
}
