//! Late packets of unsorted files, sorted by time: in memory up to a limit, and beyond it in sorted runs in a temporary
//! file without a name. Those that arrive in the order of their files leave so at equal times.

use crate::batch::Frame;
use crate::{Error, Result};
use quaff_os::Try;
use quaff_wire::pcapng::PacketOptions;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Late packets in memory, bytes, before they are written as a run.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Buffer of a run that is read, bytes.
const RUN_BYTES: usize = 64 << 10;
/// Bytes of a record in the temporary file before its options and its packet.
const HEAD_BYTES: usize = 56;

/// A late packet. `start` of its frame is its place in the memory that holds it.
#[derive(Debug, Clone, Default)]
pub(super) struct LatePacket {
    pub(super) frame: Frame,
    /// The number of its file.
    pub(super) input: u32,
    /// Drops recorded before it.
    pub(super) dropped: u64,
    pub(super) options: Option<PacketOptions>,
}

impl LatePacket {
    fn options(&self) -> &[u8] {
        self.options.as_ref().map_or(&[], |options| &options.bytes)
    }

    /// The fixed part of its record.
    fn head(&self) -> [u8; HEAD_BYTES] {
        let Frame { time_ns, len, wire_len, keep, tpid, tci, flags, interface, .. } = self.frame;
        let options = self.options.as_ref();
        let words = [
            time_ns,
            self.dropped,
            u64::from(len) << 32 | u64::from(wire_len),
            u64::from(keep) << 32 | u64::from(self.input),
            u64::from(tpid) << 48 | u64::from(tci) << 32 | u64::from(flags) << 16 | u64::from(interface),
            u64::from(options.is_some()),
            self.options().len() as u64 | u64::from(options.map_or(0, |options| options.flags)) << 32,
        ];
        let mut head = [0; HEAD_BYTES];
        for (at, word) in head.chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        head
    }

    /// The packet of a record's fixed part, with room for its options.
    fn of(head: &[u8; HEAD_BYTES]) -> Self {
        let word = |at: usize| {
            let bytes = head.as_chunks::<8>().0;
            u64::from_le_bytes(bytes[at])
        };
        let [lengths, limits, small, options] = [2, 3, 4, 6].map(word);
        let frame = Frame {
            time_ns: word(0),
            start: 0,
            len: (lengths >> 32) as u32,
            wire_len: lengths as u32,
            keep: (limits >> 32) as u32,
            tpid: (small >> 48) as u16,
            tci: (small >> 32) as u16,
            flags: (small >> 16) as u16,
            interface: small as u16,
        };
        let bytes = vec![0; options as u32 as usize];
        let options = (word(5) == 1).then_some(PacketOptions { flags: (options >> 32) as u32, bytes });
        Self { frame, input: limits as u32, dropped: word(1), options }
    }
}

/// Takes late packets, and sorts them.
#[derive(Debug)]
pub(super) struct Late {
    bytes: Vec<u8>,
    packets: Vec<LatePacket>,
    /// Bytes in memory beside those of the packets.
    other_bytes: usize,
    limit_bytes: usize,
    file: Option<Arc<File>>,
    runs: Vec<PartOfFile<Arc<File>>>,
    /// Bytes in the temporary file.
    pub(super) spilled_bytes: u64,
    /// All packets.
    pub(super) count: u64,
}

impl Late {
    /// Runs go to `file`.
    pub(super) fn new(file: Option<File>) -> Self {
        Self {
            bytes: Vec::new(),
            packets: Vec::new(),
            other_bytes: 0,
            limit_bytes: MEMORY_BYTES_MAX,
            file: file.map(Arc::new),
            runs: Vec::new(),
            spilled_bytes: 0,
            count: 0,
        }
    }

    /// Adds a packet with its bytes.
    pub(super) fn push(&mut self, mut packet: LatePacket, bytes: &[u8]) -> Result<()> {
        packet.frame.start = self.bytes.len() as u32;
        self.other_bytes += size_of::<LatePacket>() + packet.options().len();
        self.bytes.extend_from_slice(bytes);
        self.packets.push(packet);
        self.count += 1;
        if self.bytes.len() + self.other_bytes > self.limit_bytes { self.spill() } else { Ok(()) }
    }

    /// Writes what is in memory as a run.
    fn spill(&mut self) -> Result<()> {
        let Some(file) = self.file.clone() else {
            return Err(Error::Defect("a merge without a temporary file".into()));
        };
        self.sort();
        let begin = self.spilled_bytes;
        let end = write_run(&file, begin, &self.packets, &self.bytes);
        self.spilled_bytes = end.trying(
            || "write late packets to a temporary file, in the folder of the output or in TMPDIR (make room there)",
        )?;
        self.runs.push(PartOfFile { file, at: begin, end: self.spilled_bytes });
        self.bytes.clear();
        self.packets.clear();
        self.other_bytes = 0;
        Ok(())
    }

    /// By time; equal ones stay in the order in which they were added.
    fn sort(&mut self) {
        self.packets.sort_by_key(|packet| packet.frame.time_ns);
    }

    /// Ends with the runs, oldest first, each at its first packet.
    pub(super) fn finish(mut self) -> Result<Vec<Run>> {
        self.sort();
        let mut runs: Vec<_> = self.runs.into_iter().map(Run::of_file).collect();
        if !self.packets.is_empty() {
            runs.push(Run { packet: None, data: self.bytes, rest: Rest::Memory(self.packets.into_iter()) });
        }
        runs.iter_mut().try_for_each(Run::advance)?;
        Ok(runs)
    }
}

/// Writes packets to a file from `begin` on; returns the end.
fn write_run(file: &File, begin: u64, packets: &[LatePacket], bytes: &[u8]) -> io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, PartOfFile { file, at: begin, end: u64::MAX });
    for packet in packets {
        let Frame { start, len, .. } = packet.frame;
        out.write_all(&packet.head())?;
        out.write_all(packet.options())?;
        out.write_all(&bytes[start as usize..][..len as usize])?;
    }
    out.flush()?;
    Ok(out.get_ref().at)
}

/// A part of a file, with a position of its own.
#[derive(Debug)]
struct PartOfFile<F> {
    file: F,
    at: u64,
    end: u64,
}

impl<F: AsRef<File>> Read for PartOfFile<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min((self.end - self.at) as usize);
        let bytes = self.file.as_ref().read_at(&mut out[..most], self.at)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

impl Write for PartOfFile<&File> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = self.file.write_at(bytes, self.at)?;
        self.at += bytes as u64;
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Late packets in the order of their times.
#[derive(Debug)]
pub(super) struct Run {
    packet: Option<LatePacket>,
    /// Holds the bytes of the packet.
    data: Vec<u8>,
    rest: Rest,
}

/// Those that follow.
#[derive(Debug)]
enum Rest {
    Memory(std::vec::IntoIter<LatePacket>),
    File(BufReader<PartOfFile<Arc<File>>>),
}

impl Run {
    fn of_file(part: PartOfFile<Arc<File>>) -> Self {
        Self { packet: None, data: Vec::new(), rest: Rest::File(BufReader::with_capacity(RUN_BYTES, part)) }
    }

    /// The next packet and its bytes.
    pub(super) fn packet(&self) -> Option<(&LatePacket, &[u8])> {
        let packet = self.packet.as_ref()?;
        let Frame { start, len, .. } = packet.frame;
        Some((packet, &self.data[start as usize..][..len as usize]))
    }

    /// Passes the next packet.
    pub(super) fn advance(&mut self) -> Result<()> {
        self.packet = match &mut self.rest {
            Rest::Memory(packets) => packets.next(),
            Rest::File(file) => {
                let read = read_record(file, &mut self.data);
                read.trying(|| "read late packets from a temporary file")?
            }
        };
        Ok(())
    }
}

/// Reads a record, its packet's bytes into `data`; `None` at the end of the run.
fn read_record(
    file: &mut BufReader<PartOfFile<Arc<File>>>,
    data: &mut Vec<u8>,
) -> io::Result<Option<LatePacket>> {
    let is_over = file.buffer().is_empty() && file.get_ref().at == file.get_ref().end;
    if is_over {
        return Ok(None);
    }
    let mut head = [0; HEAD_BYTES];
    file.read_exact(&mut head)?;
    let mut packet = LatePacket::of(&head);
    if let Some(options) = &mut packet.options {
        file.read_exact(&mut options.bytes)?;
    }
    data.resize(packet.frame.len as usize, 0);
    file.read_exact(data)?;
    Ok(Some(packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(time_ns: u64, input: u32, len: u32) -> LatePacket {
        let frame =
            Frame { time_ns, len, wire_len: len + 4, keep: 99, flags: 24, interface: 3, ..Frame::default() };
        let options = (len % 2 == 1).then(|| PacketOptions { flags: 7 << 20, bytes: vec![len as u8; 12] });
        LatePacket { frame, input, dropped: u64::from(len) << 33, options }
    }

    /// All packets of the runs, merged by time and run, as time, file, length and the rest.
    fn all(late: Late) -> Vec<(u64, u32, u32)> {
        let mut runs = late.finish().unwrap();
        let mut found = Vec::new();
        loop {
            let next = runs.iter_mut().filter(|run| run.packet().is_some());
            let Some(run) = next.min_by_key(|run| run.packet().map(|(of, _)| of.frame.time_ns)) else {
                break;
            };
            let (of, bytes) = run.packet().unwrap();
            let expected = packet(of.frame.time_ns, of.input, of.frame.len);
            let (LatePacket { frame, .. }, known) = (expected.clone(), of.clone());
            assert_eq!(Frame { start: 0, ..of.frame }, frame);
            assert_eq!((known.options, known.dropped), (expected.options, expected.dropped));
            assert!(
                bytes.len() == of.frame.len as usize && bytes.iter().all(|byte| *byte == of.frame.len as u8)
            );
            found.push((of.frame.time_ns, of.input, of.frame.len));
            run.advance().unwrap();
        }
        found
    }

    #[test]
    fn packets_leave_sorted_and_stable_from_memory_and_from_the_file() {
        for limit_bytes in [0, 2_000, usize::MAX] {
            let mut late = Late::new(Some(tempfile::tempfile().unwrap()));
            late.limit_bytes = limit_bytes;
            let mut expected = Vec::new();
            for i in 0..300_u32 {
                let (time_ns, input) = (u64::from(i * 7919 % 50), i / 100);
                late.push(packet(time_ns, input, i % 251), &vec![(i % 251) as u8; (i % 251) as usize])
                    .unwrap();
                expected.push((time_ns, input, i % 251));
            }
            expected.sort_by_key(|(time_ns, ..)| *time_ns);
            assert_eq!((late.spilled_bytes > 0, late.count), (limit_bytes < usize::MAX, 300));
            assert_eq!(all(late), expected);
        }
    }

    #[test]
    fn a_disk_that_is_full_is_an_error_that_names_it() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut late = Late::new(Some(full));
        late.limit_bytes = 0;
        let error = late.push(packet(1, 0, 5), &[5; 5]).unwrap_err().to_string();
        assert!(error.contains("temporary file") && error.contains("No space left"), "{error}");
    }
}
