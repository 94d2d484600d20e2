//! Several interfaces: the order of their packets in one file, and several folders.

use crate::support::{Bench, Ended, PATIENCE, QUAFF, fails, folder, interrupt, lab_bench, ours, run, verify};
use quaff_file::read::CaptureFile;
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use quaff_wire::decode::Item;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The time of the first packet, and the largest step back from a packet to the next, ns.
fn times(file: &str) -> (u64, u64) {
    let (mut first_ns, mut newest_ns, mut back_ns) = (0, 0, 0);
    let mut capture = CaptureFile::open(Path::new(file)).expect("a capture");
    let mut take = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            if first_ns == 0 {
                first_ns = frame.time_ns;
            }
            back_ns = back_ns.max(frame.time_ns.abs_diff(newest_ns) * u64::from(frame.time_ns < newest_ns));
            newest_ns = newest_ns.max(frame.time_ns);
        }
    };
    while capture.pull(&mut take).expect("whole blocks") {}
    (first_ns, back_ns)
}

/// The files of several folders, by the time of their first packet.
fn by_time(dirs: &[&str]) -> Vec<String> {
    let mut files: Vec<_> = dirs.iter().flat_map(|dir| ours(dir.as_ref())).collect();
    files.sort_by_key(|file| times(file).0);
    files
}

fn verify_all(files: &[String]) -> Value {
    verify(&files.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Starts a generator into an interface.
fn generator(bench: &Bench, interface: &str, args: &str) -> ChildProcess {
    let line = format!("generate --inject {interface} {args}");
    ChildProcess::start(bench.quaff(&line.split(' ').collect::<Vec<_>>())).expect("quaff runs")
}

/// Has two generators run to their ends.
fn generate_both(bench: &Bench, first: &str, second: &str) {
    let running = [generator(bench, "rx0", first), generator(bench, "rx1", second)];
    for generator in running {
        let done = generator.finish(PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
    }
}

/// The output stands still for 3 s, while one interface fills a chunk often, and the other sends one in each flush
/// interval. `buffer` is for both.
fn stalled(bench: &Bench, buffer: &str, pps: u64) -> (String, Ended) {
    let file = bench.path(&format!("stalled-{buffer}"));
    let script = format!(
        "{QUAFF} capture -i rx0 -i rx1 --json --flush 200ms --ring 128M --buffer {buffer} -w - \
         | (sleep 3; cat) >{file}; exit ${{PIPESTATUS[0]}}"
    );
    let mut command = bench.lab.rx.command("bash").unwrap();
    command.args(["-c", &script]);
    let mut running = ChildProcess::start(command).unwrap();
    assert!(running.hears("capturing", PATIENCE));
    let fast = format!("--size 1500 --pps {pps} --count {} --stream 1", pps * 4);
    generate_both(bench, &fast, "--size 100 --pps 2000 --count 8000 --stream 2");
    // SIGINT goes to quaff alone: it is the child of the shell.
    let quaff = run(Command::new("pgrep").args(["-P", &running.pid().to_string(), "-x", "quaff"]));
    quaff_os::process::send(quaff.trim().parse().unwrap(), Signal::SIGINT).unwrap();
    let done = running.finish(PATIENCE).unwrap();
    let json = done.stderr.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a ledger");
    (file, Ended { code: done.status.code().unwrap_or(-1), json, stderr: done.stderr })
}

#[test]
fn after_a_stall_interfaces_are_out_of_order_by_the_flush_interval_at_most() {
    let bench = lab_bench!(2 << 30);
    bench.add_link();
    // All that comes in the stall fits into the first buffer. With the second, packets of both interfaces wait in the
    // kernel's rings for half of the time.
    for (buffer, pps) in [("1G", 40_000), ("64M", 10_000)] {
        let (file, ended) = stalled(&bench, buffer, pps);
        assert_eq!((ended.code, &ended.json["written"]), (0, &(4 * pps + 8000).into()), "{}", ended.json);
        let back_ms = times(&file).1 / 1_000_000;
        // The interval, and two blocks of the kernel's ring.
        assert!(back_ms <= 200 + 100, "{buffer}: a packet is {back_ms} ms older than one before it");
        assert_eq!(verify(&[&file])["complete"], true);
    }
}

#[test]
fn each_interface_has_its_folder() {
    let bench = lab_bench!(1 << 28);
    bench.add_link();
    let dirs = ["d0", "d1"].map(|name| bench.path(name));
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let args =
        ["-i", "rx1", "--dir", &dirs[0], "--dir", &dirs[1], "--rotate-size", "4M", "--keep-files", "40"];
    let running = bench.capture(&args);
    generate_both(
        &bench,
        "--size 1000 --pps 20000 --count 20000 --stream 1",
        "--size 1000 --pps 20000 --count 10000 --stream 2",
    );
    let ended = interrupt(running);
    let outputs = ended.json["outputs"].as_array().expect("outputs");
    assert_eq!((ended.code, &ended.json["written"]), (0, &30_000.into()), "{}", ended.json);
    for (number, (dir, packets)) in dirs.iter().zip([20_000, 10_000]).enumerate() {
        let (files, output) = (ours(dir.as_ref()), &outputs[number]);
        assert_eq!((&output["dir"], &output["written"]), (&dir.as_str().into(), &packets.into()), "{output}");
        assert_eq!((&output["files"], &output["lost"]), (&files.len().into(), &0.into()), "{output}");
        let bytes: u64 = files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
        assert_eq!(output["bytes"], bytes, "{output}");
        assert!(files.len() > 2 && files.iter().all(|file| file.ends_with(".pcapng")), "{files:?}");
        let found = verify_all(&files);
        assert_eq!((&found["received"], &found["complete"]), (&packets.into(), &true.into()), "{found}");
        assert_eq!(found["ledger"]["consistent"], true, "{found}");
    }
    // Counters of an interface are in its own folder alone.
    let found = verify_all(&dirs.iter().flat_map(|dir| ours(dir.as_ref())).collect::<Vec<_>>());
    assert_eq!((&found["complete"], &found["ledger"]["consistent"]), (&true.into(), &true.into()), "{found}");
    assert!(ended.json["notes"].to_string().contains("on the same file system"), "{}", ended.json);
}

#[test]
fn files_of_one_interface_go_to_two_folders_in_turns() {
    let bench = lab_bench!(1 << 28);
    let dirs = ["d0", "d1"].map(|name| bench.path(name));
    for format in ["pcapng", "pcap"] {
        dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let args = ["--dir", &dirs[0], "--dir", &dirs[1], "--buffer", "32M", "--format", format];
        let ended = bench.capture_of(&args, "--size 1000 --count 40000 --pps 40000");
        assert_eq!((ended.code, &ended.json["written"]), (0, &40_000.into()), "{}", ended.json);
        let files = dirs.each_ref().map(|dir| ours(dir.as_ref()));
        // 40 MB in files of a quarter of the buffer.
        assert!(files.iter().all(|files| (2..=4).contains(&files.len())), "{files:?}");
        let found = verify_all(&by_time(&dirs.each_ref().map(String::as_str)));
        assert_eq!((&found["received"], &found["complete"]), (&40_000.into(), &true.into()), "{found}");
        if format == "pcapng" {
            assert_eq!(found["ledger"]["consistent"], true, "{found}");
        }
        dirs.iter().for_each(|dir| std::fs::remove_dir_all(dir).unwrap());
    }
}

/// A small file system in memory, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(test: &str, size: &str) -> Option<Self> {
        let dir = folder();
        let size = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).status();
        if mount.is_ok_and(|status| status.success()) {
            return Some(Self(dir));
        }
        testing::skip(test, "this machine mounts no tmpfs");
        None
    }

    fn path(&self) -> String {
        self.0.path().display().to_string()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_folder_whose_disk_is_full_is_replaced() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    let Some(disk) = SmallDisk::new(test, "24m") else { return };
    let dirs = [bench.path("d0"), disk.path()];
    std::fs::create_dir(&dirs[0]).unwrap();
    let args = ["--dir", &dirs[0], "--dir", &dirs[1], "--rotate-size", "8M", "--buffer", "512M"];
    let ended = bench.capture_of(&args, "--size 1500 --count 50000 --pps 20000");
    assert_eq!((ended.code, &ended.json["written"]), (0, &50_000.into()), "{} {}", ended.json, ended.stderr);
    assert_eq!(ended.json["lossless"], true);
    let failure = &ended.json["outputs"][1]["failure"];
    assert!(failure.as_str().is_some_and(|error| error.contains("full")), "{}", ended.json);
    assert!(ended.json["notes"].to_string().contains("went to another folder"), "{}", ended.json);
    let found = verify_all(&by_time(&dirs.each_ref().map(String::as_str)));
    assert_eq!((&found["received"], &found["lost"]), (&50_000.into(), &0.into()), "{found}");
}

#[test]
fn folders_that_contradict_each_other_are_refused() {
    let bench = lab_bench!(1 << 20);
    let dir = bench.path("");
    let twice = fails(&bench, &["capture", "-i", "rx0", "--dir", &dir, "--dir", &bench.path(".")]);
    assert!(twice.contains("same folder"), "{twice}");
    let read = fails(&bench, &["capture", "--read", "x.pcap", "--dir", &dir, "--dir", "/tmp"]);
    assert!(read.contains("--dir") && read.contains("one folder"), "{read}");
    let tee = fails(&bench, &["capture", "-i", "rx0", "--dir", &dir, "--tee", "/tmp", "-w", "-"]);
    assert!(tee.contains("cannot be used with"), "{tee}");
}

#[test]
fn a_dry_run_names_the_folder_of_each_interface() {
    let bench = lab_bench!(1 << 20);
    let dry =
        |args: &[&str]| run(&mut bench.quaff(&[&["capture", "--dry-run", "--buffer", "64M"], args].concat()));
    let shown = dry(&["-i", "rx0", "-i", "lo", "--dir", "/tmp", "--dir", "/"]);
    assert!(shown.contains("\n  /tmp has rx0\n  / has lo\n"), "{shown}");
    let shown = dry(&["-i", "rx0", "--dir", "/tmp", "--dir", "/"]);
    assert!(shown.contains("/ has rx0\n  files go to the folders") && shown.contains("16.0 MiB"), "{shown}");
}
