//! A row about a conversation: ends, times, bytes each way, application, gaps, and how it ended.

use crate::streams::names::{begin_name, end_name};
use crate::streams::protocol::StreamProtocol;
use quaff_flow::record::Application;
use quaff_stream::tracker::{CloseReason, Closed, Opened, UdpPayload};
use quaff_stream::{EndReason, Event, Presence, Sender};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};

/// Takes rows, in the order of the first packets of their conversations.
pub trait RowSink {
    /// Returns false if no more are wanted.
    fn row(&mut self, row: &StreamRow) -> bool;
    /// No more rows come.
    fn finish(&mut self) {}
}

/// A TCP connection or a UDP conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamRow {
    /// The word that `follow` takes: `12` for the connection with this number, `u12` for a UDP conversation.
    pub id: String,
    /// By first packet, from 1, among those of its protocol.
    pub number: u64,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    pub client: IpAddr,
    pub client_port: u16,
    pub server: IpAddr,
    pub server_port: u16,
    /// Times of the first and the last packet, ns since 1970.
    pub first_ns: u64,
    pub last_ns: u64,
    /// By the protocol, or by what runs inside of TLS or QUIC; `None` if it was not recognized.
    pub application: Option<&'static str>,
    /// Server name of TLS and QUIC, host of HTTP, name of a DNS query.
    pub host: Option<String>,
    /// `handshake`, `syn`, `answer`, `middle`; `None` for UDP.
    pub opened: Option<&'static str>,
    /// Why it left the table: see [`CloseReason::NAMES`].
    pub closed: &'static str,
    /// The kind of its end, in one word.
    pub ended: &'static str,
    pub from_client: StreamSide,
    pub from_server: StreamSide,
}

/// One direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StreamSide {
    /// Bytes of payload that `follow` prints.
    pub bytes: u64,
    /// Datagrams of UDP; `None` for TCP.
    pub datagrams: Option<u64>,
    pub gaps: u64,
    /// Bytes that are missing in the capture; of UDP those that the snaplen cut.
    pub gap_bytes: u64,
    /// `fin`, `reset`, `cutoff`, `capped`, `open`, `unseen`; `None` for UDP.
    pub end: Option<&'static str>,
    /// The first match of the pattern, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_match: Option<StreamMatch>,
}

/// The place of a match of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StreamMatch {
    /// Offset of its first byte, in the stream of the side with what is missing; of UDP in the datagram.
    pub offset: u64,
    /// The number of the datagram among those of the side, from 1; `None` for TCP.
    pub datagram: Option<u64>,
}

/// A conversation that has not ended.
#[derive(Debug)]
pub(super) struct Listed {
    /// By first packet, among all.
    pub(super) order: u64,
    protocol: StreamProtocol,
    opened: Opened,
    /// The bytes of A and B.
    sides: [StreamSide; 2],
    ends: [Option<EndReason>; 2],
    pub(super) application: Option<Application>,
}

impl Listed {
    pub(super) fn new(order: u64, protocol: StreamProtocol, opened: &Opened) -> Self {
        let datagrams = (protocol == StreamProtocol::Udp).then_some(0);
        let side = StreamSide { datagrams, ..StreamSide::default() };
        Self { order, protocol, opened: *opened, sides: [side; 2], ends: [None; 2], application: None }
    }

    /// The ports of the client and of the server, as the packets so far show them.
    pub(super) fn ports(&self) -> [u16; 2] {
        let client = self.opened.client;
        [client, client.other()].map(|sender| self.opened.ends[sender.index()].port())
    }

    pub(super) fn is_client(&self, sender: Sender) -> bool {
        sender == self.opened.client
    }

    /// Notes which host is the client. Returns true if it was another one.
    pub(super) fn set_client(&mut self, client: Sender) -> bool {
        std::mem::replace(&mut self.opened.client, client) != client
    }

    /// Notes an event of a stream.
    pub(super) fn note(&mut self, sender: Sender, event: &Event) {
        let side = &mut self.sides[sender.index()];
        match *event {
            Event::Data { bytes, .. } => side.bytes += bytes.len() as u64,
            Event::Urgent { .. } => side.bytes += 1,
            Event::Gap { lost_bytes, .. } => {
                side.gaps += 1;
                side.gap_bytes += lost_bytes;
            }
            Event::End { reason, .. } => self.ends[sender.index()] = Some(reason),
            Event::Difference(_) => {}
        }
    }

    pub(super) fn note_datagram(&mut self, sender: Sender, payload: UdpPayload) {
        let side = &mut self.sides[sender.index()];
        side.bytes += payload.bytes.len() as u64;
        side.gaps += u64::from(payload.cut_bytes() > 0);
        side.gap_bytes += payload.cut_bytes();
        side.datagrams = side.datagrams.map(|datagrams| datagrams + 1);
    }

    /// Searches a side, whose last datagram has been noted, for its first match.
    pub(super) fn search(&mut self, sender: Sender, find: impl FnOnce() -> Option<u64>) {
        let side = &mut self.sides[sender.index()];
        let datagram = side.datagrams;
        side.first_match = side.first_match.or_else(|| find().map(|offset| StreamMatch { offset, datagram }));
    }

    /// True if a side has a match.
    pub(super) fn has_match(&self) -> bool {
        self.sides.iter().any(|side| side.first_match.is_some())
    }

    /// The row of a connection that has ended.
    pub(super) fn tcp_row(&self, closed: &Closed) -> StreamRow {
        let client = self.opened.client;
        let ends = [client, client.other()].map(|sender| self.ends[sender.index()]);
        let mut row = self.row(closed.last_ns, closed.reason);
        let is_by_server = closed.reset_by == Some(client.other());
        let answer = closed.syns[client.index()].then_some(closed.presence[client.other().index()]);
        row.ended = ended(ends, answer, is_by_server, closed.reason);
        row.opened = Some(begin_name(closed, client));
        [row.from_client.end, row.from_server.end] = ends.map(|end| Some(end_name(end)));
        row
    }

    /// The row of a conversation of UDP.
    pub(super) fn udp_row(&self, last_ns: u64, reason: CloseReason) -> StreamRow {
        self.row(last_ns, reason)
    }

    fn row(&self, last_ns: u64, reason: CloseReason) -> StreamRow {
        let Opened { number, ends, client, first_ns } = self.opened;
        let is_tcp = self.protocol == StreamProtocol::Tcp;
        let [client_end, server_end]: [SocketAddr; 2] =
            [client, client.other()].map(|sender| ends[sender.index()]);
        let [from_client, from_server] = [client, client.other()].map(|sender| self.sides[sender.index()]);
        let application = self.application.as_ref();
        StreamRow {
            id: if is_tcp { number.to_string() } else { format!("u{number}") },
            number,
            protocol: self.protocol.name(),
            client: client_end.ip(),
            client_port: client_end.port(),
            server: server_end.ip(),
            server_port: server_end.port(),
            first_ns,
            last_ns,
            application: application.map(|application| application.name),
            host: application.and_then(|application| application.server_name.clone()),
            opened: None,
            closed: CloseReason::NAMES[reason as usize],
            ended: left(reason),
            from_client,
            from_server,
        }
    }
}

/// The end of a connection whose client and server ended so. `answer` is the presence of the server, if the SYN of the
/// client was captured. A reset was the server's, if there was one and `is_by_server`.
fn ended(
    ends: [Option<EndReason>; 2],
    answer: Option<Presence>,
    is_by_server: bool,
    reason: CloseReason,
) -> &'static str {
    let any = |of: fn(EndReason) -> bool| ends.into_iter().flatten().any(of);
    let is_fin = |end: Option<EndReason>| end == Some(EndReason::Fin);
    let is_silent = answer == Some(Presence::Absent);
    match ends {
        _ if any(|end| matches!(end, EndReason::Capped(_))) => "capped",
        _ if any(|end| end == EndReason::Cutoff) => "cutoff",
        _ if any(|end| end == EndReason::Reset) && is_silent && is_by_server => "refused",
        _ if any(|end| end == EndReason::Reset) => "reset",
        [one, other] if is_fin(one) && is_fin(other) => "fin",
        // The capture has one direction only.
        [one, None] | [None, one] if is_fin(one) => "fin",
        [one, other] if is_fin(one) || is_fin(other) => "half-closed",
        _ if is_silent => "unanswered",
        _ if answer == Some(Presence::Acknowledged) => "one-way",
        _ => left(reason),
    }
}

/// The end of a conversation whose ends are not in the capture.
fn left(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Closed | CloseReason::InputEnded => "open",
        CloseReason::Idle => "idle",
        CloseReason::Evicted => "evicted",
        CloseReason::Reused => "reused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_word_that_says_most() {
        use EndReason::{Cutoff, Fin, Finished, Reset};
        let [both, none, one_way] = [Presence::Captured, Presence::Absent, Presence::Acknowledged].map(Some);
        for (ends, answer, expected) in [
            ([Some(Fin), Some(Fin)], both, "fin"),
            ([Some(Fin), None], none, "fin"),
            ([Some(Fin), None], one_way, "fin"),
            ([Some(Fin), Some(Finished)], both, "half-closed"),
            ([Some(Fin), Some(Reset)], both, "reset"),
            ([Some(Reset), None], none, "refused"),
            ([Some(Reset), None], one_way, "reset"),
            ([Some(Reset), None], None, "reset"),
            ([Some(Reset), Some(Reset)], both, "reset"),
            ([Some(Finished), None], none, "unanswered"),
            ([Some(Finished), None], one_way, "one-way"),
            // Its SYN was not captured either.
            ([Some(Finished), None], None, "open"),
            ([Some(Finished), Some(Finished)], both, "open"),
            ([Some(Cutoff), Some(Fin)], both, "cutoff"),
        ] {
            assert_eq!(ended(ends, answer, true, CloseReason::InputEnded), expected, "{ends:?} {answer:?}");
        }
        let open = [Some(Finished); 2];
        assert_eq!(ended(open, both, false, CloseReason::Idle), "idle");
        assert_eq!(ended(open, both, false, CloseReason::Reused), "reused");
        // The client gave the attempt up itself.
        assert_eq!(ended([Some(Reset), None], none, false, CloseReason::InputEnded), "reset");
    }
}
