//! The look of threads at parts of a file: the frames of a batch, with the front of the lane. A packet that the lane
//! must count by itself ends it.

use crate::batch::Frame;
use crate::front::{Ready, ThreadFront};
use quaff_file::read::{Look, Seen};
use quaff_wire::decode::{self, Decoder, Item, Step};
use quaff_wire::{INBOUND, OUTBOUND};
use std::sync::Arc;

/// The frames of a part, as the lane would have described them.
#[derive(Debug, Default)]
pub(super) struct SeenFrames {
    /// Those that the front has left.
    pub(super) frames: Vec<Frame>,
    /// The number that it has removed.
    pub(super) filtered: u64,
    pub(super) ready: Option<Ready>,
    /// Packets in a row of an interface of the section, with its number in the output.
    pub(super) runs: Vec<(u32, Option<u16>, u64)>,
    /// Counts of all of them.
    pub(super) packets: u64,
    pub(super) wire_bytes: u64,
    pub(super) truncated: u64,
    /// `None` without a frame.
    pub(super) times: Option<Times>,
}

/// The times of frames, ns since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) latest_ns: u64,
}

/// The properties of a file that a look needs.
#[derive(Clone)]
pub(super) struct FileFacts {
    /// By number in the section.
    pub(super) numbers: Arc<[Option<u16>]>,
    pub(super) packet_bytes_max: u32,
    pub(super) time_max_ns: u64,
    pub(super) keeps_options: bool,
}

/// The look of one thread.
pub(super) struct FileLook {
    pub(super) facts: FileFacts,
    pub(super) front: ThreadFront,
}

impl SeenFrames {
    fn clear(&mut self) {
        self.frames.clear();
        self.runs.clear();
        (self.packets, self.wire_bytes, self.truncated, self.times) = (0, 0, 0, None);
    }

    #[inline]
    fn add(&mut self, packet: &decode::Frame<'_>, start: usize, facts: &FileFacts) {
        let number = match self.runs.last_mut() {
            Some((interface, number, packets)) if *interface == packet.interface => {
                *packets += 1;
                *number
            }
            _ => {
                let number = facts.numbers.get(packet.interface as usize).copied().flatten();
                self.runs.push((packet.interface, number, 1));
                number
            }
        };
        self.packets += 1;
        self.wire_bytes += u64::from(packet.wire_len);
        let Some(number) = number else { return };
        self.truncated += u64::from(packet.data.len() > facts.packet_bytes_max as usize);
        self.frames.push(describe(packet, start as u32, number, facts.packet_bytes_max));
    }
}

impl FileFacts {
    /// Returns whether the lane need not see the packet by itself.
    #[inline]
    fn is_usual(&self, packet: &decode::Frame<'_>) -> bool {
        packet.dropcount == 0
            && packet.time_ns <= self.time_max_ns
            && !(self.keeps_options && has_options(packet))
    }
}

impl Look for FileLook {
    fn look(&mut self, decoder: &mut Decoder, part: &[u8], rest: &mut &[u8], seen: &mut Option<Seen>) {
        let mut frames = match seen.take().map(Seen::downcast::<SeenFrames>) {
            Some(Ok(frames)) => frames,
            _ => Box::default(),
        };
        frames.clear();
        let start = |data: &[u8]| (data.as_ptr() as usize).wrapping_sub(part.as_ptr() as usize);
        // Times of pcap are below the limit of each format.
        while let Some(packet) = decoder.usual_frame(rest) {
            frames.add(&packet, start(packet.data), &self.facts);
        }
        loop {
            let (before, offset, corrected) = (*rest, decoder.offset(), *decoder.corrections());
            match decoder.next(rest) {
                Ok(Step::Item(Item::Frame(packet))) if self.facts.is_usual(&packet) => {
                    frames.add(&packet, start(packet.data), &self.facts);
                }
                // The lane sees it, and all that was skipped before it.
                _ => {
                    *rest = before;
                    decoder.move_to(offset);
                    *decoder.corrections() = corrected;
                    break;
                }
            }
        }
        frames.times = times_of(&frames.frames);
        let SeenFrames { frames: list, ready, .. } = &mut *frames;
        let filtered = self.front.pass(part, list, ready);
        frames.filtered = filtered;
        *seen = Some(frames);
    }
}

/// Returns whether a packet has options beside its direction and the drops before it.
#[inline]
pub(super) fn has_options(packet: &decode::Frame<'_>) -> bool {
    packet.flags & !(INBOUND | OUTBOUND) != 0 || !packet.options.is_empty()
}

/// The descriptor of a packet that begins at `start`.
#[inline]
pub(super) fn describe(
    packet: &decode::Frame<'_>,
    start: u32,
    interface: u16,
    packet_bytes_max: u32,
) -> Frame {
    let flags = match packet.flags & (INBOUND | OUTBOUND) {
        INBOUND => 0,
        OUTBOUND => Frame::OUTGOING,
        _ => Frame::NO_DIRECTION,
    };
    Frame {
        time_ns: packet.time_ns,
        start,
        len: packet.data.len() as u32,
        wire_len: packet.wire_len,
        keep: packet_bytes_max,
        tpid: 0,
        tci: 0,
        flags,
        interface,
    }
}

fn times_of(frames: &[Frame]) -> Option<Times> {
    let (first, last) = frames.first().zip(frames.last())?;
    let latest_ns = frames.iter().map(|frame| frame.time_ns).max()?;
    Some(Times { first_ns: first.time_ns, last_ns: last.time_ns, latest_ns })
}
