//! Frames of ours, told from others' and from damaged ones: UDP datagrams to a port of ours that begin with a magic of
//! ours, have both checksums, and are filled up with a pattern. What the first bytes say is the business of `stamp` and
//! `mark`.

use crate::checksum;
use crate::udp::{
    ETHERTYPE_IPV4, IPV4_BYTES, MACS_BYTES, PROTOCOL_UDP, TAG_BYTES, TAGS_MAX, TPID_CUSTOMER, TPID_SERVICE,
    UDP_BYTES,
};

/// EtherType of IPv6.
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Bytes of an IPv6 header without extensions (RFC 8200).
const IPV6_BYTES: usize = 40;
/// Where the UDP payload begins in an untagged frame of IPv4.
pub(crate) const PAYLOAD_OFFSET: usize = MACS_BYTES + 2 + IPV4_BYTES + UDP_BYTES;

/// How frames of ours are known. Payload byte `i` behind the first `bytes` has the value `i mod 256`.
pub(crate) struct Kind {
    /// The UDP destination port.
    pub(crate) port: u16,
    /// The first two bytes of the UDP payload.
    pub(crate) magic: u16,
    /// Bytes of the payload, the magic among them, that have to be there.
    pub(crate) bytes: usize,
}

/// What a frame is.
pub(crate) enum Told<'a> {
    /// Somebody else's.
    Foreign,
    /// As it was sent: the UDP source port, and what of the payload was captured, `Kind::bytes` or more.
    Ours { stream: u16, payload: &'a [u8] },
    /// Ours, with other bytes or lengths than were sent, or cut too short to be told.
    Corrupt,
}

/// Tells what `frame` is: the captured bytes (perhaps cut by a snaplen) of a frame that had
/// `wire_len` bytes on the wire.
#[inline]
pub(crate) fn tell<'a>(frame: &'a [u8], wire_len: usize, kind: &Kind) -> Told<'a> {
    let Some(udp) = Datagram::find(frame, wire_len) else { return corrupt_if(resembles(frame, kind)) };
    if udp.port() == kind.port && udp.magic() == Some(kind.magic) {
        if udp.payload().len() >= kind.bytes && udp.is_intact() {
            Told::Ours { stream: udp.stream(), payload: udp.payload() }
        } else {
            Told::Corrupt
        }
    } else {
        corrupt_if(resembles(frame, kind) || udp.was_ours(kind))
    }
}

fn corrupt_if<'a>(damaged: bool) -> Told<'a> {
    if damaged { Told::Corrupt } else { Told::Foreign }
}

/// Port and magic stand where they would in a frame of ours, whatever the headers say.
fn resembles(frame: &[u8], kind: &Kind) -> bool {
    let is_ours = |magic| word(frame, magic) == Some(kind.magic) && word(frame, magic - 6) == Some(kind.port);
    (0..=TAGS_MAX).any(|tags| {
        let magic = PAYLOAD_OFFSET + tags * TAG_BYTES;
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
    fn was_ours(&self, kind: &Kind) -> bool {
        let (found, meant) = match (self.port(), self.magic()) {
            (port, Some(found)) if port == kind.port => (found, kind.magic),
            (port, None) if port == kind.port => return self.length >= UDP_BYTES + kind.bytes,
            (found, Some(magic)) if magic == kind.magic => (found, kind.port),
            _ => return false,
        };
        let restored = checksum::add(checksum::subtract(self.udp_sum(), found), meant);
        if self.has_checksum() && restored == 0xffff && self.lengths_agree() {
            return true;
        }
        // Somebody else's datagram to our port is whole; ours would be, but for the damage.
        let whole = !self.has_checksum() || self.udp.len() < self.length || self.udp_sum() == 0xffff;
        self.port() == kind.port && !whole
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pattern_sums_as_its_bytes_do(len in 0usize..3000) {
            let pattern: Vec<u8> = (0..len).map(|i| i as u8).collect();
            prop_assert_eq!(checksum::fold(pattern_sum(len)), checksum::sum(&pattern));
        }
    }
}
