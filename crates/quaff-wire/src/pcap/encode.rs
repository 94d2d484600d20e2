//! Encodes pcap into memory of the caller (draft-ietf-opsawg-pcap), for tools that do not read pcapng.

use super::layout::{FCS_IS_KNOWN, FCS_WORDS_SHIFT};
use super::*;
use crate::record::{self, Append, Record, Room};

/// The timestamp unit of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// ns; readers since about 2013 support it.
    Nanoseconds,
    /// µs; every reader supports it. Timestamps are truncated.
    Microseconds,
}

/// The file header for packets of one LINKTYPE_*.
pub fn file_header(resolution: Resolution, snaplen: u32, linktype: u16) -> [u8; FILE_HEADER_BYTES] {
    let magic = match resolution {
        Resolution::Nanoseconds => MAGIC_NANOSECONDS,
        Resolution::Microseconds => MAGIC_MICROSECONDS,
    };
    let mut header = [0; FILE_HEADER_BYTES];
    header[0..4].copy_from_slice(&magic.to_ne_bytes());
    header[4..6].copy_from_slice(&VERSION_MAJOR.to_ne_bytes());
    header[6..8].copy_from_slice(&VERSION_MINOR.to_ne_bytes());
    header[16..20].copy_from_slice(&snaplen.to_ne_bytes());
    header[20..24].copy_from_slice(&u32::from(linktype).to_ne_bytes());
    header
}

/// Sets the length of the frame check sequence of each packet in a file header. `fcs_len` is in bits; values below 16
/// are bytes, as some programs write in pcapng.
pub fn set_fcs_len(header: &mut [u8; FILE_HEADER_BYTES], fcs_len: u8) {
    let words = u32::from(if fcs_len < 16 { fcs_len / 2 } else { fcs_len / 16 });
    let [.., a, b, c, d] = *header;
    let network = u32::from_ne_bytes([a, b, c, d]) | FCS_IS_KNOWN | words << FCS_WORDS_SHIFT;
    header[20..24].copy_from_slice(&network.to_ne_bytes());
}

/// Number of bytes that [`record`] writes for a packet of `captured` bytes.
pub const fn record_bytes(captured: usize) -> usize {
    RECORD_HEADER_BYTES + captured
}

/// Writes a packet like [`append_record`], at the start of `out`. Returns its length.
#[inline]
pub fn record(out: &mut [u8], resolution: Resolution, record: &Record<'_>) -> usize {
    let mut room = Room { out, len: 0 };
    append_record(&mut room, resolution, record);
    room.len
}

/// Appends a packet with its header. `out` must have room for [`record_bytes`].
#[inline(always)]
pub fn append_record(out: &mut impl Append, resolution: Resolution, record: &Record<'_>) {
    let fraction = match resolution {
        Resolution::Nanoseconds => record.time_ns % 1_000_000_000,
        Resolution::Microseconds => record.time_ns % 1_000_000_000 / 1000,
    };
    let captured = record.captured();
    let head = out.take(RECORD_HEADER_BYTES);
    head[0..4].copy_from_slice(&((record.time_ns / 1_000_000_000) as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&(fraction as u32).to_ne_bytes());
    head[8..12].copy_from_slice(&(captured as u32).to_ne_bytes());
    head[12..16].copy_from_slice(&record.wire_len().to_ne_bytes());
    record::append(out, record, captured);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_both_resolutions() {
        let packet = Record { time_ns: 5_123_456_789, bytes: &[9; 60], len: 60, ..Record::default() };
        for (resolution, fraction) in
            [(Resolution::Nanoseconds, 123_456_789u32), (Resolution::Microseconds, 123_456)]
        {
            let mut out = [0; 100];
            assert_eq!(record(&mut out, resolution, &packet), record_bytes(60));
            assert_eq!(out[0..4], 5u32.to_ne_bytes());
            assert_eq!(out[4..8], fraction.to_ne_bytes());
            assert_eq!(out[8..12], 60u32.to_ne_bytes());
            assert_eq!(out[16..76], [9; 60]);
        }
    }
}
