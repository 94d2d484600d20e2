//! Attempts to open a connection of TCP: answered, refused by a reset, or not answered, by the rules of
//! [`Opening`](quaff_wire::net::agreement::Opening), which the meters of flows and of losses share. Tunnels are not
//! entered. Attempts and servers are within limits; what has no place is counted.
//!
//! An answer may be missing in the capture: an attempt without one is answered all the same if the first segment of
//! the server after the SYN acknowledges it. It is one way if the first segment of the client after the SYN continues
//! the connection, and there is none of the server.
//!
//! A file may have an answer shortly before its SYN, so answers without one wait for it. A copy of a SYN, which a
//! mirror port saw twice, is none that repeats it.

use super::keys::Ends;
use super::tables::{ServerPlace, Servers};
use super::times::{COPY_NS, EARLY_NS, are_within, between, is_near_end, may_be_early};
use super::waiting::Waiting;
use quaff_file::{Histogram, Quantiles};
use quaff_wire::net::agreement::{ACK, Numbers, Opening, RST, SYN};
use serde::Serialize;
use std::cmp::Reverse;
use std::net::SocketAddr;

/// Attempts that are remembered, answers that wait for their SYN, and servers that are counted apart.
const ATTEMPTS_MAX: usize = 1 << 18;
const EARLY_MAX: usize = 1 << 12;
const SERVERS_MAX: usize = 1 << 16;
/// Servers of a report.
const ROWS_MAX: usize = 1000;
/// Time after which an attempt leaves a full table, ns.
const WAIT_NS: u64 = 60_000_000_000;
/// Time in which an answer may still come: the first timeout of a retransmission (RFC 6298, section 2), ns.
const ANSWER_NS: u64 = 1_000_000_000;

/// A segment with SYN or RST, or the first other one in its direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandshakeSegment {
    pub(super) time_ns: Option<u64>,
    /// Source and destination.
    pub(super) ends: [SocketAddr; 2],
    pub(super) numbers: Numbers,
}

/// A SYN, and its fate so far.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    sequence: u32,
    /// Times of the first SYN and of the last one.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    /// The place of its server, once it is counted.
    server: ServerPlace,
    is_open: bool,
    /// Of the client and of the server: true if the first segment after the SYN shows that it was answered; `None`
    /// without a segment.
    shows: [Option<bool>; 2],
}

/// A SYN-ACK or a reset.
#[derive(Debug, Clone, Copy)]
struct Answer {
    time_ns: Option<u64>,
    numbers: Numbers,
}

/// The attempts of a capture to open connections.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TcpTraffic {
    /// SYNs that begin a connection; the next five are its fates.
    pub attempts: u64,
    /// By a SYN-ACK, or as later segments of the server show.
    pub answered: u64,
    /// By an answer that the client acknowledges: nothing of the server was captured.
    pub one_way: u64,
    /// By a reset.
    pub refused: u64,
    pub unanswered: u64,
    /// Without an answer, less than a second before the capture ends.
    pub undecided: u64,
    /// SYN-ACKs that the capture lacks, of attempts that were answered or are one way.
    pub syn_acks_missing: u64,
    /// Attempts that had no place in the table, and are in no other number.
    pub untracked: u64,
    /// SYNs that repeat one, without copies.
    pub repeated_syns: u64,
    /// Times from SYN to SYN-ACK, ns: the round trip between the capture and the server.
    pub rtt_ns: Quantiles,
    /// Bytes that arrived more than once, and bytes that arrived after later ones, as verify counts them.
    pub retransmitted_bytes: u64,
    pub late_bytes: u64,
    /// Servers that are known, and those of them with refused or unanswered attempts.
    pub server_count: u64,
    pub failing_server_count: u64,
    /// Those with the most refused and unanswered attempts first.
    pub servers: Vec<TcpServer>,
    /// The attempts to connect to all other servers.
    pub servers_others: Attempts,
}

/// The attempts to connect to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TcpServer {
    pub server: SocketAddr,
    #[serde(flatten)]
    pub sums: Attempts,
    /// Mean and longest time from SYN to SYN-ACK, ns.
    pub rtt_mean_ns: Option<u64>,
    pub rtt_max_ns: Option<u64>,
}

/// Attempts to connect, and those of each fate but undecided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Attempts {
    pub attempts: u64,
    pub answered: u64,
    pub one_way: u64,
    pub refused: u64,
    pub unanswered: u64,
}

/// The sums of a server.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    sums: Attempts,
    rtt_count: u64,
    rtt_sum_ns: u64,
    rtt_max_ns: u64,
}

/// Follows attempts, segment by segment.
#[derive(Debug)]
pub(super) struct Handshakes {
    /// By client and server.
    attempts: Waiting<Ends, Attempt>,
    /// Answers whose SYN is not known yet, by the ends of that.
    early: Waiting<Ends, Answer>,
    /// The latest time so far, which stands for that of a segment without one.
    latest_ns: Option<u64>,
    fates: Fates,
}

/// The fates of attempts.
#[derive(Debug, Default)]
struct Fates {
    found: TcpTraffic,
    rtts: Histogram,
    servers: Servers<SocketAddr, Server>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            attempts: Waiting::new(ATTEMPTS_MAX, WAIT_NS),
            early: Waiting::new(EARLY_MAX, EARLY_NS),
            latest_ns: None,
            fates: Fates::default(),
        }
    }
}

impl Attempts {
    fn failed(&self) -> u64 {
        self.refused + self.unanswered
    }

    fn add(&mut self, other: Self) {
        self.attempts += other.attempts;
        self.answered += other.answered;
        self.one_way += other.one_way;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
    }
}

impl Attempt {
    fn opening(&self) -> Opening {
        let numbers = Numbers { flags: SYN, sequence: self.sequence, acknowledgment: 0 };
        Opening { numbers, is_far: true }
    }

    /// Takes a segment that is neither SYN nor reset; the first one of an end after the SYN counts.
    fn note(&mut self, is_client: bool, segment: &Numbers) {
        let is_shown = self.opening().is_continued_by(is_client, segment);
        self.shows[usize::from(!is_client)].get_or_insert(is_shown);
    }

    /// Forgets segments that show nothing: those after another SYN may.
    fn listen_again(&mut self) {
        self.shows = self.shows.map(|is_shown| is_shown.filter(|is_shown| *is_shown));
    }

    /// True if later segments show that it was answered.
    fn has_shown(&self) -> bool {
        self.shows.contains(&Some(true))
    }
}

impl TcpServer {
    fn new((server, sums): (SocketAddr, Server)) -> Self {
        let Server { sums, rtt_count, rtt_sum_ns, rtt_max_ns } = sums;
        let rtt_max_ns = (rtt_count > 0).then_some(rtt_max_ns);
        Self { server, sums, rtt_mean_ns: rtt_sum_ns.checked_div(rtt_count), rtt_max_ns }
    }

    /// Refused and unanswered attempts.
    pub fn failed(&self) -> u64 {
        self.sums.failed()
    }
}

impl Handshakes {
    /// Takes the next segment.
    pub(super) fn take(&mut self, segment: &HandshakeSegment) {
        if segment.numbers.flags & (SYN | RST) == 0 {
            self.note(segment);
            return;
        }
        self.latest_ns = self.latest_ns.max(segment.time_ns);
        let now_ns = segment.time_ns.or(self.latest_ns);
        match segment.numbers.is_syn() {
            true => self.begin(segment, now_ns),
            false => self.answer(segment, now_ns),
        }
    }

    /// Takes another segment of what may be a connection that was attempted.
    fn note(&mut self, segment: &HandshakeSegment) {
        let HandshakeSegment { ends: [from, to], numbers, .. } = *segment;
        for (ends, is_client) in [([from, to], true), ([to, from], false)] {
            if let Some(attempt) = self.attempts.get_mut(&Ends::new(ends)) {
                attempt.note(is_client, &numbers);
            }
        }
    }

    fn begin(&mut self, syn: &HandshakeSegment, now_ns: Option<u64>) {
        let HandshakeSegment { time_ns, ends, numbers } = *syn;
        let (sequence, key) = (numbers.sequence, Ends::new(ends));
        let attempt = Attempt {
            sequence,
            first_ns: time_ns,
            last_ns: time_ns,
            server: ServerPlace::OTHERS,
            is_open: true,
            shows: [None; 2],
        };
        let fates = &mut self.fates;
        match self.attempts.get_mut(&key) {
            Some(known) if known.sequence == sequence => return fates.repeat(known, time_ns),
            Some(_) => {
                let before = self.attempts.renew(&key, attempt, now_ns);
                before.iter().for_each(|before| fates.lose(before));
            }
            None => {
                let is_settled = |known: &Attempt| !known.is_open || known.has_shown();
                let left = |_: Ends, known: Attempt| fates.lose(&known);
                if !self.attempts.insert(key, attempt, now_ns, is_settled, left) {
                    self.fates.found.untracked += 1;
                    return;
                }
            }
        }
        let server = self.fates.begin(ends[1]);
        let early = self.early.remove(&key);
        let Some(attempt) = self.attempts.get_mut(&key) else { return };
        attempt.server = server;
        if let Some(early) = early
            && may_be_early(early.time_ns, time_ns)
        {
            self.fates.settle(attempt, &early);
        }
    }

    /// Takes a SYN-ACK or a reset, which may answer a SYN of the other end.
    fn answer(&mut self, segment: &HandshakeSegment, now_ns: Option<u64>) {
        let HandshakeSegment { time_ns, ends: [server, client], numbers } = *segment;
        let (key, answer) = (Ends::new([client, server]), Answer { time_ns, numbers });
        let attempt = self.attempts.get_mut(&key);
        let is_taken = attempt.is_some_and(|attempt| self.fates.settle(attempt, &answer));
        // A reset without ACK refuses no SYN.
        if is_taken || numbers.flags & ACK == 0 {
            return;
        }
        if self.early.renew(&key, answer, now_ns).is_none() {
            self.early.insert(key, answer, now_ns, |_| false, |_, _| ());
        }
    }

    /// Ends all attempts, at the time of the last packet.
    pub(super) fn finish(mut self, end_ns: Option<u64>) -> TcpTraffic {
        for (_, attempt) in self.attempts.drain() {
            let is_silent = attempt.is_open && !attempt.has_shown();
            match is_silent && is_near_end(attempt.first_ns, end_ns, ANSWER_NS) {
                true => self.fates.found.undecided += 1,
                false => self.fates.lose(&attempt),
            }
        }
        self.fates.report()
    }
}

impl Fates {
    /// Counts an attempt to connect to a server, and returns the place of that.
    fn begin(&mut self, server: SocketAddr) -> ServerPlace {
        self.found.attempts += 1;
        let place = self.servers.place(server, SERVERS_MAX);
        self.servers.at(place).sums.attempts += 1;
        place
    }

    /// Counts a SYN that repeats the last one of its attempt, unless it is a copy.
    fn repeat(&mut self, attempt: &mut Attempt, time_ns: Option<u64>) {
        if !are_within(attempt.last_ns, time_ns, COPY_NS) {
            attempt.last_ns = attempt.last_ns.max(time_ns);
            self.found.repeated_syns += 1;
        }
        attempt.listen_again();
    }

    /// Ends an attempt by its answer; returns false if it is none of this attempt.
    fn settle(&mut self, attempt: &mut Attempt, answer: &Answer) -> bool {
        let opening = attempt.opening();
        let is_accepted = opening.is_taken_by(false, &answer.numbers);
        if !is_accepted && !opening.is_refused_by(&answer.numbers) {
            return false;
        }
        // A reset of a connection whose client has sent nothing has the same number as one that refuses it.
        if !is_accepted && attempt.has_shown() {
            return true;
        }
        // The same answer may come again.
        if !std::mem::replace(&mut attempt.is_open, false) {
            return true;
        }
        let server = self.servers.at(attempt.server);
        if !is_accepted {
            self.found.refused += 1;
            server.sums.refused += 1;
            return true;
        }
        self.found.answered += 1;
        server.sums.answered += 1;
        if let Some(rtt_ns) = between(attempt.last_ns, answer.time_ns) {
            self.rtts.add(rtt_ns);
            server.rtt_count += 1;
            server.rtt_sum_ns = server.rtt_sum_ns.saturating_add(rtt_ns);
            server.rtt_max_ns = server.rtt_max_ns.max(rtt_ns);
        }
        true
    }

    /// Counts an attempt that ends, if the capture has no answer to it.
    fn lose(&mut self, attempt: &Attempt) {
        if !attempt.is_open {
            return;
        }
        let (found, sums) = (&mut self.found, &mut self.servers.at(attempt.server).sums);
        let (all, of_server) = match attempt.shows {
            [Some(true), None] => (&mut found.one_way, &mut sums.one_way),
            _ if attempt.has_shown() => (&mut found.answered, &mut sums.answered),
            _ => (&mut found.unanswered, &mut sums.unanswered),
        };
        *all += 1;
        *of_server += 1;
        found.syn_acks_missing += u64::from(attempt.has_shown());
    }

    fn report(self) -> TcpTraffic {
        let mut servers: Vec<_> = self.servers.known.into_entries().into_iter().map(TcpServer::new).collect();
        servers.sort_unstable_by_key(|row| (Reverse(row.failed()), Reverse(row.sums.attempts), row.server));
        let server_count = servers.len() as u64;
        let failing_server_count = servers.iter().filter(|row| row.failed() > 0).count() as u64;
        let mut servers_others = self.servers.others.sums;
        servers.iter().skip(ROWS_MAX).for_each(|row| servers_others.add(row.sums));
        servers.truncate(ROWS_MAX);
        let rtt_ns = self.rtts.quantiles();
        TcpTraffic { rtt_ns, server_count, failing_server_count, servers, servers_others, ..self.found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

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
            handshakes.take(&HandshakeSegment { time_ns: Some(ms * MS), ends, numbers });
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
        let found = handshakes.finish(Some(10_000 * MS));
        let fates = [found.answered, found.refused, found.unanswered, found.undecided];
        assert_eq!((found.attempts, fates, found.repeated_syns), (6, [1, 2, 2, 1], 2));
        assert_eq!((found.rtt_ns.count, found.rtt_ns.max), (1, 12 * MS));
        let sums = Attempts { attempts: 6, answered: 1, one_way: 0, refused: 2, unanswered: 2 };
        let rtt_ns = Some(12 * MS);
        let server = TcpServer { server: end(2, 80), sums, rtt_mean_ns: rtt_ns, rtt_max_ns: rtt_ns };
        assert_eq!((found.server_count, found.failing_server_count, found.servers), (1, 1, vec![server]));
        assert_eq!(found.servers_others, Attempts::default());
    }

    /// The fates of attempts: answered, refused, unanswered, undecided.
    fn fates(found: &TcpTraffic) -> [u64; 4] {
        [found.answered, found.refused, found.unanswered, found.undecided]
    }

    fn syn(client: u32, server: SocketAddr, time_ns: Option<u64>) -> HandshakeSegment {
        let ends = [SocketAddr::new(Ipv4Addr::from(client).into(), 1), server];
        let numbers = Numbers { flags: SYN, sequence: 5, acknowledgment: 0 };
        HandshakeSegment { time_ns, ends, numbers }
    }

    fn syn_ack(syn: &HandshakeSegment, time_ns: Option<u64>) -> HandshakeSegment {
        let [client, server] = syn.ends;
        let numbers = Numbers { flags: SYN | ACK, sequence: 9, acknowledgment: 6 };
        HandshakeSegment { time_ns, ends: [server, client], numbers }
    }

    #[test]
    fn an_answer_that_was_not_captured_is_known_by_the_next_segments() {
        let mut handshakes = Handshakes::default();
        let (syn, next) = ((false, SYN, [100, 0], 0), (false, ACK, [101, 501], 20));
        // Of the server there is nothing.
        follow(1, &[syn, next], &mut handshakes);
        // There is something, and then a reset with the number of one that refuses.
        let of_server = (true, ACK, [501, 101], 21);
        follow(2, &[syn, of_server, (true, RST | ACK, [501, 101], 30)], &mut handshakes);
        follow(3, &[syn, next, of_server], &mut handshakes);
        // The answer is in the file after the next segment.
        follow(4, &[syn, next, (true, SYN | ACK, [500, 101], 21)], &mut handshakes);
        // Segments of a connection before it show nothing; those after the SYN that is repeated do.
        let stray = (false, ACK, [50, 9], 1);
        follow(5, &[syn, stray], &mut handshakes);
        follow(6, &[syn, stray, (false, SYN, [100, 0], 1000), next], &mut handshakes);
        // It needs no time to be judged.
        follow(7, &[(false, SYN, [100, 0], 9_990), next], &mut handshakes);
        let found = handshakes.finish(Some(10_000 * MS));
        assert_eq!((found.attempts, fates(&found)), (7, [3, 0, 1, 0]));
        assert_eq!((found.one_way, found.syn_acks_missing), (3, 5));
        assert_eq!((found.rtt_ns.count, found.rtt_ns.max), (1, 21 * MS));
        let sums = Attempts { attempts: 7, answered: 3, one_way: 3, refused: 0, unanswered: 1 };
        assert_eq!(found.servers[0].sums, sums);
    }

    #[test]
    fn an_answer_shortly_before_its_syn_is_taken_and_an_older_one_is_not() {
        let mut handshakes = Handshakes::default();
        let syns = [0, 2, 1000].map(|ms| (false, SYN, [100, 0], ms));
        // The answer is in the file before its SYN, with a later time and with an earlier one.
        follow(1, &[(true, SYN | ACK, [500, 101], 3), syns[1]], &mut handshakes);
        follow(2, &[(true, RST | ACK, [0, 101], 1), syns[1]], &mut handshakes);
        // An answer of other numbers, and one that is too far away.
        follow(3, &[(true, SYN | ACK, [500, 7], 1), syns[0]], &mut handshakes);
        follow(4, &[(true, SYN | ACK, [500, 101], 800), syns[2]], &mut handshakes);
        let found = handshakes.finish(Some(10_000 * MS));
        assert_eq!((found.attempts, fates(&found)), (4, [1, 1, 2, 0]));
        assert_eq!((found.rtt_ns.count, found.rtt_ns.max), (1, MS));
        let expected = Attempts { attempts: 4, answered: 1, one_way: 0, refused: 1, unanswered: 2 };
        assert_eq!((found.servers[0].sums, found.servers_others), (expected, Attempts::default()));
    }

    #[test]
    fn a_copy_of_a_syn_neither_repeats_it_nor_decides_its_fate() {
        let mut handshakes = Handshakes::default();
        let at = |time_ns| syn(1, end(2, 80), Some(time_ns));
        // A SYN and its copy at the end of the capture, and a SYN that is repeated there.
        [at(10_000 * MS), at(10_000 * MS + COPY_NS)].iter().for_each(|syn| handshakes.take(syn));
        let again = |time_ns| syn(2, end(2, 80), Some(time_ns));
        [again(8_900 * MS), again(9_900 * MS)].iter().for_each(|syn| handshakes.take(syn));
        let found = handshakes.finish(Some(10_001 * MS));
        assert_eq!((found.attempts, fates(&found), found.repeated_syns), (2, [0, 0, 1, 1], 1));
    }

    #[test]
    fn a_segment_without_a_time_has_a_fate_and_no_rtt() {
        let mut handshakes = Handshakes::default();
        let [both, none, request, answer] = [1, 2, 3, 4].map(|client| syn(client, end(2, 80), None));
        let timed = |segment: HandshakeSegment| HandshakeSegment { time_ns: Some(5_000 * MS), ..segment };
        for segment in [timed(both), timed(syn_ack(&both, None)), none, syn_ack(&none, None)] {
            handshakes.take(&segment);
        }
        for segment in [request, timed(syn_ack(&request, None)), timed(answer), syn_ack(&answer, None)] {
            handshakes.take(&segment);
        }
        handshakes.take(&syn(5, end(2, 80), None));
        let found = handshakes.finish(Some(5_000 * MS));
        assert_eq!((found.attempts, fates(&found)), (5, [4, 0, 1, 0]));
        assert_eq!((found.rtt_ns.count, found.rtt_ns.max), (1, 0));
        let server = &found.servers[0];
        assert_eq!((server.rtt_mean_ns, server.rtt_max_ns), (Some(0), Some(0)));
    }

    #[test]
    fn a_flood_stays_within_the_limits_and_is_counted() {
        let mut handshakes = Handshakes::default();
        for client in 0..ATTEMPTS_MAX as u32 + 1000 {
            handshakes.take(&syn(client, end(2, 80), Some(5)));
        }
        let found = handshakes.finish(Some(60_000 * MS));
        assert_eq!((found.attempts, found.untracked), (ATTEMPTS_MAX as u64, 1000));
        assert_eq!(found.unanswered, found.attempts);
    }

    #[test]
    fn answered_attempts_leave_a_full_table_to_others() {
        let mut handshakes = Handshakes::default();
        let count = ATTEMPTS_MAX as u32 + 1000;
        for client in 0..count {
            let syn = syn(client, end(2, 80), Some(5));
            handshakes.take(&syn);
            handshakes.take(&syn_ack(&syn, Some(6)));
        }
        let found = handshakes.finish(Some(60_000 * MS));
        assert_eq!((found.untracked, found.answered), (0, count.into()));
    }

    #[test]
    fn servers_without_a_row_are_counted_together() {
        let mut handshakes = Handshakes::default();
        let count = SERVERS_MAX as u32 + 1000;
        for server in 0..count {
            let server = SocketAddr::new(Ipv4Addr::from(server).into(), 80);
            handshakes.take(&syn(7, server, Some(5)));
        }
        let found = handshakes.finish(Some(60_000 * MS));
        assert_eq!((found.server_count, found.servers.len()), (SERVERS_MAX as u64, ROWS_MAX));
        assert_eq!(found.failing_server_count, found.server_count);
        let others = u64::from(count) - ROWS_MAX as u64;
        let expected = Attempts { attempts: others, unanswered: others, ..Attempts::default() };
        assert_eq!(found.servers_others, expected);
    }
}
