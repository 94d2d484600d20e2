//! Packets that the kernel's ring loses: their number and their place, in the ledger and in the file.

use crate::support::{Bench, Ended, interrupt, lab_bench};
use quaff::LaneGauges;
use quaff::source::{AfPacket, Group, Links, Opening, Pull, Source};
use quaff_os::packet::{RingPlan, TimeSource, accept};
use quaff_os::{Signal, Stop, Wakeup, process, rtnl};
use quaff_wire::decode::Item;
use quaff_wire::probe::{Classified, classify};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Frames of 1000 bytes; the ring holds about 15,000.
const RING: &str = "16M";
const BEFORE: u64 = 5_000;
const FLOOD: u64 = 40_000;
const AFTER: u64 = 5_000;
/// Frames that a filter rejects, before, while and after the lane is held.
const UNWANTED: u64 = 500;

/// A numbered frame of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbered {
    stream: u16,
    seq: u64,
    /// `epb_dropcount`.
    dropped_before: u64,
}

fn numbered(file: &str) -> Vec<Numbered> {
    let mut capture = quaff_file::read::CaptureFile::open(file.as_ref()).expect("a capture");
    let mut frames = Vec::new();
    let mut take = |item: Item<'_>| {
        let Item::Frame(frame) = item else { return };
        let Classified::Intact(header) = classify(frame.data, frame.wire_len as usize) else {
            panic!("{:02x?} has no number", frame.data)
        };
        let (stream, seq) = (header.stream, header.seq);
        frames.push(Numbered { stream, seq, dropped_before: frame.dropcount });
    };
    while capture.pull(&mut take).expect("a good file") {}
    frames
}

/// The sums of a capture whose ring lost packets; returns their number.
#[track_caller]
fn assert_ring_lost(ended: &Ended, offered: u64, filtered: u64) -> u64 {
    let ledger = &ended.json;
    let of = |field: &str| ledger[field].as_u64().unwrap_or_else(|| panic!("{field}: {ledger}"));
    assert_eq!((ended.code, &ledger["lossless"]), (1, &Value::Bool(false)), "{ledger} {}", ended.stderr);
    let dropped = of("kernel_dropped");
    assert!(dropped > 0, "the ring lost nothing: {ledger}");
    assert_eq!((of("offered"), of("filtered")), (offered, filtered), "{ledger}");
    assert_eq!(of("received"), offered - filtered - dropped, "{ledger}");
    assert_eq!((of("written"), of("lost"), of("nic_dropped")), (of("received"), 0, 0), "{ledger}");
    let lane = &ledger["interfaces"][0];
    assert!(lane["ring_freezes"].as_u64() >= Some(1), "{ledger}");
    assert_eq!((&lane["ring_unread"], &lane["lost_in_buffer"]), (&0.into(), &0.into()), "{ledger}");
    dropped
}

/// The capture is held while more frames arrive than its ring takes: with a filter, frames that it rejects as well.
fn hold(bench: &Bench, file: &str, filter: &[&str]) -> Ended {
    let generate = |stream: u16, count: u64| {
        bench.generate(&format!("--size 1000 --count {count} --pps 100000 --stream {stream}"));
        if !filter.is_empty() {
            bench.generate(&format!("--size 100 --count {UNWANTED} --pps 100000 --stream 9"));
        }
    };
    let running = bench.capture(&[&["-w", file, "--ring", RING][..], filter].concat());
    generate(1, BEFORE);
    // The lane has read them: its ring is empty.
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::SIGSTOP).expect("it runs");
    generate(2, FLOOD);
    // More than a second since the counters were read.
    std::thread::sleep(Duration::from_millis(700));
    running.signal(Signal::SIGCONT).expect("it runs");
    std::thread::sleep(Duration::from_millis(500));
    generate(3, AFTER);
    interrupt(running)
}

/// Each count of drops stands where numbers are missing; returns the places, and how many are missing in all. `number`
/// numbers the frames of a run from 0.
///
/// The kernel keeps one number of drops. What it lost before the lane has reached the first loss stands there as well,
/// so each `epb_dropcount` is the sum of the missing numbers from its packet on to the next one that has a count.
#[track_caller]
fn assert_losses_in_place(
    frames: &[Numbered],
    number: impl Fn(&Numbered) -> u64,
    count: u64,
) -> (Vec<u64>, u64) {
    let (mut next, mut counted, mut missing) = (0, Vec::new(), Vec::<(u64, u64)>::new());
    for frame in frames {
        let number = number(frame);
        let gap = number - next;
        if frame.dropped_before > 0 {
            counted.push((number, frame.dropped_before));
            missing.push((number, gap));
            assert!(gap > 0, "no number is missing before {number}: {counted:?}");
        } else if gap > 0 {
            missing
                .last_mut()
                .unwrap_or_else(|| panic!("{gap} are missing before {number} without a count"))
                .1 += gap;
        }
        next = number + 1;
    }
    assert_eq!(counted, missing);
    assert_eq!(next, count, "numbers are missing at the end");
    (counted.iter().map(|&(number, _)| number).collect(), missing.iter().map(|&(_, gap)| gap).sum())
}

#[test]
fn a_lane_that_is_held_loses_in_the_ring_and_the_place_is_in_the_file() {
    let bench = lab_bench!(1 << 28);
    let first = [0, BEFORE, BEFORE + FLOOD];
    for (filter, rejected) in [(&[][..], 0), (&["-f", "not udp src port 9"][..], 3 * UNWANTED)] {
        let file = bench.path("held.pcapng");
        let ended = hold(&bench, &file, filter);
        let dropped = assert_ring_lost(&ended, BEFORE + FLOOD + AFTER + rejected, rejected);
        let frames = numbered(&file);
        let number = |frame: &Numbered| first[usize::from(frame.stream) - 1] + frame.seq;
        let (places, missing) = assert_losses_in_place(&frames, number, BEFORE + FLOOD + AFTER);
        assert_eq!(missing, dropped, "{filter:?}");
        let of_flood = frames.iter().filter(|frame| frame.stream == 2).count() as u64;
        assert_eq!(
            of_flood,
            FLOOD - dropped,
            "{filter:?}: only frames that came while the lane was held are lost"
        );
        assert!((BEFORE..=BEFORE + FLOOD).contains(&places[0]), "{filter:?}: {places:?}");
    }
}

#[test]
fn losses_under_load_stand_where_numbers_are_missing() {
    const COUNT: u64 = 150_000;
    let bench = lab_bench!(1 << 28);
    let file = bench.path("held.pcapng");
    let running = bench.capture(&["-w", &file, "--ring", RING]);
    let pid = running.pid();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // After the second time it reaches a few blocks only: two losses within one ring.
            for run_ms in [600, 600, 2] {
                std::thread::sleep(Duration::from_millis(run_ms));
                process::send(pid, Signal::SIGSTOP).expect("it runs");
                std::thread::sleep(Duration::from_millis(700));
                process::send(pid, Signal::SIGCONT).expect("it runs");
            }
        });
        bench.generate(&format!("--size 1000 --count {COUNT} --pps 40000"));
    });
    let ended = interrupt(running);
    let dropped = assert_ring_lost(&ended, COUNT, 0);
    let (places, missing) = assert_losses_in_place(&numbered(&file), |frame| frame.seq, COUNT);
    assert_eq!(missing, dropped);
    assert!(places.len() >= 2, "the lane was held far apart: {places:?}");
}

/// A source on rx0, in its namespace.
fn open(bench: &Bench, block_bytes: usize, retire_ms: u32) -> AfPacket {
    let ring = RingPlan {
        block_bytes,
        block_count: 4,
        retire_ms,
        promiscuous: false,
        filter: vec![accept(u32::MAX)],
        time_source: TimeSource::Host,
    };
    let open = || {
        let opening = Opening {
            link: rtnl::link("rx0").expect("a link"),
            ring: &ring,
            is_filtered: false,
            group: Group::default(),
            number: 0,
            snaplen: u32::MAX,
            stop: Stop::default(),
            links: Links::default(),
            gauges: Arc::<LaneGauges>::default(),
            came_ns: 0,
        };
        AfPacket::open(opening, Wakeup::new().expect("a wakeup")).expect("a ring")
    };
    bench.lab.rx.run(open).expect("a thread in the namespace")
}

/// The frames of the next block, which goes back to the kernel; `None` without one.
fn next_block(source: &mut AfPacket) -> Option<Vec<Numbered>> {
    let mut batch = Vec::new();
    let Pull::Batch = source.pull(&mut batch, Duration::from_millis(10)).expect("a pull") else {
        return None;
    };
    let mut frames: Vec<_> = batch
        .iter()
        .map(|frame| {
            let data = &source.bytes()[frame.start as usize..][..frame.len as usize];
            let Classified::Intact(header) = classify(data, data.len()) else {
                panic!("{data:02x?} has no number")
            };
            Numbered { stream: header.stream, seq: header.seq, dropped_before: 0 }
        })
        .collect();
    frames[0].dropped_before = source.take_dropped();
    source.release();
    Some(frames)
}

/// A block that is finished after a loss and waits while that loss is read has TP_STATUS_LOSING as well. What is lost
/// then comes behind it, and is not counted before it.
#[test]
fn a_loss_behind_a_block_that_already_waited_is_counted_behind_it() {
    const FLOOD: u64 = 500;
    let bench = lab_bench!(1 << 20);
    // Four blocks of about 60 frames.
    let mut source = open(&bench, 64 << 10, 600);
    let flood =
        |stream: u16, count: u64| bench.generate(&format!("--size 1000 --count {count} --stream {stream}"));
    let mut frames = Vec::new();
    // Each flood fills the blocks that are free, and overflows. The fifth block is the first after a loss, and counts
    // two of them; the sixth waits then.
    for (stream, blocks) in [(1, 2), (2, 3), (3, 4)] {
        flood(stream, FLOOD);
        for _ in 0..blocks {
            frames.extend(next_block(&mut source).expect("a full ring"));
        }
    }
    flood(4, 100);
    std::thread::sleep(Duration::from_secs(2));
    source.close().expect("it stops receiving");
    frames.extend(std::iter::from_fn(|| next_block(&mut source)).flatten());
    let number = |frame: &Numbered| u64::from(frame.stream - 1) * FLOOD + frame.seq;
    let (places, missing) = assert_losses_in_place(&frames, number, 3 * FLOOD + 100);
    assert_eq!(places, [FLOOD, 3 * FLOOD]);
    assert_eq!(Box::new(source).finish().expect("a tally").lane.kernel_dropped, missing);
}

#[test]
fn a_late_block_is_waited_for_and_one_that_does_not_come_is_counted() {
    const COUNT: u64 = 1000;
    let bench = lab_bench!(1 << 20);
    // The kernel hands over a block that is not full after one to two of these times.
    for (retire_ms, unread) in [(600, 0), (60_000, COUNT)] {
        let mut source = open(&bench, 1 << 20, retire_ms);
        bench.generate(&format!("--size 100 --count {COUNT}"));
        source.close().expect("it stops receiving");
        let (mut frames, mut walked) = (Vec::new(), 0);
        loop {
            match source.pull(&mut frames, Duration::from_millis(10)).expect("a pull") {
                Pull::Batch => {
                    walked += frames.len() as u64;
                    source.release();
                }
                Pull::Idle => {}
                Pull::End => break,
            }
        }
        let reported = source.take_dropped();
        let lane = Box::new(source).finish().expect("a tally, whatever was left").lane;
        assert_eq!((walked, reported), (COUNT - unread, unread), "{lane:?}");
        assert_eq!((lane.ring_unread, lane.kernel_dropped, lane.offered), (unread, unread, COUNT));
    }
}
