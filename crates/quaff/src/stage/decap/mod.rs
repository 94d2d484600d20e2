//! `--decap`: takes tunnels off. The frame inside is all that is left of a packet.
//!
//! A frame is found by moving `start` and `len`; nothing is copied, but for datagrams that came in
//! fragments. What is no tunnel, or is one that makes no sense, passes as it is.
//!
//! | room | what it does |
//! |---|---|
//! | [`sessions`] | each (sender, session) is an interface of the file |
//! | [`sequence`] | what its numbers say was lost before it reached us |
//! | [`clock`] | the switch's own time |
//! | [`fragments`] | puts outer datagrams together |

mod clock;
mod fragments;
mod sequence;
mod sessions;

use super::Stage;
use crate::batch::{Batch, Frame, Memory};
use crate::gauge::LaneGauges;
use crate::plan::DecapPlan;
use crate::tally::{DecapTally, LaneTally, Removed};
use clock::Clock;
use fragments::{Datagram, Fragments, Taken};
use quaff_file::interfaces::Interfaces;
use quaff_file::tally::Counts;
use quaff_file::write::plan::Format;
use quaff_wire::tunnel::{Damage, Direction, ErspanTime, Inner, Outcome, Upper, strip, strip_datagram};
use sessions::{Entry, Sessions};
use std::sync::Arc;

/// Takes tunnels off the frames of a lane.
#[derive(Debug)]
pub struct Decap {
    plan: DecapPlan,
    /// The one link type that the output can hold; `None` is any.
    linktype: Option<u16>,
    /// Whether every packet of a session gets here, so that a gap in its numbers means something.
    has_all: bool,
    /// Link types of the interfaces that the source speaks of, by number.
    outer: Vec<u16>,
    interfaces: Interfaces,
    sessions: Sessions,
    fragments: Fragments,
    gauges: Arc<LaneGauges>,
    /// The batch as it came.
    came: Vec<Frame>,
    stripped: u64,
    control: u64,
    incomplete: u64,
    damaged: [u64; Damage::COUNT],
}

impl Decap {
    /// A stage whose sessions become interfaces among `interfaces`.
    pub fn new(plan: &DecapPlan, format: Format, interfaces: Interfaces, gauges: Arc<LaneGauges>) -> Self {
        let first = interfaces.get(0).map_or(1, |interface| interface.linktype);
        Self {
            plan: plan.clone(),
            linktype: (format != Format::Pcapng).then_some(first),
            has_all: true,
            outer: Vec::new(),
            sessions: Sessions::new(interfaces.clone()),
            interfaces,
            fragments: Fragments::default(),
            gauges,
            came: Vec::new(),
            stripped: 0,
            control: 0,
            incomplete: 0,
            damaged: [0; Damage::COUNT],
        }
    }

    /// Does not look for gaps in sequence numbers: the kernel keeps packets out.
    #[must_use]
    pub fn without_gaps(mut self) -> Self {
        self.has_all = false;
        self
    }

    fn outer_linktype(&mut self, interface: u16) -> u16 {
        let at = usize::from(interface);
        while self.outer.len() <= at {
            let found = self.interfaces.get(self.outer.len() as u16);
            self.outer.push(found.map_or(1, |interface| interface.linktype));
        }
        self.outer[at]
    }

    fn look(&mut self, frame: &Frame, memory: Memory<'_>) -> Outcome {
        let linktype = self.outer_linktype(frame.interface);
        strip(memory.of(frame), frame.wire_len, linktype, self.plan.kinds, self.plan.depth)
    }

    /// Takes the tunnels off one frame. It goes on in `batch`, or waits, or is counted.
    fn take(&mut self, frame: Frame, batch: &mut Batch<'_>, removed: &mut Removed) {
        match self.look(&frame, batch.memory()) {
            Outcome::Inner(inner) => self.pass_inner(frame, &inner, batch, removed),
            Outcome::Fragment(fragment) => {
                match self.fragments.take(&frame, batch.memory().of(&frame), &fragment) {
                    Taken::Held => {}
                    Taken::Refused => self.pass_outer(frame, batch, removed),
                    Taken::Instead(held) => {
                        self.incomplete += held.count();
                        self.give_back(&held, batch, removed);
                    }
                    Taken::Plain(held) => {
                        self.give_back(&held, batch, removed);
                        self.pass_outer(frame, batch, removed);
                    }
                    Taken::Whole(datagram) => self.take_whole(datagram, batch, removed),
                }
            }
            Outcome::Plain => self.pass_outer(frame, batch, removed),
            Outcome::Damaged(damage) => {
                self.damaged[damage.index()] += 1;
                self.pass_outer(frame, batch, removed);
            }
            Outcome::Control(_) => {
                self.control += 1;
                self.pass_outer(frame, batch, removed);
            }
            Outcome::Marker(marker) => {
                self.control += 1;
                self.sessions.set_clocks(&marker);
                self.pass_outer(frame, batch, removed);
            }
        }
    }

    fn take_whole(&mut self, mut datagram: Datagram, batch: &mut Batch<'_>, removed: &mut Removed) {
        let mark = batch.scratch.len();
        if let Some((frame, protocol, source)) = datagram.lay_out(batch.scratch) {
            let (payload, plan) = (batch.memory().of(&frame), &self.plan);
            let found = strip_datagram(payload, frame.len, protocol, source, plan.kinds, plan.depth);
            match found {
                Outcome::Inner(inner) => {
                    removed.merged += datagram.count() - 1;
                    return self.pass_inner(frame, &inner, batch, removed);
                }
                Outcome::Damaged(damage) => self.damaged[damage.index()] += 1,
                Outcome::Control(_) | Outcome::Marker(_) => self.control += 1,
                Outcome::Plain | Outcome::Fragment(_) => {}
            }
        }
        batch.scratch.truncate(mark);
        self.give_back(&datagram, batch, removed);
    }

    fn give_back(&mut self, datagram: &Datagram, batch: &mut Batch<'_>, removed: &mut Removed) {
        for frame in datagram.give_back(batch.scratch) {
            self.pass_outer(frame, batch, removed);
        }
    }

    fn expire(&mut self, batch: &mut Batch<'_>, removed: &mut Removed) {
        while let Some(datagram) = self.fragments.take_expired(batch.now_ns, batch.is_last) {
            self.incomplete += datagram.count();
            self.give_back(&datagram, batch, removed);
        }
    }

    /// What no tunnel was taken off.
    fn pass_outer(&self, frame: Frame, batch: &mut Batch<'_>, removed: &mut Removed) {
        if self.plan.only {
            removed.not_tunnel += 1;
        } else {
            batch.frames.push(frame);
        }
    }

    fn pass_inner(&mut self, outer: Frame, inner: &Inner, batch: &mut Batch<'_>, removed: &mut Removed) {
        self.stripped += 1;
        if let Some(damage) = inner.damage {
            self.damaged[damage.index()] += 1;
        }
        let fits = self.linktype.is_none_or(|only| only == inner.linktype);
        let Some(at) = self.sessions.find(inner.session, inner.linktype, outer.interface) else {
            // There are no more interfaces to be had.
            self.stripped -= 1;
            return self.pass_outer(outer, batch, removed);
        };
        let interface = self.sessions.note(at, inner.sequence.filter(|_| self.has_all));
        if !fits {
            removed.unsuited += 1;
            return;
        }
        let mut frame = describe(&outer, inner, interface);
        if self.plan.switch_time
            && let Some(time) = inner.time
            && let Some(time_ns) = time_ns(self.sessions.clock(at), &time, outer.time_ns)
        {
            frame.time_ns = time_ns;
            frame.flags |= Frame::HARDWARE_TIME;
        }
        batch.frames.push(frame);
    }
}

/// The inner frame. What was truncated by a mirror has the length that is there.
fn describe(outer: &Frame, inner: &Inner, interface: u16) -> Frame {
    let (tpid, tci) = inner.tag.unwrap_or_default();
    let direction = match inner.direction {
        // Into the switch, and out of it; which way it passed us says nothing.
        Some(Direction::Ingress) => 0,
        Some(Direction::Egress) => Frame::OUTGOING,
        None => Frame::NO_DIRECTION,
    };
    Frame {
        start: outer.start + inner.start,
        len: inner.len,
        wire_len: inner.wire_len.unwrap_or(inner.len),
        tpid,
        tci,
        flags: outer.flags & (Frame::HARDWARE_TIME | Frame::SCRATCH) | direction,
        interface,
        ..*outer
    }
}

/// When the switch says that it was; `None` when it does not tell in which unit.
fn time_ns(clock: &mut Clock, time: &ErspanTime, seen_ns: u64) -> Option<u64> {
    let tick_ns = time.granularity.tick_ns()?;
    Some(match time.upper {
        Some(Upper::Seconds(seconds)) => {
            u64::from(seconds) * 1_000_000_000 + u64::from(time.timestamp) * u64::from(tick_ns)
        }
        _ => clock.time_ns(time.timestamp, tick_ns, seen_ns),
    })
}

impl Stage for Decap {
    fn pass(&mut self, batch: &mut Batch<'_>, removed: &mut Removed) {
        let mut came = std::mem::take(&mut self.came);
        std::mem::swap(batch.frames, &mut came);
        batch.frames.clear();
        self.expire(batch, removed);
        for frame in &came {
            self.take(*frame, batch, removed);
        }
        self.came = came;
    }

    fn is_holding(&self) -> bool {
        !self.fragments.is_empty()
    }

    fn count(&self, counts: &mut Counts) {
        let mut missing = 0;
        for entry in self.sessions.all().iter().filter(|entry| entry.sequence.missing > 0) {
            counts.session(entry.interface).missing = entry.sequence.missing;
            missing += entry.sequence.missing;
        }
        self.gauges.missing.set(missing);
    }

    fn sum_up(&mut self, tally: &mut LaneTally) {
        let damaged = Damage::all().zip(self.damaged).filter(|(_, packets)| *packets > 0);
        tally.decap = Some(DecapTally {
            stripped: self.stripped,
            control: self.control,
            damaged: damaged.map(|(damage, packets)| (damage.to_string(), packets)).collect(),
            incomplete: self.incomplete,
            sessions: self.sessions.all().iter().map(Entry::tally).collect(),
        });
    }
}

#[cfg(test)]
mod tests;
