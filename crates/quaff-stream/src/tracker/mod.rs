//! Finds the connection of each segment, also of fragmented ones; starts connections, and ends expired ones. UDP
//! conversations too, if they are requested.
//!
//! | module | task |
//! |---|---|
//! | `plan` | limits and rules |
//! | `sink` | what the caller receives |
//! | `read` | the headers of packets |
//! | `table` | connections by key, and by the time of their last packets |
//! | `udp` | the conversations of UDP |
//! | `tally` | packets and connections by their fate |
//!
//! Time is packet time. A connection ends when it is idle, some time after both directions have ended, when another one
//! starts between the same endpoints, or when the table is full and it is the longest-idle one.

mod plan;
mod read;
mod sink;
mod table;
mod tally;
mod udp;

pub use crate::key::{Ends, sorted};
pub use plan::TrackPlan;
pub use read::{TrackPacket, TrackRead, TrackReader};
pub use sink::{Closed, ConnectionSink, Opened, UdpPayload};
pub use tally::{CloseReason, TrackTally};

use crate::attempt::Attempt;
use crate::conversation::{Conversation, Outcome, StreamLane};
use crate::datagram::{Datagram, Datagrams, Watched};
use crate::event::{Event, Segment, Sender, StreamSink};
use crate::key::Key;
use crate::tally::{FragmentTally, StreamTally};
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::TCP;
use quaff_wire::net::agreement::{Numbers, SYN};
use read::Kind;
use std::collections::VecDeque;
use table::{State, Table, Tracked};
use udp::{UdpFate, UdpTable};

/// Maximum number of entries of ended connections that may stay in the wait queues.
const DUE_SPARE: usize = 1024;
/// Distance in the queue between the connection whose holes are skipped and the prefetched one.
const DUE_AHEAD: usize = 4;

/// Passes on the events of a connection.
struct Passing<'a, S: ?Sized> {
    place: u32,
    time_ns: u64,
    sink: &'a mut S,
}

impl<S: ConnectionSink + ?Sized> StreamSink for Passing<'_, S> {
    #[inline]
    fn event(&mut self, sender: Sender, event: Event) {
        self.sink.event(self.place, sender, self.time_ns, event);
    }
}

/// A wait-queue entry of a connection with held bytes.
#[derive(Debug, Clone, Copy)]
struct Due {
    due_ns: u64,
    /// Number of the connection; at this index there may be another one by now.
    place: u32,
    number: u64,
}

impl Due {
    /// False for a stale entry: of another connection, or of one with an earlier entry.
    fn is_of(&self, tracked: &Tracked) -> bool {
        tracked.number == self.number && tracked.due_ns == self.due_ns
    }
}

/// The connections of a lane.
#[derive(Debug)]
pub struct Tracker {
    plan: TrackPlan,
    reader: TrackReader,
    lane: StreamLane,
    datagrams: Datagrams,
    table: Table<Tracked>,
    udp: Option<Box<UdpTable>>,
    /// The counters of the connection with the number of the plan, and its key once it has begun.
    chosen: StreamTally,
    chosen_key: Option<Key>,
    /// Connections with held bytes, by the time at which they have waited long enough: those with an acknowledged hole,
    /// and the others, which wait longer. Entries may be stale.
    due: [VecDeque<Due>; 2],
    tally: TrackTally,
    last_ns: u64,
}

impl Tracker {
    /// Creates an empty tracker. `secret` keys the hash of its table: random, and unknown to senders.
    pub fn new(plan: TrackPlan, secret: u64) -> Self {
        let plan = TrackPlan { only: plan.only.map(sorted), ..plan };
        let mut datagrams = Datagrams::new(plan.fragment);
        datagrams.watch(plan.watched(plan.number));
        Self {
            reader: TrackReader::new(secret),
            lane: StreamLane::new(plan.stream, None),
            datagrams,
            table: Table::new(secret),
            udp: plan.udp.then(|| Box::new(UdpTable::new(&plan, secret))),
            chosen: StreamTally::default(),
            chosen_key: None,
            due: Default::default(),
            tally: TrackTally::default(),
            last_ns: 0,
            plan,
        }
    }

    /// Counters of packets and connections.
    pub fn tally(&self) -> &TrackTally {
        &self.tally
    }

    /// Counters of stream bytes: of all connections, or of the one with the number of the plan.
    pub fn streams(&self) -> &StreamTally {
        if self.plan.number.is_some() { &self.chosen } else { self.lane.tally() }
    }

    /// Counters of fragment bytes; by a number in the plan, of the incomplete datagrams between its hosts alone.
    pub fn fragments(&self) -> FragmentTally {
        let mut tally = self.datagrams.watched_tally();
        tally += self.udp.as_ref().map_or(FragmentTally::default(), |udp| udp.fragments());
        tally
    }

    /// Processes a packet.
    #[inline]
    pub fn packet<S: ConnectionSink + ?Sized>(&mut self, packet: &TrackPacket, sink: &mut S) {
        let read = self.reader.read(packet);
        self.take(&read, packet, sink);
    }

    /// Reads packets for this tracker, on any thread.
    pub fn reader(&self) -> TrackReader {
        self.reader
    }

    /// Prefetches the line of the index that [`Self::prefetch`] needs for a packet.
    #[inline]
    pub fn prefetch_line(&self, read: &TrackRead) {
        self.table.prefetch_line(read.hash);
    }

    /// Prefetches the likely connection of a packet.
    #[inline]
    pub fn prefetch(&self, read: &TrackRead) {
        self.table.prefetch_likely(read.hash);
    }

    /// Processes a packet that [`Self::reader`] has read.
    #[inline]
    pub fn take<S: ConnectionSink + ?Sized>(&mut self, read: &TrackRead, packet: &TrackPacket, sink: &mut S) {
        let TrackPacket { bytes, time_ns, .. } = *packet;
        self.tally.packets += 1;
        self.last_ns = time_ns;
        self.end_old(time_ns, sink);
        match read.kind {
            Kind::NotTcp => self.not_tcp(packet, sink),
            Kind::NotIp => self.tally.not_ip += 1,
            Kind::Truncated => self.tally.truncated += 1,
            Kind::Damaged => self.tally.damaged += 1,
            Kind::Fragment => self.fragment(packet, sink),
            _ if !self.is_wanted(read) => self.tally.unselected += 1,
            Kind::TruncatedSegment => self.tally.truncated += 1,
            Kind::DamagedSegment => self.tally.damaged += 1,
            Kind::Segment => {
                self.tally.segments += 1;
                self.segment(read, &read.segment(bytes, time_ns), sink);
            }
        }
    }

    /// Ends all connections. Held bytes are delivered, with gaps in between.
    pub fn finish<S: ConnectionSink + ?Sized>(&mut self, sink: &mut S) {
        self.datagrams.finish();
        if let Some(udp) = &mut self.udp {
            udp.finish(&mut self.tally, sink);
        }
        // In the order of first packets, so that the same input gives the same output.
        let mut places: Vec<(u64, u32)> = Vec::with_capacity(self.table.len());
        for place in 0..self.table.places() {
            places.extend(self.table.get(place).map(|tracked| (tracked.number, place)));
        }
        places.sort_unstable();
        for (_, place) in places {
            self.end(place, self.last_ns, None, sink);
        }
    }

    /// False for a packet of a connection that is not selected.
    #[inline]
    fn is_wanted(&self, read: &TrackRead) -> bool {
        // Segments of other connections decide which number the next one has; damaged ones decide nothing.
        let is_counted = self.plan.number.is_none() || read.kind == Kind::Segment;
        self.plan.tcp
            && self.plan.only.is_none_or(|only| read.key.ends() == only)
            && (is_counted || self.is_of_chosen(&read.key))
    }

    /// True for a packet of the connection with the number of the plan, or between the selected endpoints before it.
    #[cold]
    fn is_of_chosen(&self, key: &Key) -> bool {
        let is_next = self.plan.number == Some(self.tally.connections + 1);
        match self.chosen_key {
            Some(chosen) => chosen == *key,
            None => self.plan.only.is_some() && is_next && self.table.len() == 0,
        }
    }

    /// Processes a packet that is not TCP.
    #[inline]
    fn not_tcp<S: ConnectionSink + ?Sized>(&mut self, packet: &TrackPacket, sink: &mut S) {
        let fate = match &mut self.udp {
            Some(udp) => udp.take(packet, (&self.plan, &mut self.tally), sink),
            None => UdpFate::NotUdp,
        };
        match fate {
            UdpFate::NotUdp => self.tally.not_tcp += 1,
            UdpFate::Unselected => self.tally.unselected += 1,
            UdpFate::Truncated => self.tally.truncated += 1,
            UdpFate::Damaged => self.tally.damaged += 1,
            UdpFate::Taken => self.tally.datagrams += 1,
        }
    }

    #[cold]
    fn fragment<S: ConnectionSink + ?Sized>(&mut self, packet: &TrackPacket, sink: &mut S) {
        let TrackPacket { bytes, wire_bytes, linktype, time_ns } = *packet;
        let Ok(read) = FlowPacket::read(bytes, wire_bytes, linktype) else { return };
        if !self.plan.tcp || !self.plan.has_hosts(read.addresses) {
            self.tally.unselected += 1;
            return;
        }
        self.tally.fragments += 1;
        let policy = self.plan.policies.of(read.addresses[1]).fragment;
        let whole = self.datagrams.take(&read, (bytes, wire_bytes), time_ns, policy);
        let Some(Datagram { read, payload }) = whole.filter(|whole| whole.read.protocol == TCP) else {
            return;
        };
        let read = self.reader.segment(&read, &payload);
        if self.is_wanted(&read) && read.kind == Kind::Segment {
            self.tally.segments_whole += 1;
            self.segment(&read, &read.segment(&payload, time_ns), sink);
        }
    }

    #[inline]
    fn segment<S: ConnectionSink + ?Sized>(&mut self, read: &TrackRead, segment: &Segment, sink: &mut S) {
        let TrackRead { key, hash, sender, .. } = *read;
        let place = match self.table.find(&key, hash) {
            Some(place) => place,
            None => self.begin(key, key.client(sender, segment.flags), segment.time_ns, sink),
        };
        if self.feed(place, sender, segment, sink) == Outcome::IsNewConnection {
            self.begin_again(place, key, sender, segment, sink);
        }
    }

    /// Ends a connection, and starts another one between the same endpoints: with the segment, or with the SYN that it
    /// answers.
    #[cold]
    fn begin_again<S: ConnectionSink + ?Sized>(
        &mut self,
        place: u32,
        key: Key,
        sender: Sender,
        segment: &Segment,
        sink: &mut S,
    ) {
        let attempt = self.table.get(place).and_then(|tracked| tracked.attempt);
        let attempt = attempt.filter(|attempt| takes(segment, sender, attempt));
        let first_ns = attempt.map_or(segment.time_ns, |attempt| attempt.time_ns);
        self.end(place, segment.time_ns, Some(CloseReason::Reused), sink);
        let (opener, flags) =
            attempt.map_or((sender, segment.flags), |attempt| (attempt.sender, attempt.flags));
        let place = self.begin(key, key.client(opener, flags), first_ns, sink);
        if let Some(attempt) = attempt {
            let _ = self.feed(place, attempt.sender, &attempt.segment(), sink);
        }
        let _ = self.feed(place, sender, segment, sink);
    }

    /// Passes a segment to its connection.
    #[inline]
    fn feed<S: ConnectionSink + ?Sized>(
        &mut self,
        place: u32,
        sender: Sender,
        segment: &Segment,
        sink: &mut S,
    ) -> Outcome {
        let Some(tracked) = self.table.get(place) else { return Outcome::Taken };
        if tracked.attempt.is_some_and(|attempt| takes(segment, sender, &attempt)) {
            return Outcome::IsNewConnection;
        }
        sink.segment(place, sender);
        let is_chosen = self.plan.number == Some(tracked.number);
        self.lane.swap_tally_if(is_chosen, &mut self.chosen);
        let (ignored, client) = (self.lane.tally().syns_ignored, tracked.conversation.client());
        let passing = &mut Passing { place, time_ns: segment.time_ns, sink };
        let outcome = tracked.conversation.segment(sender, segment, &mut self.lane, passing);
        let is_syn_ignored = self.lane.tally().syns_ignored > ignored;
        self.lane.swap_tally_if(is_chosen, &mut self.chosen);
        if outcome == Outcome::IsNewConnection {
            return outcome;
        }
        let opener = tracked.conversation.client();
        if let Some(opener) = opener.filter(|_| opener != client) {
            sink.client(place, opener);
        }
        if is_syn_ignored {
            let is_far = tracked.conversation.is_far(sender, segment, &self.lane);
            tracked.attempt = Some(Attempt::of(sender, segment, is_far));
        } else if segment.flags & SYN != 0 {
            tracked.attempt = None;
        }
        tracked.last_ns = segment.time_ns;
        let due_ns = tracked.conversation.due_ns(&self.lane);
        let is_earlier = due_ns < tracked.due_ns;
        tracked.due_ns = tracked.due_ns.min(due_ns);
        let number = tracked.number;
        let state = if tracked.conversation.is_closed() { State::Closed } else { State::Open };
        self.table.touch(place, state, segment.time_ns);
        if is_earlier {
            self.wait(Due { due_ns, place, number }, segment.time_ns);
        }
        outcome
    }

    /// Starts a connection.
    #[cold]
    fn begin<S: ConnectionSink + ?Sized>(
        &mut self,
        key: Key,
        client: Sender,
        first_ns: u64,
        sink: &mut S,
    ) -> u32 {
        let ends = key.ends();
        if self.table.len() >= self.plan.connections_max as usize {
            let leaving = self.table.oldest(State::Closed).map(|(place, _)| (place, None));
            let open = self.table.oldest(State::Open).map(|(place, _)| (place, Some(CloseReason::Evicted)));
            if let Some((place, reason)) = leaving.or(open) {
                self.end(place, first_ns, reason, sink);
            }
        }
        let policies = ends.map(|end| self.plan.policies.of(end.ip()).stream);
        self.tally.connections += 1;
        let number = self.tally.connections;
        if self.plan.number == Some(number) {
            self.chosen_key = Some(key);
            self.datagrams.watch(Watched::Hosts(ends.map(|end| end.ip())));
        }
        let conversation = Conversation::new(policies[0], policies[1]);
        let tracked = Tracked { conversation, number, last_ns: first_ns, attempt: None, due_ns: u64::MAX };
        let place = self.table.insert(key, tracked, first_ns);
        self.tally.connections_high = self.tally.connections_high.max(self.table.len() as u64);
        sink.begin(place, &Opened { number, ends, client, first_ns });
        place
    }

    /// Ends a connection: for `reason`, or because the input ended, unless both directions had ended.
    #[cold]
    fn end<S: ConnectionSink + ?Sized>(
        &mut self,
        place: u32,
        now_ns: u64,
        reason: Option<CloseReason>,
        sink: &mut S,
    ) {
        let Some(mut tracked) = self.table.remove(place) else { return };
        let reason = match tracked.conversation.is_closed() {
            true if reason != Some(CloseReason::Reused) => CloseReason::Closed,
            _ => reason.unwrap_or(CloseReason::InputEnded),
        };
        let passing = &mut Passing { place, time_ns: now_ns, sink };
        let is_chosen = self.plan.number == Some(tracked.number);
        self.lane.swap_tally_if(is_chosen, &mut self.chosen);
        tracked.conversation.finish(&mut self.lane, passing);
        self.lane.swap_tally_if(is_chosen, &mut self.chosen);
        if is_chosen {
            self.chosen_key = None;
            self.datagrams.watch(Watched::None);
        }
        self.tally.ended[reason as usize] += 1;
        let Tracked { conversation, last_ns, .. } = tracked;
        let syns = [Sender::A, Sender::B].map(|sender| conversation.has_syn(sender));
        let presence = [Sender::A, Sender::B].map(|sender| conversation.presence(sender));
        let (client, reset_by) = (conversation.client(), conversation.reset_by());
        sink.end(place, &Closed { client, syns, presence, reset_by, last_ns, reason });
    }

    /// Ends connections that have expired at `now_ns`, and skips holes that have waited long enough.
    #[inline]
    fn end_old<S: ConnectionSink + ?Sized>(&mut self, now_ns: u64, sink: &mut S) {
        let waits = [(State::Open, self.plan.idle_ns), (State::Closed, self.plan.closed_ns)];
        for (state, wait_ns) in waits {
            while let Some((place, touched_ns)) = self.table.oldest(state) {
                if now_ns.saturating_sub(touched_ns) <= wait_ns {
                    break;
                }
                self.end(place, now_ns, Some(CloseReason::Idle), sink);
            }
        }
        if let Some(udp) = &mut self.udp {
            udp.end_old(now_ns, &mut self.tally, sink);
        }
        for queue in 0..self.due.len() {
            while self.due[queue].front().is_some_and(|due| due.due_ns <= now_ns) {
                self.skip_holes(queue, now_ns, sink);
            }
        }
    }

    /// Skips the holes of the first connection in a queue.
    #[cold]
    fn skip_holes<S: ConnectionSink + ?Sized>(&mut self, queue: usize, now_ns: u64, sink: &mut S) {
        let Some(due) = self.due[queue].pop_front() else { return };
        if let Some(later) = self.due[queue].get(DUE_AHEAD) {
            self.table.prefetch(later.place);
        }
        let Due { place, number, .. } = due;
        let Some(tracked) = self.table.get(place).filter(|tracked| due.is_of(tracked)) else { return };
        let passing = &mut Passing { place, time_ns: now_ns, sink };
        let is_chosen = self.plan.number == Some(number);
        self.lane.swap_tally_if(is_chosen, &mut self.chosen);
        tracked.conversation.tick(now_ns, &mut self.lane, passing);
        self.lane.swap_tally_if(is_chosen, &mut self.chosen);
        let due_ns = tracked.conversation.due_ns(&self.lane);
        tracked.due_ns = due_ns;
        if due_ns != u64::MAX {
            self.wait(Due { due_ns, place, number }, now_ns);
        }
    }

    /// Adds a connection to a wait queue. Stale entries are removed once they are the majority.
    #[cold]
    fn wait(&mut self, due: Due, now_ns: u64) {
        let is_soon = due.due_ns.saturating_sub(now_ns) <= self.plan.stream.ack_wait_ns;
        let queue = &mut self.due[usize::from(!is_soon)];
        if queue.len() > 2 * self.table.len() + DUE_SPARE {
            let table = &mut self.table;
            queue.retain(|due| table.get(due.place).is_some_and(|tracked| due.is_of(tracked)));
        }
        queue.push_back(due);
    }
}

/// True if the segment is the next one of a handshake after this SYN or SYN-ACK.
#[inline]
fn takes(segment: &Segment, sender: Sender, attempt: &Attempt) -> bool {
    let Segment { flags, sequence, acknowledgment, .. } = *segment;
    attempt.is_taken_by(sender, &Numbers { flags, sequence, acknowledgment })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::net::agreement::ACK;

    /// LINKTYPE_RAW: the packet starts with the IP header.
    const RAW: u16 = 101;

    struct Nothing;

    impl ConnectionSink for Nothing {
        fn begin(&mut self, _: u32, _: &Opened) {}
        fn event(&mut self, _: u32, _: Sender, _: u64, _: Event) {}
        fn end(&mut self, _: u32, _: &Closed) {}
    }

    /// Each connection has a hole, and is replaced by the next one long before its time limit.
    #[test]
    fn connections_that_wait_and_leave_are_forgotten() {
        const CONNECTIONS: usize = 16;
        let plan = TrackPlan { connections_max: CONNECTIONS as u32, ..TrackPlan::default() };
        let mut tracker = Tracker::new(plan, 7);
        for number in 0..20_000u32 {
            for (flags, sequence, bytes) in [(SYN, 0u32, 0), (ACK, 1001, 1)] {
                let [a, b, c, d] = number.to_be_bytes();
                let mut packet =
                    vec![0x45, 0, 0, 40 + bytes, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, a, b, c, 10, 0, 0, 1];
                packet.extend([4, d, 0, 80]);
                packet.extend(sequence.to_be_bytes());
                packet.extend([0, 0, 0, 0, 0x50, flags, 255, 255, 0, 0, 0, 0]);
                packet.resize(40 + usize::from(bytes), 0);
                let wire_bytes = packet.len() as u32;
                let time_ns = 1 + u64::from(number);
                tracker.packet(
                    &TrackPacket { bytes: &packet, wire_bytes, linktype: RAW, time_ns },
                    &mut Nothing,
                );
            }
            let waiting: usize = tracker.due.iter().map(VecDeque::len).sum();
            assert!(waiting <= 2 * CONNECTIONS + DUE_SPARE + 1, "{waiting}");
        }
        let due: Vec<Due> = tracker.due.iter().flatten().copied().collect();
        let mut is_live = |due: &&Due| tracker.table.get(due.place).is_some_and(|it| due.is_of(it));
        assert_eq!(due.iter().filter(|due| is_live(due)).count(), CONNECTIONS);
        tracker.finish(&mut Nothing);
        assert_eq!(tracker.streams().held_bytes, 0);
    }
}
