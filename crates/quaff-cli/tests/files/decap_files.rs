//! `capture --read FILE --decap auto`, from file to file: what comes out is byte for byte what an
//! independent reference finds in real captures, and what was put into made ones.

use crate::made;
use crate::support::{QUAFF, folder, run, tool};
use quaff_testkit::{captures, skip, test_name};
use quaff_testpackets::{self as build, Erspan};
use quaff_wire::decode::{Decoder, Item, Step};
use std::path::Path;
use std::process::Command;

/// A frame as a file has it: its link type and its bytes.
type Found = (u16, Vec<u8>);

/// The frames of a capture file, pcap or pcapng.
fn frames(path: &Path) -> Vec<Found> {
    let bytes = std::fs::read(path).unwrap();
    let (mut rest, mut decoder, mut found) = (&bytes[..], Decoder::default(), Vec::new());
    while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
        if let Item::Frame(frame) = item {
            found.push((frame.linktype, frame.data.to_vec()));
        }
    }
    found
}

/// The output of quaff for a file, and its ledger.
fn decapsulated(file: &Path, out: &Path) -> (Vec<Found>, serde_json::Value) {
    let mut command = Command::new(QUAFF);
    command.args(["capture", "--decap", "auto", "--json", "--read"]).arg(file).arg("-w").arg(out);
    let ledger = serde_json::from_str(&run(&mut command)).expect("a ledger");
    (frames(out), ledger)
}

/// The result of the reference for a packet: the inner frame, or the unchanged packet.
fn expected(line: &str, outer: Found) -> Found {
    let words: Vec<_> = line.split(' ').collect();
    let ["inner", link, _, tag, _, _, _, hex] = words[..] else { return outer };
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    if let Some((tpid, tci)) = tag.split_once(':') {
        let half = |text| u16::from_str_radix(text, 16).unwrap().to_be_bytes();
        bytes.splice(12..12, [half(tpid), half(tci)].concat());
    }
    (link.parse().unwrap(), bytes)
}

#[test]
fn real_tunnels_come_out_as_the_reference_has_them() {
    let test = test_name!();
    let dir = captures().join("tunnels");
    let Ok(entries) = std::fs::read_dir(&dir) else {
        return skip(test, &format!("there is no {}; QUAFF_CAPTURES says where to look", dir.display()));
    };
    if tool(test, "python3").is_none() {
        return;
    }
    let (out, mut inner) = (folder(), 0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/decap.py");
    for path in entries.map(|entry| entry.unwrap().path()) {
        let lines = run(Command::new("python3").arg(&script).arg(&path));
        let outer = frames(&path);
        assert_eq!(outer.len(), lines.lines().count(), "{}", path.display());
        let mut theirs: Vec<_> =
            lines.lines().zip(outer).map(|(line, outer)| expected(line, outer)).collect();
        let (mut ours, ledger) = decapsulated(&path, &out.path().join("out.pcapng"));
        // Fragments whose rest is not there come last.
        theirs.sort();
        ours.sort();
        assert!(ours == theirs, "{}: {ledger}", path.display());
        inner += lines.lines().filter(|line| line.starts_with("inner")).count();
    }
    assert!(inner >= 70, "only {inner} inner frames");
}

#[test]
fn made_tunnels_come_out_as_they_went_in() {
    let dir = folder();
    for link in [made::ETHERNET, made::RAW] {
        let cases: Vec<_> = made::cases().into_iter().filter(|case| case.link == link).collect();
        let file = dir.path().join(format!("{link}.pcap"));
        write(&file, link, cases.iter().map(|case| &case.frame));
        let (ours, ledger) = decapsulated(&file, &dir.path().join("out.pcapng"));
        assert_eq!((ours.len(), &ledger["lossless"]), (cases.len(), &true.into()), "{ledger}");
        for ((linktype, bytes), case) in ours.into_iter().zip(&cases) {
            assert_eq!((linktype, &bytes), (case.inner_link, &case.inner), "{}", case.name);
        }
    }
}

#[test]
fn mirrors_in_fragments_come_out_whole_whatever_their_order() {
    let dir = folder();
    let cases: Vec<_> = made::cases().into_iter().filter(|case| case.link == made::ETHERNET).collect();
    let (mut packets, mut inner) = (Vec::new(), Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let header = Erspan { session: 5, ..Erspan::default() };
        // Two senders take turns, and each counts its own.
        let gre = build::erspan_ii(number as u32 / 2, &header, 1, &case.frame);
        let id = number as u32;
        let mut pieces = if number % 2 == 0 {
            let mut packet = build::ipv4(made::A4, made::B4, 47, &[], &gre);
            packet[4..6].copy_from_slice(&(number as u16).to_be_bytes());
            let pieces = build::ipv4_fragments(&packet, 64).into_iter();
            pieces.map(|piece| build::ethernet(&[(0x8100, 9)], 0x0800, &piece)).collect::<Vec<_>>()
        } else {
            let packet = build::ipv6(made::A6, made::B6, 47, &gre);
            let pieces = build::ipv6_fragments(&packet, id, 64).into_iter();
            pieces.map(|piece| build::ethernet(&[], 0x86dd, &piece)).collect()
        };
        if number % 3 == 0 {
            pieces.reverse();
        }
        packets.extend(pieces);
        inner.push((case.inner_link, case.inner.clone()));
    }
    let file = dir.path().join("fragments.pcap");
    write(&file, made::ETHERNET, packets.iter());
    let (ours, ledger) = decapsulated(&file, &dir.path().join("out.pcapng"));
    assert!(ours == inner, "{ledger}");
    assert_eq!(ledger["merged"], packets.len() - inner.len());
    assert_eq!(ledger["missing_before"], 0);
}

/// Writes a pcap file whose frames are a µs apart.
fn write<'a>(path: &Path, link: u16, frames: impl Iterator<Item = &'a Vec<u8>>) {
    let head = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x0004_0000, u32::from(link)];
    let mut bytes: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    for (number, frame) in frames.enumerate() {
        let len = frame.len() as u32;
        bytes.extend([1_790_000_000, number as u32, len, len].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}
