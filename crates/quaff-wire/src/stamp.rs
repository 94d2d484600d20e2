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

use crate::checksum;
use crate::udp::{
    ETHERTYPE_IPV4, IPV4_BYTES, MACS_BYTES, PROTOCOL_UDP, TAG_BYTES, TAGS_MAX, TPID_CUSTOMER, TPID_SERVICE,
    UDP_BYTES,
};

/// EtherType of IPv6.
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Bytes of an IPv6 header without extensions (RFC 8200).
const IPV6_BYTES: usize = 40;

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
    let Some(udp) = Datagram::find(frame, wire_len) else { return corrupt_if(resembles(frame)) };
    if udp.port() == PORT && udp.magic() == Some(MAGIC) {
        match Stamp::decode(udp.stream(), udp.payload()) {
            Some(stamp) if udp.is_intact() => Read::Stamp(stamp),
            _ => Read::Corrupt,
        }
    } else {
        corrupt_if(resembles(frame) || udp.was_ours())
    }
}

fn corrupt_if(damaged: bool) -> Read {
    if damaged { Read::Corrupt } else { Read::Foreign }
}

/// Port and magic stand where they would in a generated frame, whatever the headers say.
fn resembles(frame: &[u8]) -> bool {
    let is_ours = |magic| word(frame, magic) == Some(MAGIC) && word(frame, magic - 6) == Some(PORT);
    (0..=TAGS_MAX).any(|tags| {
        let magic = STAMP_OFFSET + tags * TAG_BYTES;
        is_ours(magic) || is_ours(magic + IPV6_BYTES - IPV4_BYTES)
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

/// A UDP datagram in a frame, found by its headers.
struct Datagram<'a> {
    /// The IPv4 or IPv6 header.
    ip: &'a [u8],
    /// UDP header and payload, as far as both the capture and the IP length reach.
    udp: &'a [u8],
    is_v4: bool,
    /// UDP length by the IP header: header and payload.
    length: usize,
    /// Bytes of it that were on the wire.
    on_wire: usize,
}

impl<'a> Datagram<'a> {
    /// An unfragmented UDP datagram whose header is in the captured bytes.
    fn find(frame: &'a [u8], wire_len: usize) -> Option<Self> {
        let mut at = MACS_BYTES;
        let mut ethertype = word(frame, at)?;
        for _ in 0..TAGS_MAX {
            if ethertype == TPID_CUSTOMER || ethertype == TPID_SERVICE {
                at += TAG_BYTES;
                ethertype = word(frame, at)?;
            }
        }
        let ip_offset = at + 2;
        let ip = frame.get(ip_offset..)?;
        let (header_bytes, length) = match ethertype {
            ETHERTYPE_IPV4 => udp_in_ipv4(ip)?,
            ETHERTYPE_IPV6 => udp_in_ipv6(ip)?,
            _ => return None,
        };
        let udp_offset = ip_offset + header_bytes;
        let udp = frame.get(udp_offset..).filter(|_| length >= UDP_BYTES)?;
        let on_wire = wire_len.max(frame.len()) - udp_offset;
        let udp = &udp[..udp.len().min(length)];
        let (ip, is_v4) = (&frame[ip_offset..udp_offset], ethertype == ETHERTYPE_IPV4);
        (udp.len() >= UDP_BYTES).then_some(Self { ip, udp, is_v4, length, on_wire })
    }

    fn stream(&self) -> u16 {
        u16::from_be_bytes([self.udp[0], self.udp[1]])
    }

    fn port(&self) -> u16 {
        u16::from_be_bytes([self.udp[2], self.udp[3]])
    }

    fn payload(&self) -> &'a [u8] {
        &self.udp[UDP_BYTES..]
    }

    fn magic(&self) -> Option<u16> {
        word(self.udp, UDP_BYTES)
    }

    /// The whole datagram was on the wire, and its lengths and both checksums agree.
    fn is_intact(&self) -> bool {
        self.lengths_agree() && self.has_checksum() && self.udp_sum() == 0xffff
    }

    fn lengths_agree(&self) -> bool {
        let udp_length = usize::from(u16::from_be_bytes([self.udp[4], self.udp[5]]));
        let has_good_header = !self.is_v4 || checksum::sum(self.ip) == 0xffff;
        udp_length == self.length && self.on_wire >= self.length && has_good_header
    }

    /// RFC 768: zero means that the sender made none.
    fn has_checksum(&self) -> bool {
        self.udp[6..8] != [0, 0]
    }

    /// The sum under the UDP checksum; bytes that a snaplen cut are taken from the pattern.
    fn udp_sum(&self) -> u16 {
        let addresses = if self.is_v4 { &self.ip[12..20] } else { &self.ip[8..40] };
        let pseudo = checksum::add(checksum::sum(addresses), u16::from(PROTOCOL_UDP));
        let pseudo = checksum::add(pseudo, self.length as u16);
        let cut = pattern_sum(self.length - UDP_BYTES) - pattern_sum(self.udp.len() - UDP_BYTES);
        checksum::add(checksum::add(pseudo, checksum::fold(cut)), checksum::sum(self.udp))
    }

    /// Only one of port and magic is ours: was the other one, and the frame, damaged under way?
    fn was_ours(&self) -> bool {
        let (found, meant) = match (self.port(), self.magic()) {
            (PORT, Some(found)) => (found, MAGIC),
            (PORT, None) => return self.length >= UDP_BYTES + STAMP_BYTES,
            (found, Some(MAGIC)) => (found, PORT),
            _ => return false,
        };
        let restored = checksum::add(checksum::subtract(self.udp_sum(), found), meant);
        if self.has_checksum() && restored == 0xffff && self.lengths_agree() {
            return true;
        }
        // Somebody else's datagram to our port is whole; ours would be, but for the damage.
        let whole = !self.has_checksum() || self.udp.len() < self.length || self.udp_sum() == 0xffff;
        self.port() == PORT && !whole
    }
}

/// Bytes of the header and of what follows it, of an IPv4 packet that is an unfragmented UDP datagram.
fn udp_in_ipv4(ip: &[u8]) -> Option<(usize, usize)> {
    let fixed = ip.first_chunk::<IPV4_BYTES>()?;
    let (version, header_bytes) = (fixed[0] >> 4, usize::from(fixed[0] & 0xf) * 4);
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff;
    if version != 4 || fragment != 0 || fixed[9] != PROTOCOL_UDP || header_bytes < IPV4_BYTES {
        return None;
    }
    let total_length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    Some((header_bytes, total_length.checked_sub(header_bytes)?))
}

/// The same of an IPv6 packet without extension headers.
fn udp_in_ipv6(ip: &[u8]) -> Option<(usize, usize)> {
    let fixed = ip.first_chunk::<IPV6_BYTES>()?;
    let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    (fixed[0] >> 4 == 6 && fixed[6] == PROTOCOL_UDP).then_some((IPV6_BYTES, length))
}

/// The sum of the big-endian words of a payload of `len` bytes whose byte `i` is `i mod 256`.
fn pattern_sum(len: usize) -> u64 {
    let (periods, rest) = ((len / 256) as u64, (len % 256) as u64);
    // The first n bytes hold ceil(n/2) even ones (high halves) and floor(n/2) odd ones (low halves);
    // the even ones sum to e(e-1), the odd ones to o*o.
    let sum = |n: u64| {
        let (even, odd) = (n.div_ceil(2), n / 2);
        ((even * even.saturating_sub(1)) << 8) + odd * odd
    };
    periods * sum(256) + sum(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Frame, Headers, Tag};
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

        #[test]
        fn the_pattern_sums_as_its_bytes_do(len in 0usize..3000) {
            let pattern: Vec<u8> = (0..len).map(|i| i as u8).collect();
            prop_assert_eq!(checksum::fold(pattern_sum(len)), checksum::sum(&pattern));
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
