//! Files read with looks: the same items as without, whatever the parts have at their seams.

use crate::read::{Advance, CaptureFile, Look, Options, Seen};
use proptest::prelude::*;
use quaff_os::disk::Reader;
use quaff_wire::Record;
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::pcapng::{Interface, Section, epb, epb_bytes, idb, padding, shb};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Notes what it sees.
struct Note;

impl Look for Note {
    fn look(&mut self, decoder: &mut Decoder, part: &[u8], rest: &mut &[u8], seen: &mut Option<Seen>) {
        let mut items = Vec::new();
        loop {
            let (before, offset, corrected) = (*rest, decoder.offset(), *decoder.corrections());
            match decoder.next(rest) {
                Ok(Step::Item(item @ Item::Frame(frame))) => {
                    let start = frame.data.as_ptr() as usize - part.as_ptr() as usize;
                    assert_eq!(&part[start..][..frame.data.len()], frame.data);
                    items.push(format!("{item:?}"));
                }
                _ => {
                    *rest = before;
                    decoder.move_to(offset);
                    *decoder.corrections() = corrected;
                    break;
                }
            }
        }
        *seen = Some(Box::new(items));
    }
}

/// The items of a file, the packets among them that looks have seen, and the end.
struct Found {
    items: Vec<String>,
    seen: usize,
    end: String,
}

fn read(path: &Path, part_bytes: usize, has_looks: bool) -> Found {
    let helpers = if has_looks { 2 } else { 0 };
    read_by(path, part_bytes, helpers, || Box::new(Note))
}

/// Reads with this number of threads beside the decoder's.
fn read_by(path: &Path, part_bytes: usize, helpers: usize, look: fn() -> Box<dyn Look>) -> Found {
    let options = Options { buffer_bytes: Some(part_bytes), helpers: Some(helpers), ..Options::default() };
    let mut file = CaptureFile::open_with(path, options).unwrap();
    let (mut items, mut count) = (Vec::new(), 0);
    let end = loop {
        match file.advance(None) {
            Ok(Advance::End) => break "end".to_owned(),
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
        if let Some(seen) = file.take_seen() {
            let found: &Vec<String> = seen.downcast_ref().unwrap();
            count += found.len();
            items.extend(found.iter().cloned());
            file.return_seen(seen);
        }
        let walked = file.walk(|item, _| {
            items.push(format!("{item:?}"));
            true
        });
        if let Err(error) = walked {
            break error.to_string();
        }
        if file.wants_look() {
            file.look(Arc::new(look));
        }
    };
    Found { items, seen: count, end: format!("{end} {} {:?}", file.offset(), file.corrections()) }
}

/// Checks that looks change nothing, and returns how many packets they have seen.
fn assert_equal(bytes: &[u8], part_bytes: usize) -> usize {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let [with, without] = [true, false].map(|has_looks| read(file.path(), part_bytes, has_looks));
    assert!(
        with.items == without.items,
        "{} items in the place of {}",
        with.items.len(),
        without.items.len()
    );
    assert_eq!((with.end, without.seen), (without.end, 0));
    with.seen
}

/// A pcap file with packets of these contents.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for (at, packet) in (0u32..).zip(packets) {
        let bytes = packet.len() as u32;
        file.extend([1_700_000_000 + at / 1000, at % 1000, bytes, bytes].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

/// The packets of a file as the contents of a packet: a guess within them is wrong.
fn deceptive() -> Vec<u8> {
    pcap(&vec![vec![7; 60]; 20])[24..].to_vec()
}

#[test]
fn packets_are_seen_once_and_in_order() {
    let packets: Vec<_> = (0..40_000usize).map(|at| vec![at as u8; 40 + at * 7919 % 1400]).collect();
    let file = pcap(&packets);
    let mut cached = tempfile::NamedTempFile::new().unwrap();
    cached.write_all(&file).unwrap();
    // Before Linux 6.5 nothing tells what is in the page cache, so no crew reads it.
    let has_crew = Reader::open(cached.path()).unwrap().is_in_memory(0, file.len() as u64);
    for part_bytes in [4096, 64 << 10, 1 << 20] {
        let seen = assert_equal(&file, part_bytes);
        assert!(!has_crew || seen > 10_000, "{seen} of 40,000 packets in parts of {part_bytes} bytes");
    }
    // Cut in a packet.
    assert_equal(&file[..file.len() - 7], 64 << 10);
}

/// Panics on threads of the crew.
struct Panicking;

impl Look for Panicking {
    fn look(&mut self, decoder: &mut Decoder, part: &[u8], rest: &mut &[u8], seen: &mut Option<Seen>) {
        assert!(std::thread::current().name() != Some("quaff-look"), "a made panic");
        Note.look(decoder, part, rest, seen);
    }
}

#[test]
fn a_thread_that_panics_costs_no_packet_and_the_decoder_no_wait() {
    let packets: Vec<_> = (0..20_000usize).map(|at| vec![at as u8; 40 + at * 7919 % 1400]).collect();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&pcap(&packets)).unwrap();
    let without = read(file.path(), 4096, false);
    for helpers in [1, 3] {
        let with = read_by(file.path(), 4096, helpers, || Box::new(Panicking));
        assert!(with.items == without.items && with.end == without.end, "{helpers} threads");
    }
}

#[test]
fn records_within_packets_deceive_a_guess_and_nothing_else() {
    let packets: Vec<_> = (0..3_000).map(|at| if at % 3 == 0 { deceptive() } else { vec![1; 100] }).collect();
    assert_equal(&pcap(&packets), 4096);
}

/// A block of a made pcapng file.
#[derive(Debug, Clone)]
enum Block {
    Section,
    Interface,
    Frame(usize),
    Deceptive,
    Meaningless(usize),
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        1 => Just(Block::Section),
        2 => Just(Block::Interface),
        200 => (0usize..1500).prop_map(Block::Frame),
        4 => Just(Block::Deceptive),
        4 => (12usize..20_000).prop_map(Block::Meaningless),
    ]
}

fn frame(file: &mut Vec<u8>, interface: u32, bytes: &[u8]) {
    let record = Record { time_ns: 1 << 60, bytes, len: bytes.len() as u32, ..Record::default() };
    let mut room = vec![0; epb_bytes(bytes.len())];
    let written = epb(&mut room, interface, &record);
    file.extend_from_slice(&room[..written]);
}

fn pcapng(blocks: &[Block]) -> Vec<u8> {
    let (mut file, mut interfaces) = (Vec::new(), 1);
    let begin = |file: &mut Vec<u8>| {
        shb(file, &Section::default());
        idb(file, &Interface { linktype: 1, ..Interface::default() });
    };
    begin(&mut file);
    for (at, block) in blocks.iter().enumerate() {
        match block {
            Block::Section => {
                begin(&mut file);
                interfaces = 1;
            }
            Block::Interface => {
                idb(&mut file, &Interface { linktype: 101, ..Interface::default() });
                interfaces += 1;
            }
            Block::Frame(bytes) => frame(&mut file, at as u32 % interfaces, &vec![at as u8; *bytes]),
            Block::Deceptive => {
                let mut inner = Vec::new();
                (0..20).for_each(|_| frame(&mut inner, 0, &[9; 60]));
                frame(&mut file, 0, &inner);
            }
            Block::Meaningless(bytes) => {
                let mut block = vec![0; bytes.next_multiple_of(4)];
                padding(&mut block);
                file.extend(block);
            }
        }
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn blocks_of_any_order_are_read_as_without_looks(
        blocks in prop::collection::vec(block(), 100..900), part_bytes in 12usize..15, cut in 0usize..40,
    ) {
        let file = pcapng(&blocks);
        assert_equal(&file[..file.len() - cut.min(file.len())], 1 << part_bytes);
    }
}
