//! When the frames of a stream are due: each phase from its own beginning, in one multiplication, without drift.
//!
//! ```text
//!   phase 1, 2 s at 100/s │ phase 2, 1 s at 0/s │ phase 3, 5 frames at once
//!   begins at 0           │ 2 s                 │ 3 s
//! ```
//!
//! Who was held up does not make up for it by a burst that nobody asked for: at most [`LATE_NS`] or one interval is
//! caught up with, whichever is longer. What a phase of so many seconds had due before that is left out, and told; a
//! phase of so many frames goes on later.

use super::plan::{Length, Phase};

/// Frames that are later than this, and than an interval, are too late, ns.
const LATE_NS: u64 = 100_000;
/// So long after its end a phase's last frames may still leave, ns.
const GRACE_NS: u64 = 1_000_000;
const SECOND_NS: f64 = 1e9;

/// The next frame of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// When, CLOCK_MONOTONIC ns.
    pub(super) due_ns: u64,
    /// In which phase.
    pub(super) phase: usize,
    /// It has a time of its own, by which one can be late.
    pub(super) is_paced: bool,
}

/// Where a stream is in its phases. Small, so that one can go back to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    phase: usize,
    /// When the phase began or is to begin.
    begun_ns: u64,
    /// Frames of the phase that were taken, or left out.
    taken: u64,
    /// So often frames had been left out.
    gaps: usize,
}

/// Frames that are left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LeftOut {
    /// The phase that they were due in.
    pub(super) phase: usize,
    /// How many.
    pub(super) frames: u64,
    /// When the first of them was due, CLOCK_MONOTONIC ns.
    pub(super) due_ns: u64,
    /// And how far they are apart.
    pub(super) interval_ns: f64,
}

/// The phases of a stream.
#[derive(Debug)]
pub(super) struct Schedule {
    phases: Vec<Phase>,
    /// By how much of an interval its frames are behind the beginning: streams of equal rates do not collide.
    stagger: f64,
    place: Place,
    left_out: Vec<LeftOut>,
    /// The longest that a frame was too late, ns.
    late_max_ns: u64,
}

impl Schedule {
    /// Phases that begin at `begin_ns`; `stagger` is 0 to 1.
    pub(super) fn new(phases: Vec<Phase>, stagger: f64, begin_ns: u64) -> Self {
        let place = Place { phase: 0, begun_ns: begin_ns, taken: 0, gaps: 0 };
        Self { phases, stagger, place, left_out: Vec::new(), late_max_ns: 0 }
    }

    /// Where it is now.
    pub(super) fn place(&self) -> Place {
        Place { gaps: self.left_out.len(), ..self.place }
    }

    /// Goes back to where it was since [`Self::left_out`] was last asked.
    pub(super) fn go_back(&mut self, place: Place) {
        self.place = place;
        self.left_out.truncate(place.gaps);
    }

    /// The longest that a frame was too late, so that it was left out or all went on later, since this was last asked, ns.
    pub(super) fn late_max_ns(&mut self) -> u64 {
        std::mem::take(&mut self.late_max_ns)
    }

    /// What was left out since this was last asked.
    pub(super) fn left_out(&mut self) -> std::vec::Drain<'_, LeftOut> {
        self.left_out.drain(..)
    }

    /// Leaves out the rest of a phase that has begun and would not end by the clock.
    pub(super) fn give_up(&mut self, now_ns: u64) {
        let Place { phase: at, begun_ns, taken, .. } = self.place;
        if let Some(Phase { length: Length::Frames(frames), .. }) = self.phases.get(at)
            && begun_ns <= now_ns
        {
            let rest = frames.saturating_sub(taken);
            self.place.taken += rest;
            self.left_out.push(LeftOut { phase: at, frames: rest, due_ns: now_ns, interval_ns: 0.0 });
        }
    }

    /// The next frame was taken.
    pub(super) fn take(&mut self) {
        self.place.taken += 1;
    }

    /// When the next frame is due, for whoever looks at `now_ns`; `None` when there are no more.
    #[inline]
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Due> {
        loop {
            let phase = *self.phases.get(self.place.phase)?;
            if let Some(due_ns) = self.due(&phase, now_ns) {
                return Some(Due { due_ns, phase: self.place.phase, is_paced: phase.pps.is_some() });
            }
            self.advance(&phase, now_ns);
        }
    }

    /// When the next frame of the phase is due, if there is one.
    fn due(&mut self, phase: &Phase, now_ns: u64) -> Option<u64> {
        let begun_ns = self.place.begun_ns;
        let Some(pps) = phase.pps else {
            let is_over = match phase.length {
                Length::Seconds(seconds) => now_ns >= begun_ns.saturating_add(ns(seconds)),
                Length::Frames(frames) => self.place.taken >= frames,
            };
            return (!is_over).then_some(begun_ns.max(now_ns));
        };
        let left = phase.frames().unwrap_or(0).saturating_sub(self.place.taken);
        if left == 0 {
            return None;
        }
        let interval_ns = SECOND_NS / pps;
        let due_ns = self.due_ns(phase, interval_ns);
        let late_ns = now_ns.saturating_sub(due_ns);
        let is_late = late_ns > LATE_NS && late_ns as f64 > interval_ns;
        if is_late {
            self.late_max_ns = self.late_max_ns.max(late_ns);
        }
        let Length::Seconds(seconds) = phase.length else {
            self.place.begun_ns += if is_late { late_ns } else { 0 };
            return Some(if is_late { now_ns } else { due_ns });
        };
        let is_over = now_ns > begun_ns.saturating_add(ns(seconds)).saturating_add(GRACE_NS);
        let too_late = if is_over { left } else { ((late_ns as f64 / interval_ns) as u64).min(left) };
        if !is_over && !is_late {
            return Some(due_ns);
        }
        self.left_out.push(LeftOut { phase: self.place.phase, frames: too_late, due_ns, interval_ns });
        self.place.taken += too_late;
        (too_late < left).then(|| self.due_ns(phase, interval_ns))
    }

    /// When the frame behind those taken is due, of a phase with a pace.
    fn due_ns(&self, phase: &Phase, interval_ns: f64) -> u64 {
        let place_ns = |within_ns: f64| self.place.taken as f64 * interval_ns + self.stagger * within_ns;
        let after_ns = match phase.length {
            Length::Frames(_) => place_ns(interval_ns),
            // A phase may be shorter than an interval, or have a part of one at its end: its frames are within it.
            Length::Seconds(seconds) => {
                place_ns(interval_ns.min(seconds * SECOND_NS)).min(seconds * SECOND_NS)
            }
        };
        self.place.begun_ns.saturating_add(after_ns as u64)
    }

    fn advance(&mut self, phase: &Phase, now_ns: u64) {
        let Place { phase: at, begun_ns, .. } = self.place;
        let begun_ns = match (phase.length, phase.pps) {
            (Length::Seconds(seconds), _) => begun_ns.saturating_add(ns(seconds)),
            (Length::Frames(frames), Some(pps)) => begun_ns.saturating_add(ns(frames as f64 / pps)),
            (Length::Frames(_), None) => begun_ns.max(now_ns),
        };
        self.place = Place { phase: at + 1, begun_ns, taken: 0, ..self.place };
    }
}

fn ns(seconds: f64) -> u64 {
    (seconds * SECOND_NS).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN_NS: u64 = 5_000_000_000;

    fn phase(length: Length, pps: Option<f64>) -> Phase {
        Phase { length, pps }
    }

    /// Takes what is due, by a clock that stands still but for waiting: (phase, ns after the beginning).
    fn all(timetable: &mut Schedule, mut now_ns: u64) -> Vec<(usize, u64)> {
        let mut taken = Vec::new();
        while let Some(due) = timetable.next(now_ns) {
            now_ns = now_ns.max(due.due_ns);
            taken.push((due.phase, due.due_ns - BEGIN_NS));
            timetable.take();
            assert!(taken.len() < 1_000_000, "it goes on for ever");
        }
        taken
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
        let mut timetable = Schedule::new(vec![phase(Length::Seconds(1e6), Some(3.0))], 0.0, BEGIN_NS);
        timetable.place.taken = 2_999_999;
        let due_ns = timetable.next(BEGIN_NS).unwrap().due_ns;
        assert!(due_ns.abs_diff(BEGIN_NS + 999_999_666_666_667) <= 1, "{due_ns}");
    }

    #[test]
    fn who_is_late_leaves_out_or_goes_on_later() {
        let second = |length| {
            let mut timetable = Schedule::new(vec![phase(length, Some(1000.0))], 0.0, BEGIN_NS);
            timetable.take();
            let all = all(&mut timetable, BEGIN_NS + 100_500_000);
            assert_eq!((timetable.late_max_ns(), timetable.late_max_ns()), (99_500_000, 0));
            (all, timetable.left_out().collect::<Vec<_>>())
        };
        // Frame 1 was due at 1 ms, and it is 100.5: frame 100 is the latest one that is due.
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
    fn a_little_is_caught_up_with() {
        let first = |pps, late_ns| {
            let mut timetable = Schedule::new(vec![phase(Length::Seconds(1.0), Some(pps))], 0.0, BEGIN_NS);
            timetable.take();
            let due_ns = timetable.next(BEGIN_NS + late_ns).unwrap().due_ns;
            (due_ns - BEGIN_NS, timetable.left_out().map(|gap| gap.frames).sum::<u64>())
        };
        assert_eq!(first(100_000.0, 110_000), (10_000, 0), "a tenth of a ms");
        assert_eq!(first(100_000.0, 120_000), (120_000, 11), "more");
        assert_eq!(first(10.0, 199_000_000), (100_000_000, 0), "an interval");
        assert_eq!(first(10.0, 301_000_000), (300_000_000, 2), "more");
    }

    #[test]
    fn what_is_not_sent_by_the_end_of_a_phase_is_left_out() {
        let phases = vec![phase(Length::Seconds(1.0), Some(100.0)), phase(Length::Seconds(1.0), Some(0.5))];
        let mut timetable = Schedule::new(phases, 0.0, BEGIN_NS);
        let frames = all(&mut timetable, BEGIN_NS + 1_500_000_000);
        assert_eq!(frames, [(1, 1_000_000_000)], "that of the second phase is still within an interval");
        let expected = LeftOut { phase: 0, frames: 100, due_ns: BEGIN_NS, interval_ns: 1e7 };
        assert_eq!(timetable.left_out().collect::<Vec<_>>(), [expected]);
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
    fn a_phase_of_frames_can_be_given_up() {
        for pps in [None, Some(10.0)] {
            let phases = vec![phase(Length::Frames(100), pps), phase(Length::Seconds(1.0), Some(1.0))];
            let mut timetable = Schedule::new(phases, 0.0, BEGIN_NS);
            timetable.next(BEGIN_NS).unwrap();
            timetable.take();
            let place = timetable.place();
            timetable.give_up(BEGIN_NS + 5);
            assert_eq!(timetable.left_out.iter().map(|gap| gap.frames).sum::<u64>(), 99, "{pps:?}");
            assert_eq!(timetable.next(BEGIN_NS + 5).unwrap().phase, 1);
            timetable.give_up(BEGIN_NS + 5);
            assert_eq!(
                timetable.left_out.len(),
                1,
                "what has not begun, or ends by the clock, is left alone"
            );
            timetable.go_back(place);
            assert_eq!((timetable.left_out.len(), timetable.next(BEGIN_NS).unwrap().phase), (0, 0));
        }
    }

    #[test]
    fn without_a_pace_a_frame_is_always_due_until_the_time_is_over() {
        let mut timetable = Schedule::new(vec![phase(Length::Seconds(1.0), None)], 0.7, BEGIN_NS);
        let due = |timetable: &mut Schedule, now_ns| timetable.next(now_ns).map(|due| due.due_ns);
        assert_eq!(due(&mut timetable, BEGIN_NS - 5), Some(BEGIN_NS));
        assert_eq!(due(&mut timetable, BEGIN_NS + 999_999_999), Some(BEGIN_NS + 999_999_999));
        assert_eq!(due(&mut timetable, BEGIN_NS + 1_000_000_000), None);
    }

    #[test]
    fn one_can_go_back_across_phases() {
        let phases = vec![phase(Length::Frames(1), None), phase(Length::Frames(1), None)];
        let mut timetable = Schedule::new(phases, 0.0, BEGIN_NS);
        let place = timetable.place();
        let all_of_it = all(&mut timetable, BEGIN_NS);
        timetable.go_back(place);
        assert_eq!(all(&mut timetable, BEGIN_NS), all_of_it);
    }
}
