//! Outer datagrams that came in fragments: a mirrored frame of 1514 bytes does not fit 1500.
//!
//! Fragments are held back until their datagram is whole; then it is looked at in their place. What
//! never becomes whole, or turns out to be no tunnel, goes on as it came. Both memory and time are
//! bounded: the oldest datagram gives way.

use crate::batch::Frame;
use quaff_wire::tunnel::{FragmentKey, TunnelFragment};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// How long the rest of a datagram may take, ns. Switches send fragments back to back, and what was
/// sent back to back may be 2 x 50 ms apart in the kernel's blocks. A fast sender begins its 65,536
/// numbers anew soon after.
const PATIENCE_NS: u64 = 200_000_000;
/// The most that is held back.
const HELD_BYTES_MAX: usize = 16 << 20;
/// The largest payload of a datagram.
const PAYLOAD_BYTES_MAX: u32 = 65_535;

/// What the fragments of a datagram have in common, on the same interface and in the same VLAN.
type Key = (FragmentKey, u16, (u16, u16));

/// Datagrams that are not whole.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    open: HashMap<Key, Datagram>,
    /// Those that came first are in front. One may be gone, or be another of the same key.
    order: VecDeque<(Key, u64)>,
    held_bytes: usize,
}

/// Fragments that belong together.
#[derive(Debug, Default)]
pub(super) struct Datagram {
    /// When its first fragment came, ns since 1970.
    since_ns: u64,
    pieces: Vec<Piece>,
    /// Their frames, one behind the other.
    bytes: Vec<u8>,
    /// Bytes of payload that have come, and that there are, once the last fragment has told.
    have: u32,
    total: Option<u32>,
    /// Its first fragment shows that it is no tunnel: the others pass.
    is_plain: bool,
}

/// One fragment, and its frame.
#[derive(Debug)]
struct Piece {
    frame: Frame,
    fragment: TunnelFragment,
    at: usize,
}

/// What became of a fragment.
pub(super) enum Taken {
    /// It waits for others.
    Held,
    /// It cannot be used: it is cut, or a copy of another.
    Refused,
    /// It does not fit those that were held, which will never become whole; it waits itself.
    Instead(Datagram),
    /// It is no tunnel's, and so are those that were held.
    Plain(Datagram),
    /// It was the last that its datagram lacked.
    Whole(Datagram),
}

impl Fragments {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes a fragment, which lies in `bytes`.
    pub(super) fn take(&mut self, frame: &Frame, bytes: &[u8], fragment: &TunnelFragment) -> Taken {
        if !is_usable(fragment) && !fragment.plain {
            return Taken::Refused;
        }
        let key = (fragment.key, frame.interface, (frame.tpid, frame.tci));
        let datagram = self.open.entry(key).or_default();
        if datagram.is_plain && fragment.offset == 0 && !fragment.plain {
            // Another datagram begins, under the number of one that was no tunnel.
            *datagram = Datagram::default();
        }
        if datagram.pieces.is_empty() && !datagram.is_plain {
            datagram.since_ns = frame.time_ns;
            self.order.push_back((key, frame.time_ns));
        }
        if fragment.plain || datagram.is_plain {
            let rest = Datagram { since_ns: datagram.since_ns, is_plain: true, ..Datagram::default() };
            let held = std::mem::replace(datagram, rest);
            self.held_bytes -= held.bytes.len();
            return Taken::Plain(held);
        }
        if datagram.has(fragment, bytes) {
            return Taken::Refused;
        }
        if !datagram.fits(fragment) {
            let held = self.remove(key).unwrap_or_default();
            // Alone it is never whole: it has others before it, or behind it.
            self.take(frame, bytes, fragment);
            return Taken::Instead(held);
        }
        datagram.add(*frame, bytes, *fragment);
        self.held_bytes += bytes.len();
        if !datagram.is_whole() {
            return Taken::Held;
        }
        self.remove(key).map_or(Taken::Refused, Taken::Whole)
    }

    /// A datagram that has waited too long, or has to make room.
    pub(super) fn take_expired(&mut self, now_ns: u64, is_last: bool) -> Option<Datagram> {
        while let Some((key, since_ns)) = self.order.front().copied() {
            let is_there = self.open.get(&key).is_some_and(|datagram| datagram.since_ns == since_ns);
            // A time far ahead is a clock that was set back, or a damaged one.
            let is_late = now_ns.abs_diff(since_ns) > PATIENCE_NS;
            if is_there && !(is_late || is_last || self.held_bytes > HELD_BYTES_MAX) {
                return None;
            }
            self.order.pop_front();
            if is_there {
                return self.remove(key);
            }
        }
        None
    }

    fn remove(&mut self, key: Key) -> Option<Datagram> {
        let datagram = self.open.remove(&key)?;
        self.held_bytes -= datagram.bytes.len();
        Some(datagram)
    }
}

/// Only a whole fragment is of use, and only the last one may have a length that is no multiple of 8.
fn is_usable(fragment: &TunnelFragment) -> bool {
    let is_there = fragment.len > 0 && fragment.len == fragment.wire_len;
    let fits = fragment.offset + fragment.len <= PAYLOAD_BYTES_MAX;
    is_there && fits && (!fragment.more || fragment.len.is_multiple_of(8))
}

impl Datagram {
    /// How many fragments it has.
    pub(super) fn count(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// Whether the very same fragment is there.
    fn has(&self, new: &TunnelFragment, bytes: &[u8]) -> bool {
        self.pieces.iter().any(|piece| {
            let there = self.bytes.get(piece.at..piece.at + piece.frame.len as usize);
            piece.fragment.offset == new.offset && there == Some(bytes)
        })
    }

    /// Whether a fragment lies beside those that are there, and within the end.
    fn fits(&self, new: &TunnelFragment) -> bool {
        let end = |fragment: &TunnelFragment| fragment.offset + fragment.len;
        let is_free = |piece: &Piece| end(&piece.fragment) <= new.offset || end(new) <= piece.fragment.offset;
        let is_inside = |piece: &Piece| new.more || end(&piece.fragment) <= end(new);
        self.total.is_none_or(|total| new.more && end(new) <= total)
            && self.pieces.iter().all(|piece| is_free(piece) && is_inside(piece))
    }

    fn add(&mut self, frame: Frame, bytes: &[u8], fragment: TunnelFragment) {
        self.have += fragment.len;
        if !fragment.more {
            self.total = Some(fragment.offset + fragment.len);
        }
        self.pieces.push(Piece { frame, fragment, at: self.bytes.len() });
        self.bytes.extend_from_slice(bytes);
    }

    fn is_whole(&self) -> bool {
        self.total == Some(self.have)
    }

    /// Puts its payload behind `scratch`, and describes it as a frame. Its time is that of the fragment
    /// that made it whole. Also says what it carries, and who sent it.
    pub(super) fn lay_out(&mut self, scratch: &mut Vec<u8>) -> Option<(Frame, u8, IpAddr)> {
        let last = self.pieces.last()?.frame;
        self.pieces.sort_by_key(|piece| piece.fragment.offset);
        let first = self.pieces.first()?;
        let start = scratch.len() as u32;
        for piece in &self.pieces {
            let from = piece.at + piece.fragment.start as usize;
            scratch.extend_from_slice(&self.bytes[from..from + piece.fragment.len as usize]);
        }
        let flags = first.frame.flags | Frame::SCRATCH;
        let frame =
            Frame { time_ns: last.time_ns, start, len: self.have, wire_len: self.have, flags, ..first.frame };
        Some((frame, first.fragment.protocol, first.fragment.key.source))
    }

    /// Puts the frames of the fragments behind `scratch`, as they came.
    pub(super) fn give_back(&self, scratch: &mut Vec<u8>) -> impl Iterator<Item = Frame> + use<'_> {
        let start = scratch.len() as u32;
        scratch.extend_from_slice(&self.bytes);
        self.pieces.iter().map(move |piece| Frame {
            start: start + piece.at as u32,
            flags: piece.frame.flags | Frame::SCRATCH,
            ..piece.frame
        })
    }
}
