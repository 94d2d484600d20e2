//! The packets of a part of a file, counted by their own bytes alone, so that threads can count parts side by side.
//! What needs the packets before it, handshakes and queries, is handed on in order.

use super::conversations::{self, Pairs};
use super::dns::{self, DnsPacket};
use super::handshakes::HandshakeSegment;
use super::tables::{PacketCount, Sums};
use quaff_file::verify::Part;
use quaff_wire::decode::Frame;
use quaff_wire::flow::FlowPacket;
use quaff_wire::hierarchy::{self, ProtocolPath};
use quaff_wire::net::agreement::{RST, SYN};
use quaff_wire::net::{TCP, UDP};
use std::net::SocketAddr;

/// Packets that are counted in one part, where no thread decides its size.
const PACKETS_MAX: u64 = 1 << 12;

/// The counts of packets that follow one another.
#[derive(Debug, Default)]
pub(super) struct PartCounts {
    pub(super) all: PacketCount,
    pub(super) captured_bytes: u64,
    /// The earliest and the latest time.
    pub(super) span_ns: Option<[u64; 2]>,
    pub(super) paths: Sums<ProtocolPath, PacketCount>,
    pub(super) pairs: Pairs,
    pub(super) segments: Vec<HandshakeSegment>,
    pub(super) messages: Vec<DnsPacket>,
}

impl Part for PartCounts {
    #[inline]
    fn packet(&mut self, frame: &Frame<'_>) {
        let Frame { data, time_ns, wire_len, linktype, .. } = *frame;
        self.all.add(PacketCount::one(wire_len));
        self.captured_bytes += data.len() as u64;
        if time_ns > 0 {
            let [first_ns, last_ns] = self.span_ns.unwrap_or([time_ns; 2]);
            self.span_ns = Some([first_ns.min(time_ns), last_ns.max(time_ns)]);
        }
        let usual = FlowPacket::plain(data, linktype).or_else(|| FlowPacket::plain_ipv6(data, linktype));
        match usual.and_then(|packet| Some((packet, hierarchy::usual_path(&packet, data)?))) {
            Some((packet, path)) => {
                self.add_path(path, wire_len);
                conversations::add(&mut self.pairs, packet.addresses, wire_len);
                self.note(&packet, frame);
            }
            None => self.other(frame),
        }
    }

    fn is_full(&self) -> bool {
        self.all.packets >= PACKETS_MAX
    }

    fn clear(&mut self) {
        (self.all, self.captured_bytes, self.span_ns) = (PacketCount::default(), 0, None);
        self.paths.clear();
        self.pairs.clear();
        self.segments.clear();
        self.messages.clear();
    }
}

impl PartCounts {
    /// Counts a packet that is not a usual one.
    #[inline(never)]
    fn other(&mut self, frame: &Frame<'_>) {
        let Frame { data, wire_len, linktype, .. } = *frame;
        let pairs = &mut self.pairs;
        let path = hierarchy::path(data, wire_len, linktype, |addresses| {
            conversations::add(pairs, addresses, wire_len);
        });
        self.add_path(path, wire_len);
        if let Ok(packet) = FlowPacket::walk(data, wire_len, linktype) {
            self.note(&packet, frame);
        }
    }

    #[inline]
    fn add_path(&mut self, path: ProtocolPath, wire_len: u32) {
        if let Some(sum) = self.paths.of(path, usize::MAX) {
            sum.add(PacketCount::one(wire_len));
        }
    }

    /// Notes a packet that opens or refuses a connection, or that is of DNS.
    #[inline]
    fn note(&mut self, packet: &FlowPacket, frame: &Frame<'_>) {
        let has_port = || packet.ports.contains(&dns::PORT);
        if packet.protocol == TCP && packet.tcp_flags & (SYN | RST) != 0 {
            let [source, destination] = packet.addresses;
            let ends =
                [SocketAddr::new(source, packet.ports[0]), SocketAddr::new(destination, packet.ports[1])];
            let numbers = packet.numbers(frame.data);
            self.segments.push(HandshakeSegment { time_ns: frame.time_ns, ends, numbers });
        } else if packet.protocol == UDP && has_port() {
            self.messages.extend(DnsPacket::read(packet, frame.data, frame.time_ns));
        }
    }
}
