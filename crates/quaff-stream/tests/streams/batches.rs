//! Evidence that is read and processed apart, as on two cores: the same as at once, in whatever batches it comes.

use crate::observer::{MS, RAW, Random, traffic};
use proptest::prelude::*;
use quaff_stream::{ProofBatch, ProofMeter, ProofReader, ProofReport};
use quaff_testpackets::{Erspan, Gre, erspan_ii, gre, ipv4, ipv4_fragments, udp};
use std::net::Ipv4Addr;

const SECRET: u64 = 7;
const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 1, 0, 2)];

/// A packet of a file, or drops that it records.
enum Item {
    Packet { bytes: Vec<u8>, wire_bytes: u32, interface: u16 },
    Drops { drops: u64, interface: u16 },
}

/// Connections with losses, numbered packets with gaps, copies, fragments, noise, and recorded drops.
fn items(seed: u64) -> Vec<(u64, Item)> {
    let random = &mut Random(seed | 1);
    let mut flows: Vec<_> = (0..6).map(|flow| (flow, traffic(random, 120, 10_000).into_iter())).collect();
    let (mut items, mut numbers, mut now_ns) = (Vec::new(), [0u32; 4], 1_700_000_000_000 * MS);
    while !flows.is_empty() {
        let kind = random.below(12);
        let (bytes, wire_bytes) = if kind < 4 {
            let number = &mut numbers[kind as usize];
            *number += 1 + u32::from(random.happens(20_000));
            let bytes = numbered(kind, *number);
            let wire_bytes = bytes.len() as u32;
            (bytes, wire_bytes)
        } else {
            let at = random.below(flows.len() as u64) as usize;
            let (flow, packets) = &mut flows[at];
            let Some(packet) = packets.next() else {
                flows.remove(at);
                continue;
            };
            (packet.frame(*flow).to_vec(), 40 + packet.bytes)
        };
        let interface = random.below(3) as u16;
        let is_lost = random.happens(20_000);
        if random.happens(10_000) {
            items.push((now_ns, Item::Drops { drops: 1 + random.below(9), interface }));
        }
        if random.happens(50_000) {
            let mut bytes = bytes.clone();
            bytes[8] = 63;
            items.push((now_ns, Item::Packet { bytes, wire_bytes, interface }));
        }
        if !is_lost {
            items.push((now_ns, Item::Packet { bytes, wire_bytes, interface }));
        }
        now_ns += random.below(2 * MS);
    }
    items
}

/// A packet of a mirror, of a tunnel, or of RTP, or a fragment.
fn numbered(kind: u64, number: u32) -> Vec<u8> {
    let over_ip = |protocol, payload: &[u8]| ipv4(ENDS[0], ENDS[1], protocol, &[], payload);
    match kind {
        0 => over_ip(47, &erspan_ii(number, &Erspan { session: 3, ..Erspan::default() }, 0, &[0; 60])),
        1 => {
            let fields = Gre { key: Some(1), sequence: Some(number), ..Gre::default() };
            over_ip(47, &gre(&fields, 0x0800, &over_ip(17, &udp(1, 2, &[]))))
        }
        2 => {
            let sequence = (number as u16).to_be_bytes();
            over_ip(17, &udp(4000, 5000, &[&[0x80, 0][..], &sequence, &[0, 0, 0, 0, 0, 0, 0, 9]].concat()))
        }
        _ => ipv4_fragments(&over_ip(6, &[7; 48]), 24).swap_remove(number as usize % 2),
    }
}

fn at_once(items: &[(u64, Item)]) -> ProofReport {
    let mut meter = ProofMeter::new(SECRET);
    for (time_ns, item) in items {
        match item {
            Item::Packet { bytes, wire_bytes, interface } => {
                meter.packet(bytes, *wire_bytes, RAW, *time_ns, *interface);
            }
            Item::Drops { drops, interface } => meter.note_drops(*time_ns, *drops, *interface),
        }
    }
    meter.finish()
}

/// By batches of these numbers of items, or full ones.
fn in_batches(items: &[(u64, Item)], sizes: &[usize]) -> ProofReport {
    let (mut meter, mut reader) = (ProofMeter::new(SECRET), ProofReader::new(SECRET));
    let (mut spare, mut sizes) = (ProofBatch::default(), sizes.iter().cycle());
    let mut left = sizes.next().copied();
    for (time_ns, item) in items {
        let is_full = match item {
            Item::Packet { bytes, wire_bytes, interface } => {
                reader.packet(bytes, *wire_bytes, RAW, *time_ns, *interface)
            }
            Item::Drops { drops, interface } => reader.note_drops(*time_ns, *drops, *interface),
        };
        if is_full || left == Some(0) {
            std::mem::swap(reader.batch(), &mut spare);
            meter.take_batch(&mut spare);
            left = sizes.next().copied();
        }
        left = left.map(|left| left.saturating_sub(1));
    }
    meter.take_batch(reader.batch());
    meter.finish()
}

#[test]
fn full_batches_have_all_evidence_as_at_once() {
    let items = items(3);
    let report = at_once(&items);
    assert_eq!(in_batches(&items, &[]), report);
    let (tcp, numbers) = (&report.tcp, &report.numbers);
    assert!(tcp.acked_unseen_packets_estimate > 0 && tcp.set_aside > 0, "{tcp:?}");
    let found = [numbers.erspan, numbers.gre, numbers.rtp].map(|found| found.lost > 0);
    assert!(found == [true; 3] && report.copies.elsewhere > 0, "{report:?}");
    assert!(tcp.intervals.iter().any(|interval| interval.recorded_drops > 0), "{tcp:?}");
}

/// A file that records drops at each packet, none of which is IP.
#[test]
fn a_batch_of_drops_is_full() {
    let items: Vec<_> = (0..5000).map(|at| (at * MS, Item::Drops { drops: 1, interface: 0 })).collect();
    let mut reader = ProofReader::new(SECRET);
    assert!(items.iter().any(|_| reader.note_drops(0, 1, 0)));
    assert_eq!(in_batches(&items, &[]), at_once(&items));
}

proptest! {
    #[test]
    fn evidence_is_the_same_in_whatever_batches_it_comes(
        seed: u64,
        sizes in prop::collection::vec(0usize..600, 1..20),
    ) {
        let items = items(seed);
        prop_assert_eq!(in_batches(&items, &sizes), at_once(&items));
    }
}
