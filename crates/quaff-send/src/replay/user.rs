//! Replay from user space: frames are read ahead into arenas and sent from there by the [`Pump`].
//!
//! A repeated source stays in memory if it fits; otherwise a thread reads ahead into a fixed number of reused arenas.
//! It never computes deadlines.

use super::passes::Passes;
use super::shared::Shared;
use super::unique::{self, Places};
use crate::arena::Arena;
use crate::backend::TxBackend;
use crate::error::{PlanError, SendError};
use crate::feed::{Feed, ReadAhead};
use crate::pump::Pump;
use crate::schedule::Schedule;
use crate::state::word;
use crate::transmitter::Transmitter;
use quaff_os::{Interrupt, Reason};
use std::time::Duration;

/// Size of an arena: large enough to pass between threads cheaply, small enough for a cache.
const ARENA_BYTES: usize = 2 << 20;
const ARENA_FRAMES: usize = 16_384;
/// Number of arenas that the reader and the sender share.
const ARENAS: usize = 16;
/// Approximate bytes of the metadata of a frame.
const ITEM_BYTES: usize = 40;
/// Interval at which a stepwise run checks for the next step.
const LOOK: Duration = Duration::from_millis(5);

/// The sending thread: opens the backends, then reads and sends until all is sent.
pub(super) fn play(
    shared: &Shared<'_>,
    kind: TxBackend,
    mut passes: Passes,
    schedule: Schedule,
) -> Result<(), SendError> {
    let here = Interrupt::here()?;
    let plan = shared.plan;
    // Frames of several queues have no common order.
    let kind = if kind == TxBackend::AfXdp && shared.links.len() > 1 { TxBackend::AfXdpQueue0 } else { kind };
    let outs = shared.links.iter().map(|link| Transmitter::open(link.clone(), kind));
    let outs = outs.collect::<Result<_, quaff_os::Error>>()?;
    let mut pump = Pump::new(outs, plan.rate.is_paced(), plan.late, plan.duration);
    passes.begin(false)?;
    let (kept, is_all) =
        if is_kept(shared, &passes) { read_pass(shared, &mut passes)? } else { (vec![], false) };
    let source = match is_all {
        true => Source::Kept(kept, passes),
        // The reader starts before this thread is pinned; otherwise it would inherit the pinning.
        false => Source::Read(kept, ReadAhead::start(passes, arenas())?),
    };
    plan.core.map_or(Ok(()), quaff_os::cpu::pin)?;
    shared.interrupt.get_or_init(|| here);
    let sent = match source {
        Source::Kept(arenas, passes) => {
            let sent = send_kept(shared, arenas, &passes, schedule, &mut pump);
            shared.keep(passes);
            sent
        }
        Source::Read(first, ahead) => send_read(shared, first, ahead, schedule, &mut pump),
    };
    let outlets = pump.finish(&shared.state);
    shared.end();
    let finished = outlets.map(|outlets| {
        shared.outlets.get_or_init(|| outlets);
    });
    sent?;
    Ok(finished?)
}

/// The source of the frames.
enum Source {
    /// A whole pass is in memory.
    Kept(Vec<Arena>, Passes),
    /// The first arenas are in memory; the rest is read ahead.
    Read(Vec<Arena>, ReadAhead<Passes>),
}

fn arenas() -> Vec<Arena> {
    (0..ARENAS).map(|_| Arena::new(ARENA_BYTES, ARENA_FRAMES)).collect()
}

/// Returns `true` if a pass should be read once and kept. A compressed file may turn out larger than estimated.
fn is_kept(shared: &Shared<'_>, passes: &Passes) -> bool {
    let fits = |bytes: u64| bytes <= shared.plan.memory_bytes as u64;
    // A source that cannot be read twice is kept in any case, or rejected if it does not fit.
    passes.loops != Some(1) && passes.feed.bytes_hint().is_none_or(fits)
}

/// Reads as much of one pass as fits in memory. Returns the arenas, and `true` if they hold the whole pass.
fn read_pass(shared: &Shared<'_>, passes: &mut Passes) -> Result<(Vec<Arena>, bool), SendError> {
    let mut arenas = Vec::new();
    let mut bytes = 0;
    while !shared.stop.raised() {
        let mut arena = Arena::new(ARENA_BYTES, ARENA_FRAMES);
        let more = passes.fill(&mut arena)?;
        let ended = arena.ends_pass || !more;
        bytes += arena.bytes() + arena.len() * ITEM_BYTES;
        if !arena.is_empty() || ended {
            arenas.push(arena);
        }
        if ended {
            return Ok((arenas, true));
        }
        if bytes > shared.plan.memory_bytes {
            let can_restart = passes.feed.bytes_hint().is_some();
            return if can_restart { Ok((arenas, false)) } else { Err(PlanError::Again.into()) };
        }
    }
    Ok((Vec::new(), true))
}

/// Sends a pass from memory, as often as planned.
fn send_kept(
    shared: &Shared<'_>,
    mut arenas: Vec<Arena>,
    passes: &Passes,
    mut schedule: Schedule,
    pump: &mut Pump,
) -> Result<(), SendError> {
    let frames: usize = arenas.iter().map(Arena::len).sum();
    if frames == 0 {
        return if shared.stop.raised() { Ok(()) } else { Err(PlanError::Empty.into()) };
    }
    let all = passes.loops.map_or(u64::MAX, |loops| loops.saturating_mul(frames as u64));
    shared.set_total(all.min(shared.plan.limit.unwrap_or(u64::MAX)));
    let places = if shared.plan.unique_ip { places(&arenas) } else { Vec::new() };
    for pass in 0..passes.loops.unwrap_or(u64::MAX) {
        for (at, arena) in arenas.iter_mut().enumerate() {
            if let (Some(places), true) = (places.get(at), pass > 0) {
                shift_all(arena, places);
            }
            if !send(shared, pump, arena, &mut schedule)? {
                return Ok(());
            }
        }
        schedule.next_pass();
        shared.state.add(word::PASSES, 1);
    }
    Ok(())
}

/// Sends the arenas that were read first, then those read ahead.
fn send_read(
    shared: &Shared<'_>,
    first: Vec<Arena>,
    mut ahead: ReadAhead<Passes>,
    mut schedule: Schedule,
    pump: &mut Pump,
) -> Result<(), SendError> {
    shared.set_total(u64::MAX);
    let mut frames = 0;
    let mut first = first.into_iter();
    let sent = loop {
        let kept = first.next();
        let is_kept = kept.is_some();
        let Some(arena) = kept.map(Ok).or_else(|| ahead.next()) else { break Ok(true) };
        let arena = match arena {
            Ok(arena) => arena,
            Err(error) => break Err(error),
        };
        frames += arena.len() as u64;
        match send(shared, pump, &arena, &mut schedule) {
            Ok(true) => {}
            other => break other,
        }
        if arena.ends_pass {
            schedule.next_pass();
            shared.state.add(word::PASSES, 1);
        }
        // The first arenas are freed after they are sent.
        if !is_kept {
            ahead.recycle(arena);
        }
    };
    shared.state.add(word::STARVED, ahead.waits());
    match sent {
        Ok(true) if !shared.stop.raised() => shared.set_total(frames),
        // The reader may be waiting for data that never arrives.
        _ => shared.stop.raise(Reason::Count),
    }
    shared.keep(ahead.finish());
    sent?;
    if frames == 0 && shared.total() == 0 {
        return Err(PlanError::Empty.into());
    }
    Ok(())
}

/// Sends an arena; in a stepwise run frame by frame, as the watcher releases them.
fn send(
    shared: &Shared<'_>,
    pump: &mut Pump,
    arena: &Arena,
    schedule: &mut Schedule,
) -> Result<bool, SendError> {
    let mut from = 0;
    loop {
        from = pump.send(arena, from, schedule, &shared.state)?;
        if from == arena.len() {
            return Ok(true);
        }
        let is_waiting = shared.plan.stepwise && shared.state.load(word::SENT) < shared.total();
        if !is_waiting || shared.is_over() {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}

fn places(arenas: &[Arena]) -> Vec<Vec<Places>> {
    let of = |arena: &Arena| arena.frames().map(|(frame, _)| unique::places(frame)).collect();
    arenas.iter().map(of).collect()
}

/// Gives the frames of an arena the addresses of the next pass.
fn shift_all(arena: &mut Arena, places: &[Places]) {
    for (at, places) in places.iter().enumerate() {
        unique::shift(arena.frame_mut(at).0, *places, 1);
    }
}
