//! Measures capture loss from TCP's own evidence: a receiver acknowledged bytes that the capture missed.
//!
//! | module | task |
//! |---|---|
//! | `read` | a packet, reduced to its evidence |
//! | `table` | connections by address and port |
//! | `direction` | one direction: sequence numbers, holes, acknowledgments |
//! | `holes` | the holes of all directions |
//! | `sums`, `cells` | counters, over time and over the order of segments |
//! | `estimate` | the share of lost packets with an interval |
//! | `report` | the results as plain data |
//!
//! No payload is stored. Memory is limited (68 MiB); a packet of a known connection allocates nothing. A loss has two
//! witnesses, the sender and the receiver: see `direction`. Late bytes filled a hole of the network. Excluded is what
//! proves nothing: directions without acknowledgments or without data, bytes from before the capture, bytes cut off by
//! the snaplen, connections with fragments.

mod cells;
mod direction;
mod estimate;
mod holes;
mod read;
mod report;
mod sums;
mod table;

pub(crate) use read::Read;
pub use report::{FlowLoss, InterfaceLoss, Interval, LossReport};

use crate::attempt::Attempt;
use crate::event::Sender;
use crate::key::Key;
use direction::{
    ACK_SEEN, AGAIN, AGREED, Context, Direction, Ended, RESET_SENT, SENT, SYN_SEEN, SYN_SENT, WATCHED,
};
use holes::Holes;
use quaff_wire::add_each;
use quaff_wire::flow::{FlowPacket, NoFlow};
use quaff_wire::net::agreement::{ACK, FIN, Numbers, RST, SYN};
use read::Evidence;
use sums::{SEGMENT_BYTES, Sums};
use table::{Connection, Table};

/// Time by which the packets of a connection may be out of order.
const DISORDER_NS: u64 = 1_000_000_000;
/// Time after which a capture should have the SYN before a SYN-ACK. Servers repeat a SYN-ACK, and clients a SYN, for a
/// minute (Linux: 63 s; `TCP_DEFER_ACCEPT` is often 30 s), and the first one may have come before the capture.
const SYN_REPEATS_NS: u64 = 64_000_000_000;
/// Pause after which another capture may have begun.
const PAUSE_NS: u64 = 3_000_000_000;
/// Number of missing SYNs and SYN-ACKs up to which they are no work of a filter.
const SYNS_FEW: u64 = 8;
/// Maximum number of connections that a report lists.
const WORST_MAX: usize = 16;
/// Number of attempts, of different connections, that are remembered: see [`Attempt`].
const ATTEMPTS: usize = 1 << 10;
/// Packets that are read before the first of them is processed, so that their connections are loaded in parallel.
const BATCH: usize = 32;

/// A TCP segment, reduced to its evidence.
#[derive(Debug, Clone, Copy)]
struct Segment {
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    /// Length of its payload on the wire.
    bytes: u32,
    time_ns: u64,
    origin: Origin,
}

/// The origin of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Origin {
    /// Number of its interface.
    interface: u16,
    /// True if it is a copy of an earlier packet.
    is_copy: bool,
}

/// Collects the evidence of a capture, packet by packet.
#[derive(Debug)]
pub struct LossMeter {
    /// Packets with their times, ns since 1970.
    batch: Vec<(u64, Read)>,
    table: Table,
    holes: Holes,
    sums: Sums,
    attempts: Attempts,
    watch: Watch,
    /// Directions with evidence, and connections whose only evidence is that of directions without data.
    directions: u64,
    bare_flows: u64,
    /// Connections whose only losses are those of directions without data.
    bare_lossy: u64,
    /// Connections whose SYN and SYN-ACK were captured.
    handshakes: u64,
}

impl LossMeter {
    /// Creates an empty meter. `secret` keys the hash of its table: random, and unknown to the senders of packets.
    pub fn new(secret: u64) -> Self {
        Self {
            batch: Vec::with_capacity(BATCH),
            table: Table::new(secret),
            holes: Holes::default(),
            sums: Sums::default(),
            attempts: Attempts::default(),
            watch: Watch::default(),
            directions: 0,
            bare_flows: 0,
            bare_lossy: 0,
            handshakes: 0,
        }
    }

    /// Processes a packet of link type `linktype` with `bytes` captured of `wire_bytes`.
    #[inline]
    pub fn packet(&mut self, bytes: &[u8], wire_bytes: u32, linktype: u16, time_ns: u64) {
        match FlowPacket::read(bytes, wire_bytes, linktype) {
            Ok(packet) => {
                if let Some(read) = Self::read(&packet, bytes, 0, self.table.secret) {
                    self.prefetch_line(&read);
                    self.push(time_ns, read);
                }
            }
            Err(NoFlow::NotIp | NoFlow::Truncated) => {}
        }
    }

    /// Reads a packet of an interface whose headers were parsed from `bytes`; `None` if it belongs to no connection.
    /// `secret` is that of the meter which will process it.
    #[inline]
    pub(crate) fn read(packet: &FlowPacket, bytes: &[u8], interface: u16, secret: u64) -> Option<Read> {
        Read::of(packet, bytes, interface, (secret, Table::NONE))
    }

    fn push(&mut self, time_ns: u64, read: Read) {
        self.batch.push((time_ns, read));
        if self.batch.len() == BATCH {
            self.take_batch();
        }
    }

    /// Returns the data segments so far whose loss would be seen, and the estimated lost packets.
    pub fn so_far(&self) -> [u64; 2] {
        self.sums.so_far()
    }

    /// Adds drops that the file records at a packet.
    pub fn note_drops(&mut self, time_ns: u64, drops: u64, interface: u16) {
        self.take_batch();
        self.sums.note_drops(time_ns, drops, interface);
    }

    /// Adds missing packet numbers at a time; negative if late ones arrived.
    pub(crate) fn note_numbers(&mut self, time_ns: u64, lost: i64) {
        self.sums.note_numbers(time_ns, lost);
    }

    /// Processes the packets of the batch in order.
    fn take_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        batch.iter_mut().for_each(|(_, read)| self.prefetch(read));
        batch.iter().for_each(|(time_ns, read)| self.take(read, *time_ns, false));
        batch.clear();
        self.batch = batch;
    }

    /// Prefetches the line of the index for a packet.
    #[inline]
    pub(crate) fn prefetch_line(&self, read: &Read) {
        self.table.prefetch_line(read.hash);
    }

    /// Prefetches the connection of a packet whose line is loaded.
    #[inline]
    pub(crate) fn prefetch(&self, read: &mut Read) {
        read.likely = self.table.prefetch(read.hash);
    }

    /// Processes a packet that was read; `is_copy`: it is a copy of an earlier one.
    #[inline]
    pub(crate) fn take(&mut self, read: &Read, time_ns: u64, is_copy: bool) {
        self.watch.note(time_ns);
        let place = match self.table.find(&read.key, read.hash, read.likely) {
            Some(place) => place,
            None => self.begin(read.key, time_ns),
        };
        let connection = self.table.get_mut(place);
        let is_disordered = connection.last_ns > time_ns.saturating_add(DISORDER_NS);
        connection.last_ns = connection.last_ns.max(time_ns);
        match read.evidence {
            Evidence::Segment if !is_disordered => {
                self.sums.found.snapped_bytes += u64::from(read.snapped_bytes);
                let Read { sequence, acknowledgment, flags, bytes, interface, .. } = *read;
                let origin = Origin { interface, is_copy };
                let segment = Segment { sequence, acknowledgment, flags, bytes, time_ns, origin };
                self.segment(place, read.sender.index(), &segment);
            }
            Evidence::None if !is_disordered => {}
            _ => connection.is_set_aside = true,
        }
    }

    /// Starts a connection, and ends expired ones.
    #[cold]
    fn begin(&mut self, key: Key, time_ns: u64) -> u32 {
        let (leaving, is_full) = self.table.leaving(time_ns);
        self.sums.found.evicted += u64::from(is_full);
        leaving.into_iter().flatten().for_each(|place| {
            self.end(place);
            self.table.remove(place);
        });
        let place =
            self.table.insert(Connection { key, last_ns: time_ns, is_used: true, ..Connection::default() });
        // The SYN of a connection that left a full table may have been captured.
        if self.watch.is_long(time_ns) && self.sums.found.evicted == 0 {
            self.table.get_mut(place).directions.iter_mut().for_each(|direction| direction.note(WATCHED));
        }
        place
    }

    #[inline]
    fn segment(&mut self, place: u32, sender: usize, segment: &Segment) {
        let connection = self.table.get(place);
        if (segment.flags & SYN != 0 || connection.has_attempt)
            && !self.take_handshake(place, sender, segment)
        {
            return;
        }
        let connection = self.table.get(place);
        let is_after_end = segment.flags & (SYN | RST) == 0
            && connection.directions[sender].is_after_end(
                segment.sequence,
                segment.bytes,
                connection.is_reset,
            );
        if is_after_end {
            self.begin_again(place, segment.time_ns);
        }
        self.give(place, sender, segment);
    }

    /// Passes a segment to its connection.
    #[inline]
    fn give(&mut self, place: u32, sender: usize, segment: &Segment) {
        let connection = self.table.get_mut(place);
        if connection.is_set_aside {
            return;
        }
        if segment.flags & RST != 0 {
            // The numbers of a reset are those of what it answers, or arbitrary.
            connection.is_reset |= connection.directions[sender].accepts_reset(segment.sequence);
            connection.directions[sender].note(RESET_SENT);
            return;
        }
        let cx = &mut Context::new(&mut self.holes, &mut self.sums, segment.time_ns);
        cx.is_copy = segment.origin.is_copy;
        connection.take(sender, segment, cx);
        connection.lost_bytes = connection.lost_bytes.saturating_add(cx.lost_bytes);
        connection.is_reset &= !cx.is_alive;
    }

    /// Ends a connection, and starts another one between the same endpoints.
    fn begin_again(&mut self, place: u32, last_ns: u64) {
        self.end(place);
        let key = self.table.get(place).key;
        let mut connection = Connection { key, last_ns, is_used: true, ..Connection::default() };
        connection.directions.iter_mut().for_each(|direction| direction.note(AGAIN));
        *self.table.get_mut(place) = connection;
    }

    /// Processes a SYN, or the segment after one that may have begun another connection. Returns false for a SYN that
    /// changes nothing before the handshake continues.
    #[cold]
    fn take_handshake(&mut self, place: u32, sender: usize, segment: &Segment) -> bool {
        let from = if sender == 0 { Sender::A } else { Sender::B };
        let Segment { flags, sequence, acknowledgment, .. } = *segment;
        let attempt = self.attempts.of(self.table.get(place), place);
        let numbers = Numbers { flags, sequence, acknowledgment };
        let taken = attempt.filter(|one| one.is_taken_by(from, &numbers));
        if let Some(attempt) = taken {
            self.table.get_mut(place).has_attempt = false;
            self.accept(place, &attempt, segment.origin);
            return true;
        }
        if flags & (SYN | RST) != SYN {
            return true;
        }
        let connection = self.table.get_mut(place);
        connection.directions[sender].note(SYN_SENT);
        if !connection.is_attempt(sender, segment) {
            // A repeated SYN refutes no SYN-ACK.
            connection.has_attempt &= attempt.is_some_and(|attempt| attempt.sender != from);
            return true;
        }
        // A SYN that is stored after its SYN-ACK: that one decides.
        let is_its_answer = |one: Attempt| {
            one.sender != from && one.flags & ACK != 0 && one.acknowledgment == sequence.wrapping_add(1)
        };
        if flags & ACK == 0 && attempt.is_some_and(is_its_answer) {
            return false;
        }
        let is_far =
            connection.directions[sender].is_started() && !connection.directions[sender].is_near(sequence);
        if !is_far {
            connection.directions[sender].forgive_missing_syn();
        }
        connection.has_attempt = true;
        let time_ns = segment.time_ns;
        let syn = crate::Segment { flags, sequence, acknowledgment, time_ns, ..crate::Segment::default() };
        self.attempts.note(place, Attempt::of(from, &syn, is_far));
        false
    }

    /// Starts another connection with this SYN or SYN-ACK, or only its direction if the other one has just begun.
    fn accept(&mut self, place: u32, attempt: &Attempt, origin: Origin) {
        let Attempt { sender, flags, sequence, acknowledgment, time_ns, .. } = *attempt;
        let connection = self.table.get_mut(place);
        let (own, other) = connection.halves(sender.index());
        if flags & ACK != 0 && other.is_answered_by(acknowledgment, own) {
            own.discard(&mut Context::new(&mut self.holes, &mut self.sums, time_ns));
            own.begin(sequence.wrapping_add(1), SYN_SEEN, time_ns);
        } else {
            self.begin_again(place, time_ns);
        }
        let syn = Segment { sequence, acknowledgment, flags, bytes: 0, time_ns, origin };
        self.give(place, sender.index(), &syn);
    }

    /// Ends a connection, which stays in the table.
    fn end(&mut self, place: u32) {
        let connection = self.table.get_mut(place);
        let cx = &mut Context::new(&mut self.holes, &mut self.sums, connection.last_ns);
        cx.sums.found.flows += 1;
        if connection.is_set_aside {
            cx.sums.found.set_aside += 1;
            // A loss that was declared before stays one.
            let is_lossy = u64::from(connection.lost_bytes > 0);
            cx.sums.found.flows_with_evidence += is_lossy;
            cx.sums.found.flows_with_loss += is_lossy;
            connection.directions.iter_mut().for_each(|direction| direction.discard(cx));
            return;
        }
        cx.sums.found.one_way += u64::from(connection.is_one_way());
        cx.sums.found.syns_unseen += u64::from(connection.lacks_syn());
        self.handshakes += u64::from(connection.has_handshake());
        let both = connection.directions.each_mut().map(|direction| direction.finish(cx));
        let lost_bytes = connection.lost_bytes.saturating_add(cx.lost_bytes);
        let has_evidence = lost_bytes > 0 || both.iter().any(|one| one.has_evidence);
        let found = &mut cx.sums.found;
        found.flows_with_evidence += u64::from(has_evidence);
        self.bare_flows += u64::from(!has_evidence && both.iter().any(|one| one.is_bare));
        self.directions += both.iter().filter(|one| one.has_evidence).count() as u64;
        both.iter().for_each(|one| found.add(one));
        self.bare_lossy += u64::from(lost_bytes == 0 && both.iter().any(|one| one.is_bare));
        if lost_bytes > 0 {
            found.flows_with_loss += 1;
            found.rank(flow_loss(&connection.key, &both, lost_bytes.into()));
        }
    }

    /// Ends all connections, and returns the report.
    pub fn finish(self) -> LossReport {
        self.end_all().report()
    }

    /// Ends all connections, and returns the sums.
    pub(crate) fn end_all(mut self) -> LossSums {
        self.take_batch();
        for place in 0..self.table.places() {
            if self.table.get(place).is_used {
                self.end(place);
            }
        }
        let (found, holes) = (&mut self.sums.found, &self.holes);
        found.untracked_bytes += holes.untracked_bytes;
        found.undecided_bytes += holes.untracked_bytes + holes.split_bytes;
        let Self { directions, bare_flows, bare_lossy, handshakes, sums, .. } = self;
        LossSums { directions, bare_flows, bare_lossy, handshakes, sums }
    }
}

/// The evidence of connections that have ended, from one meter or from several with different connections.
#[derive(Debug, Clone)]
pub(crate) struct LossSums {
    directions: u64,
    bare_flows: u64,
    bare_lossy: u64,
    handshakes: u64,
    sums: Sums,
}

impl LossSums {
    /// Adds the evidence of other connections at the same time, such as those of another lane.
    pub(crate) fn add(&mut self, other: &Self) {
        add_each!(self, other; directions, bare_flows, bare_lossy, handshakes);
        self.sums.add(&other.sums);
    }

    /// The report on all of them.
    pub(crate) fn report(self) -> LossReport {
        let Self { directions, bare_flows, bare_lossy, handshakes, mut sums } = self;
        let is_bare_lost = sums.found.bare * 2 <= directions;
        if is_bare_lost {
            sums.found.flows_with_evidence += bare_flows;
            sums.found.flows_with_loss += bare_lossy;
            sums.found.bare = 0;
        }
        // A filter that removes one of the two looks like that, a loss does not.
        if sums.found.syns_unseen > handshakes.max(SYNS_FEW) {
            sums.found.syns_set_aside = std::mem::take(&mut sums.found.syns_unseen);
        }
        sums.report(is_bare_lost)
    }
}

impl LossReport {
    /// Adds a connection to the worst ones if it is one of them.
    fn rank(&mut self, flow: FlowLoss) {
        let at = self.worst.partition_point(|other| other.lost_packets >= flow.lost_packets);
        if at < WORST_MAX {
            self.worst.truncate(WORST_MAX - 1);
            self.worst.insert(at, flow);
        }
    }

    fn add(&mut self, one: &Ended) {
        self.segments += one.segments;
        self.one_sided += u64::from(one.is_one_sided);
        self.midstream += u64::from(one.is_midstream);
        self.bare += u64::from(one.is_bare);
        self.copied += u64::from(one.has_copies);
        self.tcptrace_directions += u64::from(one.missed_bytes.is_some());
        self.tcptrace_missed_bytes += u64::from(one.missed_bytes.unwrap_or(0));
    }
}

/// The losses of a connection that has ended.
fn flow_loss(key: &Key, both: &[Ended; 2], lost_bytes: u64) -> FlowLoss {
    let sum = |of: fn(&Ended) -> u64| both.iter().map(of).sum::<u64>();
    let mean = sum(|one| one.bytes).checked_div(sum(|one| one.captured));
    FlowLoss {
        ends: key.ends(),
        segments: sum(|one| one.segments),
        lost_packets: lost_bytes.div_ceil(mean.unwrap_or(SEGMENT_BYTES.into()).max(1)),
        lost_bytes,
    }
}

/// The time for which packets have come, without a pause that may be one between two captures.
#[derive(Debug, Default)]
struct Watch {
    /// Time of the first packet after a pause, ns since 1970.
    since_ns: u64,
    /// Time of the latest packet; `None` before the first one.
    last_ns: Option<u64>,
}

impl Watch {
    #[inline]
    fn note(&mut self, time_ns: u64) {
        if self.last_ns.is_none_or(|last_ns| time_ns.abs_diff(last_ns) > PAUSE_NS) {
            self.since_ns = time_ns;
        }
        self.last_ns = Some(time_ns);
    }

    /// True if the capture has lasted for so long that it should have each SYN whose answer comes now.
    fn is_long(&self, time_ns: u64) -> bool {
        time_ns.saturating_sub(self.since_ns) >= SYN_REPEATS_NS
    }
}

/// The latest attempts; one of a connection with the same place in the list displaces another.
#[derive(Debug)]
struct Attempts(Vec<Option<(u32, Attempt)>>);

impl Default for Attempts {
    fn default() -> Self {
        Self(vec![None; ATTEMPTS])
    }
}

impl Attempts {
    fn note(&mut self, place: u32, attempt: Attempt) {
        self.0[place as usize % ATTEMPTS] = Some((place, attempt));
    }

    fn of(&self, connection: &Connection, place: u32) -> Option<Attempt> {
        let known = self.0[place as usize % ATTEMPTS].filter(|_| connection.has_attempt);
        known.filter(|(of, _)| *of == place).map(|(_, attempt)| attempt)
    }
}

impl Connection {
    /// The directions of the sender and of the other end.
    fn halves(&mut self, sender: usize) -> (&mut Direction, &mut Direction) {
        let [low, high] = &mut self.directions;
        if sender == 0 { (low, high) } else { (high, low) }
    }

    /// True for a SYN or SYN-ACK that changes nothing yet: its direction has begun elsewhere, or it answers what the
    /// other end has not sent.
    fn is_attempt(&self, sender: usize, segment: &Segment) -> bool {
        let (own, other) = (&self.directions[sender], &self.directions[1 - sender]);
        let is_unacceptable =
            segment.flags & ACK != 0 && other.is_unanswered() && !other.may_have_sent(segment.acknowledgment);
        is_unacceptable || own.is_started() && !own.begins_at(segment.sequence.wrapping_add(1))
    }

    /// Processes one of its segments.
    #[inline]
    fn take(&mut self, sender: usize, segment: &Segment, cx: &mut Context) {
        let is_syn = segment.flags & SYN != 0;
        let is_ack = segment.flags & ACK != 0;
        let is_established = self.is_established();
        let (own, other) = self.halves(sender);
        let sequence = segment.sequence.wrapping_add(u32::from(is_syn));
        match own.is_started() {
            true if is_syn => own.note_syn(),
            true if own.is_open_to_agreement() => {
                // A SYN-ACK that was a stray has named both begins.
                let is_known = other.has(SYN_SEEN) || !own.has(SYN_SEEN);
                let goes_with_other = is_ack && is_known && other.has_begun_with(segment.acknowledgment);
                if !own.agree(sequence, segment.bytes, goes_with_other, segment.time_ns) {
                    other.doubt(cx);
                }
            }
            true => {}
            false if is_syn => own.begin(sequence, SYN_SEEN, segment.time_ns),
            false => {
                own.begin_midstream(sequence, segment.time_ns);
                // It answers a SYN, after its SYN-ACK.
                if is_ack && other.has(SYN_SEEN) && other.may_have_sent(segment.acknowledgment) {
                    own.note_missing_syn();
                }
            }
        }
        own.note_sent(segment.origin.interface);
        // A SYN-ACK names the number of the SYN, as does the first segment after it.
        let is_client = own.has(SYN_SEEN) && !is_syn;
        if is_ack && !other.is_started() && (is_syn || is_client) {
            let is_missing = if is_syn { other.has(WATCHED) } else { own.may_have_sent(sequence) };
            other.begin(segment.acknowledgment, ACK_SEEN, segment.time_ns);
            if is_missing {
                other.note_missing_syn();
            }
        } else if is_ack && own.is_near(sequence) {
            other.acknowledge(segment.acknowledgment, is_established, cx);
        }
        let is_bare_ack = is_ack && segment.bytes == 0 && segment.flags & (SYN | FIN) == 0;
        if is_bare_ack && other.is_started() && !other.is_known_by(segment.acknowledgment) {
            return;
        }
        own.take(sequence, segment.bytes, segment.flags, cx);
    }

    /// True if one direction alone was captured, and acknowledges the other.
    fn is_one_way(&self) -> bool {
        let [one, other] = &self.directions;
        let is_alone = |own: &Direction, unseen: &Direction| {
            own.has(SENT) && !unseen.has(SENT | RESET_SENT) && unseen.has(ACK_SEEN)
        };
        is_alone(one, other) || is_alone(other, one)
    }

    /// True if the SYN and its answer were captured.
    fn has_handshake(&self) -> bool {
        self.directions.iter().all(|direction| direction.has(SYN_SEEN))
    }

    /// True if its SYN or SYN-ACK is missing, and what follows that goes with the other one of the two.
    fn lacks_syn(&self) -> bool {
        let [one, other] = &self.directions;
        one.lacks_syn() && other.has(AGREED) || other.lacks_syn() && one.has(AGREED)
    }

    /// True if Zeek would examine acknowledgments: both SYNs were captured, and no end.
    #[inline]
    fn is_established(&self) -> bool {
        let is_open = |direction: &Direction| direction.has(SYN_SEEN) && !direction.has_ended();
        !self.is_reset && self.directions.iter().all(is_open)
    }
}
