//! Reads pcap files from slices: microseconds and nanoseconds, both byte orders.

use super::{FILE_HEADER_BYTES, MAGIC_MICROSECONDS, MAGIC_NANOSECONDS, RECORD_HEADER_BYTES, VERSION_MAJOR};
use crate::decode::{ByteOrder, Damage, Frame, Interface, Item, Reason, Step, UNIT_BYTES_MAX, Unit};

/// libpcap's and Wireshark's own limit; a record may exceed the snaplen of its file up to this.
const CAPTURED_BYTES_USUAL: u32 = 256 << 10;

/// How the records of a file are laid out, as its magic tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    order: ByteOrder,
    ns_per_fraction: u64,
}

/// The layout that a file with this magic has; `None` if it is not pcap.
pub(crate) fn layout(magic: [u8; 4]) -> Option<Layout> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| match order.u32(magic) {
        MAGIC_MICROSECONDS => Some(Layout { order, ns_per_fraction: 1000 }),
        MAGIC_NANOSECONDS => Some(Layout { order, ns_per_fraction: 1 }),
        _ => None,
    })
}

/// Reads one pcap file. Gives its only interface first, then its frames.
#[derive(Debug, Default)]
pub struct Decoder {
    offset: u64,
    header: Option<Header>,
}

#[derive(Debug, Clone, Copy)]
struct Header {
    layout: Layout,
    linktype: u16,
    captured_bytes_max: u32,
}

impl Decoder {
    /// A decoder at the first byte of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`crate::decode::Decoder::next`].
    #[inline]
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let Some(header) = self.header else { return self.file_header(bytes) };
        let Some((head, body)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Ok(Step::NeedMore(RECORD_HEADER_BYTES));
        };
        let [seconds, fraction, captured, wire_len] = words(head, header.layout.order);
        if captured > header.captured_bytes_max {
            return Err(self.damage(Unit::Record(captured), Reason::TooLong(header.captured_bytes_max)));
        }
        let Some((data, rest)) = body.split_at_checked(captured as usize) else {
            return Ok(Step::NeedMore(RECORD_HEADER_BYTES + captured as usize));
        };
        *bytes = rest;
        self.offset += (RECORD_HEADER_BYTES + data.len()) as u64;
        let time_ns =
            u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * header.layout.ns_per_fraction;
        let frame = Frame {
            data,
            time_ns,
            wire_len,
            interface: 0,
            linktype: header.linktype,
            flags: 0,
            dropcount: 0,
        };
        Ok(Step::Item(Item::Frame(frame)))
    }

    /// See [`crate::decode::Decoder::end`].
    pub fn end(&self, rest: &[u8]) -> Result<(), Damage> {
        let unit = match (self.header, rest.first_chunk::<RECORD_HEADER_BYTES>()) {
            (None, _) if rest.is_empty() => return Err(Damage::at_start(Reason::Empty)),
            (None, _) => Unit::FileHeader,
            (Some(_), _) if rest.is_empty() => return Ok(()),
            (Some(header), Some(head)) => Unit::Record(words(head, header.layout.order)[2]),
            (Some(_), None) => Unit::RecordHead,
        };
        Err(self.damage(unit, Reason::CutOff(rest.len() as u64)))
    }

    /// See [`crate::decode::Decoder::offset`].
    pub fn offset(&self) -> u64 {
        self.offset
    }

    #[cold]
    fn file_header<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let Some((head, rest)) = bytes.split_first_chunk::<FILE_HEADER_BYTES>() else {
            return Ok(Step::NeedMore(FILE_HEADER_BYTES));
        };
        let [m0, m1, m2, m3, v0, v1, v2, v3, .., s0, s1, s2, s3, l0, l1, l2, l3] = *head;
        let magic = [m0, m1, m2, m3];
        let layout = layout(magic).ok_or(Damage::at_start(Reason::NotCapture(magic)))?;
        let (major, minor) = (layout.order.u16([v0, v1]), layout.order.u16([v2, v3]));
        if major != VERSION_MAJOR {
            return Err(Damage::at_start(Reason::Version(major, minor)));
        }
        let snaplen = layout.order.u32([s0, s1, s2, s3]);
        // The upper half of the word tells of frame check sequences.
        let linktype = layout.order.u32([l0, l1, l2, l3]) as u16;
        let captured_bytes_max = snaplen.clamp(CAPTURED_BYTES_USUAL, UNIT_BYTES_MAX);
        self.header = Some(Header { layout, linktype, captured_bytes_max });
        self.offset = FILE_HEADER_BYTES as u64;
        *bytes = rest;
        Ok(Step::Item(Item::Interface(Interface { id: 0, linktype, snaplen, name: None, filter: None })))
    }

    fn damage(&self, unit: Unit, reason: Reason) -> Damage {
        Damage { offset: self.offset, unit, reason }
    }
}

#[inline]
fn words(head: &[u8; RECORD_HEADER_BYTES], order: ByteOrder) -> [u32; 4] {
    let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *head;
    [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3]].map(|word| order.u32(word))
}
