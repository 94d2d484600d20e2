//! One connection or UDP conversation of several, passed on as its bytes come.

use super::protocol::StreamProtocol;
use crate::output::{ReaderTally, StreamReader};
use quaff_stream::tracker::{CloseReason, Closed, ConnectionSink, Opened, TrackPlan, UdpPayload};
use quaff_stream::{Event, Sender};

/// The connection to follow, and its receiver.
pub struct FollowPlan {
    pub protocol: StreamProtocol,
    /// Its number among those of its protocol that the plan of the tracker takes, by first packet, from 1.
    pub number: u64,
    pub sink: Box<dyn ConnectionSink + Send>,
}

impl FollowPlan {
    /// The plan of a tracker that counts what this connection lacks, and nothing of others.
    pub(super) fn choose(&self, track: TrackPlan) -> TrackPlan {
        let of = |protocol| Some(if protocol == self.protocol { self.number } else { 0 });
        TrackPlan { number: of(StreamProtocol::Tcp), udp_number: of(StreamProtocol::Udp), ..track }
    }
}

/// The reader that passes one connection on.
pub(super) struct Follow {
    plan: FollowPlan,
    /// The place of the connection in the table of its protocol, while it lasts.
    place: Option<u32>,
    tally: ReaderTally,
}

impl Follow {
    pub(super) fn new(plan: FollowPlan) -> Self {
        Self { plan, place: None, tally: ReaderTally::default() }
    }

    /// Returns true if a connection that begins is the chosen one.
    fn choose(&mut self, protocol: StreamProtocol, place: u32, opened: &Opened) -> bool {
        let is_chosen = protocol == self.plan.protocol && opened.number == self.plan.number;
        if is_chosen {
            self.tally.connections += 1;
            self.place = Some(place);
        }
        is_chosen
    }

    fn is_chosen(&self, protocol: StreamProtocol, place: u32) -> bool {
        protocol == self.plan.protocol && self.place == Some(place)
    }

    /// Returns true if the chosen connection ends.
    fn leave(&mut self, protocol: StreamProtocol, place: u32) -> bool {
        let is_chosen = self.is_chosen(protocol, place);
        if is_chosen {
            self.place = None;
        }
        is_chosen
    }
}

impl ConnectionSink for Follow {
    fn begin(&mut self, place: u32, opened: &Opened) {
        if self.choose(StreamProtocol::Tcp, place, opened) {
            self.plan.sink.begin(place, opened);
        }
    }

    fn client(&mut self, place: u32, client: Sender) {
        if self.is_chosen(StreamProtocol::Tcp, place) {
            self.plan.sink.client(place, client);
        }
    }

    fn event(&mut self, place: u32, sender: Sender, time_ns: u64, event: Event) {
        if !self.is_chosen(StreamProtocol::Tcp, place) {
            return;
        }
        self.tally.bytes += match event {
            Event::Data { bytes, .. } => bytes.len() as u64,
            Event::Urgent { .. } => 1,
            _ => 0,
        };
        self.plan.sink.event(place, sender, time_ns, event);
    }

    fn end(&mut self, place: u32, closed: &Closed) {
        if self.leave(StreamProtocol::Tcp, place) {
            self.plan.sink.end(place, closed);
        }
    }

    fn begin_udp(&mut self, place: u32, opened: &Opened) {
        if self.choose(StreamProtocol::Udp, place, opened) {
            self.plan.sink.begin_udp(place, opened);
        }
    }

    fn datagram(&mut self, place: u32, sender: Sender, time_ns: u64, payload: UdpPayload) {
        if self.is_chosen(StreamProtocol::Udp, place) {
            self.tally.cut_bytes += payload.cut_bytes();
            self.plan.sink.datagram(place, sender, time_ns, payload);
        }
    }

    fn end_udp(&mut self, place: u32, last_ns: u64, reason: CloseReason) {
        if self.leave(StreamProtocol::Udp, place) {
            self.plan.sink.end_udp(place, last_ns, reason);
        }
    }
}

impl StreamReader for Follow {
    fn finish(&mut self) -> ReaderTally {
        self.tally.clone()
    }
}
