//! The ClientHello of QUIC: the keys of Initial packets are derived from the connection ID in them (RFC 9001,
//! section 5.2; RFC 9369, section 3.3), so anyone on the path can read them.
//!
//! Decrypts a few packets of a flow in the order of arrival, and reassembles CRYPTO frames up to a limit; repeated
//! bytes count once. Nothing else of QUIC is followed. Anyone can forge packets that look like a client's, so a meter's
//! decryptions per second are limited, and skipped packets are counted.

use super::Application;
use quaff_wire::application::{FieldReader, tls};
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, Version};

/// Maximum decryptions per flow: a ClientHello takes two or three Initial packets, and some may be repeated.
const PACKETS_MAX: u8 = 8;
/// Maximum decryptions of a meter per second of packet time, and in one burst: a few percent of a core.
const TRIES_PER_SECOND: u64 = 10_000;
/// Packet time per decryption, ns.
const TRY_NS: u64 = 1_000_000_000 / TRIES_PER_SECOND;
/// Minimum length of a client's datagram with an Initial packet (RFC 9000, section 14.1): servers drop shorter ones.
const DATAGRAM_BYTES_MIN: usize = 1200;
/// Longer packets are not decrypted: an Initial packet fits into a frame.
const PACKET_BYTES_MAX: usize = 4096;
/// Maximum reassembled bytes of CRYPTO frames, a multiple of 64: what other flows keep for their application.
pub(super) const CRYPTO_BYTES: usize = 3520;
/// The longest connection ID (RFC 9000, section 17.2), and the shortest of a first packet (section 7.2).
const ID_BYTES_MAX: usize = 20;
const FIRST_ID_BYTES: usize = 8;
/// Length of the sample for header protection, and maximum length of a packet number (RFC 9001, section 5.4.2).
const SAMPLE_BYTES: usize = 16;
const NUMBER_BYTES_MAX: usize = 4;

/// True if a datagram begins with a long header of a known version (RFC 9000, section 17.2).
pub(super) fn is_long(bytes: &[u8]) -> bool {
    let Some((header, _)) = bytes.split_first_chunk::<6>() else { return false };
    header[0] & 0xc0 == 0xc0 && version(&header[1..5]).is_some() && usize::from(header[5]) <= ID_BYTES_MAX
}

/// Versions 1 and 2, and drafts of version 1; the last two drafts use the keys of version 1.
fn version(bytes: &[u8]) -> Option<Version> {
    match bytes {
        [0, 0, 0, 1] | [0xff, 0, 0, 33 | 34] => Some(Version::V1),
        [0x6b, 0x33, 0x43, 0xcf] => Some(Version::V2),
        [0xff, 0, 0, 29..=32] => Some(Version::V1Draft),
        _ => None,
    }
}

/// The type of a packet with a long header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Initial,
    /// 0-RTT or Handshake, which need other keys.
    Other,
    Retry,
}

impl Kind {
    fn new(first: usize, version: Version) -> Self {
        // Version 2 numbers the types differently (RFC 9369, section 3.2).
        let initial = if matches!(version, Version::V2) { 1 } else { 0 };
        match (first >> 4 & 3).wrapping_sub(initial) & 3 {
            0 => Self::Initial,
            3 => Self::Retry,
            _ => Self::Other,
        }
    }
}

/// One packet with a long header.
struct LongPacket<'a> {
    version: Version,
    kind: Kind,
    /// Destination connection ID.
    id: &'a [u8],
    /// The packet without the rest of the datagram, and the offset of its packet number.
    bytes: &'a [u8],
    number_at: usize,
}

impl<'a> LongPacket<'a> {
    /// Splits the first packet off a datagram.
    fn split(datagram: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut reader = FieldReader(datagram);
        let first = reader.number(1).filter(|first| first & 0xc0 == 0xc0)?;
        let version = version(reader.take(4)?)?;
        let id = reader.whole_vector(1).filter(|id| id.len() <= ID_BYTES_MAX)?;
        reader.whole_vector(1).filter(|id| id.len() <= ID_BYTES_MAX)?;
        let kind = Kind::new(first, version);
        match kind {
            Kind::Retry => return None,
            Kind::Initial => {
                let token_bytes = reader.variable()?;
                reader.take(token_bytes)?;
            }
            Kind::Other => {}
        }
        let length = reader.variable()?;
        let number_at = datagram.len() - reader.0.len();
        let (bytes, rest) = datagram.split_at_checked(number_at.checked_add(length)?)?;
        Some((Self { version, kind, id, bytes, number_at }, rest))
    }

    /// Decrypts a client's packet with the keys derived from a connection ID; `None` if these are not its keys.
    fn open<'s>(&self, id: &[u8], scratch: &'s mut Vec<u8>) -> Option<&'s [u8]> {
        let number_at = self.number_at;
        let sample_at = number_at + NUMBER_BYTES_MAX;
        let sample: [u8; SAMPLE_BYTES] = self.bytes.get(sample_at..)?.first_chunk().copied()?;
        if self.bytes.len() > PACKET_BYTES_MAX {
            return None;
        }
        let keys = client_keys(self.version, id)?;
        scratch.clear();
        scratch.extend_from_slice(self.bytes);
        let (header, rest) = scratch.split_at_mut(number_at);
        let number = rest.get_mut(..NUMBER_BYTES_MAX)?;
        keys.header.decrypt_in_place(&sample, header.first_mut()?, number).ok()?;
        let number_bytes = usize::from(header[0] & 3) + 1;
        // The packet numbers of the first packets are not truncated.
        let number = number[..number_bytes].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (header, payload) = scratch.split_at_mut(number_at + number_bytes);
        keys.packet.decrypt_in_place(number, header, payload).ok()
    }
}

/// The keys of packets from a client to a connection ID.
fn client_keys(version: Version, id: &[u8]) -> Option<DirectionalKeys> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()?;
    Some(suite.keys(id, Side::Server, version).remote)
}

/// The decryption buffer and the remaining decryptions of a meter, shared by its flows.
#[derive(Debug)]
pub(crate) struct Decrypter {
    scratch: Vec<u8>,
    /// Decryptions allowed now, by the packet time up to `until_ns`.
    tries: u64,
    until_ns: u64,
    /// Initial packets not decrypted because of a limit.
    skipped: u64,
}

impl Default for Decrypter {
    fn default() -> Self {
        Self { scratch: Vec::new(), tries: TRIES_PER_SECOND, until_ns: 0, skipped: 0 }
    }
}

impl Decrypter {
    /// Adds the decryptions that the elapsed packet time allows.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        // Packet time may go backwards.
        self.until_ns = self.until_ns.min(now_ns);
        let earned = (now_ns - self.until_ns) / TRY_NS;
        self.until_ns += earned * TRY_NS;
        self.tries = (self.tries + earned).min(TRIES_PER_SECOND);
    }

    /// Initial packets not decrypted because the flow or the meter reached its limit.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Takes one decryption if both the flow and the meter have one left; otherwise counts the packet as skipped.
    fn may_try(&mut self, flow_has_one: bool) -> bool {
        let may = flow_has_one && self.tries > 0;
        match may {
            true => self.tries -= 1,
            false => self.skipped += 1,
        }
        may
    }
}

/// The client of a connection, until its ClientHello is complete.
#[derive(Debug, Default)]
pub(crate) struct QuicClient {
    /// The connection ID whose keys decrypted a packet.
    id: Option<ConnectionId>,
    /// The endpoint that sent those packets.
    is_from_high: bool,
    /// Number of attempted decryptions.
    packets: u8,
    crypto: Crypto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConnectionId {
    bytes: [u8; ID_BYTES_MAX],
    length: u8,
}

impl ConnectionId {
    fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; ID_BYTES_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { bytes, length: id.len() as u8 })
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl QuicClient {
    /// True if a datagram may be the first of a connection, and long enough to follow.
    pub(crate) fn begins_with(datagram: &[u8]) -> bool {
        datagram.len() >= DATAGRAM_BYTES_MIN
            && is_long(datagram)
            && LongPacket::split(datagram).is_some_and(|(packet, _)| packet.kind == Kind::Initial)
    }

    /// Processes the Initial packets of a datagram.
    pub(crate) fn add(&mut self, datagram: &[u8], is_from_high: bool, decrypter: &mut Decrypter) {
        if datagram.len() < DATAGRAM_BYTES_MIN || self.id.is_some() && self.is_from_high != is_from_high {
            return;
        }
        let mut rest = datagram;
        while let Some((packet, after)) = LongPacket::split(rest) {
            rest = after;
            if packet.kind == Kind::Initial {
                self.add_packet(&packet, is_from_high, decrypter);
            }
        }
    }

    fn add_packet(&mut self, packet: &LongPacket<'_>, is_from_high: bool, decrypter: &mut Decrypter) {
        let is_short = self.id.is_none() && packet.id.len() < FIRST_ID_BYTES;
        if is_short || !decrypter.may_try(self.packets < PACKETS_MAX) {
            return;
        }
        self.packets += 1;
        let scratch = &mut decrypter.scratch;
        if let Some(id) = self.id {
            if let Some(frames) = packet.open(id.get(), scratch) {
                return self.crypto.add_frames(frames);
            }
            // After a Retry the keys are derived from the connection ID that the server chose (RFC 9001, section 5.2).
            if id.get() == packet.id {
                return;
            }
        }
        if let Some(frames) = packet.open(packet.id, scratch) {
            (self.id, self.is_from_high) = (ConnectionId::new(packet.id), is_from_high);
            self.crypto = Crypto::default();
            self.crypto.add_frames(frames);
        }
    }

    /// True if the ClientHello is complete.
    pub(crate) fn is_whole(&self) -> bool {
        let hello = self.crypto.begin();
        let length = hello.get(1..tls::HANDSHAKE_BYTES);
        let length = length.map(|bytes| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
        length.is_some_and(|length| hello.len() >= tls::HANDSHAKE_BYTES + length)
    }

    /// The application by the part of the ClientHello that has arrived.
    pub(crate) fn application(&self, ports: [u16; 2]) -> Application {
        Application::encrypted("quic", ports, self.crypto.begin())
    }
}

/// Reassembles the bytes of CRYPTO frames, which arrive in any order.
#[derive(Debug)]
struct Crypto {
    bytes: Vec<u8>,
    /// A bit for each byte that has arrived.
    seen: [u64; CRYPTO_BYTES / 64],
}

impl Default for Crypto {
    fn default() -> Self {
        Self { bytes: Vec::new(), seen: [0; CRYPTO_BYTES / 64] }
    }
}

impl Crypto {
    /// Adds the CRYPTO frames of an Initial packet; stops at a frame type that is not allowed in one.
    fn add_frames(&mut self, payload: &[u8]) {
        let mut frames = FieldReader(payload);
        while let Some(kind) = frames.number(1) {
            let frame = match kind {
                // PADDING, PING.
                0 | 1 => Some(()),
                2 | 3 => skip_ack(&mut frames, kind == 3),
                6 => self.add_frame(&mut frames),
                _ => None,
            };
            if frame.is_none() {
                return;
            }
        }
    }

    fn add_frame(&mut self, frames: &mut FieldReader<'_>) -> Option<()> {
        let (offset, length) = (frames.variable()?, frames.variable()?);
        self.add(offset, frames.take(length)?);
        Some(())
    }

    fn add(&mut self, offset: usize, data: &[u8]) {
        let end = offset.saturating_add(data.len()).min(CRYPTO_BYTES);
        if offset >= end {
            return;
        }
        if self.bytes.len() < end {
            self.bytes.reserve_exact(end - self.bytes.len());
            self.bytes.resize(end, 0);
        }
        for (at, byte) in (offset..end).zip(data) {
            let (word, bit) = (&mut self.seen[at / 64], 1 << (at % 64));
            if *word & bit == 0 {
                *word |= bit;
                self.bytes[at] = *byte;
            }
        }
    }

    /// The contiguous bytes from the start.
    fn begin(&self) -> &[u8] {
        let whole = self.seen.iter().take_while(|word| **word == u64::MAX).count();
        let more = self.seen.get(whole).map_or(0, |word| word.trailing_ones());
        &self.bytes[..64 * whole + more as usize]
    }
}

/// Skips an ACK frame after its type (RFC 9000, section 19.3).
fn skip_ack(frames: &mut FieldReader<'_>, has_ecn: bool) -> Option<()> {
    frames.variable()?;
    frames.variable()?;
    let ranges = frames.variable()?;
    frames.variable()?;
    for _ in 0..ranges {
        frames.variable()?;
        frames.variable()?;
    }
    for _ in 0..if has_ecn { 3 } else { 0 } {
        frames.variable()?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
