//! One connection or UDP conversation of several, passed on as its bytes come.

use crate::output::{ReaderTally, StreamReader};
use quaff_stream::tracker::{CloseReason, Closed, ConnectionSink, Opened, UdpPayload};
use quaff_stream::{Event, Sender};

/// The connection to follow, and its receiver.
pub struct FollowPlan {
    pub chosen: Chosen,
    pub sink: Box<dyn ConnectionSink + Send>,
}

/// The connection to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// The N-th of those between the ends of the plan, by first packet, from 1.
    Nth(u64),
    /// The one with this number among all of the only protocol in the plan.
    Number(u64),
}

/// The reader that passes one connection on.
pub(super) struct Follow {
    plan: FollowPlan,
    /// The place of the connection in the table, while it lasts: of TCP, of UDP.
    places: [Option<u32>; 2],
    tally: ReaderTally,
}

/// Index of the place of a protocol.
const TCP_AT: usize = 0;
const UDP_AT: usize = 1;

impl Follow {
    pub(super) fn new(plan: FollowPlan) -> Self {
        Self { plan, places: [None; 2], tally: ReaderTally::default() }
    }

    /// Counts a connection that begins. Returns true if it is the chosen one.
    fn choose(&mut self, at: usize, place: u32, opened: &Opened) -> bool {
        self.tally.connections += 1;
        let is_chosen = match self.plan.chosen {
            Chosen::Nth(nth) => nth == self.tally.connections,
            Chosen::Number(number) => number == opened.number,
        };
        if is_chosen {
            self.places[at] = Some(place);
        }
        is_chosen
    }

    /// Returns true if the chosen connection ends.
    fn leave(&mut self, at: usize, place: u32) -> bool {
        self.places[at].take_if(|chosen| *chosen == place).is_some()
    }
}

impl ConnectionSink for Follow {
    fn begin(&mut self, place: u32, opened: &Opened) {
        if self.choose(TCP_AT, place, opened) {
            self.plan.sink.begin(place, opened);
        }
    }

    fn event(&mut self, place: u32, sender: Sender, time_ns: u64, event: Event) {
        let bytes = match event {
            Event::Data { bytes, .. } => bytes.len() as u64,
            Event::Urgent { .. } => 1,
            _ => 0,
        };
        if self.places[TCP_AT] == Some(place) {
            self.tally.bytes += bytes;
            self.plan.sink.event(place, sender, time_ns, event);
        } else if matches!(self.plan.chosen, Chosen::Nth(_)) {
            // By a number, the bytes of the others are not counted at all.
            self.tally.skipped_bytes += bytes;
        }
    }

    fn end(&mut self, place: u32, closed: &Closed) {
        if self.leave(TCP_AT, place) {
            self.plan.sink.end(place, closed);
        }
    }

    fn begin_udp(&mut self, place: u32, opened: &Opened) {
        if self.choose(UDP_AT, place, opened) {
            self.plan.sink.begin_udp(place, opened);
        }
    }

    fn datagram(&mut self, place: u32, sender: Sender, time_ns: u64, payload: UdpPayload) {
        if self.places[UDP_AT] == Some(place) {
            self.tally.cut_bytes += payload.cut_bytes();
            self.plan.sink.datagram(place, sender, time_ns, payload);
        }
    }

    fn end_udp(&mut self, place: u32, last_ns: u64, reason: CloseReason) {
        if self.leave(UDP_AT, place) {
            self.plan.sink.end_udp(place, last_ns, reason);
        }
    }
}

impl StreamReader for Follow {
    fn finish(&mut self) -> ReaderTally {
        self.tally.clone()
    }
}
