//! Queries of DNS over UDP and their answers: response codes with the names that failed, and queries without an answer,
//! by server. Only headers of port 53 are read, and the question of a failure. Queries, names and servers are within
//! limits; what has no place is counted. DNS over TCP, multicast DNS and tunnels are not looked into.
//!
//! A file may have an answer shortly before its query, so answers without one wait for it. Copies of a message, which a
//! mirror port saw twice, are not counted.

use super::tables::Servers;
use super::times::{COPY_NS, EARLY_NS, are_within, between, is_near_end, may_be_early};
use super::waiting::Waiting;
use quaff_file::{Histogram, Quantiles};
use quaff_stream::application::dns::{DnsMessage, code_name};
use quaff_wire::application::dns::HEADER_BYTES;
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::UDP_BYTES;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Port of DNS.
pub(super) const PORT: u16 = 53;
/// Queries that are remembered, answers that wait for their query, names that are counted apart, and servers.
const QUERIES_MAX: usize = 1 << 16;
const EARLY_MAX: usize = 1 << 12;
const NAMES_MAX: usize = 1 << 16;
const SERVERS_MAX: usize = 1 << 14;
/// Names and servers of a report.
const ROWS_MAX: usize = 1000;
/// Time after which a query leaves a full table, ns.
const WAIT_NS: u64 = 60_000_000_000;
/// Time in which an answer may still come: the timeout of resolv.conf(5), ns.
const ANSWER_NS: u64 = 5_000_000_000;
/// Response codes (IANA, DNS parameters).
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// A message.
#[derive(Debug, Clone)]
pub(super) struct DnsPacket {
    time_ns: Option<u64>,
    client: SocketAddr,
    server: IpAddr,
    id: u16,
    /// Of an answer.
    reply: Option<Reply>,
}

/// The response code of an answer, and the name if it is a failure.
#[derive(Debug, Clone)]
struct Reply {
    code: u8,
    name: Box<str>,
}

impl DnsPacket {
    /// Reads a datagram whose headers are `packet`; `None` if it is neither a query to a server nor an answer of one.
    pub(super) fn read(packet: &FlowPacket, bytes: &[u8], time_ns: Option<u64>) -> Option<Self> {
        let datagram = bytes.get(packet.transport as usize + UDP_BYTES..packet.end as usize)?;
        let &[id_high, id_low, high, low, ..] = datagram.first_chunk::<HEADER_BYTES>()?;
        let [source, destination] = packet.addresses;
        let [source_port, destination_port] = packet.ports;
        // The operation, in the next four bits, is a query.
        let (is_reply, is_query) = (high & 0x80 != 0, high & 0x78 == 0);
        let (client, server) = match (is_reply, source_port, destination_port) {
            (false, port, PORT) => (SocketAddr::new(source, port), destination),
            (true, PORT, port) => (SocketAddr::new(destination, port), source),
            _ => return None,
        };
        let reply = is_reply.then(|| Reply { code: low & 15, name: failed_name(low & 15, datagram) });
        is_query.then_some(Self { time_ns, client, server, id: u16::from_be_bytes([id_high, id_low]), reply })
    }
}

/// The name in the question of a failure, in small letters (RFC 4343: a resolver may mix them); empty if there is none.
fn failed_name(code: u8, datagram: &[u8]) -> Box<str> {
    let question = (code != 0).then(|| DnsMessage::first_question(datagram)).flatten();
    question.map(|question| question.name.to_ascii_lowercase().into_boxed_str()).unwrap_or_default()
}

/// The queries and answers of a capture.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DnsTraffic {
    /// Queries; the next three are their fates.
    pub queries: u64,
    pub answered: u64,
    pub unanswered: u64,
    /// Without an answer, less than five seconds before the capture ends.
    pub undecided: u64,
    /// Queries that had no place in the table, and are in no other number.
    pub untracked: u64,
    /// Queries that repeat one before its answer, without copies.
    pub repeated: u64,
    /// Answers whose query is not in the capture.
    pub unasked: u64,
    /// Answers with a response code other than NOERROR, and those of NXDOMAIN and SERVFAIL.
    pub failures: u64,
    pub nxdomain: u64,
    pub servfail: u64,
    /// Times from query to answer, ns.
    pub response_ns: Quantiles,
    /// Names of failures that are known.
    pub name_count: u64,
    /// Those that failed most often first.
    pub names: Vec<FailedName>,
    /// Failures of all other names.
    pub names_others: u64,
    /// Servers that are known.
    pub server_count: u64,
    /// Those with the most unanswered queries and failures first.
    pub servers: Vec<DnsServer>,
    /// The queries to all other servers.
    pub servers_others: Queries,
}

/// A name whose queries failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedName {
    pub name: String,
    /// The response code, such as NXDOMAIN.
    pub code: String,
    pub count: u64,
}

/// The queries to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DnsServer {
    pub server: IpAddr,
    #[serde(flatten)]
    pub sums: Queries,
}

/// Queries, those of them without an answer, and answers that are failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Queries {
    pub queries: u64,
    pub unanswered: u64,
    pub failures: u64,
}

/// A query, and its answer.
#[derive(Debug, Clone, Copy)]
struct Query {
    /// Times of the first query and of the last one.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    answer_ns: Option<u64>,
    is_open: bool,
}

/// Client, server and id of a query.
type QueryKey = (SocketAddr, IpAddr, u16);

/// Follows queries, message by message.
#[derive(Debug)]
pub(super) struct Dns {
    queries: Waiting<QueryKey, Query>,
    /// Times of answers whose query is not known yet.
    early: Waiting<QueryKey, Option<u64>>,
    /// The latest time so far, which stands for that of a message without one.
    latest_ns: Option<u64>,
    fates: Fates,
}

/// The fates of queries, and failures.
#[derive(Debug, Default)]
struct Fates {
    found: DnsTraffic,
    times: Histogram,
    names: HashMap<(u8, Box<str>), u64>,
    servers: Servers<IpAddr, Queries>,
}

impl Queries {
    fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.unanswered += other.unanswered;
        self.failures += other.failures;
    }
}

impl DnsServer {
    /// Unanswered queries, and failures.
    pub fn failed(&self) -> u64 {
        self.sums.unanswered + self.sums.failures
    }
}

impl Query {
    fn new(time_ns: Option<u64>) -> Self {
        Self { first_ns: time_ns, last_ns: time_ns, answer_ns: None, is_open: true }
    }
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            queries: Waiting::new(QUERIES_MAX, WAIT_NS),
            early: Waiting::new(EARLY_MAX, EARLY_NS),
            latest_ns: None,
            fates: Fates::default(),
        }
    }
}

impl Dns {
    /// Takes the next message.
    pub(super) fn take(&mut self, packet: DnsPacket) {
        let DnsPacket { time_ns, client, server, id, reply } = packet;
        self.latest_ns = self.latest_ns.max(time_ns);
        let now_ns = time_ns.or(self.latest_ns);
        let key = (client, server, id);
        let Some(reply) = reply else { return self.ask(key, time_ns, now_ns) };
        let is_new = self.answer(key, time_ns, now_ns);
        if is_new && reply.code != 0 {
            self.fates.fail(server, reply);
        }
    }

    fn ask(&mut self, key: QueryKey, time_ns: Option<u64>, now_ns: Option<u64>) {
        let fates = &mut self.fates;
        match self.queries.get_mut(&key) {
            Some(known) if are_within(known.last_ns, time_ns, COPY_NS) => return,
            Some(known) if known.is_open => {
                known.last_ns = known.last_ns.max(time_ns);
                fates.found.repeated += 1;
                return;
            }
            // The id of a query that was answered comes again.
            Some(_) => {
                self.queries.renew(&key, Query::new(time_ns), now_ns);
            }
            None => {
                let is_settled = |known: &Query| !known.is_open;
                let left = |(_, server, _): QueryKey, known: Query| fates.lose(server, &known);
                if !self.queries.insert(key, Query::new(time_ns), now_ns, is_settled, left) {
                    self.fates.found.untracked += 1;
                    return;
                }
            }
        }
        self.fates.found.queries += 1;
        self.fates.servers.of(key.1, SERVERS_MAX).queries += 1;
        let Some(answer_ns) = self.early.remove(&key) else { return };
        match self.queries.get_mut(&key) {
            Some(query) if may_be_early(answer_ns, time_ns) => self.fates.settle(query, answer_ns),
            _ => self.fates.found.unasked += 1,
        }
    }

    /// Takes an answer; returns false for a copy of one.
    fn answer(&mut self, key: QueryKey, time_ns: Option<u64>, now_ns: Option<u64>) -> bool {
        let fates = &mut self.fates;
        match self.queries.get_mut(&key) {
            Some(query) if query.is_open => {
                fates.settle(query, time_ns);
                return true;
            }
            Some(query) => {
                let is_copy = are_within(query.answer_ns, time_ns, COPY_NS);
                fates.found.unasked += u64::from(!is_copy);
                return !is_copy;
            }
            None => {}
        }
        match self.early.get_mut(&key) {
            Some(answer_ns) if are_within(*answer_ns, time_ns, COPY_NS) => return false,
            Some(_) => {
                self.early.renew(&key, time_ns, now_ns);
                fates.found.unasked += 1;
            }
            None => {
                let left = |_: QueryKey, _: Option<u64>| fates.found.unasked += 1;
                if !self.early.insert(key, time_ns, now_ns, |_| false, left) {
                    self.fates.found.unasked += 1;
                }
            }
        }
        true
    }

    /// Ends all queries, at the time of the last packet.
    pub(super) fn finish(mut self, end_ns: Option<u64>) -> DnsTraffic {
        self.fates.found.unasked += self.early.drain().count() as u64;
        for ((_, server, _), query) in self.queries.drain() {
            match query.is_open && is_near_end(query.first_ns, end_ns, ANSWER_NS) {
                true => self.fates.found.undecided += 1,
                false => self.fates.lose(server, &query),
            }
        }
        self.fates.report()
    }
}

impl Fates {
    /// Ends a query by its answer.
    fn settle(&mut self, query: &mut Query, answer_ns: Option<u64>) {
        (query.is_open, query.answer_ns) = (false, answer_ns);
        self.found.answered += 1;
        if let Some(response_ns) = between(query.last_ns, answer_ns) {
            self.times.add(response_ns);
        }
    }

    /// Counts a query that ends, if it had no answer.
    fn lose(&mut self, server: IpAddr, query: &Query) {
        if query.is_open {
            self.found.unanswered += 1;
            self.servers.of(server, SERVERS_MAX).unanswered += 1;
        }
    }

    fn fail(&mut self, server: IpAddr, reply: Reply) {
        self.found.failures += 1;
        self.found.nxdomain += u64::from(reply.code == NXDOMAIN);
        self.found.servfail += u64::from(reply.code == SERVFAIL);
        self.servers.of(server, SERVERS_MAX).failures += 1;
        let key = (reply.code, reply.name);
        match self.names.len() < NAMES_MAX || self.names.contains_key(&key) {
            true => *self.names.entry(key).or_default() += 1,
            false => self.found.names_others += 1,
        }
    }

    fn report(self) -> DnsTraffic {
        let name = |((code, name), count): ((u8, Box<str>), u64)| FailedName {
            name: name.into(),
            code: code_name(code).into_owned(),
            count,
        };
        let mut names: Vec<_> = self.names.into_iter().map(name).collect();
        names.sort_unstable_by(|one, other| {
            (other.count, &one.name, &one.code).cmp(&(one.count, &other.name, &other.code))
        });
        let server = |(server, sums): (IpAddr, Queries)| DnsServer { server, sums };
        let mut servers: Vec<_> = self.servers.known.into_entries().into_iter().map(server).collect();
        servers.sort_unstable_by_key(|row| (Reverse(row.failed()), Reverse(row.sums.queries), row.server));
        let (name_count, server_count) = (names.len() as u64, servers.len() as u64);
        let more_names = names.iter().skip(ROWS_MAX).map(|row| row.count).sum::<u64>();
        let mut servers_others = self.servers.others;
        servers.iter().skip(ROWS_MAX).for_each(|row| servers_others.add(row.sums));
        names.truncate(ROWS_MAX);
        servers.truncate(ROWS_MAX);
        let (response_ns, names_others) = (self.times.quantiles(), self.found.names_others + more_names);
        let found = self.found;
        DnsTraffic {
            response_ns,
            name_count,
            names,
            names_others,
            server_count,
            servers,
            servers_others,
            ..found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testpackets as build;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    /// A message about `a.example`.
    fn message(id: u16, flags: u16) -> Vec<u8> {
        let header = [id, flags, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
        [&header[..], b"\x01a\x07example\0\0\x01\0\x01"].concat()
    }

    fn packet(is_reply: bool, message: &[u8], time_ns: Option<u64>) -> Option<DnsPacket> {
        let (client, server) = ([10, 0, 0, 1].into(), [10, 0, 0, 53].into());
        let datagram = match is_reply {
            true => build::ipv4(server, client, 17, &[], &build::udp(53, 4000, message)),
            false => build::ipv4(client, server, 17, &[], &build::udp(4000, 53, message)),
        };
        let frame = build::ethernet(&[], 0x0800, &datagram);
        let packet = FlowPacket::read(&frame, frame.len() as u32, 1).unwrap();
        DnsPacket::read(&packet, &frame, time_ns)
    }

    #[test]
    fn each_query_has_one_fate_and_failures_have_names() {
        let mut dns = Dns::default();
        let mut take = |is_reply, id, flags, time_ns| {
            if let Some(packet) = packet(is_reply, &message(id, flags), Some(time_ns)) {
                dns.take(packet);
            }
        };
        // Answered, after it was repeated.
        take(false, 1, 0x0100, 0);
        take(false, 1, 0x0100, S);
        take(true, 1, 0x8180, S + 7);
        take(false, 2, 0x0100, S);
        take(true, 2, 0x8183, S + 9);
        // The answer of another query.
        take(true, 3, 0x8182, S);
        // Never answered, and asked at the end.
        take(false, 4, 0x0100, S);
        take(false, 5, 0x0100, 9 * S);
        // An update, and a query that says it is one in an answer's place.
        take(false, 6, 0x2800, S);
        take(true, 7, 0x0100, S);
        let found = dns.finish(Some(10 * S));
        assert_eq!((found.queries, found.answered, found.unanswered, found.undecided), (4, 2, 1, 1));
        assert_eq!((found.repeated, found.unasked, found.failures), (1, 1, 2));
        assert_eq!((found.nxdomain, found.servfail, found.response_ns.max), (1, 1, 9));
        let names: Vec<_> = found.names.iter().map(|row| (&row.name[..], &row.code[..], row.count)).collect();
        assert_eq!(names, [("a.example", "NXDOMAIN", 1), ("a.example", "SERVFAIL", 1)]);
        let sums = Queries { queries: 4, unanswered: 1, failures: 2 };
        assert_eq!(found.servers, [DnsServer { server: [10, 0, 0, 53].into(), sums }]);
        assert_eq!((found.servers_others, found.names_others), (Queries::default(), 0));
    }

    #[test]
    fn a_datagram_that_is_no_message_is_ignored() {
        assert!(packet(false, &[0; HEADER_BYTES - 1], None).is_none());
        let cut = packet(true, &message(1, 0x8183)[..HEADER_BYTES], None).unwrap();
        assert_eq!(cut.reply.map(|reply| (reply.code, reply.name.len())), Some((3, 0)));
    }

    /// The traffic of messages: from the server or not, id, flags, time in ms; a negative one stands for none.
    fn traffic(messages: &[(bool, u16, u16, i64)]) -> DnsTraffic {
        let mut dns = Dns::default();
        for (is_reply, id, flags, ms) in messages {
            let time_ns = u64::try_from(*ms).ok().map(|ms| ms * MS);
            dns.take(packet(*is_reply, &message(*id, *flags), time_ns).expect("a message"));
        }
        dns.finish(Some(10 * S))
    }

    /// The fates of queries: answered, unanswered, undecided, and answers without a query.
    fn fates(found: &DnsTraffic) -> [u64; 4] {
        [found.answered, found.unanswered, found.undecided, found.unasked]
    }

    #[test]
    fn copies_of_messages_are_not_counted() {
        let (query, failure) = ((false, 1, 0x0100, 5), (true, 1, 0x8183, 7));
        let again = (true, 1, 0x8183, 9);
        let found = traffic(&[query, query, failure, failure, query, again]);
        assert_eq!((found.queries, found.repeated, fates(&found)), (1, 0, [1, 0, 0, 1]));
        assert_eq!((found.failures, found.response_ns.max), (2, 2 * MS));
        // Copies of an answer whose query is not there.
        let found = traffic(&[failure, failure, again]);
        assert_eq!((fates(&found), found.failures), ([0, 0, 0, 2], 2));
    }

    #[test]
    fn an_answer_shortly_before_its_query_is_taken_and_an_older_one_is_not() {
        let found = traffic(&[
            (true, 1, 0x8180, 5),
            (false, 1, 0x0100, 3),
            (true, 2, 0x8180, 5),
            (false, 2, 0x0100, 900),
        ]);
        assert_eq!((found.queries, fates(&found)), (2, [1, 1, 0, 1]));
        assert_eq!((found.response_ns.count, found.response_ns.max), (1, 2 * MS));
    }

    #[test]
    fn an_id_that_comes_again_is_another_query() {
        let found = traffic(&[(false, 1, 0x0100, 5), (true, 1, 0x8180, 7), (false, 1, 0x0100, 500)]);
        assert_eq!((found.queries, found.repeated, fates(&found)), (2, 0, [1, 1, 0, 0]));
    }

    #[test]
    fn messages_without_a_time_have_fates_and_no_response_time() {
        let found = traffic(&[(false, 1, 0x0100, -1), (true, 1, 0x8180, 500), (false, 2, 0x0100, -1)]);
        assert_eq!((fates(&found), found.response_ns.count), ([1, 1, 0, 0], 0));
        let found = traffic(&[(true, 1, 0x8180, -1), (false, 1, 0x0100, 500), (false, 1, 0x0100, -1)]);
        assert_eq!((fates(&found), found.queries, found.response_ns.count), ([1, 1, 0, 0], 2, 0));
    }

    #[test]
    fn names_are_equal_whatever_the_case_of_their_letters() {
        let mut mixed = message(1, 0x8183);
        mixed[13] = b'A';
        let name = |message: &[u8]| {
            packet(true, message, None).and_then(|packet| packet.reply).map(|reply| reply.name)
        };
        assert_eq!(
            (name(&mixed).as_deref(), name(&message(1, 0x8183)).as_deref()),
            (Some("a.example"), Some("a.example"))
        );
    }

    #[test]
    fn a_flood_stays_within_the_limits_and_is_counted() {
        let mut dns = Dns::default();
        let client = SocketAddr::new([10, 0, 0, 1].into(), 4000);
        let address = |number: u32| IpAddr::V4(number.into());
        let count = QUERIES_MAX as u32 + 10;
        for number in 0..count {
            let query = DnsPacket { time_ns: Some(5), client, server: address(number), id: 1, reply: None };
            dns.take(query);
        }
        let server = address(1);
        for number in 0..NAMES_MAX as u32 + 10 {
            dns.fates.fail(server, Reply { code: NXDOMAIN, name: number.to_string().into() });
        }
        let found = dns.finish(Some(60 * S));
        assert_eq!(
            (found.queries, found.untracked, found.unanswered),
            (QUERIES_MAX as u64, 10, QUERIES_MAX as u64)
        );
        assert_eq!((found.server_count, found.servers.len()), (SERVERS_MAX as u64, ROWS_MAX));
        assert_eq!(found.servers_others.queries, (QUERIES_MAX - ROWS_MAX) as u64);
        assert_eq!((found.name_count, found.names.len()), (NAMES_MAX as u64, ROWS_MAX));
        assert_eq!(found.names_others, (NAMES_MAX + 10 - ROWS_MAX) as u64);
    }
}
