use super::*;
use proptest::prelude::*;
use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The files of a folder without restarting numbers.
fn open(dir: &Path, names: &NameTemplate, rule: Retention) -> Result<KeptFiles> {
    KeptFiles::scan(dir, names, rule, LockPatience::begin(), (None, None))
}

fn put(dir: &Path, name: &str, bytes: usize) {
    fs::write(dir.join(name), vec![0; bytes]).unwrap();
}

#[test]
fn a_file_that_may_not_be_on_disk_is_older_than_those_that_are_held() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q", "pcapng").unwrap();
    let rule = Retention { files: Some(2), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["done", "held-1", "held-2", "bad.part"] {
        put(dir.path(), name, 10);
    }
    ["done", "held-1", "held-2"].into_iter().for_each(|name| kept_files.add(path(name), 10, false));
    kept_files.hold(2);
    kept_files.add_unfinished(path("bad.part"), 10);
    kept_files.prune(0, 0);
    assert_eq!((files(dir.path()), kept_files.bytes), (vec!["held-1".into(), "held-2".into()], 20));
}

#[test]
fn the_oldest_are_removed_first_and_other_files_never() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    for number in 0..5 {
        put(dir.path(), &format!("q100-{number:06}.pcapng"), 10);
    }
    put(dir.path(), "holiday.pcapng", 10);
    let rule = Retention { files: Some(3), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    assert_eq!(kept_files.next_number(), 5);
    kept_files.prune(1, 0);
    assert_eq!(kept_files.pruned, 3);
    assert_eq!(files(dir.path()), ["holiday.pcapng", "q100-000003.pcapng", "q100-000004.pcapng"]);
    let rule = Retention { bytes: Some(25), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    kept_files.prune(0, 10);
    assert_eq!((kept_files.pruned, kept_files.pruned_earlier), (1, 1));
    assert_eq!((kept_files.make_room(1), kept_files.pruned), (0, 1), "the newest stays");
    assert_eq!(files(dir.path()), ["holiday.pcapng", "q100-000004.pcapng"]);
}

#[test]
fn a_leftover_is_finished_unless_a_process_writes_it() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    put(dir.path(), "q100-000001.pcapng.part", 10);
    put(dir.path(), "q100-000002.pcapng.part", 10);
    let held = File::open(dir.path().join("q100-000002.pcapng.part")).unwrap();
    held.try_lock().unwrap();
    open(dir.path(), &names, Retention::default()).unwrap();
    assert_eq!(files(dir.path()), ["q100-000001.pcapng", "q100-000002.pcapng.part"]);
}

#[test]
fn a_leftover_is_trimmed_and_an_empty_one_removed() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    put(dir.path(), "q100-000001.pcapng.part", 10);
    put(dir.path(), "q100-000002.pcapng.part", 0);
    let part = File::options().write(true).open(dir.path().join("q100-000001.pcapng.part")).unwrap();
    if !quaff_os::disk::preallocate(&part, 0, 1 << 20) {
        return quaff_os::testing::skip("a_leftover_is_trimmed", "no fallocate in the folder for tests");
    }
    drop(part);
    let mut kept_files = open(dir.path(), &names, Retention::default()).unwrap();
    assert_eq!((files(dir.path()), kept_files.next_number()), (vec!["q100-000001.pcapng".to_owned()], 2));
    let left = fs::metadata(dir.path().join("q100-000001.pcapng")).unwrap();
    assert!(left.len() == 10 && left.blocks() * 512 < 1 << 19, "{left:?}");
}

#[test]
fn space_that_is_freed_late_is_counted_once() {
    const S: u64 = 1_000_000_000;
    let mut pending_free = PendingFree::default();
    assert_eq!(pending_free.expected_free(100, 100 * S), 100);
    pending_free.add(50, 100 * S);
    assert_eq!(pending_free.expected_free(100, 101 * S), 150, "not freed yet");
    assert_eq!(pending_free.expected_free(90, 102 * S), 140, "another process writes");
    assert_eq!(pending_free.expected_free(120, 103 * S), 140, "freed in part");
    assert_eq!(pending_free.expected_free(140, 104 * S), 140, "freed in full");
    pending_free.add(50, 104 * S);
    assert_eq!(pending_free.expected_free(140, 140 * S), 140, "never freed: another process has it open");
}

#[test]
fn a_file_that_cannot_be_removed_makes_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    (0..3).for_each(|number| put(dir.path(), &format!("q100-{number:06}.pcapng"), 10));
    let rule = Retention { files: Some(3), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    fs::remove_file(dir.path().join("q100-000000.pcapng")).unwrap();
    assert_eq!((kept_files.make_room(15), kept_files.pruned), (10, 1));
}

#[test]
fn a_file_that_cannot_be_removed_stays_in_the_books() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    (0..4).for_each(|number| put(dir.path(), &format!("q100-{number:06}.pcapng"), 10));
    let rule = Retention { bytes: Some(25), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    // A folder in its place cannot be removed as a file.
    let oldest = dir.path().join("q100-000000.pcapng");
    fs::remove_file(&oldest).unwrap();
    fs::create_dir(&oldest).unwrap();
    kept_files.prune(0, 0);
    assert_eq!((kept_files.pruned, kept_files.bytes, kept_files.files.len()), (2, 20, 2), "it still counts");
    fs::remove_dir(&oldest).unwrap();
    fs::write(&oldest, [0; 10]).unwrap();
    kept_files.prune(0, 10);
    assert_eq!((kept_files.pruned, files(dir.path())), (3, vec!["q100-000003.pcapng".to_owned()]));
}

#[test]
fn files_that_a_command_has_not_had_stay() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    (0..4).for_each(|number| put(dir.path(), &format!("q100-{number:06}.pcapng"), 10));
    let rule = Retention { bytes: Some(5), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    kept_files.hold(3);
    kept_files.prune(0, 0);
    assert_eq!((kept_files.pruned, kept_files.make_room(1)), (1, 0));
    kept_files.hold(1);
    assert_eq!((kept_files.make_room(15), kept_files.make_room(1)), (20, 0));
}

#[test]
fn a_file_that_a_command_compresses_counts_as_what_is_left_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q", "pcapng").unwrap();
    let rule = Retention { files: Some(2), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    let path = |number: u64| dir.path().join(format!("q-{number:06}.pcapng"));
    for number in 0..4 {
        put(dir.path(), &format!("q-{number:06}.pcapng"), 10);
        kept_files.add(path(number), 10, true);
        // The command: it has not had the newest file yet.
        kept_files.hold(1);
        kept_files.prune(0, 0);
        assert!(path(number).exists(), "it had no turn");
        fs::remove_file(path(number)).unwrap();
        put(dir.path(), &format!("q-{number:06}.pcapng.gz"), 3);
        kept_files.hold(0);
    }
    kept_files.prune(0, 0);
    let left = ["q-000002.pcapng.gz", "q-000003.pcapng.gz"].map(str::to_owned);
    assert_eq!((files(dir.path()), kept_files.bytes, kept_files.pruned), (left.to_vec(), 6, 2));
    // One that keeps both counts once, and an earlier run's files are known by their plain names.
    put(dir.path(), "q-000003.pcapng", 10);
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    assert_eq!((kept_files.files.len(), kept_files.bytes, kept_files.next_number()), (2, 16, 4));
    kept_files.prune(1, 0);
    assert_eq!(files(dir.path()), ["q-000003.pcapng", "q-000003.pcapng.gz"]);
    kept_files.prune(2, 0);
    assert_eq!((files(dir.path()).len(), kept_files.pruned, kept_files.bytes), (0, 2, 0));
}

/// 100 % can never be free: as if another program had filled the disk.
#[test]
fn the_newest_files_stay_on_a_disk_that_others_fill() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q", "pcapng").unwrap();
    (0..5).for_each(|number| put(dir.path(), &format!("q-{number:06}.pcapng"), 10));
    let rule = Retention { free_percent: Some(100.0), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    let said = kept_files.unmet().expect("a rule that cannot be met");
    assert!(said.starts_with("`keep-free` 100 % cannot be met") && said.contains("other files"), "{said}");
    kept_files.prune(1, 0);
    assert_eq!(
        (files(dir.path()), kept_files.pruned),
        (vec!["q-000003.pcapng".into(), "q-000004.pcapng".into()], 3)
    );
    assert!(kept_files.share_bytes() > ROTATE_BYTES_MIN || space(dir.path()).unwrap().free < 100 << 20);
    let rule = Retention { free_percent: Some(0.0), ..Retention::default() };
    assert_eq!(open(dir.path(), &names, rule).unwrap().unmet(), None);
}

#[test]
fn links_and_pipes_are_no_leftovers() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    put(dir.path(), "precious", 10);
    let path = |name: &str| dir.path().join(name);
    std::os::unix::fs::symlink(path("precious"), path("q100-000001.pcapng.part")).unwrap();
    nix::unistd::mkfifo(&path("q100-000002.pcapng.part"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink(path("precious"), path("q100-000003.pcapng")).unwrap();
    let rule = Retention { files: Some(2), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    assert_eq!((kept_files.files.len(), kept_files.next_number()), (0, 4));
    assert_eq!(files(dir.path()).len(), 4, "nothing is renamed or removed");
}

#[test]
fn a_leftover_is_finished_after_its_dying_writer_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%j", "pcapng").unwrap();
    put(dir.path(), "q100-000001.pcapng.part", 10);
    let held = File::open(dir.path().join("q100-000001.pcapng.part")).unwrap();
    held.try_lock().unwrap();
    let dying = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(250));
        drop(held);
    });
    open(dir.path(), &names, Retention::default()).unwrap();
    dying.join().unwrap();
    assert_eq!(files(dir.path()), ["q100-000001.pcapng"]);
}

/// Sets the time at which a file was changed, seconds since 1970.
fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// A run dated 2099, and the next one with a clock that is right again.
#[test]
fn the_order_is_that_of_the_numbers_whatever_the_times_are() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q%Y", "pcapng").unwrap();
    for (number, year, seconds) in
        [(0, 2099, 4_070_908_800), (1, 2099, 4_070_908_801), (2, 2026, 1), (3, 2026, 0)]
    {
        let name = format!("q{year}-{number:06}.pcapng");
        put(dir.path(), &name, 10);
        set_time(&dir.path().join(name), seconds);
    }
    let rule = Retention { files: Some(2), ..Retention::default() };
    open(dir.path(), &names, rule).unwrap().prune(0, 0);
    assert_eq!(files(dir.path()), ["q2026-000002.pcapng", "q2026-000003.pcapng"]);
}

/// In a folder that all may write to: sparse files, numbers at the end of all, locked and linked ones.
#[test]
fn files_of_a_stranger_in_the_folder_count_for_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return quaff_os::testing::skip("files_of_a_stranger_in_the_folder_count_for_nothing", "not root");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    let (names, path) = (NameTemplate::new("q", "pcapng").unwrap(), |name: &str| dir.path().join(name));
    (0..3).for_each(|number| put(dir.path(), &format!("q-{number:06}.pcapng"), 10));
    let planted =
        ["q-000009.pcapng", "q-18446744073709551615.pcapng", "q-000000.pcapng.gz", "q-000010.pcapng.part"];
    let mut held = Vec::new();
    for name in planted {
        let file = File::create(path(name)).unwrap();
        // 1 TB, of which nothing is there.
        file.set_len(1 << 40).unwrap();
        chown(path(name), Some(65_534), Some(65_534)).unwrap();
        file.try_lock().unwrap();
        held.push(file);
    }
    // A file of root, by a name that anyone can give it.
    fs::write(path("elsewhere"), [0; 100]).unwrap();
    fs::hard_link(path("elsewhere"), path("q-000011.pcapng")).unwrap();
    let rule = Retention { bytes: Some(100), ..Retention::default() };
    let start = std::time::Instant::now();
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    assert!(start.elapsed() < Duration::from_millis(500), "no lock of theirs is waited for");
    assert_eq!((kept_files.files.len(), kept_files.bytes, kept_files.next_number()), (3, 30, 3));
    assert!(kept_files.strange().unwrap().contains(": 4 of them do not count"), "{:?}", kept_files.strange());
    kept_files.prune(0, 0);
    assert_eq!(kept_files.pruned, 0);
    let rule = Retention { files: Some(0), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    kept_files.prune(0, 0);
    assert_eq!((kept_files.pruned, kept_files.bytes), (3, 0));
    let mut left = [&planted[..], &["elsewhere", "q-000011.pcapng"]].concat();
    left.sort_unstable();
    assert_eq!(files(dir.path()), left);
}

/// Of the same user, by mistake: its length is not what it takes, and its number is not the last one.
#[test]
fn a_sparse_file_counts_its_blocks_and_a_number_that_would_wrap_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q", "pcapng").unwrap();
    put(dir.path(), "q-000001.pcapng", 10);
    File::create(dir.path().join("q-000000.pcapng")).unwrap().set_len(1 << 40).unwrap();
    put(dir.path(), &format!("q-{}.pcapng", u64::MAX), 10);
    put(dir.path(), &format!("q-{}.pcapng", u64::MAX / 2 + 1), 10);
    let rule = Retention { bytes: Some(1 << 20), ..Retention::default() };
    let mut kept_files = open(dir.path(), &names, rule).unwrap();
    kept_files.prune(0, 0);
    assert_eq!((kept_files.pruned, kept_files.next_number(), kept_files.strange), (0, 2, 2));
    assert_eq!(files(dir.path()).len(), 4);
}

/// All locks of a start share one time: leftovers that others hold do not add up.
#[test]
fn leftovers_that_are_held_delay_the_start_once() {
    let dir = tempfile::tempdir().unwrap();
    let names = NameTemplate::new("q", "pcapng").unwrap();
    let held: Vec<_> = (0..20)
        .map(|number| {
            let name = format!("q-{number:06}.pcapng.part");
            put(dir.path(), &name, 10);
            let file = File::open(dir.path().join(name)).unwrap();
            file.try_lock().unwrap();
            file
        })
        .collect();
    let start = std::time::Instant::now();
    open(dir.path(), &names, Retention::default()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!((held.len(), files(dir.path()).len()), (20, 20));
}

/// The file of a folder as the model has it: its number as counted without restarts, which is also its age.
fn name_of(turn: u64, wrap: Option<u64>) -> String {
    format!("q-{:06}.pcapng", wrap.map_or(turn, |wrap| turn % wrap))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A folder after `runs` of some files each, some of which another program has removed, with any times and sizes:
    /// what is kept is the newest that the rules permit, and nothing else is removed.
    #[test]
    fn the_newest_files_stay_that_the_rules_permit(
        written in 0u64..30, wrap in prop::option::of(2u64..12),
        sizes in prop::collection::vec(1usize..50, 30), times in prop::collection::vec(0u64..5_000_000_000, 30),
        gone in prop::collection::btree_set(0u64..30, 0..5),
        most_files in prop::option::of(0u64..12), most_bytes in prop::option::of(0u64..500),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q", "pcapng").unwrap();
        let first = wrap.map_or(0, |wrap| written.saturating_sub(wrap));
        let mut model: Vec<u64> = (first..written).filter(|turn| !gone.contains(turn)).collect();
        for turn in &model {
            put(dir.path(), &name_of(*turn, wrap), sizes[*turn as usize]);
            set_time(&dir.path().join(name_of(*turn, wrap)), times[*turn as usize]);
        }
        let ring = wrap.map(|wrap| Ring { next: written, wrap, template: "q".into() });
        let rule = Retention { files: most_files, bytes: most_bytes, free_percent: None };
        let mut kept_files =
            KeptFiles::scan(dir.path(), &names, rule, LockPatience::begin(), (wrap, ring.as_ref())).unwrap();
        if wrap.is_some() {
            prop_assert_eq!(kept_files.position(), written);
        } else {
            prop_assert_eq!(kept_files.position(), model.last().map_or(0, |last| last + 1));
        }
        kept_files.prune(0, 0);
        let is_too_much = |model: &[u64]| {
            let bytes: usize = model.iter().map(|turn| sizes[*turn as usize]).sum();
            most_files.is_some_and(|most| model.len() as u64 > most)
                || most_bytes.is_some_and(|most| bytes as u64 > most)
        };
        let before = model.len();
        while !model.is_empty() && is_too_much(&model) {
            model.remove(0);
        }
        let mut left: Vec<_> = model.iter().map(|turn| name_of(*turn, wrap)).collect();
        left.sort();
        prop_assert_eq!(files(dir.path()), left);
        prop_assert_eq!(kept_files.pruned, (before - model.len()) as u64);
    }
}
