//! Cache files of tcpprep: for each packet of a capture, the interface through which it is sent.
//!
//! The format of tcpprep 3 and 4 (file version 04): a header of 24 bytes in network byte order, a comment, and two bits
//! per packet, the first packet in the lowest bits: the upper bit means that it is sent, the lower one that it is sent
//! through the primary interface.

use crate::ParseError;

const MAGIC: &[u8; 8] = b"tcpprep\0";
const VERSION: u32 = 4;
const HEADER_BYTES: usize = 24;
const PACKETS_PER_BYTE: u16 = 4;

/// The interface through which a packet is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// The client's interface.
    Primary,
    /// The server's interface.
    Secondary,
    NotSent,
}

/// A cache file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Number of packets with an entry.
    pub packets: u64,
    assignments: Vec<u8>,
}

impl Cache {
    /// Parses a cache file.
    pub fn read(file: &[u8]) -> Result<Self, ParseError> {
        let short = |packet: u64| ParseError::new(format!("it ends before the entry of packet {packet}"));
        if !file.starts_with(MAGIC) {
            return Err(ParseError::new("it is not a tcpprep cache file"));
        }
        let header = file.first_chunk::<HEADER_BYTES>().ok_or_else(|| short(1))?;
        if version(&header[8..12]) != Some(VERSION) {
            return Err(ParseError::new("its version is not 04"));
        }
        let (packets, rest) = (be(&header[12..20]), &file[HEADER_BYTES..]);
        let packing = be(&header[20..22]) as u16;
        if packing != PACKETS_PER_BYTE {
            return Err(ParseError::new(format!("it has {packing} packets in a byte, not 4")));
        }
        if packets == 0 {
            return Err(ParseError::new("it has no packets"));
        }
        let assignments = rest.get(be(&header[22..24]) as usize..).ok_or_else(|| short(1))?;
        let bytes = packets.div_ceil(PACKETS_PER_BYTE.into());
        if (assignments.len() as u64) < bytes {
            return Err(short(assignments.len() as u64 * u64::from(PACKETS_PER_BYTE) + 1));
        }
        Ok(Self { packets, assignments: assignments[..bytes as usize].to_vec() })
    }

    /// The assignment of a packet, from 1; `None` after the last.
    pub fn side(&self, number: u64) -> Option<Assignment> {
        let place = number.checked_sub(1).filter(|place| *place < self.packets)?;
        let bits = self.assignments.get((place / 4) as usize)? >> (place % 4 * 2) & 3;
        Some(match bits {
            3 => Assignment::Primary,
            2 => Assignment::Secondary,
            _ => Assignment::NotSent,
        })
    }
}

/// Parses leading digits.
fn version(text: &[u8]) -> Option<u32> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by tcpprep 4.4.3 for eleven packets, of which 1, 4, 7 and 10 are a server's.
    const FILE: &[u8] = b"tcpprep\0\x30\x34\0\0\0\0\0\0\0\0\0\x0b\0\x04\0\x09-a client\xbe\xef\x3b";

    fn file(packets: u64, comment: &[u8], assignments: &[u8]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend(b"04\0\0");
        file.extend(packets.to_be_bytes());
        file.extend(4u16.to_be_bytes());
        file.extend((comment.len() as u16).to_be_bytes());
        file.extend(comment);
        file.extend(assignments);
        file
    }

    #[test]
    fn a_file_of_tcpprep_is_read() {
        let cache = Cache::read(FILE).unwrap();
        assert_eq!(cache.packets, 11);
        for number in 1..=11 {
            let side = if number % 3 == 1 { Assignment::Secondary } else { Assignment::Primary };
            assert_eq!(cache.side(number), Some(side), "packet {number}");
        }
        assert_eq!([cache.side(0), cache.side(12)], [None; 2]);
    }

    #[test]
    fn packets_that_are_not_sent() {
        // tcpprep --include=P:1-4 excludes the others.
        let cache = Cache::read(&file(11, b"", &[0xbe, 0, 0])).unwrap();
        assert_eq!((cache.side(4), cache.side(5)), (Some(Assignment::Secondary), Some(Assignment::NotSent)));
    }

    #[test]
    fn a_file_that_is_no_cache_is_refused() {
        let whole = file(9, b"comment", &[1, 2, 3]);
        assert!(Cache::read(&whole).is_ok());
        let error = |file: &[u8]| Cache::read(file).unwrap_err().to_string();
        assert_eq!(error(b"\xd4\xc3\xb2\xa1"), "it is not a tcpprep cache file");
        assert_eq!(error(&whole[..20]), "it ends before the entry of packet 1");
        assert_eq!(error(&whole[..28]), "it ends before the entry of packet 1");
        assert_eq!(error(&whole[..whole.len() - 1]), "it ends before the entry of packet 9");
        assert_eq!(error(&file(0, b"", &[])), "it has no packets");
        let changed = |at: usize, byte: u8| {
            let mut file = whole.clone();
            file[at] = byte;
            error(&file)
        };
        assert_eq!(changed(9, b'3'), "its version is not 04");
        assert_eq!(changed(21, 8), "it has 8 packets in a byte, not 4");
    }

    proptest! {
        #[test]
        fn each_packet_has_its_bits(assignments in prop::collection::vec(0u8..4, 1..100), comment in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = vec![0u8; assignments.len().div_ceil(4)];
            for (place, side) in assignments.iter().enumerate() {
                bytes[place / 4] |= side << (place % 4 * 2);
            }
            let cache = Cache::read(&file(assignments.len() as u64, &comment, &bytes)).unwrap();
            for (number, side) in (1..).zip(&assignments) {
                let expected = match side { 3 => Assignment::Primary, 2 => Assignment::Secondary, _ => Assignment::NotSent };
                prop_assert_eq!(cache.side(number), Some(expected));
            }
        }

        #[test]
        fn whatever_the_bytes_nothing_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Cache::read(&bytes);
            bytes.splice(..0, file(1000, b"", &[]));
            if let Ok(cache) = Cache::read(&bytes) {
                prop_assert!(cache.side(1000).is_some());
            }
        }
    }
}
