//! Folders: names, numbers, retention, full disks, and the command for finished files.

use super::*;
use crate::write::plan::Retention;
use std::os::unix::fs::FileExt;

fn folder(dir: &Path, unnamed: bool, retention: Retention) -> Result<Folder> {
    folder_of("q", dir, unnamed, retention)
}

fn folder_of(name: &str, dir: &Path, unnamed: bool, retention: Retention) -> Result<Folder> {
    let plan = DirPlan {
        dir: dir.to_owned(),
        name: name.into(),
        rotate_bytes: Some(1 << 20),
        retention,
        ..DirPlan::default()
    };
    let open_plan = OpenPlan {
        dir: dir.to_owned(),
        direct: false,
        preallocate: 100,
        unnamed,
        access: FileAccess::default(),
        sync: File::sync_data,
    };
    Folder::with(open_plan, &plan, "pcapng", Wakeup::new().unwrap())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // The lock of the folder.
    names.retain(|name| name != ".quaff-lock");
    names.sort();
    names
}

fn write(folder: &mut Folder, files: u8) {
    for number in 0..files {
        let (file, path) = folder.next(0, &[], Ending::default()).unwrap();
        file.write_all_at(&[number; 100], 0).unwrap();
        folder.finish(FinishJob::new(file, path, 100, 0));
    }
    folder.finish_all();
}

/// The first packet of a file may be older than that of the file before: of another interface.
#[test]
fn names_sort_as_the_files_were_written_unless_the_clock_is_set_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = folder_of("q-%s", dir.path(), true, Retention::default()).unwrap();
    let mut named = Vec::new();
    for ms in [5_000_002, 4_999_990, 5_000_900, 4_990_000, 5_001_000, 1_400_000, 1_401_000] {
        let (file, path) = folder.next(ms * 1_000_000, &[], Ending::default()).unwrap();
        named.push(path.file_name().unwrap().to_str().unwrap().split('-').nth(1).unwrap().to_owned());
        folder.finish(FinishJob::new(file, path, 100, 0));
    }
    assert_eq!(named, ["5000", "5000", "5000", "5000", "5001", "1400", "1401"]);
}

#[test]
fn every_file_keeps_its_bytes_with_unnamed_files_and_without() {
    for unnamed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        // A leftover of a killed run.
        std::fs::write(dir.path().join(".quaff-next-1-0"), b"stale").unwrap();
        let mut folder = folder(dir.path(), unnamed, Retention::default()).unwrap();
        write(&mut folder, 20);
        assert!(folder.take_failure().is_none());
        drop(folder);
        let names = names(dir.path());
        assert_eq!(names.len(), 20, "{names:?}");
        for (number, name) in names.iter().enumerate() {
            assert_eq!(*name, format!("q-{number:06}.pcapng"));
            assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), [number as u8; 100], "{name}");
        }
    }
}

/// A folder whose numbers restart after two files.
fn wrapping(dir: &Path) -> Folder {
    wrapping_as(dir, "pcap")
}

fn wrapping_as(dir: &Path, extension: &'static str) -> Folder {
    let retention = Retention { files: Some(2), ..Retention::default() };
    let plan = DirPlan {
        dir: dir.to_owned(),
        name: "pcap%3i".into(),
        rotate_bytes: Some(1 << 20),
        retention,
        wrap: true,
        ..DirPlan::default()
    };
    let open_plan = OpenPlan {
        dir: dir.to_owned(),
        direct: false,
        preallocate: 100,
        unnamed: true,
        access: FileAccess::default(),
        sync: File::sync_data,
    };
    Folder::with(open_plan, &plan, extension, Wakeup::new().unwrap()).unwrap()
}

#[test]
fn numbers_restart_and_the_newest_files_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let last_bytes = || {
        names(dir.path())
            .iter()
            .map(|name| std::fs::read(dir.path().join(name)).unwrap()[0])
            .collect::<Vec<_>>()
    };
    let mut folder = wrapping(dir.path());
    // Each ends while the one before may be unfinished, as in a capture.
    let mut before: Option<(Arc<File>, PathBuf)> = None;
    for number in 0..7 {
        let ending = Ending { files: before.is_some().into(), bytes: 100 };
        let (file, path) = folder.next(0, &[], ending).unwrap();
        file.write_all_at(&[number; 100], 0).unwrap();
        // File times have a resolution of some ms.
        std::thread::sleep(Duration::from_millis(20));
        if let Some((file, path)) = before.replace((file, path)) {
            folder.finish(FinishJob::new(file, path, 100, 0));
        }
    }
    let (file, path) = before.unwrap();
    folder.finish_all();
    std::thread::sleep(Duration::from_millis(20));
    folder.finish(FinishJob::new(file, path, 100, 0));
    folder.finish_all();
    assert!(folder.take_failure().is_none());
    drop(folder);
    assert_eq!(names(dir.path()), ["pcap000", "pcap001"]);
    assert_eq!(last_bytes(), [6, 5]);
    // Another run continues at the oldest file's number.
    let mut folder = wrapping(dir.path());
    write(&mut folder, 1);
    drop(folder);
    assert_eq!(last_bytes(), [6, 0]);
}

#[test]
fn a_file_of_another_program_keeps_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = wrapping(dir.path());
    std::fs::write(dir.path().join("pcap000"), b"late").unwrap();
    std::fs::write(dir.path().join("pcap001"), b"later").unwrap();
    write(&mut folder, 1);
    assert_eq!(names(dir.path()), ["pcap000", "pcap001", "pcap002"]);
}

/// Retention would remove it together with a file of quaff's.
#[test]
fn a_file_that_retention_takes_for_ours_keeps_its_name() {
    for (extension, other) in [("pcap", "pcap000.gz"), ("pcap.zst", "pcap000")] {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = wrapping_as(dir.path(), extension);
        std::fs::write(dir.path().join(other), b"late").unwrap();
        write(&mut folder, 5);
        assert!(names(dir.path()).contains(&other.to_owned()), "{extension}: {:?}", names(dir.path()));
    }
}

/// Numbers have restarted, so the file that is next by its number is the newest.
#[test]
fn a_run_that_compresses_keeps_its_files_beside_plain_ones() {
    let dir = tempfile::tempdir().unwrap();
    let mut plain = wrapping(dir.path());
    for _ in 0..3 {
        write(&mut plain, 1);
        // File times have a resolution of some ms.
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(plain);
    let mut compressed = wrapping_as(dir.path(), "pcap.zst");
    write(&mut compressed, 1);
    write(&mut compressed, 1);
    assert_eq!(names(dir.path()), ["pcap000.zst", "pcap001.zst"]);
}

#[test]
fn a_removed_file_does_not_count_for_the_rule() {
    let dir = tempfile::tempdir().unwrap();
    let rule = Retention { files: Some(3), ..Retention::default() };
    let mut folder = folder(dir.path(), true, rule).unwrap();
    write(&mut folder, 2);
    let (file, path) = folder.next(0, &[1], Ending::default()).unwrap();
    std::fs::remove_file(part_of(&path)).unwrap();
    folder.finish(FinishJob::new(file, path, 1, 0));
    folder.finish_all();
    assert_eq!(folder.take_failure().expect("it cannot be named").1.kind(), ErrorKind::NotFound);
    write(&mut folder, 1);
    let left = ["q-000000.pcapng", "q-000001.pcapng", "q-000003.pcapng"];
    assert_eq!((names(dir.path()), folder.pruned()), (left.map(str::to_owned).to_vec(), 0));
}

#[test]
fn a_folder_has_one_capture() {
    let dir = tempfile::tempdir().unwrap();
    let first = folder(dir.path(), true, Retention::default()).unwrap();
    let refused = folder(dir.path(), true, Retention::default()).unwrap_err();
    assert!(refused.to_string().contains("another capture is writing to"), "{refused}");
    drop(first);
    folder(dir.path(), true, Retention::default()).unwrap();
}

#[test]
fn only_as_much_room_is_made_as_needed() {
    let dir = tempfile::tempdir().unwrap();
    let retention = Retention { bytes: Some(1 << 30), ..Retention::default() };
    let mut folder = folder(dir.path(), true, retention).unwrap();
    write(&mut folder, 10);
    assert!(folder.make_room(150), "two files");
    assert_eq!(folder.pruned(), 2);
    assert!(folder.make_room(150), "the next file has preallocated some of it");
    assert_eq!(folder.pruned(), 4);
    assert!(folder.make_room(150), "the file system has time to free them");
    assert_eq!(folder.pruned(), 4);
    folder.made_ns -= MORE_NS;
    assert!(folder.make_room(50), "another file took the space");
    assert_eq!(folder.pruned(), 5);
    folder.full_ns = folder.full_ns.map(|since_ns| since_ns - LATE_NS);
    assert!(!folder.make_room(150), "removing files has not helped");
    folder.note_success();
    assert!(folder.make_room(1));
    assert_eq!((folder.pruned(), names(dir.path()).len()), (6, 4));
    assert!(folder.make_room(1 << 20) && folder.pruned() == 9, "all files but the newest");
    assert!(folder.make_room(1 << 20), "no file may be removed, but space may still be freed");
    folder.full_ns = folder.full_ns.map(|since_ns| since_ns - LATE_NS);
    assert!(!folder.make_room(1 << 20), "it was not freed");
}

#[test]
fn without_a_rule_no_room_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = folder(dir.path(), true, Retention::default()).unwrap();
    write(&mut folder, 2);
    while !matches!(folder.opened, Some(Ok(_))) {
        std::thread::sleep(Duration::from_millis(1));
        folder.collect_finished();
    }
    // The space that is set aside for the next file, where the file system can do that.
    let had = folder.opened.iter().flatten().any(|next| next.file.metadata().unwrap().blocks() > 0);
    assert_eq!(folder.make_room(1), had);
    assert!(!folder.make_room(1));
    assert_eq!(folder.pruned(), 0);
}

#[test]
fn files_that_end_by_time_have_a_largest_size_too() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |retention| {
        let plan = DirPlan {
            dir: dir.path().to_owned(),
            name: "q".into(),
            rotate_time: Some(Duration::from_secs(3600)),
            retention,
            ..DirPlan::default()
        };
        Folder::open(&plan, "pcapng", false, FileAccess::default(), Wakeup::new().unwrap()).unwrap()
    };
    assert_eq!(folder(Retention::default()).rotate_bytes, u64::MAX, "nothing may be removed");
    let files = folder(Retention { files: Some(9), ..Retention::default() }).rotate_bytes;
    assert!(files <= space(dir.path()).unwrap().total / 4, "{files}");
    let free = folder(Retention { free_percent: Some(99.9), ..Retention::default() });
    assert!(free.rotate_bytes < files && free.open_plan.preallocate <= free.rotate_bytes);
}

/// The most files with a name are those of the rule at every moment, whatever a sync takes.
#[test]
fn files_that_are_being_finished_count_for_the_rule() {
    let dir = tempfile::tempdir().unwrap();
    let rule = Retention { files: Some(3), ..Retention::default() };
    let mut folder = folder(dir.path(), true, rule).unwrap();
    for _ in 0..20 {
        // Pages to sync, so that finishing takes longer than the next two files.
        let (file, path) = folder.next(0, &[], Ending::default()).unwrap();
        file.write_all_at(&vec![1; 2 << 20], 0).unwrap();
        folder.finish(FinishJob::new(file, path, 2 << 20, 0));
        let named = names(dir.path());
        assert!(named.len() <= 3, "{named:?}");
    }
    folder.finish_all();
}

#[test]
fn a_file_is_removed_only_after_its_command_whatever_is_left_of_it() {
    let Ok(gzip) = std::process::Command::new("gzip").arg("--version").output() else {
        return quaff_os::testing::skip("a_file_is_removed_only_after_its_command", "gzip is not installed");
    };
    assert!(gzip.status.success());
    let dir = tempfile::tempdir().unwrap();
    let run = || {
        let plan = DirPlan {
            dir: dir.path().to_owned(),
            name: "q".into(),
            rotate_bytes: Some(1 << 20),
            retention: Retention { files: Some(2), ..Retention::default() },
            exec: Some("sleep 0.1; gzip".into()),
            ..DirPlan::default()
        };
        let access = FileAccess::default();
        let mut folder = Folder::open(&plan, "pcapng", false, access, Wakeup::new().unwrap()).unwrap();
        write(&mut folder, 5);
        (folder.finish_post_rotate(), folder.pruned(), folder.pruned_earlier())
    };
    assert_eq!(run(), (CommandRuns { count: 5, failed: 0 }, 3, 0));
    assert_eq!(names(dir.path()), ["q-000003.pcapng.gz", "q-000004.pcapng.gz"]);
    // Another run knows them: its numbers continue, and they go first.
    assert_eq!(run(), (CommandRuns { count: 5, failed: 0 }, 5, 2));
    assert_eq!(names(dir.path()), ["q-000008.pcapng.gz", "q-000009.pcapng.gz"]);
}

#[test]
fn a_file_is_removed_only_after_its_command() {
    let (dir, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plan = DirPlan {
        dir: dir.path().to_owned(),
        name: "q".into(),
        rotate_bytes: Some(1 << 20),
        retention: Retention { files: Some(2), ..Retention::default() },
        exec: Some(format!("sleep 0.2; cp -t '{}'", copies.path().display())),
        ..DirPlan::default()
    };
    let mut folder =
        Folder::open(&plan, "pcapng", false, FileAccess::default(), Wakeup::new().unwrap()).unwrap();
    write(&mut folder, 5);
    assert_eq!(folder.finish_post_rotate(), CommandRuns { count: 5, failed: 0 });
    assert_eq!((names(copies.path()).len(), folder.pruned()), (5, 3));
    assert_eq!(names(dir.path()), ["q-000003.pcapng", "q-000004.pcapng"]);
}
