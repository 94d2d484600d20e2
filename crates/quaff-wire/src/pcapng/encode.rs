//! Encodes pcapng into memory of the caller (draft-ietf-opsawg-pcapng, section 4).
//!
//! [`append_epb`] appends packets; it is the hot path, allocates nothing, and expects room for [`epb_bytes`]. The other
//! blocks are appended to a `Vec`. Integers are in native byte order, as the format allows; timestamps are in ns
//! (`if_tsresol` 9).

use super::option::Options;
use super::*;
use crate::item::ByteOrder;
use crate::record::{self, Append, Record, Room};
use std::io::Write;

/// The type of a padding block, from the range for local use (bit 31 set), which readers skip. A Custom Block would be
/// obvious, but Wireshark lists those among the packets.
pub(crate) const PADDING_BLOCK: u32 = 0x8071_7561;
/// Length of the smallest padding block: type, length, length.
pub const PADDING_BYTES_MIN: usize = BLOCK_BYTES_MIN as usize;
/// Maximum length of the options that [`epb`] writes: flags, drop count, end.
const EPB_OPTIONS_BYTES_MAX: usize = 8 + LOSS_BYTES_MAX + 4;
/// Maximum length of a drop count and a comment of up to 56 bytes.
const LOSS_BYTES_MAX: usize = 12 + 4 + 56;
/// Length of an `epb_packetid`, which [`epb_bytes`] does not include.
pub const PACKET_ID_BYTES: usize = 12;
/// Length after a packet and its padding in a block without a drop count: flags, end of options, total length.
const EPB_TAIL_BYTES: usize = 8 + 4 + 4;

/// The description of a section.
#[derive(Debug, Clone, Default)]
pub struct Section {
    pub hardware: String,
    pub os: String,
    pub userappl: String,
    /// Values of `opt_comment`.
    pub comments: Vec<String>,
}

/// The description of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Interface {
    /// LINKTYPE_*, not DLT_*.
    pub linktype: u16,
    /// Maximum length of a stored packet; 0: no limit.
    pub snaplen: u32,
    pub name: String,
    pub description: String,
    /// `if_filter`, a libpcap expression.
    pub filter: Option<String>,
    /// `if_MACaddr`.
    pub mac: Option<[u8; 6]>,
    /// `if_speed`, bit/s.
    pub speed_bps: Option<u64>,
    pub os: String,
    /// `if_fcslen`.
    pub fcs_len: Option<u8>,
    /// Options of a file that was read, as they are in the block; see [`interface_options`].
    pub others: Vec<u8>,
}

/// The counters of an interface since the start of the capture, for an Interface Statistics Block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The interface, by its position in the section.
    pub interface: u32,
    /// Time of writing, ns since 1970.
    pub time_ns: u64,
    /// `isb_starttime`, ns since 1970.
    pub start_ns: u64,
    /// `isb_ifrecv`.
    pub received: u64,
    /// `isb_ifdrop`.
    pub interface_dropped: u64,
    /// `isb_filteraccept`.
    pub filter_accepted: u64,
    /// `isb_osdrop`.
    pub os_dropped: u64,
    /// `isb_usrdeliv`.
    pub delivered: u64,
    /// `opt_comment`.
    pub comment: Option<String>,
}

/// Maximum number of bytes that [`epb`] writes for a record of `captured` bytes.
pub const fn epb_bytes(captured: usize) -> usize {
    28 + captured.next_multiple_of(4) + EPB_OPTIONS_BYTES_MAX + 4
}

/// Writes an Enhanced Packet Block like [`append_epb`], at the start of `out`.
#[inline]
pub fn epb(out: &mut [u8], interface: u32, record: &Record<'_>) -> usize {
    let mut room = Room { out, len: 0 };
    append_epb(&mut room, interface, record);
    room.len
}

/// Appends an Enhanced Packet Block with its direction, and with `epb_dropcount` and a comment if packets were lost
/// before it.
/// `out` must have room for [`epb_bytes`].
#[inline(always)]
pub fn append_epb(out: &mut impl Append, interface: u32, record: &Record<'_>) {
    append_epb_plain(out, interface, record, []);
}

/// Like [`append_epb`], with this `epb_packetid`. `out` must have room for [`PACKET_ID_BYTES`] more.
#[inline(always)]
pub fn append_epb_with_id(out: &mut impl Append, interface: u32, record: &Record<'_>, id: u64) {
    append_epb_plain(out, interface, record, option64(EPB_PACKETID, id));
}

/// Appends a block with the direction and `options`.
#[inline(always)]
fn append_epb_plain<const BYTES: usize>(
    out: &mut impl Append,
    interface: u32,
    record: &Record<'_>,
    options: [u8; BYTES],
) {
    if record.dropped > 0 {
        return append_epb_with(out, interface, record, record.direction, &options);
    }
    let captured = record.captured();
    let padding = captured.next_multiple_of(4) - captured;
    let total = (28 + captured + padding + EPB_TAIL_BYTES + BYTES) as u32;
    append_epb_head(out, interface, record, captured, total);

    let tail = out.take(padding + EPB_TAIL_BYTES + BYTES);
    // Clears the padding; the first option overwrites its last bytes.
    tail[..4].fill(0);
    let tail = &mut tail[padding..];
    tail[..8].copy_from_slice(&option32(EPB_FLAGS, record.direction));
    tail[8..8 + BYTES].copy_from_slice(&options);
    // opt_endofopt, and the total length.
    let tail = &mut tail[8 + BYTES..];
    tail[..4].fill(0);
    tail[4..].copy_from_slice(&total.to_ne_bytes());
}

/// Like [`append_epb`], with these `epb_flags` and further options as they are in a block, for which `out` must have
/// room, too.
#[cold]
pub fn append_epb_with(
    out: &mut impl Append,
    interface: u32,
    record: &Record<'_>,
    flags: u32,
    options: &[u8],
) {
    let captured = record.captured();
    let padding = captured.next_multiple_of(4) - captured;
    let (mut text, mut loss) = ([0; LOSS_BYTES_MAX], 0);
    if record.dropped > 0 {
        text[..12].copy_from_slice(&option64(EPB_DROPCOUNT, record.dropped));
        loss = 12 + loss_comment(&mut text[12..], record.dropped, options);
    }
    let total = (28 + captured + padding + EPB_TAIL_BYTES + loss + options.len()) as u32;
    append_epb_head(out, interface, record, captured, total);
    out.take(padding).fill(0);
    out.take(8).copy_from_slice(&option32(EPB_FLAGS, flags));
    out.take(loss).copy_from_slice(&text[..loss]);
    out.take(options.len()).copy_from_slice(options);
    out.take(4).fill(0);
    out.take(4).copy_from_slice(&total.to_ne_bytes());
}

/// Writes an `opt_comment` about lost packets, which Wireshark lists, unless `options` already contain it; returns its
/// length.
fn loss_comment(out: &mut [u8], dropped: u64, options: &[u8]) -> usize {
    let (head, text) = out.split_at_mut(4);
    let mut room = &mut text[..];
    let left = room.len();
    // It fits: a number has at most 20 digits.
    let _ = write!(room, "{dropped} packets were lost before this one");
    let length = left - room.len();
    let is_comment = |known| known == Ok((OPT_COMMENT, &text[..length]));
    if Options::new(options, ByteOrder::NATIVE).any(is_comment) {
        return 0;
    }
    head[..2].copy_from_slice(&OPT_COMMENT.to_ne_bytes());
    head[2..].copy_from_slice(&(length as u16).to_ne_bytes());
    4 + length.next_multiple_of(4)
}

/// Appends the fields before the options, and the packet.
#[inline(always)]
fn append_epb_head(out: &mut impl Append, interface: u32, record: &Record<'_>, captured: usize, total: u32) {
    // Fields are stored in place and not through an array: loading what several stores have just written waits for all
    // earlier stores.
    let head = out.take(28);
    head[0..4].copy_from_slice(&EPB.to_ne_bytes());
    head[4..8].copy_from_slice(&total.to_ne_bytes());
    head[8..12].copy_from_slice(&interface.to_ne_bytes());
    head[12..16].copy_from_slice(&((record.time_ns >> 32) as u32).to_ne_bytes());
    head[16..20].copy_from_slice(&(record.time_ns as u32).to_ne_bytes());
    head[20..24].copy_from_slice(&(captured as u32).to_ne_bytes());
    head[24..28].copy_from_slice(&record.wire_len().to_ne_bytes());
    record::append(out, record, captured);
}

fn option32(code: u16, value: u32) -> [u8; 8] {
    let mut option = [0; 8];
    option[0..2].copy_from_slice(&code.to_ne_bytes());
    option[2..4].copy_from_slice(&4u16.to_ne_bytes());
    option[4..8].copy_from_slice(&value.to_ne_bytes());
    option
}

fn option64(code: u16, value: u64) -> [u8; 12] {
    let mut option = [0; 12];
    option[0..2].copy_from_slice(&code.to_ne_bytes());
    option[2..4].copy_from_slice(&8u16.to_ne_bytes());
    option[4..12].copy_from_slice(&value.to_ne_bytes());
    option
}

/// Length of padding that aligns `len` to `align`: 0, or enough for a block.
pub fn padding_bytes(len: usize, align: usize) -> usize {
    let gap = len.next_multiple_of(align) - len;
    if gap == 0 || gap >= PADDING_BYTES_MIN { gap } else { gap + align.max(PADDING_BYTES_MIN) }
}

/// Fills `out`, whose length must be a multiple of 4 and at least [`PADDING_BYTES_MIN`], with one padding block.
pub fn padding(out: &mut [u8]) {
    let total = out.len() as u32;
    assert!(out.len() >= PADDING_BYTES_MIN && out.len().is_multiple_of(4));
    out.fill(0);
    out[0..4].copy_from_slice(&PADDING_BLOCK.to_ne_bytes());
    out[4..8].copy_from_slice(&total.to_ne_bytes());
    let end = out.len() - 4;
    out[end..].copy_from_slice(&total.to_ne_bytes());
}

/// Appends a Section Header Block of unknown length (-1).
pub fn shb(out: &mut Vec<u8>, section: &Section) {
    block(out, SHB, |out| {
        out.extend(BYTE_ORDER_MAGIC.to_ne_bytes());
        out.extend(VERSION_MAJOR.to_ne_bytes());
        out.extend(0u16.to_ne_bytes());
        out.extend((-1i64).to_ne_bytes());
        section.comments.iter().for_each(|comment| text(out, OPT_COMMENT, comment));
        text(out, SHB_HARDWARE, &section.hardware);
        text(out, SHB_OS, &section.os);
        text(out, SHB_USERAPPL, &section.userappl);
        option(out, OPT_ENDOFOPT, &[]);
    });
}

/// Appends an Interface Description Block with timestamps in ns.
pub fn idb(out: &mut Vec<u8>, interface: &Interface) {
    block(out, IDB, |out| {
        out.extend(interface.linktype.to_ne_bytes());
        out.extend(0u16.to_ne_bytes());
        out.extend(interface.snaplen.to_ne_bytes());
        text(out, IF_NAME, &interface.name);
        text(out, IF_DESCRIPTION, &interface.description);
        if let Some(mac) = &interface.mac {
            option(out, IF_MACADDR, mac);
        }
        if let Some(speed) = interface.speed_bps {
            option(out, IF_SPEED, &speed.to_ne_bytes());
        }
        option(out, IF_TSRESOL, &[9]);
        if let Some(filter) = &interface.filter {
            option(out, IF_FILTER, &[&[FILTER_TEXT], filter.as_bytes()].concat());
        }
        text(out, IF_OS, &interface.os);
        if let Some(length) = interface.fcs_len {
            option(out, IF_FCSLEN, &[length]);
        }
        out.extend(&interface.others);
        option(out, OPT_ENDOFOPT, &[]);
    });
}

/// Appends an Interface Statistics Block.
pub fn isb(out: &mut Vec<u8>, statistics: &Statistics) {
    block(out, ISB, |out| {
        out.extend(statistics.interface.to_ne_bytes());
        out.extend(time(statistics.time_ns));
        option(out, ISB_STARTTIME, &time(statistics.start_ns));
        option(out, ISB_ENDTIME, &time(statistics.time_ns));
        for (code, value) in [
            (ISB_IFRECV, statistics.received),
            (ISB_IFDROP, statistics.interface_dropped),
            (ISB_FILTERACCEPT, statistics.filter_accepted),
            (ISB_OSDROP, statistics.os_dropped),
            (ISB_USRDELIV, statistics.delivered),
        ] {
            option(out, code, &value.to_ne_bytes());
        }
        text(out, OPT_COMMENT, statistics.comment.as_deref().unwrap_or(""));
        option(out, OPT_ENDOFOPT, &[]);
    });
}

fn time(ns: u64) -> [u8; 8] {
    let mut halves = [0; 8];
    halves[0..4].copy_from_slice(&((ns >> 32) as u32).to_ne_bytes());
    halves[4..8].copy_from_slice(&(ns as u32).to_ne_bytes());
    halves
}

pub(super) fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
    body(out);
    let total = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&total.to_ne_bytes());
    out.extend(total.to_ne_bytes());
}

fn text(out: &mut Vec<u8>, code: u16, value: &str) {
    if !value.is_empty() {
        option(out, code, value.as_bytes());
    }
}

pub(super) fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX as usize)];
    out.extend(code.to_ne_bytes());
    out.extend((value.len() as u16).to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_always_reaches_the_alignment() {
        for align in [4, 512, 4096] {
            for len in (0..3 * 4096).step_by(4) {
                let gap = padding_bytes(len, align);
                assert_eq!((len + gap) % align, 0);
                assert!(gap == 0 || gap >= PADDING_BYTES_MIN, "{len} {align} {gap}");
                if gap > 0 {
                    padding(&mut vec![1; gap]);
                }
            }
        }
    }

    #[test]
    fn a_comment_on_another_loss_is_none_on_this_one() {
        let comments = |known: &str, dropped| {
            let mut options = Vec::new();
            option(&mut options, OPT_COMMENT, known.as_bytes());
            let (mut out, record) = (vec![0; 300], Record { dropped, ..Record::default() });
            let mut room = Room { out: &mut out, len: 0 };
            append_epb_with(&mut room, 0, &record, 0, &options);
            let (end, text) = (room.len, b"packets were lost");
            out[..end].windows(text.len()).filter(|part| part == text).count()
        };
        assert_eq!(comments("13 packets were lost before this one", 13), 1);
        assert_eq!(comments("13 packets were lost before this one", 3), 2);
    }

    #[test]
    fn a_packet_fills_exactly_what_it_says() {
        let bytes: Vec<u8> = (0..=255).collect();
        for captured in 0..100 {
            for dropped in [0, 7] {
                let record = Record { time_ns: 1, bytes: &bytes[..captured], dropped, ..Record::default() };
                let mut out = vec![0xee; 300];
                let total = epb(&mut out, 3, &record);
                assert!(total <= epb_bytes(captured) && total.is_multiple_of(4));
                assert_eq!(out[4..8], out[total - 4..total]);
                assert_eq!(out[28..28 + captured], bytes[..captured]);
                assert!(out[total..].iter().all(|byte| *byte == 0xee));
            }
        }
    }

    #[test]
    fn a_packet_id_follows_the_flags() {
        let bytes: Vec<u8> = (0..=255).collect();
        for captured in 0..50 {
            for dropped in [0, 7] {
                let record = Record { time_ns: 1, bytes: &bytes[..captured], dropped, ..Record::default() };
                let (mut plain, mut with_id) = (vec![0xee; 300], vec![0xee; 300]);
                let plain_bytes = epb(&mut plain, 3, &record);
                let mut room = Room { out: &mut with_id, len: 0 };
                append_epb_with_id(&mut room, 3, &record, 0x0102_0304_0506_0708);
                let total = room.len;
                assert_eq!(total, plain_bytes + PACKET_ID_BYTES);
                assert!(
                    with_id[4..8] == with_id[total - 4..total]
                        && with_id[total..].iter().all(|byte| *byte == 0xee)
                );
                let options = &with_id[28 + captured.next_multiple_of(4)..total - 4];
                let found: Vec<_> = Options::new(options, ByteOrder::NATIVE).map(Result::unwrap).collect();
                let id = 0x0102_0304_0506_0708u64.to_ne_bytes();
                assert!(found.contains(&(EPB_PACKETID, &id[..])), "{found:?}");
                assert_eq!(found.len(), if dropped > 0 { 4 } else { 2 }, "{found:?}");
            }
        }
    }
}
