//! Traffic for the evidence of capture loss, and the meter that takes it. Packets are IPv4 without a link header, cut
//! after the TCP header.

use crate::observed::{ACK, FIN, SYN};
use quaff_stream::{LossMeter, LossReport, Sender};

/// LINKTYPE_RAW.
pub(crate) const RAW: u16 = 101;
pub(crate) const MS: u64 = 1_000_000;

/// A random sequence that is the same in each run (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    pub(crate) fn happens(&mut self, per_million: u64) -> bool {
        self.below(1_000_000) < per_million
    }
}

/// A packet of a connection: A has port 1000 + `flow`, B port 80.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) from: Sender,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) bytes: u32,
}

impl Packet {
    pub(crate) fn frame(&self, flow: u16) -> [u8; 40] {
        let mut frame = [0; 40];
        frame[0] = 0x45;
        frame[2..4].copy_from_slice(&(40 + self.bytes as u16).to_be_bytes());
        (frame[8], frame[9]) = (64, 6);
        let (ends, ports) = ([[10, 0, 0, 1], [10, 0, 0, 2]], [1000 + flow, 80]);
        let (from, to) = (self.from as usize, 1 - self.from as usize);
        frame[12..16].copy_from_slice(&ends[from]);
        frame[16..20].copy_from_slice(&ends[to]);
        frame[20..22].copy_from_slice(&ports[from].to_be_bytes());
        frame[22..24].copy_from_slice(&ports[to].to_be_bytes());
        frame[24..28].copy_from_slice(&self.sequence.to_be_bytes());
        frame[28..32].copy_from_slice(&self.acknowledgment.to_be_bytes());
        (frame[32], frame[33]) = (0x50, self.flags);
        frame
    }
}

/// A meter, and the time of its next packet.
pub(crate) struct Observer {
    pub(crate) meter: LossMeter,
    pub(crate) now_ns: u64,
}

impl Observer {
    pub(crate) fn new() -> Self {
        Self { meter: LossMeter::new(7), now_ns: 1_700_000_000_000 * MS }
    }

    pub(crate) fn give(&mut self, flow: u16, packet: &Packet) {
        self.meter.packet(&packet.frame(flow), 40 + packet.bytes, RAW, self.now_ns);
        self.now_ns += MS / 10;
    }

    pub(crate) fn send(
        &mut self,
        from: Sender,
        sequence: u32,
        acknowledgment: Option<u32>,
        flags: u8,
        bytes: u32,
    ) {
        let flags = flags | acknowledgment.map_or(0, |_| ACK);
        let acknowledgment = acknowledgment.unwrap_or(0);
        self.give(0, &Packet { from, sequence, acknowledgment, flags, bytes });
    }

    /// A handshake whose next numbers are `a` and `b`.
    pub(crate) fn connect(&mut self, a: u32, b: u32) {
        self.send(A, a.wrapping_sub(1), None, SYN, 0);
        self.send(B, b.wrapping_sub(1), Some(a), SYN, 0);
        self.send(A, a, Some(b), 0, 0);
    }

    pub(crate) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    pub(crate) fn finish(self) -> LossReport {
        self.meter.finish()
    }
}

pub(crate) const A: Sender = Sender::A;
pub(crate) const B: Sender = Sender::B;
/// Numbers of the first bytes.
pub(crate) const A0: u32 = 1001;
pub(crate) const B0: u32 = 5001;

pub(crate) fn connected() -> Observer {
    let mut observer = Observer::new();
    observer.connect(A0, B0);
    observer
}

/// Lost bytes, runs and packets.
pub(crate) fn lost(report: &LossReport) -> [u64; 3] {
    [report.acked_unseen_bytes, report.acked_unseen_runs, report.acked_unseen_packets_estimate]
}

/// The packets of a connection whose segments have 1,000 bytes.
pub(crate) fn traffic(random: &mut Random, segments: u32, lost_per_million: u64) -> Vec<Packet> {
    traffic_of(random, &vec![1000; segments as usize], lost_per_million)
}

/// The packets of a connection with segments of these sizes as they pass the capture: data of A, acknowledgments of B.
/// The network loses some before the capture and some after it, and A sends those again at the end of its window.
pub(crate) fn traffic_of(random: &mut Random, sizes: &[u32], lost_per_million: u64) -> Vec<Packet> {
    let base = random.below(1 << 32) as u32;
    let segments = sizes.len() as u32;
    let offsets: Vec<u32> = std::iter::once(0)
        .chain(sizes.iter().scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        }))
        .collect();
    let number = |at: u32| base.wrapping_add(offsets[at as usize]);
    let packet = |from, sequence, acknowledgment, flags, bytes| Packet {
        from,
        sequence,
        acknowledgment,
        flags,
        bytes,
    };
    let data = |at: u32| packet(A, number(at), 1, ACK, sizes[at as usize]);
    let ack = |at: u32| packet(B, 1, number(at), ACK, 0);
    let mut packets = vec![
        packet(A, base.wrapping_sub(1), 0, SYN, 0),
        packet(B, 0, base, SYN | ACK, 0),
        packet(A, base, 1, ACK, 0),
    ];
    for start in (0..segments).step_by(20) {
        let end = segments.min(start + 20);
        let (mut again, mut first_lost) = (Vec::new(), None);
        for at in start..end {
            let is_lost_before = random.happens(lost_per_million);
            if !is_lost_before {
                packets.push(data(at));
            }
            if is_lost_before || random.happens(lost_per_million) {
                again.push(data(at));
                first_lost.get_or_insert(at);
            }
            packets.push(ack(first_lost.unwrap_or(at + 1)));
        }
        packets.append(&mut again);
        packets.push(ack(end));
    }
    packets.push(packet(A, number(segments), 1, ACK | FIN, 0));
    packets.push(packet(B, 1, number(segments).wrapping_add(1), ACK | FIN, 0));
    packets.push(packet(A, number(segments).wrapping_add(1), 2, ACK, 0));
    packets
}
