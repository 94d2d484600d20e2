//! Extras of flows, computed only if the plan enables them: losses and times of TCP, sizes, gaps, first payload, the
//! application.
//!
//! They are kept beside the table, indexed by the number of the record, so that flows without extras cost nothing.

use crate::application::{Decrypter, PAYLOAD_BYTES, QuicClient, application, dns_addresses, is_tls};
use crate::fragments::Held;
use crate::headers::{Headers, read};
use crate::packet::Packet;
use crate::plan::ExtrasPlan;
use crate::record::{Application, DirectionExtras, Extras, RecordKey};
use quaff_wire::flow::{FlowPacket, TcpFields};
use quaff_wire::net::UDP;
use quaff_wire::net::agreement::{ACK, FIN, SYN};

/// Maximum known holes in the sequence numbers of a direction; others are forgotten, and count neither as lost nor as
/// filled.
const HOLES: usize = 8;

/// The extras, indexed by the number of the flow's record.
#[derive(Debug)]
pub(crate) struct ExtrasTable {
    plan: ExtrasPlan,
    flows: Vec<Option<Box<FlowExtras>>>,
    used: u64,
    decrypter: Decrypter,
}

/// Extras of one flow.
#[derive(Debug, Default)]
struct FlowExtras {
    /// Indexed by sender: the low end, the high end.
    directions: [Stream; 2],
    /// Time of the last SYN, ns.
    syn_ns: Option<u64>,
    /// Time of the first SYN-ACK, ns; true if the high end sent it.
    syn_ack: Option<(u64, bool)>,
    server_rtt_ns: Option<u64>,
    client_rtt_ns: Option<u64>,
    /// Recognized in the first piece with payload, in which the conversation begins.
    application: Option<Application>,
    has_application: bool,
    /// Replaces the kept payload until the application is known.
    quic: Option<Box<QuicClient>>,
}

/// The state of one direction.
#[derive(Debug, Default)]
struct Stream {
    of_piece: DirectionExtras,
    /// Number of packets in the piece; counting stops at three.
    packets: u8,
    last_ns: u64,
    /// The sequence number after the highest one seen.
    next: Option<u32>,
    /// Ranges of skipped bytes: first sequence number, and the one after the last.
    holes: Vec<(u32, u32)>,
    /// The segment whose ACK is awaited: the sequence number after it, and its time, ns. One at a time.
    timed: Option<(u32, u64)>,
}

/// Bytes of payload kept per direction. The application is recognized once, at the end of the first piece.
fn kept_bytes(plan: ExtrasPlan, has_application: bool) -> usize {
    let application = if plan.application && !has_application { PAYLOAD_BYTES } else { 0 };
    application.max(plan.payload_bytes.into())
}

/// The contents of a packet.
pub(crate) enum Body<'a> {
    Captured(&'a Packet<'a>),
    /// A later fragment that was held: only its number of payload bytes was kept.
    Held {
        payload_bytes: u32,
    },
}

impl Body<'_> {
    pub(crate) fn of_held(held: &Held) -> Self {
        let FlowPacket { ip_offset, ip_bytes, transport, .. } = held.packet;
        Body::Held { payload_bytes: ip_offset.saturating_add(ip_bytes).saturating_sub(transport) }
    }
}

/// True if sequence number `one` is before `other` (RFC 9293, section 3.4).
fn is_before(one: u32, other: u32) -> bool {
    other.wrapping_sub(one).wrapping_sub(1) < 1 << 31
}

impl ExtrasTable {
    pub(crate) fn new(plan: ExtrasPlan) -> Self {
        Self { plan, flows: Vec::new(), used: 0, decrypter: Decrypter::default() }
    }

    /// Bytes of memory per flow.
    pub(crate) fn flow_bytes(&self) -> u64 {
        let holes = 2 * HOLES * size_of::<(u32, u32)>();
        // A client of QUIC uses the memory of the payload that is kept for other applications, beside the plan's
        // payload.
        let quic = if self.plan.application { 2 * PAYLOAD_BYTES } else { 0 };
        let payload = (2 * kept_bytes(self.plan, false)).max(quic + 2 * usize::from(self.plan.payload_bytes));
        // The allocator needs 16 bytes for each of five allocations.
        (size_of::<FlowExtras>() + size_of::<Option<Box<FlowExtras>>>() + holes + payload + 5 * 16) as u64
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.used * self.flow_bytes()
    }

    /// Initial packets of QUIC that were not decrypted because of a limit.
    pub(crate) fn quic_skipped(&self) -> u64 {
        self.decrypter.skipped()
    }

    /// Adds a packet to its flow.
    pub(crate) fn add(&mut self, flow: u32, headers: &Headers, body: Body<'_>) {
        let at = flow as usize;
        if self.flows.len() <= at {
            self.flows.resize_with(at + 1, || None);
        }
        let place = &mut self.flows[at];
        if place.is_none() {
            self.used += 1;
        }
        let extras = place.get_or_insert_default();
        let plan = self.plan;
        let stream = &mut extras.directions[usize::from(headers.of.is_from_high)];
        let packet = match body {
            Body::Captured(packet) => packet,
            Body::Held { payload_bytes } => {
                return stream.add(plan, headers, &Payload { bytes: &[], wire_bytes: payload_bytes }, 0);
            }
        };
        let Ok(read) = read(packet) else { return };
        let tcp = read.tcp(packet.bytes);
        let payload = payload(&read, tcp, headers.ip_bytes, packet);
        let may_be_quic = plan.application && read.protocol == UDP && !extras.has_application;
        if may_be_quic && !read.is_later_fragment() {
            extras.add_datagram(plan, headers, payload.bytes, &mut self.decrypter);
        }
        let kept_bytes = kept_bytes(plan, extras.has_application || extras.quic.is_some());
        let stream = &mut extras.directions[usize::from(headers.of.is_from_high)];
        if stream.packets == 0 && plan.macs {
            stream.of_piece.macs = macs(packet);
        }
        stream.add(plan, headers, &payload, kept_bytes);
        if let (Some(tcp), true) = (tcp, plan.tcp || plan.ack_times) {
            let timed_ns = plan.ack_times.then_some(headers.time_ns);
            stream.add_segment(tcp, headers.tcp_flags, payload.wire_bytes, timed_ns);
            extras.add_times(headers);
            if headers.tcp_flags & ACK != 0 {
                let other = &mut extras.directions[usize::from(!headers.of.is_from_high)];
                other.acknowledge(tcp.acknowledgment);
                other.time_ack(tcp.acknowledgment, headers.time_ns);
            }
        }
    }

    /// Takes the extras of a piece that ends; those of the whole conversation are kept.
    pub(crate) fn take(&mut self, flow: u32, is_from_high: bool, key: &RecordKey) -> Option<Box<Extras>> {
        let plan = self.plan;
        let extras = self.flows.get_mut(flow as usize)?.as_mut()?;
        let mut piece = |is_high: bool| {
            let stream = &mut extras.directions[usize::from(is_high)];
            stream.packets = 0;
            std::mem::take(&mut stream.of_piece)
        };
        let (mut forward, mut reverse) = (piece(is_from_high), piece(!is_from_high));
        let has_payload = !forward.payload.is_empty() || !reverse.payload.is_empty() || extras.quic.is_some();
        let mut addresses = Vec::new();
        if plan.application && has_payload && !extras.has_application {
            let ports = [key.source_port, key.destination_port];
            extras.application = match extras.quic.take() {
                Some(client) => Some(client.application(ports)),
                None => application(key.protocol, ports, &forward.payload, &reverse.payload),
            };
            extras.has_application = true;
            if plan.addresses && extras.application.as_ref().is_some_and(|known| known.protocol == "dns") {
                addresses = dns_addresses(key.protocol, [&forward.payload, &reverse.payload]);
            }
        }
        for side in [&mut forward, &mut reverse] {
            side.payload.truncate(plan.payload_bytes.into());
        }
        let application = extras.application.clone();
        let (server_rtt_ns, client_rtt_ns) = (extras.server_rtt_ns, extras.client_rtt_ns);
        Some(Box::new(Extras { forward, reverse, server_rtt_ns, client_rtt_ns, application, addresses }))
    }

    /// Bytes of memory of the kept payloads.
    #[cfg(test)]
    pub(crate) fn payload_memory_bytes(&self) -> usize {
        let streams = self.flows.iter().flatten().flat_map(|extras| &extras.directions);
        streams.map(|stream| stream.of_piece.payload.capacity()).sum()
    }

    /// Removes the extras of a flow that has ended.
    pub(crate) fn forget(&mut self, flow: u32) {
        if self.flows.get_mut(flow as usize).and_then(Option::take).is_some() {
            self.used -= 1;
        }
    }
}

/// The payload of a packet: its captured bytes, and its number of bytes by the headers.
struct Payload<'a> {
    bytes: &'a [u8],
    wire_bytes: u32,
}

fn payload<'a>(read: &FlowPacket, tcp: Option<TcpFields>, ip_bytes: u32, packet: &Packet<'a>) -> Payload<'a> {
    let start = read.payload_at(tcp);
    let bytes = packet.bytes.get(start as usize..read.end as usize).unwrap_or_default();
    // The end of the datagram on the wire may be beyond the captured bytes.
    let wire_bytes = (read.ip_offset + ip_bytes).saturating_sub(start);
    Payload { bytes, wire_bytes }
}

impl FlowExtras {
    /// Follows a client of QUIC, and recognizes the application when its ClientHello is complete.
    fn add_datagram(
        &mut self,
        plan: ExtrasPlan,
        headers: &Headers,
        datagram: &[u8],
        decrypter: &mut Decrypter,
    ) {
        if self.quic.is_none() && QuicClient::begins_with(datagram) {
            for stream in &mut self.directions {
                let payload = &mut stream.of_piece.payload;
                payload.truncate(plan.payload_bytes.into());
                payload.shrink_to_fit();
            }
            self.quic = Some(Box::default());
        }
        let Some(client) = &mut self.quic else { return };
        decrypter.advance(headers.now.ns);
        client.add(datagram, headers.of.is_from_high, decrypter);
        if client.is_whole() {
            self.application = Some(client.application(headers.of.key.ports(headers.of.is_from_high)));
            (self.has_application, self.quic) = (true, None);
        }
    }

    /// Measures the handshake: from SYN to SYN-ACK, and from SYN-ACK to the next ACK of the other side.
    fn add_times(&mut self, headers: &Headers) {
        let (time_ns, is_from_high) = (headers.time_ns, headers.of.is_from_high);
        match headers.tcp_flags & (SYN | ACK) {
            SYN => self.syn_ns = Some(time_ns),
            ACK => {
                let syn_ack = self.syn_ack.filter(|(_, side)| *side != is_from_high);
                if let Some((syn_ack_ns, _)) = syn_ack.filter(|_| self.client_rtt_ns.is_none()) {
                    self.client_rtt_ns = Some(time_ns.saturating_sub(syn_ack_ns));
                }
            }
            0 => {}
            _ => {
                if let Some(syn_ns) = self.syn_ns.filter(|_| self.syn_ack.is_none()) {
                    self.server_rtt_ns = Some(time_ns.saturating_sub(syn_ns));
                }
                self.syn_ack.get_or_insert((time_ns, is_from_high));
            }
        }
    }
}

impl Stream {
    fn add(&mut self, plan: ExtrasPlan, headers: &Headers, payload: &Payload<'_>, kept_bytes: usize) {
        let of_piece = &mut self.of_piece;
        if plan.statistics {
            let size = headers.ip_bytes;
            of_piece.payload_bytes += u64::from(payload.wire_bytes);
            of_piece.packet_bytes_max = of_piece.packet_bytes_max.max(size);
            if self.packets > 0 {
                let gap_ns = headers.time_ns.saturating_sub(self.last_ns);
                of_piece.gap_min_ns =
                    if self.packets == 1 { gap_ns } else { of_piece.gap_min_ns.min(gap_ns) };
                of_piece.gap_max_ns = of_piece.gap_max_ns.max(gap_ns);
                of_piece.packet_bytes_min = of_piece.packet_bytes_min.min(size);
            } else {
                of_piece.packet_bytes_min = size;
            }
        }
        let mut room = kept_bytes.saturating_sub(of_piece.payload.len());
        let is_change =
            room > 0 && plan.payload_bytes == 0 && is_tls(payload.bytes) && !is_tls(&of_piece.payload);
        if is_change {
            // What came before TLS says less, and would take its room.
            of_piece.payload.clear();
            room = kept_bytes;
        }
        if room > 0 && !payload.bytes.is_empty() {
            // Reserves only what is kept, which is what the table's limit counts.
            of_piece.payload.reserve_exact(room.min(payload.bytes.len()));
            of_piece.payload.extend_from_slice(&payload.bytes[..room.min(payload.bytes.len())]);
        }
        // The time of an out-of-order packet lengthens no gap.
        let before_ns = if self.packets == 0 { 0 } else { self.last_ns };
        (self.packets, self.last_ns) = ((self.packets + 1).min(3), before_ns.max(headers.time_ns));
    }

    /// Processes the sequence numbers of a segment, and times it if its time, ns, is given.
    fn add_segment(&mut self, tcp: TcpFields, flags: u8, payload_bytes: u32, timed_ns: Option<u64>) {
        let of_piece = &mut self.of_piece;
        of_piece.window_max = of_piece.window_max.max(tcp.window);
        let marks = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let (start, end) = (tcp.sequence, tcp.sequence.wrapping_add(payload_bytes + marks));
        let Some(next) = self.next.filter(|_| flags & SYN == 0) else {
            self.next = Some(end);
            self.holes.clear();
            self.timed = None;
            return;
        };
        if let Some(time_ns) = timed_ns.filter(|_| payload_bytes > 0) {
            self.time_data(start, start.wrapping_add(payload_bytes), next, time_ns);
        }
        if is_before(next, start) {
            if self.holes.len() == HOLES {
                self.holes.remove(0);
            }
            self.holes.push((next, start));
        } else if is_before(start, next) && payload_bytes > 0 {
            // A keepalive has the sequence number of the last byte, which may never have been sent.
            let is_keepalive = payload_bytes == 1 && next.wrapping_sub(start) == 1;
            match self.fill(start, end) {
                true => self.of_piece.out_of_order_packets += 1,
                false if is_keepalive => {}
                false => self.of_piece.retransmitted_packets += 1,
            }
        }
        if is_before(next, end) {
            self.next = Some(end);
        }
    }

    /// Awaits the ACK of new data, from `start` to `end`, if `next` is the expected sequence number. An ACK of data
    /// that was sent twice may be for either copy (Karn's rule), and the ACK of data after a hole is delayed until the
    /// hole is filled: neither is timed.
    fn time_data(&mut self, start: u32, end: u32, next: u32, time_ns: u64) {
        match self.timed {
            Some((timed_end, _)) if is_before(start, timed_end) => self.timed = None,
            Some(_) => {}
            None if is_before(start, next) => {}
            None => self.timed = Some((end, time_ns)),
        }
    }

    /// Measures the time of the awaited data, if an ACK of the other end covers it.
    fn time_ack(&mut self, acknowledgment: u32, time_ns: u64) {
        if let Some((_, sent_ns)) = self.timed.take_if(|(end, _)| !is_before(acknowledgment, *end)) {
            self.of_piece.ack_times.add(time_ns.saturating_sub(sent_ns));
        }
    }

    /// Removes the bytes from `start` to `end` from the holes; returns true if some were in one.
    fn fill(&mut self, start: u32, end: u32) -> bool {
        let mut left = Vec::with_capacity(self.holes.len() + 1);
        let mut fills = false;
        for (from, to) in self.holes.drain(..) {
            if !is_before(start, to) || !is_before(from, end) {
                left.push((from, to));
                continue;
            }
            fills = true;
            left.extend(is_before(from, start).then_some((from, start)));
            left.extend(is_before(end, to).then_some((end, to)));
        }
        left.truncate(HOLES);
        self.holes = left;
        fills
    }

    /// Counts bytes that the other side acknowledged although they were never seen here.
    fn acknowledge(&mut self, acknowledgment: u32) {
        let of_piece = &mut self.of_piece;
        self.holes.retain_mut(|(from, to)| {
            if !is_before(*from, acknowledgment) {
                return true;
            }
            let end = if is_before(acknowledgment, *to) { acknowledgment } else { *to };
            of_piece.lost_bytes += u64::from(end.wrapping_sub(*from));
            *from = end;
            end != *to
        });
    }
}

/// Source and destination MAC addresses of an Ethernet frame.
fn macs(packet: &Packet<'_>) -> [[u8; 6]; 2] {
    match packet.bytes.first_chunk::<12>() {
        Some(bytes) if packet.linktype == quaff_wire::linktype::ETHERNET.linktype => {
            let mac = |at: usize| std::array::from_fn(|byte| bytes[at + byte]);
            [mac(6), mac(0)]
        }
        _ => [[0; 6]; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(stream: &mut Stream, sequence: u32, bytes: u32) {
        let tcp = TcpFields { sequence, acknowledgment: 0, window: 10, header_bytes: 20 };
        stream.add_segment(tcp, ACK, bytes, None);
    }

    /// Adds a segment with data at a time, ns.
    fn timed(stream: &mut Stream, sequence: u32, bytes: u32, time_ns: u64) {
        let tcp = TcpFields { sequence, acknowledgment: 0, window: 10, header_bytes: 20 };
        stream.add_segment(tcp, ACK, bytes, Some(time_ns));
    }

    /// Sequence numbers wrap in the middle of it.
    #[test]
    fn data_is_timed_until_the_ack_that_covers_it() {
        let start = u32::MAX - 150;
        let at = |offset: u32| start.wrapping_add(offset);
        let mut stream = Stream::default();
        timed(&mut stream, at(0), 0, 1);
        timed(&mut stream, at(0), 100, 10);
        timed(&mut stream, at(100), 100, 20);
        stream.time_ack(at(99), 30);
        assert_eq!(stream.of_piece.ack_times.samples, 0, "all but a byte");
        stream.time_ack(at(200), 50);
        stream.time_ack(at(200), 60);
        let times = stream.of_piece.ack_times;
        assert_eq!((times.samples, times.min_ns, times.max_ns), (1, 40, 40), "of the first segment, once");
        timed(&mut stream, at(200), 10, 100);
        stream.time_ack(at(210), 120);
        timed(&mut stream, at(210), 10, 200);
        stream.time_ack(at(300), 203);
        let times = stream.of_piece.ack_times;
        assert_eq!((times.samples, times.min_ns, times.max_ns, times.mean_ns()), (3, 3, 40, 21));
    }

    #[test]
    fn data_that_was_sent_twice_or_after_a_hole_is_not_timed() {
        let mut stream = Stream::default();
        let samples = |stream: &Stream| stream.of_piece.ack_times.samples;
        timed(&mut stream, 0, 100, 1);
        stream.time_ack(100, 2);
        assert_eq!(samples(&stream), 0, "the first segment may be a repetition");
        // Data that is sent twice, with data after it.
        for (sequence, bytes) in [(100, 100), (100, 100), (150, 10)] {
            timed(&mut stream, sequence, bytes, 10);
        }
        stream.time_ack(200, 20);
        assert_eq!(samples(&stream), 0);
        // A hole before the timed data is filled: its ACK was delayed.
        timed(&mut stream, 300, 100, 30);
        timed(&mut stream, 200, 100, 40);
        stream.time_ack(400, 50);
        assert_eq!(samples(&stream), 0);
        // Data that was lost before it reached the meter delays no ACK.
        timed(&mut stream, 500, 100, 60);
        stream.time_ack(600, 70);
        assert_eq!((samples(&stream), stream.of_piece.ack_times.max_ns), (1, 10));
        // Another connection begins.
        timed(&mut stream, 600, 100, 80);
        let syn = TcpFields { sequence: 9_000, acknowledgment: 0, window: 10, header_bytes: 20 };
        stream.add_segment(syn, SYN, 0, Some(90));
        stream.time_ack(9_001, 100);
        assert_eq!(samples(&stream), 1);
    }

    /// Sequence numbers wrap in the middle of it.
    #[test]
    fn holes_are_filled_acknowledged_or_repeated() {
        let start = u32::MAX - 150;
        let at = |offset: u32| start.wrapping_add(offset);
        let mut stream = Stream::default();
        for (offset, bytes) in [(0, 100), (200, 100), (100, 100), (400, 100), (600, 50)] {
            segment(&mut stream, at(offset), bytes);
        }
        assert_eq!(stream.of_piece.out_of_order_packets, 1);
        assert_eq!(stream.holes, [(at(300), at(400)), (at(500), at(600))]);
        segment(&mut stream, at(0), 100);
        segment(&mut stream, at(649), 1);
        assert_eq!((stream.of_piece.retransmitted_packets, stream.of_piece.lost_bytes), (1, 0));
        stream.acknowledge(at(350));
        assert_eq!((stream.of_piece.lost_bytes, stream.holes[0]), (50, (at(350), at(400))));
        stream.acknowledge(at(650));
        assert_eq!((stream.of_piece.lost_bytes, stream.holes.len()), (200, 0));
        assert_eq!(stream.next, Some(at(650)));
    }

    #[test]
    fn holes_are_bounded() {
        let mut stream = Stream::default();
        (0..100).for_each(|number| segment(&mut stream, number * 20, 10));
        assert_eq!(stream.holes.len(), HOLES);
        segment(&mut stream, 99 * 20 - 8, 4);
        assert_eq!((stream.of_piece.out_of_order_packets, stream.holes.len()), (1, HOLES));
    }
}
