//! Frames played by the kernel: put into the map ahead, taken out by the program of `program`.
//!
//! When one pass fits into the map, it is put there once, and the program restarts by itself: no
//! byte is copied but into the frames. Otherwise a thread fills the map like a ring, and starts the
//! source over when it has ended.

use super::passes::Passes;
use super::program::{self, Constants};
use super::ring::{FRAME_BYTES_MIN, Ring};
use super::unique::{self, Places};
use super::{ReplayVia, Shared};
use crate::arena::Arena;
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use crate::pacer;
use crate::schedule::{LATE_NS, Schedule};
use crate::state::{State, word};
use quaff_os::bpf::{LiveRun, Program};
use quaff_os::clock::steady_ns;
use quaff_os::{Errno, Error, Interrupt, packet};
use std::time::Duration;

/// Bytes and frames that are read from the source at once.
const ARENA_BYTES: usize = 1 << 20;
const ARENA_FRAMES: usize = 8192;
/// The map, when not all fits.
const RING_BYTES: usize = 64 << 20;
/// A source that has not ended by then is played while it is read, ns.
const PATIENCE_NS: u64 = 500_000_000;
/// Interval at which a full ring is checked.
const LOOK: Duration = Duration::from_micros(200);
/// Frames that the kernel collects before it hands them on, when there is no pace to keep.
const BATCH_INJECT: u32 = 8;
const BATCH_REDIRECT: u32 = 32;
/// To packet sockets the kernel hands a batch's frames of protocols that it does not know last, so
/// with a listener they go one by one, which takes a quarter longer.
const BATCH_HEARD: u32 = 1;
/// A paced frame may wait so long for others that leave with it, ns.
const BATCH_NS: u64 = 4_000;
/// Reads of the clock for a frame that is not due yet, some 20 to 50 µs; fewer where frames of
/// the same batch wait for it meanwhile.
const SPIN_TURNS: u32 = 1000;
const SPIN_TURNS_MIN: u32 = 20;
/// So long before its frame is due a call is made, which takes some ms to set up, ns.
const LEAD_NS: u64 = 40_000_000;

/// The result of filling the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// There is no room now.
    Ring,
    /// All that there is for the moment.
    Idle,
    /// A pass has ended, and there is another one.
    Pass,
    /// There is nothing more.
    End,
}

/// The source on its way into the ring.
struct Filler {
    passes: Passes,
    schedule: Schedule,
    arena: Arena,
    /// The frame of the arena that is next.
    next: usize,
    more: bool,
    /// The program changes addresses itself.
    whole: bool,
    /// The longest frame so far.
    longest_bytes: usize,
}

/// The sending thread: reads ahead, loads the program, runs it until all is sent. Keeps the passes for
/// what they have counted.
pub(super) fn play(shared: &Shared<'_>, passes: Passes, schedule: Schedule) -> Result<(), SendError> {
    let here = Interrupt::here()?;
    shared.plan.core.map_or(Ok(()), quaff_os::cpu::pin)?;
    let ring = Ring::new(ring_bytes(shared, &passes))?;
    let mut filler = Filler {
        passes,
        schedule,
        arena: Arena::new(ARENA_BYTES, ARENA_FRAMES),
        next: 0,
        more: true,
        whole: true,
        longest_bytes: FRAME_BYTES_MIN,
    };
    let played = filler.play(shared, ring, here);
    shared.keep(filler.passes);
    played
}

/// Room for a whole pass, if that is not too much; otherwise a ring.
fn ring_bytes(shared: &Shared<'_>, passes: &Passes) -> usize {
    let most = shared.plan.memory_bytes as u64;
    let bytes = match passes.feed().bytes_hint() {
        // A header here is some bytes longer than in a file.
        Some(hint) if hint.saturating_mul(3) / 2 < most => hint * 3 / 2 + (64 << 10),
        None if shared.plan.loops != Some(1) => most,
        _ => most.min(RING_BYTES as u64),
    };
    bytes as usize
}

impl Filler {
    fn play(&mut self, shared: &Shared<'_>, mut ring: Ring, here: Interrupt) -> Result<(), SendError> {
        let filled = self.prefill(&mut ring, shared)?;
        if shared.stop.raised() {
            return Ok(());
        }
        if ring.pushed() == 0 && filled == Filled::End {
            return Err(PlanError::Empty.into());
        }
        self.whole = matches!(filled, Filled::Pass | Filled::End);
        if !self.whole && shared.plan.loops != Some(1) && self.passes.feed().bytes_hint().is_none() {
            return Err(PlanError::Again.into());
        }
        let mean_ns = self.schedule.end().ns / ring.pushed().max(1);
        let (program, run) = self.load(shared, &ring, mean_ns)?;
        if self.whole {
            self.close(shared, &mut ring);
            shared.interrupt.get_or_init(|| here);
            return run_program(shared, &program, &run);
        }
        shared.state.publish(word::READY, ring.pushed());
        shared.set_total(u64::MAX);
        std::thread::scope(|scope| {
            let filling = scope.spawn(|| {
                let _alarm = Alarm(shared);
                self.stream(ring, shared)
            });
            shared.interrupt.get_or_init(|| here);
            let ran = run_program(shared, &program, &run);
            shared.end();
            // A panic in the thread is a defect: it continues here.
            let filled = filling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ran.and(filled)
        })
    }

    /// Fills the ring before the first frame leaves: with a whole pass, or as far as it goes.
    fn prefill(&mut self, ring: &mut Ring, shared: &Shared<'_>) -> Result<Filled, SendError> {
        let until_ns = steady_ns() + PATIENCE_NS;
        // What is sent again has to be there as a whole.
        let is_endless = self.passes.feed().bytes_hint().is_none() && shared.plan.loops == Some(1);
        loop {
            match self.fill(ring, &shared.state)? {
                Filled::Idle if shared.stop.raised() => return Ok(Filled::End),
                Filled::Idle if is_endless && ring.pushed() > 0 && steady_ns() > until_ns => {
                    return Ok(Filled::Idle);
                }
                Filled::Idle => {}
                other => return Ok(other),
            }
        }
    }

    /// Puts frames into the ring until there is no room, or for the moment no frame.
    fn fill(&mut self, ring: &mut Ring, state: &State) -> Result<Filled, SendError> {
        while self.next < self.arena.len() {
            let (frame, meta) = self.arena.frame(self.next);
            if !ring.has_room(frame.len()) {
                state.publish(word::READY, ring.pushed());
                return Ok(Filled::Ring);
            }
            let places = if self.whole { unique::places(frame) } else { Places::default() };
            let due = self.schedule.due(frame.len(), &meta);
            self.longest_bytes = self.longest_bytes.max(frame.len());
            ring.push(frame, due, places);
            self.next += 1;
        }
        state.publish(word::READY, ring.pushed());
        let ended = self.arena.ends_pass();
        self.arena.clear();
        self.next = 0;
        if !self.more {
            return Ok(Filled::End);
        }
        if ended {
            self.schedule.next_pass();
            return Ok(Filled::Pass);
        }
        self.more = self.passes.fill(&mut self.arena)?;
        Ok(Filled::Idle)
    }

    /// Fills the ring while it is played.
    fn stream(&mut self, mut ring: Ring, shared: &Shared<'_>) -> Result<(), SendError> {
        let state = &shared.state;
        while !shared.is_over() {
            match self.fill(&mut ring, state) {
                Ok(Filled::Ring) => {
                    ring.take(state.observe(word::SENT));
                    let next_bytes = self.arena.frame(self.next).0.len();
                    if !ring.has_room(next_bytes) {
                        std::thread::sleep(LOOK);
                    }
                }
                Ok(Filled::Idle | Filled::Pass) => {}
                Ok(Filled::End) => {
                    shared.set_total(ring.pushed());
                    break;
                }
                Err(error) => {
                    shared.end();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// All frames of a pass are there: how often they are played, and how long a pass takes.
    fn close(&self, shared: &Shared<'_>, ring: &mut Ring) {
        let end = self.schedule.end();
        shared.state.store(word::PASS_NS, end.ns);
        shared.state.store(word::PASS_FRACTION, end.fraction.into());
        ring.close();
        shared.state.publish(word::READY, u64::MAX);
        let pass = ring.pushed();
        let all = self.passes.loops().map_or(u64::MAX, |loops| pass.saturating_mul(loops));
        shared.set_total(all.min(shared.plan.limit.unwrap_or(u64::MAX)));
    }

    fn load(&self, shared: &Shared<'_>, ring: &Ring, mean_ns: u64) -> Result<(Program, Run), SendError> {
        let State::Kernel(state) = &shared.state else { return Err(PlanError::Empty.into()) };
        let plan = shared.plan;
        let first_bytes = if self.whole { self.longest_bytes } else { super::ring::FRAME_BYTES_MAX };
        let paced = plan.rate.is_paced();
        let batch = batch(shared, paced.then_some(mean_ns));
        let constants = Constants {
            paced,
            streamed: !self.whole,
            unique: self.whole && plan.unique_ip,
            late: plan.late,
            late_ns: LATE_NS as i32,
            stop_after_ns: plan.duration.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            redirect: (plan.via == ReplayVia::XdpRedirect).then_some(shared.link.index),
            first_bytes,
            spin_turns: (SPIN_TURNS / (batch * batch)).max(SPIN_TURNS_MIN) as i32,
        };
        let insns = program::assemble(&constants, state, ring.map());
        let program = Program::load_xdp("quaff_replay", insns)?;
        // A program that may find nothing to do is run without end, and interrupted.
        let exact = !paced && self.whole && constants.stop_after_ns.is_none();
        Ok((program, Run { first_bytes, batch, exact }))
    }
}

/// Frames that leave together, at a mean distance or without a pace.
fn batch(shared: &Shared<'_>, mean_ns: Option<u64>) -> u32 {
    let at_once = match shared.plan.via {
        ReplayVia::Inject if packet::has_listener(shared.link.index) => BATCH_HEARD,
        ReplayVia::Inject => BATCH_INJECT,
        _ => BATCH_REDIRECT,
    };
    mean_ns.map_or(at_once, |mean_ns| (BATCH_NS / mean_ns.max(1)).clamp(1, at_once.into()) as u32)
}

/// Ends the run when the thread that it lives on dies of a panic: the program would wait for ever.
struct Alarm<'a>(&'a Shared<'a>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// The parameters of a call that runs the program.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Bytes of a frame when the program gets it.
    first_bytes: usize,
    /// Frames that the kernel collects.
    batch: u32,
    /// Each run of the program sends a frame.
    exact: bool,
}

/// Runs the program until all is sent.
fn run_program(shared: &Shared<'_>, program: &Program, run: &Run) -> Result<(), SendError> {
    let state = &shared.state;
    let first = vec![0; run.first_bytes];
    while !shared.is_over() {
        let Some(left) = state.left() else {
            if shared.plan.stepwise && state.load(word::SENT) < shared.total() {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            break;
        };
        let far_ns = state.load(word::FAR_NS);
        if far_ns > 0 {
            if !pacer::sleep_until(far_ns.saturating_sub(LEAD_NS), || state.left().is_none()) {
                break;
            }
            state.store(word::FAR_NS, 0);
        }
        let repeat = if run.exact { left.min(u64::from(u32::MAX)) as u32 } else { u32::MAX };
        let live = LiveRun { ifindex: shared.link.index, frame: &first, repeat, batch: run.batch };
        match program.run_live(live) {
            Err(error) if error.raw() != Errno::EINTR as i32 => return Err(explain(error).into()),
            _ => {}
        }
    }
    Ok(())
}

fn explain(error: Error) -> Error {
    match error.raw() == Errno::EINVAL as i32 {
        true => error.advise("BPF live frames need Linux 5.18 or newer"),
        false => error,
    }
}
