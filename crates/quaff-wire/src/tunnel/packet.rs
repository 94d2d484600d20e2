//! A packet during decapsulation: its bytes, the current offset, and its end on the wire.
//!
//! This module knows no protocol. All positions are relative to the input of `strip`. One [`Walk`] advances from header
//! to header, and errors are a few bytes long: with results that carried the findings, most of the time went into
//! copying.

use super::{
    Damage, Direction, ErspanTime, Marker, Reason, Session, TunnelFragment, TunnelKind, TunnelKinds,
};
use crate::linktype;
use std::net::IpAddr;

/// Why decapsulation ends without an inner frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Plain,
    /// The fragment is in [`Walk::fragment`].
    Fragment,
    /// The marker is in [`Walk::marker`].
    Marker,
    Damaged(Damage),
    Control,
}

/// Shorthand for an invalid header.
pub(super) fn damaged(kind: TunnelKind, reason: Reason) -> Stop {
    Stop::Damaged(Damage { kind, reason })
}

/// The bytes of a packet. `at` never exceeds their length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    bytes: &'a [u8],
    at: usize,
    /// End of the packet on the wire; `None` if unknown.
    wire_end: Option<u32>,
}

impl<'a> Packet<'a> {
    /// A packet of all of `bytes`, with `wire_len` bytes on the wire.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], wire_len: u32) -> Self {
        let bytes = bytes.get(..u32::MAX as usize).unwrap_or(bytes);
        Self { bytes, at: 0, wire_end: Some(wire_len.max(bytes.len() as u32)) }
    }

    /// The current offset.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The captured bytes from here on.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Number of bytes from here on that were on the wire.
    #[inline]
    pub(super) fn wire_left(&self) -> Option<u32> {
        self.wire_end.map(|end| end.saturating_sub(self.at as u32))
    }

    /// The next `N` bytes, if captured.
    #[inline]
    pub(super) fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.rest().first_chunk()
    }

    /// Skips the next `N` bytes and returns them; the error is why `kind` cannot be read.
    #[inline]
    pub(super) fn take<const N: usize>(&mut self, kind: TunnelKind) -> Result<&'a [u8; N], Stop> {
        let Some(head) = self.peek() else { return Err(damaged(kind, self.missing(N))) };
        self.at += N;
        Ok(head)
    }

    /// Skips the next `len` bytes; the error is why `kind` cannot be read.
    #[inline]
    pub(super) fn skip(&mut self, len: usize, kind: TunnelKind) -> Result<(), Stop> {
        self.skip_outer(len).map_err(|_| damaged(kind, self.missing(len)))
    }

    /// Like [`Packet::skip`], for headers outside of tunnels: a packet without them is plain.
    #[inline]
    pub(super) fn skip_outer(&mut self, len: usize) -> Result<(), Stop> {
        if len > self.rest().len() {
            return Err(Stop::Plain);
        }
        self.at += len;
        Ok(())
    }

    /// Distinguishes a truncated capture from a packet that is too short for `len` more bytes.
    #[cold]
    fn missing(&self, len: usize) -> Reason {
        match self.wire_left() {
            Some(left) if (left as usize) < len => Reason::Short,
            _ => Reason::Cut,
        }
    }

    /// Ends the packet `len` bytes from here: the bytes after that are padding.
    #[inline]
    pub(super) fn limit(&mut self, len: u32) {
        let end = (self.at as u32).saturating_add(len);
        let end = self.wire_end.map_or(end, |known| known.min(end));
        self.wire_end = Some(end);
        self.bytes = self.bytes.get(..end as usize).unwrap_or(self.bytes);
    }

    /// Marks the packet as truncated by a mirror, with its original length if known.
    #[inline]
    pub(super) fn truncated(&mut self, wire_len: Option<u32>) {
        let captured = self.rest().len() as u32;
        self.wire_end = wire_len.map(|len| (self.at as u32).saturating_add(len.max(captured)));
    }
}

/// The fields of one tunnel's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) linktype: u16,
    pub(super) kind: TunnelKind,
    pub(super) id: Option<u32>,
    pub(super) sequence: Option<u32>,
    pub(super) time: Option<ErspanTime>,
    pub(super) direction: Option<Direction>,
    pub(super) tag: Option<(u16, u16)>,
}

impl Found {
    /// No tunnel found yet.
    const NOTHING: Self = Self {
        linktype: linktype::RAW.linktype,
        kind: TunnelKind::Ipip,
        id: None,
        sequence: None,
        time: None,
        direction: None,
        tag: None,
    };
}

/// The progress from an outer frame to the inner one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<'a> {
    /// At the inner frame once a tunnel was decapsulated.
    pub(super) packet: Packet<'a>,
    pub(super) kinds: TunnelKinds,
    /// Source of the packet that carries the tunnel.
    pub(super) source: Option<IpAddr>,
    pub(super) found: Found,
    pub(super) fragment: Option<TunnelFragment>,
    pub(super) marker: Option<Marker>,
}

impl<'a> Walk<'a> {
    #[inline]
    pub(super) fn new(packet: Packet<'a>, kinds: TunnelKinds) -> Self {
        Self { packet, kinds, source: None, found: Found::NOTHING, fragment: None, marker: None }
    }

    /// Prepares for the next tunnel: clears the last one's fields except the position.
    pub(super) fn forget(&mut self) {
        self.found = Found::NOTHING;
    }

    /// Stops with a plain packet if a kind of tunnel is not wanted.
    #[inline]
    pub(super) fn wants(&self, kind: TunnelKind) -> Result<(), Stop> {
        if self.kinds.contains(kind) { Ok(()) } else { Err(Stop::Plain) }
    }

    /// Requires an Ethernet frame here, with a complete header.
    #[inline]
    pub(super) fn ethernet(&mut self, kind: TunnelKind, id: Option<u32>) -> Result<(), Stop> {
        match self.packet.wire_left() {
            Some(left) if left < 14 => Err(damaged(kind, Reason::Short)),
            _ => self.frame(linktype::ETHERNET.linktype, kind, id),
        }
    }

    /// Requires an IP packet here of version `version`, or of either version if that is `None`.
    #[inline]
    pub(super) fn ip(&mut self, version: Option<u8>, kind: TunnelKind, id: Option<u32>) -> Result<(), Stop> {
        let Some(&[first]) = self.packet.peek() else { return self.packet.take::<1>(kind).map(|_| ()) };
        match (version, first >> 4) {
            (Some(wanted), found) if wanted == found => {}
            (None, 4 | 6) => {}
            _ => return Err(damaged(kind, Reason::Payload)),
        }
        self.frame(linktype::RAW.linktype, kind, id)
    }

    /// Requires a frame of any link type here.
    #[inline]
    pub(super) fn frame(&mut self, linktype: u16, kind: TunnelKind, id: Option<u32>) -> Result<(), Stop> {
        (self.found.linktype, self.found.kind, self.found.id) = (linktype, kind, id);
        Ok(())
    }

    /// The session of the frame.
    #[inline]
    pub(super) fn session(&self) -> Session {
        Session { kind: self.found.kind, source: self.source, id: self.found.id }
    }

    /// Rank of the session's name; see [`super::Inner`].
    #[inline]
    pub(super) fn rank(&self) -> u8 {
        if self.found.sequence.is_some() { 2 } else { self.found.id.is_some().into() }
    }
}
