//! The stamp in each generated frame, by which `verify` knows it again.
//!
//! A generated frame is Ethernet, IPv4 or IPv6, UDP; the stamp is the first [`STAMP_BYTES`] bytes of the
//! UDP payload, so that it fits the smallest frame (64 B without FCS = 14 + 20 + 8 + 22; 84 B in IPv6):
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 2 | magic, [`MAGIC`] |
//! | 2 | 8 | sequence number, from 0 |
//! | 10 | 8 | intended send time, ns since 1970 (UTC) |
//! | 18 | 4 | bit 31 [`LAST`], bit 30 [`BOUNDED`], bits 0-29: how much later than intended it was sent, ns (saturates at 1.07 s) |
//!
//! All integers are in network order. The stream id is the UDP source port, the destination port is
//! [`PORT`]; the checksum over stamp and stream id is the UDP checksum (RFC 768), which is never
//! zero here. Behind the stamp payload byte `i` has the value `i mod 256`, so that the checksum of
//! a frame that was cut by a snaplen can still be verified.
//!
//! [`read`] tells three kinds of frame apart. A flipped byte is noticed wherever a checksum covers
//! it, that is everywhere behind the EtherType; in the EtherType and in the TPID of a VLAN tag too,
//! because port and magic still stand where they must. The MAC addresses and the TCI of a tag have
//! no checksum of their own (the FCS is gone by then): a flip there stays unseen, as it does in class,
//! flow label and hop limit of IPv6.

use crate::datagram::{self, Kind, Told};

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 22;
/// The first two bytes of the UDP payload: "qu".
pub const MAGIC: u16 = 0x7175;
/// The UDP destination port of generated frames.
pub const PORT: u16 = 29045;
/// Where the stamp begins in an untagged frame: Ethernet 14, IPv4 20, UDP 8.
pub const STAMP_OFFSET: usize = 42;
/// The smallest frame that holds a stamp, without FCS.
pub const FRAME_BYTES_MIN: usize = STAMP_OFFSET + STAMP_BYTES;
/// Set on the last frame of a stream whose length was known from the start.
pub const LAST: u32 = 1 << 31;
/// Set on every frame of a stream whose length was known from the start.
pub const BOUNDED: u32 = 1 << 30;
/// The largest lateness that a stamp can tell, ns.
pub const LATE_NS_MAX: u32 = BOUNDED - 1;

/// How a stamped frame is known.
const KIND: Kind = Kind { port: PORT, magic: MAGIC, bytes: STAMP_BYTES };

/// What a stamp says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The stream id: the UDP source port, not a part of the stamp's own bytes.
    pub stream: u16,
    /// The sequence number, from 0.
    pub seq: u64,
    /// When the frame should have been sent, ns since 1970 (UTC).
    pub intended_ns: u64,
    /// How much later than that it was sent, ns; at most [`LATE_NS_MAX`].
    pub late_ns: u32,
    /// This is the last frame of a bounded stream.
    pub last: bool,
    /// The length of the stream was known from the start, so a frame with `last` must come.
    pub bounded: bool,
}

/// What [`read`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Not a generated frame.
    Foreign,
    /// A generated frame, as it was sent.
    Stamp(Stamp),
    /// A generated frame whose bytes or lengths are not those that were sent.
    Corrupt,
}

impl Stamp {
    /// The stamp's bytes, as the module's table has them.
    pub fn encode(&self) -> [u8; STAMP_BYTES] {
        let mut word = self.late_ns.min(LATE_NS_MAX);
        if self.last {
            word |= LAST;
        }
        if self.bounded {
            word |= BOUNDED;
        }
        let mut out = [0; STAMP_BYTES];
        out[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        out[2..10].copy_from_slice(&self.seq.to_be_bytes());
        out[10..18].copy_from_slice(&self.intended_ns.to_be_bytes());
        out[18..22].copy_from_slice(&word.to_be_bytes());
        out
    }

    /// The stamp in the first [`STAMP_BYTES`] of a UDP payload; `None` when the magic is not there.
    pub fn decode(stream: u16, payload: &[u8]) -> Option<Self> {
        let stamp = payload.first_chunk::<STAMP_BYTES>()?;
        let (magic, rest) = stamp.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let (intended, rest) = rest.split_first_chunk()?;
        let word = u32::from_be_bytes(*rest.first_chunk()?);
        (u16::from_be_bytes(*magic) == MAGIC).then_some(Self {
            stream,
            seq: u64::from_be_bytes(*seq),
            intended_ns: u64::from_be_bytes(*intended),
            late_ns: word & LATE_NS_MAX,
            last: word & LAST != 0,
            bounded: word & BOUNDED != 0,
        })
    }
}

/// Tells what `frame` is: the captured bytes (perhaps cut by a snaplen) of a frame that had
/// `wire_len` bytes on the wire.
///
/// Up to two VLAN tags, IP options and bytes behind the datagram (padding, an FCS) are accepted.
/// A frame that carries our port, but was cut before the end of its stamp, is [`Read::Corrupt`].
pub fn read(frame: &[u8], wire_len: usize) -> Read {
    match datagram::tell(frame, wire_len, &KIND) {
        Told::Foreign => Read::Foreign,
        Told::Corrupt => Read::Corrupt,
        Told::Ours { stream, payload } => Stamp::decode(stream, payload).map_or(Read::Corrupt, Read::Stamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::udp::{Frame, Headers, MACS_BYTES, TAG_BYTES, TAGS_MAX, TPID_CUSTOMER, TPID_SERVICE, Tag};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const STREAM: u16 = 4711;

    fn headers(tags: usize) -> Headers {
        let both = [Tag { tpid: TPID_SERVICE, tci: 100 }, Tag { tpid: TPID_CUSTOMER, tci: 0x2fff }];
        Headers {
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            tags: both[TAGS_MAX - tags..].to_vec(),
            src_ip: Ipv4Addr::new(198, 18, 0, 1),
            dst_ip: Ipv4Addr::new(198, 18, 0, 2),
            stream: STREAM,
        }
    }

    fn frame(tags: usize, frame_bytes: usize, stamp: &Stamp) -> Vec<u8> {
        let mut frame = Frame::new(&headers(tags), frame_bytes).unwrap();
        frame.set(stamp);
        frame.bytes().to_vec()
    }

    fn some_stamp() -> Stamp {
        Stamp {
            stream: STREAM,
            seq: 77,
            intended_ns: 1_800_000_000_123,
            late_ns: 5,
            last: false,
            bounded: true,
        }
    }

    /// Makes both checksums right again after a test has changed a header on purpose.
    fn repair(frame: &mut [u8], ip: usize) {
        frame[ip + 10..ip + 12].fill(0);
        let sum = !checksum::sum(&frame[ip..ip + 20]);
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        frame[ip + 26..ip + 28].fill(0);
        let pseudo = checksum::sum(&frame[ip + 12..ip + 20]);
        let length = (frame.len() - ip - 20) as u16;
        let pseudo = checksum::add(checksum::add(pseudo, 17), length);
        let sum = !checksum::add(pseudo, checksum::sum(&frame[ip + 20..]));
        frame[ip + 26..ip + 28].copy_from_slice(&sum.to_be_bytes());
    }

    fn stamps() -> impl Strategy<Value = Stamp> {
        (any::<u64>(), any::<u64>(), 0..=LATE_NS_MAX, any::<bool>(), any::<bool>()).prop_map(
            |(seq, intended_ns, late_ns, last, bounded)| Stamp {
                stream: STREAM,
                seq,
                intended_ns,
                late_ns,
                last,
                bounded,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(stamp in stamps(), tags in 0..=TAGS_MAX, size in 72usize..2000) {
            let frame = frame(tags, size, &stamp);
            prop_assert_eq!(read(&frame, size), Read::Stamp(stamp));
        }

        #[test]
        fn a_cut_frame_is_still_verified(
            stamp in stamps(), tags in 0..=TAGS_MAX, size in 72usize..2000, cut in 72usize..2000,
        ) {
            let whole = frame(tags, size, &stamp);
            let cut = &whole[..cut.min(size)];
            prop_assert_eq!(read(cut, size), Read::Stamp(stamp));
        }

        #[test]
        fn a_flipped_byte_is_noticed(
            stamp in stamps(), tags in 0..=TAGS_MAX, size in 72usize..300, at in 0usize..300, xor in 1u8..,
        ) {
            let mut frame = frame(tags, size, &stamp);
            let at = at % size;
            frame[at] ^= xor;
            let has_no_checksum = at < MACS_BYTES
                || (0..tags).any(|tag| (at - MACS_BYTES) / TAG_BYTES == tag && at % TAG_BYTES >= 2);
            // A service TPID and a customer TPID differ in both bytes: one flip never makes the other.
            let expected = if has_no_checksum { Read::Stamp(stamp) } else { Read::Corrupt };
            prop_assert_eq!(read(&frame, size), expected, "byte {} ^ {:#x}", at, xor);
        }

        #[test]
        fn a_frame_that_lost_its_end_is_corrupt(stamp in stamps(), size in 72usize..300, lost in 1usize..200) {
            let whole = frame(0, size, &stamp);
            let left = (size - lost.min(size - 42)).max(42);
            prop_assert_eq!(read(&whole[..left], left), Read::Corrupt);
        }

        #[test]
        fn noise_is_foreign_and_never_panics(
            noise in prop::collection::vec(any::<u8>(), 0..200), wire_len in 0usize..300,
        ) {
            prop_assert_eq!(read(&noise, wire_len), Read::Foreign);
        }

        #[test]
        fn half_noise_never_panics(
            stamp in stamps(), noise in prop::collection::vec((0usize..90, any::<u8>()), 0..8),
            len in 0usize..90, wire_len in 0usize..300,
        ) {
            let mut frame = frame(1, 90, &stamp);
            for (at, byte) in noise {
                frame[at] = byte;
            }
            read(&frame[..len], wire_len);
        }
    }

    #[test]
    fn the_table_of_the_module() {
        let stamp = Stamp { last: true, ..some_stamp() };
        let bytes = stamp.encode();
        assert_eq!(&bytes[..2], b"qu");
        assert_eq!(bytes[2..10], 77u64.to_be_bytes());
        assert_eq!(bytes[10..18], 1_800_000_000_123u64.to_be_bytes());
        assert_eq!(bytes[18..22], (0xc000_0000u32 | 5).to_be_bytes());
        let late = Stamp { late_ns: u32::MAX, ..stamp };
        assert_eq!(Stamp::decode(STREAM, &late.encode()).unwrap().late_ns, LATE_NS_MAX);
    }

    #[test]
    fn bytes_behind_the_datagram_are_not_ours() {
        let mut bytes = frame(0, 64, &some_stamp());
        bytes.extend([0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(read(&bytes, 68), Read::Stamp(some_stamp()));
        assert_eq!(read(&bytes[..64], 68), Read::Stamp(some_stamp()));
    }

    #[test]
    fn ip_options_are_accepted() {
        let plain = frame(0, 100, &some_stamp());
        let mut bytes = plain[..34].to_vec();
        bytes.extend([1, 1, 1, 0]);
        bytes.extend(&plain[34..]);
        bytes[14] = 0x46;
        bytes[16..18].copy_from_slice(&90u16.to_be_bytes());
        bytes[24..26].fill(0);
        let sum = !checksum::sum(&bytes[14..38]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(read(&bytes, 104), Read::Stamp(some_stamp()));
    }

    #[test]
    fn other_peoples_datagrams_are_foreign() {
        let ours = frame(0, 200, &some_stamp());
        let changed = |at: usize, word: u16| {
            let mut bytes = ours.clone();
            bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
            repair(&mut bytes, 14);
            bytes
        };
        assert_eq!(read(&changed(36, 53), 200), Read::Foreign, "another port");
        let other_magic = changed(42, 0x7176);
        assert_eq!(read(&other_magic, 200), Read::Foreign, "another magic");
        assert_eq!(read(&other_magic[..80], 200), Read::Foreign, "another magic, cut");
        let mut unsummed = other_magic;
        unsummed[40..42].fill(0);
        assert_eq!(read(&unsummed, 200), Read::Foreign, "another magic, no checksum");
        let mut tcp = ours.clone();
        tcp[23] = 6;
        tcp[42] = 0;
        assert_eq!(read(&tcp, 200), Read::Foreign, "another protocol");
    }

    #[test]
    fn damage_is_corrupt() {
        let ours = frame(0, 200, &some_stamp());
        let mut unsummed = ours.clone();
        unsummed[40..42].fill(0);
        assert_eq!(read(&unsummed, 200), Read::Corrupt, "no checksum");
        let mut fragment = ours.clone();
        fragment[20] = 0x20;
        assert_eq!(read(&fragment, 200), Read::Corrupt, "a fragment");
        assert_eq!(read(&ours[..60], 200), Read::Corrupt, "cut inside the stamp");
        assert_eq!(read(&ours[..42], 200), Read::Corrupt, "cut before the stamp");
        assert_eq!(read(&ours[..41], 200), Read::Foreign, "cut before the payload can be told");
        let mut garbled = ours;
        garbled[42..].fill(0x55);
        assert_eq!(read(&garbled, 200), Read::Corrupt, "our port, all else gone");
    }
}
