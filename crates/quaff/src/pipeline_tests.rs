//! The pipe without a kernel: a source that makes frames, the real lane, packer, writer and sinks,
//! and the reader of `verify` at the other end. Whatever the sizes, the rates and the faults, every
//! frame is in the file or counted, at its place.

use crate::Result;
use crate::batch::Frame;
use crate::buffer_pool::LanePool;
use crate::lane::{self, Inlet, Lane, Writer};
use crate::output::{PackPlan, Packer};
use crate::source::{Pull, Source, SourceTally};
use crate::tally::{LaneTally, Ledger, RunSummary};
use nix::fcntl::OFlag;
use proptest::prelude::*;
use quaff_file::Interfaces;
use quaff_file::read::CaptureFile;
use quaff_file::tally::{Counts, WriterTally};
use quaff_file::write::{Chunk, DirPlan, Files, Folder, Format, Heading, Parts, Repack, Sink, Slots, Target};
use quaff_os::disk::{Disk, FileAccess, direct_align};
use quaff_os::testing::skip;
use quaff_os::{Buffer, Errno, Reason, Stop, Wakeup};
use quaff_wire::decode::Item;
use quaff_wire::pcapng::{Interface, Section};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const START_NS: u64 = 1_790_000_000_000_000_000;
const CHUNK_BYTES: usize = 512 << 10;
/// A write of the repacker.
const WRITE_BYTES: usize = 1 << 20;

/// The result of one pull.
#[derive(Debug, Clone)]
struct Batch {
    frames: u32,
    frame_bytes: u32,
    dropped_before: u64,
    /// Time since the batch before, ns; may go back.
    step_ns: i64,
}

/// Frames numbered in their first 8 bytes, and drops where the plan says.
struct Made {
    bytes: Vec<u8>,
    plan: std::vec::IntoIter<Batch>,
    time_ns: u64,
    number: u64,
    dropped: u64,
    pressed: bool,
}

impl Source for Made {
    fn pull(&mut self, frames: &mut Vec<Frame>, _wait: Duration) -> Result<Pull> {
        frames.clear();
        let Some(batch) = self.plan.next() else { return Ok(Pull::End) };
        self.bytes.clear();
        self.dropped += batch.dropped_before;
        self.time_ns = self.time_ns.checked_add_signed(batch.step_ns).expect("a time");
        for i in 0..batch.frames {
            let start = self.bytes.len();
            self.bytes.extend(self.number.to_be_bytes());
            self.bytes.resize(start + batch.frame_bytes as usize, 0xaa);
            self.number += 1;
            frames.push(Frame {
                time_ns: self.time_ns + u64::from(i),
                start: start as u32,
                len: batch.frame_bytes,
                wire_len: batch.frame_bytes,
                keep: u32::MAX,
                ..Frame::default()
            });
        }
        Ok(if batch.frames == 0 { Pull::Idle } else { Pull::Batch })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn release(&mut self) {}

    fn is_nearly_full(&self) -> bool {
        self.pressed
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn count(&self, _counts: &mut Counts) {}

    fn wall_ns(&self) -> u64 {
        self.time_ns + 1_000_000
    }

    fn finish(self: Box<Self>) -> Result<SourceTally> {
        Ok(SourceTally::default())
    }
}

/// A run: its format, its memory, its slots.
struct Run {
    format: Format,
    align: usize,
    buffers: usize,
    slot_ns: u64,
}

impl Run {
    fn heading(&self) -> Heading {
        let interface = Interface { linktype: 1, name: "made".into(), ..Interface::default() };
        Heading {
            format: self.format,
            section: Section::default(),
            interfaces: Interfaces::new(vec![interface]),
            lanes: 1,
            known: 1,
            start_ns: START_NS,
            align: if self.format == Format::Pcapng { self.align } else { 1 },
            compression: None,
            absent: Default::default(),
        }
    }

    fn parts(&self, wakeup: &Wakeup, stop: &Stop, disk: Disk) -> Parts {
        let is_repacked = self.format != Format::Pcapng && self.align > 1;
        Parts {
            heading: self.heading(),
            disk,
            repack: is_repacked.then(|| Repack::new(self.align, WRITE_BYTES, 2).expect("memory")),
            slots: Slots::every(self.slot_ns),
            wakeup: wakeup.clone(),
            stop: stop.clone(),
            gauges: Arc::default(),
        }
    }

    /// Runs lane and writer to their end, each on its thread.
    fn go(
        &self,
        plan: Vec<Batch>,
        pressed: bool,
        sink: impl FnOnce(&Wakeup, &Stop) -> Box<dyn Sink>,
    ) -> (LaneTally, WriterTally, Stop) {
        let (wakeup, stop) = (Wakeup::new().unwrap(), Stop::default());
        let pool = LanePool::of((0..self.buffers).map(|_| Buffer::new(CHUNK_BYTES).unwrap()).collect());
        let (outbound, inbound) = rtrb::RingBuffer::new(self.buffers + 64);
        let pack = PackPlan {
            format: self.format,
            lane: 0,
            own: Some(0),
            spares: None,
            is_shared: false,
            align: self.heading().align,
            is_past_cache: self.heading().align > 1,
            flush_ns: 1_000_000,
            slots: Slots::every(self.slot_ns),
            rotate_packets: u64::MAX,
            packet_comment: Arc::default(),
            start_ns: START_NS,
            grace_ns: 0,
            by_packet_time: false,
            mark_ns: None,
            abandoned: Stop::default(),
        };
        let slot = pack.slots.slot_of(START_NS);
        let packer = Packer::new(pack, pool.supply, outbound, wakeup.clone());
        let backlog = packer.backlog();
        let source = Made {
            bytes: Vec::new(),
            plan: plan.into_iter(),
            time_ns: START_NS,
            number: 0,
            dropped: 0,
            pressed,
        };
        let (source, output) = (Box::new(source), Box::new(packer));
        let lane = Lane {
            source,
            stages: Vec::new(),
            front_stages: 0,
            output,
            stop: stop.clone(),
            gauges: Arc::default(),
        };
        let reader = std::thread::spawn(move || lane::read(lane).unwrap().lane);
        let inlet = Inlet::new(inbound, pool.free_buffers, slot, backlog);
        let writer = Writer { inlets: vec![inlet], sink: sink(&wakeup, &stop), wakeup, slot };
        let written = lane::write(writer).expect("the writer ends well");
        (reader.join().expect("the lane ends well"), written, stop)
    }

    /// A file in place, written by `disk`.
    fn in_place(&self, path: &Path, wakeup: &Wakeup, stop: &Stop, disk: Disk) -> Files {
        let file = File::create(path).unwrap();
        Files::in_place(file, path.to_owned(), self.parts(wakeup, stop, disk)).unwrap()
    }
}

/// Frames and drops by a file's contents, and the number of delivered frames by its own counter.
fn read_back(path: &Path) -> (Vec<u64>, u64, Option<u64>) {
    let (mut numbers, mut dropped, mut delivered) = (Vec::new(), 0, None);
    let mut file = CaptureFile::open(path).expect("a file");
    let mut each = |item: Item<'_>| match item {
        Item::Frame(frame) => {
            numbers.push(u64::from_be_bytes(frame.data[..8].try_into().unwrap()));
            dropped += frame.dropcount;
        }
        Item::Statistics(statistics) => delivered = statistics.usrdeliv,
        _ => {}
    };
    while file.pull(&mut each).unwrap_or_else(|error| panic!("{error}")) {}
    (numbers, dropped, delivered)
}

fn batches(backwards: bool) -> impl Strategy<Value = Vec<Batch>> {
    let back_ns = if backwards { -5_000_000_000 } else { 0 };
    let drops = prop_oneof![9 => Just(0u64), 1 => 1..50u64];
    let batch = (0..200u32, 8..2000u32, drops, back_ns..1_000_000_000i64);
    let batch = batch.prop_map(|(frames, frame_bytes, dropped_before, step_ns)| {
        let dropped_before = if frames == 0 { 0 } else { dropped_before };
        Batch { frames, frame_bytes, dropped_before, step_ns }
    });
    prop::collection::vec(batch, 0..60)
}

fn formats() -> impl Strategy<Value = (Format, usize)> {
    prop_oneof![
        Just((Format::Pcapng, 512)),
        Just((Format::Pcapng, 4096)),
        Just((Format::Pcapng, 1)),
        Just((Format::Pcap, 512)),
        Just((Format::PcapUs, 1))
    ]
}

fn frames(plan: &[Batch]) -> u64 {
    plan.iter().map(|batch| u64::from(batch.frames)).sum()
}

fn drops(plan: &[Batch]) -> u64 {
    plan.iter().map(|batch| batch.dropped_before).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// One file, in place: every frame once, in order, and drops recorded where the format can.
    #[test]
    fn one_file_holds_every_frame(plan in batches(true), (format, align) in formats(), buffers in 2..6usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("all");
        let run = Run { format, align, buffers, slot_ns: 0 };
        let (frames, dropped) = (frames(&plan), drops(&plan));
        let (lane, writer, stop) =
            run.go(plan, false, |wakeup, stop| Box::new(run.in_place(&path, wakeup, stop, Disk::new(wakeup))));
        prop_assert_eq!((lane.packed, writer.written, writer.lost, stop.reason()), (frames, frames, 0, None));
        let (numbers, recorded_dropped, delivered) = read_back(&path);
        prop_assert_eq!(numbers, (0..frames).collect::<Vec<_>>());
        prop_assert_eq!(writer.bytes, std::fs::metadata(&path).unwrap().len());
        if format == Format::Pcapng {
            prop_assert_eq!((recorded_dropped, delivered), (dropped, Some(frames)));
        }
    }

    /// A folder with slots, on a clock that jumps both ways: no frame lost or repeated across seams.
    #[test]
    fn a_rotation_holds_every_frame(plan in batches(true), (format, align) in formats(), slot_s in 1..4u64) {
        let dir = tempfile::tempdir().unwrap();
        let run = Run { format, align, buffers: 4, slot_ns: slot_s * 1_000_000_000 };
        let frames = frames(&plan);
        let folder = DirPlan {
            dir: dir.path().into(),
            name: "q".into(),
            rotate_bytes: Some(1 << 20),
            rotate_time: Some(Duration::from_secs(slot_s)),
            ..DirPlan::default()
        };
        let (_, writer, stop) = run.go(plan, false, |wakeup, stop| {
            let folder = Folder::open(&folder, format.extension(), false, FileAccess::default(), wakeup.clone()).unwrap();
            Box::new(Files::in_folder(folder, run.parts(wakeup, stop, Disk::new(wakeup))).unwrap())
        });
        prop_assert_eq!((writer.written, stop.reason()), (frames, None));
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let is_ours = |(number, file): (usize, &PathBuf)| {
            file.ends_with(format!("q-{number:06}.{}", format.extension()))
        };
        prop_assert!(files.iter().enumerate().all(is_ours), "{:?}", files);
        let numbers: Vec<u64> = files.iter().flat_map(|file| read_back(file).0).collect();
        prop_assert_eq!(numbers, (0..frames).collect::<Vec<_>>());
        prop_assert_eq!(writer.files as usize, files.len());
    }

    /// A sink that returns buffers late: lost packets are counted, and their position is recorded.
    #[test]
    fn under_pressure_losses_are_counted_in_place(plan in batches(false)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("all");
        let run = Run { format: Format::Pcapng, align: 1, buffers: 2, slot_ns: 0 };
        let (frames, dropped) = (frames(&plan), drops(&plan));
        let (lane, writer, _) =
            run.go(plan, true, |wakeup, stop| Box::new(Late(run.in_place(&path, wakeup, stop, Disk::pwrite()))));
        prop_assert_eq!(lane.packed + lane.lost_in_buffer, frames);
        prop_assert_eq!(writer.written, lane.packed);
        let (numbers, recorded_dropped, _) = read_back(&path);
        prop_assert!(numbers.is_sorted() && numbers.len() as u64 == lane.packed);
        let holes = numbers.last().map_or(0, |last| last + 1 - numbers.len() as u64);
        // Drops after the last stored frame have no frame that reports them.
        prop_assert!(recorded_dropped >= holes && recorded_dropped <= lane.lost_in_buffer + dropped);
    }
}

/// A sink that is slower than the source.
struct Late(Files);

impl Sink for Late {
    fn push(&mut self, lane: usize, chunk: Chunk) -> quaff_file::Result<()> {
        std::thread::sleep(Duration::from_millis(2));
        self.0.push(lane, chunk)
    }
    fn note(&mut self, lane: usize, counts: Counts) {
        self.0.note(lane, counts);
    }
    fn begin_slot(&mut self, slot: u64) -> quaff_file::Result<()> {
        self.0.begin_slot(slot)
    }
    fn tick(&mut self) -> quaff_file::Result<()> {
        self.0.tick()
    }
    fn reap(&mut self) -> quaff_file::Result<Option<(usize, Buffer)>> {
        self.0.reap()
    }
    fn pending(&self) -> usize {
        self.0.pending()
    }
    fn max_wait(&self) -> Duration {
        self.0.max_wait()
    }
    fn finish(&mut self) -> quaff_file::Result<WriterTally> {
        self.0.finish()
    }
}

fn steady(batches: usize) -> Vec<Batch> {
    vec![Batch { frames: 100, frame_bytes: 1000, dropped_before: 0, step_ns: 1000 }; batches]
}

fn check(lane: LaneTally, writer: &WriterTally) -> Ledger {
    let lane = LaneTally { offered: lane.received + lane.after_count, ..lane };
    let mut ledger = Ledger::new(RunSummary::of(vec![lane]), writer, 1, 1);
    assert_eq!(ledger.check(), Ok(()));
    ledger.judge();
    ledger
}

#[test]
fn a_write_that_fails_loses_exactly_what_is_behind_it() {
    for disk in [Disk::new, |_: &Wakeup| Disk::pwrite()] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("read-only");
        File::create(&path).unwrap();
        let run = Run { format: Format::Pcapng, align: 512, buffers: 4, slot_ns: 0 };
        let (lane, writer, stop) = run.go(steady(200), false, |wakeup, stop| {
            let file = File::open(&path).unwrap();
            Box::new(Files::in_place(file, path.clone(), run.parts(wakeup, stop, disk(wakeup))).unwrap())
        });
        assert!(matches!(stop.reason(), Some(Reason::WriteError(_))), "{:?}", stop.reason());
        assert_eq!((writer.written, writer.lost), (0, lane.packed));
        assert!(!check(lane, &writer).lossless);
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_without_loss() {
    let run = Run { format: Format::Pcapng, align: 1, buffers: 4, slot_ns: 0 };
    let (reading, writing) = std::io::pipe().unwrap();
    drop(reading);
    let (lane, writer, stop) = run.go(steady(200), false, |wakeup, stop| {
        let target = Target::process(File::from(std::os::fd::OwnedFd::from(writing)), run.format);
        target.into_sink(run.heading(), Slots::default(), wakeup, stop, Arc::default()).unwrap()
    });
    assert_eq!(stop.reason(), Some(Reason::OutputClosed));
    assert_eq!((writer.written, writer.lost, writer.after_close), (0, 0, lane.packed));
    assert!(check(lane, &writer).lossless);
}

/// A file with a maximum size: a write beyond it fails with EPERM, and a write that straddles its end is short
/// (memfd_create(2), F_SEAL_GROW).
fn sealed(bytes: u64) -> File {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let file = File::from(memfd_create(c"sealed", MFdFlags::MFD_ALLOW_SEALING).unwrap());
    file.set_len(bytes).unwrap();
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW)).unwrap();
    file
}

#[test]
fn a_file_that_breaks_in_the_middle_holds_what_counts_as_written() {
    for format in [Format::Pcapng, Format::Pcap, Format::PcapUs] {
        // At the start, in the first write of the repacker, at the edge of one, and later.
        for bytes in [0, 10, 100_000, 1 << 20, 5_000_000, 5_000_001, 12_345_678] {
            for disk in [Disk::new, |_: &Wakeup| Disk::pwrite()] {
                let run = Run { format, align: 512, buffers: 4, slot_ns: 0 };
                let file = sealed(bytes);
                let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
                let kept = file.try_clone().unwrap();
                let (lane, writer, stop) = run.go(steady(200), false, |wakeup, stop| {
                    Box::new(Files::in_place(file, path, run.parts(wakeup, stop, disk(wakeup))).unwrap())
                });
                let case = format!("{format:?} {bytes}: {writer:?}");
                assert!(matches!(stop.reason(), Some(Reason::WriteError(_))), "{case} {:?}", stop.reason());
                assert!(writer.lost > 0, "{case}");
                check(lane, &writer);
                assert_eq!(kept.metadata().unwrap().len(), writer.bytes, "{case}");
                // Before the position of the failure at most one write and one chunk are lost.
                assert!(writer.bytes + (WRITE_BYTES + CHUNK_BYTES) as u64 >= bytes, "{case}");
                if writer.bytes > 0 {
                    let path = PathBuf::from(format!("/proc/self/fd/{}", kept.as_raw_fd()));
                    let numbers = read_back(&path).0;
                    assert_eq!(numbers, (0..writer.written).collect::<Vec<_>>(), "{case}");
                }
            }
        }
    }
}

/// Every write is past the page cache, where one that is not aligned fails.
#[test]
fn direct_files_hold_every_frame() {
    let batch = |i: usize| Batch {
        frames: 50,
        frame_bytes: 9 + (i as u32 * 131) % 1990,
        dropped_before: 0,
        step_ns: 50_000_000,
    };
    for format in [Format::Pcapng, Format::Pcap] {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("all");
        let mut options = File::options();
        options.read(true).write(true).create_new(true).custom_flags(OFlag::O_DIRECT.bits());
        let opened = options.open(&path).ok();
        let Some((align, file)) = opened.and_then(|file| Some((direct_align(&file)?, file))) else {
            return skip("direct_files_hold_every_frame", "no O_DIRECT where the build lies");
        };
        let plan: Vec<_> = (0..300).map(batch).collect();
        let frames = frames(&plan);
        let run = Run { format, align, buffers: 4, slot_ns: 0 };
        let (_, writer, stop) = run.go(plan.clone(), false, |wakeup, stop| {
            Box::new(Files::in_place(file, path.clone(), run.parts(wakeup, stop, Disk::new(wakeup))).unwrap())
        });
        assert_eq!((writer.written, stop.reason()), (frames, None));
        assert_eq!(read_back(&path).0, (0..frames).collect::<Vec<_>>());
        std::fs::remove_file(&path).unwrap();

        let folder = DirPlan {
            dir: dir.path().into(),
            name: "q".into(),
            rotate_bytes: Some(2 << 20),
            ..DirPlan::default()
        };
        let (_, writer, stop) = run.go(plan, false, |wakeup, stop| {
            let folder =
                Folder::open(&folder, format.extension(), true, FileAccess::default(), wakeup.clone())
                    .unwrap();
            Box::new(Files::in_folder(folder, run.parts(wakeup, stop, Disk::new(wakeup))).unwrap())
        });
        assert_eq!((writer.written, stop.reason()), (frames, None));
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 4, "{files:?}");
        for file in &files {
            let bytes = file.metadata().unwrap().len();
            assert!(bytes <= 2 << 20, "{}: {bytes}", file.display());
        }
        let numbers: Vec<u64> = files.iter().flat_map(|file| read_back(file).0).collect();
        assert_eq!(numbers, (0..frames).collect::<Vec<_>>());
    }
}

/// Writes a rotation with slots into `dir`; returns the writer's tally, the reason of a stop, and the files in order.
fn rotate(
    dir: &Path,
    slot_s: u64,
    plan: Vec<Batch>,
    disk: impl FnOnce(&Wakeup) -> Disk,
) -> (WriterTally, Option<Reason>, Vec<PathBuf>) {
    let run = Run { format: Format::Pcapng, align: 512, buffers: 4, slot_ns: slot_s * 1_000_000_000 };
    let folder = DirPlan {
        dir: dir.into(),
        name: "q".into(),
        rotate_bytes: Some(1 << 20),
        rotate_time: Some(Duration::from_secs(slot_s)),
        ..DirPlan::default()
    };
    let (_, writer, stop) = run.go(plan, false, |wakeup, stop| {
        let folder = Folder::open(&folder, "pcapng", false, FileAccess::default(), wakeup.clone()).unwrap();
        Box::new(Files::in_folder(folder, run.parts(wakeup, stop, disk(wakeup))).unwrap())
    });
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    (writer, stop.reason(), files)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Writes that fail at random places: no frame is lost or repeated, and each file's counters agree with it.
    #[test]
    fn failed_writes_cost_no_frame(
        plan in batches(false),
        gaps in prop::collection::vec((2..30u64, any::<bool>()), 0..20),
        slot_s in 1..9u64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (frames, dropped) = (frames(&plan), drops(&plan));
        let faults = gaps.iter().scan(0, |at, (gap, is_full)| {
            *at += gap;
            Some((*at - 2, if *is_full { Errno::ENOSPC } else { Errno::EIO }))
        });
        let faults: Vec<_> = faults.collect();
        let most = faults.len() as u64;
        let (writer, reason, files) = rotate(dir.path(), slot_s, plan, |_| Disk::failing(faults));
        prop_assert_eq!((writer.written, writer.lost, reason), (frames, 0, None));
        prop_assert!(writer.failed_files <= most && writer.files as usize == files.len());
        prop_assert_eq!(writer.bytes, files.iter().map(|file| file.metadata().unwrap().len()).sum::<u64>());
        let (mut next, mut recorded_dropped) = (0, 0);
        for file in &files {
            let (numbers, dropped, delivered) = read_back(file);
            let until = next + numbers.len() as u64;
            prop_assert_eq!(numbers, (next..until).collect::<Vec<_>>());
            prop_assert_eq!(delivered, Some(until), "{}", file.display());
            next = until;
            recorded_dropped += dropped;
        }
        prop_assert_eq!((next, recorded_dropped), (frames, dropped));
    }
}

#[test]
fn a_clock_set_back_rotates_by_the_new_time() {
    let dir = tempfile::tempdir().unwrap();
    let step = |step_s: i64| Batch {
        frames: 10,
        frame_bytes: 100,
        dropped_before: 0,
        step_ns: step_s * 1_000_000_000,
    };
    let plan: Vec<_> = [[1; 30].as_slice(), &[-1000], &[1; 60]].concat().into_iter().map(step).collect();
    let (writer, reason, files) = rotate(dir.path(), 10, plan, Disk::new);
    assert_eq!((writer.written, reason), (910, None));
    // Three or four files before the step, and six or seven after it.
    assert!((9..=11).contains(&files.len()), "{files:?}");
    let numbers: Vec<u64> = files.iter().flat_map(|file| read_back(file).0).collect();
    assert_eq!(numbers, (0..910).collect::<Vec<_>>());
}
