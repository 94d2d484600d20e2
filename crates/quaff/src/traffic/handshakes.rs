//! Attempts to open a connection of TCP: answered, refused by a reset, or not answered, by the rules of
//! [`Opening`](quaff_wire::net::agreement::Opening), which the meters of flows and of losses share. Tunnels are not
//! entered. Attempts and servers within limits; what has no place is counted.

use super::tables::Waiting;
use quaff_file::{Histogram, Quantiles};
use quaff_wire::net::agreement::{Numbers, Opening};
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Attempts that are remembered, and servers that are counted apart.
const ATTEMPTS_MAX: usize = 1 << 18;
const SERVERS_MAX: usize = 1 << 16;
/// Servers of a report.
const ROWS_MAX: usize = 1000;
/// Time in which an answer may still come: the first timeout of a retransmission (RFC 6298, section 2), ns.
const ANSWER_NS: u64 = 1_000_000_000;

/// A segment with SYN or RST.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandshakeSegment {
    pub(super) time_ns: u64,
    /// Source and destination.
    pub(super) ends: [SocketAddr; 2],
    pub(super) numbers: Numbers,
}

/// A SYN, and its fate so far.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    sequence: u32,
    /// Time of the last SYN, and the number of them.
    last_ns: u64,
    syns: u64,
    is_open: bool,
}

/// The attempts of a capture to open connections.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TcpTraffic {
    /// SYNs that begin a connection; the next four are its fates.
    pub attempts: u64,
    /// By a SYN-ACK.
    pub answered: u64,
    /// By a reset.
    pub refused: u64,
    pub unanswered: u64,
    /// Without an answer, less than a second before the capture ends.
    pub undecided: u64,
    /// Attempts that had no place in the table, and are in no other number.
    pub untracked: u64,
    /// SYNs that repeat one.
    pub repeated_syns: u64,
    /// Times from SYN to SYN-ACK, ns: the round trip between the capture and the server.
    pub rtt_ns: Quantiles,
    /// Bytes that arrived more than once, and bytes that arrived after later ones, as verify counts them.
    pub retransmitted_bytes: u64,
    pub late_bytes: u64,
    /// Servers that are known.
    pub server_count: u64,
    /// Those with the most refused and unanswered attempts first.
    pub servers: Vec<TcpServer>,
}

/// The attempts to connect to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TcpServer {
    pub server: SocketAddr,
    pub attempts: u64,
    pub answered: u64,
    pub refused: u64,
    pub unanswered: u64,
    /// Mean and longest time from SYN to SYN-ACK, ns; 0 without one.
    pub rtt_mean_ns: u64,
    pub rtt_max_ns: u64,
}

/// The sums of a server.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    attempts: u64,
    answered: u64,
    refused: u64,
    unanswered: u64,
    rtt_sum_ns: u64,
    rtt_max_ns: u64,
}

/// Follows attempts, segment by segment.
#[derive(Debug)]
pub(super) struct Handshakes {
    open: Waiting<[SocketAddr; 2], Attempt>,
    found: TcpTraffic,
    rtts: Histogram,
    servers: Servers,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            open: Waiting::new(ATTEMPTS_MAX),
            found: TcpTraffic::default(),
            rtts: Histogram::default(),
            servers: Servers::default(),
        }
    }
}

/// Servers by their ends; those that have no place together.
#[derive(Debug, Default)]
struct Servers {
    known: HashMap<SocketAddr, Server>,
    others: Server,
}

impl Servers {
    fn of(&mut self, end: SocketAddr) -> &mut Server {
        if self.known.len() >= SERVERS_MAX && !self.known.contains_key(&end) {
            return &mut self.others;
        }
        self.known.entry(end).or_default()
    }
}

impl Handshakes {
    /// Takes the next segment.
    pub(super) fn take(&mut self, segment: &HandshakeSegment) {
        match segment.numbers.is_syn() {
            true => self.begin(segment),
            false => self.answer(segment),
        }
    }

    fn begin(&mut self, syn: &HandshakeSegment) {
        let HandshakeSegment { time_ns, ends, numbers } = *syn;
        let attempt = Attempt { sequence: numbers.sequence, last_ns: time_ns, syns: 1, is_open: true };
        if let Some(known) = self.open.get_mut(&ends) {
            if known.sequence == numbers.sequence {
                known.last_ns = known.last_ns.max(time_ns);
                known.syns += 1;
                self.found.repeated_syns += 1;
                return;
            }
            let before = std::mem::replace(known, attempt);
            lose(&mut self.found, &mut self.servers, ends[1], &before);
        } else {
            let (found, servers) = (&mut self.found, &mut self.servers);
            let left = |ends: [SocketAddr; 2], attempt: Attempt| lose(found, servers, ends[1], &attempt);
            if !self.open.insert(ends, attempt, time_ns, left) {
                self.found.untracked += 1;
                return;
            }
        }
        self.found.attempts += 1;
        self.servers.of(ends[1]).attempts += 1;
    }

    /// Takes a SYN-ACK or a reset, which may answer a SYN of the other end.
    fn answer(&mut self, segment: &HandshakeSegment) {
        let [server, client] = segment.ends;
        let Some(attempt) = self.open.get_mut(&[client, server]).filter(|attempt| attempt.is_open) else {
            return;
        };
        let syn =
            Numbers { flags: quaff_wire::net::agreement::SYN, sequence: attempt.sequence, acknowledgment: 0 };
        let opening = Opening { numbers: syn, is_far: true };
        if opening.is_taken_by(false, &segment.numbers) {
            let rtt_ns = segment.time_ns.saturating_sub(attempt.last_ns);
            attempt.is_open = false;
            self.found.answered += 1;
            self.rtts.add(rtt_ns);
            let server = self.servers.of(server);
            server.answered += 1;
            server.rtt_sum_ns = server.rtt_sum_ns.saturating_add(rtt_ns);
            server.rtt_max_ns = server.rtt_max_ns.max(rtt_ns);
        } else if opening.is_refused_by(&segment.numbers) {
            attempt.is_open = false;
            self.found.refused += 1;
            self.servers.of(server).refused += 1;
        }
    }

    /// Ends all attempts, at the time of the last packet.
    pub(super) fn finish(mut self, end_ns: u64) -> TcpTraffic {
        for (ends, attempt) in self.open.drain() {
            let is_late = attempt.syns == 1 && attempt.last_ns.saturating_add(ANSWER_NS) > end_ns;
            match attempt.is_open && is_late {
                true => self.found.undecided += 1,
                false => lose(&mut self.found, &mut self.servers, ends[1], &attempt),
            }
        }
        let row = |(server, sums): (SocketAddr, Server)| {
            let Server { attempts, answered, refused, unanswered, rtt_sum_ns, rtt_max_ns } = sums;
            let rtt_mean_ns = rtt_sum_ns.checked_div(answered).unwrap_or(0);
            TcpServer { server, attempts, answered, refused, unanswered, rtt_mean_ns, rtt_max_ns }
        };
        let mut rows: Vec<_> = self.servers.known.into_iter().map(row).collect();
        let rank = |row: &TcpServer| {
            let failed = row.refused + row.unanswered;
            (std::cmp::Reverse(failed), std::cmp::Reverse(row.attempts), row.server)
        };
        rows.sort_unstable_by_key(rank);
        let server_count = rows.len() as u64;
        rows.truncate(ROWS_MAX);
        TcpTraffic { rtt_ns: self.rtts.quantiles(), server_count, servers: rows, ..self.found }
    }
}

/// Counts an attempt that ends, if it had no answer.
fn lose(found: &mut TcpTraffic, servers: &mut Servers, server: SocketAddr, attempt: &Attempt) {
    if attempt.is_open {
        found.unanswered += 1;
        servers.of(server).unanswered += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::net::agreement::{ACK, RST, SYN};

    const MS: u64 = 1_000_000;

    fn end(last: u8, port: u16) -> SocketAddr {
        SocketAddr::new([10, 0, 0, last].into(), port)
    }

    /// Segments of a client at port `client` and a server: from the server or not, flags, numbers, time in ms.
    fn follow(client: u16, segments: &[(bool, u8, [u32; 2], u64)], handshakes: &mut Handshakes) {
        for (is_server, flags, [sequence, acknowledgment], ms) in segments {
            let ends = [end(1, client), end(2, 80)];
            let ends = if *is_server { [ends[1], ends[0]] } else { ends };
            let numbers = Numbers { flags: *flags, sequence: *sequence, acknowledgment: *acknowledgment };
            handshakes.take(&HandshakeSegment { time_ns: ms * MS, ends, numbers });
        }
    }

    #[test]
    fn each_attempt_has_one_fate() {
        let mut handshakes = Handshakes::default();
        // Answered, with a repeated SYN before and after it; the RTT is from the last one.
        let (syn, syn_ack) = ((false, SYN, [100, 0], 0), (true, SYN | ACK, [500, 101], 1012));
        follow(
            1,
            &[syn, (false, SYN, [100, 0], 1000), syn_ack, (false, SYN, [100, 0], 1013), syn_ack],
            &mut handshakes,
        );
        // Refused, and refused again with another number.
        let refusals = [
            (false, SYN, [7, 0], 2000),
            (true, RST | ACK, [0, 8], 2001),
            (false, SYN, [9, 0], 2002),
            (true, RST | ACK, [0, 10], 2003),
        ];
        follow(2, &refusals, &mut handshakes);
        // Not answered: strays of other numbers are no answers.
        let strays =
            [(false, SYN, [40, 0], 2000), (true, RST | ACK, [0, 50], 2001), (true, SYN | ACK, [9, 50], 2002)];
        follow(3, &strays, &mut handshakes);
        // Not answered before the next attempt, which comes too late to be judged.
        follow(4, &[(false, SYN, [60, 0], 2000), (false, SYN, [70, 0], 9500)], &mut handshakes);
        // A reset of an open connection, and a SYN-ACK without its SYN.
        follow(5, &[(true, RST, [1, 0], 3000), (true, SYN | ACK, [1, 2], 3000)], &mut handshakes);
        let found = handshakes.finish(10_000 * MS);
        let fates = [found.answered, found.refused, found.unanswered, found.undecided];
        assert_eq!((found.attempts, fates, found.repeated_syns), (6, [1, 2, 2, 1], 2));
        assert_eq!((found.rtt_ns.count, found.rtt_ns.max), (1, 12 * MS));
        let server = TcpServer {
            server: end(2, 80),
            attempts: 6,
            answered: 1,
            refused: 2,
            unanswered: 2,
            rtt_mean_ns: 12 * MS,
            rtt_max_ns: 12 * MS,
        };
        assert_eq!((found.server_count, found.servers), (1, vec![server]));
    }

    #[test]
    fn a_flood_stays_within_the_limits_and_is_counted() {
        let mut handshakes = Handshakes::default();
        for number in 0..ATTEMPTS_MAX as u32 + 1000 {
            let client = SocketAddr::new(std::net::IpAddr::V4(number.into()), 1);
            let numbers = Numbers { flags: SYN, sequence: 5, acknowledgment: 0 };
            handshakes.take(&HandshakeSegment { time_ns: 5, ends: [client, end(2, 80)], numbers });
        }
        let found = handshakes.finish(60_000 * MS);
        assert_eq!((found.attempts, found.untracked), (ATTEMPTS_MAX as u64, 1000));
        assert_eq!(found.unanswered, found.attempts);
    }
}
