//! Arrival patterns: constant, Poisson, bursts, ramp, on-off.
//!
//! A pattern transforms the deadlines of a constant rate. These are computed from the sum of all preceding frames or
//! bits, in integers, so that rounding errors do not accumulate. Reads no clock.

use crate::error::PlanError;
use quaff_wire::synth::Rng;

const SECOND_NS: f64 = 1e9;
/// Rates are integers in parts of this size, so that 0.5 frames/s is an integer.
const PARTS: f64 = 1e6;
/// The random sequence that intervals use.
const PURPOSE: u64 = 4;

/// The offered rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OfferedRate {
    /// As fast as possible.
    Unpaced,
    /// Frames per second.
    Frames(f64),
    /// Bits per second of the frames, with `extra_bytes` added to the length of each (such as its FCS).
    Bits { per_second: f64, extra_bytes: u32 },
}

/// The distribution of frames over time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum ArrivalPattern {
    /// Constant intervals.
    #[default]
    Constant,
    /// Independent, exponentially distributed intervals.
    Poisson,
    /// Bursts of this number of frames, at the mean rate.
    Bursts(u64),
    /// Linear change from the rate `from`, in the unit of the rate, over `rise_ns`; then constant.
    Ramp { from: f64, rise_ns: u64 },
    /// Alternates between the rate and silence.
    OnOff { on_ns: u64, off_ns: u64 },
}

/// The deadlines of frames, in order.
#[derive(Debug, Clone)]
pub(super) struct ArrivalClock {
    offered: OfferedRate,
    shape: ArrivalPattern,
    /// Frames/s or bits/s, times [`PARTS`].
    rate: u128,
    /// Frames or bits before the next frame.
    done: u64,
    frames: u64,
    rng: Rng,
    /// Deadline of the next frame, ns after the first.
    pub(super) due_ns: u64,
    /// Unrounded deadline of [`ArrivalPattern::Poisson`], ns.
    random_ns: f64,
}

impl ArrivalClock {
    /// Checks rate and pattern; the first frame is due at 0.
    pub(super) fn new(offered: OfferedRate, shape: ArrivalPattern, seed: u64) -> Result<Self, PlanError> {
        let rate = match offered {
            OfferedRate::Unpaced if shape == ArrivalPattern::Constant => 0.0,
            OfferedRate::Unpaced => return Err(PlanError::NoRate),
            OfferedRate::Frames(rate) | OfferedRate::Bits { per_second: rate, .. } => checked(rate)?,
        };
        match shape {
            ArrivalPattern::Bursts(0)
            | ArrivalPattern::Ramp { rise_ns: 0, .. }
            | ArrivalPattern::OnOff { on_ns: 0, .. } => {
                return Err(PlanError::EmptyPattern);
            }
            ArrivalPattern::Ramp { from, .. } => {
                checked(from)?;
            }
            _ => {}
        }
        let rate = (rate * PARTS).round() as u128;
        let rng = Rng::fork(seed, PURPOSE);
        Ok(Self { offered, shape, rate, done: 0, frames: 0, rng, due_ns: 0, random_ns: 0.0 })
    }

    /// Continues with the next frame, after one of `frame_bytes` bytes.
    pub(super) fn advance(&mut self, frame_bytes: usize) {
        let work = match self.offered {
            OfferedRate::Unpaced => return,
            OfferedRate::Frames(_) => 1,
            OfferedRate::Bits { extra_bytes, .. } => (frame_bytes as u64 + u64::from(extra_bytes)) * 8,
        };
        self.done += work;
        self.frames += 1;
        self.due_ns = match self.shape {
            ArrivalPattern::Constant => self.even_ns(),
            ArrivalPattern::Bursts(frames) if self.frames.is_multiple_of(frames) => self.even_ns(),
            ArrivalPattern::Bursts(_) => self.due_ns,
            ArrivalPattern::OnOff { on_ns, off_ns } => {
                let even_ns = self.even_ns();
                even_ns.saturating_add((even_ns / on_ns).saturating_mul(off_ns))
            }
            ArrivalPattern::Poisson => {
                let mean_ns = work as f64 * PARTS / self.rate as f64 * SECOND_NS;
                // unit() is below 1, so the logarithm is finite.
                self.random_ns += -(1.0 - self.rng.unit()).ln() * mean_ns;
                self.random_ns as u64
            }
            ArrivalPattern::Ramp { from, rise_ns } => self.ramp_ns(from, rise_ns),
        };
    }

    /// Deadline of the next frame at a constant rate, ns.
    fn even_ns(&self) -> u64 {
        let scaled = u128::from(self.done) * (SECOND_NS * PARTS) as u128;
        u64::try_from(scaled / self.rate).unwrap_or(u64::MAX)
    }

    /// Deadline of the next frame in a ramp, ns: at time t of T from rate a to rate b, a t + (b - a) t² / 2T is done.
    fn ramp_ns(&self, from: f64, rise_ns: u64) -> u64 {
        let (done, to) = (self.done as f64, self.rate as f64 / PARTS);
        let rise = rise_ns as f64 / SECOND_NS;
        let risen = (from + to) / 2.0 * rise;
        let seconds = if done >= risen {
            rise + (done - risen) / to
        } else {
            // The root without cancellation, for any sign of the slope.
            let slope = (to - from) / rise;
            2.0 * done / (from + (from * from + 2.0 * slope * done).max(0.0).sqrt())
        };
        (seconds * SECOND_NS) as u64
    }
}

fn checked(rate: f64) -> Result<f64, PlanError> {
    if (1e-4..=1e15).contains(&rate) { Ok(rate) } else { Err(PlanError::OfferedRate(rate)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pace: OfferedRate, shape: ArrivalPattern, count: usize) -> Vec<u64> {
        let mut clock = ArrivalClock::new(pace, shape, 1).unwrap();
        (0..count)
            .map(|_| {
                let due_ns = clock.due_ns;
                clock.advance(100);
                due_ns
            })
            .collect()
    }

    #[test]
    fn a_constant_rate_does_not_drift() {
        let all = times(OfferedRate::Frames(3.0), ArrivalPattern::Constant, 3_000_001);
        assert_eq!((all[1], all[3_000_000]), (333_333_333, 1_000_000_000_000_000));
        let bits = OfferedRate::Bits { per_second: 8e6, extra_bytes: 4 };
        assert_eq!(times(bits, ArrivalPattern::Constant, 3), [0, 104_000, 208_000]);
        assert_eq!(times(OfferedRate::Unpaced, ArrivalPattern::Constant, 3), [0, 0, 0]);
    }

    #[test]
    fn bursts_come_together_at_the_mean_rate() {
        let all = times(OfferedRate::Frames(1000.0), ArrivalPattern::Bursts(4), 9);
        assert_eq!(all, [0, 0, 0, 0, 4_000_000, 4_000_000, 4_000_000, 4_000_000, 8_000_000]);
    }

    #[test]
    fn on_off_alternates() {
        let shape = ArrivalPattern::OnOff { on_ns: 2_000_000, off_ns: 10_000_000 };
        let all = times(OfferedRate::Frames(1000.0), shape, 5);
        assert_eq!(all, [0, 1_000_000, 12_000_000, 13_000_000, 24_000_000]);
    }

    #[test]
    fn ramps_rise_and_fall_and_continue() {
        for (from, to) in [(100.0, 900.0), (900.0, 100.0), (500.0, 500.0)] {
            let shape = ArrivalPattern::Ramp { from, rise_ns: 10_000_000_000 };
            let all = times(OfferedRate::Frames(to), shape, 6001);
            assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
            let within = |from_s: f64, to_s: f64| {
                let range = from_s * SECOND_NS..to_s * SECOND_NS;
                all.iter().filter(|due_ns| range.contains(&(**due_ns as f64))).count() as f64
            };
            assert!((within(0.0, 10.0) - 5000.0).abs() <= 1.0, "as many as at the mean rate");
            assert!((within(4.5, 5.5) - 500.0).abs() <= 1.0, "half-way");
            assert!((within(10.0, 11.0) - to).abs() <= 1.0, "and on");
        }
    }

    #[test]
    fn poisson_intervals_are_exponential() {
        let all = times(OfferedRate::Frames(1000.0), ArrivalPattern::Poisson, 100_001);
        let gaps: Vec<_> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        // Chi-square over ten classes that are equally likely.
        let mut seen = [0f64; 10];
        gaps.iter().for_each(|gap| seen[((1.0 - (-gap).exp()) * 10.0) as usize] += 1.0);
        let chi: f64 = seen.iter().map(|count| (count - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 33.7, "{chi}: beyond that with 9 degrees is one in 10,000");
    }

    #[test]
    fn impossible_patterns_are_rejected() {
        let refused = |pace, shape| ArrivalClock::new(pace, shape, 1).is_err();
        assert!(refused(OfferedRate::Unpaced, ArrivalPattern::Poisson));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert!(refused(OfferedRate::Frames(rate), ArrivalPattern::Constant), "{rate}");
            assert!(
                refused(OfferedRate::Frames(1.0), ArrivalPattern::Ramp { from: rate, rise_ns: 1 }),
                "{rate}"
            );
        }
        assert!(refused(OfferedRate::Frames(1.0), ArrivalPattern::Bursts(0)));
        assert!(refused(OfferedRate::Frames(1.0), ArrivalPattern::OnOff { on_ns: 0, off_ns: 1 }));
    }
}
