//! A captured packet to be written to a file of either format.

use crate::net::{MACS_BYTES, TAG_BYTES};

/// Offset of a VLAN tag: after the two MAC addresses (IEEE 802.1Q, 9.3).
pub(crate) const TAG_OFFSET: usize = MACS_BYTES;

/// Direction of a received packet, as in pcapng's `epb_flags`.
pub const INBOUND: u32 = 0b01;
/// Direction of a sent packet, as in pcapng's `epb_flags`.
pub const OUTBOUND: u32 = 0b10;

/// A packet to be written, with what the formats can store of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record<'a> {
    /// Timestamp, ns since 1970.
    pub time_ns: u64,
    /// Captured bytes, without `tag`.
    pub bytes: &'a [u8],
    /// Length on the wire, without `tag`, bytes.
    pub len: u32,
    /// A VLAN tag (TPID, TCI) that the kernel removed, to be restored. It counts in [`Record::captured`] and
    /// [`Record::wire_len`].
    pub tag: Option<(u16, u16)>,
    /// [`INBOUND`], [`OUTBOUND`], or 0 if unknown.
    pub direction: u32,
    /// Packets lost between the previous packet and this one.
    pub dropped: u64,
    /// Maximum number of bytes to write; 0: no limit.
    pub snaplen: u32,
}

impl Record<'_> {
    /// Number of bytes that go into the file.
    #[inline]
    pub fn captured(&self) -> usize {
        let whole = self.bytes.len() + self.tag_bytes();
        if self.snaplen == 0 { whole } else { whole.min(self.snaplen as usize) }
    }

    /// Length on the wire including the tag.
    #[inline]
    pub(crate) fn wire_len(&self) -> u32 {
        self.len + self.tag_bytes() as u32
    }

    /// A tag can be restored only if the MAC addresses are present.
    #[inline]
    fn tag_bytes(&self) -> usize {
        if self.tag.is_some() && self.bytes.len() >= TAG_OFFSET { TAG_BYTES } else { 0 }
    }
}

/// The destination of records: bytes are appended.
pub trait Append {
    /// Appends uninitialised space around a packet, which the caller must fill.
    fn take(&mut self, bytes: usize) -> &mut [u8];

    /// Appends bytes of a packet.
    #[inline(always)]
    fn append_packet(&mut self, bytes: &[u8]) {
        self.take(bytes.len()).copy_from_slice(bytes);
    }
}

/// A slice that is written from its start.
pub(crate) struct Room<'a> {
    pub(crate) out: &'a mut [u8],
    /// Bytes written.
    pub(crate) len: usize,
}

impl Append for Room<'_> {
    #[inline(always)]
    fn take(&mut self, bytes: usize) -> &mut [u8] {
        let taken = &mut self.out[self.len..][..bytes];
        self.len += bytes;
        taken
    }
}

/// Appends the packet with its tag restored; `captured` is [`Record::captured`].
#[inline(always)]
pub(crate) fn append(out: &mut impl Append, record: &Record<'_>, captured: usize) {
    match record.tag {
        Some(tag) if record.tag_bytes() > 0 => append_tagged(out, record, captured, tag),
        _ => out.append_packet(&record.bytes[..captured]),
    }
}

#[inline(always)]
fn append_tagged(out: &mut impl Append, record: &Record<'_>, captured: usize, (tpid, tci): (u16, u16)) {
    let (addresses, rest) = record.bytes.split_at(TAG_OFFSET);
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    let mut left = captured;
    for part in [addresses, &[a, b, c, d], rest] {
        let fits = part.len().min(left);
        out.append_packet(&part[..fits]);
        left -= fits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(record: &Record<'_>) -> Vec<u8> {
        let mut out = vec![0; record.captured()];
        append(&mut Room { out: &mut out, len: 0 }, record, record.captured());
        out
    }

    proptest! {
        #[test]
        fn a_tag_goes_back_where_it_was(frame in prop::collection::vec(any::<u8>(), 16..200), snaplen in 0u32..220) {
            // As the kernel does: the four bytes after the MAC addresses are removed.
            let stripped: Vec<u8> = [&frame[..12], &frame[16..]].concat();
            let tpid = u16::from_be_bytes([frame[12], frame[13]]);
            let tci = u16::from_be_bytes([frame[14], frame[15]]);
            let record = Record {
                bytes: &stripped, len: stripped.len() as u32, tag: Some((tpid, tci)), snaplen, ..Record::default()
            };
            let limit = if snaplen == 0 { frame.len() } else { frame.len().min(snaplen as usize) };
            prop_assert_eq!(written(&record), &frame[..limit]);
            prop_assert_eq!(record.wire_len() as usize, frame.len());
        }
    }

    #[test]
    fn a_stump_of_a_frame_keeps_its_bytes() {
        let record = Record { bytes: &[1, 2, 3], len: 3, tag: Some((0x8100, 1)), ..Record::default() };
        assert_eq!(written(&record), [1, 2, 3]);
        assert_eq!(record.wire_len(), 3);
    }
}
