//! Completions: order, rotation, failed writes, a full disk, and pcap records across aligned writes.

use super::*;
use crate::interfaces::Interfaces;
use crate::write::finisher::SyncFile;
use crate::write::format::Format;
use crate::write::plan::{DirPlan, Retention};
use crate::write::repack::Repack;
use crate::write::slots::Slots;
use quaff_os::disk::{Disk, FileAccess};
use quaff_os::testing::skip;
use quaff_os::{Errno, Stop, Wakeup};
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::pcapng::{Interface, Section};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Packets of each chunk in these tests.
const PACKETS: u64 = 10;
/// Length of a pcap file header.
const PCAP_HEADER_BYTES: u64 = 24;

fn parts(format: Format, align: usize, disk: Disk, stop: &Stop) -> Parts {
    let interfaces = Interfaces::new(vec![Interface { linktype: 1, ..Interface::default() }]);
    let heading = Heading {
        format,
        section: Section::default(),
        interfaces,
        lanes: 1,
        known: 1,
        start_ns: 1,
        align: 1,
        compression: None,
        absent: Default::default(),
    };
    Parts {
        heading,
        disk,
        repack: (align > 1).then(|| Repack::new(align, 4096, 2).unwrap()),
        slots: Slots::default(),
        wakeup: Wakeup::new().unwrap(),
        stop: stop.clone(),
        gauges: Arc::default(),
    }
}

fn in_place(file: File, format: Format, align: usize, disk: Disk, stop: &Stop) -> Files {
    Files::in_place(file, "file".into(), parts(format, align, disk, stop)).unwrap()
}

fn plan(dir: &Path, rotate_bytes: u64, retention: Retention) -> DirPlan {
    DirPlan {
        dir: dir.to_owned(),
        name: "q".into(),
        rotate_bytes: Some(rotate_bytes),
        retention,
        ..DirPlan::default()
    }
}

fn in_folder(dir: &Path, rotate_bytes: u64, retention: Retention, stop: &Stop) -> Files {
    let plan = plan(dir, rotate_bytes, retention);
    let folder = Folder::open(&plan, "pcapng", false, FileAccess::default(), Wakeup::new().unwrap()).unwrap();
    Files::in_folder(folder, parts(Format::Pcapng, 1, Disk::pwrite(), stop)).unwrap()
}

/// A folder without a retention rule on a disk that fails.
fn on_failing_disk(dir: &Path, format: Format, disk: Disk, stop: &Stop) -> Files {
    let plan = plan(dir, 1 << 20, Retention::default());
    let folder =
        Folder::open(&plan, format.extension(), false, FileAccess::default(), Wakeup::new().unwrap())
            .unwrap();
    let align = if format == Format::Pcap { 512 } else { 1 };
    Files::in_folder(folder, parts(format, align, disk, stop)).unwrap()
}

/// The `number`-th chunk of the lane, from 1, with [`PACKETS`] packets in `len` bytes.
fn chunk(number: u64, len: usize) -> Chunk {
    let mut buffer = Buffer::new(len).unwrap();
    buffer[..len].fill(number as u8);
    let counts = Counts { packed: number * PACKETS, ..Counts::default() };
    Chunk { buffer, len, packets: PACKETS, slot: 0, first_ns: 1, counts, interfaces: 1, before: None }
}

/// Completes all pending writes, and the tail of a pcap file.
fn flush(files: &mut Files) {
    for _ in 0..2 {
        files.tick().unwrap();
        while files.reap().unwrap().is_some() {}
    }
}

/// Makes all further writes to the current file fail.
fn make_read_only(files: &mut Files, path: &Path) {
    files.current.file = Arc::new(File::open(path).unwrap());
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // The lock of the folder.
    names.retain(|name| name != ".quaff-lock");
    names.sort();
    names
}

#[test]
fn packets_count_with_the_completion_of_their_write() {
    let (stop, path) = (Stop::default(), tempfile::NamedTempFile::new().unwrap());
    let file = File::create(path.path()).unwrap();
    // With pwrite(2), a write is done when its completion is requested, so submitted writes stay pending until then.
    let mut files = in_place(file, Format::Pcapng, 1, Disk::pwrite(), &stop);
    (1..=3).for_each(|number| files.push(0, chunk(number, 4096)).unwrap());
    assert_eq!((files.tally.written, files.pending()), (0, 4), "the header and three chunks");
    assert!(files.reap().unwrap().is_some());
    assert_eq!((files.tally.written, files.pending()), (PACKETS, 2));
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, stop.reason()), (3 * PACKETS, 0, None));
    assert_eq!(tally.bytes, path.path().metadata().unwrap().len());
}

/// The last counters of each interface that a file describes: drops by the interface, if there are any.
fn interface_drops(file: &[u8]) -> Vec<Option<u64>> {
    let (mut rest, mut decoder, mut drops) = (file, Decoder::default(), Vec::new());
    while let Step::Item(item) = decoder.next(&mut rest).unwrap() {
        match item {
            Item::Interface(_) => drops.push(None),
            Item::Statistics(of) => drops[of.interface as usize] = of.ifdrop,
            _ => {}
        }
    }
    assert_eq!(rest.len(), 0);
    drops
}

/// The `number`-th chunk, with a packet of interface 1 by its counts, as a valid block.
fn of_second_interface(number: u64) -> Chunk {
    let mut chunk = Chunk { interfaces: 2, ..chunk(number, 4096) };
    quaff_wire::pcapng::padding(&mut chunk.buffer[..4096]);
    chunk.counts.session(1).missing = 7;
    chunk
}

#[test]
fn drops_of_an_interface_without_packets_are_in_the_last_counters() {
    let (stop, path) = (Stop::default(), tempfile::NamedTempFile::new().unwrap());
    let file = File::create(path.path()).unwrap();
    let mut files = in_place(file, Format::Pcapng, 1, Disk::pwrite(), &stop);
    // It is found after the header was written.
    files.heading.interfaces.add(Interface::default());
    let mut counts = Counts { nic_dropped: 70, ..Counts::default() };
    counts.session(1).missing = 7;
    files.note(0, counts);
    files.finish().unwrap();
    assert_eq!(interface_drops(&std::fs::read(path.path()).unwrap()), [Some(70), Some(7)]);
}

/// Readers take the difference of the first and the last counters.
#[test]
fn a_header_that_waits_begins_at_zero() {
    let (stop, path) = (Stop::default(), tempfile::NamedTempFile::new().unwrap());
    let mut parts = parts(Format::Pcapng, 1, Disk::pwrite(), &stop);
    parts.heading.interfaces = Interfaces::by_first_packet(vec![Interface::default()]);
    let mut files = Files::in_place(File::create(path.path()).unwrap(), "file".into(), parts).unwrap();
    files.note(0, Counts { nic_dropped: 70, ..Counts::default() });
    files.finish().unwrap();
    let (file, mut decoder) = (std::fs::read(path.path()).unwrap(), Decoder::default());
    let (mut rest, mut drops) = (&file[..], Vec::new());
    while let Step::Item(item) = decoder.next(&mut rest).unwrap() {
        drops.extend(if let Item::Statistics(of) = item { of.ifdrop } else { None });
    }
    assert_eq!(drops, [0, 70]);
}

#[test]
fn a_file_that_ends_early_has_no_counters_of_an_interface_that_it_does_not_describe() {
    // The description of the second interface, and the chunk after it.
    for (failing, described) in [(2, 1), (3, 2), (9, 2)] {
        let (stop, path) = (Stop::default(), tempfile::NamedTempFile::new().unwrap());
        let disk = Disk::failing(vec![(failing, Errno::EIO)]);
        let mut files = in_place(File::create(path.path()).unwrap(), Format::Pcapng, 1, disk, &stop);
        files.heading.interfaces.add(Interface::default());
        let mut first = Chunk { interfaces: 1, ..of_second_interface(1) };
        first.counts.sessions.clear();
        files.push(0, first).unwrap();
        files.push(0, of_second_interface(2)).unwrap();
        files.finish().unwrap();
        let drops = interface_drops(&std::fs::read(path.path()).unwrap());
        let counted = drops.iter().filter(|drops| drops.is_some()).count();
        assert_eq!(counted, described, "{failing}: {drops:?}");
    }
}

#[test]
fn writes_pending_across_a_rotation_end_their_own_file() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let mut files = in_folder(dir.path(), 1 << 20, Retention::default(), &stop);
    files.push(0, chunk(1, 4096)).unwrap();
    files.begin_slot(1).unwrap();
    files.push(0, chunk(2, 8192)).unwrap();
    assert_eq!(
        (files.ending().files, files.disk.pending()),
        (1, 2),
        "the first file's last blocks are pending"
    );
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.files, stop.reason()), (2 * PACKETS, 2, None));
    let bytes = |number| std::fs::metadata(dir.path().join(format!("q-00000{number}.pcapng"))).unwrap().len();
    assert_eq!((bytes(1) - bytes(0), tally.bytes), (4096, bytes(0) + bytes(1)));
}

#[test]
fn a_failed_write_is_reported_with_its_own_file_and_the_next_holds_nothing() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let mut files = in_folder(dir.path(), 1 << 20, Retention::default(), &stop);
    files.push(0, chunk(1, 4096)).unwrap();
    flush(&mut files);
    make_read_only(&mut files, &dir.path().join("q-000000.pcapng.part"));
    files.begin_slot(1).unwrap();
    files.push(0, chunk(2, 4096)).unwrap();
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost), (PACKETS, PACKETS));
    let Some(Reason::WriteError(error)) = stop.reason() else { panic!("{:?}", stop.reason()) };
    assert!(error.contains("q-000000.pcapng:"), "{error}");
    assert!(names(dir.path()).iter().all(|name| name.starts_with("q-000000")), "{:?}", names(dir.path()));
}

#[test]
fn a_full_disk_loses_what_is_not_written() {
    let wakeup = Wakeup::new().unwrap();
    for disk in [Disk::pwrite(), Disk::new(&wakeup)] {
        let stop = Stop::default();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut files = in_place(full, Format::Pcapng, 1, disk, &stop);
        (1..=3).for_each(|number| files.push(0, chunk(number, 4096)).unwrap());
        let tally = files.finish().unwrap();
        assert_eq!((tally.written, tally.lost, tally.bytes), (0, 3 * PACKETS, 0));
        assert_eq!(stop.reason(), Some(Reason::DiskFull));
        assert_eq!((0..9).filter(|_| files.reap().unwrap().is_some()).count(), 3, "all buffers are freed");
    }
}

/// A mounted tmpfs, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_retention_makes_room_and_the_write_is_retried() {
    let Some(disk) = SmallDisk::mount("192k") else {
        return skip("on_a_full_disk_retention_makes_room", "tmpfs cannot be mounted");
    };
    let (stop, dir) = (Stop::default(), disk.0.path());
    let retention = Retention { bytes: Some(1 << 30), ..Retention::default() };
    let mut files = in_folder(dir, 64 << 10, retention, &stop);
    for number in 1..=40 {
        files.push(0, chunk(number, 16 << 10)).unwrap();
        while files.reap().unwrap().is_some() {}
        files.tick().unwrap();
    }
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, stop.reason()), (40 * PACKETS, 0, None));
    assert!(tally.pruned > 0 && tally.files > tally.pruned, "{tally:?}");
    drop(files);
}

#[test]
fn after_a_failure_a_pcap_file_ends_with_its_last_whole_chunk() {
    let (stop, path) = (Stop::default(), tempfile::NamedTempFile::new().unwrap());
    let file = File::create(path.path()).unwrap();
    let mut files = in_place(file, Format::Pcap, 512, Disk::pwrite(), &stop);
    files.push(0, chunk(1, 1000)).unwrap();
    flush(&mut files);
    assert_eq!(
        (files.tally.written, path.path().metadata().unwrap().len()),
        (PACKETS, PCAP_HEADER_BYTES + 1000)
    );
    make_read_only(&mut files, path.path());
    files.push(0, chunk(2, 5000)).unwrap();
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost), (PACKETS, PACKETS));
    assert!(matches!(stop.reason(), Some(Reason::WriteError(_))), "{:?}", stop.reason());
    assert_eq!(files.damaged.map(|(_, valid)| valid), Some(PCAP_HEADER_BYTES + 1000));
    assert_eq!(tally.bytes, PCAP_HEADER_BYTES + 1000);
}

#[test]
fn a_tail_that_does_not_fit_loses_its_chunk() {
    let stop = Stop::default();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut files = in_place(full, Format::Pcap, 512, Disk::pwrite(), &stop);
    files.push(0, chunk(1, 100)).unwrap();
    flush(&mut files);
    assert_eq!((files.tally.written, files.tally.lost), (0, PACKETS));
    assert_eq!(stop.reason(), Some(Reason::DiskFull));
}

/// Position of a chunk in a file.
fn position(file: &[u8], number: u8) -> Option<usize> {
    file.windows(4096).position(|window| window.iter().all(|byte| *byte == number))
}

#[test]
fn after_a_failed_write_what_was_not_written_goes_into_the_next_file() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let disk = Disk::failing(vec![(1, Errno::EIO)]);
    let mut files = on_failing_disk(dir.path(), Format::Pcapng, disk, &stop);
    (1..=4).for_each(|number| files.push(0, chunk(number, 4096)).unwrap());
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, tally.files, stop.reason()), (4 * PACKETS, 0, 2, None));
    assert_eq!((tally.failed_files, tally.failures.len()), (1, 1));
    assert!(tally.failures[0].contains("q-000000.pcapng: "), "{:?}", tally.failures);
    let [first, second] =
        [0, 1].map(|n| std::fs::read(dir.path().join(format!("q-00000{n}.pcapng"))).unwrap());
    assert!(position(&first, 1).is_some() && position(&first, 2).is_none());
    let in_second = [2, 3, 4].map(|number| position(&second, number));
    assert!(in_second.is_sorted() && in_second[0].is_some(), "{in_second:?}");
    assert_eq!(second.len() - first.len(), 2 * 4096, "both have the first and the last blocks");
    assert_eq!(tally.bytes, (first.len() + second.len()) as u64);
    assert_eq!((0..9).filter(|_| files.reap().unwrap().is_some()).count(), 4, "all buffers are freed");
}

#[test]
fn a_file_after_one_that_fails_is_replaced_and_nothing_is_lost() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    // The last blocks of the first file, while the second has begun.
    let disk = Disk::failing(vec![(1, Errno::EIO)]);
    let mut files = on_failing_disk(dir.path(), Format::Pcapng, disk, &stop);
    files.push(0, chunk(1, 4096)).unwrap();
    files.begin_slot(1).unwrap();
    files.push(0, chunk(2, 4096)).unwrap();
    flush(&mut files);
    let counts = Counts { packed: 2 * PACKETS, nic_dropped: 7, ..Counts::default() };
    files.note(0, counts.clone());
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, tally.files, stop.reason()), (2 * PACKETS, 0, 2, None));
    assert_eq!(names(dir.path()), ["q-000000.pcapng", "q-000002.pcapng"]);
    let bytes = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    assert_eq!(tally.bytes, names(dir.path()).iter().map(|name| bytes(name)).sum::<u64>());
    assert_eq!(files.counts[0], counts);
}

#[test]
fn the_third_failure_in_a_row_ends_the_output() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let disk = Disk::failing((1..9).map(|number| (number, Errno::EIO)).collect());
    let mut files = on_failing_disk(dir.path(), Format::Pcapng, disk, &stop);
    for number in 1..=3 {
        files.push(0, chunk(number, 4096)).unwrap();
        flush(&mut files);
    }
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, tally.failed_files), (PACKETS, 2 * PACKETS, 3));
    let Some(Reason::WriteError(error)) = stop.reason() else { panic!("{:?}", stop.reason()) };
    assert!(error.contains("q-000002.pcapng: "), "{error}");
}

#[test]
fn a_failure_between_two_successes_does_not_add_up() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let disk = Disk::failing([1, 3, 5, 7, 9].map(|number| (number, Errno::EIO)).to_vec());
    let mut files = on_failing_disk(dir.path(), Format::Pcapng, disk, &stop);
    for number in 1..=9 {
        files.push(0, chunk(number, 4096)).unwrap();
        flush(&mut files);
    }
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, tally.failed_files, stop.reason()), (9 * PACKETS, 0, 5, None));
}

#[test]
fn pcap_loses_what_was_in_flight_and_continues() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let disk = Disk::failing(vec![(2, Errno::EIO)]);
    let mut files = on_failing_disk(dir.path(), Format::Pcap, disk, &stop);
    for number in 1..=9 {
        files.push(0, chunk(number, 3000)).unwrap();
        flush(&mut files);
    }
    let tally = files.finish().unwrap();
    assert_eq!((tally.written + tally.lost, tally.failed_files, stop.reason()), (9 * PACKETS, 1, None));
    assert!(tally.lost > 0 && tally.lost <= 3 * PACKETS && tally.files == 2, "{tally:?}");
    let bytes = names(dir.path()).into_iter().map(|name| dir.path().join(name).metadata().unwrap().len());
    assert_eq!((bytes.sum::<u64>(), tally.written), (tally.bytes, (tally.bytes - 48) / 3000 * PACKETS));
}

#[test]
fn a_full_disk_that_gets_room_in_time_costs_nothing() {
    let Some(disk) = SmallDisk::mount("256k") else {
        return skip("a_full_disk_that_gets_room_in_time", "tmpfs cannot be mounted");
    };
    let (stop, dir) = (Stop::default(), disk.0.path());
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![0; 128 << 10]).unwrap();
    let mut files = in_folder(dir, 64 << 10, Retention::default(), &stop);
    let removal = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        std::fs::remove_file(ballast).unwrap();
    });
    for number in 1..=9 {
        files.push(0, chunk(number, 16 << 10)).unwrap();
        flush(&mut files);
    }
    let tally = files.finish().unwrap();
    removal.join().unwrap();
    assert_eq!((tally.written, tally.lost, stop.reason()), (9 * PACKETS, 0, None), "{tally:?}");
    assert!(!tally.failures.is_empty(), "the disk was never full");
    drop(files);
}

/// Returns whether a file holds the chunk `number`.
fn holds(file: &File, number: u8) -> bool {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    position(&bytes, number).is_some()
}

/// A folder whose files are synced by `sync`: continuously while they are written, or only at their ends.
fn synced_by(dir: &Path, format: Format, sync: SyncFile, is_regular: bool, stop: &Stop) -> Files {
    let plan = plan(dir, 1 << 20, Retention::default());
    let folder = Folder::with_sync(&plan, format.extension(), sync).unwrap();
    let align = if format == Format::Pcap { 512 } else { 1 };
    let files = Files::in_folder(folder, parts(format, align, Disk::pwrite(), stop)).unwrap();
    files.sync_every(is_regular.then_some(Duration::ZERO)).unwrap()
}

/// Writes everything, and waits for the syncs of it.
fn settle(files: &mut Files) {
    flush(files);
    while files.sync_wait() != Duration::MAX || files.regular_sync.is_running {
        files.tick().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_failed_sync_costs_its_file_the_name_and_the_next_chunk_goes_into_the_next_file() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let sync: SyncFile = |file| if holds(file, 2) { Err(Errno::EIO.into()) } else { Ok(()) };
    let mut files = synced_by(dir.path(), Format::Pcapng, sync, true, &stop);
    files.push(0, chunk(1, 4096)).unwrap();
    settle(&mut files);
    let synced = files.tally.synced_bytes;
    assert!(synced >= 4096 && synced == files.tally.bytes, "{:?}", files.tally);
    files.push(0, chunk(2, 4096)).unwrap();
    settle(&mut files);
    assert_eq!(files.tally.synced_bytes, synced);
    files.push(0, chunk(3, 4096)).unwrap();
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, stop.reason()), (3 * PACKETS, 0, None));
    assert_eq!((tally.files, tally.failed_files, tally.unsynced_files), (2, 1, 1));
    assert_eq!(names(dir.path()), ["q-000000.pcapng.part", "q-000001.pcapng"]);
    let open = |name: &str| File::open(dir.path().join(name)).unwrap();
    let [first, second] = ["q-000000.pcapng.part", "q-000001.pcapng"].map(open);
    assert!(holds(&first, 1) && holds(&first, 2) && !holds(&first, 3) && holds(&second, 3));
    assert_eq!(tally.synced_bytes, synced + second.metadata().unwrap().len());
    assert_eq!(tally.failures.len(), 1, "{:?}", tally.failures);
    assert!(tally.failures[0].contains("q-000000.pcapng.part: cannot sync it: "), "{:?}", tally.failures);
}

#[test]
fn a_file_that_cannot_be_finished_does_not_end_the_output() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    // Of nine files four fail, with one that does not after each.
    let sync: SyncFile = |file| match (1..=9).find(|number| holds(file, *number)) {
        Some(number) if number % 2 == 0 => Err(Errno::EIO.into()),
        _ => Ok(()),
    };
    let mut files = synced_by(dir.path(), Format::Pcapng, sync, false, &stop);
    for number in 1..=9 {
        files.push(0, chunk(number, 4096)).unwrap();
        flush(&mut files);
        files.begin_slot(number).unwrap();
    }
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, stop.reason()), (9 * PACKETS, 0, None), "{tally:?}");
    assert_eq!((tally.failed_files, tally.unsynced_files), (4, 4));
    let parts = names(dir.path()).into_iter().filter(|name| name.ends_with(".part")).count();
    assert_eq!(parts, 4);
    assert!(tally.synced_bytes < tally.bytes);
}

#[test]
fn a_file_that_is_cut_and_cannot_be_synced_counts_once() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let sync: SyncFile = |file| if holds(file, 1) { Err(Errno::EIO.into()) } else { Ok(()) };
    let folder = Folder::with_sync(&plan(dir.path(), 1 << 20, Retention::default()), "pcapng", sync).unwrap();
    let disk = Disk::failing(vec![(1, Errno::EIO)]);
    let mut files = Files::in_folder(folder, parts(Format::Pcapng, 1, disk, &stop)).unwrap();
    (1..=2).for_each(|number| files.push(0, chunk(number, 4096)).unwrap());
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, tally.files, stop.reason()), (2 * PACKETS, 0, 2, None));
    assert_eq!((tally.failed_files, tally.unsynced_files, tally.failures.len()), (1, 1, 2));
    assert_eq!(names(dir.path()), ["q-000000.pcapng.part", "q-000001.pcapng"]);
}

#[test]
fn the_third_failed_sync_in_a_row_ends_the_output() {
    let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
    let mut files = synced_by(dir.path(), Format::Pcapng, |_| Err(Errno::EIO.into()), true, &stop);
    for number in 1..=3 {
        assert_eq!(stop.reason(), None);
        files.push(0, chunk(number, 4096)).unwrap();
        settle(&mut files);
    }
    let Some(Reason::WriteError(error)) = stop.reason() else { panic!("{:?}", stop.reason()) };
    assert!(error.contains("q-000002.pcapng.part: "), "{error}");
    files.push(0, chunk(4, 4096)).unwrap();
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, tally.unsynced_files), (3 * PACKETS, PACKETS, 3));
}

#[test]
fn all_bytes_of_finished_files_are_synced() {
    for (format, is_regular) in
        [(Format::Pcapng, true), (Format::Pcapng, false), (Format::Pcap, true), (Format::Pcap, false)]
    {
        let (stop, dir) = (Stop::default(), tempfile::tempdir().unwrap());
        let mut files = synced_by(dir.path(), format, File::sync_data, is_regular, &stop);
        for number in 1..=9 {
            files.push(0, chunk(number, 3000)).unwrap();
            if number % 3 == 0 {
                settle(&mut files);
                files.begin_slot(number).unwrap();
            }
        }
        let tally = files.finish().unwrap();
        assert_eq!((tally.written, tally.unsynced_files), (9 * PACKETS, 0));
        assert_eq!(tally.synced_bytes, tally.bytes, "{format:?}, {is_regular}: {tally:?}");
        assert_eq!(tally.sync_high_ns > 0, is_regular);
    }
}

#[test]
fn a_file_in_place_that_cannot_be_synced_ends_the_output() {
    let (stop, null) = (Stop::default(), File::options().write(true).open("/dev/null").unwrap());
    // fsync(2) of a device like this one is refused.
    let files = in_place(null, Format::Pcapng, 1, Disk::pwrite(), &stop);
    let mut files = files.sync_every(Some(Duration::ZERO)).unwrap();
    files.push(0, chunk(1, 4096)).unwrap();
    settle(&mut files);
    let Some(Reason::WriteError(error)) = stop.reason() else { panic!("{:?}", stop.reason()) };
    assert!(error.starts_with("file: "), "{error}");
    files.push(0, chunk(2, 4096)).unwrap();
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, tally.synced_bytes), (PACKETS, PACKETS, 0));
}
