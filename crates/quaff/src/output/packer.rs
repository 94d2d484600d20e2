//! The packer writes frames into chunks: the only copy on their way to disk.
//!
//! A chunk holds whole blocks: no block straddles two chunks, and padding is a block of its own. So a
//! file is valid after each completed write, and chunks of several lanes can share one file.

use super::{Now, Output, OutputTally};
use crate::batch::{Frame, Memory};
use crate::buffer_pool::Supply;
use quaff_file::tally::{Counts, statistics};
use quaff_file::write::{Chunk, Format, LaneMessage, Slots};
use quaff_os::{Filling, Stop, Wakeup, prefetch};
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, PADDING_BYTES_MIN};
use quaff_wire::{Append, Record};
use rtrb::Producer;

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
    /// The lane's interface, by its position in the section.
    pub interface: u32,
    /// Chunks are padded to a multiple of this; 1 is no padding.
    pub align: usize,
    /// The processor does not read the chunks again.
    pub is_past_cache: bool,
    /// A chunk with packets in it is handed on after this time, ns.
    pub flush_ns: u64,
    /// The rotation slots, shared by all lanes.
    pub slots: Slots,
    /// Start of the capture, ns since 1970.
    pub start_ns: u64,
    /// Time after its end in which a slot may still get packets from the kernel, ns.
    pub grace_ns: u64,
    /// The packets come from files: only their own times turn slots, and no clock leaves a trace in the output, so
    /// that the same packets make the same bytes at any speed.
    pub by_packet_time: bool,
    /// Raised when the writer is waited for no longer.
    pub abandoned: Stop,
}

/// Writes one lane's frames into chunks.
#[derive(Debug)]
pub(crate) struct Packer {
    plan: PackPlan,
    supply: Supply,
    outbound: Producer<LaneMessage>,
    wakeup: Wakeup,
    open: Option<Open>,
    slot: u64,
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
}

/// The chunk that is being filled.
#[derive(Debug)]
struct Open {
    buffer: ChunkBuffer,
    packets: u64,
    first_ns: u64,
    /// CLOCK_MONOTONIC when it was opened, ns.
    since_ns: u64,
}

/// The buffer of the open chunk.
#[derive(Debug)]
struct ChunkBuffer(Filling);

impl Append for ChunkBuffer {
    #[inline(always)]
    fn append(&mut self, bytes: &[u8]) {
        self.0.append(bytes);
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
            announced_slot: slot,
            open: None,
            dropped: 0,
            statistics_ns: plan.start_ns,
            last_ns: 0,
            counts: Counts::default(),
            packed: vec![0; plan.interface as usize + 1],
            buffer_high: 0,
            plan,
        }
    }

    /// Packs frames of `memory`; returns their number until the buffer had no room. The wall time
    /// decides which rotation slots can have begun.
    pub(super) fn pack(&mut self, memory: Memory<'_>, frames: &[Frame], now: Now) -> usize {
        let Now { steady_ns: now_ns, wall_ns } = now;
        let wall_ns = if self.plan.by_packet_time { u64::MAX } else { self.slot_wall_ns(frames, wall_ns) };
        let times = (now_ns, wall_ns);
        match self.plan.format {
            Format::Pcapng => self.pack_with(memory, frames, times, pcapng::epb_bytes, pcapng::append_epb),
            Format::Pcap => self.pack_with(memory, frames, times, pcap::record_bytes, |out, _, record| {
                pcap::append_record(out, Resolution::Nanoseconds, record);
            }),
            Format::PcapUs => self.pack_with(memory, frames, times, pcap::record_bytes, |out, _, record| {
                pcap::append_record(out, Resolution::Microseconds, record);
            }),
        }
    }

    #[inline]
    fn pack_with(
        &mut self,
        memory: Memory<'_>,
        frames: &[Frame],
        (now_ns, wall_ns): (u64, u64),
        room: impl Fn(usize) -> usize,
        put: impl Fn(&mut ChunkBuffer, u32, &Record<'_>),
    ) -> usize {
        let mut next_slot_ns = self.slot_end_ns();
        for (done, frame) in frames.iter().enumerate() {
            if frame.time_ns >= next_slot_ns && wall_ns >= next_slot_ns {
                self.enter_slot(self.plan.slots.slot_of(frame.time_ns.min(wall_ns)));
                next_slot_ns = self.slot_end_ns();
            }
            if let Some(ahead) = frames.get(done + AHEAD) {
                let start = ahead.start as usize;
                (0..LINES_AHEAD).for_each(|line| prefetch(memory.bytes, start + line * 64));
            }
            let record = frame.record(memory, self.dropped);
            if !self.has_room(room(record.captured()), now_ns) {
                return done;
            }
            let Some(open) = &mut self.open else { return done };
            put(&mut open.buffer, u32::from(frame.interface), &record);
            if open.packets == 0 {
                open.first_ns = frame.time_ns;
            }
            open.packets += 1;
            if self.dropped > 0 {
                self.attribute_dropped(frame.interface);
            }
            count_one(&mut self.packed, frame.interface);
            self.last_ns = frame.time_ns;
        }
        frames.len()
    }

    /// The drops were stored with a packet of this interface, so they count as its own.
    #[cold]
    fn attribute_dropped(&mut self, interface: u16) {
        let dropped = std::mem::take(&mut self.dropped);
        if u32::from(interface) != self.plan.interface {
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
        let reserve = self.plan.align + PADDING_BYTES_MIN;
        if let Some(open) = &self.open {
            if bytes + reserve <= open.buffer.0.room() {
                return true;
            }
            self.seal();
        }
        self.open_chunk(now_ns)
    }

    fn open_chunk(&mut self, now_ns: u64) -> bool {
        // Without a writer the buffer would not return, and other lanes may need it.
        if self.is_closed() {
            return false;
        }
        let Some(buffer) = self.supply.take() else { return false };
        self.buffer_high = self.buffer_high.max(self.supply.out());
        let buffer = ChunkBuffer(Filling::new(buffer, self.plan.is_past_cache));
        self.open = Some(Open { buffer, packets: 0, first_ns: 0, since_ns: now_ns });
        true
    }

    /// Pads the open chunk and sends it to the writer.
    fn seal(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        if self.plan.format == Format::Pcapng {
            let gap = pcapng::padding_bytes(open.buffer.0.bytes(), self.plan.align);
            if gap > 0 {
                open.buffer.0.append_with(gap, pcapng::padding);
            }
        }
        let Open { buffer: ChunkBuffer(filling), packets, first_ns, .. } = open;
        let (buffer, len) = filling.finish();
        self.count_packed();
        let (slot, counts) = (self.slot, self.counts.clone());
        let in_sessions = counts.sessions.last().map_or(0, |session| usize::from(session.interface) + 1);
        let interfaces = in_sessions.max(self.packed.len());
        self.announced_slot = slot;
        self.push(LaneMessage::Chunk(Chunk { buffer, len, packets, slot, first_ns, counts, interfaces }));
    }

    /// Updates the counts by the packed packets.
    fn count_packed(&mut self) {
        self.counts.packed = self.packed.iter().sum();
        if self.plan.by_packet_time {
            self.counts.time_ns = self.last_ns;
        }
        for (interface, packed) in self.packed.iter().enumerate() {
            if *packed > 0 && interface != self.plan.interface as usize {
                self.counts.session(interface as u16).packed = *packed;
            }
        }
    }

    fn put_statistics(&mut self) {
        self.statistics_ns = self.last_ns;
        let (Format::Pcapng, Some(open)) = (self.plan.format, &mut self.open) else { return };
        let room = open.buffer.0.room().saturating_sub(self.plan.align + PADDING_BYTES_MIN);
        if room < STATISTICS_BYTES_MAX {
            return; // The counts follow at the file's end, or a second later.
        }
        let mut block = Vec::with_capacity(STATISTICS_BYTES_MAX);
        for statistics in statistics(self.plan.interface, self.plan.start_ns, &self.counts) {
            if block.len() + STATISTICS_BYTES_MAX > room {
                break;
            }
            pcapng::isb(&mut block, &statistics);
        }
        open.buffer.0.append(&block);
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

    /// Buffers of its own, and those that the packers of the same lane can use as well.
    pub(super) fn own_and_common_buffers(&self) -> (u64, u64) {
        (self.supply.share as u64, self.supply.common_buffers() as u64)
    }

    /// Returns whether no frame has room, nor will have until the writer returns a buffer. Otherwise more are being
    /// populated.
    pub(super) fn is_full(&self) -> bool {
        self.supply.is_exhausted()
    }

    /// Returns whether a chunk that is not full may go to the writer. While earlier ones wait there it would wait too, so
    /// the lane's last buffer stays open then: a lane with few packets does not use up the buffer of the others.
    fn may_flush(&self) -> bool {
        self.supply.has_own() || self.supply.out() <= 1
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
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], now: Now) -> usize {
        self.pack(memory, frames, now)
    }

    fn lose(&mut self, frames: &[Frame]) {
        self.counts.lost += frames.len() as u64;
        self.dropped += frames.len() as u64;
    }

    fn note_dropped(&mut self, packets: u64) {
        self.dropped += packets;
        self.counts.kernel_dropped += packets;
    }

    /// Writes statistics, flushes, and enters the next slot on an idle link.
    fn tick(&mut self, now: Now, is_idle: bool, count: &dyn Fn(&mut Counts)) {
        let Now { steady_ns: now_ns, wall_ns } = now;
        if !self.plan.by_packet_time {
            self.plan.slots.follow(self.slot, wall_ns);
        }
        // A clock that was set back begins a new second.
        if self.last_ns > 0 {
            self.statistics_ns = self.statistics_ns.min(self.last_ns);
        }
        let statistics_due = self.last_ns >= self.statistics_ns + STATISTICS_NS && !self.plan.by_packet_time;
        let flush_due = self.open.as_ref().is_some_and(|open| now_ns >= self.flush_at_ns(open));
        let flush_due = flush_due && self.may_flush();
        let slot_due = is_idle
            && !self.plan.by_packet_time
            && wall_ns >= self.slot_end_ns().saturating_add(self.plan.grace_ns);
        if !(statistics_due || flush_due || slot_due) {
            return;
        }
        count(&mut self.counts);
        self.counts.time_ns = wall_ns;
        self.count_packed();
        if statistics_due {
            self.put_statistics();
        }
        if flush_due {
            self.seal();
        }
        if slot_due {
            self.enter_slot(self.plan.slots.slot_of(wall_ns));
        }
        self.announce_slot();
    }

    fn patience_ns(&self, now: Now) -> u64 {
        let Now { steady_ns, wall_ns } = now;
        let flush =
            self.open.as_ref().map_or(u64::MAX, |open| self.flush_at_ns(open).saturating_sub(steady_ns));
        let flush = if flush == 0 && !self.may_flush() { HELD_NS } else { flush };
        if self.plan.by_packet_time {
            return flush;
        }
        let slot = self.slot_end_ns().saturating_add(self.plan.grace_ns).saturating_sub(wall_ns);
        flush.min(slot)
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
