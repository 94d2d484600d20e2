//! Classifies frames that may carry a probe header: UDP datagrams to quaff's port that start with quaff's magic, have
//! both checksums, and are filled with a pattern. The contents of the probe header are read elsewhere.
//!
//! A flipped byte is detected wherever a checksum covers it, that is everywhere after the EtherType; also in the
//! EtherType and in the TPID of a VLAN tag, because port and magic are still in place. The MAC addresses and the TCI of
//! a tag have no checksum (the FCS is gone by then): a flip there goes undetected, as in class, flow label and hop
//! limit of IPv6.

use super::outer::TAGS_MAX;
use crate::checksum;
use crate::net::ipv4::{IPV4_BYTES, Ipv4};
use crate::net::ipv6::{IPV6_BYTES, Ipv6};
use crate::net::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, MACS_BYTES, TAG_BYTES, TPID_CUSTOMER, TPID_SERVICE, UDP, UDP_BYTES, be16,
    link,
};

/// Offset of the UDP payload, which starts with the probe header, in an untagged IPv4 frame.
pub const PAYLOAD_OFFSET: usize = MACS_BYTES + 2 + IPV4_BYTES + UDP_BYTES;

/// The layout of a kind of probe header. It starts the UDP payload; byte `i` of the payload after it is `i mod 256`.
#[derive(Debug)]
pub struct ProbeLayout {
    /// UDP destination port.
    pub port: u16,
    /// First two bytes of the header.
    pub magic: u16,
    /// Length of the header, bytes.
    pub bytes: usize,
    /// Smallest untagged frame that carries it, bytes without FCS.
    pub frame_bytes_min: usize,
}

/// The class of a frame, with its probe header `H`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classified<H> {
    /// No probe header of this layout.
    Foreign,
    /// A probe header, unchanged since it was sent.
    Intact(H),
    /// A probe header, but changed bytes or lengths, or truncated too much to tell.
    Corrupt,
}

/// The UDP payload of an intact frame.
pub(super) struct Payload<'a> {
    /// UDP source port.
    pub(super) stream: u16,
    /// As far as captured; at least [`ProbeLayout::bytes`].
    pub(super) bytes: &'a [u8],
}

/// Classifies `frame`, the captured bytes, perhaps cut by a snaplen, of a frame with `wire_len` bytes on the wire.
#[inline]
pub(super) fn classify_payload<H>(
    frame: &[u8],
    wire_len: usize,
    layout: &ProbeLayout,
    decode: impl FnOnce(Payload<'_>) -> Option<H>,
) -> Classified<H> {
    if is_plainly_foreign(frame, layout) {
        return Classified::Foreign;
    }
    classify_any(frame, wire_len, layout, decode)
}

fn classify_any<H>(
    frame: &[u8],
    wire_len: usize,
    layout: &ProbeLayout,
    decode: impl FnOnce(Payload<'_>) -> Option<H>,
) -> Classified<H> {
    let Some(udp) = Datagram::find(frame, wire_len) else { return corrupt_if(resembles(frame, layout)) };
    if udp.port() != layout.port || udp.magic() != Some(layout.magic) {
        return corrupt_if(resembles(frame, layout) || udp.was_ours(layout));
    }
    if udp.payload().len() < layout.bytes || !udp.is_intact() {
        return Classified::Corrupt;
    }
    decode(Payload { stream: udp.stream(), bytes: udp.payload() })
        .map_or(Classified::Corrupt, Classified::Intact)
}

fn corrupt_if<H>(damaged: bool) -> Classified<H> {
    if damaged { Classified::Corrupt } else { Classified::Foreign }
}

/// Possible offsets of a magic: without and with tags, in IPv4 and in IPv6.
const MAGIC_OFFSETS: [usize; 2 * (TAGS_MAX + 1)] = {
    let mut offsets = [0; 2 * (TAGS_MAX + 1)];
    let mut tags = 0;
    while tags <= TAGS_MAX {
        offsets[2 * tags] = PAYLOAD_OFFSET + tags * TAG_BYTES;
        offsets[2 * tags + 1] = offsets[2 * tags] + IPV6_BYTES - IPV4_BYTES;
        tags += 1;
    }
    offsets
};

/// A fast test that recognises nearly all foreign frames: true only if [`classify_any`] would return foreign, for
/// untagged IP without options, with neither quaff's port nor its magic in place.
#[inline]
fn is_plainly_foreign(frame: &[u8], layout: &ProbeLayout) -> bool {
    const IP: usize = MACS_BYTES + 2;
    const HEADERS_BYTES: usize = MAGIC_OFFSETS[MAGIC_OFFSETS.len() - 1] + 2;
    let Some(head) = frame.first_chunk::<{ PAYLOAD_OFFSET + 2 }>() else { return false };
    let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (is_udp, port) = match half(MACS_BYTES) {
        ETHERTYPE_IPV4 if head[IP] == 0x45 => (head[IP + 9] == UDP, Some(half(PAYLOAD_OFFSET - 6))),
        ETHERTYPE_IPV6 => (head[IP + 6] == UDP, be16(frame, IP + IPV6_BYTES + 2)),
        _ => return false,
    };
    if is_udp && port == Some(layout.port) {
        return false;
    }
    match frame.first_chunk::<HEADERS_BYTES>() {
        Some(head) => MAGIC_OFFSETS.iter().all(|at| [head[*at], head[*at + 1]] != layout.magic.to_be_bytes()),
        None => MAGIC_OFFSETS.iter().all(|at| be16(frame, *at) != Some(layout.magic)),
    }
}

/// True if port and magic are in place, whatever the headers contain.
fn resembles(frame: &[u8], layout: &ProbeLayout) -> bool {
    let is_ours =
        |magic| be16(frame, magic) == Some(layout.magic) && be16(frame, magic - 6) == Some(layout.port);
    (0..=TAGS_MAX).any(|tags| {
        let magic = PAYLOAD_OFFSET + tags * TAG_BYTES;
        is_ours(magic) || is_ours(magic + IPV6_BYTES - IPV4_BYTES)
    })
}

/// A UDP datagram in a frame, found by its headers.
struct Datagram<'a> {
    /// The IPv4 or IPv6 header.
    ip: &'a [u8],
    /// UDP header and payload, as far as both the capture and the IP length reach.
    udp: &'a [u8],
    is_v4: bool,
    /// Length of UDP header and payload according to the IP header.
    length: usize,
    /// Bytes of it that were on the wire.
    on_wire: usize,
}

impl<'a> Datagram<'a> {
    /// Finds an unfragmented UDP datagram whose header was captured.
    #[inline]
    fn find(frame: &'a [u8], wire_len: usize) -> Option<Self> {
        let network = link::ethernet(frame)?;
        // Only the TPIDs that the generator writes: another one means a damaged frame of ours.
        let has_our_tags = (0..network.tags).all(|tag| {
            matches!(be16(frame, MACS_BYTES + tag * TAG_BYTES), Some(TPID_CUSTOMER | TPID_SERVICE))
        });
        if network.tags > TAGS_MAX || !has_our_tags {
            return None;
        }
        let (ethertype, ip_offset) = (network.ethertype, network.offset);
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
        be16(self.udp, UDP_BYTES)
    }

    /// True if the whole datagram was on the wire, and its lengths and both checksums agree.
    fn is_intact(&self) -> bool {
        self.lengths_agree() && self.has_checksum() && self.udp_sum() == 0xffff
    }

    fn lengths_agree(&self) -> bool {
        let udp_length = usize::from(u16::from_be_bytes([self.udp[4], self.udp[5]]));
        let has_good_header = !self.is_v4 || checksum::sum(self.ip) == 0xffff;
        udp_length == self.length && self.on_wire >= self.length && has_good_header
    }

    /// RFC 768: zero means no checksum.
    fn has_checksum(&self) -> bool {
        self.udp[6..8] != [0, 0]
    }

    /// The sum for the UDP checksum; bytes that a snaplen cut off are taken from the pattern.
    fn udp_sum(&self) -> u16 {
        let addresses = if self.is_v4 { &self.ip[12..20] } else { &self.ip[8..40] };
        let words = addresses.chunks_exact(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])));
        let pseudo = checksum::fold(words.sum::<u64>() + u64::from(UDP) + self.length as u64);
        let cut = pattern_sum(self.length - UDP_BYTES) - pattern_sum(self.udp.len() - UDP_BYTES);
        checksum::add(checksum::add(pseudo, checksum::fold(cut)), checksum::sum(self.udp))
    }

    /// True if only one of port and magic is ours because the other one was damaged in transit.
    fn was_ours(&self, layout: &ProbeLayout) -> bool {
        let (found, meant) = match (self.port(), self.magic()) {
            (port, Some(found)) if port == layout.port => (found, layout.magic),
            (port, None) if port == layout.port => return self.length >= UDP_BYTES + layout.bytes,
            (found, Some(magic)) if magic == layout.magic => (found, layout.port),
            _ => return false,
        };
        let restored = checksum::add(checksum::subtract(self.udp_sum(), found), meant);
        if self.has_checksum() && restored == 0xffff && self.lengths_agree() {
            return true;
        }
        // A foreign datagram to our port is intact; ours is not, because of the damage.
        let whole = !self.has_checksum() || self.udp.len() < self.length || self.udp_sum() == 0xffff;
        self.port() == layout.port && !whole
    }
}

/// Length of header and payload of an IPv4 packet that is an unfragmented UDP datagram.
fn udp_in_ipv4(ip: &[u8]) -> Option<(usize, usize)> {
    let header = Ipv4::new(ip)?;
    let header_bytes = header.header_bytes();
    if !header.is_v4() || header.fragment().is_some() || header.protocol() != UDP || header_bytes < IPV4_BYTES
    {
        return None;
    }
    Some((header_bytes, usize::from(header.total_bytes()).checked_sub(header_bytes)?))
}

/// The same for an IPv6 packet without extension headers.
fn udp_in_ipv6(ip: &[u8]) -> Option<(usize, usize)> {
    let header = Ipv6::new(ip)?;
    (header.is_v6() && header.next_header() == UDP).then(|| (IPV6_BYTES, header.payload_bytes().into()))
}

/// The sum of the big-endian words of a payload of `len` bytes whose byte `i` is `i mod 256`.
fn pattern_sum(len: usize) -> u64 {
    let (periods, rest) = ((len / 256) as u64, (len % 256) as u64);
    // The first n bytes hold ceil(n/2) even values (high halves) and floor(n/2) odd values (low halves); the even ones
    // sum to e(e-1), the odd ones to o*o.
    let sum = |n: u64| {
        let (even, odd) = (n.div_ceil(2), n / 2);
        ((even * even.saturating_sub(1)) << 8) + odd * odd
    };
    periods * sum(256) + sum(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAYOUT: ProbeLayout =
        ProbeLayout { port: 0x0102, magic: 0x0102, bytes: 4, frame_bytes_min: PAYLOAD_OFFSET + 4 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Headers with a few changed bytes, often to bytes of port and magic, in frames truncated anywhere.
        #[test]
        fn a_frame_that_is_foreign_at_sight_is_foreign(
            is_v6: bool,
            is_udp: bool,
            tags in 0usize..4,
            changes in prop::collection::vec((0usize..90, prop_oneof![Just(0), Just(1), Just(2), any::<u8>()]), 0..8),
            words in prop::collection::vec(0usize..45, 0..4),
            length in 0usize..90,
        ) {
            let mut frame = vec![9; MACS_BYTES];
            (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 7]));
            let protocol = if is_udp { UDP } else { 6 };
            if is_v6 {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 30, protocol, 64]);
                frame.extend([3; 32]);
            } else {
                frame.extend([8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, protocol, 1, 2, 1, 1, 1, 1, 3, 3, 3, 3]);
            }
            frame.extend([7, 7, 5, 5, 0, 30, 1, 1]);
            frame.resize(90, 4);
            changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
            words.iter().for_each(|at| frame[2 * at..2 * at + 2].copy_from_slice(&[1, 2]));
            frame.truncate(length);
            if is_plainly_foreign(&frame, &LAYOUT) {
                let slowly = classify_any(&frame, length, &LAYOUT, |_| Some(()));
                prop_assert_eq!(slowly, Classified::Foreign);
            }
        }

        #[test]
        fn the_pattern_sums_as_its_bytes_do(len in 0usize..3000) {
            let pattern: Vec<u8> = (0..len).map(|i| i as u8).collect();
            prop_assert_eq!(checksum::fold(pattern_sum(len)), checksum::sum(&pattern));
        }
    }
}
