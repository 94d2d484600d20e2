//! The real `quaff verify` on captures whose packets have numbers: mirrors and RTP; and its page.

use assert_cmd::Command;
use quaff_testpackets::{Erspan, erspan_ii, ethernet, ipv4, udp};
use quaff_wire::Record;
use quaff_wire::pcap::{self, Resolution};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::Path;

const START_NS: u64 = 1_700_000_000_000_000_000;
const FROM: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const TO: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

fn verify(path: &Path, args: &[&str]) -> (i32, String) {
    let mut quaff = Command::cargo_bin("quaff").expect("the binary is built");
    let output = quaff.arg("verify").args(args).arg(path).output().unwrap();
    let code = output.status.code().unwrap();
    assert_eq!(output.stderr.is_empty(), code < 2, "{output:?}");
    (code, String::from_utf8(output.stdout).unwrap())
}

/// A file of the packets, 5 ms apart.
fn file(path: &Path, packets: impl IntoIterator<Item = Vec<u8>>) {
    let mut file = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    for (number, packet) in (0..).zip(packets) {
        let (frame, mut room) = (ethernet(&[], 0x0800, &packet), vec![0; 4096]);
        let time_ns = START_NS + number * 5_000_000;
        let record = Record { time_ns, bytes: &frame, len: frame.len() as u32, ..Record::default() };
        let written = pcap::record(&mut room, Resolution::Nanoseconds, &record);
        file.extend(&room[..written]);
    }
    std::fs::write(path, file).unwrap();
}

fn mirrored(sequence: u32) -> Vec<u8> {
    ipv4(FROM, TO, 47, &[], &erspan_ii(sequence, &Erspan { session: 3, ..Erspan::default() }, 0, &[0; 60]))
}

fn rtp(sequence: u16) -> Vec<u8> {
    let mut payload = vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    payload[2..4].copy_from_slice(&sequence.to_be_bytes());
    ipv4(FROM, TO, 17, &[], &udp(4000, 5000, &payload))
}

#[test]
fn missing_numbers_have_a_verdict_by_their_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let json = |packets: Vec<Vec<u8>>| {
        file(&path, packets);
        let (code, text) = verify(&path, &["--json"]);
        let report: Value = serde_json::from_str(&text).unwrap();
        (code, report["verdict"].as_str().unwrap().to_owned(), report)
    };
    let (code, verdict, report) = json((0..300).filter(|n| *n != 100 && *n != 102).map(mirrored).collect());
    let expected = "incomplete: 2 mirrored packets missing, by their numbers, between 2023-11-14T22:13:20.495Z and \
         2023-11-14T22:13:20.505Z; the place cannot be told: there are no drop counters";
    assert_eq!((code, verdict.as_str()), (1, expected), "{report}");
    assert_eq!(report["numbers"]["erspan"]["ratio"], 2.0 / 300.0);
    assert_eq!(
        report["reasons"],
        serde_json::json!(["mirrored packets are missing, by their ERSPAN numbers"])
    );
    let (code, verdict, _) = json((0..300).map(mirrored).collect());
    assert_eq!((code, verdict.as_str()), (0, "complete as far as can be known (1 flow with evidence)"));
    let (code, verdict, _) = json((0..300).filter(|n| *n != 100).map(rtp).collect());
    let expected = "not complete: numbers of RTP or GRE are missing: their packets were lost before the capture, or by it";
    assert_eq!((code, verdict.as_str()), (1, expected));
    // A mirror that lacks nothing beside it.
    let both = (0..300u16).flat_map(|n| [Some(mirrored(n.into())), (n != 100).then(|| rtp(n))]).flatten();
    let (code, verdict, report) = json(both.collect());
    assert_eq!(
        (code, verdict.as_str()),
        (0, "complete as far as can be known (2 flows with evidence)"),
        "{report}"
    );
    let (code, text) = verify(&path, &[]);
    let words = "  rtp           1 missing beside 299 packets of 1 sender: lost before the capture, or by it";
    assert!(code == 0 && text.lines().any(|line| line == words), "{text}");
}

#[test]
fn the_page_has_the_verdict_the_picture_and_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let [path, page] = ["a.pcap", "loss.html"].map(|name| dir.path().join(name));
    file(&path, (0..300).filter(|n| *n != 100).map(mirrored));
    let (code, text) = verify(&path, &["--html", page.to_str().unwrap()]);
    assert!(code == 1 && text.starts_with("incomplete: 1 mirrored packet missing"), "{text}");
    // A page that cannot be written is refused before hours of reading.
    let (code, text) = verify(&path, &["--html", dir.path().to_str().unwrap()]);
    assert!(code == 2 && text.is_empty(), "{code} {text}");
    let page = std::fs::read_to_string(page).unwrap();
    for part in [
        "incomplete: 1 mirrored packet missing",
        "id=\"loss-over-time\"",
        "id=\"evidence\"",
        "ERSPAN",
        "<svg class=\"pic",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"));
}
