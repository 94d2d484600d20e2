//! Decodes pcapng files from slices: several sections, each in its own byte order.
//!
//! Packets, interfaces, statistics and section headers are read as a whole, and names up to the same limit. All other
//! blocks are skipped, whatever their length; only the lengths at both ends are compared. A short one is skipped when
//! all of it is there, so that the end of a file in it can be judged.

use super::encode::PADDING_BLOCK;
use super::option::{self, Options};
use super::time::TimeScale;
use super::*;
use crate::item::{
    ByteOrder, Corrections, Cursor, Damage, Frame, Interface, Item, RawNames, RawOptions, Reason, Section,
    Statistics, Step, UNFINISHED_BYTES_MAX, UNIT_BYTES_MAX, Unit,
};

/// Maximum number of interfaces of a section; more mean damage.
const INTERFACES_MAX: u32 = 1 << 16;

/// Maximum length of a skipped block when salvaging: a larger length is more likely damaged.
const SKIPPED_BYTES_MAX: u32 = 256 << 20;

/// Type and length.
const HEAD_BYTES: u32 = 8;
const TRAILER_BYTES: u32 = 4;

/// Decodes one pcapng file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decoder {
    pub(super) order: ByteOrder,
    interfaces: Vec<Known>,
    skip: Skip,
    /// End of the damaged block, if both of its lengths agree.
    pub(super) claimed_end: u64,
    /// True if the header of a section is damaged: its byte order is unknown.
    pub(super) is_order_lost: bool,
}

/// The properties of an interface that its packets depend on.
#[derive(Debug, Clone, Copy)]
struct Known {
    linktype: u16,
    snaplen: u32,
    scale: TimeScale,
}

/// The block that is being skipped: outstanding bytes, including its trailer.
#[derive(Debug, Clone, Copy, Default)]
struct Skip {
    left: u32,
    length: u32,
}

/// The first fields of a block.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: u32,
    length: u32,
    order: ByteOrder,
}

/// The result, or the number of bytes needed.
enum Got<T> {
    This(T),
    NeedMore(usize),
}

impl Decoder {
    /// See `decode::Decoder::next`.
    #[inline]
    pub(crate) fn next<'a>(&mut self, cursor: &mut Cursor, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        loop {
            if self.skip.left > 0 {
                if let Got::NeedMore(needed) = self.skip(cursor, bytes)? {
                    return Ok(Step::NeedMore(needed));
                }
                if cursor.offset >= cursor.stop_at {
                    return Ok(Step::NeedMore(0));
                }
            }
            let head = match self.head(cursor, bytes) {
                Ok(Got::This(head)) => head,
                Ok(Got::NeedMore(needed)) => return Ok(Step::NeedMore(needed)),
                Err(damage) => return Err(self.failed(bytes, damage)),
            };
            let is_read = match head.kind {
                EPB | ISB | IDB | SHB | SPB | PB => true,
                NRB => head.length <= UNIT_BYTES_MAX,
                _ => head.length <= UNFINISHED_BYTES_MAX,
            };
            let is_long = head.length > UNIT_BYTES_MAX && head.length <= SKIPPED_BYTES_MAX;
            if !is_read && (!cursor.is_strict || is_long && is_in_use(head.kind)) {
                self.skip = Skip { left: head.length, length: head.length };
                continue;
            }
            if head.length > UNIT_BYTES_MAX {
                return Err(cursor.damage(Unit::Block(head.length), Reason::TooLong(UNIT_BYTES_MAX)));
            }
            let Some((block, rest)) = bytes.split_at_checked(head.length as usize) else {
                return Ok(Step::NeedMore(head.length as usize));
            };
            let item = match self.block(head, block, &mut cursor.corrected) {
                Ok(item) => item,
                Err(reason) => {
                    // A length that is not repeated at the end proves nothing.
                    let is_length = !matches!(reason, Reason::Trailer(_));
                    self.claimed_end = if is_length { cursor.offset + u64::from(head.length) } else { 0 };
                    return Err(self.failed(block, cursor.damage(Unit::Block(head.length), reason)));
                }
            };
            cursor.offset += u64::from(head.length);
            *bytes = rest;
            match item {
                Some(item) => return Ok(Step::Item(item)),
                None if cursor.offset >= cursor.stop_at => return Ok(Step::NeedMore(0)),
                None => {}
            }
        }
    }

    /// See `decode::Decoder::end`.
    pub(crate) fn end(&self, cursor: &Cursor, rest: &[u8]) -> Result<(), Damage> {
        if self.skip.left > 0 {
            let seen = u64::from(self.skip.length - self.skip.left);
            let (offset, reason) = (cursor.offset - seen, Reason::CutOff(seen + rest.len() as u64));
            return Err(Damage { offset, unit: Unit::Block(self.skip.length), reason });
        }
        if rest.is_empty() {
            return Ok(());
        }
        let unit = match self.head(cursor, rest) {
            Ok(Got::This(head)) => Unit::Block(head.length),
            _ => Unit::BlockHead,
        };
        Err(cursor.damage(unit, Reason::CutOff(rest.len() as u64)))
    }

    pub(crate) fn is_skipping(&self) -> bool {
        self.skip.left > 0
    }

    /// Abandons the block that was being skipped: the next byte starts another one.
    pub(crate) fn begin_block(&mut self) {
        self.skip = Skip::default();
    }

    #[inline]
    fn head(&self, cursor: &Cursor, bytes: &[u8]) -> Result<Got<Head>, Damage> {
        let Some((&[t0, t1, t2, t3, l0, l1, l2, l3], rest)) = bytes.split_first_chunk() else {
            return Ok(Got::NeedMore(HEAD_BYTES as usize));
        };
        let (kind, mut order) = (self.order.u32([t0, t1, t2, t3]), self.order);
        if kind == SHB {
            // A section determines its own byte order, which also applies to its length.
            let Some(magic) = rest.first_chunk() else { return Ok(Got::NeedMore(BLOCK_BYTES_MIN as usize)) };
            let unknown = |magic| cursor.damage(Unit::BlockHead, Reason::ByteOrder(magic));
            order = byte_order(*magic).map_err(unknown)?;
        }
        let length = order.u32([l0, l1, l2, l3]);
        if length < BLOCK_BYTES_MIN {
            return Err(cursor.damage(Unit::Block(length), Reason::TooShort(BLOCK_BYTES_MIN)));
        }
        if !length.is_multiple_of(4) {
            return Err(cursor.damage(Unit::Block(length), Reason::NotMultipleOf4));
        }
        Ok(Got::This(Head { kind, length, order }))
    }

    /// Skips the present bytes of the current block, and compares its trailer.
    fn skip(&mut self, cursor: &mut Cursor, bytes: &mut &[u8]) -> Result<Got<()>, Damage> {
        let before_trailer = (self.skip.left.saturating_sub(TRAILER_BYTES) as usize).min(bytes.len());
        *bytes = &bytes[before_trailer..];
        cursor.offset += before_trailer as u64;
        self.skip.left -= before_trailer as u32;
        if self.skip.left > TRAILER_BYTES {
            return Ok(Got::NeedMore(1));
        }
        let mut after = *bytes;
        let Some(trailer) = self.order.take_u32(&mut after) else {
            return Ok(Got::NeedMore(TRAILER_BYTES as usize));
        };
        if trailer != self.skip.length {
            let offset = cursor.offset - u64::from(self.skip.length - TRAILER_BYTES);
            let unit = Unit::Block(self.skip.length);
            return Err(Damage { offset, unit, reason: Reason::Trailer(trailer) });
        }
        *bytes = after;
        cursor.offset += u64::from(TRAILER_BYTES);
        self.skip = Skip::default();
        Ok(Got::This(()))
    }

    /// Decodes `bytes`, a complete block from its type to its trailer.
    #[inline]
    fn block<'a>(
        &mut self,
        head: Head,
        bytes: &'a [u8],
        corrected: &mut Corrections,
    ) -> Result<Option<Item<'a>>, Reason> {
        let inner = bytes.get(HEAD_BYTES as usize..).ok_or(Reason::TooShort(BLOCK_BYTES_MIN))?;
        let (body, trailer) = inner.split_last_chunk().ok_or(Reason::TooShort(BLOCK_BYTES_MIN))?;
        let trailer = head.order.u32(*trailer);
        if trailer != head.length {
            return Err(Reason::Trailer(trailer));
        }
        let item = match head.kind {
            EPB => self.enhanced_packet(body, corrected).map(Item::Frame),
            SHB => self.section(head.order, body).map(Item::Section),
            IDB => self.interface(body).map(Item::Interface),
            ISB => self.statistics(body).map(Item::Statistics),
            SPB => self.simple_packet(body).map(Item::Frame),
            PB => self.packet(body, corrected).map(Item::Frame),
            NRB => Ok(Item::Names(RawNames { bytes: body, order: self.order })),
            _ => return Ok(None),
        };
        item.map(Some)
    }

    /// Section Header Block (section 4.1 of the draft). The section length is not needed by a reader of all blocks.
    fn section<'a>(&mut self, order: ByteOrder, body: &'a [u8]) -> Result<Section<'a>, Reason> {
        let ([_, _, _, _, v0, v1, v2, v3, ..], options) = fixed::<16>(body)?;
        let (major, minor) = (order.u16([*v0, *v1]), order.u16([*v2, *v3]));
        if major != VERSION_MAJOR {
            return Err(Reason::Version(major, minor));
        }
        let mut section = Section::default();
        for found in Options::new(options, order) {
            match found? {
                (OPT_COMMENT, text) => section.comment = section.comment.or(Some(text)),
                (SHB_HARDWARE, text) => section.hardware = Some(text),
                (SHB_OS, text) => section.os = Some(text),
                (SHB_USERAPPL, text) => section.userappl = Some(text),
                _ => {}
            }
        }
        section.options = RawOptions { bytes: options, order };
        self.order = order;
        self.is_order_lost = false;
        self.interfaces.clear();
        Ok(section)
    }

    /// Interface Description Block (section 4.2).
    fn interface<'a>(&mut self, body: &'a [u8]) -> Result<Interface<'a>, Reason> {
        let ([l0, l1, _, _, s0, s1, s2, s3], options) = fixed::<8>(body)?;
        let (linktype, snaplen) = (self.order.u16([*l0, *l1]), self.order.u32([*s0, *s1, *s2, *s3]));
        let id = self.interfaces.len() as u32;
        if id >= INTERFACES_MAX {
            return Err(Reason::Interfaces(INTERFACES_MAX));
        }
        let mut interface = Interface { id, linktype, snaplen, ..Interface::default() };
        let (mut tsresol, mut tsoffset_s) = (6, 0);
        for found in Options::new(options, self.order) {
            match found? {
                (IF_NAME, text) => interface.name = Some(text),
                (IF_DESCRIPTION, text) => interface.description = Some(text),
                (IF_OS, text) => interface.os = Some(text),
                (IF_MACADDR, mac) => interface.mac = mac.try_into().ok(),
                (IF_SPEED, speed) => {
                    interface.speed_bps = speed.try_into().ok().map(|speed| self.order.u64(speed));
                }
                (IF_FCSLEN, &[length]) => interface.fcs_len = Some(length),
                (IF_FILTER, [FILTER_TEXT, filter @ ..]) => interface.filter = Some(filter),
                (IF_TSRESOL, value) => [tsresol] = option::exactly(IF_TSRESOL, value)?,
                (IF_TSOFFSET, value) => {
                    tsoffset_s = self.order.u64(option::exactly(IF_TSOFFSET, value)?) as i64;
                }
                _ => {}
            }
        }
        interface.tsresol = tsresol;
        interface.options = RawOptions { bytes: options, order: self.order };
        self.interfaces.push(Known { linktype, snaplen, scale: TimeScale::new(tsresol, tsoffset_s) });
        Ok(interface)
    }

    /// Enhanced Packet Block (section 4.3).
    #[inline]
    fn enhanced_packet<'a>(&self, body: &'a [u8], corrected: &mut Corrections) -> Result<Frame<'a>, Reason> {
        let (fields, rest) = fixed::<20>(body)?;
        let [interface, high, low, captured, wire_len] = words(self.order, fields);
        let known = self.known(interface)?;
        let (data, options) = packet_bytes(rest, captured)?;
        let time_ns = known.scale.packet_ns(ticks(high, low), corrected);
        let wire_len = corrected.wire_len(wire_len, data.len());
        let (linktype, none) = (known.linktype, RawOptions::default());
        let mut frame =
            Frame { data, time_ns, wire_len, interface, linktype, flags: 0, dropcount: 0, options: none };
        for found in Options::new(options, self.order) {
            match found? {
                (EPB_FLAGS, value) => frame.flags = self.order.u32(option::exactly(EPB_FLAGS, value)?),
                (EPB_DROPCOUNT, value) => {
                    frame.dropcount = self.order.u64(option::exactly(EPB_DROPCOUNT, value)?);
                }
                _ => frame.options = RawOptions { bytes: options, order: self.order },
            }
        }
        Ok(frame)
    }

    /// Simple Packet Block (section 4.4): on interface 0, without a timestamp, truncated at its snaplen.
    fn simple_packet<'a>(&self, body: &'a [u8]) -> Result<Frame<'a>, Reason> {
        let (wire_len, rest) = fixed::<4>(body)?;
        let wire_len = self.order.u32(*wire_len);
        let known = self.known(0)?;
        let captured = if known.snaplen == 0 { wire_len } else { wire_len.min(known.snaplen) };
        let data = rest.get(..captured as usize).ok_or(Reason::Captured(captured))?;
        let linktype = known.linktype;
        let options = RawOptions::default();
        Ok(Frame { data, time_ns: 0, wire_len, interface: 0, linktype, flags: 0, dropcount: 0, options })
    }

    /// Packet Block (appendix A). A drop count of 0xFFFF means unknown.
    fn packet<'a>(&self, body: &'a [u8], corrected: &mut Corrections) -> Result<Frame<'a>, Reason> {
        let ([i0, i1, d0, d1, fields @ ..], rest) = fixed::<20>(body)?;
        let interface = u32::from(self.order.u16([*i0, *i1]));
        let dropcount = match self.order.u16([*d0, *d1]) {
            0xFFFF => 0,
            count => u64::from(count),
        };
        let [high, low, captured, wire_len] = words(self.order, fields);
        let known = self.known(interface)?;
        let (data, options) = packet_bytes(rest, captured)?;
        let time_ns = known.scale.packet_ns(ticks(high, low), corrected);
        let (wire_len, linktype) = (corrected.wire_len(wire_len, data.len()), known.linktype);
        let none = RawOptions::default();
        let mut frame =
            Frame { data, time_ns, wire_len, interface, linktype, flags: 0, dropcount, options: none };
        for found in Options::new(options, self.order) {
            match found? {
                (PACK_FLAGS, value) => {
                    frame.flags = self.order.u32(option::exactly(PACK_FLAGS, value)?);
                }
                _ => frame.options = RawOptions { bytes: options, order: self.order },
            }
        }
        Ok(frame)
    }

    /// Interface Statistics Block (section 4.6).
    fn statistics(&self, body: &[u8]) -> Result<Statistics, Reason> {
        let (fields, options) = fixed::<12>(body)?;
        let [interface, high, low] = words(self.order, fields);
        let scale = self.known(interface)?.scale;
        let mut statistics =
            Statistics { interface, time_ns: scale.ns(ticks(high, low)), ..Statistics::default() };
        for found in Options::new(options, self.order) {
            let (code, value) = found?;
            let field = match code {
                ISB_STARTTIME | ISB_ENDTIME => {
                    let [high, low] = words(self.order, &option::exactly::<8>(code, value)?);
                    let time_ns = Some(scale.ns(ticks(high, low)));
                    *(if code == ISB_STARTTIME {
                        &mut statistics.starttime_ns
                    } else {
                        &mut statistics.endtime_ns
                    }) = time_ns;
                    continue;
                }
                ISB_IFRECV => &mut statistics.ifrecv,
                ISB_IFDROP => &mut statistics.ifdrop,
                ISB_FILTERACCEPT => &mut statistics.filteraccept,
                ISB_OSDROP => &mut statistics.osdrop,
                ISB_USRDELIV => &mut statistics.usrdeliv,
                _ => continue,
            };
            *field = Some(self.order.u64(option::exactly(code, value)?));
        }
        Ok(statistics)
    }

    #[inline]
    fn known(&self, id: u32) -> Result<&Known, Reason> {
        let unknown = || Reason::Interface { id, described: self.interfaces.len() as u32 };
        self.interfaces.get(id as usize).ok_or_else(unknown)
    }

    /// Blocks after a damaged section header belong to interfaces that are not yet described.
    #[cold]
    fn failed(&mut self, block: &[u8], damage: Damage) -> Damage {
        if block.first_chunk().is_some_and(|kind| u32::from_le_bytes(*kind) == SHB) {
            self.interfaces.clear();
            self.is_order_lost = true;
        }
        damage
    }
}

/// The byte order for which `magic` is the byte-order magic; the error is its value.
#[cold]
pub(crate) fn byte_order(magic: [u8; 4]) -> Result<ByteOrder, u32> {
    let orders = [ByteOrder::Little, ByteOrder::Big];
    let found = orders.into_iter().find(|order| order.u32(magic) == BYTE_ORDER_MAGIC);
    found.ok_or(u32::from_le_bytes(magic))
}

/// The fixed fields at the front of a block body, and the bytes after them.
#[inline]
fn fixed<const BYTES: usize>(body: &[u8]) -> Result<(&[u8; BYTES], &[u8]), Reason> {
    body.split_first_chunk().ok_or(Reason::TooShort(BLOCK_BYTES_MIN + BYTES as u32))
}

#[inline]
fn words<const BYTES: usize, const WORDS: usize>(order: ByteOrder, fields: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == 4 * WORDS) };
    let (chunks, _) = fields.as_chunks::<4>();
    std::array::from_fn(|i| order.u32(chunks[i]))
}

#[inline]
fn ticks(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The bytes of a packet, and the options after its padding.
#[inline]
fn packet_bytes(rest: &[u8], captured: u32) -> Result<(&[u8], &[u8]), Reason> {
    let data = rest.get(..captured as usize).ok_or(Reason::Captured(captured))?;
    // The body is a multiple of 4 bytes long, so the padding fits if the packet does.
    let options = rest.get(data.len().next_multiple_of(4)..).unwrap_or_default();
    Ok((data, options))
}
/// Block types that occur in files (section 10.1 of the draft), and quaff's padding.
pub(super) fn is_in_use(kind: u32) -> bool {
    matches!(kind, SHB | IDB | PB | SPB | NRB | ISB | EPB | JOURNAL | DSB | CB | CB_NO_COPY | PADDING_BLOCK)
}
