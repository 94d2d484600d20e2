//! Compares the meter with a model of its rules, and tests its guarantees: conservation, lateness, limits, any size of
//! batch, any number of lanes.

mod model;
mod promises;
mod strays;

use super::*;
use crate::key::address_hash;
use crate::ledger::Count;
use crate::plan::{KeyPlan, Sampling};
use quaff_testpackets as build;
use std::net::{Ipv4Addr, Ipv6Addr};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const SECRET: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// The fields of a packet in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spec {
    time_ns: u64,
    /// The last byte of the addresses.
    hosts: [u8; 2],
    ports: [u16; 2],
    protocol: u8,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    payload: u8,
    vlan: u16,
    /// Used only inside another VLAN.
    inner_vlan: u16,
    tos: u8,
    is_v6: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            time_ns: 1_700_000_000 * SECOND,
            hosts: [1, 2],
            ports: [40_000, 80],
            protocol: 6,
            flags: 0,
            sequence: 1,
            acknowledgment: 0,
            payload: 0,
            vlan: 0,
            inner_vlan: 0,
            tos: 0,
            is_v6: false,
        }
    }
}

impl Spec {
    /// A packet at this number of ms after the start of the test.
    fn at(ms: u64) -> Self {
        let spec = Self::default();
        Self { time_ns: spec.time_ns + ms * MS, ..spec }
    }

    fn tcp(ms: u64, flags: u8, sequence: u32) -> Self {
        Self { flags, sequence, ..Self::at(ms) }
    }

    /// The same with an acknowledgment.
    fn acking(self, acknowledgment: u32) -> Self {
        Self { acknowledgment, ..self }
    }

    fn back(self) -> Self {
        let ([a, b], [x, y]) = (self.hosts, self.ports);
        Self { hosts: [b, a], ports: [y, x], ..self }
    }

    fn tags(&self) -> usize {
        match (self.vlan, self.inner_vlan) {
            (0, _) => 0,
            (_, 0) => 1,
            _ => 2,
        }
    }

    /// Builds the frame.
    fn frame(&self) -> Vec<u8> {
        let payload = vec![7; self.payload.into()];
        let words = |ports: [u16; 2]| ports.map(u16::to_be_bytes).concat();
        let transport = match self.protocol {
            6 => {
                let mut header = words(self.ports);
                header.extend(self.sequence.to_be_bytes());
                header.extend(self.acknowledgment.to_be_bytes());
                header.extend([0x50, self.flags, 1, 0, 0, 0, 0, 0]);
                [header, payload].concat()
            }
            17 => build::udp(self.ports[0], self.ports[1], &payload),
            1 | 58 => [self.ports[0].to_be_bytes().to_vec(), vec![0; 6], payload].concat(),
            _ => payload,
        };
        let tags = [(0x88a8, self.vlan), (0x8100, self.inner_vlan)];
        let tags = &tags[..self.tags()];
        match self.is_v6 {
            false => {
                let [a, b] = self.hosts.map(|last| Ipv4Addr::new(10, 0, 0, last));
                let mut packet = build::ipv4(a, b, self.protocol, &[], &transport);
                packet[1] = self.tos;
                build::ethernet(tags, 0x0800, &packet)
            }
            true => {
                let [a, b] = self.hosts.map(|last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()));
                let mut packet = build::ipv6(a, b, self.protocol, &transport);
                (packet[0], packet[1]) = (0x60 | self.tos >> 4, self.tos << 4);
                build::ethernet(tags, 0x86dd, &packet)
            }
        }
    }
}

/// Packets, as their times and frames.
struct Frames(Vec<(u64, Vec<u8>)>);

impl Frames {
    fn of(specs: &[Spec]) -> Self {
        Self(specs.iter().map(|spec| (spec.time_ns, spec.frame())).collect())
    }

    fn packets(&self) -> Vec<Packet<'_>> {
        self.0.iter().map(|(time_ns, bytes)| packet(*time_ns, bytes)).collect()
    }
}

fn packet(time_ns: u64, bytes: &[u8]) -> Packet<'_> {
    Packet { bytes, time_ns, wire_bytes: bytes.len() as u32, linktype: 1, ..Packet::default() }
}

/// Meters packets in batches of `batch`, and checks the ledger after each; returns the records.
fn metered(plan: &MeterPlan, packets: &[Packet<'_>], batch: usize) -> Vec<FlowRecord> {
    let (mut meter, mut records) = (Meter::new(plan.clone(), SECRET), Vec::new());
    for packets in packets.chunks(batch) {
        meter.take(packets, &mut records);
        meter.ledger().check().unwrap();
    }
    meter.finish(&mut records);
    assert_ended(&meter, &records, packets.len());
    if let Some(ahead) = metered_ahead(plan, packets, 2 * batch + 1) {
        assert_eq!(ahead, records, "headers were read ahead");
    }
    records
}

/// As [`metered`], with headers that were read ahead in parts of `part` packets, where that is possible.
fn metered_ahead(plan: &MeterPlan, packets: &[Packet<'_>], part: usize) -> Option<Vec<FlowRecord>> {
    let (mut meter, mut records) = (Meter::new(plan.clone(), SECRET), Vec::new());
    let (mut clock, mut batch) = (Clock::new(plan.idle_ns), HeaderBatch::default());
    for part in packets.chunks(part) {
        let mut reader = meter.reader()?;
        let unstamped: Vec<_> = part.iter().map(|packet| Packet { now: None, ..*packet }).collect();
        reader.begin(&mut batch);
        (0..)
            .step_by(7)
            .zip(unstamped.chunks(7))
            .for_each(|(first, some)| reader.read_ahead(some, first, &mut batch));
        let kept: Vec<_> = batch.kept().iter().map(|number| unstamped[*number as usize]).collect();
        if !meter.take_read(&mut batch, &kept, &mut clock, &mut records) {
            for packet in part {
                meter.take(&[Packet { now: Some(clock.see(packet.time_ns)), ..*packet }], &mut records);
            }
        }
        meter.ledger().check().unwrap();
    }
    meter.finish(&mut records);
    assert_ended(&meter, &records, packets.len());
    Some(records)
}

/// Asserts that all packets are in records or ignored, and that the ledger counts the records.
fn assert_ended(meter: &Meter, records: &[FlowRecord], packets: usize) {
    let ledger = meter.ledger();
    ledger.check().unwrap();
    let sum = |of: fn(&FlowRecord) -> u64| records.iter().map(of).sum::<u64>();
    assert_eq!(ledger.exported, Count { packets: sum(FlowRecord::packets), bytes: sum(FlowRecord::bytes) });
    assert_eq!((ledger.live, ledger.held, ledger.flows_live), (Count::default(), Count::default(), 0));
    assert_eq!((ledger.seen.packets, ledger.flows_exported()), (packets as u64, records.len() as u64));
    assert!(records.iter().all(|record| record.packets() > 0 && record.first_ns() <= record.last_ns()));
}

fn records_of(specs: &[Spec]) -> Vec<FlowRecord> {
    metered(&MeterPlan::default(), &Frames::of(specs).packets(), 3)
}

/// For each record: reason, packets forward and reverse, rule, and true if it is continued.
fn summary(records: &[FlowRecord]) -> Vec<(u8, u64, u64, u8, bool)> {
    let of = |record: &FlowRecord| {
        let (there, back) = (record.forward.packets, record.reverse.packets);
        (record.end_reason as u8, there, back, record.initiator as u8, record.is_continued)
    };
    records.iter().map(of).collect()
}

#[test]
fn a_closed_connection_ends_after_its_linger_and_late_packets_belong_to_it() {
    let specs = [
        Spec::tcp(0, SYN, 9),
        Spec::tcp(1, SYN | ACK, 5).back(),
        Spec::tcp(2, ACK | FIN, 10),
        Spec::tcp(3, ACK | FIN, 6).back(),
        Spec::tcp(1900, ACK, 11),
        Spec { hosts: [8, 9], ..Spec::at(3899) },
        Spec::tcp(3899, ACK, 11),
        Spec { hosts: [8, 9], ..Spec::at(5900) },
    ];
    let records = records_of(&specs);
    assert_eq!(summary(&records)[0], (3, 4, 2, 1, false));
    assert_eq!(records[0].key.source_port, 40_000);
    assert_eq!(
        (records[0].forward.tcp_flags, records[0].reverse.tcp_flags),
        (SYN | ACK | FIN, SYN | ACK | FIN)
    );
    assert_eq!(records.len(), 2);
}

#[test]
fn a_new_syn_on_the_same_ports_splits_once_it_is_answered_and_a_repeated_one_does_not() {
    let specs = [
        Spec::tcp(0, SYN, 9),
        Spec::tcp(1, SYN, 9),
        Spec::tcp(2, SYN | ACK, 5).acking(10).back(),
        Spec::tcp(3, SYN, 9),
        Spec::tcp(10, SYN, 77),
        Spec::tcp(11, RST | ACK, 0).acking(78).back(),
        Spec::tcp(12, SYN, 77),
        Spec::tcp(13, SYN, 78).back(),
    ];
    let records = records_of(&specs);
    // The answer decides about the SYN at 10 ms, which is in the flow before. After a reset a SYN decides by itself.
    assert_eq!(summary(&records), [(3, 4, 1, 1, false), (3, 1, 1, 1, false), (4, 1, 0, 1, false)]);
    assert_eq!(records[2].key.source_port, 80, "the other side opened the last one");
}

#[test]
fn an_active_timeout_continues_the_conversation_with_the_same_source() {
    // The answer is seen first, from the port of a service; then a packet every second.
    let specs: Vec<Spec> = (0..250u64)
        .map(|second| Spec { protocol: 17, ..Spec::at(second * 1000) })
        .map(|spec| if spec.time_ns % 2 == 0 { spec.back() } else { spec })
        .collect();
    let records = records_of(&specs);
    assert_eq!(summary(&records), [(2, 0, 120, 4, false), (2, 0, 120, 4, true), (4, 0, 10, 4, true)]);
    assert!(records.iter().all(|record| record.key.source_port == 40_000));
}

#[test]
fn initiators_are_decided_by_the_strongest_evidence() {
    let icmp = |kind: u16| Spec { protocol: 1, ports: [kind << 8; 2], ..Spec::at(0) };
    let udp = |ports| Spec { protocol: 17, ports, ..Spec::at(0) };
    let cases: [(&[Spec], u8, u8); 9] = [
        (&[Spec::tcp(0, SYN, 1)], 1, 1),
        (&[Spec::tcp(0, SYN | ACK, 1)], 2, 2),
        (&[Spec::tcp(0, ACK, 1), Spec::tcp(1, SYN, 1).back()], 1, 2),
        (&[Spec::tcp(0, ACK, 1), Spec::tcp(1, SYN | ACK, 1)], 2, 2),
        (&[icmp(8)], 3, 1),
        (&[icmp(0)], 3, 2),
        (&[udp([53, 40_000])], 4, 2),
        (&[udp([53, 20_000])], 5, 1),
        (&[udp([5000, 53])], 5, 1),
    ];
    for (specs, rule, source) in cases {
        let records = records_of(specs);
        assert_eq!(records.len(), 1, "{specs:?}");
        let found = (records[0].initiator as u8, records[0].key.source);
        assert_eq!(found, (rule, Ipv4Addr::new(10, 0, 0, source).into()), "{specs:?}");
    }
}

#[test]
fn uniflows_are_one_for_each_direction() {
    let specs = [Spec::tcp(0, SYN, 9), Spec::tcp(1, SYN | ACK, 5).back(), Spec::tcp(2, ACK | FIN, 10)];
    let plan = MeterPlan { is_biflow: false, ..MeterPlan::default() };
    let records = metered(&plan, &Frames::of(&specs).packets(), 1);
    assert_eq!(summary(&records), [(3, 2, 0, 0, false), (4, 1, 0, 0, false)]);
    assert_eq!(records[1].key.source_port, 80);
}

#[test]
fn fragments_are_in_the_flow_of_their_first_in_any_order() {
    let whole =
        build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &build::udp(9, 53, &[1; 90]));
    let pieces: Vec<Vec<u8>> =
        build::ipv4_fragments(&whole, 32).iter().map(|piece| build::ethernet(&[], 0x0800, piece)).collect();
    let start = Spec::default().time_ns;
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]] {
        let packets: Vec<Packet<'_>> =
            order.iter().map(|piece| packet(start + *piece as u64, &pieces[*piece])).collect();
        for batch in [1, 4] {
            let records = metered(&MeterPlan::default(), &packets, batch);
            assert_eq!(summary(&records), [(4, 4, 0, 5, false)], "{order:?}");
            let of = (records[0].key.source_port, records[0].first_ns(), records[0].last_ns());
            assert_eq!(of, (9, start, start + 3));
            assert_eq!(records[0].bytes(), 98 + 4 * 20);
        }
    }
    // Without the first fragment they are metered without ports, after a second.
    let (mut meter, mut records) = (Meter::new(MeterPlan::default(), SECRET), Vec::new());
    meter.take(&[packet(start, &pieces[1]), packet(start, &pieces[2])], &mut records);
    assert_eq!((meter.ledger().held.packets, meter.ledger().flows_live), (2, 0));
    meter.nudge_to(start + SECOND, &mut records);
    let ledger = meter.ledger();
    assert_eq!((ledger.held.packets, ledger.flows_live, ledger.fragments_unmatched), (0, 1, 2));
    meter.take(&[packet(start + SECOND, &pieces[3])], &mut records);
    meter.finish(&mut records);
    assert_ended(&meter, &records, 3);
    assert_eq!((summary(&records), records[0].key.source_port), (vec![(4, 3, 0, 5, false)], 0));
}

/// A later fragment of a ping whose first one is lost counts neither as a request nor as an answer.
#[test]
fn a_fragment_of_icmp_without_its_first_turns_no_flow_around() {
    let whole =
        build::ipv4([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), 1, &[], &[&[8, 0][..], &[1; 90]].concat());
    let later = build::ethernet(&[], 0x0800, &build::ipv4_fragments(&whole, 48)[1]);
    let ping = Spec { protocol: 1, ports: [0x800; 2], ..Spec::default() };
    let (start, request) = (ping.time_ns, ping.frame());
    let records = metered(&MeterPlan::default(), &[packet(start, &request), packet(start + 1, &later)], 9);
    assert_eq!(summary(&records), [(4, 1, 0, 3, false), (4, 1, 0, 5, false)]);
    assert_eq!(records[1].key.source, Ipv4Addr::new(10, 0, 0, 2), "the sender of the fragment");
}

#[test]
fn later_fragments_are_in_the_extras_of_their_flow() {
    let whole =
        build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &build::udp(9, 53, &[1; 90]));
    let pieces: Vec<Vec<u8>> =
        build::ipv4_fragments(&whole, 32).iter().map(|piece| build::ethernet(&[], 0x0800, piece)).collect();
    let extras = crate::plan::ExtrasPlan { statistics: true, ..Default::default() };
    let plan = MeterPlan { extras, ..MeterPlan::default() };
    for order in [[0, 1, 2, 3], [3, 2, 1, 0]] {
        let packets: Vec<Packet<'_>> = order.iter().map(|piece| packet(5, &pieces[*piece])).collect();
        let records = metered(&plan, &packets, 9);
        let found = records[0].extras.as_ref().unwrap();
        let of =
            (found.forward.payload_bytes, found.forward.packet_bytes_max, found.forward.packet_bytes_min);
        assert_eq!(of, (90, 52, 22), "{order:?}");
    }
    // Also without the first fragment.
    let records = metered(&plan, &[packet(5, &pieces[1])], 9);
    assert_eq!(records[0].extras.as_ref().unwrap().forward.payload_bytes, 32);
}

#[test]
fn packets_without_a_flow_are_counted_by_reason() {
    let good = Spec::default().frame();
    let arp = build::ethernet(&[], 0x0806, &[0; 28]);
    let plan = MeterPlan { sampling: Sampling::Systematic { interval: 2 }, ..MeterPlan::default() };
    let mut meter = Meter::new(plan, SECRET);
    let frames: [&[u8]; 6] = [&arp, &good, &good[..36], &good, &good, &good];
    let packets = frames.map(|bytes| packet(1, bytes));
    let mut records = Vec::new();
    meter.take(&packets, &mut records);
    let ignored = meter.ledger().ignored;
    assert_eq!(ignored.not_ip, Count { packets: 1, bytes: 42 });
    assert_eq!(ignored.truncated, Count { packets: 1, bytes: 36 });
    assert_eq!(ignored.not_sampled, Count { packets: 3, bytes: 3 * good.len() as u64 });
    assert_eq!(meter.ledger().live, Count { packets: 1, bytes: 40 });
    meter.finish(&mut records);
    assert_ended(&meter, &records, 6);
}

#[test]
fn tags_of_the_kernel_tunnels_and_interfaces_are_fields_of_the_key() {
    let frame = Spec { vlan: 7, ..Spec::default() }.frame();
    let base = packet(1, &frame);
    let packets = [
        base,
        Packet { tag: Some((0x88a8, 0xe005)), ..base },
        Packet { tunnel: 99, ..base },
        Packet { interface: 3, ..base },
    ];
    let key = KeyPlan { interface: true, ..KeyPlan::default() };
    let records = metered(&MeterPlan { key, ..MeterPlan::default() }, &packets, 9);
    let fields: Vec<_> = records.iter().map(|of| (of.key.vlan, of.key.tunnel, of.key.interface)).collect();
    assert_eq!(fields, [(7, 0, 0), (5, 0, 0), (7, 99, 0), (7, 0, 3)]);
    assert_eq!(metered(&MeterPlan::default(), &packets, 9).len(), 3, "interfaces are not in the key");
}

/// Customers with the same addresses in one service VLAN, whose tag the kernel may have removed.
#[test]
fn the_inner_vlan_is_in_the_key_with_the_outer_one() {
    let frame = |vlan, inner_vlan| Spec { vlan, inner_vlan, ..Spec::default() }.frame();
    let frames = [frame(7, 1), frame(7, 2), frame(1, 0), frame(7, 0)];
    let mut packets: Vec<Packet<'_>> = frames.iter().map(|frame| packet(1, frame)).collect();
    packets[2].tag = Some((0x88a8, 7));
    let records = metered(&MeterPlan::default(), &packets, 9);
    let mut vlans: Vec<_> = records.iter().map(|of| (of.key.vlan, of.key.inner_vlan, of.packets())).collect();
    vlans.sort_unstable();
    assert_eq!(vlans, [(7, 0, 1), (7, 1, 2), (7, 2, 1)]);
    let key = KeyPlan { vlan: false, ..KeyPlan::default() };
    let records = metered(&MeterPlan { key, ..MeterPlan::default() }, &packets, 9);
    assert_eq!(
        (records.len(), records[0].key.vlan, records[0].key.inner_vlan),
        (1, 7, 1),
        "of the first packet"
    );
}

/// Two customers whose datagrams have the same ID: a later fragment gets the ports of its own first one.
#[test]
fn fragments_of_another_customer_are_of_another_datagram() {
    let whole = |port| {
        build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &build::udp(port, 53, &[1; 60]))
    };
    let pieces = |inner_vlan, port| -> Vec<Vec<u8>> {
        let tags = [(0x88a8, 7), (0x8100, inner_vlan)];
        let pieces = build::ipv4_fragments(&whole(port), 48);
        pieces.iter().map(|piece| build::ethernet(&tags, 0x0800, piece)).collect()
    };
    let (one, other) = (pieces(1, 100), pieces(2, 200));
    let packets = [&one[0], &other[0], &one[1], &other[1]].map(|frame| packet(1, frame));
    let records = metered(&MeterPlan::default(), &packets, 9);
    let mut of: Vec<_> =
        records.iter().map(|of| (of.key.inner_vlan, of.key.source_port, of.packets())).collect();
    of.sort_unstable();
    assert_eq!(of, [(1, 100, 2), (2, 200, 2)]);
}

#[test]
fn a_counter_that_is_full_ends_its_piece() {
    let (mut meter, mut records) = (Meter::new(MeterPlan::default(), SECRET), Vec::new());
    let frame = Spec::default().frame();
    meter.take(&[packet(1, &frame)], &mut records);
    let more = u64::from(u32::MAX - 1);
    meter.table.pool.hot_mut(0).directions[0].packets = u32::MAX;
    meter.ledger.live.packets += more;
    meter.ledger.seen.packets += more;
    meter.take(&[packet(2, &frame)], &mut records);
    meter.finish(&mut records);
    assert_eq!(summary(&records), [(2, u32::MAX.into(), 0, 5, false), (4, 1, 0, 5, true)]);
    assert_ended(&meter, &records, more as usize + 2);
}

#[test]
fn a_time_that_goes_far_back_begins_an_era() {
    let specs = [Spec::at(100_000), Spec::at(99_000), Spec::at(69_999), Spec::at(70_000)];
    assert_eq!(summary(&records_of(&specs)), [(4, 2, 0, 5, false), (4, 2, 0, 5, false)]);
    // A wrong time far in the future ends all idle flows, and the next packet begins an era.
    let specs = [Spec::at(0), Spec { time_ns: u64::MAX, ..Spec::at(0) }, Spec::at(1), Spec::at(2)];
    assert_eq!(summary(&records_of(&specs)), [(1, 1, 0, 5, false), (4, 1, 0, 5, false), (4, 2, 0, 5, false)]);
}

#[test]
fn an_application_is_found_in_the_first_piece_with_payload() {
    let hello = b"SSH-2.0-x\r\n";
    let specs = [
        Spec::tcp(0, SYN, 9),
        Spec { payload: hello.len() as u8, ..Spec::tcp(1500, ACK, 10) },
        Spec { payload: 9, ..Spec::tcp(3000, ACK, 21) },
    ];
    let mut frames = Frames::of(&specs);
    let frame = &mut frames.0[1].1;
    let start = frame.len() - hello.len();
    frame[start..].copy_from_slice(hello);
    let extras = crate::plan::ExtrasPlan { application: true, ..Default::default() };
    let plan = MeterPlan { active_ns: SECOND, extras, ..MeterPlan::default() };
    let records = metered(&plan, &frames.packets(), 3);
    let name = |record: &FlowRecord| Some(record.extras.as_ref()?.application.as_ref()?.name);
    assert_eq!(records.iter().map(name).collect::<Vec<_>>(), [None, Some("ssh"), Some("ssh")]);
}

/// After another protocol, whose bytes would take the room of the hello.
#[test]
fn tls_at_the_start_of_a_later_segment_is_the_application() {
    let hello = [22, 3, 1, 0, 5, 1, 0, 0, 1, 3];
    let specs = [
        Spec { payload: 200, ..Spec::tcp(0, ACK, 9) },
        Spec { payload: hello.len() as u8, ..Spec::tcp(10, ACK, 209) },
    ];
    let mut frames = Frames::of(&specs);
    let frame = &mut frames.0[1].1;
    let start = frame.len() - hello.len();
    frame[start..].copy_from_slice(&hello);
    for (payload_bytes, expected) in [(0, Some("tls")), (3, None)] {
        let extras = crate::plan::ExtrasPlan { application: true, payload_bytes, ..Default::default() };
        let records = metered(&MeterPlan { extras, ..MeterPlan::default() }, &frames.packets(), 3);
        let extras = records[0].extras.as_ref().unwrap();
        assert_eq!(extras.application.as_ref().map(|of| of.name), expected);
        assert_eq!(extras.forward.payload, [7; 3][..usize::from(payload_bytes)], "as it came");
    }
}

/// A frame with a datagram that looks like the first one of a client, but that no keys decrypt.
fn forged_initial(port: u16) -> Vec<u8> {
    let header = [0xc3, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x44, 0x9e];
    let datagram = build::udp(port, 443, &[&header[..], &[9; 1182]].concat());
    let packet = build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &datagram);
    build::ethernet(&[], 0x0800, &packet)
}

/// The ClientHello is reassembled separately, so payload is kept only up to the plan's limit.
#[test]
fn a_flow_of_quic_keeps_no_more_than_its_room() {
    let extras = crate::plan::ExtrasPlan { application: true, payload_bytes: 3, ..Default::default() };
    let plan = MeterPlan { extras, ..MeterPlan::default() };
    // The first packet is not of QUIC.
    let first = Spec { protocol: 17, ports: [40_000, 443], payload: 118, ..Spec::at(10) };
    let mut frames = Frames::of(&[first]);
    frames.0.extend([20, 30].map(|ms| (Spec::at(ms).time_ns, forged_initial(40_000))));
    let (mut meter, mut records) = (Meter::new(plan, SECRET), Vec::new());
    let mut kept = Vec::new();
    for packet in frames.packets() {
        meter.take(&[packet], &mut records);
        kept.push(meter.extras.as_ref().unwrap().payload_memory_bytes());
    }
    assert_eq!(kept, [118, 3, 3]);
    meter.finish(&mut records);
    let found = records[0].extras.as_ref().unwrap();
    let application = found.application.as_ref().unwrap();
    assert_eq!((application.protocol, application.server_name.as_deref()), ("quic", None), "keys do not fit");
    assert_eq!(found.forward.payload, [7; 3]);
}

/// A flow has at most eight attempts, so others are left for other flows.
#[test]
fn forged_packets_of_quic_that_are_not_decrypted_are_counted() {
    let extras = crate::plan::ExtrasPlan { application: true, ..Default::default() };
    let plan = MeterPlan { extras, ..MeterPlan::default() };
    let frames = [vec![forged_initial(40_000); 11], vec![forged_initial(40_001); 3]].concat();
    let packets: Vec<Packet<'_>> = frames.iter().map(|frame| packet(1, frame)).collect();
    let (mut meter, mut records) = (Meter::new(plan, SECRET), Vec::new());
    meter.take(&packets, &mut records);
    assert_eq!(meter.ledger().quic_skipped, 3);
    let twice: crate::ledger::FlowLedger = [meter.ledger(), meter.ledger()].into_iter().sum();
    assert_eq!(twice.quic_skipped, 6);
}
