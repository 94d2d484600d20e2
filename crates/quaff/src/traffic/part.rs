//! The packets of a part of a file, counted by their own bytes alone, so that threads can count parts side by side.
//! Segments of handshakes and messages of DNS need the packets before them: they are passed on in order.

use super::conversations::{self, Pairs};
use super::dns::{self, DnsPacket};
use super::firsts::Firsts;
use super::handshakes::HandshakeSegment;
use super::tables::{PacketCount, Sums};
use super::times::Times;
use quaff_file::verify::Part;
use quaff_wire::decode::Frame;
use quaff_wire::flow::FlowPacket;
use quaff_wire::hierarchy::{self, ProtocolPath};
use quaff_wire::net::agreement::Numbers;
use quaff_wire::net::{TCP, UDP};
use std::net::SocketAddr;

/// Packets that are counted in one part, where no thread decides its size.
const PACKETS_MAX: u64 = 1 << 12;

/// The counts of packets that follow one another.
#[derive(Debug, Default)]
pub(super) struct PartCounts {
    pub(super) all: PacketCount,
    pub(super) captured_bytes: u64,
    pub(super) times: Times,
    pub(super) paths: Sums<ProtocolPath, PacketCount>,
    pub(super) pairs: Pairs,
    firsts: Firsts,
    pub(super) segments: Vec<HandshakeSegment>,
    pub(super) messages: Vec<DnsPacket>,
}

impl Part for PartCounts {
    #[inline]
    fn packet(&mut self, frame: &Frame<'_>, time_ns: Option<u64>) {
        let Frame { data, wire_len, linktype, .. } = *frame;
        self.all.add(PacketCount::one(wire_len));
        self.captured_bytes += data.len() as u64;
        self.times.add(time_ns);
        // Without `or_else` the headers are not copied, and the compiler knows most fields of a plain packet.
        let Some(packet) = FlowPacket::plain(data, linktype) else { return self.not_plain(frame, time_ns) };
        if !self.usual(&packet, frame, time_ns) {
            self.other(frame, time_ns);
        }
    }

    fn is_full(&self) -> bool {
        self.all.packets >= PACKETS_MAX
    }

    fn clear(&mut self) {
        (self.all, self.captured_bytes, self.times) = (PacketCount::default(), 0, Times::default());
        self.paths.clear();
        self.pairs.clear();
        self.firsts.clear();
        self.segments.clear();
        self.messages.clear();
    }
}

impl PartCounts {
    /// Counts a packet whose path its headers show; returns false for another one, which it does not count.
    #[inline(always)]
    fn usual(&mut self, packet: &FlowPacket, frame: &Frame<'_>, time_ns: Option<u64>) -> bool {
        let Some(path) = hierarchy::usual_path(packet, frame.data) else { return false };
        self.add_path(path, frame.wire_len);
        conversations::add(&mut self.pairs, &packet.addresses, frame.wire_len);
        self.note(packet, frame.data, time_ns);
        true
    }

    /// Counts a packet that is not plain IPv4.
    #[inline(never)]
    fn not_plain(&mut self, frame: &Frame<'_>, time_ns: Option<u64>) {
        let is_counted = match FlowPacket::plain_ipv6(frame.data, frame.linktype) {
            Some(packet) => self.usual(&packet, frame, time_ns),
            None => false,
        };
        if !is_counted {
            self.other(frame, time_ns);
        }
    }

    /// Counts a packet that is not a usual one.
    #[inline(never)]
    fn other(&mut self, frame: &Frame<'_>, time_ns: Option<u64>) {
        let Frame { data, wire_len, linktype, .. } = *frame;
        let pairs = &mut self.pairs;
        let path = hierarchy::path(data, wire_len, linktype, |addresses| {
            conversations::add(pairs, &addresses, wire_len);
        });
        self.add_path(path, wire_len);
        if let Ok(packet) = FlowPacket::walk(data, wire_len, linktype) {
            self.note(&packet, data, time_ns);
        }
    }

    #[inline]
    fn add_path(&mut self, path: ProtocolPath, wire_len: u32) {
        if let Some(sum) = self.paths.of(path, usize::MAX) {
            sum.add(PacketCount::one(wire_len));
        }
    }

    /// Notes a packet by which an attempt to connect is judged, or one of DNS.
    #[inline]
    fn note(&mut self, packet: &FlowPacket, bytes: &[u8], time_ns: Option<u64>) {
        if packet.protocol == TCP {
            if self.firsts.takes(packet) {
                self.note_segment(packet, bytes, time_ns);
            }
        } else if packet.protocol == UDP && packet.ports.contains(&dns::PORT) {
            self.messages.extend(DnsPacket::read(packet, bytes, time_ns));
        }
    }

    /// Notes a segment, unless the capture lacks the end of its header.
    fn note_segment(&mut self, packet: &FlowPacket, bytes: &[u8], time_ns: Option<u64>) {
        match handshake_segment(packet, bytes, time_ns) {
            Some(segment) => self.segments.push(segment),
            None => self.firsts.forget(packet),
        }
    }
}

/// The segment of a packet; `None` if the capture lacks the end of its header.
fn handshake_segment(packet: &FlowPacket, bytes: &[u8], time_ns: Option<u64>) -> Option<HandshakeSegment> {
    let tcp = packet.tcp(bytes)?;
    let [source, destination] = packet.addresses;
    let ends = [SocketAddr::new(source, packet.ports[0]), SocketAddr::new(destination, packet.ports[1])];
    let (sequence, acknowledgment) = (tcp.sequence, tcp.acknowledgment);
    let numbers = Numbers { flags: packet.tcp_flags, sequence, acknowledgment };
    Some(HandshakeSegment { time_ns, ends, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testpackets as build;
    use quaff_wire::net::agreement::SYN;

    #[test]
    fn a_syn_whose_header_is_cut_is_no_attempt() {
        let header =
            [&[0x9c, 0x40, 0, 80][..], &[0, 0, 0, 7], &[0; 4], &[0x50, SYN, 0xff, 0xff], &[0; 4]].concat();
        let packet = build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), TCP, &[], &header);
        let frame = build::ethernet(&[], 0x0800, &packet);
        for cut in 0..=6 {
            let bytes = &frame[..frame.len() - cut];
            let packet = FlowPacket::read(bytes, frame.len() as u32, 1).expect("the ports are there");
            let mut part = PartCounts::default();
            part.note(&packet, bytes, Some(5));
            assert_eq!(part.segments.len(), usize::from(cut == 0), "{cut}");
        }
    }
}
