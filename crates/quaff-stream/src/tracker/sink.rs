//! The trait of a tracker's caller: the begin of a connection, its events, and its end.

use super::tally::CloseReason;
use crate::event::{Event, Presence, Sender};
use crate::key::Ends;

/// A TCP connection or a UDP conversation at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Number in the order of first packets, from 1, among those of its protocol.
    pub number: u64,
    /// Endpoints A and B.
    pub ends: Ends,
    /// The host that opened it, judging by its first packet ([`quaff_wire::net::initiator()`]): the sender, but of an
    /// answer the receiver.
    pub client: Sender,
    /// Time of the first packet, ns since 1970.
    pub first_ns: u64,
}

/// A connection at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The host that opened it, if its SYN or the SYN-ACK was captured.
    pub client: Option<Sender>,
    /// True for each endpoint whose SYN was captured: A, B.
    pub syns: [bool; 2],
    /// The segments of each endpoint in the capture: A, B.
    pub presence: [Presence; 2],
    /// The host whose reset ended it.
    pub reset_by: Option<Sender>,
    /// Time of the last packet, ns since 1970.
    pub last_ns: u64,
    pub reason: CloseReason,
}

/// The payload of a UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpPayload<'a> {
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Length on the wire, bytes: more than captured if the snaplen truncated it.
    pub wire_bytes: u32,
}

impl UdpPayload<'_> {
    /// Bytes that the snaplen cut off.
    pub fn cut_bytes(&self) -> u64 {
        u64::from(self.wire_bytes).saturating_sub(self.bytes.len() as u64)
    }
}

/// Receives connections and their events. `place` is the index of a connection while it exists, below
/// [`super::TrackPlan::connections_max`]; UDP conversations have places of their own.
pub trait ConnectionSink {
    /// A connection starts.
    fn begin(&mut self, place: u32, opened: &Opened);

    /// A segment of the connection arrived; its events follow.
    #[inline]
    fn segment(&mut self, _place: u32, _sender: Sender) {}

    /// A SYN or SYN-ACK shows which host opened the connection: often the one of [`Opened::client`], but not if a
    /// packet of the server came first.
    fn client(&mut self, _place: u32, _client: Sender) {}

    /// Receives the next event of the bytes that `sender` sent, caused by a packet at `time_ns`.
    fn event(&mut self, place: u32, sender: Sender, time_ns: u64, event: Event);

    /// A connection ends, after the last events of both directions.
    fn end(&mut self, place: u32, closed: &Closed);

    /// A UDP conversation starts.
    fn begin_udp(&mut self, _place: u32, _opened: &Opened) {}

    /// Receives the next datagram of a UDP conversation, in the order of the packets.
    fn datagram(&mut self, _place: u32, _sender: Sender, _time_ns: u64, _payload: UdpPayload) {}

    /// A UDP conversation ends. `last_ns` is the time of its last packet, ns since 1970.
    fn end_udp(&mut self, _place: u32, _last_ns: u64, _reason: CloseReason) {}
}
