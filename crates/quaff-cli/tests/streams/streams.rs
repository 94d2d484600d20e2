//! `quaff streams`: files and their index, one connection as text, gaps, limits, and files that are in the way.

use crate::capture::{ACK, Capture, SYN};
use crate::support::{QUAFF, folder};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const CLIENT_NAME: &str = "010.000.000.001.04711-010.000.000.002.00080";
const SERVER_NAME: &str = "010.000.000.002.00080-010.000.000.001.04711";

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).arg("streams").args(args).output().expect("quaff runs")
}

fn code(done: &Output) -> i32 {
    done.status.code().unwrap_or(-1)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `quaff streams extract --read INPUT --dir DIR/out ARGS --json`: exit status and sums.
#[track_caller]
fn extract(dir: &TempDir, input: &str, args: &[&str]) -> (i32, Value) {
    let out = dir.path().join("out").display().to_string();
    let done = quaff(&[&["extract", "--read", input, "--dir", &out, "--json"], args].concat());
    let json = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    (code(&done), json)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

fn index(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("index.jsonl")).expect("an index");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn each_side_has_a_file_and_ports_that_are_used_again_another_one() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection(100, b"GET /\r\n", b"200 OK\r\n");
    capture.connection(70_000, b"GET /again\r\n", b"");
    let (code, sums) = extract(&dir, &capture.write(&dir), &[]);
    let out = dir.path().join("out");
    let again = format!("{CLIENT_NAME}.000002");
    assert_eq!(names(&out), [CLIENT_NAME, &again, SERVER_NAME, "index.jsonl"]);
    let read = |name: &str| std::fs::read(out.join(name)).expect("a file");
    assert_eq!(
        [read(CLIENT_NAME), read(&again), read(SERVER_NAME)],
        [b"GET /\r\n".to_vec(), b"GET /again\r\n".to_vec(), b"200 OK\r\n".to_vec()]
    );
    assert_eq!(out.join(CLIENT_NAME).metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let lines = index(&out);
    assert_eq!((lines[0]["number"].clone(), lines[1]["number"].clone()), (1.into(), 2.into()));
    for (line, closed) in lines.iter().zip(["reused", "closed"]) {
        assert_eq!((&line["client"], &line["client_port"]), (&"10.0.0.1".into(), &4711.into()));
        assert_eq!((&line["opened"], &line["closed"]), (&"handshake".into(), &closed.into()));
        assert_eq!(line["from_client"]["end"], "fin");
    }
    assert_eq!(lines[0]["first_ns"], 1_000_000_000);
    assert_eq!(lines[0]["last_ns"], 1_006_000_000);
    assert_eq!(
        (&lines[1]["from_client"]["file"], &lines[1]["from_server"]["file"]),
        (&again.into(), &Value::Null)
    );
    assert_eq!(
        (code, &sums["verdict"], &sums["files"], &sums["file_bytes"]),
        (0, &"lossless".into(), &3.into(), &27.into())
    );
}

#[test]
fn a_gap_is_nothing_in_the_file_and_a_place_in_the_index() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection_with_gap();
    let input = capture.write(&dir);
    let (code, sums) = extract(&dir, &input, &[]);
    assert_eq!((code, &sums["verdict"]), (1, &"lossy".into()));
    assert_eq!(sums["gaps"]["acknowledged"], serde_json::json!({ "count": 1, "bytes": 10 }));
    let out = dir.path().join("out");
    assert_eq!(std::fs::read(out.join(CLIENT_NAME)).unwrap(), b"first\nthird\n");
    let side = &index(&out)[0]["from_client"];
    let gap = serde_json::json!({ "offset": 6, "bytes": 10, "file_offset": 6, "cause": "acknowledged" });
    assert_eq!(side["gaps"], Value::Array(vec![gap]));
    assert_eq!(
        (&side["bytes"], &side["stream_bytes"], &side["gap_bytes"]),
        (&12.into(), &22.into(), &10.into())
    );
    assert_eq!(side["end"], "open");
    // The words of the same run.
    let done = quaff(&["extract", "--read", &input, "--dir", &out.display().to_string(), "--overwrite"]);
    let words = text(&done.stderr);
    assert!(words.contains("missing 10 B in 1 gap: acknowledged by the receiver"), "{words}");
}

#[test]
fn overlaps_with_different_bytes_are_evidence_and_the_policy_decides() {
    for (policy, expected) in
        [("first", b"abcdXYZ!"), ("last", b"abcdxyz!"), ("10.0.0.2/32=last", b"abcdxyz!")]
    {
        let dir = folder();
        let mut capture = Capture::new();
        capture.client(SYN, [99, 0], b"");
        capture.server(SYN | ACK, [99, 100], b"");
        capture.client(ACK, [104, 100], b"XYZ!");
        capture.client(ACK, [104, 100], b"xyz!");
        capture.client(ACK, [100, 100], b"abcd");
        let (code, sums) = extract(&dir, &capture.write(&dir), &["--policy", policy]);
        assert_eq!((code, &sums["differences"]), (0, &1.into()), "{policy}");
        let out = dir.path().join("out");
        assert_eq!(std::fs::read(out.join(CLIENT_NAME)).unwrap(), expected, "{policy}");
        let difference = &index(&out)[0]["from_client"]["differences"][0];
        let kept = if expected == b"abcdXYZ!" { "first" } else { "second" };
        assert_eq!(
            (&difference["offset"], &difference["bytes"], &difference["kept"]),
            (&4.into(), &3.into(), &kept.into())
        );
        assert_eq!((&difference["first"], &difference["second"]), (&"58595a".into(), &"78797a".into()));
    }
}

#[test]
fn files_that_are_there_are_refused_or_replaced_and_never_written_through() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection(100, b"new", b"");
    let input = capture.write(&dir);
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "kept").unwrap();
    symlink(&victim, out.join(CLIENT_NAME)).unwrap();
    let path = out.display().to_string();
    let run = |args: &[&str]| quaff(&[&["extract", "--read", &input, "--dir", &path], args].concat());
    let done = run(&[]);
    let words = text(&done.stderr);
    assert!(code(&done) == 2 && words.contains("exists") && words.contains("--overwrite"), "{words}");
    // Now the index is there too, and nothing is read.
    let done = run(&[]);
    assert!(code(&done) == 2 && text(&done.stderr).contains("index.jsonl exists"), "{done:?}");
    let done = run(&["--overwrite"]);
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(!out.join(CLIENT_NAME).is_symlink());
    assert_eq!(std::fs::read(out.join(CLIENT_NAME)).unwrap(), b"new");
    assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
}

#[test]
fn more_streams_than_open_files_and_buffers_are_whole() {
    const CONNECTIONS: u16 = 600;
    let dir = folder();
    let mut capture = Capture::new();
    let piece = |port: u16, round: u32| vec![(port as u8) ^ (round as u8); 1400];
    for port in 0..CONNECTIONS {
        capture.client.1 = 10_000 + port;
        capture.client(SYN, [99, 0], b"");
        capture.server(SYN | ACK, [99, 100], b"");
    }
    // More than a buffer of each stream: every file is opened, closed for others, and opened again.
    const ROUNDS: u32 = 100;
    for round in 0..ROUNDS {
        for port in 0..CONNECTIONS {
            capture.client.1 = 10_000 + port;
            capture.client(ACK, [100 + round * 1400, 100], &piece(port, round));
            capture.server(ACK, [100, 100 + (round + 1) * 1400], b"");
        }
    }
    let (code, sums) = extract(&dir, &capture.write(&dir), &[]);
    assert_eq!((code, &sums["files"]), (0, &u64::from(CONNECTIONS).into()), "{sums}");
    for port in 0..CONNECTIONS {
        let name = format!("010.000.000.001.{:05}-010.000.000.002.00080", 10_000 + port);
        let expected: Vec<u8> = (0..ROUNDS).flat_map(|round| piece(port, round)).collect();
        assert!(std::fs::read(dir.path().join("out").join(&name)).unwrap() == expected, "{name}");
    }
}

#[test]
fn streams_beyond_the_limit_of_files_are_missing_and_counted() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection(100, b"one", b"two");
    capture.client.1 = 4712;
    capture.connection(100, b"three", b"");
    let (code, sums) = extract(&dir, &capture.write(&dir), &["--max-files", "2"]);
    assert_eq!(
        (code, &sums["files"], &sums["files_refused"], &sums["skipped_bytes"]),
        (1, &2.into(), &1.into(), &5.into())
    );
    let lines = index(&dir.path().join("out"));
    assert_eq!(
        (&lines[1]["from_client"]["file"], &lines[1]["from_client"]["skipped_bytes"]),
        (&Value::Null, &5.into())
    );
}

#[test]
fn a_cut_off_and_a_filter_leave_out_what_was_not_asked_for() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection(100, b"0123456789", b"answer");
    capture.client.1 = 4712;
    capture.connection(100, b"other", b"");
    let (code, sums) =
        extract(&dir, &capture.write(&dir), &["-f", "port 4711", "--cutoff", "4", "--no-sandbox"]);
    assert_eq!(
        (code, &sums["connections"]["seen"], &sums["bytes"]["beyond_cutoff"]),
        (0, &1.into(), &8.into())
    );
    let out = dir.path().join("out");
    assert_eq!(names(&out).len(), 3);
    assert_eq!(std::fs::read(out.join(CLIENT_NAME)).unwrap(), b"0123");
    assert_eq!(index(&out)[0]["from_client"]["end"], "cutoff");
}

#[test]
fn the_index_can_go_to_stdout() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection(100, b"x", b"");
    let out = dir.path().join("out").display().to_string();
    let done = quaff(&["extract", "--read", &capture.write(&dir), "--dir", &out, "--print-index", "-q"]);
    let line: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!((code(&done), &line["from_client"]["file"]), (0, &CLIENT_NAME.into()));
    assert!(done.stderr.is_empty() && names(Path::new(&out)) == [CLIENT_NAME], "{done:?}");
}

#[test]
fn a_damaged_file_and_a_cut_segment_are_missing_bytes() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection(100, b"one", b"");
    capture.bytes.extend([1; 5]);
    let (code, sums) = extract(&dir, &capture.write(&dir), &[]);
    assert_eq!((code, sums["input"]["damages"].as_array().map(Vec::len)), (1, Some(1)), "{sums}");
    let dir = folder();
    let mut capture = Capture::new();
    capture.client(SYN, [99, 0], b"");
    let frame = capture.segment(true, ACK, [100, 100], b"0123456789");
    capture.frame(&frame[..frame.len() - 6], frame.len());
    let (code, sums) = extract(&dir, &capture.write(&dir), &[]);
    assert_eq!((code, &sums["gaps"]["snapped"]["bytes"]), (1, &6.into()));
}

#[test]
fn one_connection_is_printed_in_the_order_of_its_bytes() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection(100, b"GET /\r\n\x1b]0;title\x07", b"200\r\n\r\n");
    capture.connection(70_000, b"second", b"");
    let input = capture.write(&dir);
    let ends = "tcp 10.0.0.2:80 10.0.0.1:4711";
    let done = quaff(&["follow", &input, ends]);
    let expected = "--- 10.0.0.1:4711 > 10.0.0.2:80  1970-01-01T00:00:01.002000000Z\nGET /\n.]0;title.\n\
                    --- 10.0.0.2:80 > 10.0.0.1:4711  1970-01-01T00:00:01.003000000Z\n200\n\n";
    assert_eq!((code(&done), text(&done.stdout)), (0, expected.to_owned()), "{done:?}");
    assert!(text(&done.stderr).contains("connection 1 of 2"), "{done:?}");
    let raw = |args: &[&str]| quaff(&[&["follow", &input, ends, "--raw", "-q"], args].concat());
    assert_eq!(raw(&[]).stdout, b"GET /\r\n\x1b]0;title\x07200\r\n\r\n");
    assert_eq!(raw(&["--side", "server"]).stdout, b"200\r\n\r\n");
    let second = raw(&["--nth", "2"]);
    assert_eq!((text(&second.stdout), second.stderr.is_empty()), ("second".to_owned(), true));
    let hex = text(&quaff(&["follow", &input, ends, "--hex", "--side", "server"]).stdout);
    assert!(hex.contains("\n00000000  32 30 30 0d 0a 0d 0a "), "{hex}");
    for (args, words) in
        [(&["--nth", "3"][..], "has 2 TCP connections"), (&["-f", "port 81"], "has 0 TCP connections")]
    {
        let none = quaff(&[&["follow", &input, ends], args].concat());
        assert!(code(&none) == 2 && text(&none.stderr).contains(words), "{none:?}");
    }
}

#[test]
fn a_gap_is_a_line_of_its_own_in_text() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection_with_gap();
    let done = quaff(&["follow", &capture.write(&dir), "10.0.0.1:4711 10.0.0.2:80"]);
    let shown = text(&done.stdout);
    assert!(shown.ends_with("Z\nfirst\n--- 10 bytes are missing (acknowledged)\nthird\n"), "{shown}");
    assert_eq!(code(&done), 1);
}

#[test]
fn words_that_make_no_sense_are_refused_with_the_reason() {
    for (args, words) in [
        (&["follow", "in.pcap", "sctp 10.0.0.1:1 10.0.0.2:2"][..], "'sctp' has no streams"),
        (&["follow", "missing.pcap", "10.0.0.1:1 10.0.0.2:2"], "missing.pcap"),
        (&["extract", "--read", "missing.pcap", "--dir", "."], "missing.pcap"),
        (&["extract", "--read", "a", "--dir", ".", "--policy", "plan9"], "hpux11"),
        (&["extract", "--read", "a", "--dir", ".", "--max-files", "0"], "--max-files"),
        (&["extract", "--read", "/dev/null", "--dir", "/missing/folder"], "/missing/folder"),
    ] {
        let done = quaff(args);
        assert!(code(&done) == 2 && text(&done.stderr).contains(words), "{args:?}: {done:?}");
    }
}

#[test]
fn bodies_of_http_have_files_of_their_own() {
    let dir = folder();
    let mut capture = Capture::new();
    let request =
        b"POST /a%20b HTTP/1.1\r\nHost: h.example\r\nContent-Type: text/\xe4\r\nContent-Length: 3\r\n\r\nabc";
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: br\r\n\r\n2\r\nxy\r\n1\r\nz\r\n0\r\n\r\n\
                   HTTP/1.1 404 no\r\nContent-Length: 9\r\n\r\ncut";
    capture.connection(100, request, answer);
    let (code, sums) = extract(&dir, &capture.write(&dir), &["--http-bodies"]);
    let out = dir.path().join("out");
    let [asked, first, second] = [(CLIENT_NAME, 1), (SERVER_NAME, 1), (SERVER_NAME, 2)]
        .map(|(name, message)| format!("{name}.http-{message:06}"));
    assert_eq!(names(&out), [CLIENT_NAME, &asked, SERVER_NAME, &first, &second, "index.jsonl"]);
    let read = |name: &str| std::fs::read(out.join(name)).expect("a file");
    assert_eq!([read(&asked), read(&first), read(&second)], [&b"abc"[..], b"xyz", b"cut"]);
    let line = &index(&out)[0];
    let body = |side: &str, at: usize| line[side]["bodies"][at].clone();
    assert_eq!(
        body("from_client", 0),
        serde_json::json!({
            "message": 1, "file": asked, "bytes": 3, "lost_bytes": 0, "whole": true, "status": null, "method": "POST",
            "host": "h.example", "target": "/a%20b", "content_type": "text/%E4", "content_encoding": "",
        })
    );
    let [one, other] = [0, 1].map(|at| body("from_server", at));
    assert_eq!(
        (&one["status"], &one["target"], &one["content_encoding"]),
        (&200.into(), &"/a%20b".into(), &"br".into())
    );
    assert_eq!((&one["whole"], &other["whole"], &other["method"]), (&true.into(), &false.into(), &"".into()));
    assert_eq!(line["from_server"]["bodies_unlisted"], 0);
    assert_eq!(
        (code, &sums["bodies"]),
        (0, &serde_json::json!({"files": 3, "bytes": 9, "cut": 1, "refused": 0}))
    );
    std::fs::remove_dir_all(&out).expect("the folder goes");
    let (code, sums) = extract(&dir, &capture.write(&dir), &["--http-bodies", "--max-files", "3"]);
    assert_eq!(
        (code, &sums["files"], &sums["bodies"]["files"], &sums["bodies"]["refused"]),
        (1, &2.into(), &1.into(), &2.into())
    );
}
