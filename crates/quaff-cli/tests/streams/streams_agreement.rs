//! `quaff streams extract` where one packet alone says something else than both ends: files, sums, text, exit status.

use crate::capture::{ACK, Capture, FIN, SYN};
use crate::support::{QUAFF, folder};
use quaff_testpackets::captures;
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

const RST: u8 = 4;
const CLIENT_NAME: &str = "010.000.000.001.04711-010.000.000.002.00080";
const SERVER_NAME: &str = "010.000.000.002.00080-010.000.000.001.04711";

/// The exit status, the sums, and the words of `quaff streams extract` on a file.
fn extract(input: &str, out: &TempDir) -> (i32, Value, String) {
    let dir = out.path().join("out").display().to_string();
    let run = |args: &[&str]| {
        let all = [&["streams", "extract", "--read", input, "--dir", &dir, "--overwrite"], args].concat();
        Command::new(QUAFF).args(all).output().expect("quaff runs")
    };
    let words = String::from_utf8_lossy(&run(&[]).stderr).into_owned();
    let done = run(&["--json"]);
    let sums = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    (done.status.code().unwrap_or(-1), sums, words)
}

/// The capture is lossless, and its files have these texts.
#[track_caller]
fn assert_texts(capture: &Capture, [client, server]: [&str; 2]) {
    let dir = folder();
    let (code, sums, words) = extract(&capture.write(&dir), &dir);
    let read = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name)).unwrap_or_default();
    assert_eq!([read(CLIENT_NAME), read(SERVER_NAME)], [client, server], "{words}");
    assert_eq!((code, &sums["verdict"]), (0, &"lossless".into()), "{sums} {words}");
}

#[test]
fn a_challenge_and_its_reset_change_nothing() {
    let mut capture = Capture::new();
    capture.client(SYN, [99, 0], b"");
    capture.server(ACK, [7, 1_116_180_385], b"");
    capture.client(RST, [1_116_180_385, 0], b"");
    capture.connection(99, b"GET", b"200");
    assert_texts(&capture, ["GET", "200"]);
}

#[test]
fn the_client_decides_which_of_two_answers_counts() {
    for answers in [[500_000, 16_500_000], [16_500_000, 500_000], [1_073_000_000, 500_000]] {
        let mut capture = Capture::new();
        capture.client(SYN, [99, 0], b"");
        answers.iter().for_each(|number| capture.server(SYN | ACK, [*number, 100], b""));
        capture.client(ACK, [100, 500_001], b"");
        capture.client(ACK, [100, 500_001], b"GET");
        capture.server(ACK, [500_001, 103], b"200");
        capture.server(FIN | ACK, [500_004, 103], b"");
        capture.client(FIN | ACK, [103, 500_005], b"");
        assert_texts(&capture, ["GET", "200"]);
    }
}

#[test]
fn the_other_end_names_the_start_of_a_connection_from_before_the_capture() {
    let mut capture = Capture::new();
    capture.server(ACK, [2001, 500], b"def");
    capture.client(ACK, [500, 1998], b"");
    capture.server(ACK, [2004, 500], b"ghi");
    capture.server(ACK, [1998, 500], b"abc");
    capture.client(ACK, [500, 2007], b"");
    assert_texts(&capture, ["", "abcdefghi"]);
}

#[test]
fn a_reset_that_was_ignored_ends_nothing_and_one_that_was_taken_names_what_came_after_it() {
    let capture = |is_taken: bool| {
        let mut capture = Capture::new();
        capture.client(SYN, [99, 0], b"");
        capture.server(SYN | ACK, [499, 100], b"");
        capture.client(ACK, [100, 500], b"GET");
        capture.client(RST | ACK, [103, 500], b"");
        capture.client(ACK, [103, 500], b" / HTTP/1.0");
        if !is_taken {
            capture.server(ACK, [500, 114], b"200");
        }
        capture
    };
    assert_texts(&capture(false), ["GET / HTTP/1.0", "200"]);
    let dir = folder();
    let (code, sums, words) = extract(&capture(true).write(&dir), &dir);
    assert_eq!(
        (code, &sums["verdict"], &sums["bytes"]["after_end"]),
        (1, &"lossy".into(), &11.into()),
        "{sums}"
    );
    assert!(words.contains("11 bytes in no file: after the end of their stream"), "{words}");
}

#[test]
fn the_payload_ends_where_the_length_of_pppoe_does() {
    let mut capture = Capture::new();
    let put = |capture: &mut Capture, is_client, flags, numbers, payload: &[u8], cut: usize| {
        let ip = capture.segment(is_client, flags, numbers, payload).split_off(14);
        let length = (ip.len() - cut + 2) as u16;
        let pppoe = [&[0x11, 0, 0, 1][..], &length.to_be_bytes(), &[0, 0x21], &ip].concat();
        let mut frame = quaff_testpackets::ethernet(&[], 0x8864, &pppoe);
        let at = frame.len() - cut;
        frame[at..].fill(0);
        capture.frame(&frame, frame.len());
    };
    put(&mut capture, true, SYN, [99, 0], b"", 0);
    put(&mut capture, false, SYN | ACK, [499, 100], b"", 0);
    // Six of its bytes are not in the frame: zeros pad it.
    put(&mut capture, false, ACK, [500, 100], b"abcdef", 6);
    put(&mut capture, false, ACK, [500, 100], b"abcdefgh", 0);
    put(&mut capture, true, ACK, [100, 508], b"", 0);
    assert_texts(&capture, ["", "abcdefgh"]);
}

/// Bytes of no file are a loss, and each has a term, a line, or both.
#[test]
fn no_capture_is_lossless_while_bytes_are_in_no_file() {
    let dir = folder();
    let protocols = captures::folder().join("protocols");
    let files: Vec<_> =
        protocols.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    for path in files.iter().filter(|path| path.extension().is_some_and(|end| end != "txt")) {
        let input = path.display().to_string();
        let (code, sums, words) = extract(&input, &dir);
        let of = |name: &str| sums["bytes"][name].as_u64().unwrap_or_else(|| panic!("{name}: {sums}"));
        let names = [
            "duplicate",
            "overlapped",
            "late",
            "before_start",
            "beyond_cutoff",
            "out_of_window",
            "after_end",
        ];
        let named: u64 = names.iter().map(|name| of(name)).sum();
        assert_eq!(of("seen"), of("delivered") + named + of("capped"), "{input}: {sums}");
        let unplaced = of("late") + of("before_start") + of("after_end") + of("out_of_window") - of("probes");
        assert!(unplaced == 0 || code != 0, "{input}: {sums}");
        assert!(unplaced == 0 || words.contains("bytes in no file"), "{input}: {words}");
    }
    assert!(files.len() > 20);
}
