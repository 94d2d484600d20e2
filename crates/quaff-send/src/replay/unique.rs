//! `--unique-ip`, new flows in each pass: shifts the addresses of every frame without invalidating its checksums.
//!
//! In each pass the lower address of a frame decreases by one and the higher one increases by one, so that both
//! directions of a conversation stay together and the sum of both addresses is constant. The arithmetic is modulo
//! 2^32 - 1, like that of one's complement checksums (RFC 1071), in which 0 and 2^32 - 1 are the same number. In an
//! IPv6 address the last 32 bits change. No other field is edited. Addresses below MPLS, PPPoE and backbone headers
//! are shifted as well. The addresses are those of the ends: of a packet that a routing header sends on, the final one.

use quaff_wire::net;

/// The modulus of the arithmetic on addresses.
const MODULUS: u32 = u32::MAX;

/// Offsets of the two 32-bit numbers in a frame, bytes; both 0 if it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The number that decreases.
    pub(super) down: u16,
    /// The number that increases.
    pub(super) up: u16,
}

/// Returns the offsets of the addresses of a frame.
pub(super) fn places(frame: &[u8]) -> Places {
    let Some(layers) = net::layers(frame) else { return Places::default() };
    let Some(ip) = layers.ip else { return Places::default() };
    // The ends of the conversation, whose addresses the checksum covers: a routing header may have one of them.
    let [(source, Some(src)), (destination, Some(dst))] = ip.ends(frame, layers.ip_offset) else {
        return Places::default();
    };
    // The checksum of an IPv4 header also covers its options, in words of 16 bits.
    let is_askew = !ip.is_v6() && (src ^ dst) & 1 != 0;
    if src.max(dst) + 4 > frame.len() || is_askew {
        return Places::default();
    }
    let [src_port, dst_port] = ip.ports(frame).unwrap_or_default();
    let is_lower = (source, src_port) <= (destination, dst_port);
    let [Ok(src), Ok(dst)] = [src, dst].map(u16::try_from) else { return Places::default() };
    if is_lower { Places { down: src, up: dst } } else { Places { down: dst, up: src } }
}

/// Shifts the addresses by `passes` passes, as the BPF program does.
pub(super) fn shift(frame: &mut [u8], places: Places, passes: u64) {
    let by = (passes % u64::from(MODULUS)) as u32;
    if places == Places::default() || passes == 0 {
        return;
    }
    change(frame, places.down, |low| {
        let moved = (u64::from(low) + u64::from(MODULUS) - u64::from(by)) % u64::from(MODULUS);
        moved as u32
    });
    change(frame, places.up, |high| match ((u64::from(high) + u64::from(by)) % u64::from(MODULUS)) as u32 {
        0 => MODULUS,
        moved => moved,
    });
}

fn change(frame: &mut [u8], at: u16, to: impl FnOnce(u32) -> u32) {
    if let Some(bytes) = frame.get_mut(usize::from(at)..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *bytes = to(u32::from_be_bytes(*bytes)).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaff_testpackets as build;
    use quaff_wire::rewrite::Rewrite;
    use std::net::Ipv6Addr;

    /// One step down, as the BPF program computes it.
    fn one_down(low: u32) -> u32 {
        if low == 0 { MODULUS - 1 } else { low - 1 }
    }

    fn one_up(high: u32) -> u32 {
        if high == MODULUS { 1 } else { high + 1 }
    }

    fn sum(frame: &[u8]) -> u32 {
        frame.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>() % 0xffff
    }

    proptest! {
        #[test]
        fn a_shift_by_many_passes_equals_as_many_single_ones(
            low in prop_oneof![Just(0), Just(1), Just(u32::MAX), any::<u32>()],
            high in prop_oneof![Just(0), Just(u32::MAX - 1), Just(u32::MAX), any::<u32>()],
            passes in 1u64..40,
        ) {
            let mut frame = [&[9, 9, 9, 9], &low.to_be_bytes()[..], &high.to_be_bytes()].concat();
            let before = sum(&frame);
            shift(&mut frame, Places { down: 4, up: 8 }, passes);
            let (mut down, mut up) = (low, high);
            for _ in 0..passes {
                (down, up) = (one_down(down), one_up(up));
            }
            prop_assert_eq!(&frame[4..], [down.to_be_bytes(), up.to_be_bytes()].concat());
            prop_assert_eq!(sum(&frame), before, "the checksum stays valid");
        }
    }

    /// The checksum covers the final destination, which is in the routing header while segments are left.
    #[test]
    fn a_routed_packet_keeps_a_valid_checksum() {
        let [a, b, c] = [1, 2, 3].map(|last| Ipv6Addr::from(0x2001_0db8 << 96 | last));
        for (kind, addresses) in [(0, vec![c, b]), (2, vec![b]), (4, vec![b, c])] {
            let list: Vec<u8> = addresses.iter().flat_map(|address| address.octets()).collect();
            let header = [&[net::UDP, 2 * addresses.len() as u8, kind, 1, 1, 0, 0, 0], &list[..]].concat();
            let mut datagram = build::udp(5000, 53, b"some payload");
            datagram[6] = 9;
            let packet = build::ipv6(a, c, 43, &[header, datagram].concat());
            let mut frame = build::ethernet(&[], 0x86dd, &packet);
            let plan = Rewrite { fix_checksums: true, ..Rewrite::default() };
            plan.edit(&mut frame, 0);
            let original = frame.clone();
            let places = places(&frame);
            shift(&mut frame, places, 3);
            assert_eq!(frame[38..54], original[38..54], "the next hop stays");
            assert_ne!(frame[22..38], original[22..38]);
            let mut fixed = frame.clone();
            plan.edit(&mut fixed, 0);
            assert_eq!(fixed, frame, "type {kind}");
        }
    }

    #[test]
    fn both_directions_shift_alike() {
        let frame = |src: [u8; 4], dst: [u8; 4], ports: [u16; 2]| {
            let mut frame = vec![0; 12];
            frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend([src, dst].concat());
            frame.extend([ports[0].to_be_bytes(), ports[1].to_be_bytes(), [0, 8], [0, 0]].concat());
            frame
        };
        let (client, server, ports) = ([10, 0, 0, 200], [10, 0, 0, 7], [40_000, 53]);
        let there_bytes = frame(client, server, ports);
        let there = places(&there_bytes);
        let back = places(&frame(server, client, [53, 40_000]));
        assert_eq!((there, back), (Places { down: 30, up: 26 }, Places { down: 26, up: 30 }));
        // If both addresses are equal, the ports decide.
        let there = places(&frame(client, client, ports));
        let back = places(&frame(client, client, [53, 40_000]));
        assert_eq!((there, back), (Places { down: 30, up: 26 }, Places { down: 26, up: 30 }));
        // Only one direction has labels.
        let bare = frame(server, client, [53, 40_000]);
        let labels = [0, 1, 0x00, 64, 0, 1, 0x11, 64];
        let labelled = [&bare[..12], &[0x88, 0x47], &labels, &bare[14..]].concat();
        assert_eq!(places(&labelled), Places { down: 34, up: 38 });
        // And only one is sent by way of a router.
        let route = [137, 7, 4, 10, 0, 0, 7, 0];
        let mut routed = [&there_bytes[..34], &route, &there_bytes[34..]].concat();
        (routed[14], routed[17]) = (0x47, 36);
        routed[30..34].copy_from_slice(&[10, 0, 0, 99]);
        assert_eq!(places(&routed), Places::default(), "its checksum would become wrong");
        routed[34..42].copy_from_slice(&[1, 137, 7, 4, 10, 0, 0, 7]);
        assert_eq!(places(&routed), Places { down: 38, up: 26 });
        assert_eq!(places(&[0; 60]), Places::default());
        assert_eq!(places(&frame(client, server, ports)[..31]), Places::default());
    }
}
