//! The outputs of `quaff flows` and `quaff nprobe`: none destroys a file, a failure is reported, and no right is kept.

use crate::made::{BEGIN_NS, Made, SECOND, connections, udp};
use quaff_os::Signal;
use quaff_testkit::{copy_program, skip, test_name};
use quaff_testpackets as build;
use serde_json::Value;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).output().expect("quaff runs")
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// `quaff ARGS` with a redirection, by a shell; `$1` is `file`.
fn redirected(args: &str, file: &str) -> Output {
    let line = format!("set -o pipefail; \"$0\" {args}");
    Command::new("bash").args(["-c", &line, QUAFF, file]).output().expect("bash runs")
}

#[test]
fn nothing_is_written_over_what_is_read_or_twice_into_one_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = connections().write(dir.path(), "connections.pcap");
    let before = std::fs::read(&path).expect("the file");
    let file = path.display().to_string();
    let other = dir.path().join("other").display().to_string();
    for args in [
        "flows --read \"$1\" --ledger \"$1\" -q",
        "flows --read \"$1\" --csv \"$1\" -q",
        "flows --read \"$1\" --jsonl - 1<>\"$1\"",
        &format!("flows --read \"$1\" --jsonl {other} --csv {other}"),
        &format!("flows --read \"$1\" --jsonl {other} --ledger {other}"),
        "flows --read \"$1\" --jsonl - >&-",
    ] {
        let done = redirected(args, &file);
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && !text.is_empty(), "{args}: {done:?}");
        assert_eq!(std::fs::read(&path).expect("the file"), before, "{args}");
    }
    // A device takes what comes.
    let done = quaff(&["flows", "--read", &file, "--jsonl", "/dev/null", "--csv", "/dev/null", "-q"]);
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn an_output_that_fails_is_reported_and_one_that_is_closed_ends_the_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut made = Made::default();
    for number in 0..3000u64 {
        made.ip(number / 100, &udp([number as u16, 53], 4));
    }
    let file = made.write(dir.path(), "many.pcap").display().to_string();
    let done = redirected("flows --read \"$1\" --jsonl - -q | head -c 1", &file);
    assert!(done.status.code() == Some(0) && done.stderr.is_empty(), "{done:?}");
    let done = quaff(&["flows", "--read", &file, "--ipfix", "/dev/full", "-q"]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && text.contains("/dev/full"), "{done:?}");
    // One of two: the other has all.
    let done = quaff(&["flows", "--read", &file, "--csv", "/dev/full", "--jsonl", "/dev/null", "-q"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("/dev/full"), "{done:?}");
}

#[test]
fn without_a_collector_nothing_is_called_lossless() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = connections().write(dir.path(), "connections.pcap").display().to_string();
    // An address of loopback that nothing uses, and a port that the kernel gives to nothing.
    let [udp, tcp] = ["udp", "tcp"].map(|scheme| format!("{scheme}://127.71.16.1:24739"));
    let spool = dir.path().join("spool").display().to_string();
    for args in [&["-n", &udp][..], &["-n", &tcp, "--spool", &spool]] {
        let done = quaff(&[&["flows", "--read", &file, "--ledger", "-", "-q"], args].concat());
        let ledger: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!((done.status.code(), &ledger["verdict"]), (Some(1), &"unknown".into()), "{ledger}");
        assert!(!done.stderr.is_empty(), "{done:?}");
    }
}

/// Several messages leave by one call, which takes no address: its sandbox refuses those that do.
#[test]
fn messages_leave_together_by_a_confined_process() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut made = Made::default();
    for number in 0..3000u64 {
        made.ip(number / 100, &udp([number as u16, 53], 4));
    }
    let file = made.write(dir.path(), "many.pcap").display().to_string();
    let collector = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = format!("udp://{}", collector.local_addr().expect("an address"));
    let receiving = std::thread::spawn(move || {
        collector.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let mut message = [0; 65_536];
        // RFC 7011, section 3.1: the length of a message is in its header.
        std::iter::from_fn(|| {
            collector.recv(&mut message).ok().map(|length| (length, message[2..4].to_vec()))
        })
        .take_while(|(length, _)| *length > 1)
        .all(|(length, header)| header == (length as u16).to_be_bytes())
    });
    let done = quaff(&["flows", "--read", &file, "-n", &to, "--ledger", "-", "-q"]);
    let end = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    end.send_to(b"x", to.trim_start_matches("udp://")).expect("sent");
    assert!(receiving.join().expect("messages"), "each datagram is one message");
    let ledger: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(ledger["sandbox"]["refused_calls"], 0, "{ledger}");
    assert_eq!(number(&ledger["sinks"][0]["sent"], "packets"), 3000, "{ledger}");
}

#[test]
fn a_log_of_connections_has_its_columns() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = connections().write(dir.path(), "connections.pcap").display().to_string();
    let done = quaff(&["flows", "--read", &file, "--zeek", "-", "-q"]);
    let text = String::from_utf8(done.stdout).expect("text");
    let fields = text.lines().find_map(|line| line.strip_prefix("#fields\t")).expect("names");
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    for name in ["orig_bytes", "resp_bytes", "missed_bytes"] {
        let at = fields.split('\t').position(|field| field == name).expect(name);
        assert!(
            lines().any(|line| line.split('\t').nth(at).is_some_and(|value| value != "-")),
            "{name} in\n{text}"
        );
    }
}

#[test]
fn nprobe_has_a_help_also_after_other_options() {
    for args in
        [&["nprobe", "-h"][..], &["nprobe", "-i", "eth0", "--help"], &["tcpreplay", "-i", "eth0", "-h"]]
    {
        let done = quaff(args);
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && text.contains("Usage: quaff") && done.stderr.is_empty(),
            "{args:?}: {done:?}"
        );
    }
}

#[test]
fn a_template_of_unknown_names_is_the_default_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = connections().write(dir.path(), "connections.pcap").display().to_string();
    let done = quaff(&["nprobe", "--dry-run", "-i", &path, "-n", "none", "-T", "%BOGUS"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("Unable to locate template 'BOGUS'") && !text.contains(" -T"), "{done:?}");
    let done = quaff(&["nprobe", "--dry-run", "-i", &path, "-n", "none", "-T", "%IN_BYTES @NTOPNG@"]);
    assert!(String::from_utf8_lossy(&done.stdout).contains("@NTOPNG@"), "{done:?}");
}

/// As `quaff nprobe <(printf …)`: the options can be read once.
#[test]
fn options_of_nprobe_may_come_from_a_pipe() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = connections().write(dir.path(), "connections.pcap").display().to_string();
    let line = "\"$0\" nprobe --dry-run <(printf -- '-i=%s\\n-n=none\\n' \"$1\")";
    let done = Command::new("bash").args(["-c", line, QUAFF, &path]).output().expect("bash runs");
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("--read"), "{done:?}");
}

#[test]
fn a_run_that_cannot_start_leaves_old_files_as_they_are() {
    let test = test_name!();
    let dir = tempfile::tempdir().expect("a folder");
    if dir.path().metadata().expect("a folder").uid() != 0 {
        return skip(test, "not root: rights cannot be given away");
    }
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("a mode");
    // A copy that any user can reach: the build folder may be closed to others.
    let program = dir.path().join("quaff");
    copy_program(QUAFF, &program);
    let old = dir.path().join("old");
    std::fs::write(&old, b"old").expect("a file");
    std::fs::set_permissions(&old, Permissions::from_mode(0o666)).expect("a mode");
    let mut flows = Command::new(program);
    flows.args(["flows", "-i", "lo", "--jsonl"]).arg(&old).uid(65_534).gid(65_534);
    let done = flows.output().expect("quaff runs");
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert_eq!(std::fs::read(&old).expect("the file"), b"old");
}

/// Outputs are emptied after all of them could be opened.
#[test]
fn a_ledger_that_cannot_be_written_leaves_old_files_as_they_are() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = connections().write(dir.path(), "connections.pcap").display().to_string();
    let [old, ledger] = ["old", "nowhere/ledger"].map(|name| dir.path().join(name).display().to_string());
    for _ in 0..5 {
        std::fs::write(&old, b"old").expect("a file");
        let done = quaff(&["flows", "--read", &file, "--jsonl", &old, "--ledger", &ledger]);
        assert!(String::from_utf8_lossy(&done.stderr).contains(&ledger), "{done:?}");
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        assert_eq!(std::fs::read(&old).expect("the file"), b"old");
    }
}

/// The first bytes of a pcap file with ns, and a packet of its own flow each `step_ms`, for ever.
fn endless(step_ms: u64) -> impl Iterator<Item = Vec<u8>> {
    let header = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    let packets = (0u64..).map(move |number| {
        let frame = build::ethernet(&[], 0x0800, &udp([number as u16, 53], 4));
        let (time_ns, len) = (BEGIN_NS + number * step_ms * 1_000_000, frame.len() as u32);
        let words = [(time_ns / SECOND) as u32, (time_ns % SECOND) as u32, len, len];
        [words.map(u32::to_le_bytes).concat(), frame].concat()
    });
    std::iter::once(header).chain(packets)
}

#[test]
fn a_reader_that_leaves_ends_a_run_without_loss() {
    let dir = tempfile::tempdir().expect("a folder");
    let ledger = dir.path().join("ledger");
    let mut running = Command::new(QUAFF)
        .args(["flows", "--read", "-", "--jsonl", "-", "--idle", "5ms", "--ledger"])
        .arg(&ledger)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("quaff runs");
    let mut stdin = running.stdin.take().expect("a pipe");
    // As `| head -c 100`; the input would never end.
    let mut stdout = running.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || stdout.read_exact(&mut [0; 100]).expect("records"));
    let given = endless(1).map_while(|bytes| stdin.write_all(&bytes).ok()).count();
    assert!(given > 100);
    reader.join().expect("a reader");
    let status = running.wait().expect("the end");
    let ledger: Value = serde_json::from_slice(&std::fs::read(&ledger).expect("a ledger")).expect("JSON");
    assert_eq!((status.code(), &ledger["ended_by"]), (Some(0), &"output_closed".into()), "{ledger}");
    assert_eq!((&ledger["verdict"], &ledger["failure"]), (&"lossless".into(), &Value::Null), "{ledger}");
    assert!(ledger["notes"].to_string().contains("its reader left"), "{ledger}");
}

#[test]
fn a_reader_that_stands_still_is_left_behind_at_the_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let ledger = dir.path().join("ledger");
    let mut running = Command::new(QUAFF)
        .args(["flows", "--read", "-", "--jsonl", "-", "--idle", "5ms", "--queue", "2000", "--ledger"])
        .arg(&ledger)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("quaff runs");
    let mut stdin = running.stdin.take().expect("a pipe");
    let (fed, is_fed) = std::sync::mpsc::channel();
    let feeder = std::thread::spawn(move || {
        for (number, bytes) in endless(1).enumerate() {
            if stdin.write_all(&bytes).is_err() {
                return;
            }
            // Many more records than the pipe has room for.
            if number == 50_000 {
                fed.send(()).expect("a receiver");
            }
        }
    });
    is_fed.recv().expect("quaff reads");
    // With the first record the lane has begun; more of them than the pipe and the queue hold take it some ms.
    running.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("a record");
    std::thread::sleep(Duration::from_secs(2));
    let asked = Instant::now();
    let kill = Command::new("kill").args(["-TERM", &running.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    while running.try_wait().expect("a child").is_none() {
        // It waits once for 10 s in which nothing is taken, and then for what the sink still writes.
        assert!(asked.elapsed() < Duration::from_secs(25), "the end waits for a reader that stands still");
        std::thread::sleep(Duration::from_millis(50));
    }
    feeder.join().expect("the feeder");
    let done = running.wait_with_output().expect("the end");
    let text = String::from_utf8_lossy(&done.stderr);
    let ledger = std::fs::read(&ledger).unwrap_or_else(|error| panic!("no ledger: {error}; {done:?}"));
    let ledger: Value = serde_json::from_slice(&ledger).expect("JSON");
    assert_eq!((done.status.code(), &ledger["verdict"]), (Some(1), &"lossy".into()), "{ledger}");
    assert!(text.contains("until nothing is taken for 10 s"), "{text}");
    let missed = ledger["sinks"][0]["missed"].as_object().expect("reasons").values();
    let missed: u64 = missed.map(|reason| number(reason, "packets")).sum();
    let sent = number(&ledger["sinks"][0]["sent"], "packets");
    assert!(missed > 0, "{ledger}");
    assert_eq!(
        sent + missed + number(&ledger["missed"], "packets"),
        number(&ledger, "packets_in_flows"),
        "{ledger}"
    );
}

/// The start waits for the writer of a pipe; a signal comes, and then the writer.
#[test]
fn a_run_that_a_signal_ended_during_its_start_has_a_ledger() {
    let dir = tempfile::tempdir().expect("a folder");
    let [fifo, ledger] = ["fifo", "ledger"].map(|name| dir.path().join(name));
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let mut running = Command::new(QUAFF);
    running.args(["flows", "--csv", "/dev/null", "--read"]).arg(&fifo).arg("--ledger").arg(&ledger);
    let running = running.stderr(Stdio::piped()).spawn().expect("quaff runs");
    let status = format!("/proc/{}/status", running.id());
    let wait_for = |name: &str, is_set: bool| {
        let begun = Instant::now();
        let mask = || {
            let status = std::fs::read_to_string(&status).expect("a process");
            let mask = status.lines().find_map(|line| line.strip_prefix(name)).expect("a mask").trim();
            u64::from_str_radix(mask, 16).expect("a mask")
        };
        while (mask() >> (Signal::SIGTERM as u32 - 1) & 1 == 1) != is_set {
            assert!(begun.elapsed() < Duration::from_secs(20), "{name} of SIGTERM is not {is_set}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait_for("SigBlk:", true);
    quaff_os::process::send(running.id(), Signal::SIGTERM).expect("a signal");
    wait_for("ShdPnd:", false);
    // Opened for both, a pipe does not wait for its other end.
    let writer = std::fs::File::options().read(true).write(true).open(&fifo).expect("a pipe");
    let done = running.wait_with_output().expect("the end");
    drop(writer);
    let ledger = std::fs::read(&ledger).unwrap_or_else(|error| panic!("no ledger: {error}; {done:?}"));
    let ledger: Value = serde_json::from_slice(&ledger).expect("JSON");
    assert_eq!((done.status.code(), &ledger["ended_by"]), (Some(0), &"signal".into()), "{ledger}");
}

#[test]
fn files_that_take_nothing_fail_and_quiet_runs_say_why() {
    let dir = tempfile::tempdir().expect("a folder");
    connections().write(dir.path(), "in.pcap");
    for (args, code, words) in [
        ("--csv /dev/full", 2, "/dev/full missed"),
        ("--csv /dev/full --jsonl x", 1, "/dev/full missed"),
        ("--csv x", 0, ""),
    ] {
        for quiet in ["-q", "-qq"] {
            let args = format!("flows --read in.pcap {quiet} {args}");
            let done = Command::new(QUAFF)
                .args(args.split(' '))
                .current_dir(dir.path())
                .output()
                .expect("quaff runs");
            let text = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.code() == Some(code) && text.contains(words), "{args}: {done:?}");
            assert_eq!(text.is_empty(), words.is_empty(), "{text}");
        }
    }
}

/// The first field of the records in NetFlow v9 messages whose template is FIRST_SWITCHED and LAST_SWITCHED.
fn first_switched(messages: &[Vec<u8>]) -> Vec<u32> {
    let word = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (mut numbers, mut found) = (Vec::new(), Vec::new());
    for message in messages {
        let mut at = 20;
        while at + 4 <= message.len() {
            let (id, len) = (word(message, at), usize::from(word(message, at + 2)));
            let set = &message[at + 4..at + len];
            if id == 0 && set.windows(10).any(|bytes| bytes[2..] == [0, 2, 0, 22, 0, 4, 0, 21]) {
                let of = set.windows(10).find(|bytes| bytes[2..] == [0, 2, 0, 22, 0, 4, 0, 21]);
                numbers.extend(of.map(|bytes| word(bytes, 0)));
            }
            if numbers.contains(&id) {
                let records = set.chunks_exact(8);
                found.extend(
                    records.map(|record| u32::from_be_bytes([record[0], record[1], record[2], record[3]])),
                );
            }
            at += len.max(4);
        }
    }
    found
}

#[test]
fn no_flow_begins_at_the_start_of_the_exporter() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = connections().write(dir.path(), "in.pcap").display().to_string();
    let collector = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let url = format!("udp://{}", collector.local_addr().expect("an address"));
    let template = "%FIRST_SWITCHED %LAST_SWITCHED";
    let done = quaff(&["flows", "--read", &path, "-n", &url, "-V", "9", "-T", template]);
    assert!(done.status.success(), "{done:?}");
    collector.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 2000];
    let messages =
        std::iter::from_fn(|| collector.recv(&mut buffer).ok().map(|bytes| buffer[..bytes].to_vec()));
    let first = first_switched(&messages.collect::<Vec<_>>());
    // Readers such as nfcapd take 0 for no time.
    assert!(!first.is_empty() && first.iter().all(|ms| *ms >= 1000), "{first:?}");
}

#[test]
fn a_meter_keeps_no_rights_and_still_reaches_its_collector() {
    let dir = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let url = format!("tcp://{}", listener.local_addr().expect("an address"));
    let ledger = dir.path().join("ledger");
    let mut running = Command::new(QUAFF)
        .args(["flows", "--read", "-", "-n", &url, "--ledger"])
        .arg(&ledger)
        .stdin(Stdio::piped())
        .spawn()
        .expect("quaff runs");
    let mut stdin = running.stdin.take().expect("a pipe");
    for bytes in endless(1).take(100) {
        stdin.write_all(&bytes).expect("written");
    }
    stdin.flush().expect("written");
    let status = format!("/proc/{}/status", running.id());
    let begun = Instant::now();
    let has_none = |status: &str| status.lines().any(|line| line == "CapPrm:\t0000000000000000");
    while !std::fs::read_to_string(&status).is_ok_and(|text| has_none(&text)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it keeps its capabilities");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stdin);
    listener.set_nonblocking(true).expect("a socket");
    let mut collector = loop {
        match listener.accept() {
            Ok((collector, _)) => break collector,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "no connection: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut bytes = Vec::new();
    collector.read_to_end(&mut bytes).expect("messages");
    assert!(running.wait().expect("the end").success());
    let ledger: Value = serde_json::from_slice(&std::fs::read(&ledger).expect("a ledger")).expect("JSON");
    assert_eq!(number(&ledger["sinks"][0]["sent"], "packets"), 99, "{ledger}");
    assert_eq!(ledger["sandbox"]["capabilities"], Value::Array(Vec::new()), "{ledger}");
}

/// Through a gateway, on an own link, into a black hole, and without a route.
#[test]
fn next_hops_are_those_of_the_kernel_of_this_namespace() {
    let Some(lab) = quaff_testkit::lab(test_name!()) else { return };
    for words in [
        "address add 192.0.2.7/24 dev rx0",
        "route add 198.51.100.0/24 via 192.0.2.1",
        "route add blackhole 198.51.100.128/25",
    ] {
        let mut ip = lab.rx.command("ip").expect("a command in the lab");
        let done = ip.args(words.split(' ')).output().expect("ip runs");
        assert!(done.status.success(), "ip {words}: {done:?}");
    }
    let mut made = Made::default();
    for (ms, to) in
        [[192, 0, 2, 9], [198, 51, 100, 1], [198, 51, 100, 200], [203, 0, 113, 1]].iter().enumerate()
    {
        let datagram = build::udp(1, 2, &[0; 8]);
        made.ip(ms as u64, &build::ipv4([10, 0, 0, 1].into(), (*to).into(), 17, &[], &datagram));
    }
    let dir = tempfile::tempdir().expect("a folder");
    let file = made.write(dir.path(), "made.pcap").display().to_string();
    let hops = |more: &[&str]| -> Vec<(String, Option<String>)> {
        let mut quaff = lab.rx.command(QUAFF).expect("a command in the lab");
        quaff.args(["flows", "--read", &file, "--jsonl", "-", "-q", "-T", "%IPV4_DST_ADDR %IPV4_NEXT_HOP"]);
        let done = quaff.args(more).output().expect("quaff runs");
        assert!(done.status.success(), "{done:?}");
        let text = String::from_utf8(done.stdout).expect("a text");
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        let field = |record: &Value, name: &str| record[name].as_str().map(str::to_owned);
        let hop = |record: Value| {
            let to = field(&record, "destinationIPv4Address").expect("an address");
            (to, field(&record, "ipNextHopIPv4Address"))
        };
        let mut hops: Vec<_> = records.map(hop).collect();
        hops.sort();
        hops
    };
    let expected = [
        ("192.0.2.9", None),
        ("198.51.100.1", Some("192.0.2.1")),
        ("198.51.100.200", None),
        ("203.0.113.1", None),
    ];
    let expected = expected.map(|(to, hop)| (to.to_owned(), hop.map(str::to_owned)));
    assert_eq!(hops(&["--next-hop"]), expected);
    assert!(hops(&[]).iter().all(|(_, hop)| hop.is_none()), "nothing is asked without it");
}

#[test]
fn nprobe_leaves_out_a_template_of_unknown_fields_and_reads_a_file_of_options() {
    let dir = tempfile::tempdir().expect("a folder");
    let done = quaff(&["nprobe", "--dry-run", "-i", "eth7", "-T", "%BOGUS"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("Unable to locate template 'BOGUS'. Discarded."), "{text}");
    assert_eq!(text.lines().last(), Some("quaff flows -i eth7 -n udp://127.0.0.1:2055 -V 9"), "{text}");
    let file = dir.path().join("options");
    std::fs::write(&file, "--interface eth7\n-V 10\n-T \"@NTOPNG@ %IN_BYTES\"\n").expect("written");
    let done = quaff(&["nprobe", "--dry-run", &file.display().to_string()]);
    let text = String::from_utf8_lossy(&done.stdout);
    let line = "quaff flows -i eth7 -n udp://127.0.0.1:2055 -V 10 -T '@NTOPNG@ %IN_BYTES'";
    assert_eq!((text.trim_end(), done.status.code()), (line, Some(0)), "{done:?}");
}

#[test]
fn json_is_the_report_where_no_records_are_and_with_a_file_the_old_name_of_jsonl() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut made = Made::default();
    made.ip(0, &udp([1, 53], 4));
    let file = made.write(dir.path(), "a.pcap").display().to_string();
    let old = dir.path().join("old.jsonl").display().to_string();
    let report = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("JSON")["packets_in_flows"] == 1;

    let done = quaff(&["flows", "--read", &file, "--json"]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(report(&done.stdout) && text.contains("1 packet in 1 flow"), "{done:?}");
    let done = quaff(&["flows", "--read", &file, "--json", "--csv", "-", "-q"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(report(&done.stderr) && text.lines().count() == 2, "{done:?}");
    let done = quaff(&["flows", "--read", &file, "--json", &old]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.stdout.is_empty() && text.contains("its name is now --jsonl FILE"), "{done:?}");
    assert_eq!(std::fs::read_to_string(&old).expect("records").lines().count(), 1);
}
