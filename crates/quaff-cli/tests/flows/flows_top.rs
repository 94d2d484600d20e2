//! `quaff flows top`: means of the last seconds, and names of hosts and services, of captures with known traffic.

use crate::made::{Made, UDP};
use quaff_testkit::{skip, test_name};
use quaff_testpackets as build;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/terminal.py");
/// Bytes of the headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// An IP packet with this payload.
fn udp([from, to]: [u8; 2], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    build::ipv4(host(from), host(to), UDP, &[], &build::udp(ports[0], ports[1], payload))
}

fn top(file: &Path, more: &[&str]) -> Output {
    let mut quaff = Command::new(QUAFF);
    quaff.args(["flows", "top", "--once", "--read"]).arg(file).args(more);
    quaff.output().expect("quaff runs")
}

#[track_caller]
fn rows(file: &Path, more: &[&str]) -> Vec<Value> {
    let done = top(file, &[&["--json", "-q"][..], more].concat());
    let found: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{more:?}: {done:?}"));
    found["rows"].as_array().unwrap_or_else(|| panic!("{found}")).clone()
}

/// Host 1 sends a packet of 1,000 bytes each 100 ms of a minute, host 2 each 10 ms of the first ten seconds, host 3
/// each 10 ms of the last five.
fn minute(dir: &Path) -> PathBuf {
    let mut made = Made::default();
    for ms in (0..60_000).step_by(10) {
        let senders = [(1, ms % 100 == 0), (2, ms < 10_000), (3, ms >= 55_000)];
        for (sender, _) in senders.iter().filter(|(_, sends)| *sends) {
            made.ip(ms, &udp([*sender, 9], [4000, 5000], &[7; 1000 - HEADER_BYTES]));
        }
    }
    made.write(dir, "minute.pcap")
}

#[test]
fn means_are_those_of_the_last_2_10_and_40_seconds() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = minute(dir.path());
    let found = rows(&file, &["--by", "source", "--sort", "name"]);
    let means = |row: &Value| {
        ["mean_2s_bits_per_s", "mean_10s_bits_per_s", "mean_40s_bits_per_s"]
            .map(|name| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}")))
    };
    // A piece of a flow is spread evenly over its time.
    let is_near = |mean: u64, expected: u64| mean.abs_diff(expected) * 10 <= expected;
    let [steady, early, late] = &found[..] else { panic!("{found:?}") };
    assert!(means(steady).into_iter().all(|mean| is_near(mean, 80_000)), "{steady}");
    assert_eq!(means(early), [0; 3], "{early}");
    // All its packets are in the longer windows, so that these are exact.
    let [two, ten, forty] = means(late);
    assert!(is_near(two, 800_000), "{late}");
    assert_eq!([ten, forty], [400_000, 100_000], "{late}");
    for (more, expected) in [
        (&["--sort", "10s"][..], ["10.0.0.3", "10.0.0.1", "10.0.0.2"]),
        (&["--sort", "40s"][..], ["10.0.0.3", "10.0.0.1", "10.0.0.2"]),
        (&["--sort", "2s", "--reverse"][..], ["10.0.0.2", "10.0.0.1", "10.0.0.3"]),
        (&["--sort", "rate"][..], ["10.0.0.2", "10.0.0.1", "10.0.0.3"]),
    ] {
        let found = rows(&file, &[&["--by", "source"][..], more].concat());
        let names: Vec<_> = found.iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names, expected, "{more:?}");
    }
    let text = top(&file, &["--by", "source"]);
    let said = String::from_utf8_lossy(&text.stderr).into_owned();
    assert!(said.contains("in 3 flows"), "pieces are no flows: {said}");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for words in ["2s", "10s", "40s", "400 kb/s", "100 kb/s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Without two packets there is no time, and in a short file all windows are the file.
#[test]
fn a_short_file_has_the_mean_of_its_time_and_one_packet_has_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let packet = udp([1, 9], [4000, 5000], &[7; 1000 - HEADER_BYTES]);
    let mut made = Made::default();
    let one = made.ip(300, &packet).write(dir.path(), "one.pcap");
    let row = &rows(&one, &["--by", "source"])[0];
    assert!(row["bits_per_s"].is_null() && row.get("mean_2s_bits_per_s").is_none(), "{row}");
    let two = made.ip(800, &packet).write(dir.path(), "two.pcap");
    let row = &rows(&two, &["--by", "source"])[0];
    let rate = row["bits_per_s"].as_f64().expect("a rate");
    for name in ["mean_2s_bits_per_s", "mean_10s_bits_per_s", "mean_40s_bits_per_s"] {
        let mean = row[name].as_f64().expect("a mean");
        assert!((mean - rate).abs() <= 1.0 && mean > 31_000.0, "{name}: {row}");
    }
}

/// The answer of a resolver that host 2 is `www.example`, packets to host 2 and fewer to host 3.
fn with_names(dir: &Path) -> PathBuf {
    let question = b"\x03www\x07example\0\0\x01\0\x01";
    let query = [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], question].concat();
    let record = [0xc0_u8, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 0, 2];
    let answer = [&[0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..], question, &record].concat();
    let mut made = Made::default();
    made.ip(0, &udp([1, 53], [5000, 53], &query)).ip(5, &udp([53, 1], [53, 5000], &answer));
    for ms in (10..1000).step_by(10) {
        made.ip(ms, &udp([1, 2], [40_000, 443], &[9; 900]));
        if ms % 100 == 0 {
            made.ip(ms, &udp([1, 3], [40_000, 443], &[9; 900]));
        }
    }
    made.write(dir, "names.pcap")
}

#[test]
fn names_are_those_of_answers_in_the_capture_and_only_on_request() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = with_names(dir.path());
    let names = |more: &[&str]| {
        let found = rows(&file, &[&["--by", "destination"][..], more].concat());
        let text = |row: &Value, name: &str| row[name].as_str().map(str::to_owned);
        found.iter().map(|row| (text(row, "name"), text(row, "named"))).collect::<Vec<_>>()
    };
    let pair = |name: &str, named: Option<&str>| (Some(name.to_owned()), named.map(str::to_owned));
    let all = [pair("10.0.0.2", Some("www.example")), pair("10.0.0.3", None), pair("10.0.0.53", None)];
    assert_eq!(names(&["--show-names"]), all);
    assert_eq!(names(&["--show-names", "--match", "WWW.EXA"]), all[..1]);
    assert_eq!(names(&[])[0], pair("10.0.0.2", None));
    assert!(names(&["--match", "www.exa"]).is_empty());
    // The port of the source is no service.
    let text = top(&file, &["--show-names", "-q"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("udp 10.0.0.1:40000 → www.example:"), "{text}");
    let has_service = std::fs::read_to_string("/etc/services")
        .is_ok_and(|list| list.lines().any(|line| line.split_whitespace().take(2).eq(["https", "443/udp"])));
    if has_service {
        assert!(text.contains("→ www.example:https"), "{text}");
    }
}

#[test]
fn a_key_shows_names_on_the_screen() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = with_names(dir.path()).display().to_string();
    let mut python = Command::new("python3");
    python.args([TERMINAL, "key:nbwq", "10.0.0.2", QUAFF, "flows", "top", "--by", "destination"]);
    let Ok(done) = python.args(["--bars", "log", "--interval", "100ms", "--read", &file]).output() else {
        return skip(test_name!(), "there is no python3");
    };
    let state: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!((state["code"].as_i64(), &state["restored"]), (Some(0), &true.into()), "{state}");
    let text = state["text"].as_str().expect("text");
    // The cells that change follow each other: the largest row has a bar as wide as the screen.
    assert!(text.contains("www.example"), "{text}");
}
