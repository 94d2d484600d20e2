//! UDP (RFC 768): access to the fields of the header.

use super::be16;

/// Protocol number (IANA).
pub const UDP: u8 = 17;
/// Length of the header.
pub const UDP_BYTES: usize = 8;
/// Offset of the checksum in the header; 0 there means no checksum.
pub(crate) const CHECKSUM_OFFSET: usize = 6;

/// Source port, destination port and length of the header at the front of `bytes`.
#[inline]
pub(crate) fn fields(bytes: &[u8; UDP_BYTES]) -> [u16; 3] {
    [0, 2, 4].map(|at| be16(bytes, at).unwrap_or_default())
}

/// The checksum for the sum over pseudo-header, header and payload; a computed zero is sent as all ones.
#[inline]
pub(crate) fn checksum(sum: u16) -> u16 {
    if sum == 0xffff { sum } else { !sum }
}

/// A header before `payload_bytes`, without a checksum.
pub(crate) fn header([source, destination]: [u16; 2], payload_bytes: usize) -> [u8; UDP_BYTES] {
    let length = u16::try_from(UDP_BYTES + payload_bytes).unwrap_or(0);
    let words = [source, destination, length, 0].map(u16::to_be_bytes);
    std::array::from_fn(|i| words[i / 2][i % 2])
}
