//! Deadlines of a stream's frames, phase by phase: each relative to the start of its phase, without drift.
//!
//! ```text
//!   phase 1, 2 s at 100/s │ phase 2, 1 s at 0/s │ phase 3, 5 frames at once
//!   begins at 0           │ 2 s                 │ 3 s
//! ```
//!
//! A late sender does not catch up with a burst: it sends frames that are late by at most [`LATE_NS`] or one interval,
//! whichever is longer. Later frames are omitted and counted in a phase of seconds, and postponed in a phase of frames.

use super::plan::{Length, Phase};
use quaff_send::Ratio;

/// Frames that are later than this and than an interval are too late, ns.
const LATE_NS: u64 = 100_000;
/// The last frames of a phase may be sent up to this long after its end, ns.
const GRACE_NS: u64 = 1_000_000;
const SECOND_NS: f64 = 1e9;

/// A time span: whole ns, and a fraction whose denominator is that of the phase's interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Span {
    ns: u64,
    numerator: u64,
}

/// The exact interval between the frames of a phase.
#[derive(Debug, Clone, Copy)]
struct Interval {
    span: Span,
    denominator: u64,
}

/// A phase, and values derived from it for all its frames.
#[derive(Debug, Clone, Copy)]
struct Pace {
    length: Length,
    /// Number of frames; 0 if it is not known in advance.
    frames: u64,
    /// Minimum duration as far as known.
    duration_ns: u64,
    is_paced: bool,
    /// `None` without a rate, and for a rate of 0.
    interval: Option<Interval>,
    /// The interval, approximately.
    interval_ns: f64,
    /// Offset of all deadlines.
    offset_ns: u64,
    /// The latest deadline, relative to the start of the phase.
    latest_ns: u64,
}

/// The next frame of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// CLOCK_MONOTONIC ns.
    pub(super) due_ns: u64,
    pub(super) phase: usize,
    /// True if the frame has a deadline of its own.
    pub(super) is_paced: bool,
}

/// A position in the schedule, to return to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    phase: usize,
    /// Start of the phase.
    begun_ns: u64,
    /// Frames of the phase that were taken or omitted.
    taken: u64,
    /// Deadline of the next frame at the rate of the phase, relative to the phase's start.
    next: Span,
    /// Number of entries in `left_out`.
    gaps: usize,
}

/// Consecutive omitted frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LeftOut {
    pub(super) phase: usize,
    pub(super) frames: u64,
    /// Deadline of the first frame, CLOCK_MONOTONIC ns.
    pub(super) due_ns: u64,
    pub(super) interval_ns: f64,
}

/// The phases of a stream.
#[derive(Debug)]
pub(super) struct Schedule {
    phases: Vec<Pace>,
    place: Place,
    /// Frames omitted since the sender last drained this list.
    pub(super) left_out: Vec<LeftOut>,
    /// Maximum lateness that omitted or postponed frames since the sender last took it, ns.
    pub(super) late_max_ns: u64,
}

impl Pace {
    fn new(phase: Phase, stagger: f64) -> Self {
        let interval_ns = phase.pps.map_or(0.0, |pps| SECOND_NS / pps);
        // A phase of seconds may be shorter than an interval, or end within one: its frames lie inside it.
        let length_ns = match phase.length {
            Length::Frames(_) => f64::INFINITY,
            Length::Seconds(seconds) => seconds * SECOND_NS,
        };
        Self {
            length: phase.length,
            frames: phase.frames().unwrap_or(0),
            duration_ns: (phase.seconds() * SECOND_NS).round() as u64,
            is_paced: phase.pps.is_some(),
            interval: phase.pps.and_then(Interval::of),
            interval_ns,
            offset_ns: (stagger * interval_ns.min(length_ns)) as u64,
            latest_ns: length_ns as u64,
        }
    }
}

impl Interval {
    /// The interval of a rate in frames/s; `None` for 0.
    fn of(pps: f64) -> Option<Self> {
        let Ratio { num: denominator, den } = Ratio::of(pps)?;
        // Both sides of a ratio are at most 10^18 and 10^9.
        let ns = den * 1_000_000_000;
        Some(Self { span: Span { ns: ns / denominator, numerator: ns % denominator }, denominator })
    }

    /// The time `frames` frames after `from`; nothing is rounded, so nothing drifts.
    #[inline]
    fn after(self, from: Span, frames: u64) -> Span {
        if frames == 1 {
            // Avoids a division per sent frame. Both numerators are below the denominator of at most 10^18.
            let numerator = from.numerator + self.span.numerator;
            let carry = numerator >= self.denominator;
            let ns = from.ns.saturating_add(self.span.ns + u64::from(carry));
            return Span { ns, numerator: if carry { numerator - self.denominator } else { numerator } };
        }
        let [frames, denominator] = [frames, self.denominator].map(u128::from);
        let numerator = frames * u128::from(self.span.numerator) + u128::from(from.numerator);
        let ns = u128::from(from.ns) + frames * u128::from(self.span.ns) + numerator / denominator;
        Span { ns: u64::try_from(ns).unwrap_or(u64::MAX), numerator: (numerator % denominator) as u64 }
    }
}

impl Schedule {
    /// Phases from `begin_ns` on, with frames offset by `stagger`, 0 to 1 interval, so that streams of equal rates do
    /// not collide.
    pub(super) fn new(phases: Vec<Phase>, stagger: f64, begin_ns: u64) -> Self {
        let place = Place { phase: 0, begun_ns: begin_ns, taken: 0, next: Span::default(), gaps: 0 };
        let phases = phases.into_iter().map(|phase| Pace::new(phase, stagger)).collect();
        Self { phases, place, left_out: Vec::new(), late_max_ns: 0 }
    }

    pub(super) fn place(&self) -> Place {
        Place { gaps: self.left_out.len(), ..self.place }
    }

    /// Returns to a place taken after the last draining of `left_out`.
    pub(super) fn go_back(&mut self, place: Place) {
        self.place = place;
        self.left_out.truncate(place.gaps);
    }

    /// Omits the rest of a phase of frames that has started; a phase of seconds ends by the clock.
    pub(super) fn abandon(&mut self, now_ns: u64) {
        let Place { phase, begun_ns, taken, .. } = self.place;
        if let Some(Pace { length: Length::Frames(frames), .. }) = self.phases.get(phase)
            && begun_ns <= now_ns
        {
            let rest = frames.saturating_sub(taken);
            self.skip(rest);
            self.left_out.push(LeftOut { phase, frames: rest, due_ns: now_ns, interval_ns: 0.0 });
        }
    }

    /// Takes the next `frames` frames.
    pub(super) fn skip(&mut self, frames: u64) {
        self.place.taken += frames;
        if let Some(Pace { interval: Some(interval), .. }) = self.phases.get(self.place.phase) {
            self.place.next = interval.after(self.place.next, frames);
        }
    }

    /// The next frame at the time `now_ns`; `None` after the last.
    #[inline]
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Due> {
        loop {
            let Place { phase: at, begun_ns, .. } = self.place;
            let pace = *self.phases.get(at)?;
            if let Some(due_ns) = self.due(&pace, now_ns) {
                return Some(Due { due_ns, phase: at, is_paced: pace.is_paced });
            }
            let begun_ns = match pace.length {
                Length::Frames(_) if !pace.is_paced => begun_ns.max(now_ns),
                _ => begun_ns.saturating_add(pace.duration_ns),
            };
            self.place = Place { phase: at + 1, begun_ns, taken: 0, next: Span::default(), ..self.place };
        }
    }

    /// Deadline of the next frame of the phase, if any.
    fn due(&mut self, pace: &Pace, now_ns: u64) -> Option<u64> {
        let Place { phase, begun_ns, taken, .. } = self.place;
        let Pace { length, duration_ns, interval_ns, .. } = *pace;
        if !pace.is_paced {
            let is_over = match length {
                Length::Seconds(_) => now_ns >= begun_ns.saturating_add(duration_ns),
                Length::Frames(frames) => taken >= frames,
            };
            return (!is_over).then_some(begun_ns.max(now_ns));
        }
        let left = pace.frames.saturating_sub(taken);
        if left == 0 {
            return None;
        }
        let due_ns = self.due_ns(pace);
        let late_ns = now_ns.saturating_sub(due_ns);
        let is_late = late_ns > LATE_NS && late_ns as f64 > interval_ns;
        if is_late {
            self.late_max_ns = self.late_max_ns.max(late_ns);
        }
        if let Length::Frames(_) = length {
            self.place.begun_ns += if is_late { late_ns } else { 0 };
            return Some(if is_late { now_ns } else { due_ns });
        }
        let is_over = now_ns > begun_ns.saturating_add(duration_ns).saturating_add(GRACE_NS);
        if !is_over && !is_late {
            return Some(due_ns);
        }
        let frames = if is_over { left } else { ((late_ns as f64 / interval_ns) as u64).min(left) };
        self.left_out.push(LeftOut { phase, frames, due_ns, interval_ns });
        self.skip(frames);
        (frames < left).then(|| self.due_ns(pace))
    }

    /// Deadline of the frame after those taken, in a phase with a rate.
    fn due_ns(&self, pace: &Pace) -> u64 {
        let Place { begun_ns, next, .. } = self.place;
        begun_ns.saturating_add(next.ns.saturating_add(pace.offset_ns).min(pace.latest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaff_send::Rate;

    const BEGIN_NS: u64 = 5_000_000_000;

    fn phase(length: Length, pps: Option<f64>) -> Phase {
        Phase { length, pps }
    }

    /// Takes all frames with a clock that advances only by waiting: (phase, ns after the start).
    fn all(schedule: &mut Schedule, mut now_ns: u64) -> Vec<(usize, u64)> {
        let mut taken = Vec::new();
        while let Some(due) = schedule.next(now_ns) {
            now_ns = now_ns.max(due.due_ns);
            taken.push((due.phase, due.due_ns - BEGIN_NS));
            schedule.skip(1);
            assert!(taken.len() < 1_000_000, "it is endless");
        }
        taken
    }

    proptest! {
        #[test]
        fn deadlines_are_those_of_exact_arithmetic(
            digits in 1.0..1e9f64,
            below in 0..15,
            stagger in 0.0..1.0f64,
            skips in prop::collection::vec(prop_oneof![4 => Just(1u64), 1 => 0..1_000_000u64, 1 => Just(1 << 50)], 1..200),
        ) {
            let pps = (digits / 10f64.powi(below)).max(1e-6);
            let rate = Rate::Frames(Ratio::of(pps).unwrap());
            let mut schedule = Schedule::new(vec![phase(Length::Frames(u64::MAX), Some(pps))], stagger, BEGIN_NS);
            let offset_ns = (stagger * (SECOND_NS / pps)) as u64;
            let mut taken = 0;
            for frames in skips {
                schedule.skip(frames);
                taken += frames;
                let exact_ns = rate.due_ns(taken.into());
                let due_ns = schedule.next(0).unwrap().due_ns;
                prop_assert_eq!(due_ns, BEGIN_NS.saturating_add(exact_ns.saturating_add(offset_ns)), "frame {}", taken);
            }
        }
    }

    #[test]
    fn phases_follow_each_other_to_the_ns() {
        let phases = vec![
            phase(Length::Seconds(1.0), Some(4.0)),
            phase(Length::Seconds(0.5), Some(0.0)),
            phase(Length::Frames(3), Some(10.0)),
            phase(Length::Frames(2), None),
            phase(Length::Seconds(1.0), Some(1.0)),
            phase(Length::Seconds(9.0), Some(0.0)),
        ];
        let ms = 1_000_000;
        let expected = [
            (0, 0),
            (0, 250 * ms),
            (0, 500 * ms),
            (0, 750 * ms),
            (2, 1500 * ms),
            (2, 1600 * ms),
            (2, 1700 * ms),
            (3, 1800 * ms),
            (3, 1800 * ms),
            (4, 1800 * ms),
        ];
        assert_eq!(all(&mut Schedule::new(phases.clone(), 0.0, BEGIN_NS), BEGIN_NS), expected);
        let staggered = all(&mut Schedule::new(phases, 0.5, BEGIN_NS), BEGIN_NS);
        assert_eq!(staggered[..2], [(0, 125 * ms), (0, 375 * ms)]);
        assert_eq!(staggered[4], (2, 1550 * ms));
        assert_eq!(staggered.len(), expected.len());
    }

    #[test]
    fn long_streams_do_not_drift() {
        let mut schedule = Schedule::new(vec![phase(Length::Seconds(1e6), Some(3.0))], 0.0, BEGIN_NS);
        schedule.skip(2_999_999);
        let due_ns = schedule.next(BEGIN_NS).unwrap().due_ns;
        assert!(due_ns.abs_diff(BEGIN_NS + 999_999_666_666_667) <= 1, "{due_ns}");
    }

    #[test]
    fn late_frames_are_left_out_or_postponed() {
        let second = |length| {
            let mut schedule = Schedule::new(vec![phase(length, Some(1000.0))], 0.0, BEGIN_NS);
            schedule.skip(1);
            let all = all(&mut schedule, BEGIN_NS + 100_500_000);
            assert_eq!(schedule.late_max_ns, 99_500_000);
            (all, schedule.left_out)
        };
        // Frame 1 is due at 1 ms, and the time is 100.5 ms: frame 100 is the latest due one.
        let (sent, left_out) = second(Length::Seconds(0.2));
        assert_eq!((sent[0], sent.len()), ((0, 100_000_000), 100));
        assert_eq!(sent[99], (0, 199_000_000));
        let expected = LeftOut { phase: 0, frames: 99, due_ns: BEGIN_NS + 1_000_000, interval_ns: 1e6 };
        assert_eq!(left_out, [expected]);
        let (later, left_out) = second(Length::Frames(200));
        assert_eq!((later[0], later.len()), ((0, 100_500_000), 199));
        assert_eq!((later[198], left_out.len()), ((0, 298_500_000), 0));
    }

    #[test]
    fn a_short_delay_is_caught_up() {
        let first = |pps, late_ns| {
            let mut schedule = Schedule::new(vec![phase(Length::Seconds(1.0), Some(pps))], 0.0, BEGIN_NS);
            schedule.skip(1);
            let due_ns = schedule.next(BEGIN_NS + late_ns).unwrap().due_ns;
            (due_ns - BEGIN_NS, schedule.left_out.iter().map(|gap| gap.frames).sum::<u64>())
        };
        assert_eq!(first(100_000.0, 110_000), (10_000, 0), "a tenth of a ms");
        assert_eq!(first(100_000.0, 120_000), (120_000, 11), "more");
        assert_eq!(first(10.0, 199_000_000), (100_000_000, 0), "an interval");
        assert_eq!(first(10.0, 301_000_000), (300_000_000, 2), "more");
    }

    #[test]
    fn frames_not_sent_by_the_end_of_a_phase_are_left_out() {
        let phases = vec![phase(Length::Seconds(1.0), Some(100.0)), phase(Length::Seconds(1.0), Some(0.5))];
        let mut schedule = Schedule::new(phases, 0.0, BEGIN_NS);
        let frames = all(&mut schedule, BEGIN_NS + 1_500_000_000);
        assert_eq!(frames, [(1, 1_000_000_000)], "that of the second phase is still within an interval");
        let expected = LeftOut { phase: 0, frames: 100, due_ns: BEGIN_NS, interval_ns: 1e7 };
        assert_eq!(schedule.left_out, [expected]);
    }

    #[test]
    fn a_phase_shorter_than_an_interval_has_its_frame_within() {
        let phases = vec![phase(Length::Seconds(10.0), Some(0.001))];
        assert_eq!(all(&mut Schedule::new(phases, 0.5, BEGIN_NS), BEGIN_NS), [(0, 5_000_000_000)]);
        let phases = vec![phase(Length::Seconds(2.6), Some(1.0)), phase(Length::Frames(1), None)];
        let frames = all(&mut Schedule::new(phases, 0.9, BEGIN_NS), BEGIN_NS);
        assert_eq!(frames[1..], [(0, 1_900_000_000), (0, 2_600_000_000), (1, 2_600_000_000)]);
    }

    #[test]
    fn a_phase_of_frames_can_be_abandoned() {
        for pps in [None, Some(10.0)] {
            let phases = vec![phase(Length::Frames(100), pps), phase(Length::Seconds(1.0), Some(1.0))];
            let mut schedule = Schedule::new(phases, 0.0, BEGIN_NS);
            schedule.next(BEGIN_NS).unwrap();
            schedule.skip(1);
            let place = schedule.place();
            schedule.abandon(BEGIN_NS + 5);
            assert_eq!(schedule.left_out.iter().map(|gap| gap.frames).sum::<u64>(), 99, "{pps:?}");
            assert_eq!(schedule.next(BEGIN_NS + 5).unwrap().phase, 1);
            schedule.abandon(BEGIN_NS + 5);
            assert_eq!(schedule.left_out.len(), 1, "a phase that has not begun, or ends by the clock, stays");
            schedule.go_back(place);
            assert_eq!((schedule.left_out.len(), schedule.next(BEGIN_NS).unwrap().phase), (0, 0));
        }
    }

    #[test]
    fn without_a_rate_a_frame_is_due_until_the_phase_is_over() {
        let mut schedule = Schedule::new(vec![phase(Length::Seconds(1.0), None)], 0.7, BEGIN_NS);
        let due = |schedule: &mut Schedule, now_ns| schedule.next(now_ns).map(|due| due.due_ns);
        assert_eq!(due(&mut schedule, BEGIN_NS - 5), Some(BEGIN_NS));
        assert_eq!(due(&mut schedule, BEGIN_NS + 999_999_999), Some(BEGIN_NS + 999_999_999));
        assert_eq!(due(&mut schedule, BEGIN_NS + 1_000_000_000), None);
    }

    #[test]
    fn going_back_crosses_phases() {
        let phases = vec![phase(Length::Frames(1), None), phase(Length::Frames(1), None)];
        let mut schedule = Schedule::new(phases, 0.0, BEGIN_NS);
        let place = schedule.place();
        let expected = all(&mut schedule, BEGIN_NS);
        schedule.go_back(place);
        assert_eq!(all(&mut schedule, BEGIN_NS), expected);
    }
}
