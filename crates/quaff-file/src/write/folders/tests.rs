//! Several folders: lanes with a folder each, files in turns, and folders whose disks fail.

use super::*;
use crate::interfaces::Interfaces;
use crate::read::CaptureFile;
use crate::write::folder::Folder;
use crate::write::folder_writer::MakeDisk;
use crate::write::format::Format;
use crate::write::header::Heading;
use crate::write::plan::DirPlan;
use crate::write::slots::Slots;
use proptest::prelude::*;
use quaff_os::disk::{Disk, FileAccess};
use quaff_os::{Errno, Wakeup};
use quaff_wire::Record;
use quaff_wire::decode::Item;
use quaff_wire::pcapng::{Interface, Section, epb};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const START_NS: u64 = 1_790_000_000_000_000_000;
/// Packets of a chunk, and bytes of each.
const PACKETS: u64 = 4;
const PACKET_BYTES: usize = 30_000;

/// Faults of a disk: the numbers of the writes that fail with EIO.
type Faults = Vec<u64>;

/// A run with folders of 1 MiB files, and what it has sent.
struct Run {
    folders: Folders,
    wakeup: Wakeup,
    stop: Stop,
    counts: Vec<Counts>,
    returned: usize,
    sent: usize,
    now_ns: u64,
    _dir: tempfile::TempDir,
    dirs: Vec<PathBuf>,
}

impl Run {
    /// A folder for each of `faults`.
    fn new(lanes: usize, faults: &[Faults]) -> Self {
        let (dir, wakeup, stop) = (tempfile::tempdir().unwrap(), Wakeup::new().unwrap(), Stop::default());
        let interface = |lane| Interface { linktype: 1, name: format!("eth{lane}"), ..Interface::default() };
        let heading = Heading {
            format: Format::Pcapng,
            section: Section::default(),
            interfaces: Interfaces::new((0..lanes).map(interface).collect()),
            lanes,
            known: lanes,
            start_ns: START_NS,
            align: 1,
            compression: None,
            absent: Default::default(),
        };
        let run = FolderRun { heading, slots: Slots::default(), fsync: None, wakeup: wakeup.clone() };
        let dirs: Vec<_> = (0..faults.len()).map(|number| dir.path().join(format!("d{number}"))).collect();
        let open = dirs.iter().zip(faults).map(|(dir, faults)| open(dir, faults)).collect();
        let folders = Folders::start(open, &run, stop.clone(), Arc::default()).unwrap();
        let counts = vec![Counts::default(); lanes];
        Self { folders, wakeup, stop, counts, returned: 0, sent: 0, now_ns: START_NS, _dir: dir, dirs }
    }

    /// Sends the next chunk of a lane.
    fn send(&mut self, lane: usize) {
        let (len, first_ns) = (PACKETS as usize * (PACKET_BYTES + 64), self.now_ns + 1);
        let (mut buffer, mut at) = (Buffer::new(len).unwrap(), 0);
        for _ in 0..PACKETS {
            self.now_ns += 1;
            let mut bytes = vec![lane as u8; PACKET_BYTES];
            bytes[..8].copy_from_slice(&self.counts[lane].packed.to_be_bytes());
            let (time_ns, len) = (self.now_ns, bytes.len() as u32);
            let record =
                Record { time_ns, bytes: &bytes, len, tag: None, direction: 0, dropped: 0, snaplen: 0 };
            at += epb(&mut buffer[at..], lane as u32, &record);
            self.counts[lane].packed += 1;
        }
        self.counts[lane].time_ns = self.now_ns;
        let (interfaces, counts) = (self.counts.len(), self.counts[lane].clone());
        let chunk =
            Chunk { buffer, len: at, packets: PACKETS, slot: 0, first_ns, counts, interfaces, before: None };
        self.folders.push(lane, chunk).unwrap();
        self.sent += 1;
        self.turn();
    }

    fn turn(&mut self) {
        while self.folders.reap().unwrap().is_some() {
            self.returned += 1;
        }
        self.folders.tick().unwrap();
    }

    /// Waits until all that was sent is written or lost.
    fn settle(&mut self) {
        while self.folders.pending() > 0 {
            self.turn();
            self.wakeup.wait(Duration::from_millis(20)).unwrap();
        }
    }

    /// Ends the run; returns the tally, and the files of each folder in the order of their times.
    fn finish(mut self) -> (WriterTally, Vec<Vec<Contents>>, Option<Reason>) {
        for (lane, counts) in self.counts.clone().into_iter().enumerate() {
            self.folders.note(lane, counts);
        }
        self.settle();
        let tally = self.folders.finish().unwrap();
        self.turn_after_end();
        assert_eq!(self.returned, self.sent, "every buffer returns");
        let files = self.dirs.iter().map(|dir| read_folder(dir)).collect();
        (tally, files, self.stop.reason())
    }

    fn turn_after_end(&mut self) {
        while self.folders.reap().unwrap().is_some() {
            self.returned += 1;
        }
    }
}

fn open(dir: &Path, faults: &Faults) -> OpenFolder {
    std::fs::create_dir(dir).unwrap();
    let plan =
        DirPlan { dir: dir.to_owned(), name: "q".into(), rotate_bytes: Some(1 << 20), ..DirPlan::default() };
    let wakeup = Wakeup::new().unwrap();
    let folder = Folder::open(&plan, "pcapng", false, FileAccess::default(), wakeup.clone()).unwrap();
    let faults = faults.iter().map(|number| (*number, Errno::EIO)).collect();
    let disk: MakeDisk = Box::new(move |_| Disk::failing(faults));
    OpenFolder { dir: dir.to_owned(), folder, align: 1, wakeup, disk }
}

/// A file: the numbers of its packets by lane, the counters that it begins and ends with, and its first time.
#[derive(Debug, Default)]
struct Contents {
    first_ns: u64,
    numbers: BTreeMap<usize, Vec<u64>>,
    begun: BTreeMap<usize, u64>,
    ended: BTreeMap<usize, u64>,
}

fn read_folder(dir: &Path) -> Vec<Contents> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    // A folder has a lock while it is written.
    let entries = entries.filter(|path| !path.ends_with(".quaff-lock"));
    let mut files: Vec<_> = entries.map(|path| read(&path)).collect();
    files.sort_by_key(|file| file.first_ns);
    files
}

fn read(path: &Path) -> Contents {
    assert!(path.extension().is_some_and(|extension| extension == "pcapng"), "{}", path.display());
    let mut found = Contents::default();
    let mut file = CaptureFile::open(path).unwrap();
    let mut take = |item: Item<'_>| match item {
        Item::Frame(frame) => {
            if found.first_ns == 0 {
                found.first_ns = frame.time_ns;
            }
            let number = u64::from_be_bytes(frame.data[..8].try_into().unwrap());
            found.numbers.entry(frame.interface as usize).or_default().push(number);
        }
        Item::Statistics(counters) => {
            let (lane, delivered) = (counters.interface as usize, counters.usrdeliv.unwrap());
            found.begun.entry(lane).or_insert(delivered);
            found.ended.insert(lane, delivered);
        }
        _ => {}
    };
    while file.pull(&mut take).unwrap() {}
    found
}

/// Checks that a file holds a run of consecutive packets of each lane, as its own counters have it.
fn assert_proves_itself(file: &Contents) {
    for (lane, numbers) in &file.numbers {
        let begun = file.begun[lane];
        let expected: Vec<_> = (begun..begun + numbers.len() as u64).collect();
        assert_eq!(numbers, &expected, "lane {lane}");
    }
    for (lane, begun) in &file.begun {
        let packets = file.numbers.get(lane).map_or(0, Vec::len) as u64;
        assert_eq!(file.ended[lane] - begun, packets, "lane {lane}: {file:?}");
    }
}

#[test]
fn each_lane_has_its_folder_while_there_are_enough() {
    let mut run = Run::new(3, &[vec![], vec![]]);
    (0..60).for_each(|number| run.send(number % 3));
    let (tally, files, reason) = run.finish();
    assert_eq!((tally.written, tally.lost, reason), (60 * PACKETS, 0, None));
    assert_eq!(tally.folders.iter().map(|of| of.written).collect::<Vec<_>>(), [40 * PACKETS, 20 * PACKETS]);
    assert_eq!(tally.files as usize, files.iter().map(Vec::len).sum::<usize>());
    for (folder, lanes) in [(0, vec![0, 2]), (1, vec![1])] {
        for file in &files[folder] {
            assert_proves_itself(file);
            assert_eq!(file.begun.keys().copied().collect::<Vec<_>>(), lanes, "counters of its lanes alone");
        }
    }
}

#[test]
fn a_file_that_is_removed_in_one_folder_is_the_loss_of_its_packets_alone() {
    let mut run = Run::new(2, &[vec![], vec![]]);
    for _ in 0..3 {
        run.send(0);
        run.send(1);
        run.settle();
    }
    // Where no file is without a name, the next one has a hidden name.
    let parts = std::fs::read_dir(&run.dirs[0]).unwrap().map(|entry| entry.unwrap().path());
    let parts = parts.filter(|path| path.extension().is_some_and(|extension| extension == "part"));
    let [part] = &parts.collect::<Vec<_>>()[..] else { panic!("one file") };
    std::fs::remove_file(part).unwrap();
    // Seen while it is written, by its folder and by the sum.
    let begun = std::time::Instant::now();
    while run.folders.gauges.removed_file.get() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        run.turn();
        std::thread::sleep(Duration::from_millis(10));
    }
    // More than a file has room for: the next ones of the same folder have their names.
    (0..40).for_each(|number| run.send(number % 2));
    let (tally, files, reason) = run.finish();
    let [(path, lost)] = &tally.removed[..] else { panic!("{:?}", tally.removed) };
    assert_eq!(format!("{path}.part"), part.display().to_string());
    let sent = 46 * PACKETS;
    assert_eq!((tally.written + lost, tally.lost, reason), (sent, *lost, None));
    assert_eq!((tally.folders[0].lost, tally.folders[1].lost), (*lost, 0));
    assert!(*lost >= 3 * PACKETS && *lost < 23 * PACKETS, "{lost}");
    assert_eq!(tally.failed_files, 0);
    assert_eq!(tally.files as usize, files.iter().map(Vec::len).sum::<usize>());
    let read =
        |of: &[Contents]| of.iter().flat_map(|file| file.numbers.values()).map(Vec::len).sum::<usize>();
    assert_eq!(read(&files[0]) as u64, 23 * PACKETS - lost);
    assert_eq!(read(&files[1]) as u64, 23 * PACKETS);
    files.iter().flatten().for_each(assert_proves_itself);
}

#[test]
fn files_of_one_lane_go_to_the_folders_in_turns() {
    let mut run = Run::new(1, &[vec![], vec![], vec![]]);
    for _ in 0..50 {
        run.send(0);
        // A disk that keeps up.
        run.settle();
    }
    let (tally, files, reason) = run.finish();
    assert_eq!((tally.written, tally.lost, reason), (50 * PACKETS, 0, None));
    assert_eq!(files.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2, 2], "{files:?}");
    files.iter().flatten().for_each(assert_proves_itself);
    let mut next = 0;
    for turn in 0..7 {
        let file = &files[turn % 3][turn / 3];
        assert_eq!((file.begun[&0], file.numbers[&0][0]), (next, next), "a time without gaps");
        next = file.ended[&0];
    }
    assert_eq!(next, 50 * PACKETS);
}

#[test]
fn two_lanes_share_three_folders() {
    let mut run = Run::new(2, &[vec![], vec![], vec![]]);
    (0..80).for_each(|number| run.send(number % 2));
    let (tally, files, _) = run.finish();
    assert_eq!(tally.written, 80 * PACKETS);
    files.iter().flatten().for_each(assert_proves_itself);
    let lanes = |folder: usize| files[folder].iter().flat_map(|file| file.numbers.keys().copied());
    assert!(lanes(0).chain(lanes(2)).all(|lane| lane == 0) && lanes(1).all(|lane| lane == 1), "{files:?}");
    assert!(!files[2].is_empty());
}

#[test]
fn a_folder_that_fails_is_replaced_and_costs_nothing() {
    for lanes in [1, 2] {
        let mut run = Run::new(lanes, &[vec![], vec![3, 4, 5]]);
        for number in 0..60 {
            run.send(number % lanes);
            run.settle();
        }
        let (tally, files, reason) = run.finish();
        assert_eq!((tally.written, tally.lost, reason), (60 * PACKETS, 0, None), "{lanes} lanes");
        let [good, bad] = &tally.folders[..] else { panic!("{tally:?}") };
        assert_eq!((&good.failure, bad.failed_files), (&None, 3));
        assert!(bad.failure.as_ref().is_some_and(|error| error.contains("Input/output error")), "{bad:?}");
        assert!(bad.written > 0 && good.written > bad.written);
        files.iter().flatten().for_each(assert_proves_itself);
    }
}

#[test]
fn the_last_folder_that_fails_ends_the_run_and_the_rest_is_counted() {
    let mut run = Run::new(2, &[vec![0, 1, 2], vec![6, 7, 8]]);
    (0..60).for_each(|number| run.send(number % 2));
    let (tally, files, reason) = run.finish();
    assert!(matches!(reason, Some(Reason::WriteError(_))), "{reason:?}");
    assert_eq!(tally.written + tally.lost, 60 * PACKETS);
    assert!(tally.written > 0 && tally.lost > 0, "{tally:?}");
    let numbers = files.iter().flatten().flat_map(|file| file.numbers.values()).map(|of| of.len() as u64);
    assert_eq!(numbers.sum::<u64>(), tally.written);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Disks that fail at random moments, while one is good: every packet is in one file, which proves itself.
    #[test]
    fn no_packet_is_lost_while_a_folder_is_left(
        lanes in 1..4usize,
        failing in prop::collection::vec(prop::option::of(0..30u64), 1..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 20..100),
    ) {
        let three_from = |number: Option<u64>| number.map_or(vec![], |at| vec![at, at + 1, at + 2]);
        let mut faults: Vec<Faults> = failing.iter().map(|number| three_from(*number)).collect();
        faults.insert(order.len() % (faults.len() + 1), vec![]);
        let mut run = Run::new(lanes, &faults);
        order.iter().for_each(|lane| run.send(lane.index(lanes)));
        let sent = run.counts.clone();
        let (tally, files, reason) = run.finish();
        prop_assert_eq!((tally.lost, reason), (0, None));
        prop_assert_eq!(tally.written, sent.iter().map(|counts| counts.packed).sum::<u64>());
        for (lane, counts) in sent.iter().enumerate() {
            let of_lane = files.iter().flatten().filter_map(|file| file.numbers.get(&lane));
            let mut numbers: Vec<_> = of_lane.flatten().copied().collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..counts.packed).collect::<Vec<_>>(), "lane {}", lane);
        }
        files.iter().flatten().for_each(assert_proves_itself);
    }
}
