//! The end of an output by its size or its number of files. Packets after it are neither written nor lost.

use super::records::Records;
use super::state::{Files, Limit};
use crate::read::{Compression, Decompressor};
use crate::tally::Counts;
use crate::write::chunk::Chunk;
use crate::write::compress::framed;
use crate::write::format::Format;
use crate::write::header::Heading;
use crate::write::plan::FileLimit;
use quaff_os::{Buffer, Reason};
use quaff_wire::pcapng::{padding, padding_bytes};
use std::io;

/// Bytes of a record's header in pcap, and the offset of the captured length in it.
const PCAP_HEADER_BYTES: usize = 16;
const PCAP_LENGTH_AT: usize = 8;
/// Enhanced Packet Block, the offsets of a block's length and of a packet's interface.
const ENHANCED_PACKET: u32 = 6;
const BLOCK_LENGTH_AT: usize = 4;
const INTERFACE_AT: usize = 8;
const BLOCK_BYTES_MIN: usize = 12;
/// Bytes that are decompressed at once.
const PIECE_BYTES: usize = 1 << 20;

impl Files {
    /// Ends the output at `most`.
    pub(in crate::write) fn limited(mut self, most: FileLimit) -> Self {
        self.limit = Limit { most, files: 1, ..Limit::default() };
        self
    }

    /// Returns whether the next file would be one too many; the output ends then.
    pub(super) fn ends_at_file(&mut self) -> bool {
        let is_last = self.limit.most.files.is_some_and(|most| self.limit.files >= most);
        if is_last {
            self.reach_limit(Reason::Files);
        }
        is_last
    }

    /// Begins to count the bytes of the next file.
    pub(super) fn count_file(&mut self) {
        self.limit.files += 1;
        self.limit.ended_bytes += self.current.offset;
    }

    /// Cuts the next chunk to the packets that fit, if it exceeds the limit, and ends the output then. A cut chunk may
    /// be empty.
    pub(super) fn keep_to_limit(&mut self, chunk: &mut Chunk) {
        let names = chunk.counts.names;
        let Some(room) = self.room_to_limit(names).filter(|room| chunk.len > *room) else { return };
        let Heading { format, align, compression, .. } = self.heading;
        self.tally.after_close += match compression {
            Some(compression) => chunk.keep_of_frame(room, format, compression, align),
            None => chunk.keep(room, format, align),
        };
        self.reach_limit(Reason::Size);
    }

    /// Returns the bytes that the next chunk may take; `None` without a limit. `names` is the number of names before
    /// it.
    fn room_to_limit(&self, names: usize) -> Option<usize> {
        let most = self.limit.most.bytes?;
        let described = self.current.described;
        let last = self.heading.last(&self.counts, &self.counts, described).len() as u64;
        let carried = self.records.as_ref().map_or(0, Records::carried);
        // The last blocks have those that precede the packets so far.
        let known = self.heading.names_before(&self.counts).max(described.names);
        let names = self.heading.names_bytes(known..names);
        let used = self.limit.ended_bytes + self.current.offset + carried + last + names;
        Some(usize::try_from(most.saturating_sub(used)).unwrap_or(usize::MAX))
    }

    fn reach_limit(&mut self, reason: Reason) {
        self.limit.is_reached = true;
        self.noted.clear();
        self.tally.limit = Some(reason.clone());
        self.stop.raise(reason);
    }

    /// Returns the buffers of chunks that came after the limit.
    pub(super) fn skip_waiting(&mut self) {
        while let Some((lane, chunk)) = self.waiting.pop_front() {
            self.tally.after_close += chunk.packets;
            self.free_buffers.push_back((lane, chunk.buffer));
        }
    }
}

impl Chunk {
    /// Keeps the packets that fit into `room` bytes, padded to `align`; returns the number of those cut off.
    fn keep(&mut self, room: usize, format: Format, align: usize) -> u64 {
        let is_pcapng = format == Format::Pcapng;
        // Padding takes an alignment more where the gap is too small for a block.
        let room = if is_pcapng { (room / align * align).saturating_sub(align) } else { room };
        let (kept_bytes, cut) = cut(&self.buffer[..self.len], room, is_pcapng, &mut self.counts);
        self.len = kept_bytes;
        self.packets = self.packets.saturating_sub(cut);
        let gap = if is_pcapng { padding_bytes(kept_bytes, align) } else { 0 };
        if gap > 0 {
            padding(&mut self.buffer[kept_bytes..kept_bytes + gap]);
            self.len += gap;
        }
        cut
    }

    /// As [`Self::keep`] for a chunk that is one compressed frame: it becomes a frame of the packets that fit, at the
    /// fastest level.
    fn keep_of_frame(&mut self, room: usize, format: Format, compression: Compression, align: usize) -> u64 {
        let is_pcapng = format == Format::Pcapng;
        let frame = &self.buffer[..self.len];
        // A frame that cannot be decompressed, which would be a defect, is dropped.
        let plain = unpack(compression, frame).unwrap_or_default();
        let ends = ends(&plain, is_pcapng);
        let (mut kept, mut kept_bytes) = (Vec::new(), 0);
        let (mut least, mut most) = (0, ends.len());
        while least < most {
            let middle = (least + most).div_ceil(2);
            let end = ends[middle - 1];
            match framed(compression, &plain[..end], align) {
                Ok(frame) if frame.len() <= room => (least, kept, kept_bytes) = (middle, frame, end),
                _ => most = middle - 1,
            }
        }
        let (_, cut) = cut(&plain, kept_bytes, is_pcapng, &mut self.counts);
        let cut = if plain.is_empty() { self.packets } else { cut };
        self.packets = self.packets.saturating_sub(cut);
        self.len = kept.len();
        self.buffer[..kept.len()].copy_from_slice(&kept);
        cut
    }
}

/// Returns the length of the records of `bytes` that end within `room`, and the number of packets after them, which are
/// removed from `counts`.
fn cut(bytes: &[u8], room: usize, is_pcapng: bool, counts: &mut Counts) -> (usize, u64) {
    let (mut at, mut kept_bytes, mut cut) = (0, 0, 0);
    while let Some((block, packet)) = next_record(&bytes[at..], is_pcapng) {
        at += block;
        if at <= room {
            kept_bytes = at;
        } else if let Some(interface) = packet {
            cut += 1;
            counts.packed = counts.packed.saturating_sub(1);
            let sessions = &mut counts.sessions;
            if let Ok(of) = sessions.binary_search_by_key(&interface, |session| session.interface) {
                sessions[of].packed = sessions[of].packed.saturating_sub(1);
            }
        }
    }
    (kept_bytes, cut)
}

/// The ends of all records.
fn ends(bytes: &[u8], is_pcapng: bool) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some((block, _)) = next_record(&bytes[at..], is_pcapng) {
        at += block;
        ends.push(at);
    }
    ends
}

/// Returns the contents of a frame.
fn unpack(compression: Compression, frame: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Buffer::new(frame.len()).ok()?;
    buffer[..frame.len()].copy_from_slice(frame);
    let mut frames = Decompressor::new(compression, Box::new(io::empty()), buffer, frame.len()).ok()?;
    let (mut plain, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        match frames.read(&mut piece).ok()? {
            0 => return Some(plain),
            bytes => plain.extend_from_slice(&piece[..bytes]),
        }
    }
}

/// The length of the next record or block, and the interface of its packet, if it has one.
fn next_record(bytes: &[u8], is_pcapng: bool) -> Option<(usize, Option<u16>)> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    if !is_pcapng {
        return Some((PCAP_HEADER_BYTES + word(PCAP_LENGTH_AT)? as usize, Some(0)));
    }
    let len = word(BLOCK_LENGTH_AT)? as usize;
    let is_packet = word(0)? == ENHANCED_PACKET;
    let interface = if is_packet { word(INTERFACE_AT).map(|number| number as u16) } else { None };
    (len >= BLOCK_BYTES_MIN).then_some((len, interface))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::{Counts, SessionCounts};
    use quaff_os::Buffer;
    use quaff_wire::pcap::{Resolution, append_record};
    use quaff_wire::pcapng::append_epb;
    use quaff_wire::{Append, Record};

    /// Collects blocks.
    struct Blocks(Vec<u8>);

    impl Append for Blocks {
        fn take(&mut self, bytes: usize) -> &mut [u8] {
            let from = self.0.len();
            self.0.resize(from + bytes, 0);
            &mut self.0[from..]
        }
    }

    fn chunk(is_pcapng: bool, packets: u64) -> (Chunk, usize) {
        let mut blocks = Blocks(Vec::new());
        for number in 0..packets {
            let record = Record { bytes: &[7; 100], len: 100, time_ns: number, ..Record::default() };
            match is_pcapng {
                true => append_epb(&mut blocks, (number % 2) as u32, &record),
                false => append_record(&mut blocks, Resolution::Nanoseconds, &record),
            }
        }
        let len = blocks.0.len();
        let mut buffer = Buffer::new(len + 8192).unwrap();
        buffer[..len].copy_from_slice(&blocks.0);
        let session = SessionCounts { interface: 1, packed: packets / 2, ..SessionCounts::default() };
        let counts = Counts { packed: packets, sessions: vec![session], ..Counts::default() };
        let chunk = Chunk { buffer, len, packets, slot: 0, first_ns: 0, counts, interfaces: 2, before: None };
        (chunk, len / packets as usize)
    }

    #[test]
    fn a_chunk_keeps_the_packets_that_fit() {
        let (mut chunk, each) = chunk(false, 10);
        assert_eq!(chunk.keep(4 * each + each - 1, Format::Pcap, 512), 6);
        assert_eq!((chunk.packets, chunk.len, chunk.counts.packed), (4, 4 * each, 4));
        assert_eq!(chunk.keep(0, Format::Pcap, 512), 4);
        assert_eq!((chunk.packets, chunk.len), (0, 0));
    }

    #[test]
    fn a_chunk_of_pcapng_stays_aligned_and_its_sessions_are_counted() {
        for (align, room) in [(1, 500), (512, 2048), (4096, 8192), (512, 600), (4096, 100)] {
            let (mut chunk, each) = chunk(true, 100);
            let cut = chunk.keep(room, Format::Pcapng, align);
            assert_eq!((chunk.packets + cut, chunk.counts.packed), (100, chunk.packets));
            assert_eq!(chunk.counts.sessions[0].packed, chunk.packets / 2);
            assert!(chunk.len <= room && chunk.len % align == 0, "{align} {room}: {}", chunk.len);
            assert!(chunk.packets >= (room.saturating_sub(2 * align) / each) as u64, "{align} {room}");
        }
    }

    #[test]
    fn a_frame_keeps_the_packets_that_fit() {
        for compression in [Compression::Zstd, Compression::Lz4, Compression::Gzip] {
            for (format, align) in [(Format::Pcapng, 512), (Format::Pcap, 1)] {
                let (mut chunk, _) = chunk(format == Format::Pcapng, 2000);
                let plain = chunk.buffer[..chunk.len].to_vec();
                let frame = framed(compression, &plain, align).unwrap();
                let room = frame.len() / 2;
                chunk.buffer[..frame.len()].copy_from_slice(&frame);
                chunk.len = frame.len();
                let cut = chunk.keep_of_frame(room, format, compression, align);
                assert_eq!((chunk.packets + cut, chunk.counts.packed), (2000, chunk.packets));
                assert!((600..1400).contains(&cut), "{compression:?}: {cut} of 2000 cut");
                assert!(chunk.len <= room && chunk.len.is_multiple_of(align));
                let kept = unpack(compression, &chunk.buffer[..chunk.len]).unwrap();
                assert!(plain.starts_with(&kept));
                assert_eq!(ends(&kept, format == Format::Pcapng).len() as u64, chunk.packets);
                // Nothing fits.
                let left = chunk.packets;
                assert_eq!((chunk.keep_of_frame(10, format, compression, align), chunk.len), (left, 0));
            }
        }
    }

    #[test]
    fn a_chunk_within_the_limit_is_kept_as_a_whole() {
        let (mut chunk, _) = chunk(true, 10);
        let len = chunk.len;
        assert_eq!((chunk.keep(len + 1, Format::Pcapng, 1), chunk.len, chunk.packets), (0, len, 10));
    }
}
