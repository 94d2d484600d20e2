//! Streams that are cut into files: no byte is lost or changed, and each file can be read by itself.

use crate::files::Build;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use proptest::prelude::*;
use quaff_wire::cut::{Cutter, Out, extension};
use std::convert::Infallible;
use std::io::Cursor;

/// The files of a stream, and the number of repeated bytes at the start of each.
fn cut(stream: &[u8], sizes: &[usize], limit: u64) -> (Vec<Vec<u8>>, Vec<usize>, Cutter) {
    let mut cutter = Cutter::new(limit);
    let (mut files, mut repeated) = (vec![Vec::new()], vec![0]);
    let mut out = |out: Out<'_>| -> Result<(), Infallible> {
        match out {
            Out::Bytes(bytes) => files.last_mut().unwrap().extend_from_slice(bytes),
            Out::Cut(first) => {
                files.push(first.to_vec());
                repeated.push(first.len());
            }
        }
        Ok(())
    };
    let (mut rest, mut sizes) = (stream, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        cutter.feed(piece, &mut out).unwrap();
        rest = behind;
    }
    cutter.finish(&mut out).unwrap();
    (files, repeated, cutter)
}

fn joined(files: &[Vec<u8>], repeated: &[usize]) -> Vec<u8> {
    files.iter().zip(repeated).flat_map(|(file, skip)| file[*skip..].to_vec()).collect()
}

/// The packets' bytes of a file, read by another parser, which must accept all of it.
fn packets(file: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = create_reader(1 << 20, Cursor::new(file)).expect("a capture file");
    let mut packets = Vec::new();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::Legacy(packet) => packets.push(packet.data.to_vec()),
                    PcapBlockOwned::NG(pcap_parser::Block::EnhancedPacket(packet)) => {
                        packets.push(packet.data[..packet.caplen as usize].to_vec());
                    }
                    _ => {}
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("memory"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Bytes of the file header, or of the section and interface blocks.
fn heads_bytes(file: &[u8], big: bool) -> u64 {
    let word = |at: usize| {
        let bytes = file[at..at + 4].try_into().unwrap();
        if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    if word(0) != 0x0a0d_0d0a {
        return 24;
    }
    let (mut at, mut sum) = (0, 0);
    while at < file.len() {
        let bytes = word(at + 4);
        sum += if matches!(word(at), 1 | 0x0a0d_0d0a) { u64::from(bytes) } else { 0 };
        at += bytes as usize;
    }
    sum
}

fn pcap(frames: &[Vec<u8>], big: bool) -> Vec<u8> {
    let mut file = Build::new(big).u32(0xA1B2_C3D4).u16(2).u16(4).u32(0).u32(0).u32(262_144).u32(1);
    for (i, frame) in frames.iter().enumerate() {
        file = file.u32(i as u32).u32(0).u32(frame.len() as u32).u32(frame.len() as u32).raw(frame);
    }
    file.bytes
}

/// Sections of interfaces and packets; a new interface now and then.
fn pcapng(frames: &[Vec<u8>], big: bool, sections: usize) -> Vec<u8> {
    let mut file = Build::new(big);
    for section in 0..sections {
        file = file.section().interface();
        for (i, frame) in frames.iter().enumerate() {
            if i % 7 == 6 {
                file = file.interface();
            }
            file = file.enhanced_packet((i / 7) as u32, (section * 1000 + i) as u64, frame);
        }
    }
    file.bytes
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40)
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..700usize, 1..20)
}

proptest! {
    #[test]
    fn a_capture_is_cut_between_packets(
        frames in frames(), sizes in sizes(), big in any::<bool>(), ng in any::<bool>(),
        sections in 1..3usize, limit in 500..4000u64,
    ) {
        let stream = if ng { pcapng(&frames, big, sections) } else { pcap(&frames, big) };
        let (files, repeated, cutter) = cut(&stream, &sizes, limit);
        prop_assert_eq!(extension(&stream), if ng { "pcapng" } else { "pcap" });
        prop_assert_eq!(cutter.damaged_at, None);
        let mut found = Vec::new();
        for (file, repeated) in files.iter().zip(&repeated) {
            let inside = packets(file);
            // Files that would be mostly heads may be larger.
            let most = limit.max(4 * heads_bytes(file, big));
            prop_assert!(file.len() as u64 <= most || inside.len() == 1, "{} of {limit}", file.len());
            prop_assert!(file.len() > *repeated, "a file holds something new");
            found.extend(inside);
        }
        let wanted: Vec<_> = frames.iter().cycle().take(frames.len() * if ng { sections } else { 1 }).collect();
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), wanted);
        // The section's length is the only thing that is changed, and here it was unknown before.
        prop_assert_eq!(joined(&files, &repeated), stream);
    }

    #[test]
    fn whatever_the_bytes_none_is_lost_and_none_is_added(
        head in prop::sample::select(vec![
            &b""[..], b"\x0a\x0d\x0d\x0a", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\xa1\xb2\xcd\x34",
            b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
        ]),
        tail in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(6), any::<u8>()], 0..3000),
        sizes in sizes(), limit in 1..2000u64,
    ) {
        let stream = [head, &tail].concat();
        let (files, repeated, _) = cut(&stream, &sizes, u64::MAX);
        prop_assert_eq!(files.len(), 1);
        prop_assert_eq!(joined(&files, &repeated), stream.clone());
        let (files, repeated, _) = cut(&stream, &sizes, limit);
        let joined = joined(&files, &repeated);
        prop_assert_eq!(joined.len(), stream.len());
        if extension(&stream) != "pcapng" {
            prop_assert_eq!(joined, stream);
        }
    }

    #[test]
    fn other_bytes_are_cut_anywhere(bytes in prop::collection::vec(1..9u8, 4..3000), sizes in sizes(), limit in prop_oneof![1..6u64, 1..2000u64]) {
        let (files, _, _) = cut(&bytes, &sizes, limit);
        prop_assert_eq!(extension(&bytes), "bin");
        prop_assert_eq!(&files, &cut(&bytes, &[bytes.len()], limit).0);
        let (last, full) = files.split_last().unwrap();
        prop_assert!(full.iter().all(|file| file.len() as u64 == limit));
        prop_assert!(last.len() as u64 <= limit && !last.is_empty());
        prop_assert_eq!(files.concat(), bytes);
    }
}

#[test]
fn a_section_that_says_its_length_says_unknown_when_it_is_cut() {
    let known = |mut file: Vec<u8>| {
        file[16..24].copy_from_slice(&1000u64.to_le_bytes());
        file
    };
    let stream = known(pcapng(&vec![vec![7; 100]; 20], false, 1));
    let (files, _, _) = cut(&stream, &[64], 1000);
    assert!(files.len() > 2);
    assert!(files.iter().all(|file| file[16..24] == [0xFF; 8]));
    assert_eq!(cut(&stream, &[64], u64::MAX).0, [stream]);
}

#[test]
fn damage_is_reported_and_what_follows_is_in_one_file() {
    let mut stream = pcap(&vec![vec![7; 100]; 20], false);
    let good = stream.len();
    stream.extend([0xFF; 4000]);
    for size in [1, 7, 5000] {
        let (files, repeated, cutter) = cut(&stream, &[size], 1000);
        assert_eq!(cutter.damaged_at, Some(good as u64), "{size}");
        assert!(files.last().unwrap().len() > 4000);
        assert_eq!(joined(&files, &repeated), stream);
    }
    // An interface that never ends is damage as well.
    let mut stream = Build::new(false).section().bytes;
    let good = stream.len();
    stream.extend(Build::new(false).u32(1).u32(64 << 20).bytes);
    stream.extend([0; 100]);
    assert_eq!(cut(&stream, &[5], 1000).2.damaged_at, Some(good as u64));
}
