//! The rate of a workload, as requested and in frames/s.

use serde::{Deserialize, Serialize};

/// Overhead of a frame on a link, bytes: FCS, preamble, start-of-frame delimiter, inter-packet gap (IEEE 802.3).
const LINK_BYTES: f64 = 24.0;

/// Units of frame rates in steps of 1000.
const FRAMES: &[&str] = &["pps", "kpps", "Mpps", "Gpps"];
/// Units of bit rates in steps of 1000.
const BITS: &[&str] = &["Mbit/s", "Gbit/s"];

/// The rate of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// As fast as possible.
    Max,
    /// Frames/s.
    Pps(u64),
    /// Mbit/s of frames without FCS (layer 2).
    Mbps(f64),
    /// Percent of a link's rate at layer 1, with preamble, FCS and gap; values above 100 are valid.
    Util { percent: f64, link_mbps: f64 },
}

impl Rate {
    /// Frames/s for frames of `mean_bytes`; `None`: as fast as possible.
    pub(crate) fn pps(self, mean_bytes: f64) -> Option<f64> {
        match self {
            Self::Max => None,
            Self::Pps(pps) => Some(pps as f64),
            Self::Mbps(mbps) => Some(mbps * 1e6 / (8.0 * mean_bytes)),
            Self::Util { percent, link_mbps } => {
                Some(percent / 100.0 * link_mbps * 1e6 / (8.0 * (mean_bytes + LINK_BYTES)))
            }
        }
    }

    /// The requested rate as text: "400 kpps", "950 Mbit/s", "37.2 % of 1 Gbit/s", "as fast as possible".
    pub fn words(self) -> String {
        match self {
            Self::Max => "as fast as possible".into(),
            Self::Pps(pps) => scaled(pps as f64, FRAMES),
            Self::Mbps(mbps) => scaled(mbps, BITS),
            Self::Util { percent, link_mbps } => {
                format!("{} % of {}", short(percent), scaled(link_mbps, BITS))
            }
        }
    }
}

/// Formats `value`, given in the first unit, in the largest unit that keeps it at 1 or more.
fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", short(value), units[unit])
}

/// Formats up to three decimals without trailing zeros.
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
}
