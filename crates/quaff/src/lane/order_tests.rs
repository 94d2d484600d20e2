//! The order in which the writer takes the chunks of several lanes.

use super::*;
use crate::buffer_pool::LanePool;
use proptest::prelude::*;
use quaff_file::write::Part;
use rtrb::Producer;
use std::sync::Mutex;

/// Longest time between the first packet of a chunk and its last one, ns.
const FLUSH_NS: u64 = 1000;

/// A chunk as the sink got it: lane, and the times of its first packet and of its last.
type Taken = (usize, u64, u64);

/// Takes all chunks at once.
struct Recorder {
    taken: TakenChunks,
    free_buffers: VecDeque<(usize, Buffer)>,
}

impl Sink for Recorder {
    fn push(&mut self, lane: usize, chunk: Chunk) -> quaff_file::Result<()> {
        self.taken.lock().unwrap().push((lane, chunk.first_ns, chunk.counts.time_ns));
        self.free_buffers.push_back((lane, chunk.buffer));
        Ok(())
    }
    fn note(&mut self, _: usize, _: Counts) {}
    fn begin_slot(&mut self, _: u64) -> quaff_file::Result<()> {
        Ok(())
    }
    fn tick(&mut self) -> quaff_file::Result<()> {
        Ok(())
    }
    fn reap(&mut self) -> quaff_file::Result<Option<(usize, Buffer)>> {
        Ok(self.free_buffers.pop_front())
    }
    fn pending(&self) -> usize {
        self.free_buffers.len()
    }
    fn max_wait(&self) -> Duration {
        Duration::from_millis(1)
    }
    fn finish(&mut self) -> quaff_file::Result<WriterTally> {
        Ok(WriterTally::default())
    }
}

/// A chunk in `buffer`, with packets from `first_ns` to `last_ns`.
fn chunk_in(buffer: Buffer, first_ns: u64, last_ns: u64, slot: u64) -> Chunk {
    let counts = Counts { time_ns: last_ns, ..Counts::default() };
    let len = buffer.len();
    Chunk { buffer, len, packets: 1, slot, first_ns, counts, interfaces: 1, before: None }
}

fn chunk(first_ns: u64, last_ns: u64, slot: u64) -> LaneMessage {
    LaneMessage::Chunk(chunk_in(Buffer::new(1).unwrap(), first_ns, last_ns, slot))
}

/// The chunks that a sink has taken.
type TakenChunks = Arc<Mutex<Vec<Taken>>>;

/// The writer of lanes that have sent `chunks`, each (first, last), and the lanes' ends, which keep them running.
fn writer(chunks: &[Vec<(u64, u64)>]) -> (Writer, Vec<Producer<LaneMessage>>, TakenChunks) {
    let (mut inlets, mut lanes) = (Vec::new(), Vec::new());
    for of_lane in chunks {
        let (mut outbound, inbound) = rtrb::RingBuffer::new(64);
        let mut pool = LanePool::of(of_lane.iter().map(|_| Buffer::new(1).unwrap()).collect());
        for &(first_ns, last_ns) in of_lane {
            let chunk = chunk_in(pool.supply.take().unwrap(), first_ns, last_ns, 0);
            outbound.push(LaneMessage::Chunk(chunk)).unwrap();
        }
        inlets.push(Inlet::new(inbound, pool.free_buffers, 0, Arc::default()));
        lanes.push(outbound);
    }
    let taken = TakenChunks::default();
    let sink = Box::new(Recorder { taken: taken.clone(), free_buffers: VecDeque::new() });
    (Writer { inlets, sink, wakeup: Wakeup::new().unwrap(), slot: 0 }, lanes, taken)
}

/// The time of the next message's first packet, and its lane.
fn next(writer: &mut Writer) -> Option<(usize, u64)> {
    let (lane, message) = writer.next_message().unwrap()?;
    Some((lane, if let LaneMessage::Chunk(chunk) = message { chunk.first_ns } else { 0 }))
}

/// Chunks of some lanes that have gathered in a stall of the writer, each (gap before it, span).
fn stalled() -> impl Strategy<Value = Vec<Vec<(u64, u64)>>> {
    let span = prop_oneof![0..20u64, 0..FLUSH_NS];
    let lane = prop::collection::vec((1..300u64, span), 0..30);
    prop::collection::vec(lane, 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After a stall no packet follows one that is newer by more than the flush interval.
    #[test]
    fn lanes_are_out_of_order_by_the_flush_interval_at_most(steps in stalled()) {
        let chunks: Vec<Vec<_>> = steps
            .iter()
            .map(|lane| {
                let mut now_ns = 0;
                lane.iter()
                    .map(|(gap_ns, span_ns)| {
                        let first_ns = now_ns + gap_ns;
                        now_ns = first_ns + span_ns;
                        (first_ns, now_ns)
                    })
                    .collect()
            })
            .collect();
        let (writer, mut lanes, taken) = writer(&chunks);
        for lane in &mut lanes {
            lane.push(LaneMessage::End(Counts::default())).unwrap();
        }
        write(writer).unwrap();
        let taken = taken.lock().unwrap();
        let mut newest_ns = 0;
        for (_, first_ns, last_ns) in taken.iter() {
            prop_assert!(newest_ns <= first_ns + FLUSH_NS, "{} ns back: {:?}", newest_ns - first_ns, taken);
            newest_ns = newest_ns.max(*last_ns);
        }
        for (number, of_lane) in chunks.iter().enumerate() {
            let found: Vec<_> =
                taken.iter().filter(|(lane, ..)| *lane == number).map(|(_, first, last)| (*first, *last)).collect();
            prop_assert_eq!(&found, of_lane, "all, each once, in their order");
        }
    }
}

#[test]
fn older_packets_that_wait_for_a_buffer_are_waited_for() {
    let (mut writer, mut lanes, _) = writer(&[vec![], vec![(30, 31), (70, 71)]]);
    writer.inlets[0].backlog.set(50);
    assert_eq!(next(&mut writer), Some((1, 30)), "older than the backlog");
    assert_eq!(next(&mut writer), None, "newer");
    lanes[0].push(chunk(50, 60, 0)).unwrap();
    writer.inlets[0].backlog.set(61);
    assert_eq!(next(&mut writer), Some((0, 50)));
    assert_eq!(next(&mut writer), None);
    writer.inlets[0].backlog.set(0);
    assert_eq!(next(&mut writer), Some((1, 70)), "the backlog has ended");
    // A lane that has ended, or panicked, is waited for no longer.
    lanes[1].push(chunk(80, 81, 0)).unwrap();
    writer.inlets[0].backlog.set(75);
    assert_eq!(next(&mut writer), None);
    drop(lanes.remove(0));
    assert_eq!(next(&mut writer), Some((1, 80)));
}

#[test]
fn a_lane_that_sends_nothing_is_not_waited_for_long() {
    let (mut writer, _lanes, _) = writer(&[vec![], vec![(70, 71)]]);
    writer.inlets[0].backlog.set(50);
    assert_eq!(next(&mut writer), None);
    writer.inlets[0].seen.1 -= BACKLOG_WAIT_NS;
    // The sink has a chunk of it, after which it has a buffer.
    writer.inlets[0].in_sink = 1;
    assert_eq!(next(&mut writer), None);
    writer.inlets[0].in_sink = 0;
    writer.inlets[0].seen.1 -= BACKLOG_WAIT_NS;
    assert_eq!(next(&mut writer), Some((1, 70)));
}

#[test]
fn a_later_slot_waits_whatever_its_times_are() {
    let (mut writer, mut lanes, _) = writer(&[vec![], vec![(70, 71)]]);
    lanes[0].push(chunk(10, 11, 1)).unwrap();
    lanes[1].push(LaneMessage::Slot(1, Counts::default())).unwrap();
    assert_eq!((next(&mut writer), next(&mut writer)), (Some((1, 70)), None));
    assert!(writer.inlets.iter().all(|inlet| inlet.slot == 1), "every lane has left slot 0");
    writer.slot = 1;
    assert_eq!((next(&mut writer), next(&mut writer)), (Some((1, 0)), Some((0, 10))));
}

#[test]
fn parts_of_a_chunk_are_taken_in_their_turn() {
    let mut pool = LanePool::of(vec![Buffer::new(4096).unwrap()]);
    let (mut writer, mut lanes, taken) = writer(&[vec![], vec![(20, 21), (40, 41)]]);
    let mut chunk = chunk_in(pool.supply.take().unwrap(), 50, 51, 0);
    chunk.buffer.copy_from_slice(&[[1; 1024], [2; 1024], [3; 1024], [3; 1024]].concat());
    let part = |end, first_ns| {
        let counts = Counts { time_ns: first_ns + 1, ..Counts::default() };
        Part { end, packets: 1, first_ns, counts, interfaces: 1 }
    };
    lanes[0].push(LaneMessage::Parts(chunk, vec![part(1024, 10), part(2048, 30)])).unwrap();
    lanes.iter_mut().for_each(|lane| lane.push(LaneMessage::End(Counts::default())).unwrap());
    writer.inlets[0].free_buffers = pool.free_buffers;
    write(writer).unwrap();
    let times: Vec<_> = taken.lock().unwrap().iter().map(|(lane, first_ns, _)| (*lane, *first_ns)).collect();
    assert_eq!(times, [(0, 10), (1, 20), (0, 30), (1, 40), (0, 50)]);
    let buffer = pool.supply.take().expect("the lane's own buffer returns");
    assert_eq!((&buffer[..1024], pool.supply.take().is_none()), (&[3; 1024][..], true), "and no other one");
}
