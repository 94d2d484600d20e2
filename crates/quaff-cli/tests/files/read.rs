//! `quaff capture --read` on files that the tests make, and on real ones: what goes in comes out.

use crate::stamped::{File, Format, START_NS};
use crate::support::{
    self, Ended, PATIENCE, QUAFF, below, capture, finish, folder, interrupt, lab_bench, names, run, tool,
    verify,
};
use quaff_file::read::CaptureFile;
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit::{captures, skip, test_name};
use quaff_wire::decode::Item;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn put(dir: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

fn path(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

/// All that is to be kept of a packet: the name and link type of its interface, its time, its bytes,
/// its length on the wire, its direction, and the drops before it.
type Packet = (String, u16, u64, Vec<u8>, u32, u32, u64);

fn packets(path: impl AsRef<Path>) -> Vec<Packet> {
    let (mut packets, mut interfaces) = (Vec::new(), Vec::new());
    let mut file = CaptureFile::open(path.as_ref()).expect("a file");
    let mut each = |item: Item<'_>| match item {
        Item::Section(_) => interfaces.clear(),
        Item::Interface(interface) => {
            interfaces.push(String::from_utf8_lossy(interface.name.unwrap_or_default()).into_owned());
        }
        Item::Frame(f) => {
            let name = interfaces[f.interface as usize].clone();
            packets.push((
                name,
                f.linktype,
                f.time_ns,
                f.data.to_vec(),
                f.wire_len,
                f.flags & 3,
                f.dropcount,
            ));
        }
        _ => {}
    };
    while file.pull(&mut each).unwrap_or(false) {}
    packets
}

#[track_caller]
fn assert_done(ended: &Ended, written: u64) {
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
    let ledger = &ended.json;
    assert_eq!((&ledger["offered"], &ledger["received"]), (&written.into(), &written.into()), "{ledger}");
    assert_eq!((&ledger["written"], &ledger["lossless"]), (&written.into(), &true.into()), "{ledger}");
    assert_eq!(ledger["ended_by"], "input_ended");
}

/// Two sections, one in each byte order, with interfaces of several kinds, two of them the same.
fn sections() -> Vec<u8> {
    fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
        let u16 = |word: u16| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut option = [&u16(code)[..], &u16(value.len() as u16), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }
    let mut file = Vec::new();
    for big in [false, true] {
        let u16 = |word: u16| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let u32 = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut block = |kind: u32, body: &[u8]| {
            let length = u32(body.len() as u32 + 12);
            file.extend([&u32(kind)[..], &length, body, &length].concat());
        };
        let version = [u32(0x1A2B_3C4D).to_vec(), u16(1).to_vec(), u16(0).to_vec(), vec![0xFF; 8]].concat();
        block(0x0A0D_0D0A, &version);
        let kinds: &[(u16, &str, u8)] =
            if big { &[(1, "both", 9), (101, "tun", 0x80 | 30)] } else { &[(113, "any", 6), (1, "both", 9)] };
        for (number, (linktype, name, tsresol)) in kinds.iter().enumerate() {
            let options = [option(big, 2, name.as_bytes()), option(big, 9, &[*tsresol]), vec![0; 4]].concat();
            block(1, &[&u16(*linktype)[..], &[0; 2], &u32(0), &options].concat());
            let ticks: u64 = match tsresol {
                9 => 1_700_000_000_000_000_123,
                6 => 1_700_000_000_000_001,
                _ => 1_700_000_000 << 30 | 1 << 29,
            };
            for direction in 0..3u32 {
                let data = [number as u8; 61];
                let times = [u32((ticks >> 32) as u32), u32(ticks as u32)].concat();
                let head = [&u32(number as u32)[..], &times, &u32(61), &u32(1514), &data, &[0; 3]].concat();
                let drops = if direction == 2 { 5u64 } else { 0 };
                let drops = if big { drops.to_be_bytes() } else { drops.to_le_bytes() };
                block(6, &[head, option(big, 2, &u32(direction)), option(big, 4, &drops)].concat());
            }
        }
        block(4, &[0; 4]); // Names, of which there are none.
        block(0x0BAD, &[7; 8]);
    }
    file
}

#[test]
fn sections_interfaces_times_directions_and_drops_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (put(&dir, "in.pcapng", &sections()), path(&dir, "out.pcapng"));
    let ended = capture(&["--read", &from, "-w", &to]);
    assert_eq!((ended.code, &ended.json["written"], &ended.json["lost"]), (1, &12.into(), &0.into()));
    assert_eq!(
        (&ended.json["input"]["recorded_drops"], &ended.json["verdict"]),
        (&20.into(), &"lossy".into())
    );
    let kept = packets(&to);
    assert_eq!(kept, packets(&from));
    assert_eq!(kept[9].2, 1_700_000_000_500_000_000, "a time in powers of two");
    // The counters in it agree with what is in it, interface by interface.
    let found = verify(&[&to]);
    let ledger = &found["ledger"];
    assert_eq!((&ledger["consistent"], &ledger["epb_dropcount"]), (&true.into(), &20.into()), "{found}");
    assert_eq!(ledger["recorded_drops"], 20);
    let Some(mut tshark) = tool(test_name!(), "tshark") else { return };
    let text =
        run(tshark.args(["-r", &to, "-T", "fields", "-e", "frame.interface_name", "-e", "frame.time_epoch"]));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (12, "any\t1700000000.000001000"));
    assert_eq!((lines[6], lines[9]), ("both\t1700000000.000000123", "tun\t1700000000.500000000"));
}

#[test]
fn pcap_takes_the_packets_of_one_link_type() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (put(&dir, "in.pcapng", &sections()), path(&dir, "out.pcap"));
    let ended = capture(&["--read", &from, "-w", &to, "--format", "pcap"]);
    assert_eq!((ended.code, &ended.json["unsuited"], &ended.json["written"]), (1, &9.into(), &3.into()));
    assert!(packets(&to).iter().all(|packet| packet.1 == 113));
}

/// The same packets make the same bytes, however fast and in whatever wrapping they come.
#[test]
fn the_same_file_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    // 26 s, in more parts than one.
    let bytes = File::new(Format::Pcapng).frames((0..60_000).chain((1..26).map(|i| i * 1_000_000))).bytes;
    let from = put(&dir, "in.pcapng", &bytes);
    let sink = path(&dir, "out");
    let read = |from: &str, to: &str| {
        std::fs::remove_dir_all(&sink).ok();
        std::fs::create_dir(&sink).unwrap();
        let out: &[&str] = if to == "dir" { &["--dir", &sink, "--rotate-time", "2s"] } else { &["-w", to] };
        assert_done(&capture(&[&["--read", from], out].concat()), 60_025);
        if to == "dir" {
            names(Path::new(&sink))
                .iter()
                .map(|n| (n.clone(), std::fs::read(dir.path().join("out").join(n)).unwrap()))
                .collect()
        } else {
            vec![(String::new(), std::fs::read(to).unwrap())]
        }
    };
    let (file, rotated) = (read(&from, &path(&dir, "a")), read(&from, "dir"));
    assert!(rotated.len() >= 13, "{}", rotated.len());
    assert!(rotated[0].0.starts_with("quaff-20231114T"), "{}", rotated[0].0);
    assert!(read(&from, &path(&dir, "b")) == file && read(&from, "dir") == rotated);
    for packer in ["gzip", "zstd", "lz4"] {
        let Some(mut command) = tool(test_name!(), packer) else { continue };
        let packed = command.args(["-c", "-q", &from]).output().expect("it packs").stdout;
        // The name has no extension for the compression.
        let packed = put(&dir, "packed", &packed);
        assert!(read(&packed, &path(&dir, "c")) == file, "{packer}");
    }
    let to = path(&dir, "d");
    let mut child = Command::new(QUAFF);
    let child = child.args(["capture", "--read", "-", "-q", "-w", &to]).stdin(Stdio::piped()).spawn();
    let mut child = child.expect("quaff runs");
    let mut stdin = child.stdin.take().unwrap();
    for (i, part) in bytes.chunks(99_991).enumerate() {
        stdin.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(if i % 20 == 0 { 15 } else { 0 }));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert!(std::fs::read(&to).unwrap() == file[0].1, "through a pipe that stammers");
}

/// Interfaces that appear on the way are described at the same place, however far ahead one thread of
/// ours is of the other.
#[test]
fn interfaces_found_on_the_way_are_where_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    for number in 0..40u64 {
        let mut section = File::new(Format::Pcapng).frames(number * 3000..(number + 1) * 3000).bytes;
        let name = section.windows(5).position(|bytes| bytes == b"test0").expect("its name");
        section[name..name + 5].copy_from_slice(format!("if-{number:02}").as_bytes());
        bytes.extend(section);
    }
    let (from, to) = (put(&dir, "in.pcapng", &bytes), path(&dir, "out.pcapng"));
    let (folder, mut first) = (path(&dir, "out"), None);
    for _ in 0..6 {
        std::fs::create_dir(&folder).unwrap();
        assert_done(&capture(&["--read", &from, "--dir", &folder, "--rotate-size", "2M"]), 120_000);
        let files: Vec<_> = names(Path::new(&folder))
            .iter()
            .map(|name| std::fs::read(Path::new(&folder).join(name)).unwrap())
            .collect();
        assert!(files.len() > 5, "{}", files.len());
        assert!(*first.get_or_insert(files.clone()) == files);
        std::fs::remove_dir_all(&folder).unwrap();
    }
    assert_done(&capture(&["--read", &from, "-w", &to]), 120_000);
    assert!(packets(&to) == packets(&from));
    assert_eq!(verify(&[&to])["complete"], true);
}

#[test]
fn several_files_are_one_capture() {
    let dir = tempfile::tempdir().unwrap();
    let parts: Vec<_> = [0..500, 500..1000, 1000..1500]
        .into_iter()
        .enumerate()
        .map(|(i, seqs)| put(&dir, &format!("{i}.pcapng"), &File::new(Format::Pcapng).frames(seqs).bytes))
        .collect();
    let to = path(&dir, "all.pcapng");
    let ended = capture(&["-r", &parts[0], "-r", &parts[1], "-r", &parts[2], "-w", &to]);
    assert_done(&ended, 1500);
    assert_eq!(verify(&[&to])["complete"], true);
    let Some(mut capinfos) = tool(test_name!(), "capinfos") else { return };
    let printed = run(capinfos.arg(&to));
    assert!(printed.contains("Number of interfaces in file: 1\n"), "{printed}");
}

#[test]
fn files_of_old_hosts_are_read_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let usual = File::new(Format::Pcap).frames(0..100).bytes;
    let (head, records) = usual.split_at(24);
    let mut wide = head.to_vec();
    for record in records.chunks(116) {
        let (times, rest) = record.split_at(8);
        wide.extend([&times[..4], &[0; 4], &times[4..], &[0; 4], rest].concat());
    }
    let mut patched = [&0xA1B2_CD34u32.to_le_bytes()[..], &head[4..]].concat();
    for record in records.chunks(116) {
        let (usual, data) = record.split_at(16);
        patched.extend([usual, &[2, 0, 0, 0, 8, 0, 4, 0], data].concat());
    }
    for (bytes, words) in [(wide, "pcap of an old 64-bit host"), (patched, "patched by Kuznetzov")] {
        let (from, to) = (put(&dir, "old.pcap", &bytes), path(&dir, "new.pcapng"));
        let ended = capture(&["--read", &from, "-w", &to]);
        assert_done(&ended, 100);
        assert!(ended.json["notes"][0].as_str().unwrap().contains(words), "{}", ended.json);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert_eq!(verify(&[&to])["complete"], true);
        assert!(verify(&[&from])["notes"][0].as_str().unwrap().contains(words));
    }
}

#[test]
fn packets_before_damage_are_written_and_the_rest_can_be_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    for format in [Format::Pcap, Format::Pcapng] {
        let mut bytes = File::new(format).frames(0..1000).bytes;
        let at = bytes.len();
        bytes.extend([0xEE; 333]);
        bytes.extend_from_slice(&File::new(format).frames(1000..2000).bytes[first_packet(format)..]);
        let (from, to) = (put(&dir, "damaged", &bytes), path(&dir, "out.pcapng"));
        let ended = capture(&["--read", &from, "-w", &to]);
        let damages = &ended.json["input"]["damages"];
        assert_eq!((ended.code, &ended.json["written"]), (1, &1000.into()), "{}", ended.json);
        assert!(damages[0].as_str().unwrap().contains(&format!("at offset {at}: ")), "{damages}");
        assert!(ended.stderr.contains("DAMAGED"), "{}", ended.stderr);
        assert_eq!(verify(&[&to])["complete"], true);

        let ended = capture(&["--read", &from, "--salvage", "-w", &to]);
        let jumps = serde_json::json!({ "count": 1, "bytes": 333, "first_offset": at });
        assert_eq!((ended.code, &ended.json["input"]["jumps"]), (1, &jumps), "{}", ended.json);
        assert_eq!(ended.json["written"], 2000);
        assert_eq!(verify(&[&to])["complete"], true);
        let found = verify(&["--salvage", &from]);
        assert_eq!((&found["received"], &found["jumps"]), (&2000.into(), &jumps), "{found}");
        assert_eq!(found["reasons"], serde_json::json!(["damaged bytes had to be skipped"]));
    }
}

fn first_packet(format: Format) -> usize {
    File::new(format).bytes.len()
}

#[test]
fn a_torn_archive_gives_what_is_in_it() {
    let Some(mut gzip) = tool(test_name!(), "gzip") else { return };
    let dir = tempfile::tempdir().unwrap();
    let from = put(&dir, "in.pcapng", &File::new(Format::Pcapng).frames(0..20_000).bytes);
    let mut packed = gzip.args(["-c", &from]).output().expect("it packs").stdout;
    packed.truncate(packed.len() / 2);
    let (from, to) = (put(&dir, "torn", &packed), path(&dir, "out.pcapng"));
    let ended = capture(&["--read", &from, "-w", &to]);
    let printed = format!("{from}: gzip data at offset {}: truncated", packed.len());
    assert_eq!((ended.code, &ended.json["input"]["damages"][0]), (1, &printed.into()), "{}", ended.json);
    let written = ended.json["written"].as_u64().unwrap();
    assert!((8_000..12_000).contains(&written), "{written}");
    assert_eq!(verify(&[&to])["received"], written);
}

#[test]
fn an_unreadable_file_leaves_the_output_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let to = put(&dir, "precious", b"something that is kept");
    let good = put(&dir, "good.pcap", &File::new(Format::Pcap).frames(0..10).bytes);
    let text = put(&dir, "text", b"this is no capture file");
    for (files, words) in [
        (&[&text[..]][..], "this is neither pcap nor pcapng"),
        (&[&path(&dir, "nowhere")], "No such file"),
        (&[&good, &path(&dir, "nowhere")], "No such file"),
    ] {
        let args: Vec<_> = files.iter().flat_map(|file| ["--read", file]).chain(["-w", &to]).collect();
        let ended = capture(&args);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert_eq!(std::fs::read(&to).unwrap(), b"something that is kept");
    }
    let ended = capture(&["--read", &good, "-w", &good]);
    assert_eq!((ended.code, packets(&good).len()), (2, 10), "{}", ended.stderr);
}

#[test]
fn count_and_snaplen_hold_for_files_too() {
    let dir = tempfile::tempdir().unwrap();
    let from = put(&dir, "in.pcap", &File::new(Format::Pcap).frames(0..5000).bytes);
    let to = path(&dir, "out.pcapng");
    let ended = capture(&["--read", &from, "-w", &to, "--count", "1234", "-s", "64"]);
    assert_eq!(
        (ended.code, &ended.json["written"], &ended.json["ended_by"]),
        (0, &1234.into(), &"count".into())
    );
    assert!(packets(&to).iter().all(|packet| (packet.3.len(), packet.4) == (64, 100)));
}

/// Every packet of every real file that is at hand, as quaff reads it; and as capinfos counts it.
#[test]
fn real_files_come_through_as_they_are() {
    let test = test_name!();
    let (dir, captures) = (support::folder(), captures());
    let mut files: Vec<PathBuf> = [".", "protocols", "tunnels"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(captures.join(folder)).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && path.extension().is_none_or(|extension| extension != "txt"))
        .collect();
    files.sort();
    if files.is_empty() {
        return skip(
            test,
            &format!("no captures in {}; QUAFF_CAPTURES says where to look", captures.display()),
        );
    }
    // Most are small and alike: each fourth one, and the large one.
    let files = files.iter().enumerate().filter(|(i, path)| i % 4 == 0 || path.ends_with("mix.pcap"));
    let mut outputs = Vec::new();
    for (i, from) in files {
        let to = path(&dir, &format!("{i}.pcapng"));
        let ended = capture(&["--read", &from.display().to_string(), "-w", &to]);
        let expected = packets(from);
        assert_done(&ended, expected.len() as u64);
        assert!(packets(&to) == expected, "{}", from.display());
        outputs.push((to, expected.len()));
    }
    let Some(mut capinfos) = tool(test, "capinfos") else { return };
    let printed = run(capinfos.args(["-T", "-r", "-c", "-M"]).args(outputs.iter().map(|(path, _)| path)));
    for ((path, count), line) in outputs.iter().zip(printed.lines()) {
        assert_eq!(line.split_once(['\t', ',']), Some((&path[..], &count.to_string()[..])));
    }
}

/// `quaff ARGS` in the background.
fn follow(args: &[&str]) -> ChildProcess {
    let mut command = Command::new(QUAFF);
    command.args(args).arg("--json");
    ChildProcess::start(command).expect("quaff runs")
}

#[track_caller]
fn wait_until(what: impl FnMut() -> bool) {
    wait_for("it", what);
}

/// The same, with a name of what waits.
#[track_caller]
fn wait_for(name: &str, mut what: impl FnMut() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(started.elapsed() < PATIENCE, "{name} does not come to that");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_file_that_grows_is_followed_until_it_is_renamed_or_removed() {
    for is_renamed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let bytes = File::new(Format::Pcapng).frames(0..3000).bytes;
        let (first, later) = bytes.split_at(bytes.len() / 2 + 17);
        let (from, to) = (put(&dir, "growing", first), path(&dir, "out.pcapng"));
        let running = follow(&["capture", "--read", &from, "--follow", "-w", &to, "--flush", "50ms"]);
        wait_until(|| Path::new(&to).exists() && packets(&to).len() >= 1400);
        let mut file = std::fs::File::options().append(true).open(&from).unwrap();
        for part in later.chunks(5000) {
            file.write_all(part).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
        if is_renamed {
            std::fs::rename(&from, path(&dir, "done")).unwrap();
        } else {
            std::fs::remove_file(&from).unwrap();
        }
        let ended = finish(running);
        assert_done(&ended, 3000);
        assert_eq!(verify(&[&to])["complete"], true);
    }
}

#[test]
fn a_signal_ends_the_following_and_what_is_there_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = File::new(Format::Pcap).frames(0..1000).bytes;
    bytes.truncate(bytes.len() - 50); // The writer is in the middle of the last packet.
    let (from, to) = (put(&dir, "growing", &bytes), path(&dir, "out.pcapng"));
    let running = follow(&["capture", "--read", &from, "--follow", "-w", &to, "--flush", "50ms"]);
    wait_until(|| Path::new(&to).exists() && packets(&to).len() == 999);
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &999.into()), "{}", ended.json);
    assert_eq!(ended.json["ended_by"], "signal");
    assert_eq!(packets(&to).last().unwrap().2, START_NS + 998_000);

    let running = follow(&["verify", &from, "--follow"]);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::SIGTERM).unwrap();
    let ended = finish(running);
    assert_eq!(
        (&ended.json["received"], &ended.json["complete"]),
        (&999.into(), &true.into()),
        "{}",
        ended.json
    );

    let started = Instant::now();
    let ended = capture(&["--read", &from, "--follow", "-w", &to, "--duration", "300ms"]);
    assert_eq!((ended.code, &ended.json["ended_by"]), (0, &"duration".into()), "{}", ended.json);
    assert!(started.elapsed() >= Duration::from_millis(300));
}

/// At a low rate a wakeup costs as much as hundreds of packets.
#[test]
fn threads_that_have_nothing_to_do_rarely_wake() {
    let dir = tempfile::tempdir().unwrap();
    let from = put(&dir, "growing", &File::new(Format::Pcap).frames(0..10).bytes);
    let running = follow(&["capture", "--read", &from, "--follow", "-w", "/dev/null", "--flush", "50ms"]);
    let sleeps = || ["quaff", "quaff-writer"].map(|name| sleeps(running.pid(), name));
    wait_until(|| sleeps().iter().all(Option::is_some));
    std::thread::sleep(Duration::from_millis(700));
    let before = sleeps();
    std::thread::sleep(Duration::from_secs(2));
    let woken: Vec<_> =
        before.iter().zip(sleeps()).map(|(before, after)| after.unwrap() - before.unwrap()).collect();
    assert!(woken[0] <= 1 && woken[1] <= 3, "in 2 s: {woken:?}");
    assert_eq!(interrupt(running).code, 0);
}

/// The waits of a thread so far; `None` while there is no such thread.
fn sleeps(pid: u32, name: &str) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let field = |status: &str, field: &str| {
        Some(status.lines().find_map(|line| line.strip_prefix(field))?.trim().to_owned())
    };
    let status = statuses.into_iter().find(|status| field(status, "Name:").as_deref() == Some(name))?;
    field(&status, "voluntary_ctxt_switches:")?.parse().ok()
}

#[test]
fn a_pipe_without_a_writer_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let to = path(&dir, "out.pcapng");
    let bytes = File::new(Format::Pcap).frames(0..10).bytes;
    let mut command = Command::new(QUAFF);
    command.args(["capture", "--read", "-", "-w", &to, "--flush", "50ms"]).stdin(Stdio::piped());
    let mut child = command.spawn().expect("quaff runs");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&bytes).unwrap();
    wait_until(|| Path::new(&to).exists() && packets(&to).len() == 10);
    quaff_os::process::send(child.id(), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(packets(&to).len(), 10);
    drop(stdin);
}

/// One quaff captures, another one reads what it writes: all of it arrives, and when the first one is
/// killed, all that it had written does.
#[test]
fn a_capture_in_progress_is_followed() {
    let bench = lab_bench!(1 << 28);
    for is_killed in [false, true] {
        let (live, copy) = (bench.path("live.pcapng"), bench.path("copy.pcapng"));
        let running = bench.capture(&["-w", &live, "--flush", "100ms"]);
        bench.generate("--size 300 --count 1000 --pps 20000");
        let following = follow(&["capture", "--read", &live, "--follow", "-w", &copy, "--flush", "50ms"]);
        bench.generate("--size 300 --count 20000 --pps 40000 --stream 8");
        if is_killed {
            running.signal(Signal::SIGKILL).unwrap();
            finish(running);
        } else {
            assert_eq!(interrupt(running).code, 0);
        }
        let written = packets(&live).len();
        wait_until(|| Path::new(&copy).exists() && packets(&copy).len() == written);
        let ended = interrupt(following);
        assert_eq!(
            (ended.code, &ended.json["written"]),
            (0, &written.into()),
            "{} {}",
            ended.json,
            ended.stderr
        );
        assert!(packets(&copy) == packets(&live));
        if !is_killed {
            assert_eq!(verify(&[&copy])["received"], 21_000);
        }
    }
}

#[test]
fn filters_and_tunnels_work_on_files() {
    let test = test_name!();
    let dir = support::folder();
    let Some(from) = quaff_testkit::capture(test, "mix.pcap") else { return };
    let (from, to) = (from.display().to_string(), path(&dir, "out.pcapng"));
    let Some(mut tcpdump) = tool(test, "tcpdump") else { return };
    let expected = run(tcpdump.args(["-r", &from, "--count", "tcp port 443"]));
    let expected: u64 = expected.split_whitespace().next().unwrap().parse().unwrap();
    let ended = capture(&["--read", &from, "-f", "tcp port 443", "-w", &to]);
    assert_eq!(
        (ended.code, &ended.json["written"]),
        (0, &expected.into()),
        "{} {}",
        ended.json,
        ended.stderr
    );
    let all = ended.json["offered"].as_u64().unwrap();
    assert_eq!(ended.json["filtered"], all - expected);

    // What decapsulation makes of it is tested elsewhere; here every packet ends in one count.
    let ended = capture(&["--read", &from, "--decap", "auto", "-w", &to]);
    assert_eq!((ended.code, &ended.json["lossless"]), (0, &true.into()), "{} {}", ended.json, ended.stderr);
    assert_eq!(packets(&to).len() as u64, ended.json["written"].as_u64().unwrap());
    assert_eq!(verify(&[&to])["ledger"]["consistent"], true);
}

#[test]
fn input_files_are_not_removed_and_a_pipe_is_not_followed() {
    let dir = folder();
    let inputs: Vec<String> =
        (0..3).map(|n| put(&dir, &format!("quaff-20260101T000000-00000{n}.pcapng"), &sections())).collect();
    let mut args: Vec<&str> = inputs.iter().flat_map(|input| ["--read", input.as_str()]).collect();
    let into = dir.path().display().to_string();
    args.extend(["--dir", &into, "--keep-files", "2"]);
    let ended = capture(&args);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("holds input files"), "{}", ended.stderr);
    assert_eq!(names(dir.path()).len(), 3);

    let ended = capture(&["--read", "-", "--follow", "-w", &path(&dir, "x.pcapng")]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("--follow applies to files"), "{}", ended.stderr);
}

#[test]
fn the_first_signal_ends_each_command_that_waits_for_the_writer_of_a_pipe() {
    let dir = folder();
    let (fifo, out) = (path(&dir, "fifo"), path(&dir, "out"));
    run(Command::new("mkfifo").arg(&fifo));
    for line in [
        "capture --read FIFO -w OUT",
        "capture --read FIFO --decap auto --dedup -w OUT",
        "flows --read FIFO --csv OUT",
        "flows top --read FIFO --once",
        "split --read FIFO -w OUT",
        "streams --read FIFO --script default --out OUT",
        "streams extract --read FIFO --dir OUT",
        "merge FIFO -w OUT",
        "merge --reorder FIFO -w OUT",
        "replay FIFO -w OUT",
        "verify FIFO",
        "info FIFO",
    ] {
        let args = line.split(' ').map(|word| match word {
            "FIFO" => &fifo,
            "OUT" => &out,
            word => word,
        });
        let mut child =
            Command::new(QUAFF).args(args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        wait_for(line, || has_open(pid, &fifo) || child.try_wait().expect("asked").is_some());
        // It has masked the signal, or has not: both end it.
        std::thread::sleep(Duration::from_millis(100));
        let ended_early = child.try_wait().expect("asked");
        if ended_early.is_none() {
            run(Command::new("kill").args(["-INT", &pid.to_string()]));
            wait_for(line, || child.try_wait().expect("asked").is_some());
        }
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(ended_early.is_none(), "{line} does not wait: {ended_early:?} {said}");
        assert!(!said.contains("panicked") && !said.contains("immediately"), "{line}: {said}");
        let _ = std::fs::remove_file(&out);
        let _ = std::fs::remove_dir_all(&out);
    }
}

/// Sizes and contents that a sender learns before it begins are read on a thread; the process that reads them for a
/// sender ends with it.
#[test]
fn the_first_signal_ends_a_sender_that_waits_for_the_writer_of_a_pipe() {
    let dir = folder();
    let (fifo, out) = (path(&dir, "fifo"), path(&dir, "out"));
    run(Command::new("mkfifo").arg(&fifo));
    for line in [
        "generate --count 1 -w OUT --sizes-from FIFO",
        "generate --count 1 -w OUT --no-sandbox --sizes-from FIFO",
        "generate --count 1 -w OUT --content-from FIFO",
        "generate --count 1 -o lo --content-from FIFO",
        "generate --count 1 -o lo --sizes-from FIFO",
    ] {
        let args = line.split(' ').map(|word| word.replace("FIFO", &fifo).replace("OUT", &out));
        let child = Command::new(QUAFF).args(args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = child.expect("quaff runs");
        let pid = child.id();
        wait_until(|| has_thread(pid, "quaff-open") || child.try_wait().expect("asked").is_some());
        std::thread::sleep(Duration::from_millis(100));
        assert!(child.try_wait().expect("asked").is_none(), "{line} waits");
        let readers = below(pid);
        run(Command::new("kill").args(["-INT", &pid.to_string()]));
        wait_until(|| child.try_wait().expect("asked").is_some());
        wait_until(|| readers.iter().all(|(pid, _)| !Path::new(&format!("/proc/{pid}")).exists()));
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("ended before the first packet"), "{line}: {said}");
    }
}

/// Returns whether a process has a thread of that name.
fn has_thread(pid: u32, name: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default())
        .any(|found| found.trim() == name)
}

/// Whoever opens the pipe late is read as any other writer.
#[test]
fn a_pipe_is_read_whole_however_late_its_writer_comes() {
    let dir = folder();
    let (fifo, made) = (path(&dir, "fifo"), path(&dir, "made.pcapng"));
    run(Command::new("mkfifo").arg(&fifo));
    run(Command::new(QUAFF).args(["generate", "--count", "5000", "--size", "1000", "-w", &made]));
    for seconds in ["0", "0.5"] {
        let script = format!("sleep {seconds}; exec cat '{made}' > '{fifo}'");
        let mut writer = Command::new("sh").args(["-c", &script]).spawn().expect("sh runs");
        let ended = capture(&["--read", &fifo, "-w", &path(&dir, "x.pcapng")]);
        assert_eq!((ended.code, &ended.json["written"]), (0, &5000.into()), "{}", ended.stderr);
        assert!(writer.wait().expect("it ends").success());
    }
    // One that writes nothing is an empty file, at once.
    let mut writer = Command::new("sh").args(["-c", &format!(": > '{fifo}'")]).spawn().expect("sh runs");
    let ended = capture(&["--read", &fifo, "-w", &path(&dir, "x.pcapng")]);
    writer.wait().expect("it ends");
    assert_eq!(ended.json["written"].as_u64().unwrap_or(0), 0, "{}", ended.stderr);
}

/// Returns whether a process has opened that file.
fn has_open(pid: u32, file: &str) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.map(|fd| std::fs::read_link(fd.path())).any(|to| to.is_ok_and(|to| to == std::path::Path::new(file)))
}
