//! A disk that stays full: of the write that failed, the packets that fit are written, and the last counters after
//! them.
//!
//! It frees nothing and waits for nothing but room for another file of a folder: that is done before.

use super::records::{Records, through_cache};
use super::{ChunkTag, Files, Tag};
use crate::error::is_full;
use crate::tally::Counts;
use crate::write::format::Format;
use quaff_os::disk::{Write, sync_all};
use quaff_wire::cut::whole_units;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// Bytes of the file header of pcap.
const PCAP_HEADER_BYTES: u64 = 24;

/// The whole packets of a part of a file.
#[derive(Debug, Default)]
struct Whole {
    /// Bytes up to the end of the last one.
    bytes: usize,
    packets: u64,
    /// Packets of each interface.
    of_interface: BTreeMap<u32, u64>,
}

impl Whole {
    /// Returns the packets within the first `bytes_max` of `bytes`.
    fn within(bytes: &[u8], bytes_max: usize, is_pcapng: bool) -> Self {
        let mut whole = Self::default();
        for (end, interface) in whole_units(bytes, is_pcapng).take_while(|(end, _)| *end <= bytes_max) {
            whole.bytes = end;
            if let Some(interface) = interface {
                whole.packets += 1;
                *whole.of_interface.entry(interface).or_default() += 1;
            }
        }
        whole
    }
}

impl Files {
    /// Returns whether trying again is useless: the disk is full and stays so, and no other folder takes the packets.
    pub(super) fn stays_full(&mut self, error: &io::Error) -> bool {
        is_full(error) && self.sharing.handed_back.is_none() && !self.gets_room()
    }

    /// After the first of `writes` has failed with `error`: if the disk stays full, writes what fits of them. Those
    /// that fit as a whole are completed and removed: the kernel may have refused several together. Returns the
    /// offset up to which the file of the first remaining one is valid, or that of the write in pcap with aligned
    /// writes, whose valid length is in its [`Records`]; `None` if the output may continue.
    pub(super) fn write_what_fits(&mut self, error: &io::Error, writes: &mut VecDeque<Write>) -> Option<u64> {
        if !self.stays_full(error) {
            return None;
        }
        // Files that were begun after it have preallocated space.
        for file in writes.iter().map(|write| &write.file).chain([&self.current.file]) {
            if let Ok(found) = file.metadata() {
                let _ = file.set_len(found.len());
            }
        }
        loop {
            self.end_files();
            let Write { file, buffer, len, offset } = writes.front()?;
            let bytes = &buffer[..*len];
            let is_chunk = matches!(self.tags.front(), Some(Tag::Chunk(_)));
            let fits = if self.records.is_some() {
                self.write_records(file, bytes, *offset)
            } else if is_chunk {
                self.write_chunk(file, bytes, *offset)
            } else {
                (write_some(file, bytes, *offset) < *len).then_some(*offset)
            };
            if fits.is_some() {
                return fits;
            }
            self.on_written(writes.pop_front()?);
        }
    }

    /// Writes a chunk or its first packets, and counts these; `None` if all of it fits.
    fn write_chunk(&mut self, file: &File, bytes: &[u8], offset: u64) -> Option<u64> {
        let written = write_some(file, bytes, offset);
        let Some(Tag::Chunk(ChunkTag { lane, packets, counts, .. })) = self.tags.front_mut() else {
            return Some(offset);
        };
        if written == bytes.len() {
            return None;
        }
        let mut ends = self.written.clone();
        ends[*lane].clone_from(counts);
        // The last counters need their place after the packets.
        let described = self.heading.described_before(&ends);
        let last_bytes = self.heading.unaligned().last(&self.counts, &ends, described).len();
        let is_pcapng = self.heading.format == Format::Pcapng;
        let whole = match self.heading.compression {
            // A part of a frame has no packets.
            Some(_) => Whole::default(),
            None => Whole::within(bytes, written.saturating_sub(last_bytes), is_pcapng),
        };
        if whole.packets > 0 {
            *packets -= whole.packets.min(*packets);
            self.written[*lane] = counts_after(&self.written[*lane], counts, &whole, *packets);
        }
        self.count_written(whole.packets, whole.bytes as u64);
        Some(offset + whole.bytes as u64)
    }

    /// Writes bytes of records, and counts those that are whole then; `None` if all of them fit.
    pub(super) fn write_records(&mut self, file: &File, bytes: &[u8], offset: u64) -> Option<u64> {
        let written = write_some(file, bytes, offset);
        if written == bytes.len() {
            return None;
        }
        let valid = self.records.as_ref().map_or(0, Records::valid);
        let from = valid.max(PCAP_HEADER_BYTES);
        // Records before this write may end in it.
        let end = offset + written as u64;
        let mut found = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or(0)];
        if through_cache(file, || file.read_exact_at(&mut found, from)).is_err() {
            return Some(offset);
        }
        let whole = Whole::within(&found, found.len(), false);
        if let Some(records) = self.records.as_mut().filter(|_| whole.packets > 0) {
            records.reach_packets(from + whole.bytes as u64, whole.packets);
        }
        self.count_written(whole.packets, 0);
        Some(offset)
    }
}

/// Writes as many bytes as fit, through the page cache, and syncs them. Returns their number.
fn write_some(file: &File, bytes: &[u8], offset: u64) -> usize {
    let write = || {
        let mut done = 0;
        // Some file systems free space only when their journal commits: one try before that, and one after.
        for _ in 0..2 {
            done += write_until_full(file, &bytes[done..], offset + done as u64);
            if done < bytes.len() {
                let _ = sync_all(file);
            }
        }
        // Bytes that the page cache has taken may still not fit.
        file.sync_data().map(|()| done)
    };
    through_cache(file, write).unwrap_or(0)
}

/// Writes in ever smaller pieces: a file system may refuse a large one as a whole.
fn write_until_full(file: &File, bytes: &[u8], offset: u64) -> usize {
    let (mut done, mut piece) = (0, bytes.len());
    while done < bytes.len() && piece > 0 {
        let end = bytes.len().min(done + piece);
        match file.write_at(&bytes[done..end], offset + done as u64) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(count) if count > 0 => done += count,
            _ => piece /= 2,
        }
    }
    done
}

/// Returns the counts of a lane after `whole` of a chunk, of which `left` packets are not written: losses as in the
/// chunk's counts, packets in the file as before it plus `whole`.
fn counts_after(before: &Counts, chunk: &Counts, whole: &Whole, left: u64) -> Counts {
    let mut counts = chunk.clone();
    counts.packed = chunk.packed.saturating_sub(left);
    for session in &mut counts.sessions {
        let earlier = before.sessions.iter().find(|earlier| earlier.interface == session.interface);
        let within = whole.of_interface.get(&u32::from(session.interface)).copied().unwrap_or(0);
        session.packed = earlier.map_or(0, |earlier| earlier.packed) + within;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::SessionCounts;

    #[test]
    fn counts_in_the_middle_of_a_chunk_are_of_the_packets_before() {
        let session = |interface, packed| SessionCounts { interface, packed, ..SessionCounts::default() };
        let before = Counts { packed: 10, sessions: vec![session(1, 4)], ..Counts::default() };
        let chunk = Counts {
            packed: 30,
            lost: 7,
            sessions: vec![session(1, 14), session(2, 5)],
            ..Counts::default()
        };
        let whole = Whole { packets: 8, of_interface: BTreeMap::from([(0, 5), (1, 3)]), ..Whole::default() };
        let after = counts_after(&before, &chunk, &whole, 12);
        assert_eq!((after.packed, after.lost), (18, 7));
        assert_eq!(after.sessions, [session(1, 7), session(2, 0)]);
    }
}
