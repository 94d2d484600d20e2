//! Replay in the kernel: frames are written into a map in advance, and the BPF program of `program` sends them from
//! there.
//!
//! A pass that fits in the map is written once, and the program restarts it by itself, so that only the frames are
//! copied. Otherwise a thread fills the map as a ring, and rewinds the source at its end. It never paces.

use super::passes::Passes;
use super::plan::ReplayVia;
use super::program::{self, Constants};
use super::ring::{FRAME_BYTES_MIN, Ring};
use super::shared::Shared;
use super::unique::{self, Places};
use crate::arena::Arena;
use crate::bpf_live;
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use crate::pacer;
use crate::schedule::{LATE_NS, Schedule};
use crate::state::{State, word};
use quaff_os::bpf::{LiveRun, Program};
use quaff_os::clock::steady_ns;
use quaff_os::packet::{PacketSocket, packet_sockets};
use quaff_os::{Interrupt, spawn_in};
use std::path::Path;
use std::time::Duration;

/// Maximum number of bytes and frames to read from the source at once.
const ARENA_BYTES: usize = 1 << 20;
const ARENA_FRAMES: usize = 8192;
/// Map size for a source that does not fit.
const RING_BYTES: usize = 64 << 20;
/// Time after which a source that has not ended is sent while it is being read, ns.
const PATIENCE_NS: u64 = 500_000_000;
/// Interval at which a full ring is checked.
const LOOK: Duration = Duration::from_micros(200);
/// Frames that the kernel collects per batch, if unpaced.
const BATCH_INJECT: u32 = 8;
const BATCH_REDIRECT: u32 = 32;
/// The same while a packet socket is listening: it would receive frames of protocols unknown to the kernel only at the
/// end of their batch. Costs a quarter of the speed.
const BATCH_WITH_LISTENER: u32 = 1;
/// Clock reads for a frame that is not yet due, 20 to 50 µs; fewer if frames of the same batch are waiting.
const SPIN_TURNS: u32 = 1000;
const SPIN_TURNS_MIN: u32 = 20;
/// Lead time of a call, which takes some ms to set up, ns.
const LEAD_NS: u64 = 40_000_000;

/// The result of filling the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// The ring has no room now.
    Ring,
    /// No more frames are available at the moment.
    Idle,
    /// A pass has ended, and another one follows.
    Pass,
    /// The last pass has ended.
    End,
}

/// Puts the frames of the source into the ring.
struct Filler {
    passes: Passes,
    schedule: Schedule,
    arena: Arena,
    /// Index of the next frame of the arena.
    next: usize,
    more: bool,
    /// True if the ring holds a whole pass, whose addresses the program shifts itself.
    whole: bool,
    /// The longest frame so far.
    longest_bytes: usize,
}

/// The sending thread: reads ahead, loads the program, and runs it until all is sent.
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
    // The program depends on the frames, so it is loaded later.
    let played = filler.passes.begin(true).and_then(|()| filler.play(shared, ring, here));
    shared.keep(filler.passes);
    played
}

/// Size of the map: that of a whole pass if it fits into the memory, otherwise that of a ring, bytes.
fn ring_bytes(shared: &Shared<'_>, passes: &Passes) -> usize {
    let most = shared.plan.memory_bytes as u64;
    let bytes = match passes.feed.bytes_hint() {
        // The header of an item is slightly longer than that of a packet in a file.
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
        if ring.pushed == 0 && filled == Filled::End {
            return Err(PlanError::Empty.into());
        }
        self.whole = matches!(filled, Filled::Pass | Filled::End);
        if !self.whole && shared.plan.loops != Some(1) && self.passes.feed.bytes_hint().is_none() {
            return Err(PlanError::Again.into());
        }
        let mean_ns = self.schedule.end().ns / ring.pushed.max(1);
        let (program, run) = self.load(shared, &ring, mean_ns)?;
        if self.whole {
            self.close(shared, &mut ring);
            shared.interrupt.get_or_init(|| here);
            return run_program(shared, &program, &run);
        }
        shared.state.store(word::READY, ring.pushed);
        shared.set_total(u64::MAX);
        std::thread::scope(|scope| {
            let filling = spawn_in(scope, "quaff-fill", || {
                let _alarm = Alarm(shared);
                self.stream(ring, shared)
            })?;
            shared.interrupt.get_or_init(|| here);
            let ran = run_program(shared, &program, &run);
            shared.end();
            // A panic of the thread is a defect: propagate it.
            let filled = filling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ran.and(filled)
        })
    }

    /// Fills the ring before the first frame is sent: with a whole pass, or until it is full.
    fn prefill(&mut self, ring: &mut Ring, shared: &Shared<'_>) -> Result<Filled, SendError> {
        let until_ns = steady_ns() + PATIENCE_NS;
        // A pass that is repeated must be in the map as a whole.
        let is_endless = self.passes.feed.bytes_hint().is_none() && shared.plan.loops == Some(1);
        loop {
            match self.fill(ring, &shared.state)? {
                Filled::Idle if shared.stop.raised() => return Ok(Filled::End),
                Filled::Idle if is_endless && ring.pushed > 0 && steady_ns() > until_ns => {
                    return Ok(Filled::Idle);
                }
                Filled::Idle => {}
                other => return Ok(other),
            }
        }
    }

    /// Fills the ring until there is no room, or no frame available at the moment.
    fn fill(&mut self, ring: &mut Ring, state: &State) -> Result<Filled, SendError> {
        while self.next < self.arena.len() {
            let (frame, meta) = self.arena.frame(self.next);
            if !ring.has_room(frame.len()) {
                state.store(word::READY, ring.pushed);
                return Ok(Filled::Ring);
            }
            let places = if self.whole { unique::places(frame) } else { Places::default() };
            let due = self.schedule.due(frame.len(), &meta);
            self.longest_bytes = self.longest_bytes.max(frame.len());
            ring.push(frame, due, places);
            self.next += 1;
        }
        state.store(word::READY, ring.pushed);
        let ended = self.arena.ends_pass;
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

    /// Fills the ring while the program sends.
    fn stream(&mut self, mut ring: Ring, shared: &Shared<'_>) -> Result<(), SendError> {
        let state = &shared.state;
        while !shared.is_over() {
            match self.fill(&mut ring, state) {
                Ok(Filled::Ring) => {
                    ring.take(state.load(word::SENT));
                    let next_bytes = self.arena.frame(self.next).0.len();
                    if !ring.has_room(next_bytes) {
                        std::thread::sleep(LOOK);
                    }
                }
                Ok(Filled::Idle | Filled::Pass) => {}
                Ok(Filled::End) => {
                    shared.set_total(ring.pushed);
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

    /// Completes a ring of a whole pass: sets the number of passes and their duration.
    fn close(&self, shared: &Shared<'_>, ring: &mut Ring) {
        let end = self.schedule.end();
        shared.state.store(word::PASS_NS, end.ns);
        shared.state.store(word::PASS_FRACTION, end.fraction.into());
        ring.close();
        shared.state.store(word::READY, u64::MAX);
        let pass = ring.pushed;
        let all = self.passes.loops.map_or(u64::MAX, |loops| pass.saturating_mul(loops));
        shared.set_total(all.min(shared.plan.limit.unwrap_or(u64::MAX)));
    }

    fn load(&self, shared: &Shared<'_>, ring: &Ring, mean_ns: u64) -> Result<(Program, Run), SendError> {
        let State::Kernel(state) = &shared.state else { return Err(PlanError::Empty.into()) };
        let plan = shared.plan;
        let first_bytes = if self.whole { self.longest_bytes } else { bpf_live::FRAME_BYTES_MAX };
        let paced = plan.rate.is_paced();
        let batch = batch(shared, paced.then_some(mean_ns));
        let constants = Constants {
            paced,
            streamed: !self.whole,
            unique: self.whole && plan.unique_ip,
            late: plan.late,
            late_ns: LATE_NS as i32,
            stop_after_ns: plan.duration.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            redirect: (plan.via == ReplayVia::XdpRedirect).then_some(shared.link().index),
            first_bytes,
            spin_turns: (SPIN_TURNS / (batch * batch)).max(SPIN_TURNS_MIN) as i32,
        };
        let insns = program::assemble(&constants, state, &ring.map);
        let program = Program::load_xdp("quaff_replay", insns)?;
        // A program whose invocations may send nothing is repeated endlessly, and interrupted.
        let exact = !paced && self.whole && constants.stop_after_ns.is_none();
        Ok((program, Run { first_bytes, batch, exact }))
    }
}

/// Number of frames per batch for this mean interval; `None`: unpaced.
fn batch(shared: &Shared<'_>, mean_ns: Option<u64>) -> u32 {
    let at_once = match shared.plan.via {
        ReplayVia::Inject if has_listener(shared.link().index) => BATCH_WITH_LISTENER,
        ReplayVia::Inject => BATCH_INJECT,
        _ => BATCH_REDIRECT,
    };
    bpf_live::batch(mean_ns.unwrap_or(0), at_once)
}

/// True if a packet socket, such as a capture, receives frames that arrive on an interface of the calling thread's
/// network namespace, or if /proc does not show that.
fn has_listener(ifindex: u32) -> bool {
    packet_sockets(Path::new("/")).map_or(true, |sockets| sockets.iter().any(|it| receives_on(it, ifindex)))
}

/// True if a socket receives frames of interface `ifindex`.
fn receives_on(socket: &PacketSocket, ifindex: u32) -> bool {
    socket.protocol != 0 && socket.is_running && [0, ifindex].contains(&socket.ifindex)
}

/// Ends the run if its thread panics: otherwise the program would wait forever.
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
    /// Length of a frame as passed to the program, bytes.
    first_bytes: usize,
    /// Frames that the kernel collects before it passes them on.
    batch: u32,
    /// True if each invocation of the program sends a frame.
    exact: bool,
}

/// Runs the program until all is sent.
fn run_program(shared: &Shared<'_>, program: &Program, run: &Run) -> Result<(), SendError> {
    let state = &shared.state;
    let first = vec![0; run.first_bytes];
    let mut pause = 0;
    while !shared.is_over() {
        // A process that stops interrupts the program.
        match state.paused_ns(&mut pause) {
            Some(0) => {}
            Some(paused_ns) => {
                state.add(word::BASE_NS, paused_ns);
                state.store(word::FAR_NS, 0);
            }
            None => {
                std::thread::sleep(LOOK);
                continue;
            }
        }
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
        let live = LiveRun { ifindex: shared.link().index, frame: &first, repeat, batch: run.batch };
        bpf_live::run(program, live)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bound_receiver_of_the_interface_receives() {
        let bound = PacketSocket { protocol: 3, ifindex: 2, is_running: true, inode: 27373 };
        assert!(receives_on(&bound, 2) && receives_on(&PacketSocket { ifindex: 0, ..bound }, 2));
        assert!(!receives_on(&PacketSocket { ifindex: 3, ..bound }, 2), "another interface");
        assert!(!receives_on(&PacketSocket { protocol: 0, ..bound }, 2), "it only sends");
        assert!(!receives_on(&PacketSocket { is_running: false, ..bound }, 2), "it is not bound yet");
    }
}
