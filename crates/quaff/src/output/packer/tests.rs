//! Chunks: their parts, slots, counts and padding.

use super::*;
use crate::buffer_pool::{FreeBuffers, LanePool};
use quaff_os::Buffer;
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::pcapng::{Interface, PacketOptions, Section};
use rtrb::{Consumer, RingBuffer};

const S: u64 = 1_000_000_000;
const BYTES: usize = 256 << 10;

/// A packer with two buffers and a flush interval of 1 s, and the writer's ends of its rings.
fn packer() -> (Packer, Consumer<LaneMessage>, FreeBuffers) {
    let plan = PackPlan {
        format: Format::Pcapng,
        lane: 0,
        own: Some(0),
        spares: None,
        is_shared: false,
        align: 1,
        flush_ns: S,
        slots: Slots::default(),
        rotate_packets: u64::MAX,
        packet_comment: Arc::default(),
        start_ns: S,
        grace_ns: 0,
        by_packet_time: false,
        mark_ns: None,
        abandoned: Stop::default(),
        is_past_cache: false,
    };
    let (outbound, inbound) = RingBuffer::new(8);
    let pool = LanePool::of((0..2).map(|_| Buffer::new(BYTES).unwrap()).collect());
    let packer = Packer::new(plan, pool.supply, outbound, Wakeup::new().unwrap());
    (packer, inbound, pool.free_buffers)
}

fn at(seconds: f64) -> u64 {
    (seconds * S as f64).round() as u64
}

fn now(seconds: f64) -> Now {
    Now { steady_ns: at(seconds), wall_ns: at(seconds) }
}

/// Packs a frame of `len` bytes and of time `at_s`, when the clocks show `now_s`.
fn pack_len(packer: &mut Packer, len: usize, at_s: f64, now_s: f64) -> usize {
    let (bytes, len) = (vec![0; len], len as u32);
    let mut frames = [Frame { time_ns: at(at_s), len, wire_len: len, keep: u32::MAX, ..Frame::default() }];
    packer.take(
        Memory { bytes: &bytes, scratch: &[], options: &[], ids: &[] },
        &mut frames,
        Arrival::at(now(now_s)),
    )
}

/// The same, with a frame of three quarters of a buffer.
fn pack(packer: &mut Packer, at_s: f64, now_s: f64) -> usize {
    pack_len(packer, BYTES * 3 / 4, at_s, now_s)
}

fn tick(packer: &mut Packer, now_s: f64, is_idle: bool) {
    packer.tick(Pause { now: now(now_s), is_idle, passed_ns: None }, &|_: &mut Counts| {});
}

fn next_chunk(inbound: &mut Consumer<LaneMessage>) -> Chunk {
    let Ok(LaneMessage::Chunk(chunk)) = inbound.pop() else { panic!("no chunk") };
    chunk
}

#[test]
fn packets_without_a_buffer_are_a_backlog_until_the_lane_has_caught_up() {
    let (mut packer, mut inbound, mut free_buffers) = packer();
    let backlog = packer.backlog();
    assert_eq!((pack(&mut packer, 10.0, 10.1), pack(&mut packer, 10.1, 10.1)), (1, 1));
    assert_eq!(backlog.get(), 0);
    assert_eq!((pack(&mut packer, 11.0, 11.0), backlog.get()), (0, at(11.0)), "no buffer is left");
    let (first, second) = (next_chunk(&mut inbound), next_chunk(&mut inbound));
    assert_eq!((first.first_ns, second.first_ns), (at(10.0), at(10.1)));
    free_buffers.push(first.buffer);
    assert_eq!((pack(&mut packer, 11.0, 20.0), backlog.get()), (1, at(11.0)), "the oldest is not sent yet");
    tick(&mut packer, 20.0, false);
    assert!(inbound.is_empty(), "it is opened just now, and not full");
    assert_eq!((pack(&mut packer, 12.5, 20.0), backlog.get()), (0, at(12.5)));
    let third = next_chunk(&mut inbound);
    assert_eq!(third.first_ns, at(11.0));
    free_buffers.push(second.buffer);
    free_buffers.push(third.buffer);
    assert_eq!((pack(&mut packer, 19.5, 20.0), backlog.get()), (1, 0), "recent");
    assert_eq!(next_chunk(&mut inbound).first_ns, at(19.5), "sent at once");
}

#[test]
fn a_backlog_ends_when_nothing_is_left_of_it() {
    let (mut packer, inbound, _free_buffers) = packer();
    let backlog = packer.backlog();
    (0..2).for_each(|_| assert_eq!(pack(&mut packer, 10.0, 10.0), 1));
    assert_eq!((pack(&mut packer, 10.5, 10.5), backlog.get()), (0, at(10.5)));
    packer.lose(&[Frame { time_ns: at(12.0), ..Frame::default() }]);
    assert_eq!(backlog.get(), at(12.0), "newer ones may wait");
    tick(&mut packer, 11.4, false);
    assert_eq!(backlog.get(), at(12.0));
    tick(&mut packer, 11.4, true);
    assert_eq!((backlog.get(), inbound.slots()), (0, 2), "the link is idle");
    // Or the frames went to another member of a split.
    assert_eq!((pack(&mut packer, 21.0, 21.0), backlog.get()), (0, at(21.0)));
    tick(&mut packer, 22.0, false);
    assert_eq!(backlog.get(), 0);
}

#[test]
fn a_chunk_spans_no_more_than_the_flush_interval() {
    let (mut packer, mut inbound, _free_buffers) = packer();
    // All of them have waited in the kernel's ring until now.
    for at_s in [10.0, 10.5, 10.999, 11.0] {
        assert_eq!(pack_len(&mut packer, 60, at_s, 20.0), 1);
    }
    let chunk = next_chunk(&mut inbound);
    assert_eq!((chunk.first_ns, chunk.packets), (at(10.0), 3));
}

/// One batch: two packets before the end of a slot, of which the first has a loss before it, and five after it, of
/// which four fit into a chunk.
#[test]
fn a_batch_goes_into_chunks_by_slots_and_room_and_a_loss_is_counted_once() {
    let (mut packer, mut inbound, mut free_buffers) = packer();
    packer.plan.slots = Slots::every(60 * S);
    let bytes = vec![0; 60 << 10];
    let len = bytes.len() as u32;
    let frame = Frame { len, wire_len: len, keep: u32::MAX, ..Frame::default() };
    let mut frames =
        [58.0, 59.0, 60.0, 61.0, 62.0, 63.0, 64.0].map(|at_s| Frame { time_ns: at(at_s), ..frame });
    let memory = Memory { bytes: &bytes, scratch: &[], options: &[], ids: &[] };
    assert_eq!(
        packer.take(memory, &mut frames, Arrival { dropped: 7, ..Arrival::at(now(65.0)) }),
        6,
        "there are two buffers"
    );
    let of = |chunk: &Chunk| (chunk.slot, chunk.first_ns, chunk.packets, chunk.len);
    let block = 28 + bytes.len() + 8 + 4 + 4;
    let first = next_chunk(&mut inbound);
    assert_eq!(of(&first), (0, at(58.0), 2, 2 * block + 12 + 40), "one drop count, and a comment");
    free_buffers.push(first.buffer);
    assert_eq!(packer.take(memory, &mut frames[6..], Arrival::at(now(65.0))), 1);
    assert_eq!(of(&next_chunk(&mut inbound)), (1, at(60.0), 4, 4 * block));
}

/// Packets without options, with those of a file, with a number, and with both.
#[test]
fn a_comment_follows_the_options_and_the_number_of_a_packet() {
    let (mut packer, mut inbound, _free_buffers) = packer();
    packer.plan.packet_comment = pcapng::comment_option("later").into();
    let of_file = PacketOptions { flags: 2, bytes: pcapng::comment_option("of the file") };
    let (bytes, options) = ([0; 60], [of_file]);
    let frame = Frame { time_ns: at(10.0), len: 60, wire_len: 60, keep: u32::MAX, ..Frame::default() };
    let with_options = Frame { flags: Frame::OPTIONS, ..frame };
    let mut frames = [frame, with_options, frame, with_options];
    for ids in [Vec::new(), vec![0, 0, 7, 7]] {
        let memory = Memory { bytes: &bytes, scratch: &[], options: &options, ids: &ids };
        assert_eq!(packer.take(memory, &mut frames, Arrival::at(now(10.0))), 4);
    }
    packer.seal();
    let chunk = next_chunk(&mut inbound);
    let (mut rest, mut decoder, mut found) = (Vec::new(), Decoder::default(), Vec::new());
    pcapng::shb(&mut rest, &Section::default());
    pcapng::idb(&mut rest, &Interface::default());
    rest.extend(&chunk.buffer[..chunk.len]);
    let mut rest = &rest[..];
    decoder.no_more();
    while let Step::Item(item) = decoder.next(&mut rest).expect("whole blocks") {
        if let Item::Frame(frame) = item {
            let copied = PacketOptions::new(frame.flags, frame.options);
            found.push((pcapng::comments(frame.options), copied.bytes.len()));
        }
    }
    let (plain, both) = (vec!["later".to_owned()], vec!["of the file".to_owned(), "later".to_owned()]);
    let [plain, both] = [(plain, 12), (both, 28)];
    let with_id = |(comments, len): &(Vec<String>, usize)| (comments.clone(), len + pcapng::PACKET_ID_BYTES);
    let numbered = [plain.clone(), both.clone(), with_id(&plain), with_id(&both)];
    assert_eq!(found, [&[plain.clone(), both.clone(), plain, both][..], &numbered].concat());
}

#[test]
fn a_chunk_ends_where_a_file_ends_by_its_packets() {
    let (mut packer, mut inbound, mut free_buffers) = packer();
    (packer.plan.rotate_packets, packer.left) = (3, 3);
    let bytes = vec![0; 60];
    let frame = Frame { len: 60, wire_len: 60, keep: u32::MAX, ..Frame::default() };
    let mut packets = Vec::new();
    let mut offered = 0;
    for frames in [1, 4, 3, 2] {
        let mut frames = vec![frame; frames];
        let memory = Memory { bytes: &bytes, scratch: &[], options: &[], ids: &[] };
        offered += frames.len();
        assert_eq!(packer.take(memory, &mut frames, Arrival::at(now(1.0))), frames.len());
        while let Ok(LaneMessage::Chunk(chunk)) = inbound.pop() {
            packets.push(chunk.packets);
            free_buffers.push(chunk.buffer);
        }
    }
    assert_eq!((offered, packets), (10, vec![3, 3, 3]), "the last one is open");
}

#[test]
fn a_chunk_that_has_to_wait_has_a_part_for_each_flush_interval() {
    let (mut packer, mut inbound, mut free_buffers) = packer();
    packer.plan.align = 512;
    let backlog = packer.backlog();
    pack_len(&mut packer, 60, 10.0, 10.0);
    tick(&mut packer, 11.0, false);
    let stuck = next_chunk(&mut inbound);
    // The other buffer is the last one, and stays open.
    pack_len(&mut packer, 60, 11.5, 11.5);
    tick(&mut packer, 12.4, false);
    assert_eq!(backlog.get(), 0);
    tick(&mut packer, 12.5, false);
    assert_eq!((inbound.slots(), backlog.get()), (0, at(11.5)), "other lanes wait for it");
    (0..2).for_each(|_| assert_eq!(pack_len(&mut packer, 60, 12.6, 12.6), 1));
    tick(&mut packer, 13.5, false);
    pack_len(&mut packer, 60, 13.6, 13.6);
    assert_eq!((backlog.get(), packer.patience_ns(now(13.6))), (at(11.5), HELD_NS));
    free_buffers.push(stuck.buffer);
    tick(&mut packer, 13.61, false);
    assert_eq!(backlog.get(), 0);
    let Ok(LaneMessage::Parts(chunk, parts)) = inbound.pop() else { panic!("no parts") };
    let bytes = chunk.buffer[..chunk.len].to_vec();
    let pieces = chunk.split(parts).unwrap();
    let of = |piece: &Chunk| (piece.first_ns, piece.packets, piece.counts.packed, piece.len % 512);
    let expected = [(at(11.5), 1, 2, 0), (at(12.6), 2, 4, 0), (at(13.6), 1, 5, 0)];
    assert_eq!(pieces.iter().map(of).collect::<Vec<_>>(), expected);
    let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.buffer[..piece.len].to_vec()).collect();
    assert_eq!(joined, bytes, "all of it, in order");
}

#[test]
fn a_lane_marks_its_time_only_while_it_has_no_packets() {
    let (mut packer, mut inbound, _free_buffers) = packer();
    packer.plan.mark_ns = Some(S / 4);
    let mut mark_at = |packer: &mut Packer, passed_s: f64, now_s: f64| {
        let pause = Pause { now: now(now_s), is_idle: true, passed_ns: Some(at(passed_s)) };
        packer.tick(pause, &|_: &mut Counts| {});
        let messages = std::iter::from_fn(|| inbound.pop().ok());
        match messages.last() {
            Some(LaneMessage::Mark(until_ns)) => Some(until_ns),
            _ => None,
        }
    };
    assert_eq!(mark_at(&mut packer, 9.8, 10.0), Some(at(9.8)));
    assert_eq!(mark_at(&mut packer, 9.9, 10.1), None, "the interval has not passed");
    assert_eq!(mark_at(&mut packer, 9.8, 10.5), None, "it would say the same");
    assert_eq!(pack(&mut packer, 10.5, 10.6), 1);
    assert_eq!(mark_at(&mut packer, 10.5, 11.5), None, "its packet has not been sent");
    assert_eq!(mark_at(&mut packer, 11.5, 11.7), Some(at(11.5)), "after the packet");
    // Both buffers are with the writer or open, and a packet waits for one.
    assert_eq!((pack(&mut packer, 11.8, 11.8), pack_len(&mut packer, 200_000, 11.9, 11.9)), (1, 0));
    assert_eq!(mark_at(&mut packer, 11.8, 13.5), None);
}
