//! Queries of DNS over UDP and their answers: response codes with the names that failed, and queries without an answer,
//! by server. Only headers of port 53 are read, and the question of a failure. Queries, names and servers are within
//! limits; what has no place is counted. DNS over TCP, multicast DNS and tunnels are not looked into.

use super::tables::Waiting;
use quaff_file::{Histogram, Quantiles};
use quaff_stream::application::dns::{DnsMessage, code_name};
use quaff_wire::application::dns::HEADER_BYTES;
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::UDP_BYTES;
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Port of DNS.
pub(super) const PORT: u16 = 53;
/// Queries that are remembered, names that are counted apart, and servers.
const QUERIES_MAX: usize = 1 << 16;
const NAMES_MAX: usize = 1 << 16;
const SERVERS_MAX: usize = 1 << 14;
/// Names and servers of a report.
const ROWS_MAX: usize = 1000;
/// Time in which an answer may still come: the timeout of resolv.conf(5), ns.
const ANSWER_NS: u64 = 5_000_000_000;
/// Response codes (IANA, DNS parameters).
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// A message.
#[derive(Debug, Clone)]
pub(super) struct DnsPacket {
    time_ns: u64,
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
    pub(super) fn read(packet: &FlowPacket, bytes: &[u8], time_ns: u64) -> Option<Self> {
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

/// The name in the question of a failure; empty if there is none.
fn failed_name(code: u8, datagram: &[u8]) -> Box<str> {
    let message = (code != 0).then(|| DnsMessage::read(datagram)).flatten();
    let question = message.and_then(|message| message.questions.into_iter().next());
    question.map(|question| question.name.into_boxed_str()).unwrap_or_default()
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
    /// Queries that repeat one before its answer.
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
    /// Servers that are known.
    pub server_count: u64,
    /// Those with the most unanswered queries and failures first.
    pub servers: Vec<DnsServer>,
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
    pub queries: u64,
    pub unanswered: u64,
    pub failures: u64,
}

/// A query that waits for its answer.
#[derive(Debug, Clone, Copy)]
struct Query {
    first_ns: u64,
    last_ns: u64,
}

/// Client, server and id of a query.
type QueryKey = (SocketAddr, IpAddr, u16);

/// Follows queries, message by message.
#[derive(Debug)]
pub(super) struct Dns {
    open: Waiting<QueryKey, Query>,
    found: DnsTraffic,
    times: Histogram,
    names: HashMap<(u8, Box<str>), u64>,
    servers: Servers,
}

/// Servers by address: queries, unanswered ones, failures. Those that have no place together.
#[derive(Debug, Default)]
struct Servers {
    known: HashMap<IpAddr, [u64; 3]>,
    others: [u64; 3],
}

impl Servers {
    fn of(&mut self, server: IpAddr) -> &mut [u64; 3] {
        if self.known.len() >= SERVERS_MAX && !self.known.contains_key(&server) {
            return &mut self.others;
        }
        self.known.entry(server).or_default()
    }
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            open: Waiting::new(QUERIES_MAX),
            found: DnsTraffic::default(),
            times: Histogram::default(),
            names: HashMap::new(),
            servers: Servers::default(),
        }
    }
}

impl Dns {
    /// Takes the next message.
    pub(super) fn take(&mut self, packet: DnsPacket) {
        let DnsPacket { time_ns, client, server, id, reply } = packet;
        let key = (client, server, id);
        match reply {
            None => self.ask(key, time_ns),
            Some(reply) => {
                match self.open.remove(&key) {
                    Some(query) => {
                        self.found.answered += 1;
                        self.times.add(time_ns.saturating_sub(query.last_ns));
                    }
                    None => self.found.unasked += 1,
                }
                if reply.code != 0 {
                    self.fail(server, reply);
                }
            }
        }
    }

    fn ask(&mut self, key: QueryKey, time_ns: u64) {
        if let Some(query) = self.open.get_mut(&key) {
            query.last_ns = query.last_ns.max(time_ns);
            self.found.repeated += 1;
            return;
        }
        let (found, servers) = (&mut self.found, &mut self.servers);
        let left = |(_, server, _): QueryKey, _: Query| {
            found.unanswered += 1;
            servers.of(server)[1] += 1;
        };
        let query = Query { first_ns: time_ns, last_ns: time_ns };
        if self.open.insert(key, query, time_ns, left) {
            self.found.queries += 1;
            self.servers.of(key.1)[0] += 1;
        } else {
            self.found.untracked += 1;
        }
    }

    fn fail(&mut self, server: IpAddr, reply: Reply) {
        self.found.failures += 1;
        self.found.nxdomain += u64::from(reply.code == NXDOMAIN);
        self.found.servfail += u64::from(reply.code == SERVFAIL);
        self.servers.of(server)[2] += 1;
        let key = (reply.code, reply.name);
        if self.names.len() < NAMES_MAX || self.names.contains_key(&key) {
            *self.names.entry(key).or_default() += 1;
        }
    }

    /// Ends all queries, at the time of the last packet.
    pub(super) fn finish(mut self, end_ns: u64) -> DnsTraffic {
        for ((_, server, _), query) in self.open.drain() {
            if query.first_ns.saturating_add(ANSWER_NS) > end_ns {
                self.found.undecided += 1;
            } else {
                self.found.unanswered += 1;
                self.servers.of(server)[1] += 1;
            }
        }
        let name = |((code, name), count): ((u8, Box<str>), u64)| FailedName {
            name: name.into(),
            code: code_name(code).into_owned(),
            count,
        };
        let mut names: Vec<_> = self.names.into_iter().map(name).collect();
        names.sort_unstable_by(|one, other| {
            (other.count, &one.name, &one.code).cmp(&(one.count, &other.name, &other.code))
        });
        let server = |(server, [queries, unanswered, failures]): (IpAddr, [u64; 3])| DnsServer {
            server,
            queries,
            unanswered,
            failures,
        };
        let mut servers: Vec<_> = self.servers.known.into_iter().map(server).collect();
        servers.sort_unstable_by_key(|row| {
            let failed = row.unanswered + row.failures;
            (std::cmp::Reverse(failed), std::cmp::Reverse(row.queries), row.server)
        });
        let (name_count, server_count) = (names.len() as u64, servers.len() as u64);
        names.truncate(ROWS_MAX);
        servers.truncate(ROWS_MAX);
        let response_ns = self.times.quantiles();
        DnsTraffic { response_ns, name_count, names, server_count, servers, ..self.found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testpackets as build;

    const S: u64 = 1_000_000_000;

    /// A message about `a.example`.
    fn message(id: u16, flags: u16) -> Vec<u8> {
        let header = [id, flags, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
        [&header[..], b"\x01a\x07example\0\0\x01\0\x01"].concat()
    }

    fn packet(is_reply: bool, message: &[u8], time_ns: u64) -> Option<DnsPacket> {
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
            if let Some(packet) = packet(is_reply, &message(id, flags), time_ns) {
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
        let found = dns.finish(10 * S);
        assert_eq!((found.queries, found.answered, found.unanswered, found.undecided), (4, 2, 1, 1));
        assert_eq!((found.repeated, found.unasked, found.failures), (1, 1, 2));
        assert_eq!((found.nxdomain, found.servfail, found.response_ns.max), (1, 1, 9));
        let names: Vec<_> = found.names.iter().map(|row| (&row.name[..], &row.code[..], row.count)).collect();
        assert_eq!(names, [("a.example", "NXDOMAIN", 1), ("a.example", "SERVFAIL", 1)]);
        let server = DnsServer { server: [10, 0, 0, 53].into(), queries: 4, unanswered: 1, failures: 2 };
        assert_eq!(found.servers, [server]);
    }

    #[test]
    fn a_datagram_that_is_no_message_is_ignored() {
        assert!(packet(false, &[0; HEADER_BYTES - 1], 0).is_none());
        let cut = packet(true, &message(1, 0x8183)[..HEADER_BYTES], 0).unwrap();
        assert_eq!(cut.reply.map(|reply| (reply.code, reply.name.len())), Some((3, 0)));
    }
}
