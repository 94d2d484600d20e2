//! A packet that is being unwrapped: its bytes, where we are in them, and where it ended on the wire.
//!
//! Nothing here knows a protocol. All positions count from the first byte that was given to `strip`.

use super::{Control, Damage, Direction, ErspanTime, Fragment, Kind, Kinds, Reason, Session};
use crate::linktype;
use std::net::IpAddr;

/// Why unwrapping ends without an inner frame.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    Plain,
    Fragment(Fragment),
    Damaged(Damage),
    Control(Control),
}

/// Shorthand for a damaged header.
pub(super) fn damaged(kind: Kind, reason: Reason) -> Stop {
    Stop::Damaged(Damage { kind, reason })
}

/// The bytes of a packet. `at` is never behind their end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where it ended on the wire; `None` when nobody knows.
    wire_end: Option<u32>,
}

impl<'a> Packet<'a> {
    /// All of `bytes`, of which there were `wire_len` on the wire.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], wire_len: u32) -> Self {
        let bytes = bytes.get(..u32::MAX as usize).unwrap_or(bytes);
        Self { bytes, at: 0, wire_end: Some(wire_len.max(bytes.len() as u32)) }
    }

    /// Where we are.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What is captured from here on.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// How many bytes there were on the wire from here on.
    #[inline]
    pub(super) fn wire_left(&self) -> Option<u32> {
        self.wire_end.map(|end| end.saturating_sub(self.at as u32))
    }

    /// The next `N` bytes, if they are captured.
    #[inline]
    pub(super) fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.rest().first_chunk()
    }

    /// The next `N` bytes and what follows them, or why `kind` cannot be read.
    #[inline]
    pub(super) fn take<const N: usize>(self, kind: Kind) -> Result<(&'a [u8; N], Self), Stop> {
        match self.peek() {
            Some(head) => Ok((head, Self { at: self.at + N, ..self })),
            None => Err(damaged(kind, self.missing(N))),
        }
    }

    /// What follows the next `len` bytes, or why `kind` cannot be read.
    #[inline]
    pub(super) fn skip(self, len: usize, kind: Kind) -> Result<Self, Stop> {
        self.skip_outer(len).map_err(|_| damaged(kind, self.missing(len)))
    }

    /// As [`Packet::skip`], for headers that are no tunnel's: without them there is none.
    #[inline]
    pub(super) fn skip_outer(self, len: usize) -> Result<Self, Stop> {
        if len <= self.rest().len() { Ok(Self { at: self.at + len, ..self }) } else { Err(Stop::Plain) }
    }

    /// Whether the capture or the packet itself is too short for `len` more bytes.
    fn missing(&self, len: usize) -> Reason {
        match self.wire_left() {
            Some(left) if (left as usize) < len => Reason::Short,
            _ => Reason::Cut,
        }
    }

    /// The packet ends `len` bytes from here, and what is behind that is padding.
    #[inline]
    pub(super) fn limit(&mut self, len: u32) {
        let end = (self.at as u32).saturating_add(len);
        let end = self.wire_end.map_or(end, |known| known.min(end));
        self.wire_end = Some(end);
        self.bytes = self.bytes.get(..end as usize).unwrap_or(self.bytes);
    }

    /// A mirror cut the packet, and how long it was is known, or not.
    #[inline]
    pub(super) fn truncated(&mut self, wire_len: Option<u32>) {
        let captured = self.rest().len() as u32;
        self.wire_end = wire_len.map(|len| (self.at as u32).saturating_add(len.max(captured)));
    }
}

/// What is known of the packet that carries a tunnel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carrier {
    pub(super) kinds: Kinds,
    pub(super) source: Option<IpAddr>,
}

impl Carrier {
    /// A tunnel that nobody wants is a plain packet.
    #[inline]
    pub(super) fn wants(&self, kind: Kind) -> Result<(), Stop> {
        if self.kinds.contains(kind) { Ok(()) } else { Err(Stop::Plain) }
    }

    /// A session of this carrier.
    #[inline]
    pub(super) fn session(&self, kind: Kind, id: Option<u32>) -> Session {
        Session { kind, source: self.source, id }
    }
}

/// One tunnel taken off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    /// Stands at the first byte of the inner frame.
    pub(super) packet: Packet<'a>,
    pub(super) linktype: u16,
    pub(super) session: Session,
    pub(super) sequence: Option<u32>,
    pub(super) time: Option<ErspanTime>,
    pub(super) direction: Option<Direction>,
    pub(super) tag: Option<(u16, u16)>,
}

impl<'a> Found<'a> {
    /// An Ethernet frame; anything shorter than its header is none.
    #[inline]
    pub(super) fn ethernet(packet: Packet<'a>, session: Session) -> Result<Self, Stop> {
        match packet.wire_left() {
            Some(left) if left < 14 => Err(damaged(session.kind, Reason::Short)),
            _ => Ok(Self::new(packet, linktype::ETHERNET.linktype, session)),
        }
    }

    /// An IP packet whose version has to be `version`, or 4 or 6 if that is `None`.
    #[inline]
    pub(super) fn ip(packet: Packet<'a>, version: Option<u8>, session: Session) -> Result<Self, Stop> {
        let (&[first], _) = packet.take(session.kind)?;
        match (version, first >> 4) {
            (Some(wanted), found) if wanted == found => {}
            (None, 4 | 6) => {}
            _ => return Err(damaged(session.kind, Reason::Payload)),
        }
        Ok(Self::new(packet, linktype::RAW.linktype, session))
    }

    /// A frame of any kind of link.
    pub(super) fn new(packet: Packet<'a>, linktype: u16, session: Session) -> Self {
        Self { packet, linktype, session, sequence: None, time: None, direction: None, tag: None }
    }
}
