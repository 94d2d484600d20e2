//! Small file systems: what fits on a disk that becomes full is written, to the last packet, and space that is set
//! aside for files is never missing elsewhere. Files are read, so no lab is needed.

use crate::support::disk::Disk;
use crate::support::{self, QUAFF, folder, names};
use crate::traffic;
use quaff_testkit::test_name;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Frames of the input: some 15 MB, more than the small disks hold.
const FRAMES: u64 = 30_000;
/// A packet, the last counters and the file system's own blocks may need so much, bytes: a chunk has 4 MiB.
const REST_BYTES: u64 = 64 << 10;

/// tmpfs of so many MiB; unmounted when it is dropped.
struct Memory(TempDir);

impl Memory {
    fn new(test: &str, mib: u64) -> Option<Self> {
        let dir = folder();
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", &size, "quaff-test"]).arg(dir.path()).output();
        if !done.is_ok_and(|done| done.status.success()) {
            quaff_testkit::skip(test, "this machine lets no test mount tmpfs");
            return None;
        }
        Some(Self(dir))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// The bytes that one file can have on an empty disk.
fn capacity(dir: &Path) -> u64 {
    let path = dir.join("filling");
    let mut file = File::create(&path).unwrap();
    while file.write(&[1; 4096]).is_ok_and(|count| count > 0) {}
    let _ = file.sync_all();
    let bytes = file.metadata().unwrap().len();
    fs::remove_file(&path).unwrap();
    drop(file);
    run_ok(Command::new("sync").arg("-f").arg(dir));
    bytes
}

#[track_caller]
fn run_ok(command: &mut Command) {
    assert!(command.status().expect("it runs").success(), "{command:?}");
}

/// `quaff LINE --json`: its exit status and its report.
fn quaff(line: &str) -> (i32, Value) {
    let done = Command::new(QUAFF).args(line.split(' ')).arg("--json").output().expect("quaff runs");
    let report = serde_json::from_slice(&done.stdout);
    let report = report.unwrap_or_else(|_| panic!("{line}: {}", String::from_utf8_lossy(&done.stderr)));
    (done.status.code().expect("no signal"), report)
}

/// The packets of files, in order, as the records of one pcap file without its header.
fn records(files: &[PathBuf], scratch: &Path) -> Vec<u8> {
    let inputs: Vec<_> = files.iter().map(|file| format!("--read {}", file.display())).collect();
    let out = scratch.join("records.pcap");
    let line = format!("capture {} --format pcap -w {}", inputs.join(" "), out.display());
    let (code, report) = quaff(&line);
    // A file that records drops is lossy; a damaged one is not read to its end.
    assert!(
        code < 2 && report["failure"].is_null() && report["input"]["damages"] == serde_json::json!([]),
        "{report}"
    );
    fs::read(&out).unwrap().split_off(24)
}

/// Captures the input into a small disk until it is full.
#[track_caller]
fn fill(disk: &Path, output: &str, scratch: &Path) {
    let input = scratch.join("input");
    let room = capacity(disk);
    assert!((4 << 20..12 << 20).contains(&room), "{room} bytes");
    let line =
        format!("capture --read {} {}", input.display(), output.replace('@', &disk.display().to_string()));
    let (code, report) = quaff(&line);
    // Before the disk is full, all of the input may have been read.
    assert!(
        code == 1 && ["disk_full", "input_ended"].map(Value::from).contains(&report["ended_by"]),
        "{report}"
    );
    let (written, lost) = (report["written"].as_u64().unwrap(), report["lost"].as_u64().unwrap());
    assert!(written > 0 && written + lost <= FRAMES, "{output}: {report}");
    let files: Vec<_> = support::ours(disk).iter().map(PathBuf::from).collect();
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes + REST_BYTES * files.len() as u64 >= room, "{output}: {bytes} bytes of {room}: {report}");
    assert_eq!(report["bytes_written"], bytes, "{output}: {report}");
    // The packets are the first ones of the input, and as many as were counted.
    let (found, all) = (records(&files, scratch), records(&[input], scratch));
    assert!(all.starts_with(&found), "{output}: {} bytes of packets", found.len());
    let paths: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let (_, read) = quaff(&format!("capture --read {} -w /dev/null", paths.join(" --read ")));
    assert_eq!(read["written"], written, "{output}: {read}");
    if !output.contains("pcap") {
        // The last counters have their place too; they are of the moment when the disk was full.
        let found = support::verify(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        let recorded = found["ledger"]["recorded_drops"].as_u64();
        assert!(recorded > Some(0) && recorded <= Some(lost), "{output}: {found}");
    }
    files.iter().for_each(|file| fs::remove_file(file).unwrap());
}

const OUTPUTS: [&str; 4] = [
    "-w @/out",
    "-w @/out --format pcap",
    "--dir @ --rotate-size 2M",
    "--dir @ --rotate-size 2M --format pcap",
];

#[test]
fn a_full_disk_holds_every_packet_that_fits() {
    let test = test_name!();
    let scratch = folder();
    traffic::write(&scratch.path().join("input"), FRAMES);
    for output in OUTPUTS {
        let Some(disk) = Disk::new(test, 11) else { return };
        fill(&disk.path(), output, scratch.path());
    }
}

#[test]
fn full_memory_holds_every_packet_that_fits() {
    let test = test_name!();
    let scratch = folder();
    traffic::write(&scratch.path().join("input"), FRAMES);
    for output in OUTPUTS {
        let Some(disk) = Memory::new(test, 7) else { return };
        fill(disk.0.path(), output, scratch.path());
    }
}

#[test]
fn many_files_leave_room_for_each_other() {
    let Some(disk) = Disk::new(test_name!(), 1024) else { return };
    let scratch = folder();
    let input = scratch.path().join("input");
    traffic::write(&input, FRAMES);
    // Each of them would take 256 MiB in advance.
    let line =
        format!("split --read {} --members 12 --by ports --dir {}", input.display(), disk.file("parts"));
    let (code, report) = quaff(&line);
    assert_eq!((code, &report["out"], &report["lossless"]), (0, &FRAMES.into(), &true.into()), "{report}");
    assert_eq!(names(&disk.path().join("parts")).len(), 12);
}
