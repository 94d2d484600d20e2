//! Decapsulation: replaces a tunnel packet by the frame inside it.
//!
//! The inner frame is described by another `start` and `len`; only fragmented datagrams are copied. Packets without a
//! tunnel, or with a damaged one, pass unchanged.
//!
//! | module | task |
//! |---|---|
//! | [`sessions`] | each (sender, session) is an interface of the file |
//! | [`sequence`] | counts packets lost before capture, by sequence numbers |
//! | [`clock`] | the time stamps of the switch |
//! | [`fragments`] | reassembles outer datagrams |

mod clock;
mod fragments;
mod sequence;
mod sessions;

use super::Stage;
use super::ethernet::put_ethernet;
use crate::batch::{Batch, Frame, Memory};
use crate::gauge::LaneGauges;
use crate::plan::DecapPlan;
use crate::tally::{DecapTally, LaneTally};
use clock::Clock;
use fragments::{Datagram, Fragments, Place, Taken};
use quaff_file::Interfaces;
use quaff_file::tally::Counts;
use quaff_file::write::Format;
use quaff_os::prefetch;
use quaff_wire::linktype::{ETHERNET, is_bare_ip};
use quaff_wire::tunnel::{Damage, Direction, ErspanTime, Inner, Outcome, Upper, strip, strip_datagram};
use sessions::{Entry, Sessions};
use std::sync::Arc;

/// Frames ahead whose headers are prefetched, and cache lines of each.
const AHEAD: usize = 4;
const LINES_AHEAD: usize = 2;

/// The decapsulation stage of a lane.
#[derive(Debug)]
pub(crate) struct Decap {
    plan: DecapPlan,
    /// The only link type of the output format; `None` for any.
    linktype: Option<u16>,
    /// Every packet of a session arrives at this lane, so a gap in its numbers is a loss.
    has_all: bool,
    /// Link types of the source's interfaces, by number.
    outer: Vec<u16>,
    /// Bare IP packets inside get a made Ethernet header.
    makes_ethernet: bool,
    interfaces: Interfaces,
    sessions: Sessions,
    fragments: Fragments,
    gauges: Arc<LaneGauges>,
    /// The frames of the batch before decapsulation.
    arrived: Vec<Frame>,
    /// The number of the batch, and the time of the last frame before it, ns since 1970.
    batch: u64,
    before_ns: u64,
    /// Frames that were held back and belong into the present batch, each with the number of frames before it.
    released: Vec<(usize, Frame)>,
    /// Frames that were released after frames of later times.
    delayed: u64,
    stripped: u64,
    control: u64,
    incomplete: u64,
    damaged: [u64; Damage::COUNT],
}

impl Decap {
    /// A stage that adds its sessions to `interfaces`.
    pub(crate) fn new(
        plan: &DecapPlan,
        format: Format,
        interfaces: Interfaces,
        gauges: Arc<LaneGauges>,
    ) -> Self {
        let first = interfaces.get(0).map_or(1, |interface| interface.linktype);
        Self {
            plan: plan.clone(),
            linktype: (format != Format::Pcapng && !interfaces.waits_for_packets()).then_some(first),
            makes_ethernet: false,
            has_all: true,
            outer: Vec::new(),
            sessions: Sessions::new(interfaces.clone()),
            interfaces,
            fragments: Fragments::default(),
            gauges,
            arrived: Vec::new(),
            batch: 0,
            before_ns: 0,
            released: Vec::new(),
            delayed: 0,
            stripped: 0,
            control: 0,
            incomplete: 0,
            damaged: [0; Damage::COUNT],
        }
    }

    /// Disables the detection of gaps in sequence numbers, because the kernel's filter rejects packets.
    #[must_use]
    pub(crate) fn without_gaps(mut self) -> Self {
        self.has_all = false;
        self
    }

    /// Adds a made Ethernet header to bare IP packets.
    #[must_use]
    pub(crate) fn with_ethernet(mut self, makes_ethernet: bool) -> Self {
        self.makes_ethernet = makes_ethernet;
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

    fn inspect(&mut self, frame: &Frame, memory: Memory<'_>) -> Outcome {
        let linktype = self.outer_linktype(frame.interface);
        strip(memory.of(frame), frame.wire_len, linktype, self.plan.kinds, self.plan.depth)
    }

    /// Decapsulates one frame: adds the result to `batch`, holds it back as a fragment, or counts it as removed.
    fn take(&mut self, frame: Frame, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        match self.inspect(&frame, batch.memory()) {
            Outcome::Inner(inner) => self.pass_inner(frame, &inner, batch, tally),
            Outcome::Fragment(fragment) => {
                let place = Place { batch: self.batch, at: batch.frames.len() };
                match self.fragments.take(&frame, batch.memory().of(&frame), &fragment, place) {
                    Taken::Held => {}
                    Taken::Refused => self.pass_outer(frame, batch, tally),
                    Taken::Replaced(held) => {
                        self.incomplete += held.count();
                        self.restore(&held, batch, tally);
                    }
                    Taken::Plain(held) => {
                        self.restore(&held, batch, tally);
                        self.pass_outer(frame, batch, tally);
                    }
                    Taken::Whole(datagram) => self.take_whole(datagram, batch, tally),
                }
            }
            Outcome::Plain => self.pass_outer(frame, batch, tally),
            Outcome::Damaged(damage) => {
                self.damaged[damage.index()] += 1;
                self.pass_outer(frame, batch, tally);
            }
            Outcome::Control => {
                self.control += 1;
                self.pass_outer(frame, batch, tally);
            }
            Outcome::Marker(marker) => {
                self.control += 1;
                self.sessions.set_clocks(&marker);
                self.pass_outer(frame, batch, tally);
            }
        }
    }

    fn take_whole(&mut self, mut datagram: Datagram, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let mark = batch.scratch.len();
        if let Some((frame, protocol, source)) = datagram.lay_out(batch.scratch) {
            let (payload, plan) = (batch.memory().of(&frame), &self.plan);
            let found = strip_datagram(payload, frame.len, protocol, source, plan.kinds, plan.depth);
            match found {
                Outcome::Inner(inner) => {
                    tally.merged += datagram.count() - 1;
                    return self.pass_inner(frame, &inner, batch, tally);
                }
                Outcome::Damaged(damage) => self.damaged[damage.index()] += 1,
                Outcome::Control | Outcome::Marker(_) => self.control += 1,
                Outcome::Plain | Outcome::Fragment(_) => {}
            }
        }
        batch.scratch.truncate(mark);
        self.restore(&datagram, batch, tally);
    }

    fn restore(&mut self, datagram: &Datagram, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        for (place, frame) in datagram.restore(batch.scratch) {
            if place.batch == self.batch && !self.plan.only {
                self.released.push((place.at, frame));
                continue;
            }
            let before_ns = batch.frames.last().map_or(self.before_ns, |before| before.time_ns);
            self.delayed += u64::from(before_ns > frame.time_ns && !self.plan.only);
            self.pass_outer(frame, batch, tally);
        }
    }

    /// Puts frames that were held back to the places that they had in the batch.
    #[cold]
    fn put_released(&mut self, frames: &mut Vec<Frame>) {
        // Those of one place stay in their order.
        self.released.sort_by_key(|(at, _)| *at);
        let (mut from, mut to) = (frames.len(), frames.len() + self.released.len());
        frames.resize(to, Frame::default());
        for (at, frame) in self.released.drain(..).rev() {
            let moved = from - at;
            frames.copy_within(at..from, to - moved);
            (from, to) = (at, to - moved - 1);
            frames[to] = frame;
        }
    }

    /// Releases the fragments of datagrams that are not complete in time.
    #[inline]
    fn expire(&mut self, (now_ns, is_last): (u64, bool), batch: &mut Batch<'_>, tally: &mut LaneTally) {
        while let Some(datagram) = self.fragments.take_expired(now_ns, is_last) {
            self.incomplete += datagram.count();
            self.restore(&datagram, batch, tally);
        }
    }

    /// Passes a frame that was not decapsulated, or counts it where only inner frames are wanted.
    fn pass_outer(&self, frame: Frame, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        if self.plan.only {
            tally.not_tunnel += 1;
        } else {
            batch.frames.push(frame);
        }
    }

    fn pass_inner(&mut self, outer: Frame, inner: &Inner, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        self.stripped += 1;
        if let Some(damage) = inner.damage {
            self.damaged[damage.index()] += 1;
        }
        let makes_ethernet = self.makes_ethernet && is_bare_ip(inner.linktype);
        let linktype = if makes_ethernet { ETHERNET.linktype } else { inner.linktype };
        let fits = self.linktype.is_none_or(|only| only == linktype);
        let Some(at) = self.sessions.find(inner.session, linktype, outer.interface) else {
            // The output cannot have more interfaces.
            self.stripped -= 1;
            return self.pass_outer(outer, batch, tally);
        };
        let interface = self.sessions.note(at, inner.sequence.filter(|_| self.has_all));
        if !fits {
            tally.unsuited += 1;
            return;
        }
        let switch_ns = match inner.time {
            Some(time) if self.plan.switch_time => time_ns(self.sessions.clock(at), &time, outer.time_ns),
            _ => None,
        };
        // Changed in place: a frame that is built first and then copied waits for its own writes, which are narrower.
        let frames = &mut *batch.frames;
        frames.push(outer);
        if let Some(frame) = frames.last_mut() {
            become_inner(frame, inner, interface, switch_ns);
        }
        if makes_ethernet {
            put_ethernet_on_last(batch);
            tally.ethernet_made += 1;
        }
    }
}

/// Puts a made Ethernet header in front of the last frame.
#[cold]
fn put_ethernet_on_last(batch: &mut Batch<'_>) {
    if let Some(mut frame) = batch.frames.pop() {
        put_ethernet(&mut frame, batch);
        batch.frames.push(frame);
    }
}

/// Makes the descriptor of a frame that of its inner frame; `switch_ns` is its time by the switch. A frame truncated by
/// a mirror has its truncated length.
#[inline]
fn become_inner(frame: &mut Frame, inner: &Inner, interface: u16, switch_ns: Option<u64>) {
    let direction = match inner.direction {
        // As seen by the switch; the direction of the outer packet does not matter.
        Some(Direction::Ingress) => 0,
        Some(Direction::Egress) => Frame::OUTGOING,
        None => Frame::NO_DIRECTION,
    };
    frame.flags = frame.flags & (Frame::HARDWARE_TIME | Frame::SCRATCH) | direction;
    if let Some(time_ns) = switch_ns {
        frame.time_ns = time_ns;
        frame.flags |= Frame::HARDWARE_TIME;
    }
    frame.start += inner.start;
    frame.len = inner.len;
    frame.wire_len = inner.wire_len.unwrap_or(inner.len);
    (frame.tpid, frame.tci) = inner.tag.unwrap_or_default();
    frame.interface = interface;
}

/// The time stamp of the switch; `None` without a known granularity.
fn time_ns(clock: &mut Clock, time: &ErspanTime, seen_ns: u64) -> Option<u64> {
    let tick_ns = time.tick_ns?;
    Some(match time.upper {
        Some(Upper::Seconds(seconds)) => {
            u64::from(seconds) * 1_000_000_000 + u64::from(time.timestamp) * u64::from(tick_ns)
        }
        _ => clock.time_ns(time.timestamp, tick_ns, seen_ns),
    })
}

impl Stage for Decap {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let mut arrived = std::mem::take(&mut self.arrived);
        std::mem::swap(batch.frames, &mut arrived);
        batch.frames.clear();
        for (at, frame) in arrived.iter().enumerate() {
            if let Some(ahead) = arrived.get(at + AHEAD) {
                let start = ahead.start as usize;
                (0..LINES_AHEAD).for_each(|line| prefetch(batch.bytes, start + line * 64));
            }
            // By the time of each frame: those of a batch from a file may be minutes apart.
            self.expire((frame.time_ns, false), batch, tally);
            self.take(*frame, batch, tally);
        }
        self.expire((batch.now_ns, batch.is_last), batch, tally);
        if !self.released.is_empty() {
            self.put_released(batch.frames);
        }
        self.before_ns = batch.frames.last().map_or(self.before_ns, |last| last.time_ns);
        self.batch += 1;
        self.arrived = arrived;
    }

    fn is_holding(&self) -> bool {
        !self.fragments.is_empty()
    }

    fn count(&self, counts: &mut Counts) {
        let mut missing = 0;
        for entry in self.sessions.all().iter().filter(|entry| entry.sequence.missing > 0) {
            missing += entry.sequence.missing;
            // A session without a packet in the output has no interface there.
            if let Some(interface) = self.interfaces.declared(entry.interface) {
                counts.session(interface).missing = entry.sequence.missing;
            }
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
            delayed: self.delayed,
            sessions: self.sessions.all().iter().map(Entry::tally).collect(),
        });
    }
}

#[cfg(test)]
mod tests;
