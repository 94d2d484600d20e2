//! The order of what is passed on, and the fall back to stored frames.

use super::*;
use crate::read::Compression;
use crate::write::Codec;
use quaff_os::clock::steady_ns;
use std::sync::{Arc, Mutex};

const CHUNK_BYTES: usize = 256 << 10;
/// Longer than anything here takes.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Everything that the disk got, and the buffers that it still holds.
#[derive(Default)]
struct Received {
    /// Of a chunk its packets, of counts their packed packets, of a slot its number.
    order: Vec<(&'static str, u64)>,
    bytes: Vec<u8>,
    held: Vec<(usize, Buffer)>,
    /// True while the disk blocks.
    is_stuck: bool,
}

struct FakeDisk(Arc<Mutex<Received>>);

impl Sink for FakeDisk {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        let mut received = self.0.lock().unwrap();
        received.order.push(("chunk", chunk.packets));
        received.bytes.extend_from_slice(&chunk.buffer[..chunk.len]);
        received.held.push((lane, chunk.buffer));
        Ok(())
    }

    fn note(&mut self, _: usize, counts: Counts) {
        self.0.lock().unwrap().order.push(("note", counts.packed));
    }

    fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.0.lock().unwrap().order.push(("slot", slot));
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        let mut received = self.0.lock().unwrap();
        Ok(if received.is_stuck { None } else { received.held.pop() })
    }

    fn pending(&self) -> usize {
        self.0.lock().unwrap().held.len()
    }

    fn max_wait(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn finish(&mut self) -> Result<WriterTally> {
        Ok(WriterTally::default())
    }
}

fn start(plan: &CompressPlan) -> (Compress, Arc<Mutex<Received>>) {
    let received = Arc::<Mutex<Received>>::default();
    let disk = Box::new(FakeDisk(received.clone()));
    (Compress::start(disk, plan, 512, &Wakeup::new().unwrap()).unwrap(), received)
}

fn plan(compression: Compression, level: i32, threads: usize) -> CompressPlan {
    CompressPlan { threads, ..CompressPlan::new(Codec { compression, level }) }
}

/// A chunk of text whose parts repeat, with `packets` in it and their number in its bytes.
fn chunk(packets: u64) -> Chunk {
    let mut buffer = Buffer::new(CHUNK_BYTES).unwrap();
    let len = CHUNK_BYTES - packets as usize % 1000;
    for (at, byte) in buffer[..len].iter_mut().enumerate() {
        *byte = (at as u64 * packets % 251) as u8 ^ (at / 977) as u8;
    }
    let counts = Counts { packed: packets, ..Counts::default() };
    Chunk { buffer, len, packets, slot: 0, first_ns: 0, counts, interfaces: 1, before: None }
}

/// Ticks until `is_done`; returns the number of buffers that came back.
fn run(compress: &mut Compress, mut is_done: impl FnMut(&Compress, usize) -> bool) -> usize {
    let (begun_ns, mut returned) = (steady_ns(), 0);
    loop {
        compress.tick().unwrap();
        while compress.reap().unwrap().is_some() {
            returned += 1;
        }
        if is_done(compress, returned) {
            return returned;
        }
        assert!(steady_ns() - begun_ns < PATIENCE_NS, "it has stopped moving");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn everything_is_passed_on_in_order_and_each_buffer_returns_once() {
    for threads in [1, 3] {
        let (mut compress, received) = start(&plan(Compression::Zstd, 1, threads));
        let mut expected = Vec::new();
        for number in 1..=40 {
            compress.push(number as usize % 2, chunk(number)).unwrap();
            expected.push(("chunk", number));
            if number % 5 == 0 {
                compress.note(0, Counts { packed: 1000 + number, ..Counts::default() });
                expected.push(("note", 1000 + number));
            }
            if number % 7 == 0 {
                compress.begin_slot(number).unwrap();
                expected.push(("slot", number));
            }
        }
        assert!(compress.pending() > 0);
        let returned = run(&mut compress, |compress, _| compress.pending() == 0);
        assert_eq!(returned, 40);
        let tally = compress.finish().unwrap().compression.unwrap();
        let received = received.lock().unwrap();
        assert_eq!(received.order, expected);
        assert_eq!((tally.frames, tally.stored_frames, tally.bytes), (40, 0, received.bytes.len() as u64));
        assert_eq!(tally.plain_bytes, (1..=40).map(|number| chunk(number).len as u64).sum::<u64>());
        assert!(tally.bytes < tally.plain_bytes && tally.bytes.is_multiple_of(512));
    }
}

#[test]
fn chunks_are_stored_from_too_much_waiting_until_little_waits() {
    // Level 19 takes a large part of a second for a chunk.
    let mut plan = plan(Compression::Zstd, 19, 1);
    plan.backlog_bytes = Some(8 * CHUNK_BYTES as u64);
    let (mut compress, _received) = start(&plan);
    (1..=30).for_each(|number| compress.push(0, chunk(number)).unwrap());
    let begun_ns = steady_ns();
    run(&mut compress, |_, returned| returned > 0);
    run(&mut compress, |compress, _| compress.pending() == 0);
    let tally = compress.finish().unwrap().compression.unwrap();
    // Two are with the thread when too much waits; of the rest a quarter of 8 may be compressed.
    assert!((20..=30).contains(&tally.stored_frames), "{tally:?} in {} ns", steady_ns() - begun_ns);
    assert_eq!(tally.frames, 30);
    // Nothing is stored any more when it keeps up.
    compress.push(0, chunk(31)).unwrap();
    run(&mut compress, |compress, _| compress.pending() == 0);
    let after = compress.finish().unwrap().compression.unwrap();
    assert_eq!((after.frames, after.stored_frames), (31, tally.stored_frames));
}

#[test]
fn storing_ends_when_a_quarter_of_the_limit_waits() {
    let (mut compress, _received) =
        start(&CompressPlan { backlog_bytes: Some(8000), ..plan(Compression::Lz4, 1, 1) });
    let is_late = [8000, 8001, 5000, 2001, 2000, 7000, 8001].map(|waiting_bytes| {
        compress.waiting_bytes = waiting_bytes;
        compress.watch_backlog();
        compress.is_late
    });
    assert_eq!(is_late, [false, true, true, true, false, false, true]);
}

#[test]
fn a_disk_that_stands_still_is_no_reason_to_store() {
    let mut plan = plan(Compression::Lz4, 1, 1);
    plan.backlog_bytes = Some(2 * CHUNK_BYTES as u64);
    let (mut compress, received) = start(&plan);
    received.lock().unwrap().is_stuck = true;
    // More than there are buffers for frames, each when the one before is with the disk.
    for number in 1..=8 {
        compress.push(0, chunk(number)).unwrap();
        run(&mut compress, |compress, _| compress.frames.on_disk as u64 == number);
    }
    (9..=40).for_each(|number| compress.push(0, chunk(number)).unwrap());
    for _ in 0..100 {
        compress.tick().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(compress.tally.frames, 8, "no buffer for more");
    assert!(!compress.is_late && compress.waiting_bytes > 2 * CHUNK_BYTES as u64);
    received.lock().unwrap().is_stuck = false;
    // One at a time, as a disk that is late would.
    run(&mut compress, |compress, _| compress.pending() == 0);
    let tally = compress.finish().unwrap().compression.unwrap();
    assert_eq!(tally.frames, 40);
}

#[test]
fn input_that_can_wait_is_never_stored_for_want_of_time() {
    let (mut compress, _received) = start(&plan(Compression::Gzip, 9, 2));
    (1..=24).for_each(|number| compress.push(0, chunk(number)).unwrap());
    run(&mut compress, |compress, _| compress.pending() == 0);
    assert_eq!(compress.finish().unwrap().compression.unwrap().stored_frames, 0);
}

#[test]
fn a_core_that_does_not_exist_is_refused_at_the_start() {
    let plan = CompressPlan { cores: vec![1000], ..plan(Compression::Lz4, 1, 1) };
    let disk = Box::new(FakeDisk(Arc::default()));
    let error = Compress::start(disk, &plan, 1, &Wakeup::new().unwrap()).err().unwrap();
    assert!(error.to_string().contains("core 1000"), "{error}");
}
