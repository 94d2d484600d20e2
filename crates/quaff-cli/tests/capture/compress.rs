//! Compressed output: what is in it, what other programs read of it, also after kill -9, and that it costs no packet.

use crate::stamped::{File, Format};
use crate::support::{
    self, Bench, PATIENCE, QUAFF, capture, finish, folder, interrupt, lab_bench, names, ours, run, tool,
    verify,
};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// A value of `--compress`, the suffix of its files, and the program that reads them.
const TYPES: [(&str, &str, &str); 3] =
    [("zstd", "zst", "zstd"), ("lz4", "lz4", "lz4"), ("gzip", "gz", "gzip")];
/// Frames of the input files: several chunks.
const FRAMES: u64 = 90_000;
/// Kills in the test suite, one of each type; `make soak` does 20.
const KILLS: u32 = 3;

/// A file of [`FRAMES`] frames, several chunks long.
fn input(dir: &TempDir) -> String {
    let path = dir.path().join("in.pcap");
    std::fs::write(&path, File::new(Format::Pcap).frames(0..FRAMES).bytes).expect("a file");
    path.display().to_string()
}

fn path(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

/// The packets of a file as a plain stream.
fn plain(file: &str) -> Vec<u8> {
    let done =
        Command::new(QUAFF).args(["capture", "-q", "--read", file, "-w", "-"]).output().expect("quaff");
    assert!(done.status.success(), "{file}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

/// Asserts that the program reads the whole file, and has nothing to say about it.
#[track_caller]
fn assert_read_by(program: &str, file: &str) {
    let Some(mut command) = tool("compress", program) else { return };
    let done = command.args(["-dc", file]).stdout(Stdio::null()).output().expect("it runs");
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && words.is_empty(), "{program} {file}: {words}");
}

#[test]
fn a_compressed_file_holds_what_a_plain_one_does() {
    let dir = folder();
    let from = input(&dir);
    let expected = plain(&from);
    for (kind, suffix, program) in TYPES {
        for format in ["pcapng", "pcap"] {
            let file = path(&dir, &format!("out.{format}.{suffix}"));
            let ended = capture(&["--read", &from, "-w", &file, "--format", format]);
            assert_eq!(
                (ended.code, &ended.json["written"]),
                (0, &FRAMES.into()),
                "{} {}",
                ended.json,
                ended.stderr
            );
            let bytes = std::fs::read(&file).unwrap();
            let compression = &ended.json["compression"];
            assert_eq!((&compression["format"], &compression["stored_frames"]), (&kind.into(), &0.into()));
            assert_eq!(ended.json["bytes_written"], bytes.len());
            assert!(compression["frames"].as_u64() >= Some(3), "{compression}");
            assert!(compression["plain_bytes"].as_u64() > Some(2 * bytes.len() as u64), "{compression}");
            assert_read_by(program, &file);
            assert!(plain(&file) == expected, "{file}");
            let found = verify(&[&file]);
            assert_eq!((&found["received"], &found["lost"]), (&FRAMES.into(), &0.into()), "{found}");
            // The same input, and a type that is asked for: the same bytes.
            let again = path(&dir, "again");
            capture(&["--read", &from, "-w", &again, "--format", format, "--compress", kind]);
            assert!(std::fs::read(&again).unwrap() == bytes, "{file}");
        }
    }
}

#[test]
fn tshark_reads_the_files() {
    let test = test_name!();
    let Some(_) = tool(test, "tshark") else { return };
    let dir = folder();
    let from = path(&dir, "few.pcap");
    std::fs::write(&from, File::new(Format::Pcap).frames(0..3000).bytes).unwrap();
    for (_, suffix, program) in TYPES {
        if tool(test, program).is_none() {
            continue;
        }
        let file = path(&dir, &format!("out.pcapng.{suffix}"));
        assert_eq!(capture(&["--read", &from, "-w", &file]).code, 0);
        // Wireshark before 4.6 reads the first frame of zstd and lz4 only.
        let read = match suffix {
            "gz" => format!("tshark -r {file} -T fields -e frame.number 2>/dev/null | wc -l"),
            _ => format!("{program} -dc {file} | tshark -r - -T fields -e frame.number 2>/dev/null | wc -l"),
        };
        assert_eq!(run(Command::new("sh").args(["-c", &read])).trim(), "3000", "{file}");
    }
}

#[test]
fn a_stream_and_a_live_copy_have_their_own_form() {
    let dir = folder();
    let from = input(&dir);
    let expected = plain(&from);
    let done = Command::new(QUAFF)
        .args(["capture", "-q", "--read", &from, "-w", "-", "--compress", "zstd:3"])
        .output()
        .expect("quaff runs");
    let stream = path(&dir, "stream");
    std::fs::write(&stream, &done.stdout).unwrap();
    assert!(done.stdout.starts_with(&0xFD2F_B528u32.to_le_bytes()) && done.stdout.len() < expected.len() / 2);
    assert!(plain(&stream) == expected);
    // The files are compressed, the copy is not.
    let disk = path(&dir, "disk");
    std::fs::create_dir(&disk).unwrap();
    let done = Command::new(QUAFF)
        .args(["capture", "-q", "--read", &from, "-w", "-", "--tee", &disk, "--compress", "lz4"])
        .output()
        .expect("quaff runs");
    assert!(done.stdout.starts_with(&0x0A0D_0D0Au32.to_le_bytes()));
    let files = names(Path::new(&disk));
    assert!(files.len() == 1 && files[0].ends_with("-000000.pcapng.lz4"), "{files:?}");
    assert!(plain(&format!("{disk}/{}", files[0])) == expected);
}

#[test]
fn files_of_a_folder_have_their_size_on_disk_and_the_suffix() {
    let dir = folder();
    let from = input(&dir);
    for (kind, suffix, program) in TYPES {
        let disk = path(&dir, kind);
        std::fs::create_dir(&disk).unwrap();
        let args = ["--read", &from, "--dir", &disk, "--rotate-size", "2M", "--compress", kind];
        let ended = capture(&args);
        let (files, written) = (ours(Path::new(&disk)), &ended.json["written"]);
        assert_eq!((ended.code, written), (0, &FRAMES.into()), "{} {}", ended.json, ended.stderr);
        let sizes: Vec<_> = files.iter().map(|file| std::fs::metadata(file).unwrap().len()).collect();
        assert!(files.iter().all(|file| file.ends_with(&format!(".pcapng.{suffix}"))), "{files:?}");
        // Only the last one may be small: sizes are those on the disk.
        let (_, full) = sizes.split_last().unwrap();
        assert!(full.iter().all(|size| (1 << 20..=2 << 20).contains(size)), "{kind}: {sizes:?}");
        assert_eq!(ended.json["bytes_written"], sizes.iter().sum::<u64>());
        files.iter().for_each(|file| assert_read_by(program, file));
        let paths: Vec<_> = files.iter().map(String::as_str).collect();
        let found = verify(&paths);
        assert_eq!((&found["received"], &found["lost"]), (&FRAMES.into(), &0.into()), "{found}");
        // Files of the run before count for the rules, and so do their names.
        let ended = capture(&[&args[..], &["--keep-files", "2"]].concat());
        let left = ours(Path::new(&disk));
        assert_eq!((left.len(), ended.code), (2, 0), "{left:?}");
        let pruned = ended.json["pruned"].as_u64().unwrap();
        assert_eq!(pruned, 2 * files.len() as u64 - 2, "{}", ended.json);
    }
    let disk = path(&dir, "numbered");
    std::fs::create_dir(&disk).unwrap();
    capture(&["--read", &from, "--dir", &disk, "--name", "tap%3i.cap", "--compress", "zstd"]);
    assert_eq!(names(Path::new(&disk)), ["tap000.cap.zst"]);
}

#[test]
fn contradictions_are_refused() {
    let refusals = [
        (&["-w", "x.pcapng.zst", "--compress", "gzip"][..], "contradicts the name"),
        (&["-w", "x.pcapng", "--compress-cpu", "0"], "needs --compress"),
        (&["-w", "x.pcapng.gz", "--compress-cpu", "4000"], "core 4000"),
        (&["-w", "x.pcapng", "--compress", "zip"], "none of zstd, lz4, gzip"),
        (&["-w", "x.pcapng", "--compress", "gzip:10"], "levels 1 to 9"),
    ];
    let dir = folder();
    let from = path(&dir, "few.pcap");
    std::fs::write(&from, File::new(Format::Pcap).frames(0..10).bytes).unwrap();
    for (args, words) in refusals {
        let done = Command::new(QUAFF)
            .current_dir(dir.path())
            .args(["capture", "--read", &from])
            .args(args)
            .output()
            .expect("quaff runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn a_dry_run_shows_the_compression() {
    let args = ["capture", "-i", "lo", "--dir", ".", "--compress", "zstd:3", "--buffer", "64M", "--dry-run"];
    let shown = run(Command::new(QUAFF).args(args));
    assert!(shown.contains("compress   zstd:3, one thread; if more than 16.0 MiB"), "{shown}");
}

/// A number that is not the same in each run, without a dependency for it.
fn arbitrary() -> u64 {
    u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos())
}

/// Number of kills: `QUAFF_KILLS`, or the default of the suite.
fn kills() -> u32 {
    std::env::var("QUAFF_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS)
}

#[test]
fn kill_9_leaves_whole_frames() {
    let bench = lab_bench!(1 << 30);
    for kill in 0..kills() {
        let (_, suffix, program) = TYPES[kill as usize % 3];
        let format = ["pcapng", "pcap"][kill as usize / 3 % 2];
        let file = bench.path(&format!("killed.{format}.{suffix}"));
        let running =
            bench.capture(&["-w", &file, "--format", format, "--flush", "50ms", "--stats", "100ms"]);
        let args = "generate --inject rx0 --json --size 1000 --pps 20000 --duration 20s";
        let generator = ChildProcess::start(bench.quaff(&args.split(' ').collect::<Vec<_>>())).unwrap();
        let begun = Instant::now();
        while std::fs::metadata(&file).map_or(0, |found| found.len()) < 64 << 10 {
            assert!(begun.elapsed() < PATIENCE, "nothing is written");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(arbitrary() % 900));
        running.signal(Signal::SIGKILL).unwrap();
        generator.signal(Signal::SIGINT).unwrap();
        let sent = finish(generator).json["sent"].as_u64().unwrap();
        running.finish(PATIENCE).unwrap();
        assert_read_by(program, &file);
        let found = verify(&[&file]);
        let clean = ["lost", "corrupt", "duplicates"].iter().all(|count| found[count] == 0);
        assert!(clean && found["error"].is_null(), "kill {kill}: {found}");
        let received = found["received"].as_u64().unwrap();
        assert!(received > 0 && received <= sent, "kill {kill}: {received} of {sent}");
    }
}

#[test]
fn compression_that_does_not_keep_up_costs_no_packet() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.path("data");
    std::fs::create_dir(&dir).unwrap();
    // Level 19 compresses a few MB/s; 40 arrive.
    let running =
        bench.capture(&["--dir", &dir, "--compress", "zstd:19", "--buffer", "64M", "--rotate-size", "32M"]);
    bench.generate("--size 1000 --count 100000 --pps 40000");
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &100_000.into()), "{} {}", ended.json, ended.stderr);
    let compression = &ended.json["compression"];
    let stored = compression["stored_bytes"].as_u64().unwrap();
    // A quarter of the buffer may be compressed at the end, and what the thread does meanwhile.
    assert!(stored > 40 << 20, "{compression}");
    assert!(stored < compression["plain_bytes"].as_u64().unwrap(), "{compression}");
    let files = ours(Path::new(&dir));
    files.iter().for_each(|file| assert_read_by("zstd", file));
    let found = verify(&files.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&found["received"], &found["complete"]), (&100_000.into(), &true.into()), "{found}");
    // Into one file, which is not rotated, the same.
    let file = bench.path("one.pcapng.zst");
    let ended = bench.capture_of(
        &["-w", &file, "--compress", "zstd:19", "--buffer", "64M"],
        "--size 1000 --count 60000 --pps 40000",
    );
    support::assert_lossless(&ended, &file, 60_000);
    assert!(ended.json["compression"]["stored_frames"].as_u64() > Some(0), "{}", ended.json);
}

#[test]
fn real_traffic_at_1_gbps_is_compressed_without_a_loss() {
    let test = test_name!();
    let Some(mix) = testing::capture(test, "mix.pcap") else { return };
    let Some(bench) = Bench::new(test, 1 << 30) else { return };
    let file = bench.path("real.pcapng.zst");
    let cores = ["--cpu", "1", "--compress-cpu", "0"];
    let running =
        bench.capture(&[&["-w", &file, "--compress", "zstd:1", "--buffer", "1G"][..], &cores].concat());
    let mix = mix.display().to_string();
    let mut sender = bench.lab.tx.command(QUAFF).expect("a command in the lab");
    sender.args(["replay", &mix, "-o", "tx0", "--mbps", "1000", "--loop", "1000000", "--duration", "4s"]);
    sender.args(["--json", "--cpu", "0"]);
    let sent = finish(ChildProcess::start(sender).expect("quaff runs"));
    assert_eq!(sent.code, 0, "{} {}", sent.json, sent.stderr);
    let ended = interrupt(running);
    let ledger = &ended.json;
    assert_eq!((ended.code, &ledger["lossless"]), (0, &true.into()), "{ledger} {}", ended.stderr);
    assert_eq!(ledger["written"], sent.json["sent"], "{ledger} {}", sent.json);
    assert_read_by("zstd", &file);
}
