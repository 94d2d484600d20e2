//! The ClientHello of QUIC: Initial packets are encrypted with keys that follow from the connection ID in them
//! (RFC 9001, section 5.2; RFC 9369, section 3.3), so anyone on the path can read them.
//!
//! A few packets of a flow are tried, in the order of their arrival, and CRYPTO frames are put together up to a limit.
//! Bytes that come twice count once. Nothing else of QUIC is followed. Anyone can send packets that only look like
//! those of a client: what a meter tries in a second is limited, and what it skips is counted.

use super::Application;
use quaff_wire::application::{FieldReader, tls};
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, Version};

/// Initial packets of a flow that are tried: the ClientHello has two or three, and some may be repeated.
const PACKETS_MAX: u8 = 8;
/// Initial packets that a meter tries in a second of packet time, and the most at once: some percent of a core.
const TRIES_PER_SECOND: u64 = 10_000;
/// Packet time after which one more is tried, ns.
const TRY_NS: u64 = 1_000_000_000 / TRIES_PER_SECOND;
/// Bytes of a datagram with Initial packets of a client, at least (RFC 9000, section 14.1): servers drop shorter ones.
const DATAGRAM_BYTES_MIN: usize = 1200;
/// A packet that is longer is not tried: an Initial packet fits into a frame.
const PACKET_BYTES_MAX: usize = 4096;
/// Bytes of CRYPTO frames that are put together, a multiple of 64: what a flow keeps for its application otherwise.
pub(super) const CRYPTO_BYTES: usize = 3520;
/// The longest connection ID (RFC 9000, section 17.2), and the shortest of a first packet (section 7.2).
const ID_BYTES_MAX: usize = 20;
const FIRST_ID_BYTES: usize = 8;
/// Bytes of the sample for header protection, and the most of a packet number (RFC 9001, section 5.4.2).
const SAMPLE_BYTES: usize = 16;
const NUMBER_BYTES_MAX: usize = 4;

/// Returns whether a datagram begins with a long header of a version that is known (RFC 9000, section 17.2).
pub(super) fn is_long(bytes: &[u8]) -> bool {
    let Some((header, _)) = bytes.split_first_chunk::<6>() else { return false };
    header[0] & 0xc0 == 0xc0 && version(&header[1..5]).is_some() && usize::from(header[5]) <= ID_BYTES_MAX
}

/// Versions 1 and 2, and drafts of version 1, of which the last two have its keys.
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
    /// 0-RTT or Handshake, of which other keys are needed.
    Other,
    Retry,
}

impl Kind {
    fn new(first: usize, version: Version) -> Self {
        // Version 2 has other numbers (RFC 9369, section 3.2).
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
    /// Connection ID of the destination.
    id: &'a [u8],
    /// The packet without what follows in the datagram, and the offset of its number.
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

    /// Decrypts a packet that a client sent, with the keys that follow from a connection ID; `None` if they are not its
    /// own.
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
        // The first packets have numbers that are not shortened.
        let number = number[..number_bytes].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (header, payload) = scratch.split_at_mut(number_at + number_bytes);
        keys.packet.decrypt_in_place(number, header, payload).ok()
    }
}

/// The keys of the packets that a client sends to a connection ID.
fn client_keys(version: Version, id: &[u8]) -> Option<DirectionalKeys> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()?;
    Some(suite.keys(id, Side::Server, version).remote)
}

/// The room in which packets are decrypted, and how many more may be: for all flows of a meter.
#[derive(Debug)]
pub(crate) struct Decrypter {
    scratch: Vec<u8>,
    /// Packets that may be tried now, by the packet time that has passed until then, ns.
    tries: u64,
    until_ns: u64,
    /// Initial packets that were not tried, because of one of the limits.
    skipped: u64,
}

impl Default for Decrypter {
    fn default() -> Self {
        Self { scratch: Vec::new(), tries: TRIES_PER_SECOND, until_ns: 0, skipped: 0 }
    }
}

impl Decrypter {
    /// Allows the tries that the packet time brings.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        // The time of the input may have been set back.
        self.until_ns = self.until_ns.min(now_ns);
        let earned = (now_ns - self.until_ns) / TRY_NS;
        self.until_ns += earned * TRY_NS;
        self.tries = (self.tries + earned).min(TRIES_PER_SECOND);
    }

    /// Initial packets that were not tried, because a flow or the meter had its share.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Takes one of the tries that a flow and the meter have; without one in both, counts a packet as skipped.
    fn may_try(&mut self, flow_has_one: bool) -> bool {
        let may = flow_has_one && self.tries > 0;
        match may {
            true => self.tries -= 1,
            false => self.skipped += 1,
        }
        may
    }
}

/// The client of a connection, until its ClientHello is whole.
#[derive(Debug, Default)]
pub(crate) struct QuicClient {
    /// The connection ID whose keys fit.
    id: Option<ConnectionId>,
    /// The end that sent the packets which they fit.
    is_from_high: bool,
    /// Packets that were tried.
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
    /// Returns whether a datagram may be the first one of a connection that is worth following.
    pub(crate) fn begins_with(datagram: &[u8]) -> bool {
        datagram.len() >= DATAGRAM_BYTES_MIN
            && is_long(datagram)
            && LongPacket::split(datagram).is_some_and(|(packet, _)| packet.kind == Kind::Initial)
    }

    /// Reads the Initial packets of a datagram.
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
            // After a Retry the keys follow from the connection ID that the server chose (RFC 9001, section 5.2).
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

    /// Returns whether nothing more is to be learned.
    pub(crate) fn is_whole(&self) -> bool {
        let hello = self.crypto.begin();
        let length = hello.get(1..tls::HANDSHAKE_BYTES);
        let length = length.map(|bytes| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
        length.is_some_and(|length| hello.len() >= tls::HANDSHAKE_BYTES + length)
    }

    /// The application by what has come of the ClientHello.
    pub(crate) fn application(&self, ports: [u16; 2]) -> Application {
        Application::encrypted("quic", ports, self.crypto.begin())
    }
}

/// The bytes of CRYPTO frames, which may come in any order.
#[derive(Debug)]
struct Crypto {
    bytes: Vec<u8>,
    /// A bit for each byte that has come.
    seen: [u64; CRYPTO_BYTES / 64],
}

impl Default for Crypto {
    fn default() -> Self {
        Self { bytes: Vec::new(), seen: [0; CRYPTO_BYTES / 64] }
    }
}

impl Crypto {
    /// Adds the CRYPTO frames of an Initial packet. Frames that are not allowed in one end the reading.
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

    /// The bytes from the first on, up to one that has not come.
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
