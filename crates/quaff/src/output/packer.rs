//! The packer writes frames into chunks: the only copy on their way to disk.
//!
//! A chunk holds whole blocks: no block straddles two chunks, and padding is a block of its own. So a
//! file is valid after each completed write, and chunks of several lanes can share one file.

use super::backlog::Backlog;
use super::{Arrival, Now, Output, OutputTally, Pause};
use crate::batch::{Frame, Memory};
use crate::buffer_pool::Supply;
use quaff_file::Interfaces;
use quaff_file::tally::{Counts, statistics};
use quaff_file::write::{Chunk, Format, LaneMessage, Part, Slots};
use quaff_os::{Cursor, Filling, Gauge, Stop, Wakeup, prefetch};
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, PADDING_BYTES_MIN};
use quaff_wire::{Append, Record};
use rtrb::Producer;
use std::cell::Cell;
use std::sync::Arc;

/// Interval of counters in the file while packets arrive.
const STATISTICS_NS: u64 = 1_000_000_000;
/// Room for an Interface Statistics Block, its comment included.
const STATISTICS_BYTES_MAX: usize = 224;
/// Wait before a chunk that is due is looked at again, while sealing it would be of no use, ns.
const HELD_NS: u64 = 10_000_000;
/// Frames ahead whose first bytes are prefetched, and cache lines of each.
const AHEAD: usize = 3;
const LINES_AHEAD: usize = 4;
/// Packets whose time is further ahead than this are ignored for rotation slots.
const CLOCK_AHEAD_NS: u64 = 5_000_000_000;
/// Largest age of packets, which may have waited in the kernel's ring for a stalled disk.
const CLOCK_BEHIND_NS: u64 = 300_000_000_000;

/// The parameters of a packer.
#[derive(Debug, Clone)]
pub(crate) struct PackPlan {
    /// The format of the file.
    pub format: Format,
    /// The lane.
    pub lane: usize,
    /// The lane's interface; `None`: a spare lane has none yet.
    pub own: Option<u16>,
    /// Know the interface of a spare lane.
    pub spares: Option<Interfaces>,
    /// Other lanes have the same interface, so that its counters are the writer's to add up.
    pub is_shared: bool,
    /// Chunks are padded to a multiple of this; 1 is no padding.
    pub align: usize,
    /// The processor does not read the chunks again.
    pub is_past_cache: bool,
    /// A chunk with packets in it is handed on after this time, ns.
    pub flush_ns: u64,
    /// The rotation slots, shared by all lanes.
    pub slots: Slots,
    /// A chunk ends after each of so many packets, so that a file can.
    pub rotate_packets: u64,
    /// An option that each packet gets after those that it has, a comment; pcapng only. Empty for none.
    pub packet_comment: Arc<[u8]>,
    /// Start of the capture, ns since 1970.
    pub start_ns: u64,
    /// Time after its end in which a slot may still get packets from the kernel, ns.
    pub grace_ns: u64,
    /// The packets come from files: only their own times turn slots, and no clock leaves a trace in the output, so
    /// that the same packets make the same bytes at any speed.
    pub by_packet_time: bool,
    /// Interval at which a lane without packets marks its time for an output that orders those of all lanes, ns.
    pub mark_ns: Option<u64>,
    /// Raised when the writer is waited for no longer.
    pub abandoned: Stop,
}

/// Writes one lane's frames into chunks.
#[derive(Debug)]
pub(crate) struct Packer {
    plan: PackPlan,
    /// The lane's interface; `None` for a spare lane before its first packet.
    own: Option<u16>,
    supply: Supply,
    outbound: Producer<LaneMessage>,
    wakeup: Wakeup,
    open: Option<Open>,
    slot: u64,
    /// Packets until `rotate_packets`.
    left: u64,
    /// The slot that was announced to the writer.
    announced_slot: u64,
    /// Packets lost since the last one that was packed; goes into the next one's `epb_dropcount`.
    dropped: u64,
    statistics_ns: u64,
    last_ns: u64,
    counts: Counts,
    /// Packets packed of each interface, by number.
    packed: Vec<u64>,
    buffer_high: usize,
    backlog: Backlog,
    /// The last frames offered had no room.
    has_waiting: bool,
    marks: Marks,
}

/// The marks for an output that orders packets.
#[derive(Debug, Default)]
struct Marks {
    /// No packet before this time follows those that were taken, ns since 1970.
    passed_ns: u64,
    /// The last mark, and its CLOCK_MONOTONIC, ns.
    sent_ns: u64,
    at_ns: u64,
}

/// The chunk that is being filled.
#[derive(Debug)]
struct Open {
    buffer: Filling,
    packets: u64,
    first_ns: u64,
    /// CLOCK_MONOTONIC when it was opened, or its last part ended, ns.
    since_ns: u64,
    /// The parts before `packets` and `first_ns`, each of a flush interval.
    parts: Vec<Part>,
}

impl Open {
    /// Fills it up to the alignment.
    fn pad(&mut self, plan: &PackPlan) {
        if plan.format == Format::Pcapng {
            let gap = pcapng::padding_bytes(self.buffer.bytes(), plan.align);
            if gap > 0 {
                self.buffer.append_with(gap, pcapng::padding);
            }
        }
    }

    /// Appends the first frame of a run, which has room, and those after it as far as they belong into this chunk;
    /// returns their number. What changes with each packet stays in registers.
    #[inline(always)]
    fn append(
        &mut self,
        run: &Run<'_>,
        packed: &mut Vec<u64>,
        room: impl Fn(&Frame, usize) -> usize,
        put: impl Fn(&mut ChunkEnd<'_, '_>, &Frame, &Record<'_>),
    ) -> usize {
        // A drop count belongs to one packet.
        let frames = if run.dropped > 0 { &run.frames[..1] } else { run.frames };
        let mut done = 0;
        self.buffer.append(|end| {
            for frame in frames {
                if let Some(ahead) = frames.get(done + AHEAD) {
                    let start = ahead.start as usize;
                    (0..LINES_AHEAD).for_each(|line| prefetch(run.memory.bytes, start + line * 64));
                }
                let record = frame.record(run.memory, run.dropped);
                let has_room = room(frame, record.captured()) + run.reserve <= end.room();
                if done > 0 && (frame.time_ns >= run.limit_ns || !has_room) {
                    break;
                }
                put(&mut ChunkEnd(end), frame, &record);
                count_one(packed, frame.interface);
                done += 1;
            }
        });
        if self.packets == 0 {
            self.first_ns = frames[0].time_ns;
        }
        self.packets += done as u64;
        done
    }

    /// The time of its first packet, ns since 1970.
    fn oldest_ns(&self) -> u64 {
        self.parts.first().map_or(self.first_ns, |part| part.first_ns)
    }
}

/// Frames that may go into one chunk.
struct Run<'a> {
    memory: Memory<'a>,
    /// At least one.
    frames: &'a [Frame],
    /// Packets lost before the first frame.
    dropped: u64,
    /// Frames from this time on, but the first, belong into another chunk, ns since 1970.
    limit_ns: u64,
    /// Bytes that stay free in the chunk.
    reserve: usize,
}

/// The end of the open chunk, as the place of a record.
struct ChunkEnd<'a, 'b>(&'a mut Cursor<'b>);

impl Append for ChunkEnd<'_, '_> {
    #[inline(always)]
    fn take(&mut self, bytes: usize) -> &mut [u8] {
        self.0.take(bytes)
    }

    #[inline(always)]
    fn append_packet(&mut self, bytes: &[u8]) {
        self.0.append_packet(bytes);
    }
}

impl Packer {
    /// A packer that takes buffers from `supply`, hands chunks to `outbound`, and signals `wakeup`.
    pub(crate) fn new(
        plan: PackPlan,
        supply: Supply,
        outbound: Producer<LaneMessage>,
        wakeup: Wakeup,
    ) -> Self {
        let slot = plan.slots.slot_of(plan.start_ns);
        Self {
            supply,
            outbound,
            wakeup,
            slot,
            left: plan.rotate_packets,
            announced_slot: slot,
            open: None,
            dropped: 0,
            statistics_ns: plan.start_ns,
            last_ns: 0,
            counts: Counts::default(),
            packed: plan.own.map_or_else(Vec::new, |own| vec![0; usize::from(own) + 1]),
            own: plan.own,
            buffer_high: 0,
            backlog: Backlog::default(),
            has_waiting: false,
            marks: Marks::default(),
            plan,
        }
    }

    /// The time of the oldest packet that waits for a buffer, ns since 1970; 0 if none does.
    pub(crate) fn backlog(&self) -> Arc<Gauge> {
        self.backlog.gauge()
    }

    /// Packs frames of `memory`; returns their number until the buffer had no room. The wall time
    /// decides which rotation slots can have begun.
    pub(super) fn pack(&mut self, memory: Memory<'_>, frames: &[Frame], now: Now) -> usize {
        let Now { steady_ns: now_ns, wall_ns } = now;
        if self.own.is_none() {
            self.own = self.plan.spares.as_ref().and_then(|spares| spares.of_lane(self.plan.lane));
        }
        let times = if self.plan.by_packet_time {
            (now_ns, u64::MAX)
        } else {
            self.limit_span(frames, now);
            (now_ns, self.slot_wall_ns(frames, wall_ns))
        };
        let done = match self.plan.format {
            Format::Pcapng if !self.plan.packet_comment.is_empty() => {
                self.pack_with_comment(memory, frames, times)
            }
            Format::Pcapng if !memory.ids.is_empty() => self.pack_with_ids(memory, frames, times),
            Format::Pcapng if memory.options.is_empty() => {
                let room = |_: &Frame, captured| pcapng::epb_bytes(captured);
                self.pack_with(memory, frames, times, room, |out, frame, record| {
                    pcapng::append_epb(out, u32::from(frame.interface), record);
                })
            }
            Format::Pcapng => self.pack_with_options(memory, frames, times),
            Format::Pcap => self.pack_with(memory, frames, times, pcap_room, |out, _, record| {
                pcap::append_record(out, Resolution::Nanoseconds, record);
            }),
            Format::PcapUs => self.pack_with(memory, frames, times, pcap_room, |out, _, record| {
                pcap::append_record(out, Resolution::Microseconds, record);
            }),
        };
        if !self.plan.by_packet_time {
            self.note_backlog(&frames[done..], now);
        }
        done
    }

    /// Packs a batch of which some frames have options of their own.
    fn pack_with_options(&mut self, memory: Memory<'_>, frames: &[Frame], times: (u64, u64)) -> usize {
        let bytes = |frame: &Frame| frame.options(memory).map_or(0, |options| options.bytes.len());
        let room = |frame: &Frame, captured| pcapng::epb_bytes(captured) + bytes(frame);
        self.pack_with(memory, frames, times, room, |out, frame, record| match frame.options(memory) {
            Some(of) => pcapng::append_epb_with(out, frame.interface.into(), record, of.flags, &of.bytes),
            None => pcapng::append_epb(out, frame.interface.into(), record),
        })
    }

    /// Packs frames that get a comment beside their options and numbers.
    fn pack_with_comment(&mut self, memory: Memory<'_>, frames: &[Frame], times: (u64, u64)) -> usize {
        let comment = self.plan.packet_comment.clone();
        let next_id = ids_of(memory, frames);
        let bytes = |frame: &Frame| frame.options(memory).map_or(0, |options| options.bytes.len());
        let added_bytes = comment.len() + pcapng::PACKET_ID_BYTES;
        let room = |frame: &Frame, captured| pcapng::epb_bytes(captured) + bytes(frame) + added_bytes;
        let scratch = Cell::new(Vec::new());
        self.pack_with(memory, frames, times, room, |out, frame, record| {
            let (kept, mut options) = (frame.options(memory), scratch.take());
            options.clear();
            match (kept, next_id()) {
                (None, 0) => {}
                (Some(kept), 0) => options.extend_from_slice(&kept.bytes),
                (kept, id) => options.extend(kept.cloned().unwrap_or_default().bytes_with_id(id)),
            }
            options.extend_from_slice(&comment);
            let flags = kept.map_or(record.direction, |kept| kept.flags);
            pcapng::append_epb_with(out, frame.interface.into(), record, flags, &options);
            scratch.set(options);
        })
    }

    /// Packs frames that have numbers: those of the last ones of the batch.
    fn pack_with_ids(&mut self, memory: Memory<'_>, frames: &[Frame], times: (u64, u64)) -> usize {
        let next_id = ids_of(memory, frames);
        let bytes = |frame: &Frame| frame.options(memory).map_or(0, |options| options.bytes.len());
        let room =
            |frame: &Frame, captured| pcapng::epb_bytes(captured) + bytes(frame) + pcapng::PACKET_ID_BYTES;
        self.pack_with(memory, frames, times, room, |out, frame, record| {
            let interface = frame.interface.into();
            match (frame.options(memory), next_id()) {
                (None, 0) => pcapng::append_epb(out, interface, record),
                (None, id) => pcapng::append_epb_with_id(out, interface, record, id),
                (Some(of), 0) => pcapng::append_epb_with(out, interface, record, of.flags, &of.bytes),
                (Some(of), id) => {
                    pcapng::append_epb_with(out, interface, record, of.flags, &of.bytes_with_id(id));
                }
            }
        })
    }

    /// Ends a chunk or its part that spans the flush interval already: its packets have waited in the kernel's ring.
    fn limit_span(&mut self, frames: &[Frame], now: Now) {
        let spans = |first: &Frame, open: &Open| {
            open.packets > 0 && first.time_ns.saturating_sub(open.first_ns) >= self.plan.flush_ns
        };
        if frames.first().zip(self.open.as_ref()).is_some_and(|(first, open)| spans(first, open)) {
            self.flush(now);
        }
    }

    /// Sends what is due, or ends a part of it if the chunk may not go to the writer yet.
    fn flush(&mut self, now: Now) {
        if self.may_flush() { self.seal() } else { self.end_part(now) }
    }

    /// Updates the backlog after a batch, of which `waiting` had no room. Once packets are recent again, they are sent
    /// at once, and the backlog ends.
    /// Notes what precedes the next packets, for the counters at their place in the file.
    pub(crate) fn note(&mut self, arrival: &Arrival) {
        self.dropped += arrival.dropped;
        self.counts.kernel_dropped += arrival.dropped;
        self.counts.names = arrival.names;
    }

    fn note_backlog(&mut self, waiting: &[Frame], now: Now) {
        self.has_waiting = !waiting.is_empty();
        if let Some(first) = waiting.first() {
            self.backlog.note(first.time_ns, now);
        } else if self.backlog.is_any() {
            if self.has_ended_backlog(now, false) {
                self.end_backlog();
            } else if let Some(open) = &self.open {
                self.backlog.note(open.oldest_ns(), now);
            }
        }
    }

    /// Returns whether nothing waits on the lane any more but the open chunk, which may go to the writer.
    fn has_ended_backlog(&self, now: Now, is_idle: bool) -> bool {
        let is_quiet = || self.open.is_none() && self.backlog.is_quiet(self.plan.flush_ns, now);
        let has_caught_up = || self.backlog.has_caught_up(self.last_ns, self.plan.flush_ns, now);
        let is_over = is_idle || is_quiet() || !self.has_waiting && has_caught_up();
        is_over && (self.open.is_none() || self.may_flush())
    }

    fn end_backlog(&mut self) {
        self.seal();
        self.backlog.end(&self.wakeup);
    }

    #[inline]
    fn pack_with(
        &mut self,
        memory: Memory<'_>,
        frames: &[Frame],
        (now_ns, wall_ns): (u64, u64),
        room: impl Fn(&Frame, usize) -> usize,
        put: impl Fn(&mut ChunkEnd<'_, '_>, &Frame, &Record<'_>),
    ) -> usize {
        let reserve = self.reserve();
        let mut done = 0;
        while let Some(frame) = frames.get(done) {
            let mut limit_ns = self.next_slot_ns(wall_ns);
            if frame.time_ns >= limit_ns {
                self.enter_slot(self.plan.slots.slot_of(frame.time_ns.min(wall_ns)));
                limit_ns = self.next_slot_ns(wall_ns);
            }
            if self.left == 0 {
                self.seal();
                self.left = self.plan.rotate_packets;
            }
            if !self.has_room(room(frame, frame.record(memory, 0).captured()), now_ns) {
                break;
            }
            let Some(open) = &mut self.open else { break };
            let end = (done as u64).saturating_add(self.left).min(frames.len() as u64) as usize;
            let run = Run { memory, frames: &frames[done..end], dropped: self.dropped, limit_ns, reserve };
            let appended = open.append(&run, &mut self.packed, &room, &put);
            self.left -= appended as u64;
            done += appended;
            self.last_ns = frames[done - 1].time_ns;
            if self.dropped > 0 {
                self.attribute_dropped(frame.interface);
            }
        }
        done
    }

    /// The time from which packets are of a later slot, ns since 1970; `u64::MAX` while that cannot have begun.
    fn next_slot_ns(&self, wall_ns: u64) -> u64 {
        let end_ns = self.slot_end_ns();
        if wall_ns >= end_ns { end_ns } else { u64::MAX }
    }

    /// The drops were stored with a packet of this interface, so they count as its own.
    #[cold]
    fn attribute_dropped(&mut self, interface: u16) {
        let dropped = std::mem::take(&mut self.dropped);
        if Some(interface) != self.own {
            self.counts.session(interface).dropped += dropped;
        }
    }

    /// The time until which slots can have begun. A wrong clock (of an adapter that counts TAI, or one that was
    /// never set) is ignored: then the time of this machine decides.
    fn slot_wall_ns(&mut self, frames: &[Frame], wall_ns: u64) -> u64 {
        self.plan.slots.follow(self.slot, wall_ns);
        let is_off = frames.first().is_some_and(|frame| {
            frame.time_ns > wall_ns.saturating_add(CLOCK_AHEAD_NS)
                || wall_ns > frame.time_ns.saturating_add(CLOCK_BEHIND_NS)
        });
        if is_off && wall_ns >= self.slot_end_ns() {
            self.enter_slot(self.plan.slots.slot_of(wall_ns));
        }
        wall_ns
    }

    /// Ensures that the open chunk can take `bytes` more and its padding.
    #[inline]
    fn has_room(&mut self, bytes: usize, now_ns: u64) -> bool {
        if let Some(open) = &self.open {
            if bytes + self.reserve() <= open.buffer.room() {
                return true;
            }
            self.seal();
        }
        self.open_chunk(now_ns)
    }

    /// Bytes that stay free in a chunk for its padding.
    fn reserve(&self) -> usize {
        self.plan.align + PADDING_BYTES_MIN
    }

    fn open_chunk(&mut self, now_ns: u64) -> bool {
        // Without a writer the buffer would not return, and other lanes may need it.
        if self.is_closed() {
            return false;
        }
        let Some(buffer) = self.supply.take() else { return false };
        self.buffer_high = self.buffer_high.max(self.supply.out());
        let buffer = Filling::new(buffer, self.plan.is_past_cache);
        let parts = Vec::new();
        self.open = Some(Open { buffer, packets: 0, first_ns: 0, since_ns: now_ns, parts });
        true
    }

    /// Pads the open chunk and sends it to the writer.
    fn seal(&mut self) {
        let interfaces = self.complete_counts();
        let Some(mut open) = self.open.take() else { return };
        open.pad(&self.plan);
        let Open { buffer: filling, packets, first_ns, mut parts, .. } = open;
        let (buffer, len) = filling.finish();
        let (slot, counts) = (self.slot, self.counts.clone());
        self.announced_slot = slot;
        let mut chunk = Chunk { buffer, len, packets, slot, first_ns, counts, interfaces, before: None };
        if let Some(last) = parts.pop_if(|part| part.end == chunk.len) {
            (chunk.packets, chunk.first_ns) = (last.packets, last.first_ns);
        }
        let is_whole = parts.is_empty();
        self.push(if is_whole { LaneMessage::Chunk(chunk) } else { LaneMessage::Parts(chunk, parts) });
    }

    /// Ends a part of the open chunk, which waits until it may go to the writer. What is newer and of another lane
    /// waits for it.
    fn end_part(&mut self, now: Now) {
        let interfaces = self.complete_counts();
        let Some(open) = self.open.as_mut().filter(|open| open.packets > 0) else { return };
        open.pad(&self.plan);
        let (packets, first_ns, counts) = (open.packets, open.first_ns, self.counts.clone());
        open.parts.push(Part { end: open.buffer.bytes(), packets, first_ns, counts, interfaces });
        (open.packets, open.first_ns, open.since_ns) = (0, 0, now.steady_ns);
        let oldest_ns = open.oldest_ns();
        self.backlog.note(oldest_ns, now);
    }

    /// Updates the counts for the open chunk; returns the number of interfaces that must be described before it.
    fn complete_counts(&mut self) -> usize {
        if self.open.is_some() {
            self.count_packed();
        }
        let in_sessions = self.counts.sessions.last().map_or(0, |session| usize::from(session.interface) + 1);
        in_sessions.max(self.packed.len())
    }

    /// Updates the counts by the packed packets.
    fn count_packed(&mut self) {
        self.counts.packed = self.packed.iter().sum();
        if self.plan.by_packet_time {
            self.counts.time_ns = self.last_ns;
        }
        for (interface, packed) in self.packed.iter().enumerate() {
            if *packed > 0 && Some(interface as u16) != self.own {
                self.counts.session(interface as u16).packed = *packed;
            }
        }
    }

    fn put_statistics(&mut self) {
        self.statistics_ns = self.last_ns;
        if self.plan.is_shared {
            return;
        }
        let reserve = self.reserve();
        let (Format::Pcapng, Some(own), Some(open)) = (self.plan.format, self.own, &mut self.open) else {
            return;
        };
        let room = open.buffer.room().saturating_sub(reserve);
        if room < STATISTICS_BYTES_MAX {
            return; // The counts follow at the file's end, or a second later.
        }
        let mut block = Vec::with_capacity(STATISTICS_BYTES_MAX);
        for statistics in statistics(own.into(), self.plan.start_ns, &self.counts) {
            if block.len() + STATISTICS_BYTES_MAX > room {
                break;
            }
            pcapng::isb(&mut block, &statistics);
        }
        open.buffer.append_with(block.len(), |out| out.copy_from_slice(&block));
    }

    /// Enters a later slot: a packet of an earlier time does not reopen a file.
    fn enter_slot(&mut self, slot: u64) {
        if slot > self.slot {
            self.seal();
            self.slot = slot;
        }
    }

    fn announce_slot(&mut self) {
        if self.slot > self.announced_slot && self.open.is_some() {
            // A mark would overtake the packets of the open chunk, which announces the slot itself.
            return self.seal();
        }
        // Marks leave room for every buffer and for the end; otherwise they are sent later.
        if self.slot > self.announced_slot && self.outbound.slots() > self.supply.most + 1 {
            self.announced_slot = self.slot;
            self.push(LaneMessage::Slot(self.slot, self.counts.clone()));
        }
    }

    /// Marks the time up to which the writer has all packets, where nothing else shows it.
    fn send_mark(&mut self, now_ns: u64) {
        let Some(interval_ns) = self.plan.mark_ns else { return };
        let has_packets = self.open.is_some() || self.has_waiting;
        let is_due = now_ns >= self.marks.at_ns.saturating_add(interval_ns);
        let has_room = self.outbound.slots() > self.supply.most + 1;
        if !has_packets && is_due && has_room && self.marks.passed_ns != self.marks.sent_ns {
            (self.marks.sent_ns, self.marks.at_ns) = (self.marks.passed_ns, now_ns);
            self.push(LaneMessage::Mark(self.marks.passed_ns));
        }
    }

    /// Buffers of its own, and those that the packers of the same lane can use as well.
    pub(super) fn own_and_common_buffers(&self) -> (u64, u64) {
        (self.supply.share as u64, self.supply.common_buffers() as u64)
    }

    /// Returns whether no frame has room, nor will have until the writer returns a buffer. Otherwise more are being
    /// populated.
    pub(super) fn is_full(&self) -> bool {
        self.supply.is_exhausted()
    }

    /// Returns whether a chunk that is not full may go to the writer. While earlier ones wait there it would wait too,
    /// so the lane's last buffer stays open then: a lane with few packets does not use up the buffer of the others.
    fn may_flush(&self) -> bool {
        self.supply.has_own() || self.supply.out() <= 1
    }

    /// Returns whether the open chunk, or a part of it, is to be ended.
    fn is_flush_due(&self, now_ns: u64) -> bool {
        let Some(open) = &self.open else { return false };
        let is_late = now_ns >= self.flush_at_ns(open);
        match self.may_flush() {
            true => is_late || !open.parts.is_empty(),
            // Files are read by one lane, so their order is that of their packets.
            false => is_late && open.packets > 0 && !self.plan.by_packet_time,
        }
    }

    fn flush_at_ns(&self, open: &Open) -> u64 {
        open.since_ns.saturating_add(self.plan.flush_ns)
    }

    fn slot_end_ns(&self) -> u64 {
        self.plan.slots.end_ns(self.slot)
    }

    fn push(&mut self, message: LaneMessage) {
        let pushed = self.outbound.push(message);
        assert!(
            pushed.is_ok(),
            "the ring to the writer has a place for every buffer, for marks, and for the end"
        );
        self.wakeup.signal();
    }
}

impl Output for Packer {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], arrival: Arrival) -> usize {
        self.note(&arrival);
        self.pack(memory, frames, arrival.now)
    }

    fn lose(&mut self, frames: &[Frame]) {
        self.counts.lost += frames.len() as u64;
        self.dropped += frames.len() as u64;
        if let Some(last) = frames.last() {
            self.backlog.skip_to(last.time_ns);
        }
        self.has_waiting = false;
    }

    /// Writes statistics, flushes, and enters the next slot on an idle link.
    fn tick(&mut self, pause: Pause, count: &dyn Fn(&mut Counts)) {
        let Pause { now, is_idle, passed_ns } = pause;
        let Now { steady_ns: now_ns, wall_ns } = now;
        self.marks.passed_ns = passed_ns.unwrap_or(self.marks.passed_ns);
        if !self.plan.by_packet_time {
            self.plan.slots.follow(self.slot, wall_ns);
        }
        // A clock that was set back begins a new second.
        if self.last_ns > 0 {
            self.statistics_ns = self.statistics_ns.min(self.last_ns);
        }
        let statistics_due = self.last_ns >= self.statistics_ns + STATISTICS_NS && !self.plan.by_packet_time;
        let flush_due = self.is_flush_due(now_ns);
        let backlog_ends = self.backlog.is_any() && self.has_ended_backlog(now, is_idle);
        let slot_due = is_idle
            && !self.plan.by_packet_time
            && wall_ns >= self.slot_end_ns().saturating_add(self.plan.grace_ns);
        if !(statistics_due || flush_due || slot_due || backlog_ends) {
            return self.send_mark(now_ns);
        }
        count(&mut self.counts);
        self.counts.time_ns = wall_ns;
        self.count_packed();
        if statistics_due {
            self.put_statistics();
        }
        if flush_due {
            self.flush(now);
        }
        if backlog_ends {
            self.end_backlog();
        }
        if slot_due {
            self.enter_slot(self.plan.slots.slot_of(wall_ns));
        }
        self.announce_slot();
        self.send_mark(now_ns);
    }

    fn patience_ns(&self, now: Now) -> u64 {
        let Now { steady_ns, wall_ns } = now;
        let flush =
            self.open.as_ref().map_or(u64::MAX, |open| self.flush_at_ns(open).saturating_sub(steady_ns));
        let flush = if self.backlog.is_any() { flush.min(HELD_NS) } else { flush };
        let is_held = flush == 0 && !self.may_flush();
        let flush = if is_held { HELD_NS } else { flush };
        if self.plan.by_packet_time {
            return flush;
        }
        let slot = self.slot_end_ns().saturating_add(self.plan.grace_ns).saturating_sub(wall_ns);
        flush.min(slot).min(self.plan.mark_ns.unwrap_or(u64::MAX))
    }

    /// Sends the rest.
    fn finish(&mut self, wall_ns: u64, count: &dyn Fn(&mut Counts)) {
        count(&mut self.counts);
        self.counts.time_ns = wall_ns;
        self.seal();
        self.count_packed();
        self.push(LaneMessage::End(self.counts.clone()));
    }

    /// Returns whether the writer has ended, or is waited for no longer.
    fn is_closed(&self) -> bool {
        self.outbound.is_abandoned() || self.plan.abandoned.raised()
    }

    fn tally(&self) -> OutputTally {
        OutputTally {
            taken: self.counts.packed,
            lost: self.counts.lost,
            pool_buffers: self.supply.most as u64,
            high_buffers: self.buffer_high as u64,
        }
    }
}

/// The numbers of the last frames of a batch, one after another; 0 for none.
fn ids_of(memory: Memory<'_>, frames: &[Frame]) -> impl Fn() -> u64 {
    let next = Cell::new(memory.ids.len().saturating_sub(frames.len()));
    move || memory.ids.get(next.replace(next.get() + 1)).copied().unwrap_or(0)
}

fn pcap_room(_: &Frame, captured: usize) -> usize {
    pcap::record_bytes(captured)
}

#[inline]
fn count_one(packed: &mut Vec<u64>, interface: u16) {
    match packed.get_mut(usize::from(interface)) {
        Some(packed) => *packed += 1,
        None => {
            packed.resize(usize::from(interface) + 1, 0);
            packed[usize::from(interface)] = 1;
        }
    }
}

#[cfg(test)]
mod tests;
