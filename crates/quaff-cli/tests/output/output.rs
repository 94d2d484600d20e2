//! The files of `quaff capture`: formats by suffix, names and boundaries in local time, finished files and
//! commands, retention on a disk that others fill. The packets come from files, so no lab is needed.

use crate::support::disk::Disk;
use crate::support::packets::{packets_in, packets_in_all};
use crate::support::{self, Ended, PATIENCE, QUAFF, folder, names, ours, tool};
use quaff_testkit::{skip, test_name};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;

/// A pcap file (ns) with a packet of `bytes` at each of the times, ns since 1970.
fn pcap(times_ns: &[u64], bytes: u32) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for time_ns in times_ns {
        let (seconds, ns) = ((time_ns / SECOND_NS) as u32, (time_ns % SECOND_NS) as u32);
        file.extend([seconds, ns, bytes, bytes].map(u32::to_le_bytes).concat());
        file.extend(vec![0x5a; bytes as usize]);
    }
    file
}

/// 10 MiB of packets of 1 KiB, 1 ms apart.
fn ten_mib() -> Vec<u8> {
    let times: Vec<_> = (0..10 << 10).map(|number| (1_790_000_000 + number / 1000) * SECOND_NS).collect();
    pcap(&times, 1024)
}

/// `quaff capture ARGS --json` with the environment variable TZ, to its end.
fn capture_in(zone: &str, args: &[&str]) -> Ended {
    let done = Command::new(QUAFF).env("TZ", zone).arg("capture").args(args).arg("--json").output();
    let done = done.expect("quaff runs");
    Ended {
        code: done.status.code().unwrap_or(-1),
        json: serde_json::from_slice(&done.stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

fn capture(args: &[&str]) -> Ended {
    capture_in("UTC", args)
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

#[test]
fn the_suffix_of_a_file_decides_its_format() {
    let dir = folder();
    let source = path(dir.path(), "in");
    fs::write(&source, pcap(&[SECOND_NS], 60)).unwrap();
    let [pcapng, pcap_ns, pcap_us] =
        [[0x0a, 0x0d, 0x0d, 0x0a], [0x4d, 0x3c, 0xb2, 0xa1], [0xd4, 0xc3, 0xb2, 0xa1]];
    for (name, format, magic) in [
        ("a.pcap", None, pcap_ns),
        ("A.PCAP", None, pcap_ns),
        ("a.pcapng", None, pcapng),
        ("a", None, pcapng),
        ("b.pcap", Some("pcapng"), pcapng),
        ("c.pcap", Some("pcap-us"), pcap_us),
        ("b.pcapng", Some("pcap"), pcap_ns),
    ] {
        let out = path(dir.path(), name);
        let mut args = vec!["--read", &source, "-w", &out];
        args.extend(format.iter().flat_map(|format| ["--format", format]));
        let ended = capture(&args);
        assert_eq!((ended.code, &ended.json["written"]), (0, &1.into()), "{name}: {}", ended.stderr);
        assert_eq!(fs::read(&out).unwrap()[..4], magic, "{name} {format:?}");
    }
}

#[test]
fn the_suffix_of_a_template_with_the_number_decides_the_format() {
    let dir = folder();
    let source = path(dir.path(), "in");
    fs::write(&source, pcap(&[SECOND_NS], 60)).unwrap();
    for (template, name, magic) in [
        ("tap%3i.pcap", "tap000.pcap", [0x4d, 0x3c, 0xb2, 0xa1]),
        ("tap.pcap", "tap.pcap-000000.pcapng", [0x0a, 0x0d, 0x0d, 0x0a]),
    ] {
        let out = folder();
        let ended = capture(&["--read", &source, "--dir", &path(out.path(), ""), "--name", template]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(names(out.path()), [name]);
        assert_eq!(fs::read(out.path().join(name)).unwrap()[..4], magic, "{name}");
    }
}

/// 2026-10-25 01:00 UTC: Berlin changes from UTC + 2 h to UTC + 1 h.
const AUTUMN_NS: u64 = 1_792_890_000 * SECOND_NS;

#[test]
fn names_and_days_are_in_local_time_and_in_utc_on_request() {
    if !Path::new("/usr/share/zoneinfo/Europe/Berlin").exists() {
        return skip(test_name!(), "no time zones are installed here");
    }
    let dir = folder();
    let source = path(dir.path(), "in");
    // Two minutes around each local midnight of the day of 25 hours.
    let midnights = [AUTUMN_NS - 180 * MINUTE_NS, AUTUMN_NS + 22 * 60 * MINUTE_NS];
    let times = midnights.map(|midnight_ns| [midnight_ns - MINUTE_NS, midnight_ns + MINUTE_NS]).concat();
    fs::write(&source, pcap(&times, 60)).unwrap();
    let rotated = |zone: &str, name: &str, every: &str, flags: &[&str]| {
        let out = folder();
        let out_path = path(out.path(), "");
        let args = ["--read", &source, "--dir", &out_path, "--name", name, "--rotate-time", every];
        let ended = capture_in(zone, &[&args[..], flags].concat());
        assert_eq!((ended.code, &ended.json["written"]), (0, &4.into()), "{}", ended.stderr);
        (names(out.path()), ended.stderr)
    };
    let days = |zone, flags| rotated(zone, "%dT%H%M", "24h", flags).0;
    let local = ["24T2359-000000.pcapng", "25T0000-000001.pcapng", "26T0000-000002.pcapng"];
    for zone in
        ["Europe/Berlin", ":Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3"]
    {
        assert_eq!(days(zone, &[]), local, "TZ={zone}");
    }
    let utc = ["24T2159-000000.pcapng", "25T0000-000001.pcapng"];
    assert_eq!(days("Europe/Berlin", &["--utc"]), utc);
    assert_eq!(days("UTC", &[]), utc);
    let (found, said) = rotated("Europe/Nowhere", "%dT%H%M", "24h", &[]);
    assert_eq!(found, utc);
    assert!(said.contains("time zone TZ=Europe/Nowhere is not known"), "{said}");
}

/// The hour from 02:00 is there twice: both get a file, in order.
#[test]
fn the_hour_that_is_repeated_in_autumn_has_two_files() {
    if !Path::new("/usr/share/zoneinfo/Europe/Berlin").exists() {
        return skip(test_name!(), "no time zones are installed here");
    }
    let dir = folder();
    let source = path(dir.path(), "in");
    let times: Vec<_> = (0..4).map(|hour| AUTUMN_NS - 90 * MINUTE_NS + hour * 60 * MINUTE_NS).collect();
    fs::write(&source, pcap(&times, 60)).unwrap();
    let out = folder();
    let args = ["--read", &source, "--dir", &path(out.path(), ""), "--name", "%H%M", "--rotate-time", "1h"];
    let ended = capture_in("Europe/Berlin", &args);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let expected = ["0130-000000.pcapng", "0200-000001.pcapng", "0200-000002.pcapng", "0300-000003.pcapng"];
    assert_eq!(names(out.path()), expected);
}

#[test]
fn compressed_files_are_removed_in_their_turn_and_not_before_their_command() {
    let test = test_name!();
    if tool(test, "gzip").is_none() {
        return;
    }
    let (dir, out) = (folder(), folder());
    let source = path(dir.path(), "in");
    fs::write(&source, ten_mib()).unwrap();
    let out_path = path(out.path(), "");
    let args =
        ["--read", &source, "--dir", &out_path, "--name", "q", "--rotate-size", "2M", "--keep-files", "2"];
    let run = || capture(&[&args[..], &["--exec", "gzip"]].concat());
    let first = run();
    let files = first.json["files"].as_u64().unwrap();
    assert_eq!(
        (first.code, &first.json["commands_failed"]),
        (0, &0.into()),
        "{} {}",
        first.json,
        first.stderr
    );
    let newest = |last: u64| [last - 2, last - 1].map(|number| format!("q-{number:06}.pcapng.gz")).to_vec();
    assert_eq!(names(out.path()), newest(files));
    assert_eq!((&first.json["pruned"], &first.json["pruned_earlier"]), (&(files - 2).into(), &0.into()));
    let words = format!("{files} files, {} removed, none lost", files - 2);
    assert!(first.stderr.contains(&words), "{}", first.stderr);
    // Another run continues the numbers, and the files of the first one go first.
    let second = run();
    assert_eq!((second.code, &second.json["pruned_earlier"]), (0, &2.into()), "{}", second.stderr);
    assert_eq!(names(out.path()), newest(2 * files));
    assert!(second.stderr.contains("2 of earlier runs removed"), "{}", second.stderr);
}

#[test]
fn a_command_that_fails_shows_in_the_exit_status() {
    let (dir, out) = (folder(), folder());
    let source = path(dir.path(), "in");
    fs::write(&source, pcap(&[SECOND_NS], 60)).unwrap();
    let ended = capture(&["--read", &source, "--dir", &path(out.path(), ""), "--exec", "false"]);
    assert_eq!((ended.code, &ended.json["lossless"]), (1, &true.into()), "{}", ended.stderr);
    assert!(ended.stderr.contains("1 of 1 command run by --exec failed"), "{}", ended.stderr);
}

#[test]
fn each_file_has_as_many_packets_as_were_asked_for() {
    let dir = folder();
    let source = path(dir.path(), "in");
    let times: Vec<_> = (0..1000).map(|number| SECOND_NS + number).collect();
    fs::write(&source, pcap(&times, 60)).unwrap();
    for more in ["--format=pcapng", "--format=pcap", "--compress=zstd"] {
        let out = path(dir.path(), more);
        let ended =
            capture(&["--read", &source, "--dir", &out, "--name", "q", "--rotate-packets", "300", more]);
        assert_eq!((ended.code, &ended.json["files"]), (0, &4.into()), "{more}: {}", ended.stderr);
        assert_eq!(packets_of_each(&out), [300, 300, 300, 100], "{more}");
    }
}

/// A file that its size ends has fewer packets, and none has more.
#[test]
fn a_file_has_no_more_packets_than_were_asked_for() {
    let dir = folder();
    let [source, out] = ["in", "out"].map(|name| path(dir.path(), name));
    fs::write(&source, ten_mib()).unwrap();
    let args = ["--read", &source, "--dir", &out, "--name", "q", "--rotate-packets", "3000"];
    let ended = capture(&[&args[..], &["--rotate-size", "2M"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let packets = packets_of_each(&out);
    assert_eq!(packets.iter().sum::<u64>(), 10 << 10, "{packets:?}");
    assert!(packets.iter().all(|packets| *packets <= 3000) && packets.len() > 4, "{packets:?}");
}

/// The number of packets in each file of a folder, in the order of their names.
fn packets_of_each(dir: &str) -> Vec<u64> {
    let files = names(Path::new(dir)).into_iter().map(|name| path(Path::new(dir), &name));
    let done = Command::new(QUAFF).args(["info", "--json"]).args(files).output().expect("quaff runs");
    let report: Value = serde_json::from_slice(&done.stdout).expect("the report of info");
    let files = report["files"].as_array().expect("files");
    files.iter().map(|file| file["packets"].as_u64().expect("packets")).collect()
}

#[test]
fn the_newest_files_stay_on_a_disk_that_others_fill() {
    let test = test_name!();
    let Some(disk) = Disk::new(test, 64) else { return };
    let dir = folder();
    let source = path(dir.path(), "in");
    fs::write(&source, ten_mib()).unwrap();
    fs::write(disk.file("of-others"), vec![1; 30 << 20]).unwrap();
    let out = disk.file("q");
    fs::create_dir(&out).unwrap();
    let args = ["--read", &source, "--dir", &out, "--name", "q", "--rotate-size", "2M"];
    let ended = capture(&[&args[..], &["--keep-free", "60"]].concat());
    let files = ended.json["files"].as_u64().unwrap();
    assert_eq!(
        (ended.code, &ended.json["pruned"]),
        (0, &(files - 2).into()),
        "{} {}",
        ended.json,
        ended.stderr
    );
    let left = [files - 2, files - 1].map(|number| format!("q-{number:06}.pcapng"));
    assert_eq!(names(Path::new(&out)), left);
    let (start, end) = ended.stderr.split_once(" → ").expect("what it does");
    assert!(start.contains("--keep-free 60 % cannot be met"), "said at the start: {}", ended.stderr);
    assert!(end.contains(&format!("{files} files, {} removed", files - 2)), "{end}");
    // A rule that holds says nothing.
    fs::remove_file(disk.file("of-others")).unwrap();
    let ended = capture(&[&args[..], &["--keep-free", "20"]].concat());
    assert!(ended.code == 0 && !ended.stderr.contains("--keep-free"), "{}", ended.stderr);
}

#[test]
fn a_disk_that_others_fill_up_is_not_answered_with_the_flag_that_was_given() {
    let test = test_name!();
    let Some(disk) = Disk::new(test, 64) else { return };
    let dir = folder();
    let source = path(dir.path(), "in");
    fs::write(&source, ten_mib()).unwrap();
    let out = disk.file("q");
    fs::create_dir(&out).unwrap();
    // All but some MiB, which not even one file of the capture has.
    let free = quaff_os::disk::space(&disk.path()).unwrap().free;
    fs::write(disk.file("of-others"), vec![1; (free - (5 << 20)) as usize]).unwrap();
    // More than the buffer holds: the end of the input must not come first.
    let inputs = ["--read", &source].repeat(8);
    let args = ["--dir", &out, "--name", "q", "--rotate-size", "8M", "--keep-free", "30"];
    let ended = capture(&[&inputs[..], &args].concat());
    assert_eq!(
        (ended.code, &ended.json["ended_by"]),
        (1, &"disk_full".into()),
        "{} {}",
        ended.json,
        ended.stderr
    );
    let end = ended.stderr.split_once(" → ").expect("what it does").1;
    assert!(end.contains("other files fill it") && !end.contains("would remove the oldest"), "{end}");
}

/// A capture of what is written to its stdin, and what it reports meanwhile.
struct Piped {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    heard: String,
}

impl Piped {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(QUAFF);
        command.args(["capture", "--read", "-", "--flush", "50ms", "--json"]).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("quaff runs");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, stderr, heard: String::new() }
    }

    fn write(&mut self, bytes: &[u8]) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("quaff reads");
    }

    /// Waits for a line with these words.
    fn hear(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).expect("text") > 0, "no '{words}' in {}", self.heard);
            self.heard += &line;
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Closes its stdin, and waits for its end.
    fn finish(mut self) -> Ended {
        drop(self.child.stdin.take());
        self.stderr.read_to_string(&mut self.heard).expect("text");
        let done = self.child.wait_with_output().expect("it ends");
        let json = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
        Ended { code: done.status.code().unwrap_or(-1), json, stderr: self.heard }
    }
}

/// Waits until the only file of a folder holds packets, and returns its path.
fn growing(dir: &Path) -> String {
    let begun = Instant::now();
    loop {
        let found = ours(dir).into_iter().next();
        if let Some(path) = found.filter(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 8192)) {
            return path;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_that_is_removed_while_it_is_written_is_a_loss_of_all_its_packets() {
    for is_folder in [false, true] {
        let (dir, saved) = (folder(), folder());
        let (file, saved) = (path(dir.path(), "x.pcapng"), path(saved.path(), "saved"));
        let out = path(dir.path(), "");
        let target = if is_folder { ["--dir", &out] } else { ["-w", &file] };
        let mut capture = Piped::start(&[&target[..], &["--fsync", "20ms"]].concat());
        let times: Vec<_> = (0..1000).map(|ms| 1_790_000_000 * SECOND_NS + ms * 1_000_000).collect();
        capture.write(&pcap(&times, 100));
        fs::remove_file(growing(dir.path())).unwrap();
        let said = capture.hear("was removed");
        // In time, with what helps.
        let from = said.split("cp ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a command");
        fs::copy(from, &saved).unwrap_or_else(|error| panic!("{from}: {error}"));
        assert_eq!(packets_in(&saved).count, 1000);
        capture.write(&pcap(&times[..10], 100)[24..]);
        let ended = capture.finish();
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["verdict"]), (1, &"lossy".into()), "{ledger} {}", ended.stderr);
        let (written, lost) = (&ledger["written"], &ledger["lost_on_disk"]);
        assert_eq!((written, lost, &ledger["files"]), (&0.into(), &1010.into(), &0.into()), "{ledger}");
        assert_eq!((&ledger["bytes_written"], &ledger["synced_bytes"]), (&0.into(), &0.into()), "{ledger}");
        let words = "was removed while it was written: its 1,010 packets are lost";
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("the file that is being written was removed").count(), 1);
        assert!(names(dir.path()).is_empty());
    }
}

/// Another name of the file is as good: a program that moves finished files may be early.
#[test]
fn a_file_that_is_renamed_while_it_is_written_is_no_loss() {
    let dir = folder();
    let (file, moved) = (path(dir.path(), "x.pcapng"), path(dir.path(), "moved"));
    let mut capture = Piped::start(&["-w", &file]);
    capture.write(&pcap(&[SECOND_NS; 1000], 100));
    fs::rename(growing(dir.path()), &moved).unwrap();
    let ended = capture.finish();
    assert_eq!((ended.code, packets_in(&moved).count), (0, 1000), "{}", ended.stderr);
}

#[test]
fn a_capture_ends_before_its_file_exceeds_the_size() {
    let dir = folder();
    let source = path(dir.path(), "in");
    fs::write(&source, ten_mib()).unwrap();
    for (name, flag, most) in [
        ("a.pcapng", ["--stop-size", "1M"], 1 << 20),
        ("a.pcap", ["--stop-size", "1M"], 1 << 20),
        ("b.pcapng", ["-a", "filesize:300"], 300_000),
        ("c.pcapng", ["--stop-size", "9M"], 9 << 20),
    ] {
        let file = path(dir.path(), name);
        let ended = capture(&[&["--read", &source, "-w", &file][..], &flag].concat());
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["ended_by"]), (0, &"size".into()), "{ledger} {}", ended.stderr);
        let bytes = fs::metadata(&file).unwrap().len();
        assert!(bytes <= most && bytes > most - (20 << 10), "{name}: {bytes} of {most}");
        assert_eq!(ledger["written"], packets_in(&file).count, "{name}");
        let found = support::verify(&[&file]);
        assert_ne!(found["ledger"]["consistent"], false, "{found}");
    }
    // A limit that is not reached changes nothing.
    let file = path(dir.path(), "d.pcapng");
    let ended = capture(&["--read", &source, "-w", &file, "--stop-size", "20M"]);
    assert_eq!((&ended.json["ended_by"], packets_in(&file).count), (&"input_ended".into(), 10 << 10));
}

/// Boundaries of time that follow the limit begin no file, and pcap's ends, which are written apart, count.
#[test]
fn a_folder_ends_before_its_files_exceed_the_size() {
    let dir = folder();
    let source = path(dir.path(), "in");
    let times: Vec<_> = (0..9600).map(|number| 1_790_000_000 * SECOND_NS + number * 9 * SECOND_NS).collect();
    fs::write(&source, pcap(&times, 501)).unwrap();
    for flags in [
        &["--rotate-time", "1h", "--stop-size", "500k"][..],
        &["--rotate-time", "1h", "--stop-size", "1m", "--format", "pcap"],
        &["--rotate-size", "2M", "--stop-size", "4500k", "--format", "pcap"],
    ] {
        let out = folder();
        let ended = capture(&[&["--read", &source, "--dir", &path(out.path(), "")][..], flags].concat());
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["ended_by"]), (0, &"size".into()), "{ledger} {}", ended.stderr);
        let files = ours(out.path());
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        let most = match flags[3] {
            "500k" => 500 << 10,
            "1m" => 1 << 20,
            _ => 4500 << 10,
        };
        assert!(bytes <= most && bytes > most - (20 << 10), "{flags:?}: {bytes} of {most}");
        assert_eq!(ledger["bytes_written"], bytes, "{flags:?}");
        assert!(files.iter().all(|file| packets_in(file).count > 0), "{flags:?}: {files:?}");
        assert_eq!(ledger["written"], packets_in_all(&files).count, "{flags:?}");
    }
}

#[test]
fn the_size_of_a_compressed_file_is_kept_to_the_packet() {
    let dir = folder();
    let source = path(dir.path(), "in");
    // Contents that compress to about a half.
    let mut bytes = pcap(&(0..10 << 10).map(|ms| SECOND_NS + ms * 1_000_000).collect::<Vec<_>>(), 1024);
    let mut state = 1u64;
    for at in (24..bytes.len()).step_by(16 + 1024) {
        for byte in &mut bytes[at + 16..at + 528] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
    }
    fs::write(&source, bytes).unwrap();
    for (name, most) in
        [("a.pcapng.zst", 300), ("a.pcap.lz4", 300), ("a.pcapng.gz", 300), ("b.pcapng.lz4", 3000)]
    {
        let file = path(dir.path(), name);
        let ended = capture(&["--read", &source, "-w", &file, "--stop-size", &format!("{most}k")]);
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["ended_by"]), (0, &"size".into()), "{ledger} {}", ended.stderr);
        let (bytes, most) = (fs::metadata(&file).unwrap().len(), most << 10);
        assert!(bytes <= most && bytes > most - (16 << 10), "{name}: {bytes} of {most}");
        let plain = path(dir.path(), "plain.pcapng");
        let again = capture(&["--read", &file, "-w", &plain]);
        assert_eq!((again.code, &again.json["written"]), (0, &ledger["written"]), "{name}: {}", again.stderr);
        assert_eq!(packets_in(&plain).count, ledger["written"].as_u64().unwrap());
        let found = support::verify(&[&file]);
        assert_ne!(found["ledger"]["consistent"], false, "{found}");
    }
}

#[test]
fn a_capture_ends_after_its_last_file() {
    let dir = folder();
    let source = path(dir.path(), "in");
    fs::write(&source, ten_mib()).unwrap();
    for (flags, most) in [
        (&["--rotate-size", "2M", "--stop-files", "2"][..], 2 << 20),
        (&["-a", "files:2", "-a", "filesize:2500"], 2_500_000),
    ] {
        let out = folder();
        let ended = capture(&[&["--read", &source, "--dir", &path(out.path(), "")][..], flags].concat());
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["ended_by"]), (0, &"files".into()), "{ledger} {}", ended.stderr);
        let files = ours(out.path());
        assert_eq!((files.len(), &ledger["files"]), (2, &2.into()));
        assert_eq!(ledger["written"], packets_in_all(&files).count);
        assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= most), "{files:?}");
    }
}

#[test]
fn conditions_that_an_output_cannot_keep_are_refused() {
    let dir = folder();
    let source = path(dir.path(), "in");
    fs::write(&source, pcap(&[SECOND_NS; 100], 100)).unwrap();
    let file = path(dir.path(), "x.pcapng");
    for (flags, words) in [
        (&["-w", &file, "-a", "files:2"][..], "type -C, -G or -b too"),
        (&["-w", &file, "-a", "size:2"], "unknown condition 'size'"),
        (&["-w", "-", "-a", "filesize:2"], "--stop-size needs a file or a folder"),
    ] {
        let ended = capture(&[&["--read", &source][..], flags].concat());
        assert!(ended.code == 2 && ended.stderr.contains(words), "{flags:?}: {}", ended.stderr);
    }
    let ended = capture(&["--read", &source, "-w", &file, "-a", "packets:7", "-a", "duration:60"]);
    assert_eq!((&ended.json["ended_by"], packets_in(&file).count), (&"count".into(), 7), "{}", ended.stderr);
}
