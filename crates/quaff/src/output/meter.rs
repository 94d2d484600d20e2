//! Meters the flows of a lane, and passes their records to the exporter's thread in lists.
//!
//! The lane fills a list, and takes empty ones back from the exporter. A live lane never waits for it: when the queue
//! of lists is full, a list is dropped and counted. A lane that reads files waits, so that the same files always give
//! the same records; so does each lane at its end, when no more packets can be lost. While the queue is nearly full
//! such a lane takes no packets; it waits here only for the records of flows that all end at once. What sinks do is
//! not known here.

use super::{Arrival, Now, Output, OutputTally, Pause};
use crate::batch::{Frame, Memory};
use crate::front::{Front, MakeFront, Ready};
use crate::gauge::MeterGauges;
use crate::links::{Link, Links};
use crate::plan::GRACE_NS;
use quaff_file::Interfaces;
use quaff_file::tally::Counts;
use quaff_flow::collector::FlowSum;
use quaff_flow::ledger::FlowLedger;
use quaff_flow::meter::Meter as FlowMeter;
use quaff_flow::packet::{Clock, Packet};
use quaff_flow::plan::MeterPlan;
use quaff_flow::reader::{HeaderBatch, HeaderReader};
use quaff_flow::record::{FlowRecord, FlowSink};
use quaff_os::Wakeup;
use rtrb::{Consumer, Producer, RingBuffer};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A list of records on its way to the sinks.
pub(crate) type Records = Vec<FlowRecord>;

/// Records of a full list.
const LIST_RECORDS: usize = 512;
/// Lists that may wait for the exporter: 1 M records of a lane. Their memory is allocated as they fill.
const LISTS_MAX: usize = 2048;
/// Empty lists that are kept for the next records.
const LISTS_SPARE: usize = 64;
/// Places that the queue needs before a lane that may wait takes packets.
const LISTS_ROOM: usize = 64;
/// Packets that are described to the meter at a time; their descriptions fit the first-level cache.
const PACKETS: usize = 64;
/// Longest time until a record leaves a live lane, ns.
const FLUSH_NS: u64 = 100_000_000;
/// The longest wait of a live lane with flows for packets, ns: flows end while none arrive.
const IDLE_NS: u64 = 50_000_000;
/// Interval at which the gauges are set while packets arrive, ns.
const SHOW_NS: u64 = 10_000_000;
/// Wait of a lane that has time for a place in the queue.
const ROOM_WAIT: Duration = Duration::from_millis(1);

/// The output of one lane of flow metering.
pub(crate) struct Meter {
    meter: FlowMeter,
    clock: Clock,
    links: Links,
    outbound: Outbound,
    is_live: bool,
    /// All packets exist already: records leave in full lists.
    is_at_once: bool,
    taken: u64,
    /// CLOCK_MONOTONIC when packets were taken last, ns.
    taken_ns: u64,
    gauges: Arc<MeterGauges>,
    /// CLOCK_MONOTONIC when they were set last, ns.
    shown_ns: u64,
    end: Sender<MeterEnd>,
}

/// The results of the meter of one lane.
#[derive(Debug)]
pub(crate) struct MeterEnd {
    pub(crate) ledger: FlowLedger,
    /// Records that were dropped on their way to the sinks.
    pub(crate) missed: FlowSum,
}

/// The exporter's end of a lane.
#[derive(Debug)]
pub(crate) struct RecordsInlet {
    pub(crate) inbound: Consumer<Records>,
    /// Takes empty lists back.
    pub(crate) free: Producer<Records>,
}

impl RecordsInlet {
    /// Returns whether the lane has ended, and all its lists were taken.
    pub(crate) fn has_ended(&self) -> bool {
        // In this order: the last list comes before the end.
        self.inbound.is_abandoned() && self.inbound.is_empty()
    }
}

/// Counts records that are dropped.
fn add(missed: &mut FlowSum, records: &[FlowRecord]) {
    missed.records += records.len() as u64;
    missed.packets += records.iter().map(FlowRecord::packets).sum::<u64>();
    missed.bytes += records.iter().map(FlowRecord::bytes).sum::<u64>();
}

impl Meter {
    /// A meter for the packets of `interfaces`, and the exporter's end of its queue. `end` receives the results;
    /// `wakeup` is signalled with each list.
    pub(crate) fn new(
        plan: &MeterPlan,
        interfaces: Interfaces,
        (is_live, is_at_once): (bool, bool),
        wakeup: Wakeup,
        end: Sender<MeterEnd>,
    ) -> (Self, RecordsInlet) {
        let (outbound, inlet) = Outbound::new(LISTS_MAX, !is_live, wakeup);
        let links = Links::new(interfaces);
        let (meter, clock) = (FlowMeter::new(plan.clone(), secret()), Clock::new(plan.idle_ns));
        let gauges = Arc::default();
        let output = Self {
            meter,
            clock,
            links,
            outbound,
            is_live,
            is_at_once,
            taken: 0,
            taken_ns: 0,
            gauges,
            shown_ns: 0,
            end,
        };
        (output, inlet)
    }

    pub(crate) fn gauges(&self) -> Arc<MeterGauges> {
        self.gauges.clone()
    }

    /// Makes readers of headers for other threads; `None` where the meter must see all packets in order.
    pub(crate) fn front(&self) -> Option<MakeFront> {
        let (reader, interfaces) = (self.meter.reader()?, self.links.interfaces());
        let front = move || {
            let front = HeaderFront { reader: reader.clone(), links: Links::new(interfaces.clone()) };
            Box::new(front) as Box<dyn Front>
        };
        Some(Arc::new(front))
    }

    /// Notes the time of packets that arrive.
    fn note_arrival(&mut self, now: Now) {
        self.outbound.opened_ns = match self.outbound.open.is_empty() {
            true => now.steady_ns,
            false => self.outbound.opened_ns,
        };
    }

    /// Notes that packets were taken.
    fn note_taken(&mut self, taken: usize, now: Now) {
        if taken > 0 {
            self.taken_ns = now.steady_ns;
        }
        self.taken += taken as u64;
    }

    fn show(&self) {
        self.gauges.show(self.meter.ledger());
        self.gauges.missed.set(self.outbound.missed.records);
    }
}

impl Output for Meter {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], arrival: Arrival) -> usize {
        self.note_arrival(arrival.now);
        let (mut packets, mut taken) = ([Packet::default(); PACKETS], 0);
        for frames in frames.chunks(PACKETS) {
            if !self.outbound.has_room() {
                break;
            }
            for (packet, frame) in packets.iter_mut().zip(frames) {
                let now = Some(self.clock.see(frame.time_ns));
                *packet = Packet { now, ..packet_of(frame, memory, &mut self.links) };
            }
            self.meter.take(&packets[..frames.len()], &mut self.outbound);
            taken += frames.len();
        }
        self.note_taken(taken, arrival.now);
        taken
    }

    fn take_ready(
        &mut self,
        ready: &mut Ready,
        memory: Memory<'_>,
        frames: &mut [Frame],
        arrival: Arrival,
    ) -> usize {
        let Some(batch) = ready.downcast_mut::<HeaderBatch>() else {
            return self.take(memory, frames, arrival);
        };
        if !self.outbound.has_room() {
            return 0;
        }
        self.note_arrival(arrival.now);
        let kept = |number: &u32| packet_of(&frames[*number as usize], memory, &mut self.links);
        let kept: Vec<_> = batch.kept().iter().map(kept).collect();
        if !self.meter.take_read(batch, &kept, &mut self.clock, &mut self.outbound) {
            return self.take(memory, frames, arrival);
        }
        self.note_taken(frames.len(), arrival.now);
        frames.len()
    }

    fn tick(&mut self, pause: Pause, _: &dyn Fn(&mut Counts)) {
        let Pause { now, is_idle, .. } = pause;
        // The clock of this machine means nothing for a file. A card's clock may be ahead of it.
        let past_ns = now.wall_ns.saturating_sub(GRACE_NS);
        // Packets may arrive of which no stage leaves one: flows end all the same.
        let rests = is_idle || now.steady_ns.saturating_sub(self.taken_ns) >= IDLE_NS;
        if self.is_live && rests && past_ns > self.clock.now().ns {
            self.meter.nudge(self.clock.see(past_ns), &mut self.outbound);
        }
        if !self.is_at_once && now.steady_ns.saturating_sub(self.outbound.opened_ns) >= FLUSH_NS {
            self.outbound.pass_on();
            self.outbound.opened_ns = now.steady_ns;
        }
        if is_idle || now.steady_ns.saturating_sub(self.shown_ns) >= SHOW_NS {
            self.shown_ns = now.steady_ns;
            self.show();
        }
    }

    fn patience_ns(&self, _: Now) -> u64 {
        let ledger = self.meter.ledger();
        let has_flows = self.is_live && (ledger.flows_live > 0 || ledger.held.packets > 0);
        let has_records = !self.is_at_once && !self.outbound.open.is_empty();
        if has_flows || has_records { IDLE_NS } else { u64::MAX }
    }

    fn finish(&mut self, _: u64, _: &dyn Fn(&mut Counts)) {
        self.outbound.may_wait = true;
        self.meter.finish(&mut self.outbound);
        self.outbound.pass_on();
        let (ledger, missed) = (self.meter.ledger(), self.outbound.missed);
        self.gauges.end(ledger);
        self.gauges.missed.set(missed.records);
        // Without a receiver the run has failed at its start.
        let _ = self.end.send(MeterEnd { ledger, missed });
    }

    fn tally(&self) -> OutputTally {
        OutputTally { taken: self.taken, ..OutputTally::default() }
    }
}

/// A packet for the meter, without a moment of the clock.
#[inline]
fn packet_of<'a>(frame: &Frame, memory: Memory<'a>, links: &mut Links) -> Packet<'a> {
    let Link { linktype, interface, tunnel } = links.of(frame.interface);
    Packet {
        bytes: memory.of(frame),
        time_ns: frame.time_ns,
        now: None,
        wire_bytes: frame.wire_len,
        linktype,
        interface,
        tag: (frame.tpid != 0).then_some((frame.tpid, frame.tci)),
        tunnel,
    }
}

/// Reads headers ahead of the meter.
struct HeaderFront {
    reader: HeaderReader,
    links: Links,
}

impl Front for HeaderFront {
    fn read(&mut self, memory: Memory<'_>, frames: &[Frame], ready: &mut Option<Ready>) {
        let mut batch = match ready.take().map(Ready::downcast::<HeaderBatch>) {
            Some(Ok(batch)) => batch,
            _ => Box::default(),
        };
        self.reader.begin(&mut batch);
        let mut packets = [Packet::default(); PACKETS];
        for (first, frames) in (0..).step_by(PACKETS).zip(frames.chunks(PACKETS)) {
            for (packet, frame) in packets.iter_mut().zip(frames) {
                *packet = packet_of(frame, memory, &mut self.links);
            }
            self.reader.read_ahead(&packets[..frames.len()], first, &mut batch);
        }
        *ready = Some(batch);
    }
}

/// The records of a lane on their way out.
struct Outbound {
    /// The list that is being filled.
    open: Records,
    /// CLOCK_MONOTONIC when it was empty last, ns.
    opened_ns: u64,
    to: Producer<Records>,
    from: Consumer<Records>,
    wakeup: Wakeup,
    /// Lists wait for a place in the queue.
    may_wait: bool,
    missed: FlowSum,
}

impl Outbound {
    /// An empty list, and a queue of `lists` of them with the exporter's end.
    fn new(lists: usize, may_wait: bool, wakeup: Wakeup) -> (Self, RecordsInlet) {
        let (to, inbound) = RingBuffer::new(lists);
        let (free, from) = RingBuffer::new(LISTS_SPARE);
        let (open, missed) = (Vec::with_capacity(LIST_RECORDS), FlowSum::default());
        let outbound = Self { open, opened_ns: 0, to, from, wakeup, may_wait, missed };
        (outbound, RecordsInlet { inbound, free })
    }

    /// Returns whether packets may be taken: their records will have places, or are dropped and counted.
    fn has_room(&self) -> bool {
        !self.may_wait || self.to.slots() >= LISTS_ROOM || self.to.is_abandoned()
    }

    /// Passes the list on, as far as it has records.
    fn pass_on(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let empty = self.from.pop().unwrap_or_else(|_| Vec::with_capacity(LIST_RECORDS));
        let mut list = std::mem::replace(&mut self.open, empty);
        while let Err(rtrb::PushError::Full(refused)) = self.to.push(list) {
            if !self.may_wait || self.to.is_abandoned() {
                add(&mut self.missed, &refused);
                self.open = refused;
                self.open.clear();
                return;
            }
            list = refused;
            self.wakeup.signal();
            std::thread::sleep(ROOM_WAIT);
        }
        self.wakeup.signal();
    }
}

impl FlowSink for Outbound {
    fn take(&mut self, records: &[FlowRecord]) {
        for record in records {
            self.open.push(record.clone());
            if self.open.len() >= LIST_RECORDS {
                self.pass_on();
            }
        }
    }
}

/// Random numbers, so that an attacker cannot choose flows that meet in the table.
pub(super) fn secret() -> [u64; 2] {
    [0u64, 1].map(|word| RandomState::new().hash_one(word))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use quaff_flow::record::{Direction, EndReason, InitiatorRule, RecordKey};
    use std::net::Ipv4Addr;

    /// A record of `packets` packets of 100 bytes.
    pub(crate) fn record(packets: u64) -> FlowRecord {
        let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last).into());
        let forward = Direction { packets, bytes: 100 * packets, ..Direction::default() };
        FlowRecord {
            key: RecordKey {
                source,
                destination,
                source_port: 1,
                destination_port: 2,
                protocol: 17,
                icmp_type_code: 0,
                vlan: 0,
                inner_vlan: 0,
                mpls_label: 0,
                interface: 0,
                tos: 0,
                tunnel: 0,
            },
            forward,
            reverse: Direction::default(),
            initiator: InitiatorRule::First,
            end_reason: EndReason::Idle,
            is_continued: false,
            extras: None,
        }
    }

    fn lists(inlet: &mut RecordsInlet) -> Vec<usize> {
        std::iter::from_fn(|| inlet.inbound.pop().ok()).map(|list| list.len()).collect()
    }

    #[test]
    fn a_live_lane_drops_what_has_no_place_and_counts_it() {
        let (mut outbound, mut inlet) = Outbound::new(2, false, Wakeup::new().unwrap());
        outbound.take(&vec![record(3); 3 * LIST_RECORDS + 5]);
        outbound.pass_on();
        let records = LIST_RECORDS as u64 + 5;
        assert_eq!(outbound.missed, FlowSum { records, packets: 3 * records, bytes: 300 * records });
        assert_eq!(lists(&mut inlet), [LIST_RECORDS, LIST_RECORDS]);
        // With a place again nothing is dropped, and lists that return are used again.
        let mut returned = Vec::with_capacity(7000);
        returned.clear();
        inlet.free.push(returned).unwrap();
        outbound.take(&[record(1)]);
        outbound.pass_on();
        assert!(outbound.open.capacity() >= 7000);
        assert_eq!((lists(&mut inlet), outbound.missed.records), (vec![1], records));
    }

    #[test]
    fn a_lane_that_may_wait_waits_for_the_exporter_and_not_for_one_that_has_ended() {
        let (mut outbound, mut inlet) = Outbound::new(1, true, Wakeup::new().unwrap());
        let reader = std::thread::spawn(move || {
            let mut records = 0;
            while records < 4 * LIST_RECORDS {
                records += inlet.inbound.pop().map_or(0, |list| list.len());
            }
            records
        });
        outbound.take(&vec![record(1); 4 * LIST_RECORDS]);
        assert_eq!(reader.join().unwrap(), 4 * LIST_RECORDS);
        assert_eq!(outbound.missed, FlowSum::default());
        // The exporter's end is gone.
        outbound.take(&vec![record(1); 3 * LIST_RECORDS]);
        assert!(outbound.missed.records >= 2 * LIST_RECORDS as u64);
    }

    /// Packets that no stage leaves are no reason to keep flows that are idle.
    #[test]
    fn flows_end_while_no_packet_reaches_the_meter() {
        let plan = MeterPlan { idle_ns: 200_000_000, ..MeterPlan::default() };
        let (end, _ends) = std::sync::mpsc::channel();
        let interfaces = Interfaces::new(Vec::new());
        let (mut meter, mut inlet) =
            Meter::new(&plan, interfaces, (true, false), Wakeup::new().unwrap(), end);
        let at =
            |ms: u64| Now { wall_ns: 1_700_000_000_000_000_000 + ms * 1_000_000, steady_ns: ms * 1_000_000 };
        let frame = quaff_testpackets::ethernet(
            &[],
            0x0800,
            &quaff_testpackets::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &[0; 8]),
        );
        let packet = Packet {
            bytes: &frame,
            time_ns: at(1000).wall_ns,
            wire_bytes: frame.len() as u32,
            linktype: 1,
            ..Packet::default()
        };
        let now = Some(meter.clock.see(packet.time_ns));
        meter.meter.take(&[Packet { now, ..packet }], &mut meter.outbound);
        meter.taken_ns = at(1000).steady_ns;
        for ms in 1001..1600 {
            assert_eq!(meter.take(Memory::default(), &mut [], Arrival::at(at(ms))), 0);
            meter.tick(Pause { now: at(ms), is_idle: false, passed_ns: None }, &|_| ());
        }
        assert_eq!(lists(&mut inlet), [1]);
    }

    #[test]
    fn a_lane_that_may_wait_takes_packets_only_while_the_queue_has_room() {
        let (end, _ends) = std::sync::mpsc::channel();
        let plan = MeterPlan::default();
        let wakeup = || Wakeup::new().unwrap();
        let (mut meter, inlet) = Meter::new(&plan, Interfaces::default(), (false, true), wakeup(), end);
        let (outbound, narrow) = Outbound::new(LISTS_ROOM - 1, true, wakeup());
        meter.outbound = outbound;
        let bytes = [0; 64];
        let memory = Memory { bytes: &bytes, ..Memory::default() };
        let mut frames = [Frame { time_ns: 1, len: 64, wire_len: 64, ..Frame::default() }; 3];
        let now = Now { steady_ns: 1, wall_ns: 1 };
        assert_eq!((meter.take(memory, &mut frames, Arrival::at(now)), meter.tally().taken), (0, 0));
        // The reader is gone: records are counted as missed, and the lane continues.
        drop((narrow, inlet));
        assert_eq!((meter.take(memory, &mut frames, Arrival::at(now)), meter.tally().taken), (3, 3));
    }
}
