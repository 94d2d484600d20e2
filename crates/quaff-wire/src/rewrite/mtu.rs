//! Frames longer than the MTU of a link: skipped, truncated, or sent as fragments.
//!
//! The MTU is the kernel's: bytes after an Ethernet header of 14, without one VLAN tag. IPv4 is fragmented as in RFC
//! 791 (only options with the copied flag are repeated, fragments can be fragmented again), IPv6 as in RFC 8200,
//! section 4.5, with the fragment header that a router would need. The transport checksum covers the whole datagram, so
//! it stays.

use super::{length, sums};
use crate::ParseError;
use crate::net::ipv6::{self, DESTINATION, FRAGMENT, FRAGMENT_BYTES, HOP_BY_HOP, ROUTING};
use crate::net::{self, ETHERNET_BYTES, Ip, Layers};
use std::ops::Range;
use std::str::FromStr;

/// The treatment of a frame that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MtuPolicy {
    Skip,
    /// Truncate it, and correct the lengths in its headers.
    Cut,
    /// Send it in fragments; skip it if it is not IP or not complete.
    Fragment,
    /// End the run.
    Fail,
}

impl FromStr for MtuPolicy {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        match word {
            "skip" => Ok(Self::Skip),
            "cut" => Ok(Self::Cut),
            "fragment" => Ok(Self::Fragment),
            "fail" => Ok(Self::Fail),
            _ => Err(ParseError::of(word, "is not skip, cut, fragment or fail")),
        }
    }
}

/// The outcome for one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It fits.
    Whole,
    Cut,
    /// Its fragments are in [`Mtu::fragments`].
    Fragmented,
    /// It was skipped.
    Skipped,
    /// It does not fit, which is an error.
    Failed,
}

/// Counts of frames that did not fit, by treatment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MtuCounts {
    pub skipped: u64,
    pub cut: u64,
    /// Frames sent as fragments.
    pub fragmented: u64,
    /// Number of these fragments.
    pub fragments: u64,
}

/// Frames, concatenated in one buffer.
#[derive(Debug, Default)]
struct Fragments {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fragments {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a frame of these parts; returns its bytes.
    fn push(&mut self, parts: &[&[u8]]) -> &mut [u8] {
        let start = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push(self.bytes.len());
        &mut self.bytes[start..]
    }
}

/// Makes frames fit the MTU.
#[derive(Debug)]
pub struct Mtu {
    bytes: usize,
    policy: MtuPolicy,
    /// Identification for datagrams that have none.
    next_id: u32,
    /// The counts so far.
    pub counts: MtuCounts,
    fragments: Fragments,
}

impl Mtu {
    /// Creates one for an MTU in bytes.
    pub fn new(bytes: usize, policy: MtuPolicy) -> Self {
        Self { bytes, policy, next_id: 1, counts: MtuCounts::default(), fragments: Fragments::default() }
    }

    /// The fragments of the frame for which [`Self::fit`] returned [`Fit::Fragmented`], in order.
    pub fn fragments(&self) -> impl Iterator<Item = &[u8]> {
        let Fragments { bytes, ends } = &self.fragments;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, end)| &bytes[start..*end])
    }

    /// True if a frame fits unchanged.
    pub(crate) fn takes(&self, frame: &[u8]) -> bool {
        frame.len() <= self.bytes + ETHERNET_BYTES || frame.len() <= self.longest(frame)
    }

    /// Makes a frame fit whose length on the wire was `wire_len`.
    pub fn fit(&mut self, frame: &mut Vec<u8>, wire_len: u32) -> Fit {
        if self.takes(frame) {
            return Fit::Whole;
        }
        let is_whole = wire_len as usize <= frame.len();
        if self.policy == MtuPolicy::Fragment && is_whole && self.fragment(frame).is_some() {
            self.counts.fragmented += 1;
            self.counts.fragments += self.fragments.ends.len() as u64;
            return Fit::Fragmented;
        }
        match self.policy {
            MtuPolicy::Fail => Fit::Failed,
            MtuPolicy::Cut => {
                let longest = self.longest(frame);
                length::cut(frame, longest);
                self.counts.cut += 1;
                Fit::Cut
            }
            MtuPolicy::Skip | MtuPolicy::Fragment => {
                self.counts.skipped += 1;
                Fit::Skipped
            }
        }
    }

    /// Maximum length of a frame with the tags of this one.
    fn longest(&self, frame: &[u8]) -> usize {
        net::frame_bytes_max(frame, self.bytes)
    }

    fn fragment(&mut self, frame: &[u8]) -> Option<()> {
        self.fragments.clear();
        let layers = net::layers(frame)?;
        let ip = layers.ip?;
        if sums::declared_end(frame, layers.ip_offset) > frame.len() {
            return None;
        }
        let longest = self.longest(frame);
        if ip.is_v6() {
            self.fragment_v6(frame, &layers, &ip, longest)
        } else {
            self.fragment_v4(frame, &layers, &ip, longest)
        }
    }

    fn fragment_v4(&mut self, frame: &[u8], layers: &Layers, ip: &Ip, longest: usize) -> Option<()> {
        let at = layers.ip_offset;
        let header = &frame[at..ip.transport];
        let rest = repeated_options(header);
        let flags = u16::from_be_bytes([header[6], header[7]]);
        let id = match u16::from_be_bytes([header[4], header[5]]) {
            // A datagram with Don't Fragment needs no identification (RFC 6864); a fragment does.
            0 if ip.fragment.is_none() => self.id() as u16,
            id => id,
        };
        let headers = [header.len(), rest.len()];
        for fragment in ranges(ip.transport..ip.end, longest.saturating_sub(at), headers)? {
            let offset = usize::from(flags & 0x1fff) + (fragment.start - ip.transport) / 8;
            let more = fragment.end < ip.end || flags & 0x2000 != 0;
            let ip_header = if fragment.start == ip.transport { header } else { &rest };
            let length = ip_header.len() + fragment.len();
            let bytes = self.fragments.push(&[&frame[..at], ip_header, &frame[fragment]]);
            bytes[at + 2..at + 4].copy_from_slice(&(length as u16).to_be_bytes());
            bytes[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
            let word = u16::try_from(offset).ok().filter(|offset| *offset < 0x2000)?;
            let word = word | if more { 0x2000 } else { 0 };
            bytes[at + 6..at + 8].copy_from_slice(&word.to_be_bytes());
            sums::recompute_header(bytes, at);
            length::put_length(bytes, layers.length);
        }
        Some(())
    }

    fn fragment_v6(&mut self, frame: &[u8], layers: &Layers, ip: &Ip, longest: usize) -> Option<()> {
        let at = layers.ip_offset;
        let whole = fragment_header(frame, at, ip)?;
        let id = whole.id.unwrap_or_else(|| self.id());
        let headers = [whole.at - at + 8; 2];
        let start = whole.payload;
        for fragment in ranges(start..ip.end, longest.saturating_sub(at), headers)? {
            let offset = whole.offset_bytes + (fragment.start - start);
            let more = fragment.end < ip.end || whole.more;
            let word = u16::try_from(offset).ok()? & 0xfff8 | u16::from(more);
            let [a, b] = word.to_be_bytes();
            let [c, d, e, f] = id.to_be_bytes();
            let extension = [whole.next, 0, a, b, c, d, e, f];
            let length = headers[0] - 40 + fragment.len();
            let bytes = self.fragments.push(&[&frame[..whole.at], &extension, &frame[fragment]]);
            bytes[at + 4..at + 6].copy_from_slice(&(length as u16).to_be_bytes());
            bytes[whole.next_at] = 44;
            length::put_length(bytes, layers.length);
        }
        Some(())
    }

    fn id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id = if id & 0xffff == 0xffff { id.wrapping_add(2) } else { id.wrapping_add(1) };
        id
    }
}

/// The payload ranges of fragments such that each with its header fits in `room`: all but the last are a multiple of 8
/// bytes.
/// The first header may be longer than the others.
fn ranges(payload: Range<usize>, room: usize, headers: [usize; 2]) -> Option<Vec<Range<usize>>> {
    let bytes = |header: usize| room.checked_sub(header).map(|bytes| bytes & !7).filter(|bytes| *bytes > 0);
    let (mut size, rest) = (bytes(headers[0])?, bytes(headers[1])?);
    let mut fragments = Vec::with_capacity(payload.len() / rest + 1);
    let mut start = payload.start;
    loop {
        let end = payload.end.min(start + size);
        fragments.push(start..end);
        if end == payload.end {
            return Some(fragments);
        }
        (start, size) = (end, rest);
    }
}

/// The header of all fragments but the first, without options that lack the copied flag (RFC 791).
fn repeated_options(header: &[u8]) -> Vec<u8> {
    let mut rest = header[..20].to_vec();
    let mut options = &header[20..];
    while let [kind, after @ ..] = options {
        let bytes = match (kind, after.first()) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(length)) if (2..=options.len()).contains(&usize::from(*length)) => usize::from(*length),
            _ => break,
        };
        if kind & 0x80 != 0 {
            rest.extend(&options[..bytes]);
        }
        options = &options[bytes..];
    }
    rest.resize(rest.len().next_multiple_of(4), 0);
    rest[0] = 0x40 | (rest.len() / 4) as u8;
    rest
}

/// An IPv6 fragment header, or its future place.
struct Place {
    at: usize,
    /// Offset of the next-header field that announces it.
    next_at: usize,
    /// The protocol after it.
    next: u8,
    payload: usize,
    offset_bytes: usize,
    more: bool,
    id: Option<u32>,
}

/// Finds the place after the headers that each router reads: hop-by-hop options, destination options before a routing
/// header, and the routing header (RFC 8200, section 4.5).
fn fragment_header(frame: &[u8], network: usize, ip: &Ip) -> Option<Place> {
    let (mut next_at, mut at) = (network + 6, network + 40);
    let mut place = None;
    loop {
        let next = frame[next_at];
        let header = frame.get(at..ip.end).and_then(|bytes| bytes.first_chunk::<8>());
        let fresh = Place { at, next_at, next, payload: at, offset_bytes: 0, more: false, id: None };
        match (next, header) {
            (FRAGMENT, Some(header)) => {
                let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let fragment = ipv6::fragment(header);
                return Some(Place {
                    next: header[0],
                    payload: at + FRAGMENT_BYTES,
                    offset_bytes: fragment.map_or(0, |fragment| fragment.offset_bytes.into()),
                    more: fragment.is_some_and(|fragment| fragment.more),
                    id: Some(id),
                    ..fresh
                });
            }
            (HOP_BY_HOP | ROUTING | DESTINATION, Some(header)) => {
                // Final destination options belong to the fragmentable part.
                if next == DESTINATION {
                    place = place.or(Some(fresh));
                } else {
                    place = None;
                }
                (next_at, at) = (at, at + ipv6::extension_bytes(next, header[1]));
            }
            (HOP_BY_HOP | ROUTING | DESTINATION | FRAGMENT, None) => return None,
            _ => return (at < ip.end).then(|| place.unwrap_or(fresh)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaff_testpackets as build;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn payload(bytes: usize) -> Vec<u8> {
        build::udp(1, 2, &(0..bytes).map(|i| (i * 7) as u8).collect::<Vec<_>>())
    }

    fn fragments(frame: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut maker = Mtu::new(mtu, MtuPolicy::Fragment);
        assert_eq!(maker.fit(&mut frame.to_vec(), frame.len() as u32), Fit::Fragmented);
        maker.fragments().map(<[u8]>::to_vec).collect()
    }

    /// The reassembled payload of the fragments, and true if it is complete.
    fn together(fragments: &[Vec<u8>]) -> (Vec<u8>, bool) {
        let (mut bytes, mut is_all) = (Vec::new(), false);
        for frame in fragments {
            let ip = net::layers(frame).unwrap().ip.unwrap();
            let fragment = ip.fragment.unwrap();
            let at = usize::from(fragment.offset_bytes);
            bytes.resize(bytes.len().max(at), 0);
            bytes.splice(at.., frame[ip.transport..ip.end].iter().copied());
            is_all |= !fragment.more;
        }
        (bytes, is_all)
    }

    #[test]
    fn a_datagram_in_pieces_is_the_same_datagram() {
        let packet = build::ipv4(A, B, 17, &[], &payload(3000));
        let frame = build::ethernet(&[(0x8100, 5)], 0x0800, &packet);
        let fragments = fragments(&frame, 1500);
        assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [18 + 1500, 18 + 1500, 18 + 20 + 48]);
        assert_eq!(together(&fragments), (payload(3000), true));
        // Equals the result of the test builder, except for the id and what depends on it.
        let theirs = build::ipv4_fragments(&packet, 1480);
        for (ours, theirs) in fragments.iter().zip(&theirs) {
            assert_eq!(&ours[18..], &theirs[..]);
        }
    }

    #[test]
    fn only_options_with_the_copied_flag_are_repeated() {
        // Record route (7), no operation, and router alert (0x94), which is copied.
        let options = [7, 3, 4, 1, 0x94, 4, 0, 0];
        let packet = build::ipv4(A, B, 17, &options, &payload(200));
        let fragments = fragments(&build::ethernet(&[], 0x0800, &packet), 128);
        assert_eq!((fragments[0][14], fragments[1][14]), (0x47, 0x46));
        assert_eq!(fragments[1][34..38], [0x94, 4, 0, 0]);
        assert_eq!(together(&fragments), (payload(200), true));
    }

    #[test]
    fn a_datagram_without_a_number_gets_one() {
        let mut packet = build::ipv4(A, B, 17, &[], &payload(200));
        packet[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
        let frame = build::ethernet(&[], 0x0800, &packet);
        let mut maker = Mtu::new(128, MtuPolicy::Fragment);
        let mut ids = Vec::new();
        for _ in 0..2 {
            maker.fit(&mut frame.clone(), frame.len() as u32);
            let fragment = maker.fragments().next().unwrap();
            ids.push(net::layers(fragment).unwrap().ip.unwrap().fragment.unwrap().id);
        }
        assert_eq!(ids, [1, 2]);
        assert_eq!(maker.counts, MtuCounts { fragmented: 2, fragments: 4, ..MtuCounts::default() });
    }

    #[test]
    fn ipv6_is_fragmented_after_what_routers_read() {
        let inner = build::ipv6_options(17, &payload(300));
        let packet =
            build::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 0, &build::ipv6_options(60, &inner));
        let fragments = fragments(&build::ethernet(&[], 0x86dd, &packet), 200);
        for fragment in &fragments {
            assert_eq!(
                (fragment[20], fragment[54], fragment[62]),
                (0, 44, 60),
                "hop-by-hop, fragment, destination"
            );
        }
        let after = fragments.iter().flat_map(|fragment| &fragment[70..]).copied();
        assert_eq!(after.collect::<Vec<_>>(), inner);
        assert_eq!(fragments.iter().map(|fragment| fragment[65] & 1).collect::<Vec<_>>(), [1, 1, 0]);
    }

    #[test]
    fn frames_that_cannot_be_fragmented_are_omitted() {
        let mut maker = Mtu::new(100, MtuPolicy::Fragment);
        let arp = build::ethernet(&[], 0x0806, &[0; 200]);
        assert_eq!(maker.fit(&mut arp.clone(), 214), Fit::Skipped);
        let cut = build::ethernet(&[], 0x0800, &build::ipv4(A, B, 17, &[], &payload(3000))[..400]);
        assert_eq!(maker.fit(&mut cut.clone(), 3042), Fit::Skipped);
        assert_eq!(maker.counts.skipped, 2);
        assert_eq!(Mtu::new(100, MtuPolicy::Fail).fit(&mut arp.clone(), 214), Fit::Failed);
        assert_eq!(Mtu::new(200, MtuPolicy::Fail).fit(&mut arp.clone(), 214), Fit::Whole);
    }

    #[test]
    fn a_tag_is_free() {
        let frame = build::ethernet(&[(0x8100, 1)], 0x0806, &[0; 100]);
        assert!(Mtu::new(100, MtuPolicy::Skip).takes(&frame));
        assert!(!Mtu::new(99, MtuPolicy::Skip).takes(&frame));
        let twice = build::ethernet(&[(0x88a8, 1), (0x8100, 1)], 0x0806, &[0; 100]);
        assert!(!Mtu::new(100, MtuPolicy::Skip).takes(&twice));
    }

    proptest! {
        #[test]
        fn pieces_fit_and_make_the_whole(bytes in 0usize..3000, mtu in 28usize..1600, again in 28usize..800, is_v6: bool) {
            let packet = if is_v6 {
                build::ethernet(&[], 0x86dd, &build::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 17, &payload(bytes)))
            } else {
                build::ethernet(&[], 0x0800, &build::ipv4(A, B, 17, &[], &payload(bytes)))
            };
            let (mut maker, mut second) = (Mtu::new(mtu, MtuPolicy::Fragment), Mtu::new(again, MtuPolicy::Fragment));
            if maker.fit(&mut packet.clone(), packet.len() as u32) == Fit::Fragmented {
                let first: Vec<_> = maker.fragments().map(<[u8]>::to_vec).collect();
                prop_assert!(first.iter().all(|fragment| maker.takes(fragment)));
                prop_assert_eq!(together(&first), (payload(bytes), true));
                let mut all = Vec::new();
                for fragment in first {
                    match second.fit(&mut fragment.clone(), fragment.len() as u32) {
                        Fit::Whole => all.push(fragment),
                        Fit::Fragmented => all.extend(second.fragments().map(<[u8]>::to_vec)),
                        _ => return Ok(()),
                    }
                }
                prop_assert_eq!(together(&all), (payload(bytes), true));
            }
        }

        #[test]
        fn whatever_comes_nothing_panics(mut frame in prop::collection::vec(any::<u8>(), 0..400), is_v6: bool, mtu in 0usize..200) {
            if frame.len() > 15 {
                frame[12..14].copy_from_slice(&if is_v6 { [0x86, 0xdd] } else { [8, 0] });
                frame[14] = if is_v6 { 0x60 } else { 0x40 | frame[14] & 15 };
            }
            for policy in [MtuPolicy::Fragment, MtuPolicy::Cut] {
                let mut maker = Mtu::new(mtu, policy);
                let mut frame = frame.clone();
                let bytes = frame.len() as u32;
                match maker.fit(&mut frame, bytes) {
                    Fit::Fragmented => prop_assert!(maker.fragments().all(|fragment| maker.takes(fragment))),
                    Fit::Cut => prop_assert!(maker.takes(&frame)),
                    _ => {}
                }
            }
        }
    }
}
