//! `--tee`: the disk has every packet, whatever the reader of the copy does; and what is done with
//! files of a rotation: their names, and `--exec`.

use crate::support::{Bench, Ended, PATIENCE, finish, interrupt, lab_bench, names, run, verify};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// The ledger of a capture whose stdout is full of packets: a line of stderr.
fn ledger(stderr: &str) -> Value {
    let line = stderr.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{stderr}"));
    serde_json::from_str(line).expect("JSON")
}

/// `quaff verify` of all files in the folder `name`.
fn verify_dir(bench: &Bench, name: &str) -> Value {
    let files = names(&bench.dir.path().join(name));
    let paths: Vec<_> = files.iter().map(|file| bench.path(&format!("{name}/{file}"))).collect();
    verify(&paths.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A reader of the named pipe `pipe` that does `script`, with the pipe as its descriptor 3.
fn reader(bench: &Bench, script: &str) -> ChildProcess {
    run(Command::new("mkfifo").arg(bench.path("pipe")));
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 3<'{}'; {script}", bench.path("pipe"))]);
    ChildProcess::start(shell).expect("sh runs")
}

/// A reader that takes nothing until [`open_gate`], and then everything, into the file `copy`.
fn gated_reader(bench: &Bench) -> ChildProcess {
    let (gate, copy) = (bench.path("gate"), bench.path("copy.pcapng"));
    reader(bench, &format!("until [ -e '{gate}' ]; do sleep 0.05; done; exec cat <&3 >'{copy}'"))
}

/// Lets the reader read, and waits until it has most of the 64 MiB that wait for it, so that there is room for more.
fn open_gate(bench: &Bench) {
    std::fs::write(bench.path("gate"), "").unwrap();
    let begun = Instant::now();
    let bytes = || std::fs::metadata(bench.path("copy.pcapng")).map_or(0, |found| found.len());
    while bytes() < 56 << 20 {
        assert!(begun.elapsed() < PATIENCE, "the reader has {} bytes", bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn assert_disk_has_all(bench: &Bench, ended: &Ended, count: u64) {
    assert_eq!(
        (ended.code, &ended.json["lossless"], &ended.json["written"]),
        (0, &true.into(), &count.into()),
        "{} {}",
        ended.json,
        ended.stderr
    );
    let found = verify_dir(bench, "disk");
    assert_eq!((&found["received"], &found["complete"]), (&count.into(), &true.into()), "{found}");
}

#[test]
fn a_reader_that_keeps_up_has_all_and_so_has_the_disk() {
    let bench = lab_bench!(1 << 29);
    for format in ["pcapng", "pcap-us"] {
        let disk = bench.path("disk");
        std::fs::create_dir(&disk).unwrap();
        let mut running = ChildProcess::start(bench.quaff(&[
            "capture",
            "-i",
            "rx0",
            "--json",
            "-w",
            "-",
            "--tee",
            &disk,
            "--rotate-size",
            "4M",
            "--format",
            format,
        ]))
        .expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        bench.generate("--size 300 --count 100000 --pps 100000");
        running.signal(Signal::SIGINT).unwrap();
        let done = running.finish(PATIENCE).expect("it ends");
        let json = ledger(&done.stderr);
        let ended = Ended { code: done.status.code().unwrap_or(-1), json, stderr: done.stderr };
        assert_disk_has_all(&bench, &ended, 100_000);
        assert!(names(disk.as_ref()).len() > 4);
        let copy = bench.path("copy");
        std::fs::write(&copy, &done.stdout).unwrap();
        let found = verify(&[&copy]);
        assert_eq!((&found["received"], &found["complete"]), (&100_000.into(), &true.into()), "{found}");
        assert_eq!(
            ended.json["tee"],
            serde_json::json!({"written": 100_000, "lost": 0, "after_close": 0, "bytes": done.stdout.len()})
        );
        std::fs::remove_dir_all(&disk).unwrap();
    }
}

#[test]
fn a_reader_that_stands_still_costs_the_disk_nothing() {
    let bench = lab_bench!(2 << 30);
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let _reader = reader(&bench, "exec sleep 600");
    // A buffer that could not hide a disk that waits for the reader.
    let args = ["-w", &bench.path("pipe"), "--tee", &disk, "--buffer", "64M", "--ring", "16M"];
    let running = bench.capture(&args);
    // More than all that lies between holds.
    bench.generate_for_disk(disk.as_ref(), 12);
    let ended = interrupt(running);
    assert_disk_has_all(&bench, &ended, 120_000);
    let copy = &ended.json["tee"];
    assert_eq!((&copy["written"], &copy["lost"]), (&0.into(), &120_000.into()), "{copy}");
}

#[test]
fn packets_missed_by_a_slow_reader_are_recorded_in_the_copy() {
    let bench = lab_bench!(2 << 30);
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let copy = bench.path("copy.pcapng");
    let reading = gated_reader(&bench);
    let running = bench.capture(&["-w", &bench.path("pipe"), "--tee", &disk]);
    // 64 MiB and what is in the pipe are copied, the rest of these 150 MB is not; then there is room.
    bench.generate("--size 1000 --count 150000 --pps 50000");
    open_gate(&bench);
    bench.generate("--size 1000 --count 1000 --pps 10000 --stream 9");
    let ended = interrupt(running);
    finish(reading);
    assert_disk_has_all(&bench, &ended, 151_000);
    let tee = &ended.json["tee"];
    let (written, lost) = (tee["written"].as_u64().unwrap(), tee["lost"].as_u64().unwrap());
    assert!(lost > 75_000 && written > 20_000 && written + lost == 151_000, "{tee}");
    let found = verify(&[&copy]);
    assert_eq!((&found["error"], &found["complete"]), (&Value::Null, &false.into()), "{found}");
    assert_eq!(found["received"], written, "{found}");
    let ledger = &found["ledger"];
    assert_eq!((&ledger["recorded_drops"], &ledger["consistent"]), (&lost.into(), &true.into()), "{ledger}");
}

#[test]
fn the_capture_ends_with_its_reader_and_the_disk_has_what_there_was() {
    let bench = lab_bench!(1 << 28);
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let reader = reader(&bench, "exec sleep 600");
    let running = bench.capture(&["-w", &bench.path("pipe"), "--tee", &disk]);
    bench.generate("--size 300 --count 5000 --pps 50000");
    std::thread::sleep(Duration::from_secs(1));
    reader.signal(Signal::SIGKILL).unwrap();
    let ended = finish(running);
    assert_eq!(ended.json["ended_by"], "output_closed", "{}", ended.json);
    assert_disk_has_all(&bench, &ended, 5000);
    assert!(names(disk.as_ref()).iter().all(|name| name.ends_with(".pcapng")));
}

#[test]
fn a_copy_into_a_file_is_refused() {
    let bench = lab_bench!(1 << 20);
    let args = ["capture", "-i", "rx0", "-w", &bench.path("file"), "--tee", &bench.path("")];
    let done = bench.quaff(&args).output().expect("quaff runs");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("not to a file"), "{done:?}");
}

#[test]
fn each_finished_file_is_given_to_the_command() {
    let bench = lab_bench!(1 << 29);
    let (disk, list) = (bench.path("disk"), bench.path("list"));
    std::fs::create_dir(&disk).unwrap();
    let exec = format!("sleep 0.1; nice >>'{list}'; test -f \"$1\" && echo >>'{list}'");
    let args = ["--dir", &disk, "--rotate-size", "4M", "--name", "q%2i.cap", "--exec", &exec];
    let ended = bench.capture_of(&args, "--size 1000 --count 30000 --pps 100000");
    assert_eq!((ended.code, &ended.json["written"]), (0, &30_000.into()), "{}", ended.json);
    let files = names(disk.as_ref());
    assert!(files.len() > 4 && files[0] == "q00.cap" && files[4] == "q04.cap", "{files:?}");
    let expected: String = files.iter().map(|file| format!("19\n{disk}/{file}\n")).collect();
    assert_eq!(std::fs::read_to_string(&list).unwrap(), expected);
    assert_eq!((&ended.json["commands"], &ended.json["commands_failed"]), (&files.len().into(), &0.into()));
}

#[test]
fn wrapped_numbers_name_the_newest_files() {
    let bench = lab_bench!(1 << 29);
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let args = ["--dir", &disk, "--rotate-size", "4M", "--name", "pcap%3i", "--keep-files", "3", "--wrap"];
    let ended = bench.capture_of(&args, "--size 1000 --count 40000 --pps 100000");
    assert_eq!((ended.code, &ended.json["written"]), (0, &40_000.into()), "{}", ended.json);
    assert_eq!(names(disk.as_ref()), ["pcap000", "pcap001", "pcap002"]);
    // The newest three, one after the other: no hole between the first and the last frame.
    let mut files: Vec<_> = (0..3).map(|number| format!("{disk}/pcap{number:03}")).collect();
    files.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
    let mut args = vec!["--from-first"];
    args.extend(files.iter().map(String::as_str));
    let found = verify(&args);
    assert_eq!((&found["lost"], &found["missing_end"]), (&0.into(), &Value::Null), "{found}");
}

#[test]
fn sessions_are_described_in_a_copy_that_lacks_their_first_packets() {
    let bench = lab_bench!(2 << 30);
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let copy = bench.path("copy.pcapng");
    let reading = gated_reader(&bench);
    // Only full chunks go to the copy: one of 4 MiB finds no room, a small one might.
    let flags = ["--tee", &disk, "--decap", "erspan", "--flush", "30s"];
    let running = bench.capture(&[&["-w", &bench.path("pipe")][..], &flags].concat());
    // The copy is full of what is in no tunnel when the first session begins.
    bench.generate("--size 1000 --count 100000 --pps 50000");
    bench.generate("--size 1000 --count 1000 --pps 50000 --stream 5 --erspan 5");
    // A chunk more, so that the session's has been offered to the copy.
    bench.generate("--size 1000 --count 5000 --pps 50000 --stream 2");
    open_gate(&bench);
    bench.generate("--size 1000 --count 1000 --pps 50000 --stream 6 --erspan 6");
    let ended = interrupt(running);
    finish(reading);
    assert_disk_has_all(&bench, &ended, 107_000);
    let tee = &ended.json["tee"];
    let found = verify(&[&copy]);
    assert_eq!((&found["error"], &found["received"]), (&Value::Null, &tee["written"]), "{found}");
    let ledger = &found["ledger"];
    assert_eq!((&ledger["recorded_drops"], &ledger["consistent"]), (&tee["lost"], &true.into()), "{ledger}");
    let stream = |stream: u64| {
        let streams = found["streams"].as_array().unwrap();
        streams.iter().find(|found| found["stream"] == stream).map(|found| found["received"].clone())
    };
    assert_eq!((stream(5), stream(6)), (None, Some(1000.into())), "{found}");
}
