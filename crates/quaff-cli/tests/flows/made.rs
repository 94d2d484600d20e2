//! Captures that tests of flow metering make. Nothing is checked here.

use quaff_testpackets as build;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Time of the first packet, ns since 1970.
pub(crate) const BEGIN_NS: u64 = 1_700_000_000 * SECOND;
const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Packets and their times.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) packets: Vec<(u64, Vec<u8>)>,
}

impl Made {
    /// Adds an IP packet `ms` after the first one, in an Ethernet frame.
    pub(crate) fn ip(&mut self, ms: u64, packet: &[u8]) -> &mut Self {
        self.tagged(ms, &[], packet)
    }

    pub(crate) fn tagged(&mut self, ms: u64, tags: &[(u16, u16)], packet: &[u8]) -> &mut Self {
        let ethertype = if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
        self.frame(ms, build::ethernet(tags, ethertype, packet))
    }

    pub(crate) fn frame(&mut self, ms: u64, frame: Vec<u8>) -> &mut Self {
        self.packets.push((BEGIN_NS + ms * 1_000_000, frame));
        self
    }

    /// A packet of TCP between two hosts; `is_back` from the second one. Each half second has its sequence number.
    pub(crate) fn tcp(&mut self, ms: u64, ports: [u16; 2], flags: u8, is_back: bool) -> &mut Self {
        let (hosts, [from, to]) = if is_back { ([B, A], [ports[1], ports[0]]) } else { ([A, B], ports) };
        self.ip(ms, &build::ipv4(hosts[0], hosts[1], TCP, &[], &tcp([from, to], (ms / 500) as u32, flags)))
    }

    /// Writes a pcap file with ns.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> PathBuf {
        let mut file = Vec::new();
        for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 262_144, 1] {
            file.extend(word.to_le_bytes());
        }
        for (time_ns, frame) in &self.packets {
            let len = frame.len() as u32;
            for word in [(time_ns / SECOND) as u32, (time_ns % SECOND) as u32, len, len] {
                file.extend(word.to_le_bytes());
            }
            file.extend(frame);
        }
        let path = dir.join(name);
        std::fs::write(&path, file).expect("written");
        path
    }
}

pub(crate) const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn tcp(ports: [u16; 2], sequence: u32, flags: u8) -> Vec<u8> {
    let mut bytes = ports.map(u16::to_be_bytes).concat();
    bytes.extend(sequence.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([0x50, flags, 4, 0, 0, 0, 0, 0]);
    bytes
}

pub(crate) fn udp(ports: [u16; 2], bytes: usize) -> Vec<u8> {
    build::ipv4(A, B, UDP, &[], &build::udp(ports[0], ports[1], &vec![0; bytes]))
}

/// A packet of a connection: ms, from the second host, flags, sequence number, acknowledgment.
type Segment = (u64, bool, u8, u32, u32);

/// Connections of which strays say another thing, and some that replace others, each on ports of its own.
pub(crate) fn handshakes() -> Made {
    const STRAY: u32 = 3_000_000_000;
    let begin = [(0, false, SYN, 9, 0), (10, true, SYN | ACK, 500, 10), (20, false, ACK, 10, 501)];
    let again = [(60, false, SYN, 7000, 0), (70, true, SYN | ACK, 900, 7001), (80, false, ACK, 7001, 901)];
    let fins = [(50, false, FIN | ACK, 10, 501), (51, true, FIN | ACK, 501, 11), (53, false, ACK, 11, 502)];
    let refused = [(60, false, SYN, 7000, 0), (70, true, RST | ACK, 0, 7001), (80, false, SYN, 7000, 0)];
    let reset: [Segment; 2] = [(50, true, RST, 501, 0), (55, false, ACK, 10, 501)];
    let mut cases: Vec<Vec<Segment>> = vec![
        [begin, again].concat(),
        [begin, fins, again].concat(),
        [begin, refused].concat(),
        [&begin[..], &reset, &again].concat(),
        again.iter().chain(&begin).filter(|segment| !segment.1).copied().collect(),
    ];
    for (ms, flags) in
        [(15, SYN), (15, RST), (30, SYN), (30, SYN | ACK), (30, RST), (30, ACK), (52, SYN), (52, RST)]
    {
        for is_back in [false, true] {
            let stray = (ms, is_back, flags, STRAY, STRAY + 77);
            cases.push([&begin[..], &[stray, (40, true, ACK, 501, 10)], &fins, &again].concat());
        }
    }
    let mut made = Made::default();
    for (port, segments) in (30_000..).zip(cases) {
        for (ms, is_back, flags, sequence, acknowledgment) in segments {
            let ([from, to], ports) = if is_back { ([B, A], [80, port]) } else { ([A, B], [port, 80]) };
            let mut bytes = tcp(ports, sequence, flags);
            bytes[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
            made.ip(ms, &build::ipv4(from, to, TCP, &[], &bytes));
        }
    }
    made.packets.sort_by_key(|(time_ns, _)| *time_ns);
    made
}

/// Connections that end in each way, and begin again on the same ports.
pub(crate) fn connections() -> Made {
    let mut made = Made::default();
    let whole = [1000, 80];
    made.tcp(0, whole, SYN, false).tcp(1, whole, SYN | ACK, true).tcp(2, whole, ACK, false);
    made.tcp(3, whole, FIN | ACK, false).tcp(4, whole, FIN | ACK, true).tcp(5, whole, ACK, false);
    // A late packet within the linger, then the same ports again, within it and after it.
    made.tcp(1500, whole, ACK, true).tcp(2000, whole, SYN, false).tcp(2001, whole, RST | ACK, true);
    made.tcp(4001, whole, ACK, false).tcp(9000, whole, SYN, false);
    // Seen from the middle, from the answer, and from the wrong end.
    made.tcp(9001, [40_000, 443], ACK, true).tcp(9002, [40_000, 443], ACK, false);
    made.tcp(9003, [40_001, 443], SYN | ACK, true).tcp(9004, [40_001, 443], ACK, false);
    made.tcp(9005, [40_002, 50_000], ACK, true).tcp(9006, [40_002, 50_000], SYN, false);
    // A host that talks to itself on one port, in one direction: its FIN is that of both ends.
    for (ms, flags) in [(9050, SYN), (9051, ACK), (9052, FIN | ACK), (9060, ACK)] {
        made.ip(ms, &build::ipv4(A, A, TCP, &[], &tcp([99, 99], 5, flags)));
    }
    // A SYN that is sent again, one that never got an answer, and one after an answer.
    made.tcp(9100, [2000, 22], SYN, false).tcp(9101, [2000, 22], SYN, false);
    made.tcp(9600, [2000, 22], SYN, false).tcp(9601, [2000, 22], SYN | ACK, true);
    made.tcp(10_100, [2000, 22], SYN, false).tcp(10_101, [2000, 22], RST, true).tcp(
        10_102,
        [2000, 22],
        SYN,
        false,
    );
    made
}
