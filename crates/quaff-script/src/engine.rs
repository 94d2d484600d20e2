//! Turns packets into calls of scripts.
//!
//! The declarations of scripts determine the work: headers always, flows for flow events, reassembly for stream events.
//! A stopped script costs one counter per event, and so does a script without remaining time.

use crate::application::{Applications, Found};
use crate::end::{EngineEnd, Tracked};
use crate::flow::{Flow, Places};
use crate::histogram::Histograms;
use crate::packet::{Packet, PacketView};
use crate::record::{Recorder, Records, Rows};
use crate::save::{Kept, SavedPiece, Saves, has_word};
use crate::script::{Common, Script};
use crate::shape::Shape;
use crate::stream::{Gate, Search};
use crate::table::{Begin, FlowKey, FlowTable};
use crate::trigger::Event;
use crate::{EnginePlan, Source};
use mlua::Value;
use quaff_stream::application::dns::DnsMessage;
use quaff_stream::application::lines::{Line, Lines};
use quaff_stream::datagram::{Datagram, Datagrams};
use quaff_stream::policy::PolicyMap;
use quaff_stream::tracker::{Closed, ConnectionSink, Ends, Opened, TrackPacket, Tracker, sorted};
use quaff_stream::{Difference, EndReason, Event as StreamEvent, GapCause, Sender};
use quaff_wire::flow::{FlowPacket, is_icmp};
use quaff_wire::net::agreement::Numbers;
use quaff_wire::net::{TCP, UDP, UDP_BYTES};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

/// Maximum number of flow triggers of all scripts: one bit each.
const FLOW_TRIGGERS_MAX: usize = 64;
/// Bytes of each version of differing data that a script receives.
const VERSION_BYTES: usize = 256;

/// Names of the two sides of a flow, and the same for the application readers.
const SIDES: [&str; 2] = ["client", "server"];
const SENDERS: [Sender; 2] = [Sender::A, Sender::B];

/// Identifies a trigger: script and index.
#[derive(Debug, Clone, Copy)]
struct Id {
    script: usize,
    trigger: usize,
    event: Event,
}

/// A timer, with the packet time at which it is due, ns.
#[derive(Debug, Clone, Copy)]
struct Timer {
    id: Id,
    every_ns: u64,
    next_ns: u64,
}

/// Scripts and their shared state.
pub struct Engine {
    tracker: Option<Tracker>,
    /// By the receiver of fragments.
    policies: PolicyMap,
    core: Core,
}

/// The state of a flow.
struct Slot {
    flow: Rc<Flow>,
    /// Flow triggers whose filters accepted the first packet.
    mask: u64,
    /// True if the client is A, the lower endpoint.
    is_client_a: bool,
    /// True until the first packet has been counted.
    is_fresh: bool,
    sides: Option<Box<[Side; 2]>>,
    applications: Option<Box<Applications>>,
    kept: Option<Box<Kept>>,
}

/// The state of one direction for stream triggers.
#[derive(Default)]
struct Side {
    lines: Lines,
    gates: Vec<(usize, Gate)>,
    searches: Vec<(usize, Search)>,
}

struct Core {
    scripts: Vec<Script>,
    common: Common,
    saves: Saves,
    by_packet: Vec<Id>,
    /// Flow triggers by bit.
    of_flows: Vec<Id>,
    timers: Vec<Timer>,
    /// Packet time of the earliest timer, ns.
    timer_ns: u64,
    /// Bits of triggers that need stream bytes, and those of `line` triggers.
    streams_mask: u64,
    lines_mask: u64,
    applications_mask: u64,
    /// Ports of stream triggers; `None` if any of them accepts all ports.
    stream_ports: Option<Vec<u16>>,
    /// Connections by the tracker's index.
    connections: Vec<Option<Slot>>,
    table: FlowTable<Slot>,
    places: Places,
    /// `None` unless a script requests messages of datagrams.
    datagrams: Option<Datagrams>,
    keeps_packets: bool,
    flows: u64,
    /// Number of the first flow, and the increment to the next one, which keep the numbers of lanes distinct.
    first_flow: u64,
    flow_step: u64,
    packets: u64,
}

impl Engine {
    /// Loads the scripts. `secret` keys a hash table: random, and unknown to the senders of packets.
    ///
    /// # Errors
    /// A script cannot be loaded; the message names its line.
    pub fn new(plan: &EnginePlan, secret: u64) -> Result<Self, String> {
        let common = Common {
            records: Rc::new(RefCell::new(Records::new(plan.formats))),
            packet: Rc::new(RefCell::new(PacketView::default())),
            now_ns: Rc::new(Cell::new(0)),
            can_save: plan.can_save,
        };
        let with = (&plan.compile, plan.scripts.len());
        let load = |source: &Source| Script::load(source, &plan.limits, &common, with);
        let scripts: Vec<Script> = plan.scripts.iter().map(load).collect::<Result<_, _>>()?;
        let asks_for_packets = plan.scripts.iter().any(|source| has_word(&source.text, "save"));
        let mut core = Core::new(scripts, common, plan.can_save && asks_for_packets)?;
        let tracker = (core.streams_mask != 0).then(|| Tracker::new(plan.track.clone(), secret));
        let has_datagrams = core.of_flows.iter().any(|id| id.event == Event::Dns);
        core.datagrams = has_datagrams.then(|| Datagrams::new(plan.track.fragment));
        Ok(Self { tracker, policies: plan.track.policies.clone(), core })
    }

    /// An engine for lane `lane` of `lanes`, from 0: its flow numbers differ from those of other lanes.
    #[must_use]
    pub fn for_lane(mut self, lane: u64, lanes: u64) -> Self {
        (self.core.first_flow, self.core.flow_step) = (lane + 1, lanes.max(1));
        self
    }

    /// Processes a packet.
    pub fn packet(&mut self, packet: &Packet) {
        let core = &mut self.core;
        core.packets += 1;
        core.pass_time(packet.time_ns);
        let read = FlowPacket::read(packet.bytes, packet.wire_bytes, packet.linktype).ok();
        core.packet_triggers(packet, read.as_ref());
        if core.of_flows.is_empty() {
            return;
        }
        let is_tracked = self.tracker.is_some() && read.as_ref().is_none_or(|read| core.is_of_streams(read));
        if let Some(tracker) = self.tracker.as_mut().filter(|_| is_tracked) {
            let Packet { bytes, wire_bytes, linktype, time_ns, .. } = *packet;
            tracker
                .packet(&TrackPacket { bytes, wire_bytes, linktype, time_ns }, &mut Passing { core, packet });
        }
        let is_own = |read: &FlowPacket| read.protocol == UDP || read.protocol == TCP && !is_tracked;
        let Some(read) = read.filter(is_own) else { return };
        if !read.is_later_fragment() {
            core.flow_packet(packet, &read);
        }
        if read.protocol == UDP && read.fragment.is_some() {
            self.fragment(packet, &read);
        }
    }

    /// Puts a fragmented datagram together, whose flow its first fragment has begun, and passes its message on.
    #[cold]
    fn fragment(&mut self, packet: &Packet, read: &FlowPacket) {
        let Self { policies, core, .. } = self;
        let Some(datagrams) = &mut core.datagrams else { return };
        let policy = policies.of(read.addresses[1]).fragment;
        let whole = datagrams.take(read, (packet.bytes, packet.wire_bytes), packet.time_ns, policy);
        if let Some(Datagram { read, payload }) = whole.filter(|whole| whole.read.protocol == UDP) {
            core.whole_datagram(&read, &payload);
        }
    }

    /// Records whether packets are waiting for the lane: then scripts that have used up their share of time miss
    /// events.
    pub fn note_late(&mut self, is_late: bool) {
        self.core.scripts.iter_mut().for_each(|script| script.note_late(is_late));
    }

    /// Sets the time after which no call of a script starts, on the steady clock, ns: events are counted as skipped
    /// from then on.
    pub fn end_by(&mut self, until_ns: u64) {
        self.core.scripts.iter_mut().for_each(|script| script.end_by(until_ns));
    }

    /// Advances the time of a source without packets.
    pub fn tick(&mut self, now_ns: u64) {
        self.core.pass_time(now_ns);
        self.core.scripts.iter_mut().for_each(Script::free);
    }

    /// Ends all flows. Histograms are converted to rows later, after those of several lanes are added.
    pub fn finish(&mut self) -> EngineEnd {
        let core = &mut self.core;
        let packet = &Packet { time_ns: core.common.now_ns.get(), ..Packet::default() };
        if let Some(tracker) = &mut self.tracker {
            tracker.finish(&mut Passing { core, packet });
        }
        core.datagrams.iter_mut().for_each(Datagrams::finish);
        for slot in core.table.drain() {
            core.end_flow(slot);
        }
        let mut records = core.common.records.borrow_mut();
        let histograms = Histograms::new(records.formats(), records.take_counts());
        drop(records);
        EngineEnd {
            scripts: core.scripts.iter_mut().map(Script::finish).collect(),
            packets: core.packets,
            flows: core.flows,
            tracked: self.tracker.as_ref().map(|tracker| Tracked {
                track: *tracker.tally(),
                streams: *tracker.streams(),
                fragments: core.datagrams.iter().fold(tracker.fragments(), |mut sum, datagrams| {
                    sum += *datagrams.tally();
                    sum
                }),
            }),
            saved_packets: core.saves.packets,
            saved_packets_dropped: core.saves.packets_dropped,
            histograms,
        }
    }

    /// Bytes of rows and packets that are not yet taken.
    pub fn pending_bytes(&self) -> usize {
        self.core.common.records.borrow().pending_bytes() + self.core.saves.pending_bytes()
    }

    /// Passes rows on.
    pub fn take_rows(&mut self, take: impl FnMut(&Recorder, &mut Rows)) {
        self.core.common.records.borrow_mut().take(take);
    }

    /// Returns packets of saved flows.
    pub fn take_packets(&mut self) -> Vec<SavedPiece> {
        self.core.saves.take()
    }
}

/// Indices of the set bits.
fn bits(mask: u64) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit as usize)
    })
}

impl Core {
    fn new(scripts: Vec<Script>, common: Common, keeps_packets: bool) -> Result<Self, String> {
        let (mut by_packet, mut of_flows, mut timers) = (Vec::new(), Vec::new(), Vec::new());
        for (script, of) in scripts.iter().enumerate() {
            for (trigger, declared) in of.triggers.iter().enumerate() {
                let id = Id { script, trigger, event: declared.event };
                match declared.event {
                    Event::Packet => by_packet.push(id),
                    Event::Timer => timers.push(Timer { id, every_ns: declared.every_ns, next_ns: 0 }),
                    _ => of_flows.push(id),
                }
            }
        }
        for (at, script) in scripts.iter().enumerate() {
            if scripts[..at].iter().any(|other| other.stem() == script.stem()) {
                return Err(format!("two scripts are named {}: rename one of them", script.stem()));
            }
        }
        if of_flows.len() > FLOW_TRIGGERS_MAX {
            return Err(format!(
                "scripts have {} triggers of flows: at most {FLOW_TRIGGERS_MAX}",
                of_flows.len()
            ));
        }
        let mask = |is_it: &dyn Fn(Event) -> bool| {
            let all = of_flows.iter().enumerate().filter(|(_, id): &(usize, &Id)| is_it(id.event));
            all.fold(0, |mask, (bit, _)| mask | 1u64 << bit)
        };
        let streams_mask = mask(&Event::is_of_streams);
        let lines_mask = mask(&|event| event == Event::Line);
        let applications_mask = mask(&Event::is_of_applications);
        let of_streams = of_flows.iter().filter(|id: &&Id| id.event.is_of_streams());
        let ports = of_streams.map(|id| &scripts[id.script].triggers[id.trigger].ports);
        let stream_ports = ports
            .map(|ports| Some(ports.clone()).filter(|ports| !ports.is_empty()))
            .collect::<Option<Vec<_>>>()
            .map(|ports| ports.concat());
        Ok(Self {
            scripts,
            common,
            saves: Saves::default(),
            by_packet,
            streams_mask,
            lines_mask,
            applications_mask,
            stream_ports,
            of_flows,
            timer_ns: if timers.is_empty() { u64::MAX } else { 0 },
            timers,
            connections: Vec::new(),
            table: FlowTable::new(),
            places: Places::default(),
            datagrams: None,
            keeps_packets,
            flows: 0,
            first_flow: 1,
            flow_step: 1,
            packets: 0,
        })
    }

    /// Calls due timers, and ends expired flows.
    #[inline]
    fn pass_time(&mut self, now_ns: u64) {
        self.common.now_ns.set(now_ns);
        if now_ns >= self.timer_ns {
            self.call_timers(now_ns);
        }
        while let Some(slot) = self.table.take_over(now_ns) {
            self.end_flow(slot);
        }
    }

    #[cold]
    fn call_timers(&mut self, now_ns: u64) {
        for at in 0..self.timers.len() {
            let Timer { id, every_ns, next_ns } = self.timers[at];
            if now_ns < next_ns {
                continue;
            }
            // A pause of several intervals causes one call, for the last of them.
            let passed = if next_ns == 0 { 0 } else { (now_ns - next_ns) / every_ns };
            let due_ns = if next_ns == 0 { now_ns } else { next_ns + passed * every_ns };
            self.timers[at].next_ns = due_ns.saturating_add(every_ns);
            if next_ns != 0 {
                self.scripts[id.script].call(id.trigger, |_| Ok(due_ns as i64));
            }
        }
        self.timer_ns = self.timers.iter().map(|timer| timer.next_ns).min().unwrap_or(u64::MAX);
    }

    /// True for a packet that reassembly needs: a segment with a port that a script requests, or a fragment.
    #[inline]
    fn is_of_streams(&self, read: &FlowPacket) -> bool {
        let is_of = |ports: &Vec<u16>| read.ports.iter().any(|port| ports.contains(port));
        read.protocol == TCP && (read.fragment.is_some() || self.stream_ports.as_ref().is_none_or(is_of))
    }

    #[inline]
    fn packet_triggers(&mut self, packet: &Packet, read: Option<&FlowPacket>) {
        let has_ports = |read: &&FlowPacket| !is_icmp(read.protocol);
        let ports = read.filter(has_ports).map_or([0; 2], |read| read.ports);
        let mut opened = None;
        for id in &self.by_packet {
            let script = &mut self.scripts[id.script];
            if !script.triggers[id.trigger].wants(packet, ports) {
                continue;
            }
            let object = *opened.get_or_insert_with(|| {
                let mut view = self.common.packet.borrow_mut();
                view.open(packet, read);
                view.object()
            });
            script.call(id.trigger, |_| Ok(object));
        }
        if opened.is_some() {
            self.common.packet.borrow_mut().close();
        }
    }

    /// Processes a packet of a flow that is not reassembled.
    fn flow_packet(&mut self, packet: &Packet, read: &FlowPacket) {
        let ends = [0, 1].map(|end| SocketAddr::new(read.addresses[end], read.ports[end]));
        let key = (read.protocol, sorted(ends));
        let is_high = key.1[0] != ends[0];
        let numbers = read.numbers(packet.bytes);
        let place = match self.table.find(&key, is_high, &numbers) {
            Ok(place) => place,
            Err(begin) => self.insert_flow(packet, key, begin.client_and_server(&key, ends, &numbers), begin),
        };
        self.table.touch(place, is_high, &numbers, packet.time_ns);
        let Some(slot) = self.table.get(place) else { return };
        if !std::mem::take(&mut slot.is_fresh) {
            slot.flow.count(packet.wire_bytes, packet.time_ns);
        }
        if let Some(kept) = slot.kept.as_deref_mut() {
            self.saves.keep(kept, &slot.flow, packet);
        }
        let mask = slot.mask & self.applications_mask;
        if mask != 0 && read.protocol == UDP && read.fragment.is_none() {
            let (flow, side) = (slot.flow.clone(), usize::from(slot.flow.client != ends[0]));
            self.datagram(&flow, mask, side, read, packet.bytes);
        }
    }

    /// Adds a flow with its first packet.
    fn insert_flow(&mut self, packet: &Packet, key: FlowKey, [client, server]: Ends, begin: Begin) -> u32 {
        if let Some(left) = self.table.take_for(&key) {
            self.end_flow(left);
        }
        let slot = self.begin_flow((client, server, key.0), client == key.1[0], packet);
        self.table.insert(key, begin, packet.time_ns, slot)
    }

    /// Passes the message in a datagram on that was put together.
    fn whole_datagram(&mut self, read: &FlowPacket, bytes: &[u8]) {
        let ends = [0, 1].map(|end| SocketAddr::new(read.addresses[end], read.ports[end]));
        let place = self.table.find(&(UDP, sorted(ends)), false, &Numbers::default());
        let Some(slot) = place.ok().and_then(|place| self.table.get(place)) else { return };
        let (flow, side, mask) = (slot.flow.clone(), usize::from(slot.flow.client != ends[0]), slot.mask);
        self.datagram(&flow, mask & self.applications_mask, side, read, bytes);
    }

    /// Passes a message in a datagram on.
    fn datagram(&mut self, flow: &Rc<Flow>, mask: u64, side: usize, read: &FlowPacket, bytes: &[u8]) {
        let payload = bytes.get(read.transport as usize + UDP_BYTES..read.end as usize);
        let is_wanted = bits(mask).any(|bit| self.of_flows[bit].event == Event::Dns);
        if let Some(message) = payload.filter(|_| is_wanted).and_then(DnsMessage::read) {
            call_found(&mut self.scripts, &self.of_flows, mask, flow, side, Found::Dns(&message));
        }
    }

    /// Creates a flow with its first packet.
    fn begin_flow(
        &mut self,
        (client, server, protocol): (SocketAddr, SocketAddr, u8),
        is_client_a: bool,
        packet: &Packet,
    ) -> Slot {
        let number = self.first_flow + self.flows * self.flow_step;
        self.flows += 1;
        let ports = [client.port(), server.port()];
        let mut mask = 0;
        for (bit, id) in self.of_flows.iter().enumerate() {
            let is_wanted = self.scripts[id.script].triggers[id.trigger].wants(packet, ports);
            mask |= u64::from(is_wanted) << bit;
        }
        let flow = Rc::new(Flow {
            number,
            place: if mask == 0 { u32::MAX } else { self.places.take() },
            client,
            server,
            protocol,
            start_ns: packet.time_ns,
            last_ns: Cell::new(packet.time_ns),
            packets: Cell::new(1),
            bytes: Cell::new(packet.wire_bytes.into()),
            is_saved: Cell::new(false),
            has_ended: Cell::new(false),
        });
        let has_bytes = protocol == TCP && mask & self.streams_mask != 0;
        let sides = has_bytes.then(|| Box::new([0, 1].map(|_| self.side(mask))));
        let events = bits(mask & self.applications_mask).map(|bit| self.of_flows[bit].event);
        let has_messages = has_bytes && mask & self.applications_mask != 0;
        let applications = has_messages.then(|| Box::new(Applications::new(events)));
        let kept = (self.keeps_packets && mask != 0).then(Box::default);
        for bit in bits(mask) {
            let id = self.of_flows[bit];
            if id.event == Event::FlowStart {
                self.scripts[id.script].call(id.trigger, |scope| scope.flow(&flow));
            }
        }
        Slot { flow, mask, is_client_a, is_fresh: true, sides, applications, kept }
    }

    /// The state of a direction for the triggers in `mask`.
    fn side(&self, mask: u64) -> Side {
        let mut side = Side::default();
        for bit in bits(mask & self.streams_mask) {
            let id = self.of_flows[bit];
            let trigger = &self.scripts[id.script].triggers[id.trigger];
            match id.event {
                Event::Data if trigger.prefix.is_some() || trigger.regex.is_some() => {
                    side.gates.push((bit, Gate::default()));
                }
                Event::Match => side.searches.push((bit, Search::default())),
                _ => {}
            }
        }
        side
    }

    /// Ends a flow.
    fn end_flow(&mut self, mut slot: Slot) {
        for bit in bits(slot.mask) {
            let id = self.of_flows[bit];
            if id.event == Event::FlowEnd {
                self.scripts[id.script].call(id.trigger, |scope| scope.flow(&slot.flow));
            }
        }
        slot.flow.has_ended.set(true);
        if let Some(kept) = slot.kept.as_deref_mut() {
            self.saves.end(kept, &slot.flow);
        }
        if slot.mask != 0 {
            self.scripts.iter_mut().for_each(|script| script.forget(&slot.flow));
            self.places.put(slot.flow.place);
        }
    }

    /// Passes a stream event to the triggers that request it.
    fn stream_event(&mut self, slot: &mut Slot, side: usize, event: &StreamEvent) {
        match *event {
            StreamEvent::Data { offset, bytes } => self.stream_bytes(slot, side, offset, bytes, None),
            StreamEvent::Urgent { offset, byte } => self.stream_bytes(slot, side, offset, &[byte], None),
            StreamEvent::End { offset, reason } => self.stream_bytes(slot, side, offset, &[], Some(reason)),
            StreamEvent::Gap { offset, lost_bytes, cause } => {
                self.gap(slot, side, (offset, lost_bytes), cause)
            }
            StreamEvent::Difference(difference) => self.difference(slot, side, &difference),
        }
    }

    /// Passes the next bytes of a side, or its end, to triggers of bytes, messages and lines.
    fn stream_bytes(
        &mut self,
        slot: &mut Slot,
        side: usize,
        offset: u64,
        bytes: &[u8],
        end: Option<EndReason>,
    ) {
        let is_last = end.is_some();
        let Slot { flow, mask, sides: Some(sides), .. } = slot else { return };
        let state = &mut sides[side];
        for bit in bits(*mask & self.streams_mask & !self.lines_mask) {
            let id = self.of_flows[bit];
            match id.event {
                Event::Data => self.data(id, bit, flow, state, (side, offset, bytes, is_last)),
                Event::Match => self.matches(id, bit, flow, state, (side, offset, bytes, is_last)),
                _ => {}
            }
        }
        self.messages(slot, |applications, sink| {
            applications.data(SENDERS[side], bytes, sink);
            if let Some(reason) = end {
                applications.end(SENDERS[side], reason, sink);
            }
        });
        self.lines(slot, side, |lines, sink| {
            lines.data(bytes, sink);
            if is_last {
                lines.finish(sink);
            }
        });
    }

    /// Passes on the messages that are completed by `step`.
    fn messages(
        &mut self,
        slot: &mut Slot,
        step: impl FnOnce(&mut Applications, &mut dyn FnMut(Sender, Found<'_>)),
    ) {
        let Slot { flow, mask, applications: Some(applications), .. } = slot else { return };
        let (scripts, of_flows, mask) = (&mut self.scripts, &self.of_flows, *mask & self.applications_mask);
        step(applications, &mut |sender, found| {
            call_found(scripts, of_flows, mask, flow, sender.index(), found);
        });
    }

    /// Passes on the lines that are completed by `step`.
    fn lines(
        &mut self,
        slot: &mut Slot,
        side: usize,
        step: impl FnOnce(&mut Lines, &mut dyn FnMut(Line<'_>)),
    ) {
        let Slot { flow, mask, sides: Some(sides), .. } = slot else { return };
        let lines_mask = *mask & self.lines_mask;
        if lines_mask == 0 {
            return;
        }
        let (scripts, of_flows) = (&mut self.scripts, &self.of_flows);
        step(&mut sides[side].lines, &mut |line| {
            for id in bits(lines_mask).map(|bit| of_flows[bit]) {
                scripts[id.script].call(id.trigger, |scope| {
                    let table = scope.table(
                        Shape::Line,
                        [
                            ("text", scope.text(line.text)?),
                            ("number", Value::Integer(line.number as i64)),
                            ("from", scope.text(SIDES[side].as_bytes())?),
                            ("cut", Value::Boolean(line.is_cut)),
                        ],
                    )?;
                    Ok((scope.flow(flow)?, table))
                });
            }
        });
    }

    fn data(
        &mut self,
        id: Id,
        bit: usize,
        flow: &Rc<Flow>,
        state: &mut Side,
        (side, offset, bytes, is_last): (usize, u64, &[u8], bool),
    ) {
        let script = &mut self.scripts[id.script];
        let trigger = &script.triggers[id.trigger];
        let passed = match state.gates.iter_mut().find(|(of, _)| *of == bit) {
            Some((_, gate)) => {
                gate.take((trigger.prefix.as_deref(), trigger.regex.as_ref()), offset, bytes, is_last)
            }
            None => Some((offset, bytes.into())),
        };
        if let Some((offset, bytes)) = passed.filter(|(_, bytes)| !bytes.is_empty()) {
            call_data(script, id, flow, (side, offset, &bytes, 0));
        }
    }

    fn matches(
        &mut self,
        id: Id,
        bit: usize,
        flow: &Rc<Flow>,
        state: &mut Side,
        (side, offset, bytes, is_last): (usize, u64, &[u8], bool),
    ) {
        let script = &mut self.scripts[id.script];
        let Some((_, search)) = state.searches.iter_mut().find(|(of, _)| *of == bit) else { return };
        let Some(regex) = script.triggers[id.trigger].regex.clone() else { return };
        search.take(&regex, offset, bytes, is_last, |offset, text| {
            script.call(id.trigger, |scope| {
                let table = scope.table(
                    Shape::Match,
                    [
                        ("text", scope.text(text)?),
                        ("offset", Value::Integer(offset as i64)),
                        ("from", scope.text(SIDES[side].as_bytes())?),
                    ],
                )?;
                Ok((scope.flow(flow)?, table))
            });
        });
    }

    fn gap(&mut self, slot: &mut Slot, side: usize, (offset, lost_bytes): (u64, u64), cause: GapCause) {
        let Slot { flow, mask, sides: Some(sides), .. } = slot else { return };
        let state = &mut sides[side];
        state.searches.iter_mut().for_each(|(_, search)| search.skip());
        for bit in bits(*mask & self.streams_mask) {
            let id = self.of_flows[bit];
            let script = &mut self.scripts[id.script];
            match id.event {
                Event::Data => {
                    let gate = state.gates.iter_mut().find(|(of, _)| *of == bit).map(|(_, gate)| gate);
                    let is_open = gate.is_none_or(|gate| {
                        gate.skip();
                        *gate == Gate::Open
                    });
                    if is_open {
                        call_data(script, id, flow, (side, offset, &[], lost_bytes));
                    }
                }
                Event::Evidence => script.call(id.trigger, |scope| {
                    let table = scope.table(
                        Shape::Evidence,
                        [
                            ("kind", scope.text(b"gap")?),
                            ("from", scope.text(SIDES[side].as_bytes())?),
                            ("offset", Value::Integer(offset as i64)),
                            ("bytes", Value::Integer(lost_bytes as i64)),
                            ("cause", scope.text(GapCause::NAMES[cause.index()].as_bytes())?),
                        ],
                    )?;
                    Ok((scope.flow(flow)?, table))
                }),
                _ => {}
            }
        }
        self.messages(slot, |applications, sink| applications.gap(SENDERS[side], lost_bytes, sink));
        self.lines(slot, side, |lines, sink| lines.gap(sink));
    }

    fn difference(&mut self, slot: &mut Slot, side: usize, difference: &Difference) {
        let Difference { offset, old, new, differing, is_new_kept } = *difference;
        for bit in bits(slot.mask & self.streams_mask) {
            let id = self.of_flows[bit];
            if id.event != Event::Evidence {
                continue;
            }
            self.scripts[id.script].call(id.trigger, |scope| {
                let version = |bytes: &[u8]| scope.text(&bytes[..bytes.len().min(VERSION_BYTES)]);
                let table = scope.table(
                    Shape::Evidence,
                    [
                        ("kind", scope.text(b"overlap")?),
                        ("from", scope.text(SIDES[side].as_bytes())?),
                        ("offset", Value::Integer(offset as i64)),
                        ("bytes", Value::Integer(differing.into())),
                        ("kept", scope.text(if is_new_kept { b"second" } else { b"first" })?),
                        ("first", version(old)?),
                        ("second", version(new)?),
                    ],
                )?;
                Ok((scope.flow(&slot.flow)?, table))
            });
        }
    }
}

/// Calls the triggers in a mask that request a message.
fn call_found(
    scripts: &mut [Script],
    of_flows: &[Id],
    mask: u64,
    flow: &Rc<Flow>,
    side: usize,
    found: Found<'_>,
) {
    let event = found.event();
    for id in bits(mask).map(|bit| of_flows[bit]).filter(|id| id.event == event) {
        scripts[id.script]
            .call(id.trigger, |scope| Ok((scope.flow(flow)?, found.table(scope, SIDES[side])?)));
    }
}

fn call_data(
    script: &mut Script,
    id: Id,
    flow: &Rc<Flow>,
    (side, offset, bytes, lost_bytes): (usize, u64, &[u8], u64),
) {
    script.call(id.trigger, |scope| {
        let table = scope.table(
            Shape::Data,
            [
                ("bytes", scope.text(bytes)?),
                ("offset", Value::Integer(offset as i64)),
                ("lost", Value::Integer(lost_bytes as i64)),
                ("from", scope.text(SIDES[side].as_bytes())?),
            ],
        )?;
        Ok((scope.flow(flow)?, table))
    });
}

/// Passes the events of one packet to the core.
struct Passing<'a> {
    core: &'a mut Core,
    packet: &'a Packet<'a>,
}

impl ConnectionSink for Passing<'_> {
    fn begin(&mut self, place: u32, opened: &Opened) {
        let is_client_a = opened.client == Sender::A;
        let [a, b] = opened.ends;
        let (client, server) = if is_client_a { (a, b) } else { (b, a) };
        let slot = self.core.begin_flow((client, server, TCP), is_client_a, self.packet);
        let at = place as usize;
        if self.core.connections.len() <= at {
            self.core.connections.resize_with(at + 1, || None);
        }
        self.core.connections[at] = Some(slot);
    }

    #[inline]
    fn segment(&mut self, place: u32, _: Sender) {
        let Some(Some(slot)) = self.core.connections.get_mut(place as usize) else { return };
        if !std::mem::take(&mut slot.is_fresh) {
            slot.flow.count(self.packet.wire_bytes, self.packet.time_ns);
        }
        if let Some(kept) = slot.kept.as_deref_mut() {
            self.core.saves.keep(kept, &slot.flow, self.packet);
        }
    }

    fn event(&mut self, place: u32, sender: Sender, _: u64, event: StreamEvent) {
        let Some(slot) = self.core.connections.get_mut(place as usize) else { return };
        if slot.as_ref().is_none_or(|slot| slot.sides.is_none()) {
            return;
        }
        let Some(mut slot) = slot.take() else { return };
        let side = usize::from((sender == Sender::A) != slot.is_client_a);
        self.core.stream_event(&mut slot, side, &event);
        self.core.connections[place as usize] = Some(slot);
    }

    fn end(&mut self, place: u32, _: &Closed) {
        if let Some(slot) = self.core.connections.get_mut(place as usize).and_then(Option::take) {
            self.core.end_flow(slot);
        }
    }
}
