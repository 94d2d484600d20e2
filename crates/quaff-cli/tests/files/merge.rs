//! `quaff merge`: the packets of all files in the order of time, as a stable sort and mergecap have them.

use crate::support::draw::{Draw, runs};
use crate::support::{self, QUAFF, folder, run, tool};
use quaff_file::read::CaptureFile;
use quaff_testkit::test_name;
use quaff_wire::Record;
use quaff_wire::decode::Item;
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, Interface, Section};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const START_NS: u64 = 1_700_000_000_000_000_000;

/// A packet: its time, ns since 1970, and its bytes, which show the file and the number in it.
type Packet = (u64, Vec<u8>);

/// A packet `after_ns` the start.
fn packet(after_ns: u64, file: usize, number: usize, bytes: usize) -> Packet {
    let mut data = [(file as u32).to_le_bytes(), (number as u32).to_le_bytes()].concat();
    data.resize(bytes.max(8), number as u8);
    (START_NS + after_ns, data)
}

fn record(of: &Packet) -> Record<'_> {
    Record { time_ns: of.0, bytes: &of.1, len: of.1.len() as u32, ..Record::default() }
}

fn pcap_file(packets: &[Packet]) -> Vec<u8> {
    let mut file = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    let mut room = vec![0; 70_000];
    for of in packets {
        let written = pcap::record(&mut room, Resolution::Nanoseconds, &record(of));
        file.extend(&room[..written]);
    }
    file
}

fn pcapng_file(packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::shb(&mut file, &Section::default());
    pcapng::idb(&mut file, &Interface { linktype: 1, name: "eth0".into(), ..Interface::default() });
    let mut room = vec![0; 70_000];
    for of in packets {
        let written = pcapng::epb(&mut room, 0, &record(of));
        file.extend(&room[..written]);
    }
    file
}

fn put(dir: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

fn read(path: &str) -> Vec<Packet> {
    let mut all = Vec::new();
    let mut file = CaptureFile::open(Path::new(path)).expect("a capture");
    let mut take = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            all.push((frame.time_ns, frame.data.to_vec()));
        }
    };
    while file.pull(&mut take).expect("a whole file") {}
    all
}

struct Merged {
    code: Option<i32>,
    json: Value,
    stderr: String,
    packets: Vec<Packet>,
}

/// `quaff merge ARGS -w OUT --json`, the file of the last argument through stdin if that is `-`.
fn merge(args: &[&str], stdin: Option<&[u8]>, out: &str) -> Merged {
    let mut command = Command::new(QUAFF);
    command.arg("merge").args(args).args(["-w", out, "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("quaff runs");
    let mut to = running.stdin.take().expect("a pipe");
    if let Some(bytes) = stdin {
        to.write_all(bytes).expect("it reads");
    }
    drop(to);
    let done = running.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    let json = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
    let packets = if Path::new(out).exists() { read(out) } else { Vec::new() };
    Merged { code: done.status.code(), json, stderr, packets }
}

/// Files of random packets in few different times, so that many are equal.
fn random_files(draw: &mut Draw, is_sorted: bool) -> Vec<Vec<Packet>> {
    let files = draw.between(1, 6) as usize;
    let mut of_file = |file| {
        let (count, span) = (draw.between(0, 300) as usize, draw.between(1, 200));
        let from = draw.between(0, 100);
        let mut times: Vec<_> = (0..count).map(|_| 1000 * (from + draw.between(0, span))).collect();
        if is_sorted {
            times.sort_unstable();
        }
        let bytes = draw.between(8, 400) as usize;
        times.iter().enumerate().map(|(number, time)| packet(*time, file, number, bytes)).collect()
    };
    (0..files).map(&mut of_file).collect()
}

/// The files in random formats, and whether the last one is to be given through stdin.
fn put_all(draw: &mut Draw, dir: &TempDir, files: &[Vec<Packet>]) -> (Vec<String>, Option<Vec<u8>>) {
    let mut paths = Vec::new();
    let mut stdin = None;
    for (number, packets) in files.iter().enumerate() {
        let bytes = if draw.between(0, 1) == 0 { pcap_file(packets) } else { pcapng_file(packets) };
        if number + 1 == files.len() && draw.between(0, 2) == 0 {
            (stdin, _) = (Some(bytes), paths.push("-".to_owned()));
        } else if draw.between(0, 3) == 0 {
            let plain = put(dir, &format!("{number}.plain"), &bytes);
            let packed = dir.path().join(format!("{number}.gz")).display().to_string();
            run(Command::new("sh").args(["-c", &format!("gzip -c {plain} > {packed}")]));
            paths.push(packed);
        } else {
            paths.push(put(dir, &format!("{number}.cap"), &bytes));
        }
    }
    (paths, stdin)
}

/// The earliest of the next packets of all files, and of equal ones that of the first file.
fn earliest_first(files: &[Vec<Packet>]) -> Vec<Packet> {
    let (mut at, mut all) = (vec![0; files.len()], Vec::new());
    loop {
        let next = (0..files.len()).filter(|file| at[*file] < files[*file].len());
        let Some(file) = next.min_by_key(|file| files[*file][at[*file]].0) else { return all };
        all.push(files[file][at[file]].clone());
        at[file] += 1;
    }
}

fn sorted(files: &[Vec<Packet>]) -> Vec<Packet> {
    let mut all = files.concat();
    all.sort_by_key(|packet| packet.0);
    all
}

#[test]
fn random_captures_become_their_stable_sort() {
    let mut draw = Draw::new();
    for _ in 0..runs(40) {
        let dir = folder();
        let files = random_files(&mut draw, true);
        let (paths, stdin) = put_all(&mut draw, &dir, &files);
        let name = draw.one_of(&["out.pcapng", "out.pcap", "out.pcapng.zst"]);
        let mut args: Vec<_> = paths.iter().map(String::as_str).collect();
        args.extend(Some("--reorder").filter(|_| draw.between(0, 1) == 0));
        let merged = merge(&args, stdin.as_deref(), &dir.path().join(name).display().to_string());
        assert_eq!(merged.code, Some(0), "{} {}", merged.json, merged.stderr);
        assert!(merged.packets == sorted(&files), "{args:?} to {name}");
        assert_eq!((&merged.json["sorted"], &merged.json["backward"]), (&true.into(), &0.into()));
        assert_eq!(merged.json["packets"], files.concat().len());
    }
}

#[test]
fn unsorted_files_are_named_and_sorted_on_request() {
    let mut draw = Draw::new();
    for _ in 0..runs(40) {
        let dir = folder();
        let files = random_files(&mut draw, false);
        let (paths, stdin) = put_all(&mut draw, &dir, &files);
        let out = dir.path().join("out.pcapng").display().to_string();
        let args: Vec<_> = paths.iter().map(String::as_str).collect();
        let plain = merge(&args, stdin.as_deref(), &out);
        assert!(plain.packets == earliest_first(&files), "{args:?}: as mergecap has them");
        let late = |packets: &[Packet]| {
            let (mut latest, mut late) = (0, 0u64);
            for (time_ns, _) in packets {
                late += u64::from(*time_ns < latest);
                latest = latest.max(*time_ns);
            }
            late
        };
        let unsorted: Vec<_> = files.iter().map(|file| late(file)).filter(|late| *late > 0).collect();
        let named = plain.json["unsorted_files"].as_array().expect("a list");
        let counted: Vec<_> = named.iter().map(|file| file["late"].as_u64().unwrap()).collect();
        assert_eq!(counted, unsorted, "{}", plain.json);
        assert_eq!(plain.json["backward"], late(&plain.packets));
        assert_eq!(plain.code, Some(i32::from(!unsorted.is_empty())), "{}", plain.stderr);
        assert_eq!(plain.stderr.contains("--reorder sorts them"), !unsorted.is_empty(), "{}", plain.stderr);
        let args = [&args[..], &["--reorder"]].concat();
        let merged = merge(&args, stdin.as_deref(), &out);
        assert_eq!((merged.code, &merged.json["sorted"]), (Some(0), &true.into()), "{}", merged.stderr);
        assert!(merged.packets == sorted(&files), "{args:?}");
        let named = merged.json["unsorted_files"].as_array().expect("a list");
        assert_eq!(named.len(), unsorted.len(), "{}", merged.json);
    }
}

/// They are not late, and do not set the start of the capture to 1970.
#[test]
fn packets_without_a_time_stay_where_they_are_in_their_file() {
    let dir = folder();
    let at = |time_ns: u64, file: usize, number: usize| (time_ns, packet(0, file, number, 60).1);
    let first = [at(0, 0, 0), at(START_NS + 5, 0, 1), at(0, 0, 2), at(START_NS + 9, 0, 3)];
    let second = [at(START_NS + 3, 1, 0), at(START_NS + 7, 1, 1)];
    let paths = [&first[..], &second].map(pcapng_file);
    let paths = [put(&dir, "a.pcapng", &paths[0]), put(&dir, "b.pcapng", &paths[1])];
    let out = dir.path().join("out.pcapng").display().to_string();
    let expected = [&first[0], &second[0], &first[1], &first[2], &second[1], &first[3]].map(Packet::clone);
    for more in [&[][..], &["--reorder"]] {
        let merged = merge(&[&[&paths[0][..], &paths[1]], more].concat(), None, &out);
        assert_eq!((merged.code, &merged.json["backward"]), (Some(0), &0.into()), "{}", merged.stderr);
        assert_eq!(merged.json["unsorted_files"], Value::Array(vec![]));
        assert!(merged.packets == expected, "{more:?}");
        let mut starts = Vec::new();
        let mut file = CaptureFile::open(Path::new(&out)).expect("a capture");
        let mut take = |item: Item<'_>| {
            if let Item::Statistics(of) = item {
                starts.extend(of.starttime_ns);
            }
        };
        while file.pull(&mut take).expect("a whole file") {}
        assert!(!starts.is_empty() && starts.iter().all(|start_ns| *start_ns == START_NS + 3), "{starts:?}");
    }
}

/// Packets of one time are in the order of their files; mergecap takes the last file first.
#[test]
fn the_order_is_that_of_mergecap_but_for_equal_times() {
    let test = test_name!();
    let (dir, files) = (folder(), random_files(&mut Draw::new(), true));
    let put = |(number, packets): (usize, &Vec<Packet>)| {
        put(&dir, &format!("{number}.pcapng"), &pcapng_file(packets))
    };
    let paths: Vec<_> = files.iter().enumerate().map(put).collect();
    let Some(mut mergecap) = tool(test, "mergecap") else { return };
    let theirs = dir.path().join("theirs.pcapng").display().to_string();
    run(mergecap.args(["-w", &theirs]).args(&paths));
    let args: Vec<_> = paths.iter().map(String::as_str).collect();
    let ours = merge(&args, None, &dir.path().join("ours.pcapng").display().to_string()).packets;
    let mut theirs = read(&theirs);
    let times = |all: &[Packet]| all.iter().map(|packet| packet.0).collect::<Vec<_>>();
    assert_eq!(times(&ours), times(&theirs));
    // Both are sorted by time, so this orders those of one time alone.
    let mut ours = ours;
    ours.sort();
    theirs.sort();
    assert!(ours == theirs, "the same packets");
}

/// Each packet is earlier than all before it: more of them than memory may hold go through the temporary file.
#[test]
fn a_reversed_file_beyond_the_memory_is_sorted_through_a_temporary_file() {
    let dir = folder();
    let backwards = |file: usize, count: usize| -> Vec<Packet> {
        (0..count).map(|i| packet(2 * (count - i) as u64 + file as u64, file, i, 20_000)).collect()
    };
    let files = [backwards(0, 5_000), (0..100).map(|i| packet(50 * i as u64, 1, i, 60)).collect()];
    let paths = [put(&dir, "a.pcap", &pcap_file(&files[0])), put(&dir, "b.pcap", &pcap_file(&files[1]))];
    let out = dir.path().join("out.pcapng").display().to_string();
    let merged = merge(&[&paths[0], &paths[1], "--reorder"], None, &out);
    assert_eq!(merged.code, Some(0), "{}", merged.stderr);
    assert!(merged.packets == sorted(&files));
    let spilled = merged.json["spilled_bytes"].as_u64().expect("a number");
    assert!((60 << 20..100 << 20).contains(&spilled), "{}", merged.json);
    assert_eq!(
        (&merged.json["reordered"], merged.json["unsorted_files"][0]["late"].as_u64()),
        (&4999.into(), Some(4999))
    );
    assert_eq!(support::names(dir.path()), ["a.pcap", "b.pcap", "out.pcapng"], "nothing else is left");
}

#[test]
fn files_that_follow_each_other_are_open_one_at_a_time() {
    let dir = folder();
    let of_file = |file: usize| -> Vec<Packet> {
        (0..50).map(|i| packet((file * 1000 + i) as u64, file, i, 100)).collect()
    };
    let files: Vec<_> = (0..30).map(of_file).collect();
    let captures = dir.path().join("captures/more");
    std::fs::create_dir_all(&captures).unwrap();
    for (number, packets) in files.iter().enumerate() {
        // Not in the order of their names.
        std::fs::write(captures.join(format!("{:02}.pcap", number * 7 % 30)), pcap_file(packets)).unwrap();
    }
    std::fs::write(captures.join("notes.txt"), "no capture").unwrap();
    let (folder, out) = (dir.path().join("captures"), captures.join("out.pcapng"));
    for _ in 0..2 {
        // The second time the output is found in the folder, and left out.
        let merged = merge(&[folder.to_str().unwrap()], None, out.to_str().unwrap());
        assert_eq!((merged.code, &merged.json["files"]), (Some(0), &30.into()), "{}", merged.stderr);
        assert!(merged.packets == files.concat());
        assert_eq!(merged.json["open_files_max"], 1, "{}", merged.json);
    }
}

#[test]
fn damage_is_reported_and_what_cannot_be_read_destroys_nothing() {
    let dir = folder();
    let files: Vec<Vec<Packet>> = (0..2)
        .map(|file| (0..100).map(|i| packet(10 * i as u64 + file as u64, file, i, 100)).collect())
        .collect();
    let whole = put(&dir, "whole.pcapng", &pcapng_file(&files[0]));
    let bytes = pcapng_file(&files[1]);
    let cut = put(&dir, "cut.pcapng", &bytes[..bytes.len() - 50]);
    let out = dir.path().join("out.pcapng").display().to_string();
    let expected = sorted(&[files[0].clone(), files[1][..99].to_vec()]);
    for more in [&[][..], &["--reorder"]] {
        let merged = merge(&[&[&whole[..], &cut], more].concat(), None, &out);
        assert_eq!(merged.code, Some(1), "{}", merged.stderr);
        assert!(merged.packets == expected && merged.stderr.contains("DAMAGED"), "{}", merged.stderr);
        assert_eq!(merged.json["damages"].as_array().map(Vec::len), Some(1), "{}", merged.json);
    }
    let text = put(&dir, "text", b"this is no capture of packets");
    let missing = dir.path().join("missing.pcap").display().to_string();
    for bad in [&text, &missing] {
        let refused = merge(&[&whole, bad], None, &out);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.packets == expected, "the output is as it was");
    }
    let own = merge(&[&whole, &out], None, &out);
    assert!(own.code == Some(2) && own.packets == expected, "{}", own.stderr);
}
