//! Parser of the blocks of a TPACKET_V3 ring (linux/if_packet.h, Documentation/networking/packet_mmap.rst).
//!
//! A block is a slice, and every offset in it is checked, so the parser is tested and fuzzed without a
//! kernel.

use crate::mem::prefetch;

/// Offsets in `struct tpacket_block_desc`, the header of a block.
pub(super) mod field {
    pub(crate) const STATUS: usize = 8;
    pub(crate) const NUM_PKTS: usize = 12;
    pub(crate) const OFFSET_TO_FIRST_PKT: usize = 16;
    pub(crate) const TS_LAST_SEC: usize = 40;
    pub(crate) const TS_LAST_NSEC: usize = 44;
}

/// Offsets in `struct tpacket3_hdr`, followed at 48 by `struct sockaddr_ll`.
mod packet {
    pub(super) const NEXT_OFFSET: usize = 0;
    pub(super) const SEC: usize = 4;
    pub(super) const NSEC: usize = 8;
    pub(super) const SNAPLEN: usize = 12;
    pub(super) const LEN: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const MAC: usize = 24;
    pub(super) const VLAN_TCI: usize = 32;
    pub(super) const VLAN_TPID: usize = 36;
    pub(super) const PROTOCOL: usize = 48 + 2;
    pub(super) const PKTTYPE: usize = 48 + 10;
    pub(super) const BYTES: usize = 48 + 20;
}

const ETH_P_8021Q: u16 = 0x8100;
/// Distance by which a block is prefetched ahead, bytes. Headers are not prefetched one by one: the offset of each is
/// in the one before, so with packets of different lengths each would be a cache miss.
const AHEAD_BYTES: usize = 2048;
const LINE_BYTES: usize = 64;

/// The header of one packet in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Time stamp: seconds since 1970.
    pub sec: u32,
    /// Time stamp: nanoseconds within `sec`.
    pub nsec: u32,
    /// Offset of the first byte from the start of the block.
    pub start: u32,
    /// Bytes captured.
    pub snaplen: u32,
    /// Bytes on the wire, without the tag in `vlan`.
    pub len: u32,
    /// The VLAN tag that the kernel removed from the frame: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
    /// `sll_protocol`: the protocol by which the kernel chooses a handler, an EtherType or one of linux/if_ether.h.
    pub protocol: u16,
    /// `sll_pkttype` (PACKET_HOST 0, _BROADCAST 1, _MULTICAST 2, _OTHERHOST 3, _OUTGOING 4).
    pub pkttype: u8,
    /// The adapter stamped the packet (TP_STATUS_TS_RAW_HARDWARE).
    pub hardware_time: bool,
}

/// The header of a block, and the position of a walk through it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    next: usize,
    /// Lines before this offset were prefetched.
    prefetched: usize,
    /// Number of packets left.
    pub left: u32,
    /// Packets were dropped before the block was finished (TP_STATUS_LOSING).
    pub is_losing: bool,
    /// Time stamp of the last packet of the block, ns since 1970 (`ts_last_pkt`).
    pub last_ns: u64,
}

impl Cursor {
    /// Starts at the first packet of `block`.
    pub fn new(block: &[u8]) -> Self {
        let word = |at| u32_at(block, at).unwrap_or(0);
        Self {
            next: word(field::OFFSET_TO_FIRST_PKT) as usize,
            prefetched: 0,
            left: word(field::NUM_PKTS),
            is_losing: word(field::STATUS) & libc::TP_STATUS_LOSING != 0,
            last_ns: u64::from(word(field::TS_LAST_SEC)) * 1_000_000_000
                + u64::from(word(field::TS_LAST_NSEC)),
        }
    }

    /// Passes up to `most` packets of `block` to `take`. A packet that reaches outside the block ends the
    /// walk: the rest is not delivered, and the caller's counts differ from the kernel's.
    #[inline]
    pub fn walk(&mut self, block: &[u8], most: u32, mut take: impl FnMut(Packet)) {
        // Not in `self`, so that they stay in registers.
        let (mut next, mut prefetched, most) = (self.next, self.prefetched, self.left.min(most));
        self.left -= most;
        for _ in 0..most {
            let Some(header) = block.get(next..).and_then(<[u8]>::first_chunk) else {
                self.left = 0;
                break;
            };
            let stride = next_offset(header);
            // A wrong stride prefetches nothing outside the block.
            let ahead = (next + stride + AHEAD_BYTES).min(block.len());
            while prefetched < ahead {
                prefetch(block, prefetched);
                prefetched += LINE_BYTES;
            }
            let packet = read(header, next);
            let end = packet.start as usize + packet.snaplen as usize;
            if end > block.len() {
                self.left = 0;
                break;
            }
            take(packet);
            next += stride;
        }
        (self.next, self.prefetched) = (next, prefetched);
    }
}

#[inline(always)]
fn next_offset(header: &[u8; packet::BYTES]) -> usize {
    const AT: usize = packet::NEXT_OFFSET;
    u32::from_ne_bytes([header[AT], header[AT + 1], header[AT + 2], header[AT + 3]]) as usize
}

#[inline(always)]
fn read(header: &[u8; packet::BYTES], offset: usize) -> Packet {
    let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let status = word(packet::STATUS);
    Packet {
        sec: word(packet::SEC),
        nsec: word(packet::NSEC),
        start: offset as u32 + u32::from(half(packet::MAC)),
        snaplen: word(packet::SNAPLEN),
        len: word(packet::LEN),
        vlan: (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if known { half(packet::VLAN_TPID) } else { ETH_P_8021Q };
            (tpid, word(packet::VLAN_TCI) as u16)
        }),
        protocol: u16::from_be(half(packet::PROTOCOL)),
        pkttype: header[packet::PKTTYPE],
        hardware_time: status & libc::TP_STATUS_TS_RAW_HARDWARE != 0,
    }
}

fn u32_at(block: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(block.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A block as the kernel lays it out, with packets of the given lengths.
    fn block(lengths: &[usize]) -> Vec<u8> {
        let mut block = vec![0u8; 48];
        block[field::NUM_PKTS..][..4].copy_from_slice(&(lengths.len() as u32).to_ne_bytes());
        block[field::OFFSET_TO_FIRST_PKT..][..4].copy_from_slice(&48u32.to_ne_bytes());
        for (i, len) in lengths.iter().enumerate() {
            let stride = (82 + len).next_multiple_of(8);
            let mut packet = vec![0u8; stride];
            packet[packet::NEXT_OFFSET..][..4].copy_from_slice(&(stride as u32).to_ne_bytes());
            packet[packet::SEC..][..4].copy_from_slice(&(i as u32).to_ne_bytes());
            packet[packet::SNAPLEN..][..4].copy_from_slice(&(*len as u32).to_ne_bytes());
            packet[packet::LEN..][..4].copy_from_slice(&(*len as u32 + 1).to_ne_bytes());
            packet[packet::MAC..][..2].copy_from_slice(&82u16.to_ne_bytes());
            packet[82..82 + len].fill(i as u8);
            block.extend(packet);
        }
        block
    }

    proptest! {
        #[test]
        fn a_walk_in_steps_sees_every_packet_once(
            lengths in prop::collection::vec(0usize..300, 0..40), step in 1u32..7
        ) {
            let block = block(&lengths);
            let mut cursor = Cursor::new(&block);
            let mut seen = Vec::new();
            while cursor.left > 0 {
                cursor.walk(&block, step, |packet| seen.push(packet));
            }
            prop_assert_eq!(seen.len(), lengths.len());
            for (i, (packet, len)) in seen.iter().zip(&lengths).enumerate() {
                prop_assert_eq!((packet.sec, packet.snaplen, packet.len), (i as u32, *len as u32, *len as u32 + 1));
                let bytes = &block[packet.start as usize..][..*len];
                prop_assert!(bytes.iter().all(|byte| *byte == i as u8));
            }
        }

        #[test]
        fn a_torn_block_gives_the_packets_before_the_tear(
            lengths in prop::collection::vec(1usize..300, 1..20), cut in any::<prop::sample::Index>()
        ) {
            let whole = block(&lengths);
            let torn = &whole[..cut.index(whole.len())];
            let mut cursor = Cursor::new(torn);
            let mut seen = Vec::new();
            cursor.walk(torn, u32::MAX, |packet| seen.push(packet));
            let mut end = 48;
            let fits = lengths.iter().take_while(|len| {
                let start = end + 82;
                end += (82 + **len).next_multiple_of(8);
                start + **len <= torn.len()
            });
            prop_assert_eq!(seen.len(), fits.count());
            prop_assert_eq!(cursor.left, 0);
        }

        #[test]
        fn a_packet_that_points_outside_ends_the_walk(
            count in 1usize..20, bad in any::<prop::sample::Index>(), field in 0usize..2, value in 70_000u32..
        ) {
            let lengths = vec![60; count];
            let (mut bytes, bad) = (block(&lengths), bad.index(count));
            let field = [packet::SNAPLEN, packet::NEXT_OFFSET][field];
            bytes[48 + bad * 144 + field..][..4].copy_from_slice(&value.to_ne_bytes());
            let mut cursor = Cursor::new(&bytes);
            let mut seen = 0;
            cursor.walk(&bytes, u32::MAX, |_| seen += 1);
            // A packet with a wrong length is not delivered; one that misplaces the next is the last.
            prop_assert_eq!(seen, if field == packet::SNAPLEN { bad } else { bad + 1 });
            prop_assert_eq!(cursor.left, 0);
        }

        #[test]
        fn any_bytes_are_survived(block in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut cursor = Cursor::new(&block);
            let mut left = 1000;
            while cursor.left > 0 && left > 0 {
                cursor.walk(&block, 100, |packet| {
                    assert!((packet.start + packet.snaplen) as usize <= block.len());
                });
                left -= 1;
            }
        }
    }

    #[test]
    fn a_vlan_tag_keeps_tpid_and_tci() {
        let mut bytes = block(&[60]);
        let status = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        bytes[48 + packet::STATUS..][..4].copy_from_slice(&status.to_ne_bytes());
        bytes[48 + packet::VLAN_TCI..][..4].copy_from_slice(&0xb064u32.to_ne_bytes());
        bytes[48 + packet::VLAN_TPID..][..2].copy_from_slice(&0x88a8u16.to_ne_bytes());
        let mut tags = Vec::new();
        Cursor::new(&bytes).walk(&bytes, 1, |packet| tags.push(packet.vlan));
        assert_eq!(tags, [Some((0x88a8, 0xb064))]);
    }
}
