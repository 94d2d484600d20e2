//! pcap in the layouts of other days: what quaff makes of them, and whether tshark agrees.

use crate::files::Build;
use quaff_wire::decode::{Decoder, Frame, Item, Step};
use quaff_wire::pcap::RecordLayout;
use std::io::Write;
use std::process::Command;

const SECONDS: u32 = 1_000_000_007;

/// A packet: seconds, fraction, captured bytes, bytes on the wire.
type Packet = (u32, u32, &'static [u8], u32);

const PACKETS: [Packet; 3] = [
    (SECONDS, 123_456, b"the first one, of some length", 60),
    (SECONDS, 999_999, b"2nd", 3),
    (SECONDS + 1, 0, b"and the last packet of all", 26),
];

fn head(big: bool, magic: u32, version: (u16, u16), network: u32) -> Build {
    Build::new(big).u32(magic).u16(version.0).u16(version.1).u32(0).u32(0).u32(65535).u32(network)
}

/// The packets in a layout, each by `put`.
fn file(head: Build, packets: &[Packet], put: impl Fn(Build, &Packet) -> Build) -> Vec<u8> {
    packets.iter().fold(head, |b, packet| put(b, packet).raw(packet.2)).bytes
}

fn usual(b: Build, (s, f, data, len): &Packet) -> Build {
    b.u32(*s).u32(*f).u32(data.len() as u32).u32(*len)
}

/// Behind the usual 16 bytes: interface, protocol, kind of packet (PACKET_OUTGOING).
fn kuznetzov(b: Build, packet: &Packet) -> Build {
    usual(b, packet).u32(2).u16(0x800).raw(&[4, 0])
}

/// 4 bytes more than Kuznetzov's: two processors, and padding.
fn suse(b: Build, packet: &Packet) -> Build {
    usual(b, packet).u32(2).u16(0x800).raw(&[0, 1, 1, 0, 0, 0])
}

fn wide(b: Build, (s, f, data, len): &Packet) -> Build {
    b.u64(u64::from(*s)).u64(u64::from(*f)).u32(data.len() as u32).u32(*len)
}

fn swapped(b: Build, (s, f, data, len): &Packet) -> Build {
    b.u32(*s).u32(*f).u32(*len).u32(data.len() as u32)
}

/// A packet as it is read: time, bytes, length on the wire, link type, flags.
type Read = (u64, Vec<u8>, u32, u16, u32);

/// The frames of a file and its layout; the bytes arrive one by one.
fn read(file: &[u8]) -> (Vec<Read>, Option<RecordLayout>) {
    let (mut frames, mut decoder, mut at) = (Vec::new(), Decoder::default(), 0);
    let mut take = |decoder: &mut Decoder, at: &mut usize, to: usize| {
        let mut rest = &file[*at..to];
        while let Step::Item(item) = decoder.next(&mut rest).expect("a good file") {
            if let Item::Frame(Frame { time_ns, data, wire_len, linktype, flags, .. }) = item {
                frames.push((time_ns, data.to_vec(), wire_len, linktype, flags));
            }
        }
        *at = to - rest.len();
    };
    for to in 0..=file.len() {
        take(&mut decoder, &mut at, to);
    }
    decoder.no_more();
    take(&mut decoder, &mut at, file.len());
    assert_eq!(decoder.end(&file[at..]), Ok(()));
    (frames, decoder.layout())
}

#[track_caller]
fn assert_read(file: &[u8], packets: &[Packet], layout: RecordLayout, ns_per_fraction: u64, flags: u32) {
    let (frames, found) = read(file);
    assert_eq!(found, Some(layout));
    let time_ns =
        |packet: &Packet| u64::from(packet.0) * 1_000_000_000 + u64::from(packet.1) * ns_per_fraction;
    // What is captured was there.
    let wire_len = |packet: &Packet| packet.3.max(packet.2.len() as u32);
    let expected: Vec<_> = packets
        .iter()
        .map(|packet| (time_ns(packet), packet.2.to_vec(), wire_len(packet), 1, flags))
        .collect();
    assert_eq!(frames, expected);
}

/// `tshark` on a file: seconds with their fraction, captured and original length of each packet;
/// `None` after a skip.
fn tshark(test: &str, file: &[u8]) -> Option<Vec<String>> {
    let path = std::env::temp_dir().join(format!("quaff-{test}-{}.pcap", std::process::id()));
    std::fs::write(&path, file).expect("a file");
    let fields = ["frame.time_epoch", "frame.cap_len", "frame.len"];
    let done = Command::new("tshark")
        .args(["-n", "-T", "fields", "-r"])
        .arg(&path)
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output();
    std::fs::remove_file(&path).ok();
    let Ok(done) = done else {
        skip(&format!("{test}: tshark is not installed"));
        return None;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).expect("text").lines().map(str::to_owned).collect())
}

/// Says why something was not tested, where `make test` counts it.
#[allow(clippy::print_stderr, reason = "a skipped test has no other way to be heard")]
fn skip(what: &str) {
    eprintln!("SKIP {what}");
    let Some(log) = std::env::var_os("QUAFF_SKIP_LOG") else { return };
    let log = std::fs::File::options().create(true).append(true).open(log);
    log.and_then(|mut log| writeln!(log, "SKIP {what}")).expect("the log can be written");
}

/// tshark reads of the file what quaff reads.
#[track_caller]
fn assert_tshark_agrees(test: &str, file: &[u8]) {
    let Some(theirs) = tshark(test, file) else { return };
    let ours: Vec<_> = read(file)
        .0
        .into_iter()
        .map(|(time_ns, data, wire_len, ..)| {
            let (s, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
            format!("{s}.{ns:09}\t{}\t{wire_len}", data.len())
        })
        .collect();
    assert_eq!(ours, theirs);
}

#[test]
fn kuznetzovs_headers_are_24_bytes() {
    for big in [false, true] {
        for count in 1..=PACKETS.len() {
            let packets = &PACKETS[..count];
            let file = file(head(big, 0xA1B2_CD34, (2, 4), 1), packets, kuznetzov);
            assert_read(&file, packets, RecordLayout::Kuznetzov, 1000, 2);
            if count != 2 {
                assert_tshark_agrees(&format!("kuznetzov-{big}-{count}"), &file);
            }
        }
    }
}

#[test]
fn those_of_suse_are_28_bytes_under_the_same_magic() {
    for big in [false, true] {
        for count in 1..=PACKETS.len() {
            let packets = &PACKETS[..count];
            let file = file(head(big, 0xA1B2_CD34, (2, 4), 1), packets, suse);
            assert_read(&file, packets, RecordLayout::Suse, 1000, 0b101);
            if count != 2 {
                assert_tshark_agrees(&format!("suse-{big}-{count}"), &file);
            }
        }
    }
}

#[test]
fn those_of_64_bit_hosts_have_the_usual_magic() {
    for big in [false, true] {
        for (magic, ns_per_fraction) in [(0xA1B2_C3D4, 1000), (0xA1B2_3C4D, 1)] {
            for first in 0..PACKETS.len() {
                let packets = &PACKETS[first..];
                let file = file(head(big, magic, (2, 4), 1), packets, wide);
                assert_read(&file, packets, RecordLayout::Wide, ns_per_fraction, 0);
            }
        }
    }
}

#[test]
fn odd_packets_of_the_usual_layout_are_not_taken_for_64_bit_ones() {
    for big in [false, true] {
        // Nothing captured; no time; more captured than there was.
        let odd: [&[Packet]; 4] = [
            &[(SECONDS, 0, b"", 0), PACKETS[0]],
            &[(0, SECONDS, b"", 60), PACKETS[1]],
            &[(SECONDS, 0, b"abc", 0)],
            &[(SECONDS, 0, b"", 0)],
        ];
        for packets in odd {
            let file = file(head(big, 0xA1B2_C3D4, (2, 4), 1), packets, usual);
            assert_read(&file, packets, RecordLayout::Standard, 1000, 0);
        }
    }
}

#[test]
fn lengths_change_places_before_version_2_3() {
    for big in [false, true] {
        for version in [(2, 2), (2, 1), (543, 0)] {
            let file = file(head(big, 0xA1B2_C3D4, version, 1), &PACKETS, swapped);
            assert_read(&file, &PACKETS, RecordLayout::Standard, 1000, 0);
            if big || version.0 == 543 {
                assert_tshark_agrees(&format!("swapped-{big}-{}-{}", version.0, version.1), &file);
            }
        }
        for put in [usual, swapped] {
            let file = file(head(big, 0xA1B2_C3D4, (2, 3), 1), &PACKETS, put);
            assert_read(&file, &PACKETS, RecordLayout::Standard, 1000, 0);
            assert_tshark_agrees(&format!("perhaps-{big}"), &file);
        }
    }
}

#[test]
fn aix_has_its_own_numbers_and_nanoseconds() {
    for big in [false, true] {
        let file = file(head(big, 0xA1B2_C3D4, (2, 2), 6), &PACKETS, swapped);
        assert_read(&file, &PACKETS, RecordLayout::Aix, 1, 0);
        assert_tshark_agrees(&format!("aix-{big}"), &file);
    }
}

#[test]
fn ixia_has_a_word_more_in_the_file_header() {
    for big in [false, true] {
        for (magic, ns_per_fraction) in [(0x1C00_01AC, 1), (0x1C00_01AB, 1000)] {
            let file = file(head(big, magic, (2, 4), 1).u32(106), &PACKETS, usual);
            assert_read(&file, &PACKETS, RecordLayout::Ixia, ns_per_fraction, 0);
            // Wireshark before 4.4 took the hardware's ns for µs.
            if magic == 0x1C00_01AB {
                assert_tshark_agrees(&format!("ixia-{big}"), &file);
            }
        }
    }
}

/// As other readers do, which continue after it.
#[test]
fn a_record_of_zeros_is_an_empty_packet() {
    for big in [false, true] {
        let packets = [PACKETS[0], (0, 0, &b""[..], 0), PACKETS[1], PACKETS[2]];
        let file = file(head(big, 0xA1B2_C3D4, (2, 4), 1), &packets, usual);
        assert_read(&file, &packets, RecordLayout::Standard, 1000, 0);
        assert_tshark_agrees(&format!("zeros-{big}"), &file);
    }
}
