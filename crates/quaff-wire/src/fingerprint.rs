//! Recognises a frame at the far end of a link: a hash of its bytes, and a sketch for frames whose bytes were changed
//! on the way.
//!
//! Short Ethernet frames count as padded with zeros, since cards pad them (IEEE 802.3, 3.2.8). There is no protection
//! against crafted collisions: both files belong to the user.

use crate::linktype;
use crate::net::{self, link};

/// Minimum length of an Ethernet frame without FCS; shorter ones are padded.
const ETHERNET_BYTES_MIN: usize = 60;
/// Offset before which MAC addresses, tags and the IP header fields that a router changes lie.
const HEAD_BYTES: usize = 128;
/// Odd 64-bit numbers with as many ones as zeros.
const KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

/// The parts of a frame that are not compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mask {
    /// Both MAC addresses of an Ethernet frame.
    pub macs: bool,
    /// TTL and header checksum (RFC 791), or hop limit (RFC 8200), of the outermost IP header.
    pub ttl: bool,
    /// All bytes after this offset.
    pub snaplen: Option<usize>,
}

/// A summary of an unmatched frame, with which its changed counterpart can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sketch {
    /// Hash of addresses, protocol and ports; of MAC addresses and EtherType if it is not IP.
    pub flow: u32,
    /// Hash of the second half of its bytes.
    pub half: u16,
    /// Length, bytes, at most 65,535.
    pub len: u16,
}

/// Hash of the bytes of a frame without the parts in `mask`.
pub fn content(frame: &[u8], linktype: u16, mask: &Mask) -> u64 {
    let is_ethernet = linktype == linktype::ETHERNET.linktype;
    let is_short = is_ethernet && frame.len() < ETHERNET_BYTES_MIN;
    let bytes = cut(frame, mask);
    let is_as_it_is = !(is_short || mask.ttl || (is_ethernet && mask.macs));
    if is_as_it_is {
        return hash(&[], bytes, linktype.into());
    }
    let mut head = [0; HEAD_BYTES];
    let head_bytes = bytes.len().min(HEAD_BYTES);
    head[..head_bytes].copy_from_slice(&bytes[..head_bytes]);
    if is_ethernet && mask.macs {
        head[..12].fill(0);
    }
    if mask.ttl {
        blank_ttl(&mut head, bytes, linktype);
    }
    let padded = if is_short { ETHERNET_BYTES_MIN } else { head_bytes };
    let padded = padded.min(mask.snaplen.unwrap_or(usize::MAX)).max(head_bytes);
    hash(&head[..padded], &bytes[head_bytes..], linktype.into())
}

/// Hash of the first bytes of an IP packet of `length` bytes, without TTL and header checksum, or hop limit. `secret`
/// must be unknown to its sender.
#[inline]
pub fn packet(bytes: &[u8], length: usize, secret: u64) -> u64 {
    // Most packets are longer than the compared part, whose length the compiler then knows.
    match bytes.first_chunk::<USUAL_BYTES>() {
        Some(usual) if bytes.len() == USUAL_BYTES => masked(usual, length, secret),
        _ if bytes.len() >= 2 * BLOCK_BYTES => masked(bytes, length, secret),
        _ => {
            let mut padded = [0; 2 * BLOCK_BYTES];
            padded[..bytes.len()].copy_from_slice(bytes);
            masked(&padded, length ^ bytes.len() << 32, secret)
        }
    }
}

/// Bytes hashed per step, and compared bytes of most packets.
const BLOCK_BYTES: usize = 16;
const USUAL_BYTES: usize = 96;

/// The hash of two or more blocks. The last one may overlap the one before it, but never the first.
#[inline]
fn masked(bytes: &[u8], length: usize, secret: u64) -> u64 {
    let keys = [secret ^ KEYS[1], secret.rotate_left(32) ^ KEYS[2]];
    let is_v4 = bytes.first().is_some_and(|first| first >> 4 == 4);
    // TTL and checksum are bytes 8, 10 and 11 in IPv4, the hop limit is byte 7 in IPv6.
    let masks = if is_v4 { [u64::MAX, !0xffff_00ff] } else { [u64::MAX >> 8, u64::MAX] };
    let first = mix(word(bytes, 0) & masks[0] ^ keys[0], word(bytes, 8) & masks[1] ^ keys[1]);
    let mut blocks = bytes[BLOCK_BYTES..].chunks_exact(BLOCK_BYTES);
    let mut state =
        (&mut blocks).fold(first, |state, block| mix(word(block, 0) ^ keys[0], word(block, 8) ^ state));
    if !blocks.remainder().is_empty() {
        let last = &bytes[bytes.len() - BLOCK_BYTES..];
        state = mix(word(last, 0) ^ keys[0], word(last, 8) ^ state);
    }
    mix(state ^ keys[1], length as u64 ^ keys[0])
}

/// The sketch of a frame.
pub fn sketch(frame: &[u8], linktype: u16, mask: &Mask) -> Sketch {
    let is_ethernet = linktype == linktype::ETHERNET.linktype;
    let frame = cut(frame, mask);
    let len = if is_ethernet { frame.len().max(ETHERNET_BYTES_MIN) } else { frame.len() };
    let half = hash(&[], &frame[frame.len() / 2..], 0) as u16;
    let ip = link::ip_offset(frame, linktype).and_then(|at| net::ip_at(frame, at));
    let flow = match ip {
        Some(ip) => ip_flow(&ip, frame),
        None if mask.macs && is_ethernet => hash(&[], frame.get(12..14).unwrap_or_default(), 1),
        None => hash(&[], &frame[..frame.len().min(net::ETHERNET_BYTES)], 1),
    };
    Sketch { flow: flow as u32, half, len: len.min(usize::from(u16::MAX)) as u16 }
}

fn cut<'a>(frame: &'a [u8], mask: &Mask) -> &'a [u8] {
    &frame[..frame.len().min(mask.snaplen.unwrap_or(usize::MAX))]
}

fn ip_flow(ip: &net::Ip, frame: &[u8]) -> u64 {
    let mut key = [0; 40];
    for (address, at) in ip.addresses.iter().zip([0, 16]) {
        match address {
            std::net::IpAddr::V4(address) => key[at..at + 4].copy_from_slice(&address.octets()),
            std::net::IpAddr::V6(address) => key[at..at + 16].copy_from_slice(&address.octets()),
        }
    }
    let [from, to] = ip.ports(frame).unwrap_or_default();
    key[32..34].copy_from_slice(&from.to_be_bytes());
    key[34..36].copy_from_slice(&to.to_be_bytes());
    key[36] = ip.protocol;
    hash(&[], &key, 2)
}

/// Clears the fields that routers change, in a copy of the frame's first bytes.
fn blank_ttl(head: &mut [u8; HEAD_BYTES], frame: &[u8], linktype: u16) {
    let network = link::ip_offset(frame, linktype).filter(|at| net::ip_at(frame, *at).is_some());
    let Some(network) = network else { return };
    if network + 12 > HEAD_BYTES {
        return;
    }
    match head[network] >> 4 {
        4 => {
            head[network + 8] = 0;
            head[network + 10..network + 12].fill(0);
        }
        _ => head[network + 7] = 0,
    }
}

/// A hash of two parts; an empty one has no effect. Compared frames are split alike.
fn hash(head: &[u8], rest: &[u8], seed: u64) -> u64 {
    let mut state = mix(seed ^ KEYS[0], KEYS[1]);
    for part in [head, rest] {
        state = if part.is_empty() { state } else { update(state, part) };
    }
    mix(state ^ KEYS[2], (head.len() + rest.len()) as u64 ^ KEYS[3])
}

fn update(state: u64, bytes: &[u8]) -> u64 {
    let (mut one, mut two) = (state, state ^ KEYS[3]);
    let mut steps = bytes.chunks_exact(32);
    for step in &mut steps {
        one = mix(word(step, 0) ^ KEYS[1], word(step, 8) ^ one);
        two = mix(word(step, 16) ^ KEYS[2], word(step, 24) ^ two);
    }
    let rest = steps.remainder();
    if !rest.is_empty() {
        let mut last = [0; 32];
        last[..rest.len()].copy_from_slice(rest);
        one = mix(word(&last, 0) ^ KEYS[1], word(&last, 8) ^ one);
        two = mix(word(&last, 16) ^ KEYS[2], word(&last, 24) ^ two);
    }
    one ^ two.rotate_left(23)
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// XOR of both halves of a product.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ETHERNET: u16 = linktype::ETHERNET.linktype;

    /// An IPv4 or IPv6 frame with UDP ports and a payload.
    fn frame(v6: bool, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload.len() as u8 + 8, net::UDP, 64]);
            frame.extend([7; 32]);
        } else {
            frame.extend([8, 0, 0x45, 0, 0, payload.len() as u8 + 28, 0, 1, 0, 0, 64, net::UDP, 1, 2]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        frame.extend([0, 1, 0, 2, 0, 0, 0, 0]);
        frame.extend(payload);
        frame
    }

    #[test]
    fn a_card_that_pads_does_not_change_a_frame() {
        let short = frame(false, &[]);
        let mut padded = short.clone();
        padded.resize(60, 0);
        for snaplen in [None, Some(40), Some(58), Some(60)] {
            let mask = Mask { snaplen, ..Mask::default() };
            let cut = &padded[..padded.len().min(snaplen.unwrap_or(60))];
            assert_eq!(content(&short, ETHERNET, &mask), content(cut, ETHERNET, &mask), "{snaplen:?}");
        }
        padded.push(0);
        assert_ne!(content(&short, ETHERNET, &Mask::default()), content(&padded, ETHERNET, &Mask::default()));
        assert_ne!(content(&short, 101, &Mask::default()), content(&padded[..60], 101, &Mask::default()));
    }

    #[test]
    fn a_router_changes_what_the_mask_leaves_out() {
        let mask = Mask { macs: true, ttl: true, snaplen: None };
        for (v6, ttl) in [(false, vec![22, 24, 25]), (true, vec![21])] {
            for payload in [0, 3, 150] {
                let sent = frame(v6, &vec![9; payload]);
                for at in (0..12).chain(ttl.iter().copied()) {
                    let mut got = sent.clone();
                    got[at] ^= 1;
                    assert_eq!(content(&sent, ETHERNET, &mask), content(&got, ETHERNET, &mask), "byte {at}");
                    let all = Mask::default();
                    assert_ne!(content(&sent, ETHERNET, &all), content(&got, ETHERNET, &all), "byte {at}");
                }
            }
        }
    }

    /// The IP header is where the table of link types has it.
    #[test]
    fn a_router_changes_packets_of_every_link_type_alike() {
        let mask = Mask { ttl: true, ..Mask::default() };
        let packet = &frame(false, &[9; 40])[ETHERNET_BYTES..];
        const ETHERNET_BYTES: usize = net::ETHERNET_BYTES;
        let cooked = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0];
        for (linktype, head) in [(101, &[][..]), (0, &[2, 0, 0, 0]), (9, &[0x21]), (113, &cooked)] {
            let sent = [head, packet].concat();
            let mut got = sent.clone();
            got[head.len() + 8] -= 1;
            assert_eq!(content(&sent, linktype, &mask), content(&got, linktype, &mask), "{linktype}");
            let flow = |bytes: &[u8]| sketch(bytes, linktype, &mask).flow;
            let other = [head, &frame(false, &[8; 40])[ETHERNET_BYTES..]].concat();
            assert_eq!(flow(&sent), flow(&other), "{linktype}: the same ends");
        }
    }

    #[test]
    fn routers_change_no_hash_of_a_packet_and_each_other_byte_does() {
        for (v6, changed) in [(false, &[8, 10, 11][..]), (true, &[7])] {
            for payload in [0, 3, 4, 5, 11, 20, 60, 67, 68, 69, 100] {
                let mut bytes = frame(v6, &vec![9; payload])[14..].to_vec();
                let of = |bytes: &[u8]| packet(bytes, 1000, 7);
                let expected = of(&bytes);
                for at in 0..bytes.len() {
                    bytes[at] ^= 0x10;
                    assert_eq!(of(&bytes) == expected, changed.contains(&at), "{v6} {payload} {at}");
                    bytes[at] ^= 0x10;
                }
                assert_ne!(packet(&bytes, 1001, 7), expected);
                assert_ne!(packet(&bytes, 1000, 8), expected);
                assert_ne!(of(&[&bytes[..], &[0]].concat()), expected);
            }
        }
        assert_ne!(packet(&[0x45], 1000, 7), packet(&[0x45, 0], 1000, 7));
    }

    #[test]
    fn a_changed_frame_resembles_what_it_was() {
        let mask = Mask::default();
        let sent = frame(false, &[9; 100]);
        for at in 0..sent.len() {
            let mut got = sent.clone();
            got[at] ^= 0x10;
            let (sent, got) = (sketch(&sent, ETHERNET, &mask), sketch(&got, ETHERNET, &mask));
            assert!(sent.len == got.len && (sent.flow == got.flow || sent.half == got.half), "byte {at}");
        }
        let (sent, other) =
            (sketch(&sent, ETHERNET, &mask), sketch(&frame(true, &[8; 100]), ETHERNET, &mask));
        assert!(sent.flow != other.flow && sent.half != other.half);
    }

    proptest! {
        #[test]
        fn each_byte_counts(frame in prop::collection::vec(any::<u8>(), 1..300), at: prop::sample::Index, bit in 0..8u8) {
            let mut other = frame.clone();
            other[at.index(frame.len())] ^= 1 << bit;
            let mask = Mask::default();
            prop_assert_ne!(content(&frame, ETHERNET, &mask), content(&other, ETHERNET, &mask));
            prop_assert_ne!(content(&frame, 101, &mask), content(&frame[1..], 101, &mask));
        }

        #[test]
        fn whatever_the_bytes_nothing_panics(frame in prop::collection::vec(any::<u8>(), 0..200), macs: bool, ttl: bool, snaplen in 0usize..210) {
            let mask = Mask { macs, ttl, snaplen: Some(snaplen) };
            for linktype in [ETHERNET, 101] {
                let cut = &frame[..frame.len().min(snaplen)];
                prop_assert_eq!(content(&frame, linktype, &mask), content(cut, linktype, &mask));
                let _ = sketch(&frame, linktype, &mask);
            }
        }
    }
}
