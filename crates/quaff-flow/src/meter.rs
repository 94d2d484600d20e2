//! The meter of one lane: packets in batches, records out, every packet accounted for.
//!
//! A batch passes three loops: the first reads the headers and hashes the keys ([`crate::reader`]); the second looks
//! up the index, whose lines, and then the records, the processor loads in parallel; the third meters the packets one
//! after the other. Only the third changes anything, so the records are the same for any size of batch. The last two
//! alternate by groups of packets: while one group is metered, the records of the next one are being loaded.
//!
//! The rules, which `rules.rs`, `key.rs` and `fragments.rs` implement:
//!
//! - A packet whose IP header is not found is `not_ip`. One whose IP header is damaged, or whose ports (TCP, UDP, SCTP:
//!   4 bytes; ICMP: type and code) are not in the captured bytes of its datagram, is `truncated`.
//! - Bytes are those of the IP header's own length; where that is 0, those on the wire from the IP header on.
//! - Ends are addresses and ports. ICMP has type and code in the place of both ports; in a biflow a reply counts as its
//!   request (echo, timestamp, information, address mask, node information).
//! - A flow is due an idle time after its last packet; a closed TCP flow a linger time after it. Its piece is due an
//!   active time after its first packet. A packet at or after a due time belongs to the next piece, or, if the flow is
//!   due, to another conversation. Of two due times the earlier decides the reason, of equal ones idle.
//! - TCP is closed by RST or by FIN of both ends (in a uniflow, and where a host talks to itself on one port, by
//!   either), and another connection begins, as [`Connection`](quaff_wire::net::agreement::Connection) decides by what
//!   both ends acknowledge.
//! - The initiator is decided by the first packet of a conversation: sender of SYN, receiver of SYN-ACK, sender of an
//!   ICMP request or receiver of a reply, receiver of a packet from a port below 1024 to one from 32768, otherwise the
//!   sender. In its first piece a SYN that comes later is the stronger evidence. Later pieces keep it.
//! - At the limit a flow leaves that had no packet for a whole round of the table; of flows of one packet, the oldest.
//!   Where 64 in a row had some, the one of them leaves whose last packet is the oldest.
//! - Times are compared with the clock of the input ([`crate::packet::Clock`]), which never goes back in an era.

mod evict;
#[cfg(test)]
mod tests;

use crate::extras::{Body, ExtrasTable};
use crate::fragments::{FirstFragment, FragmentLimits, Fragments, Held};
use crate::headers::{Headers, read};
use crate::key::Keys;
use crate::ledger::FlowLedger;
use crate::packet::{Clock, Instant, Packet};
use crate::plan::{MeterPlan, Sampling};
use crate::reader::{HeaderBatch, HeaderReader};
use crate::record::{Direction, EndReason, FlowRecord, FlowSink, InitiatorRule};
use crate::rules::{self, Due};
use crate::table::{Counters, FIXED_BYTES, FLOW_BYTES, Hot, Pages, State, Table};
use crate::wheel::{NONE, WHEEL_BYTES, Wheel};
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::agreement::{FIN, RST, SYN};

/// Maximum packets whose headers are read, and whose lines of the index are loaded, before the first is metered.
const BATCH: usize = 64;
/// Packets that are metered while the records of the next ones are loaded.
const GROUP: usize = 16;
/// Distance, in flows, at which lines of the index are prefetched before the end of a flow. The wheel prefetches
/// records more than twice as far ahead.
const LOOKS_AHEAD: usize = 3;
/// Maximum records passed to a sink at a time.
const RECORDS: usize = 256;

/// A packet that the meter does not look into, beyond its headers.
static NOT_KEPT: Packet<'static> = Packet {
    bytes: &[],
    time_ns: 0,
    now: None,
    wire_bytes: 0,
    linktype: 0,
    interface: 0,
    tag: None,
    tunnel: 0,
};

/// At most the reciprocal of this, as a part of a meter's memory, is for fragments.
const FRAGMENTS_PART: u64 = 8;

/// The number of flows for which the memory of a plan has room.
pub fn room(plan: &MeterPlan) -> u64 {
    let needs = Needs::of(plan);
    plan.bytes_max.saturating_sub(needs.fixed_bytes) / needs.flow_bytes
}

/// The memory that a meter needs.
struct Needs {
    extras: Option<ExtrasTable>,
    fragments: FragmentLimits,
    pages: Pages,
    /// Bytes without flows, and bytes per flow.
    fixed_bytes: u64,
    flow_bytes: u64,
}

impl Needs {
    fn of(plan: &MeterPlan) -> Self {
        let extras = plan.extras.is_any().then(|| ExtrasTable::new(plan.extras));
        let fragments = FragmentLimits::within(plan.bytes_max / FRAGMENTS_PART);
        let flow_bytes = FLOW_BYTES + extras.as_ref().map_or(0, ExtrasTable::flow_bytes);
        let pages = Pages::of(plan.bytes_max.min(u64::from(plan.flows_max) * FLOW_BYTES));
        let fixed_bytes = FIXED_BYTES + WHEEL_BYTES + pages.spare_bytes() + fragments.memory_bytes();
        Self { extras, fragments, pages, fixed_bytes, flow_bytes }
    }
}

/// The meter of one lane.
pub struct Meter {
    plan: MeterPlan,
    table: Table,
    wheel: Wheel,
    fragments: Fragments,
    reader: HeaderReader,
    extras: Option<ExtrasTable>,
    now: Instant,
    /// The next record that is considered for leaving when there is no room.
    hand: u32,
    /// No flow or fragment is due before this time, ns.
    next_event_ns: u64,
    batch: HeaderBatch,
    records: Vec<FlowRecord>,
    ledger: FlowLedger,
}

impl Meter {
    /// A meter with this plan. `secret` is the key of the table's hash: random, and unknown to those who send packets.
    pub fn new(plan: MeterPlan, secret: [u64; 2]) -> Self {
        let needs = Needs::of(&plan);
        let flows_max = u64::from(plan.flows_max).min(room(&plan)).clamp(1, 1 << 30);
        let memory_bytes_max = needs.fixed_bytes + flows_max * needs.flow_bytes;
        let keys = Keys::new(plan.key, plan.is_biflow, secret);
        Self {
            reader: HeaderReader::new(&plan, keys.clone()),
            table: Table::new(keys, flows_max as u32, needs.pages),
            wheel: Wheel::new(0),
            fragments: Fragments::new(needs.fragments),
            extras: needs.extras,
            now: Instant::default(),
            hand: 0,
            next_event_ns: 0,
            batch: HeaderBatch::with_capacity(BATCH),
            records: Vec::with_capacity(RECORDS),
            ledger: FlowLedger { memory_bytes_max, ..FlowLedger::default() },
            plan,
        }
    }

    /// Meters packets. Records that end meanwhile go to `sink`.
    pub fn take(&mut self, packets: &[Packet<'_>], sink: &mut dyn FlowSink) {
        let mut batch = std::mem::take(&mut self.batch);
        for packets in packets.chunks(BATCH) {
            self.reader.read(packets, &mut batch);
            self.note(&batch);
            let mut from = 0;
            for (to, end) in &batch.turns {
                self.count_all(&mut batch.headers[from..*to], packets, sink);
                self.advance(*end, sink);
                from = *to;
            }
            self.count_all(&mut batch.headers[from..], packets, sink);
            self.advance(batch.end, sink);
            batch.clear();
        }
        self.batch = batch;
        self.flush(sink);
    }

    /// A reader of headers for this meter, for another thread; `None` if the plan samples packets, which are counted in
    /// order.
    pub fn reader(&self) -> Option<HeaderReader> {
        matches!(self.plan.sampling, Sampling::All)
            .then(|| HeaderReader::new(&self.plan, self.table.keys.clone()))
    }

    /// Meters a part whose headers were read by a [`Self::reader`], as [`Self::take`] would; `packets` are those of
    /// [`HeaderBatch::kept`], and `clock` is that of the input. Returns false, and does nothing, if an era of the clock
    /// begins in the part.
    pub fn take_read(
        &mut self,
        batch: &mut HeaderBatch,
        packets: &[Packet<'_>],
        clock: &mut Clock,
        sink: &mut dyn FlowSink,
    ) -> bool {
        if !batch.set_clock(clock) {
            return false;
        }
        self.note(batch);
        let end = batch.end;
        batch.headers.chunks_mut(BATCH).for_each(|headers| self.count_all(headers, packets, sink));
        self.advance(end, sink);
        self.flush(sink);
        true
    }

    /// Counts the packets of a batch.
    fn note(&mut self, batch: &HeaderBatch) {
        self.ledger.seen += batch.seen;
        self.ledger.ignored += batch.ignored;
    }

    /// Advances the time while no packets arrive, to a moment of the clock that stamps the packets.
    pub fn nudge(&mut self, now: Instant, sink: &mut dyn FlowSink) {
        self.advance(now, sink);
        self.flush(sink);
    }

    /// Advances the time by the meter's own clock, to a packet time in ns.
    #[cfg(test)]
    pub(crate) fn nudge_to(&mut self, time_ns: u64, sink: &mut dyn FlowSink) {
        if time_ns > self.reader.clock.now().ns {
            let now = self.reader.clock.see(time_ns);
            self.nudge(now, sink);
        }
    }

    /// Ends all flows. Held fragments are metered first.
    pub fn finish(&mut self, sink: &mut dyn FlowSink) {
        self.end_all(sink);
        self.flush(sink);
    }

    /// The counters.
    pub fn ledger(&self) -> FlowLedger {
        let of_extras = |count: fn(&ExtrasTable) -> u64| self.extras.as_ref().map_or(0, count);
        FlowLedger {
            held: self.fragments.count(),
            flows_live: self.table.flows().into(),
            memory_bytes: self.table.memory_bytes()
                + WHEEL_BYTES
                + of_extras(ExtrasTable::memory_bytes)
                + self.fragments.memory_bytes(),
            probes_max: self.table.probes_max().into(),
            quic_skipped: of_extras(ExtrasTable::quic_skipped),
            ..self.ledger
        }
    }

    /// Meters packets whose headers were read; `packets` are those that their numbers name.
    fn count_all(&mut self, headers: &mut [Headers], packets: &[Packet<'_>], sink: &mut dyn FlowSink) {
        headers.iter().for_each(|headers| self.table.prefetch_line(headers.of.hash));
        let mut groups = headers.chunks_mut(GROUP);
        let mut next = groups.next().map(|group| self.find_candidates(group));
        while let Some(group) = next {
            next = groups.next().map(|group| self.find_candidates(group));
            for headers in group {
                self.advance(headers.now, sink);
                let packet = packets.get(headers.number as usize).unwrap_or(&NOT_KEPT);
                match headers.is_fragment {
                    true => self.fragment(headers, packet, sink),
                    false => self.count(headers, Body::Captured(packet), sink),
                }
            }
        }
    }

    /// Looks up the likely flow of each packet of a group, and prefetches the records in parallel. The loops are short,
    /// so that the processor sees many of the loads at once: in a large table, translating an address takes as long as
    /// the load itself.
    #[inline(always)]
    fn find_candidates<'a>(&self, group: &'a mut [Headers]) -> &'a [Headers] {
        for headers in &mut *group {
            headers.candidate = self.table.candidate(headers.of.hash);
        }
        for headers in group.iter_mut().filter(|headers| headers.candidate == NONE) {
            headers.candidate = self.table.second_candidate(headers.of.hash);
        }
        group
    }

    /// Advances the time, and ends what is due.
    #[inline]
    fn advance(&mut self, now: Instant, sink: &mut dyn FlowSink) {
        if now.era != self.now.era {
            return self.begin_era(now, sink);
        }
        if now.ns >= self.next_event_ns {
            self.drain(now.ns, sink);
        }
        self.now.ns = self.now.ns.max(now.ns);
    }

    /// Ends flows, and the waits of fragments, in the order of their due times up to `now_ns`.
    fn drain(&mut self, now_ns: u64, sink: &mut dyn FlowSink) {
        loop {
            let due_ns = self.fragments.next_due_ns();
            let until_ns = due_ns.min(now_ns);
            while let Some(flow) = self.wheel.pop_begun(until_ns, &mut self.table.pool) {
                if let Some(ahead) = self.wheel.begun_ahead(LOOKS_AHEAD) {
                    self.prepare(ahead);
                }
                self.look_at(flow, sink);
            }
            if due_ns > now_ns || due_ns == u64::MAX {
                break;
            }
            self.now.ns = self.now.ns.max(due_ns);
            while let Some(held) = self.fragments.pop_due(due_ns) {
                self.count_unmatched(&held, sink);
            }
        }
        self.next_event_ns = self.wheel.next_ns().min(self.fragments.next_due_ns());
    }

    /// Prefetches the line of the index that the end of a flow needs, if the flow is due. The wheel has prefetched its
    /// record.
    fn prepare(&self, flow: u32) {
        if self.wheel.has_reached(Due::of(self.table.pool.hot(flow), &self.plan).ns()) {
            self.table.prefetch_line_of(flow);
        }
    }

    /// Handles a flow whose slot of the wheel has begun: ends the flow or its piece, or files it for the time at which
    /// it is due.
    fn look_at(&mut self, flow: u32, sink: &mut dyn FlowSink) {
        let due = Due::of(self.table.pool.hot(flow), &self.plan);
        if !self.wheel.has_reached(due.ns()) {
            self.wheel.file(flow, due.ns(), &mut self.table.pool);
            return;
        }
        self.emit(flow, due.reason(), sink);
        if due.is_idle_first() || self.wheel.has_reached(due.idle_ns) {
            self.remove(flow);
            return;
        }
        // The conversation continues: its next packet begins a piece with the same source.
        self.table.pool.hot_mut(flow).begin_piece();
        self.wheel.file(flow, due.idle_ns, &mut self.table.pool);
    }

    /// Ends all flows and fragments, and sets the time to that of another era, which is earlier.
    #[cold]
    fn begin_era(&mut self, now: Instant, sink: &mut dyn FlowSink) {
        if now.era < self.now.era {
            return;
        }
        self.end_all(sink);
        self.wheel.restart(now.ns);
        self.now = now;
        self.next_event_ns = 0;
    }

    fn end_all(&mut self, sink: &mut dyn FlowSink) {
        while let Some(held) = self.fragments.pop() {
            self.count_unmatched(&held, sink);
        }
        self.fragments.forget();
        // Every flow is in the wheel.
        while let Some(flow) = self.wheel.pop_earliest(&mut self.table.pool) {
            let due = Due::of(self.table.pool.hot(flow), &self.plan);
            self.emit(flow, due.reason_at(self.now.ns, EndReason::Forced), sink);
            self.remove(flow);
        }
    }

    /// Removes a flow that is not in the wheel.
    fn remove(&mut self, flow: u32) {
        self.table.remove(flow);
        if let Some(extras) = &mut self.extras {
            extras.forget(flow);
        }
    }

    /// Meters a fragment: a first one as any packet, a later one with the ports of its first.
    #[cold]
    fn fragment(&mut self, headers: &Headers, packet: &Packet<'_>, sink: &mut dyn FlowSink) {
        let Ok(read) = read(packet) else { return };
        let Some(id) = read.datagram() else { return };
        let datagram = (id, [read.vlan, read.inner_vlan], packet.tunnel);
        if !read.is_later_fragment() {
            let first = FirstFragment { protocol: read.protocol, ports: read.ports };
            let released = self.fragments.first(datagram, first, self.now.ns);
            self.count(headers, Body::Captured(packet), sink);
            released.iter().for_each(|held| self.count_held(held, Some(first), Body::of_held(held), sink));
            return;
        }
        let (time_ns, interface) = (packet.time_ns, packet.interface);
        let held = Held { packet: read, time_ns, interface, datagram };
        if let Some(first) = self.fragments.known(&datagram, self.now.ns) {
            return self.count_held(&held, Some(first), Body::Captured(packet), sink);
        }
        if let Some(oldest) = self.fragments.hold(held, self.now.ns) {
            self.count_unmatched(&oldest, sink);
        }
        self.next_event_ns = self.next_event_ns.min(self.fragments.next_due_ns());
    }

    /// Meters a later fragment: as a packet with the ports of its first one, if that is known.
    fn count_held(
        &mut self,
        held: &Held,
        first: Option<FirstFragment>,
        body: Body<'_>,
        sink: &mut dyn FlowSink,
    ) {
        let read = first.map_or(held.packet, |first| FlowPacket {
            ports: first.ports,
            protocol: first.protocol,
            fragment: None,
            ..held.packet
        });
        let (time_ns, tunnel, interface) = (held.time_ns, held.datagram.2, held.interface);
        let packet = Packet { time_ns, tunnel, interface, ..Packet::default() };
        let headers = Headers::new(&self.table.keys, &read, &packet, (self.now, false), 0);
        self.count(&headers, body, sink);
    }

    fn count_unmatched(&mut self, held: &Held, sink: &mut dyn FlowSink) {
        self.ledger.fragments_unmatched += 1;
        self.count_held(held, None, Body::of_held(held), sink);
    }

    /// Adds a packet to its flow, and computes extras from `body`.
    #[inline]
    fn count(&mut self, headers: &Headers, body: Body<'_>, sink: &mut dyn FlowSink) {
        let is_added = match self.table.candidate_mut(&headers.of, headers.candidate) {
            Some(hot) => add_usual(hot, headers, self.now.ns, &self.plan),
            None => false,
        };
        let flow = if is_added { headers.candidate } else { self.count_unusual(headers, &body, sink) };
        self.ledger.live.add(headers.ip_bytes.into());
        if let Some(extras) = &mut self.extras {
            extras.add(flow, headers, body);
        }
    }

    /// Adds a packet to its flow. The packet may begin the flow, end a piece before it, or change the time at which the
    /// flow is due.
    #[inline(never)]
    fn count_unusual(&mut self, headers: &Headers, body: &Body<'_>, sink: &mut dyn FlowSink) -> u32 {
        let known = self.table.find(&headers.of, headers.candidate);
        let is_watched = known.is_some_and(|flow| self.table.pool.hot(flow).state.is_watched());
        let with_numbers;
        let headers = match body {
            Body::Captured(packet) if is_watched && !headers.has_numbers => {
                with_numbers = headers.with_numbers(packet);
                &with_numbers
            }
            _ => headers,
        };
        let (flow, filed_ns) = match known {
            Some(flow) => (flow, Some(self.end_before(flow, headers, sink))),
            None => (self.open(headers, sink), None),
        };
        let hot = self.table.pool.hot_mut(flow);
        rules::add(hot, headers, &self.plan);
        let due_ns = Due::of(hot, &self.plan).ns();
        match filed_ns {
            // The wheel returns the flow in time, and the flow is filed again then.
            Some(filed_ns) if due_ns >= filed_ns => {
                if !hot.state.is_active() {
                    hot.state.set_active();
                }
            }
            filed_ns => {
                if filed_ns.is_some() {
                    self.wheel.remove(flow, &mut self.table.pool);
                }
                self.wheel.file(flow, due_ns, &mut self.table.pool);
                self.next_event_ns = self.next_event_ns.min(self.wheel.next_ns());
            }
        }
        flow
    }

    /// Adds a flow; at the limit, another one ends for it.
    fn open(&mut self, headers: &Headers, sink: &mut dyn FlowSink) -> u32 {
        loop {
            if let Some(flow) = self.table.insert(&headers.of) {
                self.ledger.flows_high = self.ledger.flows_high.max(self.table.flows().into());
                return flow;
            }
            self.make_room(sink);
        }
    }

    /// Ends a piece, or the whole conversation, if a packet does not belong to it any more. Returns the time at which
    /// the flow was due; it is filed in the wheel for this time or an earlier one.
    #[inline]
    fn end_before(&mut self, flow: u32, headers: &Headers, sink: &mut dyn FlowSink) -> u64 {
        let hot = self.table.pool.hot(flow);
        let due = Due::of(hot, &self.plan);
        let is_due = self.now.ns >= due.ns();
        let is_other = rules::is_new_connection(hot, headers, &self.plan);
        let is_full = hot.directions.iter().any(|counters| counters.packets == u32::MAX);
        if is_due || is_other || is_full {
            let reason = match (is_due, is_other) {
                (true, _) => due.reason(),
                (false, true) => EndReason::EndOfFlow,
                // Its counters are full: the piece ends, and the flow continues.
                (false, false) => EndReason::Active,
            };
            let ends_flow = is_other || self.now.ns >= due.idle_ns;
            self.end_piece(flow, headers, reason, (ends_flow, is_other), sink);
        }
        due.ns()
    }

    #[cold]
    fn end_piece(
        &mut self,
        flow: u32,
        headers: &Headers,
        reason: EndReason,
        (ends_flow, is_new_connection): (bool, bool),
        sink: &mut dyn FlowSink,
    ) {
        self.emit(flow, reason, sink);
        let hot = self.table.pool.hot_mut(flow);
        match ends_flow {
            true => rules::begin_flow(hot, headers, is_new_connection, &self.plan),
            false => hot.begin_piece(),
        }
        if let (Some(extras), true) = (&mut self.extras, ends_flow) {
            extras.forget(flow);
        }
    }

    /// Emits the record of a piece, unless the piece has no packets.
    fn emit(&mut self, flow: u32, reason: EndReason, sink: &mut dyn FlowSink) {
        let hot = self.table.pool.hot(flow);
        if hot.packets() == 0 {
            return;
        }
        let (packets, bytes) = (hot.packets(), hot.bytes());
        self.ledger.live.packets -= packets;
        self.ledger.live.bytes -= bytes;
        self.ledger.exported.packets += packets;
        self.ledger.exported.bytes += bytes;
        self.ledger.flows_by_reason[reason as usize] += 1;
        let is_from_high = hot.state.has(State::FROM_HIGH);
        let mut record = record(hot, reason);
        record.extras = self.extras.as_mut().and_then(|extras| extras.take(flow, is_from_high, &record.key));
        self.records.push(record);
        if self.records.len() == RECORDS {
            self.flush(sink);
        }
    }

    fn flush(&mut self, sink: &mut dyn FlowSink) {
        if !self.records.is_empty() {
            sink.take(&self.records);
            self.records.clear();
        }
    }
}

/// Adds a usual packet: one that neither ends nor begins anything, and after which its flow is due no earlier than
/// before. Returns `false`, and adds nothing, for another one.
#[inline(always)]
fn add_usual(hot: &mut Hot, headers: &Headers, now_ns: u64, plan: &MeterPlan) -> bool {
    let is_usual = headers.tcp_flags & (SYN | FIN | RST) == 0
        && !hot.state.is_watched()
        && hot.only_grows(headers.of.is_from_high, headers.time_ns)
        && now_ns < Due::of(hot, plan).ns()
        && hot.directions[0].packets.max(hot.directions[1].packets) < u32::MAX;
    if is_usual {
        rules::add_plain(hot, headers, plan);
        if !hot.state.is_active() {
            hot.state.set_active();
        }
    }
    is_usual
}

fn record(hot: &Hot, end_reason: EndReason) -> FlowRecord {
    let is_from_high = hot.state.has(State::FROM_HIGH);
    let direction = |is_high: bool| direction(&hot.directions[usize::from(is_high)]);
    FlowRecord {
        key: hot.key.record(hot.network, is_from_high),
        forward: direction(is_from_high),
        reverse: direction(!is_from_high),
        initiator: match hot.state.rule() {
            0 => InitiatorRule::Sender,
            1 => InitiatorRule::Syn,
            2 => InitiatorRule::SynAck,
            3 => InitiatorRule::Icmp,
            4 => InitiatorRule::Ports,
            _ => InitiatorRule::First,
        },
        end_reason,
        is_continued: hot.state.has(State::CONTINUED),
        extras: None,
    }
}

fn direction(counters: &Counters) -> Direction {
    match counters.packets {
        0 => Direction::default(),
        packets => Direction {
            packets: packets.into(),
            bytes: counters.bytes,
            first_ns: counters.first_ns,
            last_ns: counters.last_ns,
            tcp_flags: counters.tcp_flags,
            tos: counters.tos,
            ttl_min: counters.ttl_min,
            ttl_max: counters.ttl_max,
        },
    }
}
