//! Evidence besides TCP: numbers of mirrors, tunnels and RTP, copies, and honest captures that look like losses.

use crate::observer::{B, MS, Packet, RAW, Random, traffic};
use quaff_stream::{ProofMeter, ProofReport};
use quaff_testpackets::{Erspan, Gre, erspan_ii, gre, ipv4, udp};
use std::net::Ipv4Addr;

const FROM: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const TO: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

/// A meter, and the time of its next packet.
struct Capture {
    meter: ProofMeter,
    now_ns: u64,
}

impl Capture {
    fn new() -> Self {
        Self { meter: ProofMeter::new(7), now_ns: 1_700_000_000_000 * MS }
    }

    /// Gives a packet of an interface, and waits.
    fn give(&mut self, packet: &[u8], interface: u16, wait_ns: u64) {
        self.give_cut(packet, packet.len() as u32, interface, wait_ns);
    }

    fn give_cut(&mut self, packet: &[u8], wire_bytes: u32, interface: u16, wait_ns: u64) {
        self.meter.packet(packet, wire_bytes, RAW, self.now_ns, interface);
        self.now_ns += wait_ns;
    }

    /// Gives all of them, a millisecond and a bit apart.
    fn give_all(mut self, packets: impl IntoIterator<Item = Vec<u8>>) -> ProofReport {
        packets.into_iter().for_each(|packet| self.give(&packet, 0, MS + MS / 10));
        self.meter.finish()
    }
}

fn mirrored(session: u16, sequence: u32) -> Vec<u8> {
    let header = Erspan { session, ..Erspan::default() };
    ipv4(FROM, TO, 47, &[], &erspan_ii(sequence, &header, 0, &[0; 60]))
}

fn rtp(ports: [u16; 2], ssrc: u32, sequence: u16) -> Vec<u8> {
    let mut payload = vec![0x80, 111];
    payload.extend(sequence.to_be_bytes());
    payload.extend((u32::from(sequence) * 160).to_be_bytes());
    payload.extend(ssrc.to_be_bytes());
    payload.extend([7; 160]);
    ipv4(FROM, TO, 17, &[], &udp(ports[0], ports[1], &payload))
}

/// A packet whose IPv4 header has this identification and TTL.
fn with(mut packet: Vec<u8>, identification: u16, ttl: u8) -> Vec<u8> {
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    packet[8] = ttl;
    packet
}

#[test]
fn missing_numbers_of_a_mirror_are_lost_with_their_time() {
    let sessions = [3, 4];
    let all = (0..400u32).flat_map(|n| sessions.map(|session| (session, (u32::MAX - 100).wrapping_add(n))));
    let kept = all.filter(|(session, n)| *session == 4 || !(u32::MAX - 50..u32::MAX - 40).contains(n));
    let report = Capture::new().give_all(kept.map(|(session, n)| mirrored(session, n)));
    let found = report.numbers.erspan;
    assert_eq!((found.sources, found.packets, found.lost, found.undecided), (2, 790, 10, 0), "{found:?}");
    let [first, last] = [found.first_loss_ns, found.last_loss_ns].map(Option::unwrap);
    assert!(last - first > 10 * MS && last - first < 40 * MS, "{found:?}");
    let shown: u64 = report.tcp.intervals.iter().map(|interval| interval.numbered_lost).sum();
    assert_eq!(shown, 10);
}

#[test]
fn tunnels_are_distinguished_by_their_keys() {
    let tunnel = |key, n| {
        let fields = Gre { key: Some(key), sequence: Some(n), ..Gre::default() };
        ipv4(FROM, TO, 47, &[], &gre(&fields, 0x0800, &ipv4(TO, FROM, 17, &[], &udp(1, 2, &[]))))
    };
    let both = (0..200).flat_map(|n| [tunnel(1, n), tunnel(2, 1_000_000 + n)]);
    let found = Capture::new().give_all(both).numbers;
    assert_eq!((found.gre.sources, found.gre.lost, found.gre.packets), (2, 0, 400));
    assert_eq!(found.erspan.sources, 0);
}

#[test]
fn sources_of_rtp_with_one_ssrc_are_not_mixed_up() {
    let apart = (0..300).flat_map(|n| [rtp([4000, 5000], 9, n), rtp([4002, 5002], 9, 40_000 + n)]);
    let found = Capture::new().give_all(apart).numbers.rtp;
    assert_eq!((found.sources, found.lost, found.packets), (2, 0, 600));
    // Between the same ports nothing distinguishes them: they prove nothing.
    for distance in [20, 60, 700, 40_000] {
        let mixed = (0..300u16).flat_map(|n| [n, n.wrapping_add(distance)]);
        let found = Capture::new().give_all(mixed.map(|n| rtp([4000, 5000], 9, n))).numbers.rtp;
        assert_eq!(found.lost, 0, "{distance}: {found:?}");
    }
}

#[test]
fn rtp_that_wraps_begins_anew_or_comes_out_of_order_has_lost_nothing() {
    let numbers = (65_300..65_536).chain(0..300).chain(30_000..30_300);
    let swapped = numbers.map(|n: u32| {
        if n % 40 == 9 {
            n + 1
        } else if n % 40 == 10 {
            n - 1
        } else {
            n
        }
    });
    let found = Capture::new().give_all(swapped.map(|n| rtp([4000, 5000], 9, n as u16))).numbers.rtp;
    assert_eq!((found.lost, found.restarts), (0, 1), "{found:?}");
    assert!(found.packets >= 830 && found.late > 10, "{found:?}");
}

#[test]
fn datagrams_that_only_look_like_rtp_are_none() {
    let mut random = Random(5);
    let noise = (0..3000).map(|_| {
        let mut payload: Vec<u8> = (0..40).map(|_| random.below(256) as u8).collect();
        payload[0] = 0x80;
        ipv4(FROM, TO, 17, &[], &udp(4000, 5000, &payload))
    });
    assert_eq!(Capture::new().give_all(noise).numbers.rtp.sources, 0);
    // A name server, and QUIC, whose numbers are encrypted.
    let low = (0..100).flat_map(|n| [rtp([53, 5000], 9, n), rtp([5000, 443], 9, n)]);
    let found = Capture::new().give_all(low).numbers;
    assert_eq!((found.rtp.sources, found.quic_packets), (0, 100));
}

/// 50,000 sources of a packet each pass while two have many.
#[test]
fn a_flood_of_sources_displaces_none_that_is_evidence() {
    let mut capture = Capture::new();
    for n in 0..2000 {
        capture.give(&rtp([4000, 5000], 9, n), 0, MS);
        capture.give(&mirrored(5, n.into()), 0, MS);
        for more in 0..25u32 {
            capture.give(&rtp([4000, 5000], 1000 + u32::from(n) * 25 + more, 7), 0, MS / 100);
        }
    }
    let found = capture.meter.finish().numbers;
    assert_eq!((found.rtp.sources, found.rtp.packets, found.rtp.lost), (1, 2000, 0), "{found:?}");
    assert_eq!((found.erspan.packets, found.erspan.evicted), (2000, 0));
    assert!(found.rtp.evicted > 40_000, "{found:?}");
}

#[test]
fn hosts_that_count_are_found_and_others_are_not() {
    let packet =
        |last: u8, n: u16| with(ipv4(Ipv4Addr::new(10, 9, 0, last), TO, 17, &[], &udp(9, 9, &[1])), n, 64);
    let all = (0..600u16).filter(|n| !(300..310).contains(n)).flat_map(|n| {
        // One counts, one for several destinations, one at random, one not at all.
        [packet(1, n.wrapping_add(65_300)), packet(2, n * 3), packet(3, n.wrapping_mul(40_503)), packet(4, 0)]
    });
    let report = Capture::new().give_all(all);
    let found = report.numbers.ip_id;
    assert_eq!((found.sources, found.packets, found.lost), (1, 590, 10), "{found:?}");
    assert_eq!(report.numbers.sources(), 0);
}

/// All packets of a connection; `give` gets each, and its number.
fn connection(mut give: impl FnMut(&mut Capture, &Packet, u16)) -> ProofReport {
    let mut capture = Capture::new();
    for (number, packet) in (1..).zip(traffic(&mut Random(3), 200, 0)) {
        give(&mut capture, &packet, number);
        capture.now_ns += MS;
    }
    capture.meter.finish()
}

#[test]
fn the_copies_of_a_mirror_are_no_retransmissions() {
    let single = connection(|capture, packet, number| {
        capture.give_cut(&with(packet.frame(0).to_vec(), number, 64), 40 + packet.bytes, 0, 0);
    });
    assert_eq!((single.copies.elsewhere, single.copies.same_place, single.tcp.copied_bytes), (0, 0, 0));
    // The second place has another TTL, or another interface; or the same frame comes twice.
    for (ttl, interface, is_elsewhere) in [(63, 0, true), (64, 1, true), (64, 0, false)] {
        let twice = connection(|capture, packet, number| {
            for (ttl, interface) in [(64, 0), (ttl, interface)] {
                let frame = with(packet.frame(0).to_vec(), number, ttl);
                capture.give_cut(&frame, 40 + packet.bytes, interface, MS / 20);
            }
        });
        let copies = if is_elsewhere { twice.copies.elsewhere } else { twice.copies.same_place };
        assert!(copies > 400 && twice.copies.unchecked == 0, "{:?}", twice.copies);
        assert_eq!((twice.tcp.retransmitted_bytes, twice.tcp.acked_unseen_bytes), (0, 0));
        assert_eq!((twice.tcp.copied_bytes, twice.tcp.copied), (200 * 1000, 1));
        assert_eq!(twice.tcp.segments, single.tcp.segments);
    }
}

#[test]
fn retransmissions_are_no_copies() {
    // With another identification, without one, and long after.
    for (first, second, wait_ns) in [(1, 2, MS / 5), (0, 0, MS / 5), (7, 7, 3 * MS)] {
        let again = connection(|capture, packet, number| {
            let times = if packet.bytes > 0 { 2 } else { 1 };
            for identification in [first, second].into_iter().take(times) {
                let identification = if identification == 0 { 0 } else { number * 2 + identification };
                let frame = with(packet.frame(0).to_vec(), identification, 64);
                capture.give_cut(&frame, 40 + packet.bytes, 0, wait_ns);
            }
        });
        assert_eq!((again.tcp.retransmitted_bytes, again.tcp.copied_bytes), (200_000, 0));
        assert_eq!((again.copies.elsewhere, again.copies.same_place), (0, 0));
    }
}

#[test]
fn losses_are_of_an_interface_and_of_a_connection() {
    let mut capture = Capture::new();
    for flow in 0..40u16 {
        let mut random = Random(u64::from(flow) + 9);
        for (at, packet) in traffic(&mut random, 100, 0).into_iter().enumerate() {
            // Data of A are missing, 10 packets of flow 7 and one of flow 9.
            let is_lost =
                packet.bytes > 0 && (flow == 7 && (100..120).contains(&at) || flow == 9 && at == 101);
            let interface = if packet.from == B { 5 } else { 2 };
            if !is_lost {
                capture.give_cut(&packet.frame(flow), 40 + packet.bytes, interface, MS / 10);
            }
        }
    }
    let report = capture.meter.finish().tcp;
    let lost: Vec<u64> = report.interfaces.iter().map(|interface| interface.lost_packets).collect();
    let (total, worst) = (report.acked_unseen_packets_estimate, &report.worst);
    assert!(total > 5 && worst.len() == 2, "{report:?}");
    assert_eq!((worst[0].ends[0].port(), worst[1].ends[0].port()), (1007, 1009));
    assert_eq!((worst[0].lost_packets + 1, worst[1].lost_packets), (total, 1));
    assert_eq!(worst.iter().map(|flow| flow.lost_bytes).sum::<u64>(), report.acked_unseen_bytes);
    assert_eq!((lost[2], lost.iter().sum::<u64>()), (total, total), "{lost:?}");
    let segments: u64 = report.interfaces.iter().map(|interface| interface.segments).sum();
    assert!(segments >= report.segments, "{report:?}");
}

/// Any bytes: no panic, and counters that do not contradict each other.
#[test]
fn noise_is_no_evidence() {
    let (mut random, mut capture) = (Random(77), Capture::new());
    for _ in 0..20_000 {
        let bytes = random.below(90) as usize;
        let mut packet: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
        if let Some(first) = packet.first_mut() {
            *first = if random.happens(500_000) { 0x45 } else { 0x60 };
        }
        if let Some(protocol) = packet.get_mut(9) {
            *protocol = [6, 17, 47, 99][random.below(4) as usize];
        }
        let wait_ns = random.below(MS);
        capture.give(&packet, random.below(70_000) as u16, wait_ns);
    }
    let report = capture.meter.finish();
    assert_eq!((report.numbers.sources(), report.tcp.acked_unseen_bytes), (0, 0), "{report:?}");
    assert!(report.tcp.interfaces.len() <= 64);
}
