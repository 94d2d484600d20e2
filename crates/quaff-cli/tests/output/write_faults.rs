//! Writes that fail at random moments, with EIO and with ENOSPC: nothing is lost but what was in flight, the files are
//! valid, and the report says which of them failed.
//!
//! The moment is drawn from a seed as a number of bytes: `QUAFF_SEED` repeats it, `QUAFF_RUNS` is the number of runs.

use crate::support::draw::{Draw, runs};
use crate::support::packets::packets_in_all;
use crate::support::{Bench, Ended, finish, interrupt, ours, verify};
use quaff_testkit::{Fault, FaultDisk};
use std::time::Duration;

const TEST: &str = "a_fault_at_a_random_moment_costs_what_was_in_flight";
/// Runs in the test suite, one for each case; `make soak` does 20.
const RUNS: usize = 4;
const FRAMES: u64 = 40_000;
/// Size of a frame, and of its record in a pcap file, bytes.
const FRAME_BYTES: u64 = 1000;
const RECORD_BYTES: u64 = FRAME_BYTES + 16;
/// Largest write.
const CHUNK_BYTES: u64 = 4 << 20;
/// Spare buffers of pcap on an aligned disk, and the one that is being filled.
const REPACK_BYTES: u64 = 5 * CHUNK_BYTES;

/// A fault and an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    fault: FaultKind,
    is_folder: bool,
    is_pcap: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    /// EIO in so many files, one after the other: three end the capture.
    BadBlocks(u32),
    /// ENOSPC for a moment.
    FullBriefly,
    /// ENOSPC to the end.
    Full,
}

/// The result of one run.
struct Outcome {
    ended: Ended,
    after_bytes: u64,
    /// Files that failed while they had a name, by the disk.
    failed: Vec<String>,
    files: Vec<String>,
}

/// Cases in an order in which the first four are of both errors, both formats and both outputs.
fn cases(draw: &mut Draw) -> Vec<Case> {
    let case = |fault, is_folder, is_pcap| Case { fault, is_folder, is_pcap };
    let bad = draw.one_of(&[FaultKind::BadBlocks(1), FaultKind::BadBlocks(2)]);
    let first = [
        case(bad, true, false),
        case(FaultKind::BadBlocks(1), true, true),
        case(FaultKind::FullBriefly, true, draw.one_of(&[false, true])),
        case(draw.one_of(&[FaultKind::Full, FaultKind::BadBlocks(1)]), false, draw.one_of(&[false, true])),
    ];
    let faults = [bad, FaultKind::BadBlocks(3), FaultKind::FullBriefly, FaultKind::Full];
    let more = (0..runs(RUNS)).map(|_| {
        // A folder may continue, so it has more ways to be wrong.
        case(draw.one_of(&faults), draw.between(0, 3) > 0, draw.one_of(&[false, true]))
    });
    let more: Vec<_> = more.collect();
    first.into_iter().chain(more).take(runs(RUNS)).collect()
}

#[test]
fn a_fault_at_a_random_moment_costs_what_was_in_flight() {
    let Some(bench) = Bench::new(TEST, 1 << 29) else { return };
    let mut draw = Draw::new();
    for (number, case) in cases(&mut draw).into_iter().enumerate() {
        let dir = bench.dir.path().join(format!("run-{number}"));
        std::fs::create_dir(&dir).unwrap();
        let Some(disk) = FaultDisk::mount(TEST, &dir) else { return };
        let outcome = run(&bench, &disk, case, &mut draw);
        check(&format!("run {number}, {case:?}, after {} B", outcome.after_bytes), case, &outcome);
        drop(disk);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

/// Captures [`FRAMES`] frames onto the disk, which fails in between.
fn run(bench: &Bench, disk: &FaultDisk, case: Case, draw: &mut Draw) -> Outcome {
    // The first chunk of pcap is in the file by then.
    let after_bytes = draw.between(9 << 20, FRAMES * FRAME_BYTES * 9 / 10);
    disk.plan(match case.fault {
        FaultKind::BadBlocks(files) => Fault::BadBlocks { after_bytes, files },
        FaultKind::FullBriefly => {
            Fault::Full { after_bytes, lasts: Duration::from_millis(draw.between(100, 1500)) }
        }
        FaultKind::Full => Fault::Full { after_bytes, lasts: Duration::MAX },
    });
    let seen = disk.path().display().to_string();
    let format = if case.is_pcap { "pcap" } else { "pcapng" };
    let file = format!("{seen}/x.{format}");
    let output = if case.is_folder { vec!["--dir", &seen, "--rotate-size", "8M"] } else { vec!["-w", &file] };
    let running = bench.capture(&[&output[..], &["--format", format]].concat());
    bench.generate(&format!("--size {FRAME_BYTES} --count {FRAMES} --pps 25000"));
    let ended = if continues(case) { interrupt(running) } else { finish(running) };
    // The next file, opened ahead, has no name yet: its failure costs none that is reported.
    let has_name = |name: &String| !name.starts_with(".quaff-next-");
    let failed = disk.failed().into_iter().filter(has_name).collect();
    Outcome { ended, after_bytes, failed, files: ours(disk.real()) }
}

/// Returns whether a capture continues after the fault.
fn continues(case: Case) -> bool {
    case.is_folder && !matches!(case.fault, FaultKind::Full | FaultKind::BadBlocks(3..))
}

fn check(what: &str, case: Case, outcome: &Outcome) {
    let Outcome { ended, failed, files, .. } = outcome;
    let ledger = &ended.json;
    let of = |field: &str| ledger[field].as_u64().unwrap_or_else(|| panic!("{what}: {field}: {ledger}"));
    let (offered, written, lost) = (of("offered"), of("written"), of("lost"));
    // Each file is whole, and together they have what was counted, in order.
    assert!(
        files.iter().all(|file| file.ends_with(".pcap") || file.ends_with(".pcapng")),
        "{what}: {files:?}"
    );
    assert_eq!(packets_in_all(files).count, written, "{what}: {ledger}");
    let found = verify(&files.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        (&found["received"], &found["corrupt"], &found["duplicates"], &found["error"]),
        (&written.into(), &0.into(), &0.into(), &serde_json::Value::Null),
        "{what}: {found}"
    );
    assert_eq!(
        (of("kernel_dropped"), of("lost_in_buffer"), offered),
        (0, 0, written + lost),
        "{what}: {ledger}"
    );
    // The report says which files failed.
    assert_eq!(of("failed_files"), failed.len() as u64, "{what}: {failed:?}: {ledger}");
    let notes = ledger["notes"].to_string();
    for name in failed {
        let name = name.trim_end_matches(".part");
        assert!(notes.contains("writing failed: ") && notes.contains(name), "{what}: {name}: {notes}");
    }
    if !continues(case) {
        return check_end(what, case, outcome, files);
    }
    assert_eq!((offered, ended.json["ended_by"].as_str()), (FRAMES, Some("signal")), "{what}: {ledger}");
    let in_flight = if case.is_pcap { failed.len() as u64 * REPACK_BYTES / RECORD_BYTES } else { 0 };
    assert!(lost <= in_flight, "{what}: {lost} of at most {in_flight} are lost: {ledger}");
    assert_eq!(found["complete"], lost == 0, "{what}: {found}");
    // Other programs of the machine may overflow a backlog meanwhile.
    let is_sure = ledger["below_tap"]["softnet_dropped"] == 0;
    let expected = match lost {
        0 if is_sure => (0, "lossless"),
        0 => (1, "unknown"),
        _ => (1, "lossy"),
    };
    assert_eq!((ended.code, ledger["verdict"].as_str().unwrap()), expected, "{what}: {ledger}");
}

/// The end of a capture by the fault: everything up to it is in the files.
fn check_end(what: &str, case: Case, outcome: &Outcome, files: &[String]) {
    let (ended, ledger) = (&outcome.ended, &outcome.ended.json);
    let is_full = !matches!(case.fault, FaultKind::BadBlocks(_));
    assert_eq!(ended.code, if is_full { 1 } else { 2 }, "{what}: {ledger} {}", ended.stderr);
    let ended_by = &ledger["ended_by"];
    let is_named = if is_full { ended_by == "disk_full" } else { ended_by["write_error"].is_string() };
    assert!(is_named && ledger["verdict"] == "lossy", "{what}: {ledger}");
    let bytes: u64 = files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
    // The write that failed, and in pcap a chunk that began in an earlier one.
    let in_flight = if case.is_pcap { 2 * CHUNK_BYTES } else { CHUNK_BYTES };
    assert!(bytes + in_flight >= outcome.after_bytes, "{what}: {bytes} B are in the files: {ledger}");
}
