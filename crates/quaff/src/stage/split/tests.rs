//! The split stage on generated frames, in memory.

use super::*;
use quaff_testpackets as build;
use quaff_wire::pcapng::Interface;
use std::net::Ipv4Addr;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SECOND_NS: u64 = 1_000_000_000;

struct Setup {
    stage: Split,
    members: Vec<Presence>,
    knowledge: Arc<Knowledge>,
    tally: LaneTally,
}

/// An output frame: its member, time and bytes.
type Out = (usize, u64, Vec<u8>);

fn bed(by: &str, members: usize) -> Setup {
    let sorting = Sorting { by: by.parse().unwrap(), kinds: TunnelKinds::default(), depth: 0, seed: 0 };
    let knowledge = Arc::new(Knowledge::new(members));
    let presences = vec![(); members].iter().map(|()| Presence::default()).collect::<Vec<_>>();
    let bundle = Rendezvous::new(&vec![1; members], 0).unwrap();
    let interfaces = Interfaces::new(vec![Interface { linktype: 1, ..Interface::default() }]);
    let stage = Split::new(sorting, bundle, presences.clone(), knowledge.clone(), interfaces);
    Setup { stage, members: presences, knowledge, tally: LaneTally::default() }
}

impl Setup {
    fn pass(&mut self, frames: &[(u64, &[u8])], is_last: bool) -> Vec<Out> {
        let now_ns = frames.last().map_or(0, |(time_ns, _)| *time_ns);
        self.pass_at(frames, is_last, now_ns)
    }

    fn pass_at(&mut self, frames: &[(u64, &[u8])], is_last: bool, now_ns: u64) -> Vec<Out> {
        let bytes: Vec<u8> = frames.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect();
        let mut start = 0;
        let describe = |(time_ns, bytes): &(u64, &[u8])| {
            let len = bytes.len() as u32;
            start += len;
            Frame { time_ns: *time_ns, start: start - len, len, wire_len: len, ..Frame::default() }
        };
        let mut list: Vec<_> = frames.iter().map(describe).collect();
        let mut scratch = Vec::new();
        let mut batch = Batch {
            bytes: &bytes,
            scratch: &mut scratch,
            frames: &mut list,
            ids: &mut Vec::new(),
            now_ns,
            is_last,
        };
        Stage::pass(&mut self.stage, &mut batch, &mut self.tally);
        let memory = batch.memory();
        batch.frames.iter().map(|frame| (frame.member(), frame.time_ns, memory.of(frame).to_vec())).collect()
    }
}

fn udp(port: u16, bytes: usize) -> Vec<u8> {
    build::ipv4(A, B, 17, &[], &build::udp(port, 53, &vec![1; bytes]))
}

fn fragments(port: u16, id: u16) -> Vec<Vec<u8>> {
    let mut whole = udp(port, 3000);
    whole[4..6].copy_from_slice(&id.to_be_bytes());
    build::ipv4_fragments(&whole, 1480).iter().map(|ip| build::ethernet(&[], 0x0800, ip)).collect()
}

fn whole(port: u16) -> Vec<u8> {
    build::ethernet(&[], 0x0800, &udp(port, 20))
}

/// A port whose conversation belongs to `member`.
fn port_of(bed: &mut Setup, member: usize) -> u16 {
    (1000..).find(|port| bed.pass(&[(1, &whole(*port))], false)[0].0 == member).unwrap()
}

#[test]
fn fragments_follow_the_ports_of_the_first_in_any_order() {
    for (member, orders) in [0, 1, 2, 3].into_iter().zip([[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]]) {
        let mut bed = bed("ports", 4);
        let port = port_of(&mut bed, member);
        let pieces = fragments(port, 77);
        let mut came = Vec::new();
        for (at, piece) in orders.iter().enumerate() {
            came.extend(bed.pass(&[(SECOND_NS + at as u64, &pieces[*piece])], false));
        }
        assert_eq!(came.len(), 3, "{orders:?}");
        assert!(came.iter().all(|(to, ..)| *to == member), "{orders:?} {:?}", came.iter().map(|out| out.0));
        // Held fragments come first, with their own time and bytes.
        let waited = orders.iter().position(|piece| *piece == 0).unwrap();
        for (at, piece) in orders[..waited].iter().enumerate() {
            assert_eq!((came[at].1, &came[at].2), (SECOND_NS + at as u64, &pieces[*piece]));
        }
        assert!(!bed.stage.is_holding());
    }
}

#[test]
fn a_fragment_after_later_frames_of_its_member_is_counted() {
    for is_same in [true, false] {
        let mut bed = bed("ports", 2);
        let port = port_of(&mut bed, 0);
        let other = whole(port_of(&mut bed, usize::from(!is_same)));
        let pieces = fragments(port, 77);
        let feed = [(2, &pieces[1][..]), (3, &pieces[2]), (4, &other), (5, &pieces[0])];
        let times: Vec<u64> = bed.pass(&feed, false).iter().map(|(_, time_ns, _)| *time_ns).collect();
        assert_eq!(times, [4, 2, 3, 5]);
        assert_eq!(bed.knowledge.balance().delayed, u64::from(is_same));
    }
}

#[test]
fn fragments_without_a_first_time_out_and_batches_make_no_difference() {
    let pieces = fragments(1000, 5);
    let others: Vec<_> = (0..40).map(|port| whole(2000 + port)).collect();
    let mut feed: Vec<(u64, &[u8])> = vec![(SECOND_NS, &pieces[1]), (SECOND_NS, &pieces[2])];
    feed.extend(
        others.iter().enumerate().map(|(at, other)| (SECOND_NS + at as u64 * 50_000_000, &other[..])),
    );
    let at_once = bed("ports", 4).pass(&feed, true);
    let mut bed = bed("ports", 4);
    let mut one_by_one: Vec<_> = feed.iter().flat_map(|frame| bed.pass(&[*frame], false)).collect();
    one_by_one.extend(bed.pass(&[], true));
    assert_eq!(at_once, one_by_one);
    assert_eq!(at_once.len(), 42);
    // After 1 s the two are assigned by their own fields: both to the same member.
    assert_eq!((&at_once[21].2, &at_once[22].2), (&pieces[1], &pieces[2]));
    assert_eq!(at_once[21].0, at_once[22].0);
    // On an idle link the clock releases them.
    assert!(bed.pass(&[(9 * SECOND_NS, &fragments(7, 6)[1])], false).is_empty() && bed.stage.is_holding());
    assert_eq!(bed.pass_at(&[], false, 9 * SECOND_NS + SECOND_NS / 2).len(), 0);
    assert_eq!(bed.pass_at(&[], false, 11 * SECOND_NS).len(), 1);
    assert!(!bed.stage.is_holding());
}

#[test]
fn held_fragments_are_bounded() {
    let mut bed = bed("ports", 2);
    let mut given = 0;
    for id in 0..9000u16 {
        given += bed.pass(&[(SECOND_NS, &fragments(1000, id)[1])], false).len();
    }
    assert!((4000..9000).contains(&given), "{given}");
    assert_eq!(given + bed.pass(&[], true).len(), 9000);
}

#[test]
fn an_unavailable_member_is_replaced_and_no_other_frame_moves() {
    let mut bed = bed("ports", 4);
    let frames: Vec<_> = (0..2000).map(whole).collect();
    let feed: Vec<_> = frames.iter().map(|frame| (5, &frame[..])).collect();
    let before = bed.pass(&feed, false);
    bed.members[2].set_away(true);
    let after = bed.pass(&feed, false);
    let moved = before.iter().zip(&after).filter(|(before, after)| before.0 != after.0).count();
    assert!(before.iter().zip(&after).all(|(before, after)| before.0 == after.0 || before.0 == 2));
    assert!((400..600).contains(&moved) && after.iter().all(|out| out.0 != 2), "{moved}");
    bed.members[2].set_away(false);
    assert_eq!(bed.pass(&feed, false), before);
    for member in &bed.members {
        member.stop.raise(quaff_os::Reason::OutputClosed);
    }
    assert!(bed.pass(&feed, false).is_empty());
    assert_eq!(bed.tally.after_count, 2000);
    let balance = bed.knowledge.balance();
    assert_eq!((balance.all.packets, balance.conversations()), (6000, (2000, true)));
}

#[test]
fn with_macs_the_opposite_direction_by_another_router_is_the_same_conversation() {
    let mut bed = bed("macs,ports", 8);
    for port in 0..200 {
        let there = whole(port);
        let mut back = there.clone();
        back[..6].copy_from_slice(&[2, 9, 9, 9, 9, port as u8]);
        back[26..34].rotate_left(4);
        back[34..38].rotate_left(2);
        let given = bed.pass(&[(1, &there), (2, &back)], false);
        assert_eq!(given[0].0, given[1].0, "{port}");
    }
}
