//! A salvaging decoder on damage: all packets that lie outside of it, nothing that
//! was never there, and a jump that says where it was.

use crate::files::Build;
use proptest::prelude::*;
use quaff_wire::decode::{Decoder, Item, Jump, Step};

/// A packet: when, and what.
type Packet = (u64, Vec<u8>);

/// Packets, jumps, and where each packet's unit ends in the file.
#[derive(Debug, Default, PartialEq)]
struct Found {
    packets: Vec<Packet>,
    jumps: Vec<Jump>,
}

fn salvage(file: &[u8]) -> Found {
    let (mut found, mut decoder, mut rest) = (Found::default(), Decoder::salvaging(), file);
    for is_last in [false, true] {
        if is_last {
            decoder.no_more();
        }
        while let Step::Item(item) = decoder.next(&mut rest).expect("salvage continues") {
            match item {
                Item::Frame(frame) => found.packets.push((frame.time_ns, frame.data.to_vec())),
                Item::Jump(jump) => found.jumps.push(jump),
                _ => {}
            }
        }
    }
    assert_eq!(decoder.end(rest), Ok(()));
    assert_eq!((decoder.offset(), rest.len()), (file.len() as u64, 0));
    found
}

/// The packets of a file as the plain decoder reads them; `None` if it finds damage.
fn plain(file: &[u8]) -> Option<Vec<Packet>> {
    let (mut packets, mut decoder, mut rest) = (Vec::new(), Decoder::default(), file);
    decoder.no_more();
    while let Step::Item(item) = decoder.next(&mut rest).ok()? {
        if let Item::Frame(frame) = item {
            packets.push((frame.time_ns, frame.data.to_vec()));
        }
    }
    decoder.end(rest).ok().map(|()| packets)
}

/// A file, and where in it the units of its packets lie.
struct File {
    bytes: Vec<u8>,
    units: Vec<(usize, usize, Packet)>,
}

const SECONDS: u64 = 1_790_000_000;

/// Packets that look like nothing in particular, a few ms apart.
fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0u64..50_000_000, prop::collection::vec(any::<u8>(), 14..200));
    prop::collection::vec(packet, 8..40).prop_map(|packets| {
        let mut now = SECONDS * 1_000_000_000;
        let next = |(step, data): (u64, Vec<u8>)| {
            now += step;
            (now, data)
        };
        packets.into_iter().map(next).collect()
    })
}

fn pcap(big: bool, packets: &[Packet]) -> File {
    let head = Build::new(big).u32(0xA1B2_3C4D).u16(2).u16(4).u32(0).u32(0).u32(262_144).u32(1);
    let (mut bytes, mut units) = (head.bytes, Vec::new());
    for (time, data) in packets {
        let from = bytes.len();
        let (s, ns, len) = ((time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, data.len() as u32);
        bytes.extend(Build::new(big).u32(s).u32(ns).u32(len).u32(len).raw(data).bytes);
        units.push((from, bytes.len(), (*time, data.clone())));
    }
    File { bytes, units }
}

/// A block that is not read may be long. One whose type and length were harmed so takes what follows it: the bytes have
/// gone by when its end is missing.
fn is_long_block(jump: &Jump) -> bool {
    let words = jump.damage.to_string();
    let length = words.strip_prefix("block of ").and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    length > Some(16 << 20) && words.contains("the file ends after")
}

fn pcapng(big: bool, packets: &[Packet]) -> File {
    let (mut bytes, mut units) = (Build::new(big).section().interface().bytes, Vec::new());
    for (time, data) in packets {
        let from = bytes.len();
        bytes.extend(Build::new(big).enhanced_packet(0, *time, data).bytes);
        units.push((from, bytes.len(), (*time, data.clone())));
    }
    File { bytes, units }
}

/// Damage to some bytes of a file.
#[derive(Debug, Clone)]
enum Harm {
    /// They become zeros, as in a hole.
    Zeros,
    /// They become something else.
    Noise(Vec<u8>),
    /// They go.
    Cut,
}

fn harm() -> impl Strategy<Value = (prop::sample::Index, usize, Harm)> {
    let kind = prop_oneof![
        Just(Harm::Zeros),
        prop::collection::vec(any::<u8>(), 600).prop_map(Harm::Noise),
        Just(Harm::Cut),
    ];
    (any::<prop::sample::Index>(), 4..600usize, kind)
}

impl File {
    /// Harms bytes of its packets; returns the packets that it did not touch: those before the
    /// harm, and those after it.
    fn harm(&mut self, at: prop::sample::Index, len: usize, harm: Harm) -> (Vec<Packet>, Vec<Packet>) {
        let first = self.units[0].0;
        let from = first + at.index(self.bytes.len() - first);
        let to = (from + len).min(self.bytes.len());
        match harm {
            Harm::Zeros => self.bytes[from..to].fill(0),
            Harm::Noise(noise) => self.bytes[from..to].copy_from_slice(&noise[..to - from]),
            Harm::Cut => drop(self.bytes.drain(from..to)),
        }
        let of = |keep: &dyn Fn(&(usize, usize, Packet)) -> bool| {
            self.units.iter().filter(|unit| keep(unit)).map(|unit| unit.2.clone()).collect()
        };
        (of(&|unit| unit.1 <= from), of(&|unit| unit.0 >= to))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn undamaged_packets_are_found(
        packets in packets(), is_pcapng in any::<bool>(), big in any::<bool>(), (at, len, harm) in harm()
    ) {
        let mut file = if is_pcapng { pcapng(big, &packets) } else { pcap(big, &packets) };
        let is_cut = matches!(harm, Harm::Cut);
        let (before, behind) = file.harm(at, len, harm);
        let found = salvage(&file.bytes);
        prop_assert_eq!(&found.packets[..before.len()], &before[..]);
        if let Some(packets) = plain(&file.bytes) {
            // The lengths lead to the end of the file: nothing tells zeros from empty packets.
            prop_assert_eq!(found, Found { packets, jumps: Vec::new() });
            return Ok(());
        }
        if is_pcapng && found.jumps.iter().any(is_long_block) {
            return Ok(());
        }
        // A pcap record says nothing at its end: one that lost bytes takes as many of those that
        // follow it, so a few of these may go with it. In pcapng that takes a coincidence: the length
        // at the head of another block where its own should be at its end.
        let may_go = if is_pcapng && !is_cut { 0 } else { 600 / (16 + 14) };
        let gone = (0..=may_go.min(behind.len())).find(|gone| found.packets.ends_with(&behind[*gone..]));
        prop_assert!(gone.is_some(), "{:?}", found);
        // Nothing that was never there, but for zeros: sixteen of them are an empty packet of pcap.
        let are_there = found.packets.iter().filter(|packet| **packet != (0, Vec::new())).count();
        prop_assert!(are_there <= packets.len(), "{:?}", found);
    }

    #[test]
    fn a_whole_file_is_read_as_without_salvage(packets in packets(), is_pcapng in any::<bool>()) {
        let file = if is_pcapng { pcapng(true, &packets) } else { pcap(true, &packets) };
        prop_assert_eq!(salvage(&file.bytes), Found { packets, jumps: Vec::new() });
    }
}

/// Records that programs write and that look damaged: no time, a fraction of a second or more, more captured than
/// there was, no original length, nothing but zeros.
fn odd_record() -> impl Strategy<Value = (u32, u32, Vec<u8>, u32)> {
    let seconds = prop_oneof![Just(0), Just(SECONDS as u32), any::<u32>()];
    let fraction = prop_oneof![0u32..1_000_000, 1_000_000u32..4_000_000_000];
    let odd = (seconds, fraction, prop::collection::vec(any::<u8>(), 0..200), 0u32..300);
    prop_oneof![4 => odd, 1 => Just((0, 0, Vec::new(), 0))]
}

fn odd_file(big: bool, records: &[(u32, u32, Vec<u8>, u32)]) -> Vec<u8> {
    let head = Build::new(big).u32(0xA1B2_C3D4).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(1);
    let put = |b: Build, (s, f, data, len): &(u32, u32, Vec<u8>, u32)| {
        b.u32(*s).u32(*f).u32(data.len() as u32).u32(*len).raw(data)
    };
    records.iter().fold(head, put).bytes
}

proptest! {
    #[test]
    fn odd_packets_are_no_damage(
        records in prop::collection::vec(odd_record(), 1..200), big in any::<bool>(), at in any::<prop::sample::Index>(),
    ) {
        let mut file = odd_file(big, &records);
        // Some end in zeros, which is a hole, and some begin as another layout does.
        if let Some(packets) = plain(&file) {
            prop_assert_eq!(salvage(&file), Found { packets, jumps: Vec::new() });
        }
        // The last record of a capture that was interrupted.
        file.truncate(file.len() - at.index(16));
        let _ = salvage(&file);
    }
}

/// A file of packets without an original length, of which one is damaged.
#[test]
fn damage_is_found_among_odd_packets() {
    let record = |i: u32| (SECONDS as u32, i, vec![i as u8 | 0x80; 60 + i as usize], 0);
    let records: Vec<_> = (0..100).map(record).collect();
    let mut file = odd_file(false, &records);
    let at: usize = 24 + records[..50].iter().map(|record| 16 + record.2.len()).sum::<usize>();
    file[at + 8..at + 12].fill(0xEE);
    let found = salvage(&file);
    assert_eq!((found.packets.len(), found.jumps.len()), (99, 1), "{:?}", found.jumps);
}

#[test]
fn records_of_zeros_are_packets_and_a_page_of_zeros_is_a_hole() {
    let records = |zeros: usize| {
        let some = (SECONDS as u32, 1, vec![0xEE; 60], 60);
        let zero = (0, 0, Vec::new(), 0);
        [vec![some.clone(); 3], vec![zero; zeros], vec![some; 3]].concat()
    };
    for (zeros, is_hole) in [(1, false), (5, false), (255, false), (256, true), (2000, true)] {
        let file = odd_file(false, &records(zeros));
        let expected = (!is_hole).then_some(6 + zeros);
        assert_eq!(plain(&file).map(|packets| packets.len()), expected, "{zeros}");
        let found = salvage(&file);
        let jumped = if is_hole { (6, 1) } else { (6 + zeros, 0) };
        assert_eq!((found.packets.len(), found.jumps.len()), jumped, "{zeros}");
    }
    // Zeros to the end of the file, as after a power failure, and an empty packet there.
    let whole = odd_file(false, &records(0));
    for (zeros, packets) in [(16, Some(7)), (17, None), (48, None)] {
        let file = [&whole[..], &vec![0; zeros]].concat();
        assert_eq!(plain(&file).map(|packets| packets.len()), packets);
        assert_eq!(salvage(&file).packets.len(), packets.unwrap_or(6));
    }
}

/// A block that no reader needs may be longer than those that are read as a whole.
#[test]
fn a_long_block_is_skipped_as_without_salvage() {
    let file = pcapng(false, &some(2));
    let custom = Build::new(false).block(0x0BAD, |b| b.u32(32473).raw(&vec![0; 17 << 20])).bytes;
    let last = Build::new(false).enhanced_packet(0, SECONDS, b"last").bytes;
    let whole = [&file.bytes[..], &custom, &last].concat();
    let packets = plain(&whole).expect("no damage");
    assert_eq!(salvage(&whole), Found { packets, jumps: Vec::new() });
}

/// It was found by chance: noise made a block of secrets, of 258 MB, of a packet.
#[test]
fn a_harmed_length_of_a_block_that_may_be_long_takes_the_rest_and_its_jump_has_it() {
    let mut file = pcapng(true, &some(9));
    let at = file.units[4].0;
    file.bytes[at..at + 8].copy_from_slice(&[0, 0, 0, 10, 0x0f, 0x64, 0xd7, 0xf8]);
    let found = salvage(&file.bytes);
    assert_eq!(found.packets, some(4));
    let rest = (file.bytes.len() - at) as u64;
    assert_eq!(found.jumps.len(), 1);
    assert!(is_long_block(&found.jumps[0]) && found.jumps[0].bytes == rest, "{found:?}");
    // One that nothing has that long is damage, behind which packets are found.
    file.bytes[at + 4] = 0x1f;
    assert_eq!(salvage(&file.bytes).packets.len(), 8);
}

fn some(count: u64) -> Vec<Packet> {
    (0..count).map(|i| (SECONDS * 1_000_000_000 + i, vec![i as u8; 60])).collect()
}

#[test]
fn a_jump_says_from_where_why_and_how_far() {
    for (mut file, reason) in [
        (
            pcap(false, &some(10)),
            "record with 4294967295 bytes of packet at offset 176: too long, the limit is 262144 bytes",
        ),
        (pcapng(false, &some(10)), "block of 4294967295 bytes at offset 244: length not a multiple of 4"),
    ] {
        let (from, to, _) = file.units[2];
        let length_at = if reason.starts_with("record") { from + 8 } else { from + 4 };
        file.bytes[length_at..length_at + 4].fill(0xFF);
        let found = salvage(&file.bytes);
        assert_eq!(found.packets.len(), 9);
        let [jump] = found.jumps[..] else { panic!("{:?}", found.jumps) };
        assert_eq!((jump.damage.to_string(), jump.bytes), (reason.into(), (to - from) as u64));
    }
}

#[test]
fn a_cut_off_end_is_a_jump_too() {
    for mut file in [pcap(false, &some(5)), pcapng(false, &some(5))] {
        file.bytes.truncate(file.bytes.len() - 1);
        let found = salvage(&file.bytes);
        assert_eq!((found.packets.len(), found.jumps.len()), (4, 1));
        let (from, ..) = file.units[4];
        assert_eq!(found.jumps[0].damage.offset, from as u64);
        assert_eq!(found.jumps[0].bytes as usize, file.bytes.len() - from);
    }
}

/// A packet that carries a capture file is not dug up when the block around it is damaged.
#[test]
fn packets_inside_a_damaged_block_are_not_found() {
    let inner = pcapng(false, &some(5)).bytes;
    let around = |damage: bool| {
        let file = pcapng(false, &some(2));
        let mut block = Build::new(false).enhanced_packet(0, SECONDS, &inner).bytes;
        // Its number of captured bytes does not fit, its length does.
        block[20] = if damage { 0xFF } else { block[20] };
        let last = Build::new(false).enhanced_packet(0, SECONDS, b"last").bytes;
        [file.bytes, block, last].concat()
    };
    assert_eq!(salvage(&around(false)).packets.len(), 4);
    let found = salvage(&around(true));
    assert_eq!((found.packets.len(), found.jumps.len()), (3, 1));
    assert_eq!(found.packets[2].1, b"last");
}

/// Its interfaces are not those of the section before, and its order may be another one.
#[test]
fn a_section_whose_head_is_gone_keeps_nothing_of_the_one_before() {
    let first = pcapng(false, &some(3)).bytes;
    for big in [false, true] {
        let mut second = pcapng(big, &some(5));
        second.bytes[8] = 0;
        let third = pcapng(true, &some(2)).bytes;
        let found = salvage(&[&first, &second.bytes[..], &third].concat());
        assert_eq!((found.packets.len(), found.jumps.len()), (3 + 5 + 2, 1));
        // Without its interface, none of its packets is believed.
        second.bytes.drain(28..28 + 32);
        let found = salvage(&[&first, &second.bytes[..], &third].concat());
        assert_eq!(found.packets.len(), 3 + 2);
    }
}
