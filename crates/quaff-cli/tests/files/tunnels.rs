//! Inner frames, byte for byte, against an independent reading of the standards in Python
//! (`reference/decap.py`): real captures, and everything that the tests of quaff-wire make.

use crate::made;
use quaff_testkit::{captures, skip, test_name};
use quaff_testpackets::{self as build, Erspan};
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::tunnel::{Inner, Outcome, TunnelKinds, strip};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEPTH: u8 = 4;

#[test]
fn real_tunnels_are_stripped_as_the_reference_does() {
    compare_folder(test_name!(), "tunnels", 13);
}

#[test]
fn other_real_traffic_is_stripped_as_the_reference_does() {
    compare_folder(test_name!(), "protocols", 40);
}

/// Compares all pcap files of a folder of captures, which must be at least so many.
fn compare_folder(test: &str, folder: &str, at_least: usize) {
    let dir = captures().join(folder);
    let Ok(entries) = std::fs::read_dir(&dir) else {
        return skip(test, &format!("there is no {}; QUAFF_CAPTURES says where to look", dir.display()));
    };
    if !has_python(test) {
        return;
    }
    let paths: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| is_pcap(path)).collect();
    assert!(paths.len() >= at_least, "only {} files in {}", paths.len(), dir.display());
    for path in paths {
        compare(&path);
    }
}

/// The script reads no pcapng, whatever its name.
fn is_pcap(path: &Path) -> bool {
    let magics = [0xa1b2_c3d4u32, 0xa1b2_3c4d].map(u32::to_le_bytes);
    path.is_file() && std::fs::read(path).is_ok_and(|file| magics.iter().any(|magic| file.starts_with(magic)))
}

#[test]
fn made_and_damaged_tunnels_are_stripped_as_the_reference_does() {
    if !has_python(test_name!()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut seed = 1;
    for link in [0, 1, 9, 101, 104, 113, 276] {
        let mut file = Pcap::new(link);
        for case in made::cases().into_iter().filter(|case| case.link == link) {
            let len = case.frame.len();
            file.add(&case.frame, len);
            for _ in 0..20 {
                file.add(&case.frame[..random(&mut seed) % (len + 1)], len);
                let mut damaged = case.frame.clone();
                for _ in 0..1 + random(&mut seed) % 3 {
                    damaged[random(&mut seed) % len.min(140)] = random(&mut seed) as u8;
                }
                file.add(&damaged, len);
            }
        }
        if link == 1 {
            for frame in mirrors() {
                file.add(&frame, frame.len());
                file.add(&frame[..frame.len().min(90)], frame.len());
            }
        }
        let path = dir.path().join(format!("{link}.pcap"));
        std::fs::write(&path, file.0).unwrap();
        let found = compare(&path);
        assert!(found > 1000, "only {found} inner frames of link type {link}");
    }
}

/// Nested tunnels, removed tags, truncation, and fragments, on Ethernet.
fn mirrors() -> Vec<Vec<u8>> {
    let on_ip = |protocol, payload: &[u8]| build::ipv4(made::A4, made::B4, protocol, &[], payload);
    let mut frames = Vec::new();
    for case in made::cases().into_iter().filter(|case| case.link == made::ETHERNET) {
        let header = Erspan {
            // The VLAN of some of the frames.
            vlan: if frames.len() % 8 < 4 { 0x065 } else { 0xfff },
            cos: 7,
            encapsulation: (frames.len() % 4) as u8,
            truncated: frames.len() % 3 == 0,
            session: 5,
        };
        let packet = on_ip(47, &build::erspan_ii(frames.len() as u32, &header, 1, &case.frame));
        let pieces = build::ipv4_fragments(&packet, 64);
        frames.extend(pieces.into_iter().chain([packet]).map(|packet| build::ethernet(&[], 0x0800, &packet)));
    }
    frames
}

/// Compares what Rust and Python find in a file; returns the number of inner frames.
fn compare(path: &Path) -> usize {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/decap.py");
    let output = Command::new("python3").arg(script).arg(path).arg(DEPTH.to_string()).output().unwrap();
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    let theirs = String::from_utf8(output.stdout).unwrap();
    let ours = describe_file(&std::fs::read(path).unwrap());
    for (at, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(ours, theirs, "packet {} of {}", at + 1, path.display());
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{}", path.display());
    ours.lines().filter(|line| line.starts_with("inner")).count()
}

/// The lines that the script prints, made by quaff.
fn describe_file(mut file: &[u8]) -> String {
    let (mut decoder, mut link, mut lines) = (Decoder::default(), 0, String::new());
    while let Ok(Step::Item(item)) = decoder.next(&mut file) {
        match item {
            Item::Interface(interface) => link = interface.linktype,
            Item::Frame(frame) => {
                lines +=
                    &describe(frame.data, strip(frame.data, frame.wire_len, link, TunnelKinds::ALL, DEPTH));
                lines += "\n";
            }
            _ => {}
        }
    }
    lines
}

fn describe(bytes: &[u8], outcome: Outcome) -> String {
    match outcome {
        Outcome::Plain => "plain".into(),
        Outcome::Control | Outcome::Marker(_) => "control".into(),
        Outcome::Damaged(damage) => format!("damaged {}", damage.kind),
        Outcome::Fragment(fragment) => {
            let payload = hex(&bytes[fragment.start as usize..][..fragment.len as usize]);
            format!("fragment {} {} {payload}", fragment.offset, u8::from(fragment.more))
        }
        Outcome::Inner(inner) => describe_inner(bytes, &inner),
    }
}

fn describe_inner(bytes: &[u8], inner: &Inner) -> String {
    let known = |number: Option<u32>| number.map_or("-".into(), |number| number.to_string());
    let tag = inner.tag.map_or("-".into(), |(tpid, tci)| format!("{tpid:04x}:{tci:04x}"));
    format!(
        "inner {} {} {tag} {} {} {} {}",
        inner.linktype,
        known(inner.wire_len),
        inner.session.kind,
        known(inner.session.id),
        known(inner.sequence),
        hex(&bytes[inner.start as usize..][..inner.len as usize])
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

fn has_python(test: &str) -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        skip(test, "there is no python3");
    }
    there
}

/// A pcap file in the making.
struct Pcap(Vec<u8>);

impl Pcap {
    fn new(link: u16) -> Self {
        Self(
            [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x0004_0000, link.into()]
                .into_iter()
                .flat_map(u32::to_le_bytes)
                .collect(),
        )
    }

    fn add(&mut self, captured: &[u8], wire_len: usize) {
        let words = [0, 0, captured.len() as u32, wire_len as u32];
        self.0.extend(words.into_iter().flat_map(u32::to_le_bytes));
        self.0.extend(captured);
    }
}

/// Numbers that look random and are the same in each run (Knuth's MMIX).
fn random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}
