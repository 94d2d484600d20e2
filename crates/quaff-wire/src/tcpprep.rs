//! Cache files of tcpprep: for each packet of a capture, which of two interfaces it leaves by.
//!
//! As tcpprep 3 and 4 write them (file version 04): a header of 24 bytes in network order, a comment,
//! and two bits a packet, the first packet in the lowest bits: the upper one says that it is sent, the
//! lower one that it leaves by the primary interface.

use thiserror::Error;

const MAGIC: &[u8; 8] = b"tcpprep\0";
const VERSION: u32 = 4;
const HEADER_BYTES: usize = 24;
const PACKETS_PER_BYTE: u16 = 4;

/// The interface that a packet leaves by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// From the client.
    Primary,
    /// From the server.
    Secondary,
    NotSent,
}

/// The reason why a file is no cache file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CacheError {
    /// The first bytes are others.
    #[error("it is not a tcpprep cache file")]
    Magic,
    /// Another version of the format.
    #[error("its version is not 04")]
    Version,
    /// So many packets in a byte.
    #[error("it has {0} packets in a byte, not 4")]
    Packing(u16),
    /// There are no packets in it.
    #[error("it has no packets")]
    Empty,
    /// It ends too early.
    #[error("it ends before the entry of packet {0}")]
    Short(u64),
}

/// A cache file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    packets: u64,
    comment: Vec<u8>,
    assignments: Vec<u8>,
}

impl Cache {
    /// Reads the bytes of a file.
    pub fn read(file: &[u8]) -> Result<Self, CacheError> {
        if !file.starts_with(MAGIC) {
            return Err(CacheError::Magic);
        }
        let header = file.first_chunk::<HEADER_BYTES>().ok_or(CacheError::Short(1))?;
        if version(&header[8..12]) != Some(VERSION) {
            return Err(CacheError::Version);
        }
        let (packets, rest) = (be(&header[12..20]), &file[HEADER_BYTES..]);
        let packing = be(&header[20..22]) as u16;
        if packing != PACKETS_PER_BYTE {
            return Err(CacheError::Packing(packing));
        }
        if packets == 0 {
            return Err(CacheError::Empty);
        }
        let (comment, assignments) =
            rest.split_at_checked(be(&header[22..24]) as usize).ok_or(CacheError::Short(1))?;
        let bytes = packets.div_ceil(PACKETS_PER_BYTE.into());
        if (assignments.len() as u64) < bytes {
            return Err(CacheError::Short(assignments.len() as u64 * u64::from(PACKETS_PER_BYTE) + 1));
        }
        Ok(Self { packets, comment: comment.to_vec(), assignments: assignments[..bytes as usize].to_vec() })
    }

    /// The number of packets that it has an entry for.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The options that tcpprep was called with.
    pub fn comment(&self) -> &[u8] {
        &self.comment
    }

    /// The assignment of a packet, counted from 1; `None` after the last.
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

/// Digits, as far as they go.
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

    /// As tcpprep 4.4.3 wrote it for eleven packets, of which 1, 4, 7 and 10 are a server's.
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
        assert_eq!((cache.packets(), cache.comment()), (11, &b"-a client"[..]));
        for number in 1..=11 {
            let side = if number % 3 == 1 { Assignment::Secondary } else { Assignment::Primary };
            assert_eq!(cache.side(number), Some(side), "packet {number}");
        }
        assert_eq!([cache.side(0), cache.side(12)], [None; 2]);
    }

    #[test]
    fn packets_that_are_not_sent() {
        // tcpprep --include=P:1-4 left these out.
        let cache = Cache::read(&file(11, b"", &[0xbe, 0, 0])).unwrap();
        assert_eq!((cache.side(4), cache.side(5)), (Some(Assignment::Secondary), Some(Assignment::NotSent)));
    }

    #[test]
    fn what_is_no_cache_is_refused() {
        let whole = file(9, b"comment", &[1, 2, 3]);
        assert!(Cache::read(&whole).is_ok());
        assert_eq!(Cache::read(b"\xd4\xc3\xb2\xa1"), Err(CacheError::Magic));
        assert_eq!(Cache::read(&whole[..20]), Err(CacheError::Short(1)));
        assert_eq!(Cache::read(&whole[..28]), Err(CacheError::Short(1)));
        assert_eq!(Cache::read(&whole[..whole.len() - 1]), Err(CacheError::Short(9)));
        assert_eq!(Cache::read(&file(0, b"", &[])), Err(CacheError::Empty));
        let changed = |at: usize, byte: u8| {
            let mut file = whole.clone();
            file[at] = byte;
            Cache::read(&file)
        };
        assert_eq!(changed(9, b'3'), Err(CacheError::Version));
        assert_eq!(changed(21, 8), Err(CacheError::Packing(8)));
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
