//! Names that an attacker chose, in capture files, of files, of interfaces and in stored results: none of them reaches
//! the terminal, whatever the command.

use crate::support::{PATIENCE, QUAFF, finish, folder, lab_bench, run};
use quaff_bench::testing::{sample_report, sample_service_report};
use quaff_lab::ChildProcess;
use quaff_wire::decode::Item;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Sets the title of a terminal and its colour, turns the text around, and writes a line as quaff writes them.
const EVIL: &str = "x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r\u{85}\u{7f}\nquaff: FORGED";
/// The same within what the kernel takes for an interface: 15 bytes, no white space.
const EVIL_INTERFACE: &str = "e\u{1b}]0;\u{7}\u{202e}\u{9b}`$z";

/// Types of blocks (draft-ietf-opsawg-pcapng, section 11.1).
const SHB: u32 = 0x0a0d_0d0a;
const IDB: u32 = 1;
const ISB: u32 = 5;
const EPB: u32 = 6;

/// Characters that a terminal obeys: C0 but the end of a line and the tab, DEL, C1, directions, separators.
fn is_dangerous(c: char) -> bool {
    let code = u32::from(c);
    let is_control = code < 0x20 && !matches!(c, '\n' | '\t') || (0x7f..=0x9f).contains(&code);
    is_control || matches!(code, 0x61c | 0x200e | 0x200f | 0x2028..=0x202e | 0x2066..=0x206f)
}

/// Asserts that the output is text that a terminal shows as it is, and that no line of it is the attacker's.
#[track_caller]
fn assert_harmless(what: &str, done: &Output) {
    for bytes in [&done.stdout, &done.stderr] {
        let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!text.contains(is_dangerous), "{what}: {text:?}");
        let is_forged = |line: &str| line.starts_with("quaff: FORGED");
        assert!(!text.lines().any(is_forged), "{what}: {text:?}");
    }
}

/// A block of pcapng, little-endian.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len().next_multiple_of(4) + 12) as u32;
    let mut block = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    block.extend(body);
    block.resize(length as usize - 4, 0);
    block.extend(length.to_le_bytes());
    block
}

/// An option whose length field claims `claimed` bytes.
fn option(code: u16, value: &[u8], claimed: usize) -> Vec<u8> {
    let mut option = [code.to_le_bytes(), (claimed as u16).to_le_bytes()].concat();
    option.extend(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

/// The texts that blocks of this kind may have, all of them hostile.
fn texts(codes: &[u16]) -> Vec<u8> {
    let evil = |code: &u16| option(*code, EVIL.as_bytes(), EVIL.len());
    codes.iter().flat_map(evil).collect()
}

fn header() -> Vec<u8> {
    let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    body.extend([1, 0, 0, 0]);
    body.extend(u64::MAX.to_le_bytes());
    // opt_comment, shb_hardware, shb_os, shb_userappl.
    body.extend(texts(&[1, 2, 3, 4]));
    block(SHB, &body)
}

fn interface(more: &[u8]) -> Vec<u8> {
    let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
    // opt_comment, if_name, if_description, if_os, if_hardware.
    body.extend(texts(&[1, 2, 3, 12, 15]));
    let filter = [&[0], EVIL.as_bytes()].concat();
    body.extend(option(11, &filter, filter.len()));
    body.extend(more);
    block(IDB, &body)
}

fn packet(number: u64, bytes: &[u8]) -> Vec<u8> {
    let time_us = 1_700_000_000_000_000 + number * 1000;
    let mut body = 0u32.to_le_bytes().to_vec();
    body.extend(((time_us >> 32) as u32).to_le_bytes());
    body.extend((time_us as u32).to_le_bytes());
    body.extend([(bytes.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat());
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(texts(&[1]));
    block(EPB, &body)
}

/// Counters: `filteraccept` and `usrdeliv`.
fn statistics(packets: u64) -> Vec<u8> {
    let mut body = vec![0; 12];
    for code in [6, 8] {
        body.extend(option(code, &packets.to_le_bytes(), 8));
    }
    body.extend(texts(&[1]));
    block(ISB, &body)
}

/// The frames of `quaff generate LINE`.
fn frames(dir: &Path, line: &str) -> Vec<Vec<u8>> {
    let file = dir.join("frames.pcap");
    let mut command = Command::new(QUAFF);
    run(command.args(["generate", "-w"]).arg(&file).args(line.split_whitespace()));
    let mut read = quaff_file::read::CaptureFile::open(&file).expect("our file");
    let mut frames = Vec::new();
    let mut each = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            frames.push(frame.data.to_vec());
        }
    };
    while read.pull(&mut each).expect("our file") {}
    frames
}

/// A file with hostile texts wherever pcapng has texts, counters that contradict its packets, and a hostile name.
fn hostile(dir: &Path) -> String {
    let mut file = [header(), interface(&[]), statistics(0)].concat();
    for (number, bytes) in (0..).zip(frames(dir, "--erspan 3 --pps 1k --count 10")) {
        file.extend(packet(number, &bytes));
    }
    file.extend(statistics(99));
    let path = dir.join(format!("{EVIL}.pcapng"));
    std::fs::write(&path, file).expect("written");
    path.display().to_string()
}

/// Files whose lengths lie, each in another place.
fn liars(dir: &Path) -> Vec<String> {
    let option_beyond = option(2, EVIL.as_bytes(), 0xfff0);
    let mut long_packet = packet(0, &[0; 60]);
    long_packet[20..24].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let mut long_block = block(EPB, &[0; 40]);
    long_block[4..8].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let resolution = option(9, &[9; 8], 8);
    let files = [
        [header(), interface(&option_beyond)].concat(),
        [header(), interface(&[]), long_packet].concat(),
        [header(), interface(&[]), long_block].concat(),
        [header(), interface(&resolution)].concat(),
        [header(), interface(&[]), packet(0, &[0; 60])[..40].to_vec()].concat(),
    ];
    let put = |(number, bytes): (usize, &Vec<u8>)| {
        let path = dir.join(format!("{number}{EVIL}.pcapng"));
        std::fs::write(&path, bytes).expect("written");
        path.display().to_string()
    };
    files.iter().enumerate().map(put).collect()
}

/// Runs `quaff ARGS`; its output is harmless, and `code` is its exit status.
#[track_caller]
fn check(mut command: Command, args: &[&str], codes: &[i32]) -> Output {
    let done = command.args(args).output().expect("quaff runs");
    assert_harmless(&format!("{args:?}"), &done);
    assert!(done.status.code().is_some_and(|code| codes.contains(&code)), "{args:?}: {done:?}");
    done
}

fn quaff() -> Command {
    Command::new(QUAFF)
}

#[test]
fn texts_of_a_hostile_file_do_not_reach_the_terminal() {
    let dir = folder();
    let file = hostile(dir.path());
    let out = dir.path().join("out.pcapng").display().to_string();
    let verified = check(quaff(), &["verify", &file], &[1]);
    let text = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(text.contains("owned") && text.contains("record 99 packets"), "the name is shown: {text}");
    let verified = check(quaff(), &["verify", "--json", &file], &[1]);
    let json: Value = serde_json::from_slice(&verified.stdout).expect("JSON");
    let contradiction = json["ledger"]["contradictions"][0].as_str().expect("a sentence");
    assert!(contradiction.contains("]0;owned\u{7}\u{9b}31m\u{202e}"), "a program reads the name as it is");
    check(quaff(), &["verify", "--against", &file, &file], &[0, 1]);
    for more in [&[][..], &["--json"], &["--salvage"], &[file.as_str()], &["--each", &file]] {
        let summary = check(quaff(), &[&["info", &file], more].concat(), &[0, 1]);
        assert!(String::from_utf8_lossy(&summary.stdout).contains("owned"), "{more:?}");
    }
    for more in [&["--traffic"][..], &["--traffic", "--json"], &["--tsv", "--hash"]] {
        check(quaff(), &[&["info", &file], more].concat(), &[0, 1]);
    }
    for more in [&["-w", &out][..], &["-w", &out, "--json"], &["-w", &out, "--decap", "auto"]] {
        let done = check(quaff(), &[&["capture", "--read", &file], more].concat(), &[0]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!more.contains(&"--decap") || said.contains("owned"), "the session is named: {said}");
    }
    check(quaff(), &["capture", "--read", &file, "-w", &out, "--decap", "auto", "--json"], &[0]);
    check(quaff(), &["capture", "--read", &file, "-w", &out, "--dry-run"], &[0]);
    check(quaff(), &["capture", "--read", &file, "-w", &format!("{}/{EVIL}/x", dir.path().display())], &[2]);
    let parts = dir.path().join(EVIL).display().to_string();
    std::fs::create_dir(&parts).expect("a folder");
    for json in [&[][..], &["--json"]] {
        check(
            quaff(),
            &[&["split", "--read", &file, "--members", "2", "--dir", &parts], json].concat(),
            &[0, 2],
        );
        check(quaff(), &[&["split", "--read", &file, "-w", &out, "-w", "/dev/null"], json].concat(), &[0]);
    }
    check(quaff(), &["generate", "-w", &file, "--sizes-from", &file, "--pps", "1k", "--count", "9"], &[0]);
    check(quaff(), &["replay", "-o", EVIL, &file], &[2]);
    // A shell puts names of files where a * was.
    check(quaff(), &["verify", &format!("--{EVIL}")], &[2]);
    check(quaff(), &["capture", "--read", &file, "-f", EVIL, "-w", &out], &[2]);
}

/// More interfaces than an output can have, and interfaces whose texts do not fit it: each takes a moment and no
/// memory.
#[test]
fn a_file_of_very_many_interfaces_is_read_in_a_moment() {
    let dir = folder();
    let named = |name: &[u8]| {
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
        body.extend(option(2, name, name.len()));
        block(IDB, &body)
    };
    let mut many = header();
    (0..60_000u32).for_each(|number| many.extend(named(format!("if{number}").as_bytes())));
    let mut long = header();
    (0..200u8)
        .for_each(|number| long.extend(named(&[b'a' + number % 26; 60_000][..59_000 + usize::from(number)])));
    // The texts of the last one are more than the output has.
    for (mut file, interfaces, refused) in [(many, 60_000u32, 0), (long, 200, 1)] {
        for interface in [0, interfaces - 1] {
            let mut packet = packet(0, &[0; 60]);
            packet[8..12].copy_from_slice(&interface.to_le_bytes());
            file.extend(packet);
        }
        let path = dir.path().join("many.pcapng");
        std::fs::write(&path, &file).expect("written");
        let begun = Instant::now();
        let (path, out) = (path.display().to_string(), dir.path().join("out.pcapng").display().to_string());
        let done = check(quaff(), &["capture", "--read", &path, "-w", &out, "--json"], &[0, 1]);
        let json: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let expected = (&(2 - refused).into(), &refused.into());
        assert_eq!((&json["written"], &json["unsuited"]), expected, "{interfaces}: {json}");
        check(quaff(), &["verify", &path, &path], &[1, 2]);
        check(quaff(), &["verify", &out, &out], &[1, 2]);
        check(quaff(), &["info", &path], &[0, 1]);
        assert!(begun.elapsed() < Duration::from_secs(60), "{interfaces}: {:?}", begun.elapsed());
    }
}

#[test]
fn files_whose_lengths_lie_are_refused_with_harmless_words() {
    let dir = folder();
    let out = dir.path().join("out.pcapng").display().to_string();
    for file in liars(dir.path()) {
        check(quaff(), &["verify", &file], &[1, 2]);
        check(quaff(), &["info", &file], &[1, 2]);
        check(quaff(), &["verify", "--json", "--salvage", &file], &[1, 2]);
        check(quaff(), &["capture", "--read", &file, "-w", &out], &[1, 2]);
        check(quaff(), &["capture", "--read", &file, "-w", &out, "--json"], &[1, 2]);
        check(quaff(), &["split", "--read", &file, "-w", &out, "-w", "/dev/null"], &[1, 2]);
        check(
            quaff(),
            &["generate", "-w", &out, "--sizes-from", &file, "--pps", "1k", "--count", "9"],
            &[0, 2],
        );
        let mut pipe = quaff();
        pipe.stdin(std::fs::File::open(&file).expect("our file"));
        let parts = dir.path().display().to_string();
        check(pipe, &["pipe", "--buffer", "16M", "--dir", &parts, "--rotate-size", "1M"], &[0, 1, 2]);
    }
}

#[test]
fn a_hostile_file_is_replayed_with_harmless_words() {
    let bench = lab_bench!(64 << 20);
    let mut files = liars(bench.dir.path());
    files.push(hostile(bench.dir.path()));
    for file in &files {
        for line in [
            &["replay", "-o", "tx0", "-t"][..],
            &["replay", "-o", "tx0", "-t", "--json"],
            &["tcpreplay", "-i", "tx0", "-t"],
        ] {
            let sending = bench.lab.tx.command(QUAFF).expect("a command in the lab");
            check(sending, &[line, &[file.as_str()]].concat(), &[0, 1, 2]);
        }
    }
}

#[test]
fn a_hostile_name_of_an_interface_does_not_reach_the_terminal() {
    let bench = lab_bench!(64 << 20);
    let ip = |args: &[&str]| bench.lab.rx.command("ip").expect("ip").args(args).output().expect("ip runs");
    // A veth pair, because labs need it in any case, and not every kernel has dummies.
    let made = ip(&["link", "add", "name", EVIL_INTERFACE, "type", "veth", "peer", "name", "other0"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    ip(&["link", "set", "dev", "other0", "up"]);
    ip(&["link", "set", "dev", EVIL_INTERFACE, "up"]);
    let here = || bench.lab.rx.command(QUAFF).expect("a command in the lab");
    let doctor = check(here(), &["doctor", "-i", EVIL_INTERFACE, "--duration", "10ms"], &[0, 1]);
    check(here(), &["doctor", "-v", "-i", EVIL_INTERFACE, "--duration", "10ms", "--json"], &[0, 1]);
    check(here(), &["cores", "--no-measure", "-i", EVIL_INTERFACE], &[0]);
    check(here(), &["capture", "-i", EVIL_INTERFACE, "--dry-run"], &[0]);
    let listed = check(here(), &["extcap", "--extcap-interfaces"], &[0]);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("{value=quaff-e"), "{listed:?}");
    check(here(), &["tcpreplay", "--listnics"], &[0]);
    check(here(), &["generate", "-o", EVIL_INTERFACE, "--count", "10", "--pps", "1k"], &[0, 1, 2]);
    let out = bench.path("out.pcapng");
    for json in [&[][..], &["--json"]] {
        let args =
            [&["capture", "-i", EVIL_INTERFACE, "--buffer", "64M", "-d", "300ms", "-w", &out], json].concat();
        check(here(), &args, &[0]);
    }
    let args = [
        "split",
        "-i",
        EVIL_INTERFACE,
        "--buffer",
        "64M",
        "-d",
        "300ms",
        "--members",
        "2",
        "--dir",
        &bench.path(""),
    ];
    check(here(), &args, &[0]);
    // The interface disappears while it is captured.
    let mut running =
        ChildProcess::start(bench.quaff(&["capture", "-i", EVIL_INTERFACE, "--buffer", "64M", "-w", &out]))
            .expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    ip(&["link", "delete", "dev", EVIL_INTERFACE]);
    let ended = finish(running);
    assert!(ended.code != 0 && !ended.stderr.contains(is_dangerous), "{:?}", ended.stderr);
    // A command to copy into a shell has the name in quotes, or not at all.
    for fix in String::from_utf8_lossy(&doctor.stdout)
        .lines()
        .filter(|line| line.contains("fix:") && line.contains('$'))
    {
        assert!(fix.contains('\''), "{fix}");
    }
}

/// A result in which each string is hostile, but those that a program chooses by.
fn poisoned(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains(' ') => Value::String(format!("{text} {EVIL}")),
        Value::Array(all) => all.into_iter().map(poisoned).collect(),
        Value::Object(all) => all.into_iter().map(|(name, value)| (name, poisoned(value))).collect(),
        other => other,
    }
}

#[test]
fn hostile_results_are_shown_with_harmless_words() {
    let dir = folder();
    let (bench, service) = (dir.path().join("bench"), dir.path().join("service"));
    quaff_bench::report::write(&sample_report(), &bench).expect("written");
    quaff_bench::report::write(&sample_service_report(), &service).expect("written");
    for (verb, folder) in [("bench", &bench), ("service", &service)] {
        let file = folder.join("result.json");
        let value = serde_json::from_slice(&std::fs::read(&file).expect("a result")).expect("JSON");
        std::fs::write(&file, poisoned(value).to_string()).expect("written");
        let path = folder.display().to_string();
        for more in [&[][..], &["--all"], &["--json"]] {
            check(quaff(), &[&[verb, "show", &path], more].concat(), &[0, 1, 2]);
        }
    }
    let path = bench.display().to_string();
    check(quaff(), &["bench", "compare", &path, &path], &[0, 1, 2]);
}

/// The blocks made here are those that quaff reads: a test of the test.
#[test]
fn the_hostile_file_is_a_capture_file() {
    let dir = folder();
    let path = hostile(dir.path());
    let mut file = quaff_file::read::CaptureFile::open(Path::new(&path)).expect("our file");
    let (mut names, mut records) = (Vec::new(), 0);
    let mut each = |item: Item<'_>| match item {
        Item::Interface(interface) => names.push(interface.name.map(<[u8]>::to_vec)),
        Item::Frame(frame) => records += usize::from(!frame.data.is_empty()),
        _ => {}
    };
    while file.pull(&mut each).expect("a whole file") {}
    assert_eq!((names, records), (vec![Some(EVIL.as_bytes().to_vec())], 10));
}
