//! Completions: order, rotation, failed writes, a full disk, and pcap records across aligned writes.

use super::*;
use crate::interfaces::Interfaces;
use crate::write::plan::{DirPlan, Format, Retention};
use quaff_os::testing::skip;
use quaff_wire::pcapng::{Interface, Section};
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

fn in_folder(dir: &Path, rotate_bytes: u64, retention: Retention, stop: &Stop) -> Files {
    let plan = DirPlan {
        dir: dir.to_owned(),
        name: "q".into(),
        rotate_bytes: Some(rotate_bytes),
        rotate_time: None,
        retention,
        wrap: false,
        exec: None,
    };
    let folder = Folder::open(&plan, "pcapng", false, Wakeup::new().unwrap()).unwrap();
    Files::in_folder(folder, parts(Format::Pcapng, 1, Disk::pwrite(), stop)).unwrap()
}

/// The `number`-th chunk of the lane, from 1, with [`PACKETS`] packets in `len` bytes.
fn chunk(number: u64, len: usize) -> Chunk {
    let mut buffer = Buffer::new(len).unwrap();
    buffer[..len].fill(number as u8);
    let counts = Counts { packed: number * PACKETS, ..Counts::default() };
    Chunk { buffer, len, packets: PACKETS, slot: 0, first_ns: 1, counts, interfaces: 1 }
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
    names.sort();
    names
}

#[test]
fn packets_count_with_the_completion_of_their_write() {
    let (stop, path) = (Stop::default(), tempfile::NamedTempFile::new().unwrap());
    let file = File::create(path.path()).unwrap();
    // pwrite(2) writes when a completion is asked for, so submitted writes stay pending until then.
    let mut files = in_place(file, Format::Pcapng, 1, Disk::pwrite(), &stop);
    (1..=3).for_each(|number| files.push(0, chunk(number, 4096)).unwrap());
    assert_eq!((files.tally.written, files.pending()), (0, 4), "the header and three chunks");
    assert!(files.reap().unwrap().is_some());
    assert_eq!((files.tally.written, files.pending()), (PACKETS, 2));
    let tally = files.finish().unwrap();
    assert_eq!((tally.written, tally.lost, stop.reason()), (3 * PACKETS, 0, None));
    assert_eq!(tally.bytes, path.path().metadata().unwrap().len());
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
