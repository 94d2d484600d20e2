//! Cases of fragments with a name: time, limits, tiny ones, what no receiver takes.

use crate::fragment_model::{Got, Part, Receiver, key, packet};
use quaff_stream::evidence::EvidenceLog;
use quaff_stream::fragment::{
    DatagramKey, Defragmenter, DropReason, FragmentEvent, FragmentPacket, FragmentPlan, FragmentSink,
};
use quaff_stream::policy::FragmentPolicy;
use std::net::Ipv6Addr;

fn part(offset: u16, len: usize, more: bool) -> Part {
    Part { offset, bytes: vec![b'x'; len], more }
}

fn take(defragmenter: &mut Defragmenter, receiver: &mut Receiver, id: u32, part: &Part, time_ns: u64) {
    defragmenter.take(key(id), FragmentPolicy::Linux, &packet(part, time_ns), receiver);
    assert!(defragmenter.tally().is_balanced());
}

#[test]
fn a_datagram_waits_for_a_while() {
    let plan = FragmentPlan { wait_ns: 100, ..FragmentPlan::default() };
    let (mut defragmenter, mut receiver) = (Defragmenter::new(plan), Receiver::default());
    take(&mut defragmenter, &mut receiver, 1, &part(0, 16, true), 5);
    take(&mut defragmenter, &mut receiver, 2, &part(0, 24, true), 50);
    take(&mut defragmenter, &mut receiver, 1, &part(24, 8, true), 104);
    defragmenter.expire(104, &mut receiver);
    assert_eq!(receiver.got, []);
    defragmenter.expire(105, &mut receiver);
    assert_eq!(receiver.got, [(1, Got::Dropped(DropReason::Expired, 24))]);
    take(&mut defragmenter, &mut receiver, 2, &part(24, 5, false), 149);
    assert_eq!(receiver.got[1], (2, Got::Whole(vec![b'x'; 29])));
    assert_eq!(defragmenter.used_bytes(), 0);
    let tally = defragmenter.tally();
    assert_eq!((tally.expired, tally.expired_bytes, tally.wholes, tally.whole_bytes), (1, 24, 1, 29));
}

#[test]
fn the_oldest_leaves_for_the_youngest() {
    let plan = FragmentPlan { datagrams_max: 3, ..FragmentPlan::default() };
    let (mut defragmenter, mut receiver) = (Defragmenter::new(plan), Receiver::default());
    for id in 0..5 {
        take(&mut defragmenter, &mut receiver, id, &part(0, 8, true), 5);
    }
    let dropped = |id| (id, Got::Dropped(DropReason::Capped, 8));
    assert_eq!(receiver.got, [dropped(0), dropped(1)]);
    assert_eq!(defragmenter.tally().capped_bytes, 16);
}

#[test]
fn fragments_that_no_receiver_takes_are_refused() {
    let (mut defragmenter, mut receiver) = (Defragmenter::new(FragmentPlan::default()), Receiver::default());
    take(&mut defragmenter, &mut receiver, 1, &part(65_528, 8, false), 5); // ends at 65,536
    take(&mut defragmenter, &mut receiver, 1, &part(0, 0, true), 5);
    let snapped = part(8, 16, true);
    let snapped = FragmentPacket { wire_bytes: 24, ..packet(&snapped, 5) };
    defragmenter.take(key(1), FragmentPolicy::Linux, &snapped, &mut receiver);
    assert_eq!((defragmenter.tally().refused_bytes, defragmenter.tally().oversized), (24, 1));
    assert_eq!(defragmenter.used_bytes(), 0, "none of them begins a datagram");
    // The rest of a unit: IPv4 drops it, IPv6 the fragment.
    take(&mut defragmenter, &mut receiver, 1, &part(0, 13, true), 5);
    let mut v6 = key(2);
    v6.datagram.addresses = [Ipv6Addr::LOCALHOST.into(); 2];
    defragmenter.take(v6, FragmentPolicy::Linux, &packet(&part(0, 13, true), 5), &mut receiver);
    assert_eq!((defragmenter.tally().refused_bytes, defragmenter.tally().held_bytes), (24 + 5 + 13, 8));
}

#[test]
fn an_overlap_kills_the_datagram_and_its_later_fragments() {
    let (mut defragmenter, mut receiver) = (Defragmenter::new(FragmentPlan::default()), Receiver::default());
    take(&mut defragmenter, &mut receiver, 1, &part(0, 16, true), 5);
    take(&mut defragmenter, &mut receiver, 1, &part(0, 8, true), 5); // contained: a duplicate
    assert_eq!((defragmenter.tally().duplicate_bytes, defragmenter.tally().killed), (8, 0));
    take(&mut defragmenter, &mut receiver, 1, &part(8, 16, true), 5);
    take(&mut defragmenter, &mut receiver, 1, &part(16, 8, false), 5);
    take(&mut defragmenter, &mut receiver, 1, &part(0, 16, true), 5);
    assert_eq!(receiver.got, [(1, Got::Dropped(DropReason::Overlap, 16))]);
    assert_eq!(defragmenter.tally().killed_bytes, 16 + 16 + 8 + 16);
}

#[test]
fn tiny_fragments_are_reported() {
    let (mut defragmenter, mut receiver) = (Defragmenter::new(FragmentPlan::default()), Receiver::default());
    let mut give = |offset, len, protocol| {
        let part = part(offset, len, true);
        let packet = FragmentPacket { protocol, ..packet(&part, 5) };
        defragmenter.take(key(u32::from(offset) + len as u32), FragmentPolicy::Linux, &packet, &mut receiver);
    };
    give(0, 8, 6); // ports without flags
    give(0, 16, 6);
    give(8, 24, 6); // could replace flags
    give(0, 8, 17);
    assert_eq!(receiver.got, [(8, Got::Tiny(0)), (32, Got::Tiny(8))]);
    assert_eq!((defragmenter.tally().tiny, defragmenter.tally().tcp_at_eight), (1, 1));
}

/// A reader that keeps evidence.
struct Witness {
    log: EvidenceLog<u32>,
}

impl FragmentSink for Witness {
    fn event(&mut self, key: &DatagramKey, event: FragmentEvent) {
        if let FragmentEvent::Difference(difference) = event {
            self.log.keep(key.datagram.id, &difference, 5);
        }
    }
}

#[test]
fn both_versions_are_evidence() {
    let mut witness = Witness { log: EvidenceLog::new(10_000) };
    let mut defragmenter = Defragmenter::new(FragmentPlan::default());
    for (offset, bytes) in [(0, "AAAAaaaaBBBBbbbb"), (8, "BBxxxbbbCCCCcccc"), (8, "BBBBbbbbCCCCcccc")] {
        let part = Part { offset, bytes: bytes.into(), more: true };
        defragmenter.take(key(9), FragmentPolicy::Bsd, &packet(&part, 5), &mut witness);
    }
    let [evidence] = witness.log.kept() else { panic!("{:?}", witness.log.kept()) };
    assert_eq!((evidence.subject, evidence.offset, evidence.differing), (9, 10, 3));
    assert_eq!((&evidence.old[..], &evidence.new[..]), (&b"BBb"[..], &b"xxx"[..]));
    assert!(!evidence.is_new_kept);
}

#[test]
fn a_flood_of_whole_datagrams_leaves_no_places() {
    let (mut defragmenter, mut receiver) = (Defragmenter::new(FragmentPlan::default()), Receiver::default());
    take(&mut defragmenter, &mut receiver, u32::MAX, &part(0, 8, true), 5);
    for id in 0..20_000 {
        take(&mut defragmenter, &mut receiver, id, &part(0, 8, true), 5);
        take(&mut defragmenter, &mut receiver, id, &part(8, 8, false), 5);
    }
    assert_eq!(defragmenter.tally().wholes, 20_000);
    let debug = format!("{defragmenter:?}").len();
    assert!(debug < 2_000_000, "{debug} characters of state");
}
