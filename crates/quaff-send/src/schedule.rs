//! The schedule: absolute deadlines relative to one anchor, in integers, without drift.
//!
//! Each deadline is computed from the sum of what precedes it (frames, bits, or time), never from the previous
//! deadline, so rounding errors do not accumulate. All arithmetic is in 128 bits and saturates. Reads no clock.

use crate::arena::FrameMeta;
use crate::error::PlanError;
use std::time::Duration;

/// Backward steps of capture times above this mean that the clock was set, and the frame follows at once, ns. Smaller
/// ones come from packets of several queues.
const STEP_NS: u64 = 10_000_000;
/// ns in a second.
const SECOND_NS: u128 = 1_000_000_000;
/// Preamble, start-of-frame delimiter and interframe gap (IEEE 802.3), bytes.
const WIRE_BYTES: u64 = 8 + 12;
/// Frame check sequence, bytes.
const FCS_BYTES: u64 = 4;
/// Shortest Ethernet frame without FCS, bytes.
const FRAME_BYTES_MIN: u64 = 60;
/// Ethernet header, bytes.
const ETHERNET_BYTES: u64 = 14;

/// A rational number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    pub num: u64,
    /// Never 0.
    pub den: u64,
}

/// The bytes of a frame that count for a bit rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Everything on the wire: preamble, padding, FCS and gap.
    L1,
    /// The frame without FCS, as captured.
    L2,
    /// The frame without Ethernet header and FCS.
    L3,
}

/// The rate of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// The captured rate times a factor.
    Captured(Ratio),
    /// Frames per second.
    Frames(Ratio),
    /// Bits per second.
    Bits(Ratio, Layer),
    /// As fast as possible.
    Topspeed,
}

/// The policy for frames that are more than [`LATE_NS`] late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LatePolicy {
    /// Send them immediately until the schedule has caught up.
    #[default]
    Burst,
    /// Delay all later deadlines, which keeps the gaps.
    Shift,
    /// Drop them.
    Drop,
}

/// Lateness above which the policy for late frames applies, ns.
pub(crate) const LATE_NS: u64 = 1_000_000;

/// A time after the anchor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) ns: u64,
    /// Fraction, in 2^-32 ns.
    pub(crate) fraction: u32,
}

/// The deadlines of a run.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    rate: Rate,
    /// Sum of the frames, bits or ns before the next frame.
    passed: u128,
    /// Capture time of the first frame of this pass, and `passed` before it.
    first: Option<(u64, u128)>,
    /// Latest capture time of this pass, ns.
    latest_ns: u64,
    /// Longest gap between captured times, in captured ns.
    gap_max: Option<u128>,
}

impl Ratio {
    /// Nearest ratio of a number above 0, to nine decimal places; exact for typed numbers. `None` if out of range.
    pub fn of(value: f64) -> Option<Self> {
        let den = [1_000_000_000, 1_000_000, 1000, 1].into_iter().find(|den| value * (*den as f64) < 1e18)?;
        let num = (value * den as f64).round();
        (num >= 1.0).then_some(Self { num: num as u64, den })
    }

    /// Value as floating-point number.
    pub fn value(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

impl Layer {
    /// Bits of a frame of `frame_bytes` bytes without FCS.
    fn bits(self, frame_bytes: usize) -> u64 {
        let bytes = frame_bytes as u64;
        8 * match self {
            Self::L1 => bytes.max(FRAME_BYTES_MIN) + FCS_BYTES + WIRE_BYTES,
            Self::L2 => bytes,
            Self::L3 => bytes.saturating_sub(ETHERNET_BYTES),
        }
    }
}

impl Rate {
    /// Deadline after `units` frames, bits or captured ns; ns after the anchor.
    pub fn due_ns(self, units: u128) -> u64 {
        self.deadline(units).ns
    }

    /// The same with its fraction.
    fn deadline(self, units: u128) -> Deadline {
        let (ratio, per_second) = match self {
            Self::Captured(ratio) => (ratio, SECOND_NS),
            Self::Frames(ratio) | Self::Bits(ratio, _) => (ratio, 1),
            Self::Topspeed => return Deadline::default(),
        };
        // Seconds are units * den / num. num is below 2^94, so that no product below overflows 2^128.
        let (num, den) = (u128::from(ratio.num) * per_second, u128::from(ratio.den));
        let scaled = units.saturating_mul(den);
        let (seconds, rest) = (scaled / num, scaled % num);
        let ns = rest * SECOND_NS;
        let whole_ns = seconds.saturating_mul(SECOND_NS).saturating_add(ns / num);
        let fraction = ((ns % num) << 32) / num;
        Deadline { ns: u64::try_from(whole_ns).unwrap_or(u64::MAX), fraction: fraction as u32 }
    }

    /// Returns `true` if frames have deadlines.
    pub(crate) fn is_paced(self) -> bool {
        self != Self::Topspeed
    }
}

impl Schedule {
    /// Starts at the first frame. Fails for a rate of 0.
    pub(crate) fn new(rate: Rate) -> Result<Self, PlanError> {
        match rate {
            Rate::Captured(ratio) | Rate::Frames(ratio) | Rate::Bits(ratio, _)
                if ratio.num == 0 || ratio.den == 0 =>
            {
                Err(PlanError::Rate)
            }
            _ => Ok(Self { rate, passed: 0, first: None, latest_ns: 0, gap_max: None }),
        }
    }

    /// Limits gaps between captured times to `gap_max`, at the rate of the run.
    #[must_use]
    pub(crate) fn with_gap_max(mut self, gap_max: Option<Duration>) -> Self {
        self.gap_max = match (gap_max, self.rate) {
            // The limit applies after the multiplier.
            (Some(gap), Rate::Captured(ratio)) => {
                Some(gap.as_nanos() * u128::from(ratio.num) / u128::from(ratio.den))
            }
            _ => None,
        };
        self
    }

    /// Deadline of the next frame; the anchor for [`Rate::Topspeed`].
    pub(crate) fn due(&mut self, frame_bytes: usize, meta: &FrameMeta) -> Deadline {
        let at = match self.rate {
            Rate::Captured(_) => {
                let was_set = self.latest_ns.saturating_sub(meta.time_ns) > STEP_NS;
                let (first_ns, before) = match self.first {
                    Some(first) if !was_set => first,
                    _ => (meta.time_ns, self.passed),
                };
                self.latest_ns = if was_set { meta.time_ns } else { self.latest_ns.max(meta.time_ns) };
                let at = before + u128::from(meta.time_ns.saturating_sub(first_ns));
                let most = self.gap_max.map_or(u128::MAX, |gap_max| self.passed.saturating_add(gap_max));
                let over = at.saturating_sub(most);
                // What is cut off here also moves all later frames.
                self.first = Some((first_ns.saturating_add(over as u64), before));
                at - over
            }
            _ => self.passed,
        };
        self.passed = match self.rate {
            Rate::Captured(_) => self.passed.max(at),
            Rate::Frames(_) => at + 1,
            Rate::Bits(_, layer) => at + u128::from(layer.bits(frame_bytes)),
            Rate::Topspeed => 0,
        };
        self.rate.deadline(at)
    }

    /// Deadline of a frame that follows at once.
    pub(crate) fn end(&self) -> Deadline {
        self.rate.deadline(self.passed)
    }

    /// Starts a new pass, whose first frame is due after all frames before it.
    pub(crate) fn next_pass(&mut self) {
        (self.first, self.latest_ns) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The n-th frame is due exactly n / rate after the first, to 2^-32 ns.
        #[test]
        fn the_nth_deadline_is_exact(num in 1u64..2_000_000_000, den in 1u64..2_000, frames in 1u64..2_000) {
            let mut schedule = Schedule::new(Rate::Frames(Ratio { num, den })).unwrap();
            for n in 0..frames {
                let exact = ((u128::from(n * den) * 1_000_000_000) << 32) / u128::from(num);
                let due = schedule.due(60, &meta(0));
                prop_assert_eq!(u128::from(due.ns) << 32 | u128::from(due.fraction), exact, "frame {}", n);
            }
        }
    }

    fn meta(time_ns: u64) -> FrameMeta {
        FrameMeta { time_ns, ..FrameMeta::default() }
    }

    fn ratio(value: f64) -> Ratio {
        Ratio::of(value).unwrap()
    }

    #[test]
    fn frames_per_second_do_not_drift() {
        for pps in [0.5, 3.0, 100_000.0, 553_097.0, 1e6, 14_880_952.38] {
            let mut schedule = Schedule::new(Rate::Frames(ratio(pps))).unwrap();
            assert_eq!(schedule.due(64, &meta(0)), Deadline::default());
            // As after 2^63 frames.
            schedule.passed = 1 << 63;
            let due = schedule.due(64, &meta(0));
            let exact = (1u128 << 63) * 1_000_000_000 * 1_000_000_000 / ((pps * 1e9).round() as u128);
            let expected = u64::try_from(exact).unwrap_or(u64::MAX);
            assert!(due.ns.abs_diff(expected) <= 1, "{pps}: {} and {expected}", due.ns);
        }
        let mut schedule = Schedule::new(Rate::Frames(ratio(3.0))).unwrap();
        let dues: Vec<_> = (0..4).map(|_| schedule.due(64, &meta(0)).ns).collect();
        assert_eq!(dues, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }

    #[test]
    fn the_layer_selects_the_bits_that_count() {
        for (layer, bits) in [(Layer::L1, 1524 * 8), (Layer::L2, 1500 * 8), (Layer::L3, 1486 * 8)] {
            let mut schedule = Schedule::new(Rate::Bits(ratio(1e9), layer)).unwrap();
            schedule.due(1500, &meta(0));
            assert_eq!(schedule.due(1500, &meta(0)).ns, bits, "{layer:?}");
        }
        assert_eq!(Layer::L1.bits(14), 84 * 8, "the shortest frame takes 84 bytes");
    }

    #[test]
    fn long_gaps_are_shortened_and_all_others_stay() {
        let dues = |factor, gap_max_ns| {
            let schedule = Schedule::new(Rate::Captured(ratio(factor))).unwrap();
            let mut schedule = schedule.with_gap_max(Some(Duration::from_nanos(gap_max_ns)));
            let times = [1000, 1010, 9_000_000, 9_000_005, 8_999_999, 9_000_030, 9_000_051];
            times.map(|time_ns| schedule.due(64, &meta(time_ns)).ns)
        };
        assert_eq!(dues(1.0, 20), [0, 10, 30, 35, 29, 55, 75]);
        assert_eq!(dues(1.0, 1 << 40), [0, 10, 8_999_000, 8_999_005, 8_998_999, 8_999_030, 8_999_051]);
        assert_eq!(dues(2.0, 10), [0, 5, 15, 17, 14, 27, 37]);
    }

    #[test]
    fn captured_times_continue_over_passes() {
        let mut schedule = Schedule::new(Rate::Captured(ratio(2.0))).unwrap();
        let mut dues = Vec::new();
        for _ in 0..2 {
            dues.extend([1000, 1010, 1007, 1021].map(|time_ns| schedule.due(64, &meta(time_ns))));
            schedule.next_pass();
        }
        let half = 1 << 31;
        let due = |ns, fraction| Deadline { ns, fraction };
        let once = [due(0, 0), due(5, 0), due(3, half), due(10, half)];
        let again = [due(10, half), due(15, half), due(14, 0), due(21, 0)];
        assert_eq!(dues, [once, again].concat());
        assert_eq!(schedule.end(), due(21, 0));
    }

    #[test]
    fn a_capture_clock_that_was_set_back_causes_no_wait() {
        let mut schedule = Schedule::new(Rate::Captured(Ratio { num: 1, den: 1 })).unwrap();
        let hour = 3_600_000_000_000;
        let times = [hour, hour + 5_000_000, hour + 1_000_000, hour + 6_000_000, 7, 1_000_007, hour];
        let dues = times.map(|time_ns| schedule.due(64, &meta(time_ns)).ns);
        let set_at = 6_000_000;
        let expected = [0, 5_000_000, 1_000_000, set_at, set_at, set_at + 1_000_000, set_at + hour - 7];
        assert_eq!(dues, expected);
    }

    #[test]
    fn ratios_are_exact_for_typed_numbers() {
        assert_eq!(ratio(0.1), Ratio { num: 100_000_000, den: 1_000_000_000 });
        assert_eq!(ratio(553_097.25).value(), 553_097.25);
        assert!(ratio(4e11).num > 0 && Ratio::of(1e-10).is_none() && Ratio::of(f64::NAN).is_none());
        assert!(Ratio::of(-1.0).is_none() && Ratio::of(0.0).is_none());
        assert!(Schedule::new(Rate::Frames(Ratio { num: 0, den: 1 })).is_err());
    }
}
