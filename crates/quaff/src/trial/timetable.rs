//! When the frames of a stream are due: each phase from its own beginning, in one multiplication, without drift.
//!
//! ```text
//!   phase 1, 2 s at 100/s │ phase 2, 1 s at 0/s │ phase 3, 5 frames at once
//!   begins at 0           │ 2 s                 │ 3 s
//! ```
//!
//! Who was held up does not make up for it by a burst that nobody asked for: at most [`LATE_NS`] is caught up with. What
//! a phase of so many seconds had due before that is left out; a phase of so many frames goes on later.

use super::plan::{Length, Phase};

/// Frames that are later than this are late, ns.
pub(super) const LATE_NS: u64 = 1_000_000;
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
}

/// The phases of a stream.
#[derive(Debug)]
pub(super) struct Timetable {
    phases: Vec<Phase>,
    /// By how much of an interval its frames are behind the beginning: streams of equal rates do not collide.
    stagger: f64,
    place: Place,
}

impl Timetable {
    /// Phases that begin at `begin_ns`; `stagger` is 0 to 1.
    pub(super) fn new(phases: Vec<Phase>, stagger: f64, begin_ns: u64) -> Self {
        Self { phases, stagger, place: Place { phase: 0, begun_ns: begin_ns, taken: 0 } }
    }

    /// Where it is now.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Goes back to where it was.
    pub(super) fn go_back(&mut self, place: Place) {
        self.place = place;
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
        let Place { begun_ns, taken, .. } = self.place;
        let is_over = match phase.length {
            Length::Seconds(seconds) if phase.pps.is_none() => now_ns >= begun_ns + ns(seconds),
            _ => phase.frames().is_some_and(|frames| taken >= frames),
        };
        if is_over {
            return None;
        }
        let Some(pps) = phase.pps else { return Some(begun_ns.max(now_ns)) };
        let interval_ns = SECOND_NS / pps;
        let due_ns = begun_ns + ((taken as f64 + self.stagger) * interval_ns) as u64;
        let late_ns = now_ns.saturating_sub(due_ns);
        if late_ns <= LATE_NS {
            return Some(due_ns);
        }
        match phase.length {
            Length::Frames(_) => self.place.begun_ns += late_ns,
            // A phase that lasts still has its first frame: one that is sent once a day is not left out for a hiccup.
            Length::Seconds(seconds) if taken == 0 && now_ns < begun_ns + ns(seconds) => return Some(due_ns),
            Length::Seconds(_) => self.place.taken += (late_ns as f64 / interval_ns).ceil() as u64,
        }
        self.due(phase, now_ns)
    }

    fn advance(&mut self, phase: &Phase, now_ns: u64) {
        let Place { phase: at, begun_ns, .. } = self.place;
        let begun_ns = match (phase.length, phase.pps) {
            (Length::Seconds(seconds), _) => begun_ns + ns(seconds),
            (Length::Frames(frames), Some(pps)) => begun_ns + ns(frames as f64 / pps),
            (Length::Frames(_), None) => begun_ns.max(now_ns),
        };
        self.place = Place { phase: at + 1, begun_ns, taken: 0 };
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
    fn all(timetable: &mut Timetable, mut now_ns: u64) -> Vec<(usize, u64)> {
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
        assert_eq!(all(&mut Timetable::new(phases.clone(), 0.0, BEGIN_NS), BEGIN_NS), expected);
        let staggered = all(&mut Timetable::new(phases, 0.5, BEGIN_NS), BEGIN_NS);
        assert_eq!(staggered[..2], [(0, 125 * ms), (0, 375 * ms)]);
        assert_eq!(staggered[4], (2, 1550 * ms));
        assert_eq!(staggered.len(), expected.len());
    }

    #[test]
    fn long_streams_do_not_drift() {
        let mut timetable = Timetable::new(vec![phase(Length::Seconds(1e6), Some(3.0))], 0.0, BEGIN_NS);
        timetable.place.taken = 2_999_999;
        let due_ns = timetable.next(BEGIN_NS).unwrap().due_ns;
        assert!(due_ns.abs_diff(BEGIN_NS + 999_999_666_666_667) <= 1, "{due_ns}");
    }

    #[test]
    fn who_is_late_leaves_out_or_goes_on_later() {
        let second = |length| {
            let mut timetable = Timetable::new(vec![phase(length, Some(1000.0))], 0.0, BEGIN_NS);
            timetable.take();
            all(&mut timetable, BEGIN_NS + 100_500_000)
        };
        // Frame 1 was due at 1 ms, and it is 100.5: the next one in time is 101.
        let left_out = second(Length::Seconds(0.2));
        assert_eq!((left_out[0], left_out.len()), ((0, 101_000_000), 99));
        assert_eq!(left_out[98], (0, 199_000_000));
        let later = second(Length::Frames(200));
        assert_eq!((later[0], later.len()), ((0, 100_500_000), 199));
        assert_eq!(later[198], (0, 298_500_000));
    }

    #[test]
    fn a_little_is_caught_up_with() {
        let mut timetable = Timetable::new(vec![phase(Length::Seconds(1.0), Some(10_000.0))], 0.0, BEGIN_NS);
        timetable.take();
        let frames = all(&mut timetable, BEGIN_NS + 1_000_000);
        assert_eq!((frames[0], frames.len()), ((0, 100_000), 9999));
    }

    #[test]
    fn a_phase_that_lasts_still_has_its_first_frame() {
        let phases = vec![phase(Length::Seconds(1.0), Some(100.0)), phase(Length::Seconds(1.0), Some(1.0))];
        let frames = all(&mut Timetable::new(phases, 0.0, BEGIN_NS), BEGIN_NS + 1_500_000_000);
        assert_eq!(frames, [(1, 1_000_000_000)]);
    }

    #[test]
    fn without_a_pace_a_frame_is_always_due_until_the_time_is_over() {
        let mut timetable = Timetable::new(vec![phase(Length::Seconds(1.0), None)], 0.7, BEGIN_NS);
        let due = |timetable: &mut Timetable, now_ns| timetable.next(now_ns).map(|due| due.due_ns);
        assert_eq!(due(&mut timetable, BEGIN_NS - 5), Some(BEGIN_NS));
        assert_eq!(due(&mut timetable, BEGIN_NS + 999_999_999), Some(BEGIN_NS + 999_999_999));
        assert_eq!(due(&mut timetable, BEGIN_NS + 1_000_000_000), None);
    }

    #[test]
    fn one_can_go_back_across_phases() {
        let phases = vec![phase(Length::Frames(1), None), phase(Length::Frames(1), None)];
        let mut timetable = Timetable::new(phases, 0.0, BEGIN_NS);
        let place = timetable.place();
        let all_of_it = all(&mut timetable, BEGIN_NS);
        timetable.go_back(place);
        assert_eq!(all(&mut timetable, BEGIN_NS), all_of_it);
    }
}
