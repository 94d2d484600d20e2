//! Encodes frames as records of a capture file, in any format, and writes them in whole records. It opens no file.
//!
//! A disk that is full, or a limit of the file's size, costs the records that do not fit, and no part of one: a write
//! that fails is repeated with half of its records, as long as some fit. So `out` keeps nothing of a write that fails,
//! or fails from then on.

use crate::error::SendError;
use quaff_file::write::Format;
use quaff_wire::Record;
use quaff_wire::linktype::ETHERNET;
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, Interface, Section};
use std::io::{self, ErrorKind, Write};

/// Most bytes of a write, unless a record is longer: with compression, those of a frame.
const PIECE_BYTES: usize = 1 << 20;

/// The encoded bytes that are not yet written.
pub(crate) struct FileRecords {
    format: Format,
    bytes: Vec<u8>,
    /// Ends of the records; empty for the header of the file.
    ends: Vec<usize>,
    /// Records written.
    pub(crate) written: u64,
}

impl FileRecords {
    /// Starts with the file header. `room` is the expected number of bytes between two writes.
    pub(crate) fn new(format: Format, room: usize) -> Self {
        let mut bytes = Vec::with_capacity(room);
        match format {
            Format::Pcap => bytes.extend(pcap::file_header(Resolution::Nanoseconds, 0, ETHERNET.linktype)),
            Format::PcapUs => bytes.extend(pcap::file_header(Resolution::Microseconds, 0, ETHERNET.linktype)),
            Format::Pcapng => {
                let userappl = concat!("quaff ", env!("CARGO_PKG_VERSION")).to_owned();
                pcapng::shb(&mut bytes, &Section { userappl, ..Section::default() });
                pcapng::idb(&mut bytes, &Interface { linktype: ETHERNET.linktype, ..Interface::default() });
            }
        }
        Self { format, bytes, ends: Vec::new(), written: 0 }
    }

    /// Returns `true` if the format can hold a time: the seconds of pcap have 32 bits, which end in 2106.
    pub(crate) fn takes(&self, time_ns: u64) -> bool {
        self.format == Format::Pcapng || time_ns / 1_000_000_000 <= u64::from(u32::MAX)
    }

    /// Appends a frame whose original length was `len`.
    pub(crate) fn push(&mut self, time_ns: u64, frame: &[u8], len: u32) {
        let record = Record { time_ns, bytes: frame, len, ..Record::default() };
        let at = self.bytes.len();
        let bytes = match self.format {
            Format::Pcapng => pcapng::epb_bytes(frame.len()),
            Format::Pcap | Format::PcapUs => pcap::record_bytes(frame.len()),
        };
        self.bytes.resize(at + bytes, 0);
        let room = &mut self.bytes[at..];
        let used = match self.format {
            Format::Pcapng => pcapng::epb(room, 0, &record),
            Format::Pcap => pcap::record(room, Resolution::Nanoseconds, &record),
            Format::PcapUs => pcap::record(room, Resolution::Microseconds, &record),
        };
        self.bytes.truncate(at + used);
        self.ends.push(at + used);
    }

    /// Bytes that are not yet written.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Writes everything, or as many records as fit before the error.
    pub(crate) fn put(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Self { bytes, ends, written, .. } = self;
        let put = match ends.last() {
            None => put_piece(out, bytes),
            Some(_) => put_records(out, bytes, ends, written),
        };
        bytes.clear();
        ends.clear();
        put
    }
}

fn put_records(out: &mut dyn Write, bytes: &[u8], ends: &[usize], written: &mut u64) -> io::Result<()> {
    let (mut start, mut rest) = (0, ends);
    while !rest.is_empty() {
        let count = rest.partition_point(|end| *end <= start + PIECE_BYTES).max(1);
        let (piece, after) = rest.split_at(count);
        put_what_fits(out, bytes, start, piece, written)?;
        (start, rest) = (piece[count - 1], after);
    }
    Ok(())
}

/// Writes the records from `start` on that end at `ends`; if there is no room for all of them, those that fit.
fn put_what_fits(
    out: &mut dyn Write,
    bytes: &[u8],
    start: usize,
    ends: &[usize],
    written: &mut u64,
) -> io::Result<()> {
    let Some(end) = ends.last() else { return Ok(()) };
    match put_piece(out, &bytes[start..*end]) {
        Ok(()) => {
            *written += ends.len() as u64;
            Ok(())
        }
        Err(error) if ends.len() > 1 && is_full(&error) => {
            let (first, second) = ends.split_at(ends.len() / 2);
            put_what_fits(out, bytes, start, first, written)?;
            put_what_fits(out, bytes, first[first.len() - 1], second, written)
        }
        Err(error) => Err(error),
    }
}

/// A flush ends a frame of a compressed file.
fn put_piece(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded)
}

/// The error of a file that ends after so many packets.
pub(crate) fn failed(name: &str, written: u64, errno: io::Error) -> SendError {
    let error = quaff_os::Error::new(format!("write more than {written} packets to {name}"), errno);
    let advice = "the packets before are complete in it";
    if error.errno.kind() == ErrorKind::FileTooLarge {
        let limit = "the file system or a limit (ulimit -f) allows no larger file";
        return error.advise(format!("{limit}, and {advice}")).into();
    }
    error.advise(advice).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaff_wire::decode::{Decoder, Item, Step};

    /// A file with room for so many bytes.
    struct Small {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.bytes.len() + bytes.len() > self.room {
                return Err(ErrorKind::FileTooLarge.into());
            }
            self.bytes.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn a_file_without_room_has_the_records_that_fit(
            lens in prop::collection::vec(1usize..3000, 1..60), room in 300usize..100_000, format in 0usize..3,
        ) {
            let format = [Format::Pcap, Format::PcapUs, Format::Pcapng][format];
            let mut records = FileRecords::new(format, 100);
            let mut out = Small { bytes: Vec::new(), room };
            records.put(&mut out).unwrap();
            let mut expected = out.bytes.len();
            let mut fitting = 0;
            for (number, len) in lens.iter().enumerate() {
                let before = records.waiting_bytes();
                records.push(number as u64, &vec![number as u8; *len], *len as u32);
                expected += records.waiting_bytes() - before;
                fitting += u64::from(expected <= room);
            }
            let put = records.put(&mut out);
            prop_assert_eq!((put.is_ok(), records.written), (fitting == lens.len() as u64, fitting));
            let (mut rest, mut decoder, mut found) = (&out.bytes[..], Decoder::default(), 0);
            while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
                if let Item::Frame(frame) = item {
                    prop_assert_eq!((frame.time_ns / 1000 * 1000, frame.data.len()), (0, lens[found as usize]));
                    found += 1;
                }
            }
            prop_assert_eq!((rest.len(), found), (0, fitting));
        }
    }
}
