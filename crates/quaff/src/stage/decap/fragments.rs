//! Reassembly of fragmented outer datagrams: a mirrored frame of 1514 bytes does not fit an MTU of 1500.
//!
//! Fragments are held back until their datagram is complete, which then replaces them. Fragments of an incomplete
//! datagram, or of one without a tunnel, pass unchanged. Memory and time are bounded: the oldest datagram is
//! released first.

use crate::batch::Frame;
use quaff_wire::net::DatagramId;
use quaff_wire::tunnel::TunnelFragment;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Reassembly timeout, ns. Switches send fragments back to back, which the kernel's blocks may deliver 2 x 50 ms
/// apart. A fast sender reuses its 65,536 IDs soon after.
const TIMEOUT_NS: u64 = 200_000_000;
/// Maximum of the bytes held back.
const HELD_BYTES_MAX: usize = 16 << 20;
/// Maximum of the datagrams that are remembered, complete or not: packets may all have the same time, and then none of
/// them times out.
const DATAGRAMS_MAX: usize = 1 << 18;
/// The largest payload of a datagram.
const PAYLOAD_BYTES_MAX: u32 = 65_535;

/// The key of a datagram: its fragment key, interface and VLAN tag.
type Key = (DatagramId, u16, (u16, u16));

/// The place that a frame would have had without being held: the number of a batch, and of frames before it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) batch: u64,
    pub(super) at: usize,
}

/// Incomplete datagrams.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    open: HashMap<Key, Datagram>,
    /// Datagrams by arrival, oldest first. An entry may be stale: removed, or replaced under the same key.
    order: VecDeque<(Key, u64)>,
    held_bytes: usize,
}

/// The fragments of one datagram.
#[derive(Debug, Default)]
pub(super) struct Datagram {
    /// Time of the first fragment received, ns since 1970.
    since_ns: u64,
    fragments: Vec<HeldFragment>,
    /// The bytes of their frames, concatenated.
    bytes: Vec<u8>,
    /// Bytes of payload received, and in total once the last fragment is known.
    have: u32,
    total: Option<u32>,
    /// The first fragment has no tunnel: the others pass.
    is_plain: bool,
}

/// One fragment and its frame.
#[derive(Debug)]
struct HeldFragment {
    frame: Frame,
    fragment: TunnelFragment,
    at: usize,
    place: Place,
}

/// The result for a fragment.
pub(super) enum Taken {
    /// The fragment is held back.
    Held,
    /// The fragment cannot be used: it is truncated or a duplicate.
    Refused,
    /// The fragment overlaps the held ones, which are returned; it is held back instead.
    Replaced(Datagram),
    /// The datagram has no tunnel; the held fragments are returned.
    Plain(Datagram),
    /// The fragment completes its datagram.
    Whole(Datagram),
}

impl Fragments {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Accepts a fragment, whose frame is `bytes`, and would be at `place`.
    pub(super) fn take(
        &mut self,
        frame: &Frame,
        bytes: &[u8],
        fragment: &TunnelFragment,
        place: Place,
    ) -> Taken {
        if !is_usable(fragment) && !fragment.plain {
            return Taken::Refused;
        }
        let tag = if frame.tpid == 0 { (0, 0) } else { (frame.tpid, frame.tci) };
        let key = (fragment.datagram, frame.interface, tag);
        let datagram = self.open.entry(key).or_default();
        if datagram.is_plain && fragment.offset == 0 && !fragment.plain {
            // Another datagram begins under the ID of one without a tunnel.
            *datagram = Datagram::default();
        }
        if datagram.fragments.is_empty() && !datagram.is_plain {
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
            // A single fragment is never complete, so this call does not recurse again.
            self.take(frame, bytes, fragment, place);
            return Taken::Replaced(held);
        }
        datagram.add(*frame, bytes, *fragment, place);
        self.held_bytes += bytes.len();
        if !datagram.is_whole() {
            return Taken::Held;
        }
        self.remove(key).map_or(Taken::Refused, Taken::Whole)
    }

    /// Removes a datagram that has timed out, or exceeds a limit.
    #[inline]
    pub(super) fn take_expired(&mut self, now_ns: u64, is_last: bool) -> Option<Datagram> {
        // This is asked at each packet, and nearly always nothing is held.
        if self.order.is_empty() { None } else { self.take_late(now_ns, is_last) }
    }

    fn take_late(&mut self, now_ns: u64, is_last: bool) -> Option<Datagram> {
        while let Some((key, since_ns)) = self.order.front().copied() {
            let is_there = self.open.get(&key).is_some_and(|datagram| datagram.since_ns == since_ns);
            // A time far ahead: the clock was set back, or the time stamp is damaged.
            let is_late = now_ns.abs_diff(since_ns) > TIMEOUT_NS;
            let is_full = self.held_bytes > HELD_BYTES_MAX || self.order.len() > DATAGRAMS_MAX;
            if is_there && !(is_late || is_last || is_full) {
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

/// Returns whether a fragment is complete, and its length a multiple of 8 unless it is the last one.
fn is_usable(fragment: &TunnelFragment) -> bool {
    let is_there = fragment.len > 0 && fragment.len == fragment.wire_len;
    let fits = fragment.offset + fragment.len <= PAYLOAD_BYTES_MAX;
    is_there && fits && (!fragment.more || fragment.len.is_multiple_of(8))
}

impl Datagram {
    /// The number of fragments.
    pub(super) fn count(&self) -> u64 {
        self.fragments.len() as u64
    }

    /// Returns whether an identical fragment is held.
    fn has(&self, new: &TunnelFragment, bytes: &[u8]) -> bool {
        self.fragments.iter().any(|held| {
            let there = self.bytes.get(held.at..held.at + held.frame.len as usize);
            held.fragment.offset == new.offset && there == Some(bytes)
        })
    }

    /// Returns whether a fragment does not overlap the others or exceed the end.
    fn fits(&self, new: &TunnelFragment) -> bool {
        let end = |fragment: &TunnelFragment| fragment.offset + fragment.len;
        let is_free =
            |held: &HeldFragment| end(&held.fragment) <= new.offset || end(new) <= held.fragment.offset;
        let is_inside = |held: &HeldFragment| new.more || end(&held.fragment) <= end(new);
        self.total.is_none_or(|total| new.more && end(new) <= total)
            && self.fragments.iter().all(|held| is_free(held) && is_inside(held))
    }

    fn add(&mut self, frame: Frame, bytes: &[u8], fragment: TunnelFragment, place: Place) {
        self.have += fragment.len;
        if !fragment.more {
            self.total = Some(fragment.offset + fragment.len);
        }
        self.fragments.push(HeldFragment { frame, fragment, at: self.bytes.len(), place });
        self.bytes.extend_from_slice(bytes);
    }

    fn is_whole(&self) -> bool {
        self.total == Some(self.have)
    }

    /// Appends the payload to `scratch` and returns its frame, with the time of the fragment that completed it, its IP
    /// protocol and its source address.
    pub(super) fn lay_out(&mut self, scratch: &mut Vec<u8>) -> Option<(Frame, u8, IpAddr)> {
        let last = self.fragments.last()?.frame;
        self.fragments.sort_by_key(|held| held.fragment.offset);
        let first = self.fragments.first()?;
        let start = scratch.len() as u32;
        for held in &self.fragments {
            let from = held.at + held.fragment.start as usize;
            scratch.extend_from_slice(&self.bytes[from..from + held.fragment.len as usize]);
        }
        let flags = first.frame.flags | Frame::SCRATCH;
        let frame =
            Frame { time_ns: last.time_ns, start, len: self.have, wire_len: self.have, flags, ..first.frame };
        Some((frame, first.fragment.protocol, first.fragment.datagram.addresses[0]))
    }

    /// Appends the original frames of the fragments to `scratch` and returns their descriptors, and their places.
    pub(super) fn restore(&self, scratch: &mut Vec<u8>) -> impl Iterator<Item = (Place, Frame)> + use<'_> {
        let start = scratch.len() as u32;
        scratch.extend_from_slice(&self.bytes);
        let frame = move |held: &HeldFragment| Frame {
            start: start + held.at as u32,
            flags: held.frame.flags | Frame::SCRATCH,
            ..held.frame
        };
        self.fragments.iter().map(move |held| (held.place, frame(held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// The first fragment of datagram `number`.
    fn first(number: u32, plain: bool) -> TunnelFragment {
        let addresses = [Ipv4Addr::from(number), Ipv4Addr::LOCALHOST].map(IpAddr::from);
        let datagram = DatagramId { addresses, id: number, protocol: 47 };
        let (header_start, header_len) = (14, 20);
        let (offset, start, len, wire_len) = (0, 34, 8, 8);
        TunnelFragment {
            datagram,
            protocol: 47,
            offset,
            more: true,
            start,
            len,
            wire_len,
            header_start,
            header_len,
            plain,
        }
    }

    #[test]
    fn datagrams_that_never_time_out_are_limited() {
        for plain in [false, true] {
            let mut fragments = Fragments::default();
            let frame = Frame { time_ns: 5, len: 42, wire_len: 42, ..Frame::default() };
            let (mut most, mut released) = (0, 0);
            for number in 0..DATAGRAMS_MAX as u32 + 5000 {
                fragments.take(&frame, &[0; 42], &first(number, plain), Place { batch: 0, at: 0 });
                while fragments.take_expired(5, false).is_some() {
                    released += 1;
                }
                most = most.max(fragments.open.len()).max(fragments.order.len());
            }
            assert!(most <= DATAGRAMS_MAX && released >= 5000, "plain {plain}: {most} {released}");
        }
    }
}
