//! The counts of all parts of a capture, taken in the order of its packets, and their sums, which are checked.

use super::conversations::{self, PAIRS_MAX, Pairs};
use super::dns::Dns;
use super::handshakes::{Handshakes, TcpTraffic};
use super::part::PartCounts;
use super::report::{ProtocolRow, Traffic, Verdict, rows};
use super::tables::{PacketCount, Sums};
use super::times::Times;
use crate::tally::check;
use quaff_file::verify::{Beside, Report};
use quaff_wire::hierarchy::ProtocolPath;

/// Different paths through the hierarchy that are counted; packets of others are counted together.
const PATHS_MAX: usize = 1 << 12;

/// The counts of a capture.
#[derive(Debug, Default)]
pub(super) struct Counters {
    all: PacketCount,
    captured_bytes: u64,
    times: Times,
    paths: Sums<ProtocolPath, PacketCount>,
    /// Packets whose paths had no place.
    other_paths: PacketCount,
    pairs: Pairs,
    /// Packets whose pairs had no place.
    other_pairs: PacketCount,
    handshakes: Handshakes,
    dns: Dns,
}

impl Beside for Counters {
    type Part = PartCounts;

    fn take(&mut self, part: &mut PartCounts) {
        self.all.add(part.all);
        self.captured_bytes += part.captured_bytes;
        self.times.absorb(&part.times);
        self.paths.absorb(&part.paths, PATHS_MAX, |sum, count| {
            sum.unwrap_or(&mut self.other_paths).add(*count);
        });
        self.pairs.absorb(&part.pairs, PAIRS_MAX, |sums, sent| match sums {
            Some(sums) => sums.iter_mut().zip(sent).for_each(|(sum, sent)| sum.add(*sent)),
            None => sent.iter().for_each(|sent| self.other_pairs.add(*sent)),
        });
        part.segments.iter().for_each(|segment| self.handshakes.take(segment));
        part.messages.drain(..).for_each(|message| self.dns.take(message));
        quaff_file::verify::Part::clear(part);
    }
}

impl Counters {
    /// The traffic of the capture, with what verify has found in it.
    pub(super) fn finish(self, verified: &Report) -> Traffic {
        let span_ns = self.times.span();
        let end_ns = span_ns.map(|[_, last_ns]| last_ns);
        let (conversations, hosts) = conversations::report(self.pairs, self.other_pairs);
        let loss = &verified.tcp.loss;
        let tcp = TcpTraffic {
            retransmitted_bytes: loss.retransmitted_bytes,
            late_bytes: loss.filled_bytes,
            ..self.handshakes.finish(end_ns)
        };
        let mut traffic = Traffic {
            packets: self.all.packets,
            bytes: self.all.bytes,
            captured_bytes: self.captured_bytes,
            first_ns: span_ns.map(|[first_ns, _]| first_ns),
            last_ns: end_ns,
            seconds: span_ns.map(|[first_ns, last_ns]| (last_ns - first_ns) as f64 / 1e9),
            untimed: self.times.untimed,
            backward: self.times.backward,
            protocols: rows(self.paths.entries(), self.other_paths),
            conversations,
            hosts,
            tcp,
            dns: self.dns.finish(end_ns),
            verify: Verdict::of(verified),
            failure: None,
        };
        traffic.failure = identity(&traffic, verified.outcome.frames).err();
        traffic
    }
}

/// Every packet is in one path, and every attempt and query has one fate and one server.
fn identity(traffic: &Traffic, frames: u64) -> Result<(), String> {
    let tops = || traffic.protocols.iter().filter(|row| row.depth == 0);
    let sum = |of: fn(&ProtocolRow) -> u64| tops().map(of).sum::<u64>();
    let (tcp, dns) = (&traffic.tcp, &traffic.dns);
    check([
        ("packets of the files = packets counted", frames, traffic.packets),
        ("packets = packets of the hierarchy", traffic.packets, sum(|row| row.packets)),
        ("bytes = bytes of the hierarchy", traffic.bytes, sum(|row| row.bytes)),
        (
            "attempts = answered + one_way + refused + unanswered + undecided",
            tcp.attempts,
            tcp.answered + tcp.one_way + tcp.refused + tcp.unanswered + tcp.undecided,
        ),
        (
            "queries = answered + unanswered + undecided",
            dns.queries,
            dns.answered + dns.unanswered + dns.undecided,
        ),
        (
            "attempts = attempts of all servers",
            tcp.attempts,
            tcp.servers.iter().map(|row| row.sums.attempts).sum::<u64>() + tcp.servers_others.attempts,
        ),
        (
            "queries = queries of all servers",
            dns.queries,
            dns.servers.iter().map(|row| row.sums.queries).sum::<u64>() + dns.servers_others.queries,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_file::verify::Part;
    use quaff_testpackets as build;
    use quaff_wire::decode::{Frame, RawOptions};
    use quaff_wire::net::agreement::{ACK, SYN};

    fn frame(data: &[u8], time_ns: u64) -> Frame<'_> {
        let wire_len = data.len() as u32;
        let options = RawOptions::default();
        Frame { data, time_ns, wire_len, interface: 0, linktype: 1, flags: 0, dropcount: 0, options }
    }

    fn packet(source: u8, destination: u8) -> Vec<u8> {
        let [from, to] = [source, destination].map(|last| [10, 0, 0, last].into());
        build::ethernet(&[], 0x0800, &build::ipv4(from, to, 17, &[], &build::udp(4000, 9, b"x")))
    }

    /// The traffic of packets in parts of `size`.
    fn traffic(packets: &[Vec<u8>], size: usize) -> Traffic {
        let (mut counters, mut part) = (Counters::default(), PartCounts::default());
        for (number, packets) in packets.chunks(size).enumerate() {
            for packet in packets {
                part.packet(&frame(packet, 1 + number as u64), Some(1 + number as u64));
            }
            counters.take(&mut part);
        }
        let mut verified = Report::default();
        verified.outcome.frames = packets.len() as u64;
        counters.finish(&verified)
    }

    #[test]
    fn parts_of_any_size_have_the_same_sums() {
        let arp = build::ethernet(&[], 0x0806, &[0; 28]);
        let mut packets: Vec<_> = (0..90).map(|number| packet(number % 7, 100 + number % 3)).collect();
        packets.push(arp);
        let [one, several] = [91, 4].map(|size| traffic(&packets, size));
        assert_eq!((one.failure.as_deref(), one.packets), (None, 91));
        let rows: Vec<_> = one.protocols.iter().map(|row| (&row.path[..], row.packets)).collect();
        assert_eq!(rows, [("eth", 91), ("eth:ip", 90), ("eth:ip:udp", 90), ("eth:arp", 1)]);
        assert_eq!(one.protocols, several.protocols);
        assert_eq!(one.conversations.rows, several.conversations.rows);
        assert_eq!(one.conversations.count, 21);
    }

    /// A segment of the client 10.0.0.1 at `port`, or of its server.
    fn segment(port: u16, is_client: bool, flags: u8, numbers: [u32; 2]) -> Vec<u8> {
        let ends = [([10, 0, 0, 1].into(), port), ([10, 0, 0, 2].into(), 80)];
        let [from, to] = if is_client { ends } else { [ends[1], ends[0]] };
        let ports = [from.1, to.1].map(u16::to_be_bytes).concat();
        let numbers = numbers.map(u32::to_be_bytes).concat();
        let tcp = [&ports[..], &numbers, &[0x50, flags, 0xff, 0xff], &[0; 4]].concat();
        build::ethernet(&[], 0x0800, &build::ipv4(from.0, to.0, 6, &[], &tcp))
    }

    /// An old connection, its end, and an attempt to open another one of which nothing more, one direction, or all but
    /// the answer was captured; many of them side by side.
    #[test]
    fn attempts_have_the_same_fates_in_parts_of_any_size() {
        let step = |step: usize| {
            (0..60).map(move |number| {
                let of = |is_client, flags, numbers| segment(40_000 + number, is_client, flags, numbers);
                match (step, number % 3) {
                    (0, _) => of(true, ACK, [90, 7]),
                    (1, _) => of(false, ACK, [7, 91]),
                    (2, _) => of(true, SYN, [100, 0]),
                    (3, 1 | 2) | (4, 1) => of(true, ACK, [101, 500]),
                    (4, 2) => of(false, ACK, [500, 101]),
                    _ => of(false, 0, [0, 0]),
                }
            })
        };
        let packets: Vec<_> = (0..5).flat_map(step).collect();
        for size in [1, 7, 64, 300] {
            let tcp = traffic(&packets, size).tcp;
            let fates = [tcp.answered, tcp.one_way, tcp.unanswered + tcp.undecided, tcp.syn_acks_missing];
            assert_eq!((tcp.attempts, fates), (60, [20, 20, 20, 40]), "{size}");
        }
    }

    #[test]
    fn a_packet_that_is_not_counted_is_a_defect() {
        let mut counters = Counters::default();
        let mut part = PartCounts::default();
        part.packet(&frame(&packet(1, 2), 5), Some(5));
        counters.take(&mut part);
        let failure = counters.finish(&Report::default()).failure;
        assert!(failure.is_some_and(|words| words.contains("packets counted")));
    }

    #[test]
    fn pairs_without_a_place_are_counted_together() {
        let mut counters = Counters::default();
        let mut part = PartCounts::default();
        let end = |number: u32| std::net::IpAddr::V4(number.into());
        for number in 0..PAIRS_MAX as u32 + 5 {
            conversations::add(&mut part.pairs, &[end(number), end(u32::MAX)], 60);
        }
        counters.take(&mut part);
        let found = counters.finish(&Report::default());
        assert_eq!(found.conversations.count, PAIRS_MAX as u64);
        assert_eq!(found.conversations.untracked, PacketCount { packets: 5, bytes: 300 });
        let listed = found.conversations.rows.iter().map(|row| row.packets).sum::<u64>();
        assert_eq!(listed + found.conversations.others.packets, PAIRS_MAX as u64 + 5);
        assert_eq!(found.hosts.count, PAIRS_MAX as u64 + 1);
    }
}
