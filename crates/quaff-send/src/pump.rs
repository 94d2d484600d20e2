//! The loop that sends frames of arenas from user space, each when it is due, through one or two interfaces.
//!
//! One thread serves both interfaces, so frames keep their order across them. Only due frames share a call. It never
//! reads files.

use crate::arena::{Arena, FrameMeta};
use crate::pacer::wait_until;
use crate::schedule::{LATE_NS, LatePolicy, Schedule};
use crate::state::{State, word};
use crate::transmitter::{Next, Obstacle, Outlet, Transmitter, TxCall};
use quaff_os::Error;
use quaff_os::clock::steady_ns;
use std::ops::Range;
use std::time::Duration;

/// Maximum number of frames offered in one call. A backend may accept fewer.
const BATCH_FRAMES: usize = 256;

/// Interval at which a paused run looks whether it continues.
const LOOK: Duration = Duration::from_millis(1);

/// The deadlines of a run, CLOCK_MONOTONIC.
#[derive(Default)]
struct Deadlines {
    /// Deadline of the first frame plus all shifts since then, ns; 0 before the first frame.
    anchor_ns: u64,
    /// Deadline of the next frame, ns after the anchor, if already computed.
    next_ns: Option<u64>,
}

impl Deadlines {
    /// Deadline of the next frame, which is at index `at`.
    fn next(&mut self, arena: &Arena, at: usize, schedule: &mut Schedule) -> u64 {
        let after_ns = *self.next_ns.get_or_insert_with(|| {
            let (frame, meta) = arena.frame(at);
            schedule.due(frame.len(), &meta).ns
        });
        self.anchor_ns.saturating_add(after_ns)
    }

    /// Continues with the following frame.
    fn advance(&mut self) {
        self.next_ns = None;
    }
}

/// Sends frames through one or two interfaces.
pub(crate) struct Pump {
    outs: Vec<Transmitter>,
    is_paced: bool,
    late: LatePolicy,
    stop_after_ns: Option<u64>,
    deadlines: Deadlines,
    /// The sender's copy of the word of the pauses.
    pause: u64,
    /// Deadlines of the frames of a call, ns.
    due_ns: [u64; BATCH_FRAMES],
}

impl Pump {
    /// Sends frames that are due within `duration` of the first; `FrameMeta.out` selects the interface.
    pub(crate) fn new(
        outs: Vec<Transmitter>,
        is_paced: bool,
        late: LatePolicy,
        duration: Option<Duration>,
    ) -> Self {
        Self {
            outs,
            is_paced,
            late,
            stop_after_ns: duration.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            deadlines: Deadlines::default(),
            pause: 0,
            due_ns: [0; BATCH_FRAMES],
        }
    }

    /// Sends the frames of one arena from `from` on. Returns the index of the first frame that was not handled: less
    /// than the length at the end of the run or after a stop. Fails with errors that do not concern a single frame,
    /// such as ENETDOWN and ENXIO.
    pub(crate) fn send(
        &mut self,
        arena: &Arena,
        from: usize,
        schedule: &mut Schedule,
        state: &State,
    ) -> Result<usize, Error> {
        if self.deadlines.anchor_ns == 0 {
            self.deadlines.anchor_ns = steady_ns();
            state.store(word::FIRST_NS, self.deadlines.anchor_ns);
        }
        let mut at = from;
        while at < arena.len() && state.left().is_some() {
            let Some(paused_ns) = state.paused_ns(&mut self.pause) else {
                std::thread::sleep(LOOK);
                continue;
            };
            self.deadlines.anchor_ns += paused_ns;
            if self.is_paced {
                self.due_ns[0] = self.deadlines.next(arena, at, schedule);
                let is_paused = || state.load(word::PAUSE) != self.pause;
                if self.is_over(self.due_ns[0], state)
                    || !wait_until(self.due_ns[0], || state.left().is_none() || is_paused())
                {
                    // At the end of the run none are left.
                    continue;
                }
                let is_too_late = self.is_too_late(self.due_ns[0], state);
                self.deadlines.advance();
                if is_too_late {
                    at += 1;
                    continue;
                }
            }
            let end = self.take_due(arena, at, schedule, state);
            at = self.send_range(arena, at..end, state)?;
        }
        Ok(at)
    }

    /// Waits until the accepted frames have been sent. Returns the totals of each interface.
    pub(crate) fn finish(&mut self, state: &State) -> Result<Vec<Outlet>, Error> {
        let outlets: Vec<_> = self.outs.iter_mut().map(Transmitter::finish).collect::<Result<_, _>>()?;
        // Until now these counted as sent.
        let late = outlets.iter().map(|outlet| outlet.backend.refused + outlet.backend.pending).sum();
        state.add(word::FAILED, late);
        state.store(word::BYTES, outlets.iter().map(|outlet| outlet.bytes).sum());
        Ok(outlets)
    }

    /// Returns `true`, and ends the run, if `due_ns` is after its end.
    fn is_over(&self, due_ns: u64, state: &State) -> bool {
        let is_over = self.is_past_end(due_ns, state);
        if is_over {
            state.store(word::LIMIT, 0);
        }
        is_over
    }

    fn is_past_end(&self, due_ns: u64, state: &State) -> bool {
        self.end_ns(state).is_some_and(|end_ns| due_ns >= end_ns)
    }

    /// End of the run, ns: frames that are due from then on are not sent.
    fn end_ns(&self, state: &State) -> Option<u64> {
        self.stop_after_ns.map(|after_ns| state.load(word::FIRST_NS).saturating_add(after_ns))
    }

    /// Applies the policy for a late frame. Returns `true` if the frame is dropped.
    fn is_too_late(&mut self, due_ns: u64, state: &State) -> bool {
        let late_ns = steady_ns().saturating_sub(due_ns);
        if late_ns <= LATE_NS {
            return false;
        }
        match self.late {
            LatePolicy::Burst => {}
            LatePolicy::Shift => {
                self.deadlines.anchor_ns += late_ns;
                state.add(word::SHIFTED_NS, late_ns);
            }
            LatePolicy::Drop => {
                state.add(word::LATE_DROPPED, 1);
                state.add(word::SENT, 1);
                state.count_lateness(late_ns);
            }
        }
        self.late == LatePolicy::Drop
    }

    /// Collects the deadlines of the frames after `start` that are also due and leave through the same interface.
    /// Returns the end of these frames.
    fn take_due(&mut self, arena: &Arena, start: usize, schedule: &mut Schedule, state: &State) -> usize {
        let left = state.left().unwrap_or(0).min(BATCH_FRAMES as u64) as usize;
        let most = arena.len().min(start + left);
        let out = self.out_of(arena.frame(start).1);
        let now_ns = steady_ns();
        let mut end = start + 1;
        while end < most && self.out_of(arena.frame(end).1) == out {
            if self.is_paced {
                let due_ns = self.deadlines.next(arena, end, schedule);
                // A frame to which the policy applies starts a call of its own.
                let is_too_late = self.late != LatePolicy::Burst && now_ns.saturating_sub(due_ns) > LATE_NS;
                if due_ns > now_ns || is_too_late || self.is_past_end(due_ns, state) {
                    break;
                }
                self.due_ns[end - start] = due_ns;
                self.deadlines.advance();
            }
            end += 1;
        }
        end
    }

    /// Sends frames through one interface. Returns the end of the frames sent or skipped.
    fn send_range(&mut self, arena: &Arena, range: Range<usize>, state: &State) -> Result<usize, Error> {
        let start = range.start;
        let out = self.out_of(arena.frame(start).1);
        let due_ns = if self.is_paced { &self.due_ns[..range.len()] } else { &[] };
        let end_ns = if self.is_paced { None } else { self.end_ns(state) };
        let mut call = ArenaCall { arena, range, due_ns, end_ns, state };
        Ok(start + self.outs[out].send(&mut call)?)
    }

    fn out_of(&self, meta: FrameMeta) -> usize {
        usize::from(meta.out).min(self.outs.len() - 1)
    }
}

/// Frames of an arena that are sent together.
struct ArenaCall<'a> {
    arena: &'a Arena,
    range: Range<usize>,
    /// Deadline of each frame, ns; empty if unpaced.
    due_ns: &'a [u64],
    /// End of an unpaced run, ns.
    end_ns: Option<u64>,
    state: &'a State,
}

impl TxCall for ArenaCall<'_> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn frame(&self, at: usize) -> &[u8] {
        self.arena.frame(self.range.start + at).0
    }

    fn prepare(&mut self, _from: usize) -> Option<u64> {
        let now_ns = steady_ns();
        if self.end_ns.is_some_and(|end_ns| now_ns >= end_ns) {
            self.state.store(word::LIMIT, 0);
        }
        self.state.left().map(|_| now_ns)
    }

    fn sent(&mut self, frames: Range<usize>, bytes: u64, offered_ns: u64) {
        self.state.add(word::BYTES, bytes);
        self.count(frames, offered_ns);
    }

    fn obstacle(&mut self, at: usize, obstacle: Obstacle) -> Result<Next, Error> {
        match obstacle {
            Obstacle::Refused(_) => {
                self.state.add(word::FAILED, 1);
                self.count(at..at + 1, steady_ns());
                Ok(Next::Skip)
            }
            obstacle => obstacle.wait_or_fail(self.state),
        }
    }
}

impl ArenaCall<'_> {
    /// Counts frames sent or skipped.
    fn count(&self, frames: Range<usize>, offered_ns: u64) {
        self.state.store(word::LAST_NS, offered_ns);
        if let Some(latest_ns) = self.due_ns.get(frames.end - 1) {
            self.state.store(word::DUE_NS, *latest_ns);
            for due_ns in &self.due_ns[frames.clone()] {
                self.state.count_lateness(offered_ns.saturating_sub(*due_ns));
            }
        }
        self.state.add(word::SENT, frames.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, BackendReport};
    use crate::link::fake_link;
    use crate::schedule::{Rate, Ratio};
    use proptest::prelude::*;
    use quaff_os::Errno;
    use quaff_os::clock::sleep_until;
    use std::sync::{Arc, Mutex};

    /// The frames sent by all backends, in order: backend, bytes, time.
    type Wire = Arc<Mutex<Vec<(u8, Vec<u8>, u64)>>>;

    /// A backend that accepts few frames per call, none in every third, and refuses long frames.
    struct Fake {
        number: u8,
        most: usize,
        calls: usize,
        wire: Wire,
    }

    impl Backend for Fake {
        fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize, Error> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                return Ok(0);
            }
            let mut taken = 0;
            for frame in frames.take(self.most) {
                if frame.len() > 100 {
                    let refused =
                        Error::new("send", std::io::Error::from_raw_os_error(Errno::EMSGSIZE as i32));
                    return if taken == 0 { Err(refused) } else { Ok(taken) };
                }
                self.wire.lock().unwrap().push((self.number, frame.to_vec(), steady_ns()));
                taken += 1;
            }
            Ok(taken)
        }

        fn flush(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn report(&self) -> BackendReport {
            BackendReport::new("fake")
        }
    }

    fn pump(outs: u8, is_paced: bool, late: LatePolicy) -> (Pump, Wire, State) {
        let wire = Wire::default();
        let out = |number| {
            let fake = Fake { number, most: 7, calls: 0, wire: wire.clone() };
            Transmitter::of(fake_link(&format!("if{number}")), Box::new(fake))
        };
        let pump = Pump::new((0..outs).map(out).collect(), is_paced, late, None);
        let state = State::new_user();
        state.store(word::LIMIT, u64::MAX);
        (pump, wire, state)
    }

    fn topspeed() -> Schedule {
        Schedule::new(Rate::Topspeed).unwrap()
    }

    fn pps(pps: f64) -> Schedule {
        Schedule::new(Rate::Frames(Ratio::of(pps).unwrap())).unwrap()
    }

    proptest! {
        /// Frames of two interfaces are all sent in their common order; refused ones are counted by interface.
        #[test]
        fn two_interfaces_share_one_order(
            frames in prop::collection::vec((0u8..2, prop_oneof![9 => 1usize..100, 1 => Just(101usize)]), 1..300)
        ) {
            let (mut pump, wire, state) = pump(2, false, LatePolicy::Burst);
            let mut arena = Arena::new(1 << 16, 300);
            for (at, (out, bytes)) in frames.iter().enumerate() {
                let meta = FrameMeta { out: *out, ..FrameMeta::default() };
                prop_assert!(arena.push(&vec![at as u8; *bytes], meta));
            }
            prop_assert_eq!(pump.send(&arena, 0, &mut topspeed(), &state).unwrap(), frames.len());
            let expected: Vec<_> = frames
                .iter()
                .enumerate()
                .filter(|(_, (_, bytes))| *bytes <= 100)
                .map(|(at, (out, bytes))| (*out, vec![at as u8; *bytes]))
                .collect();
            let seen: Vec<_> = wire.lock().unwrap().iter().map(|(out, frame, _)| (*out, frame.clone())).collect();
            prop_assert_eq!(&seen, &expected);
            for (number, outlet) in (0..).zip(pump.finish(&state).unwrap()) {
                let mine = expected.iter().filter(|(out, _)| *out == number);
                prop_assert_eq!(outlet.sent, mine.clone().count() as u64);
                prop_assert_eq!(outlet.bytes, mine.map(|(_, frame)| frame.len() as u64).sum::<u64>());
                let all = frames.iter().filter(|(out, _)| *out == number).count() as u64;
                prop_assert_eq!(outlet.refused, all - outlet.sent);
            }
            prop_assert_eq!(state.load(word::SENT), frames.len() as u64);
            prop_assert_eq!(state.load(word::SENT) - state.load(word::FAILED), expected.len() as u64);
        }
    }

    fn arena(frames: usize) -> Arena {
        let mut arena = Arena::new(frames * 4, frames);
        for at in 0..frames as u32 {
            assert!(arena.push(&at.to_be_bytes(), FrameMeta::default()));
        }
        arena
    }

    #[test]
    fn no_frame_leaves_before_it_is_due_across_arenas() {
        let (mut pump, wire, state) = pump(1, true, LatePolicy::Burst);
        let mut schedule = pps(2000.0);
        for _ in 0..3 {
            assert_eq!(pump.send(&arena(20), 0, &mut schedule, &state).unwrap(), 20);
        }
        let first_ns = state.load(word::FIRST_NS);
        let wire = wire.lock().unwrap();
        assert_eq!(wire.len(), 60);
        for (at, (_, _, sent_ns)) in wire.iter().enumerate() {
            assert!(*sent_ns >= first_ns + at as u64 * 500_000, "frame {at} left before it was due");
        }
        assert_eq!(state.load(word::DUE_NS), first_ns + 59 * 500_000);
        let counted: u64 = (0..crate::histogram::BUCKETS).map(|at| state.load(word::HISTOGRAM + at)).sum();
        assert_eq!(counted, 60);
    }

    /// Sends 30 frames, 1 ms apart, starting 20 ms after the deadline of the first.
    fn send_late(late: LatePolicy) -> (Vec<(u32, u64)>, State) {
        let (mut pump, wire, state) = pump(1, true, late);
        let begun_ns = steady_ns() - 20_000_000;
        pump.deadlines.anchor_ns = begun_ns;
        assert_eq!(pump.send(&arena(30), 0, &mut pps(1000.0), &state).unwrap(), 30);
        let wire = wire.lock().unwrap();
        let number = |frame: &[u8]| u32::from_be_bytes(frame.try_into().unwrap());
        (wire.iter().map(|(_, frame, sent_ns)| (number(frame), sent_ns - begun_ns)).collect(), state)
    }

    #[test]
    fn late_frames_leave_at_once() {
        let (sent, state) = send_late(LatePolicy::Burst);
        assert_eq!(sent.len(), 30);
        assert!(state.load(word::BURST_MAX) >= 19, "{sent:?}");
        for (at, (_, sent_ns)) in sent.iter().enumerate() {
            assert!(*sent_ns >= at as u64 * 1_000_000, "frame {at} left before it was due: {sent:?}");
        }
        assert_eq!(state.load(word::SHIFTED_NS), 0);
    }

    #[test]
    fn late_frames_shift_all_after_them() {
        let (sent, state) = send_late(LatePolicy::Shift);
        assert_eq!(sent.len(), 30);
        assert!(state.load(word::SHIFTED_NS) >= 20_000_000);
        for (at, (_, sent_ns)) in sent.iter().enumerate() {
            assert!(*sent_ns >= 20_000_000 + at as u64 * 1_000_000, "frame {at} caught up: {sent:?}");
        }
    }

    #[test]
    fn late_frames_are_dropped_and_counted() {
        let (sent, state) = send_late(LatePolicy::Drop);
        let dropped = state.load(word::LATE_DROPPED);
        assert!((19..30).contains(&dropped), "{dropped}");
        assert_eq!(sent.len() as u64 + dropped, 30);
        assert!(sent.iter().all(|(number, _)| *number >= 19));
        assert_eq!(state.load(word::SENT), 30, "each frame is counted");
        let lateness = state.lateness();
        assert!(lateness.max_ns >= 19_000_000, "the dropped frames are the late ones: {lateness:?}");
    }

    #[test]
    fn a_duration_is_exact_to_the_frame_even_when_late() {
        let (mut pump, wire, state) = pump(1, true, LatePolicy::Burst);
        pump.stop_after_ns = Some(10_000_000);
        // All frames are overdue, so that calls have many frames.
        pump.deadlines.anchor_ns = steady_ns() - 500_000_000;
        state.store(word::FIRST_NS, pump.deadlines.anchor_ns);
        assert_eq!(pump.send(&arena(200), 0, &mut pps(1000.0), &state).unwrap(), 10);
        assert_eq!(wire.lock().unwrap().len(), 10);
    }

    #[test]
    fn a_late_frame_after_one_in_time_is_dropped() {
        let test = "a_late_frame_after_one_in_time_is_dropped";
        let run = || {
            let (sent, dropped) = one_late_frame();
            // On any machine the frame that was due 8 ms before its predecessor is not sent.
            assert!(!sent.contains(&2) && sent.len() as u64 + dropped == 4, "{sent:?} {dropped}");
            (sent, dropped)
        };
        quaff_os::testing::assert_when_quiet(test, run, |found| *found == (vec![0, 1, 3], 1));
    }

    fn one_late_frame() -> (Vec<u8>, u64) {
        let (mut pump, wire, state) = pump(1, true, LatePolicy::Drop);
        let mut schedule = Schedule::new(Rate::Captured(Ratio { num: 1, den: 1 })).unwrap();
        let mut arena = Arena::new(64, 8);
        // One packet has a time 8 ms before its predecessor.
        for (number, time_ms) in [(0u32, 0), (1, 60), (2, 52), (3, 60)] {
            assert!(arena.push(
                &number.to_be_bytes(),
                FrameMeta { time_ns: time_ms * 1_000_000, ..FrameMeta::default() }
            ));
        }
        assert_eq!(pump.send(&arena, 0, &mut schedule, &state).unwrap(), 4);
        let sent = wire.lock().unwrap().iter().map(|(_, frame, _)| frame[3]).collect();
        (sent, state.load(word::LATE_DROPPED))
    }

    #[test]
    fn the_limit_is_kept_and_a_stop_ends_the_wait() {
        let (mut pump, wire, state) = pump(1, false, LatePolicy::Burst);
        state.store(word::LIMIT, 50);
        assert_eq!(pump.send(&arena(100), 0, &mut topspeed(), &state).unwrap(), 50);
        assert_eq!(wire.lock().unwrap().len(), 50);

        let (mut slow, _, state) = self::pump(1, true, LatePolicy::Burst);
        std::thread::scope(|scope| {
            let begun_ns = steady_ns();
            let sending = scope.spawn(|| slow.send(&arena(100), 0, &mut pps(0.1), &state));
            sleep_until(begun_ns + 20_000_000);
            state.store(word::LIMIT, 0);
            assert_eq!(sending.join().unwrap().unwrap(), 1);
            assert!(steady_ns() - begun_ns < 200_000_000);
        });
    }
}
