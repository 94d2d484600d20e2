//! The SCTP checksum: CRC32c over the packet with a zero checksum field (RFC 9260, section 6.8).

/// Offset of the checksum in the common header; little-endian.
const AT: usize = 8;
const TABLE: [u32; 256] = table();

/// Recomputes the checksum.
pub(super) fn recompute(packet: &mut [u8]) {
    if packet.len() < AT + 4 || packet[AT..AT + 4] == [0; 4] {
        return; // No checksum (RFC 9653), or it is truncated.
    }
    packet[AT..AT + 4].fill(0);
    let crc = !feed(u32::MAX, packet);
    packet[AT..AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Writes ports into the packet of `bytes` bytes at `at`, which may be truncated, and updates the checksum: CRC is
/// linear, so its change is the CRC of the difference.
///
/// The packet length is unknown for a fragment, whose checksum stays.
pub(super) fn put_ports(frame: &mut [u8], at: usize, new: [u8; 4], bytes: usize, is_fragment: bool) {
    let old = [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
    frame[at..at + 4].copy_from_slice(&new);
    let Some(sum) = frame.get_mut(at + AT..at + AT + 4) else { return };
    if is_fragment || old == new || *sum == [0; 4] {
        return;
    }
    let difference: [u8; 4] = std::array::from_fn(|i| old[i] ^ new[i]);
    let mut crc = feed(0, &difference);
    for _ in 4..bytes {
        crc = feed(crc, &[0]);
    }
    for (byte, change) in sum.iter_mut().zip(crc.to_le_bytes()) {
        *byte ^= change;
    }
}

fn feed(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

const fn table() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u32, 0);
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_of_crc32c() {
        assert_eq!(!feed(u32::MAX, b"123456789"), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn a_change_of_ports_gives_what_computing_gives(mut packet in prop::collection::vec(any::<u8>(), 12..200), new: [u8; 4], cut in 12usize..200) {
            packet[AT] |= 1; // There is one.
            recompute(&mut packet);
            let mut computed = packet.clone();
            computed[..4].copy_from_slice(&new);
            recompute(&mut computed);
            let bytes = packet.len();
            packet.truncate(cut);
            put_ports(&mut packet, 0, new, bytes, false);
            prop_assert_eq!(&packet[..], &computed[..cut.min(bytes)]);
        }
    }
}
