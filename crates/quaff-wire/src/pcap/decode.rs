//! Decodes pcap files from slices: µs and ns, both byte orders, and historical layouts.

use super::layout::{self, Chain, Follow, Form, Head, Oddities, RecordLayout, of_magic};
use super::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::item::{
    ByteOrder, Cursor, Damage, Find, Frame, Interface, Item, RawOptions, Reason, Step, UNIT_BYTES_MAX, Unit,
};

/// The limit of libpcap and Wireshark; a record may exceed the snaplen of its file up to this.
const CAPTURED_BYTES_USUAL: u32 = 256 << 10;
/// Number of consecutive plausible records that end a search after damage.
const CHAIN_RECORDS: usize = 3;

/// Decodes one pcap file. Returns its only interface first, then its frames.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decoder {
    form: Option<Form>,
    /// True once the record layout is known.
    is_decided: bool,
    /// True while records are read on the fast path.
    is_usual: bool,
    /// Time of the last trusted packet, s.
    last_s: Option<u64>,
    /// Peculiarities seen in this file; only when salvaging.
    odd: Oddities,
    /// File offset up to which records were followed by their lengths; only when salvaging.
    followed_to: u64,
}

impl Decoder {
    /// See `decode::Decoder::next`.
    #[inline]
    pub(crate) fn next<'a>(&mut self, cursor: &mut Cursor, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let Some(form) = &self.form else { return self.file_header(cursor, bytes) };
        if !self.is_usual {
            return self.unusual(cursor, bytes);
        }
        if let Some(frame) = self.usual(cursor, bytes) {
            return Ok(Step::Item(Item::Frame(frame)));
        }
        let Some((head, body)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Ok(Step::NeedMore(RECORD_HEADER_BYTES));
        };
        let fields = words(head, form.order);
        let captured = fields[2];
        if captured > form.captured_bytes_max {
            return Err(cursor.damage(Unit::Record(captured), Reason::TooLong(form.captured_bytes_max)));
        }
        if captured == 0
            && *head == [0; RECORD_HEADER_BYTES]
            && let Some(needed) = zeros(cursor, bytes)?
        {
            return Ok(Step::NeedMore(needed));
        }
        let Some((data, rest)) = body.split_at_checked(captured as usize) else {
            return Ok(Step::NeedMore(RECORD_HEADER_BYTES + captured as usize));
        };
        *bytes = rest;
        cursor.offset += (RECORD_HEADER_BYTES + data.len()) as u64;
        cursor.corrected.fractions += u64::from(is_over(form, fields[1]));
        let wire_len = cursor.corrected.wire_len(fields[3], data.len());
        Ok(Step::Item(Item::Frame(frame(form, [fields[0], fields[1], captured, wire_len], data))))
    }

    /// Takes a complete record of plausible lengths and time in the standard layout; otherwise nothing.
    #[inline]
    pub(crate) fn usual<'a>(&self, cursor: &mut Cursor, bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
        let form = self.form.as_ref().filter(|_| self.is_usual)?;
        let (head, body) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let fields = words(head, form.order);
        let captured = fields[2];
        if captured == 0
            || captured > form.captured_bytes_max
            || captured > fields[3]
            || is_over(form, fields[1])
        {
            return None;
        }
        let (data, rest) = body.split_at_checked(captured as usize)?;
        *bytes = rest;
        cursor.offset += (RECORD_HEADER_BYTES + data.len()) as u64;
        Some(frame(form, fields, data))
    }

    /// See `decode::Decoder::end`.
    pub(crate) fn end(&self, cursor: &Cursor, rest: &[u8]) -> Result<(), Damage> {
        let unit = match (&self.form, self.form.and_then(|form| form.head(rest))) {
            (None, _) if rest.is_empty() => return Err(Damage::at_start(Reason::Empty)),
            (None, _) => Unit::FileHeader,
            (Some(_), _) if rest.is_empty() => return Ok(()),
            (Some(_), Some(head)) => Unit::Record(head.captured),
            (Some(_), None) => Unit::RecordHead,
        };
        Err(cursor.damage(unit, Reason::CutOff(rest.len() as u64)))
    }

    /// The record layout, once it is known.
    pub(crate) fn layout(&self) -> Option<RecordLayout> {
        self.form.filter(|_| self.is_decided).map(|form| form.layout)
    }

    pub(crate) fn has_header(&self) -> bool {
        self.form.is_some()
    }

    /// Offset in `bytes` of a record that others follow; `None` before the file header was read.
    pub(crate) fn find(&self, cursor: &Cursor, bytes: &[u8]) -> Option<Find> {
        let form = self.form?;
        for at in 0..bytes.len() {
            match form.chain(&bytes[at..], CHAIN_RECORDS, self.last_s, self.odd, cursor.no_more) {
                Chain::Holds => return Some(Find::At(at)),
                Chain::NeedMore(needed) => return Some(Find::NotBefore { at, needed }),
                Chain::Breaks => {}
            }
        }
        Some(Find::NotBefore { at: bytes.len(), needed: form.head_bytes() })
    }

    /// Reads a record in a historical layout, or strictly.
    fn unusual<'a>(&mut self, cursor: &mut Cursor, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let Some(mut form) = self.form else { return self.file_header(cursor, bytes) };
        if !self.is_decided {
            match form.decide(bytes, cursor.no_more) {
                Ok(layout) => form.layout = layout,
                Err(needed) => return Ok(Step::NeedMore(needed)),
            }
            self.form = Some(form);
            self.is_decided = true;
            self.is_usual = form.is_usual() && !cursor.is_strict;
        }
        let Some(head) = form.head(bytes) else { return Ok(Step::NeedMore(form.head_bytes())) };
        let unit = Unit::Record(head.captured);
        if head.captured > form.captured_bytes_max {
            return Err(cursor.damage(unit, Reason::TooLong(form.captured_bytes_max)));
        }
        if head.is_zero()
            && let Some(needed) = zeros(cursor, bytes)?
        {
            return Ok(Step::NeedMore(needed));
        }
        let length = form.head_bytes() + head.captured as usize;
        if cursor.is_strict && cursor.offset >= self.followed_to {
            match self.believe(cursor, &form, &head, bytes) {
                Ok(()) => {}
                Err(Doubt::NeedMore(needed)) => return Ok(Step::NeedMore(needed)),
                Err(Doubt::Because(reason)) => return Err(cursor.damage(unit, reason)),
            }
        }
        let Some((record, rest)) = bytes.split_at_checked(length) else { return Ok(Step::NeedMore(length)) };
        *bytes = rest;
        cursor.offset += length as u64;
        if cursor.is_strict {
            self.odd.add(form.oddities(&head));
        }
        let time_ns = head.time_ns(&form, &mut cursor.corrected);
        self.last_s = Some(time_ns / 1_000_000_000);
        let data = &record[form.head_bytes()..];
        let (wire_len, flags) = (cursor.corrected.wire_len(head.wire_len, data.len()), head.flags);
        let (linktype, options) = (form.linktype, RawOptions::default());
        let frame = Frame { data, time_ns, wire_len, interface: 0, linktype, flags, dropcount: 0, options };
        Ok(Step::Item(Item::Frame(frame)))
    }

    /// Judges, when salvaging, the record at the front of `bytes`, whose header is `head`. It is doubtful if it is
    /// implausible, or if its length is odd and the next record is implausible. A doubtful record is damage only if the
    /// following records lead to something that cannot be a record: many programs write peculiar ones.
    fn believe(&mut self, cursor: &Cursor, form: &Form, head: &Head, bytes: &[u8]) -> Result<(), Doubt> {
        let Some(reason) = self.doubt(cursor, form, head, bytes)? else { return Ok(()) };
        let mut odd = self.odd;
        odd.add(form.oddities(head));
        match form.follow(bytes, odd, cursor.no_more) {
            Follow::Holds(bytes) => self.followed_to = cursor.offset + bytes as u64,
            Follow::Breaks => return Err(Doubt::Because(reason)),
            Follow::NeedMore(needed) => return Err(Doubt::NeedMore(needed)),
        }
        Ok(())
    }

    fn doubt(
        &self,
        cursor: &Cursor,
        form: &Form,
        head: &Head,
        bytes: &[u8],
    ) -> Result<Option<Reason>, Doubt> {
        if !form.is_plausible(head, None, self.odd) {
            return Ok(Some(Reason::Header));
        }
        // If original lengths are missing, as is usual in that file, they show nothing.
        if head.captured == head.wire_len || head.captured == form.snaplen || head.wire_len == 0 {
            return Ok(None);
        }
        let length = form.head_bytes() + head.captured as usize;
        match bytes.get(length..).and_then(|next| form.head(next)) {
            None if cursor.no_more => Ok(None),
            None => Err(Doubt::NeedMore(length + form.head_bytes())),
            Some(next) if form.is_plausible(&next, None, self.odd) => Ok(None),
            Some(_) => Ok(Some(Reason::NextHeader)),
        }
    }

    #[cold]
    fn file_header<'a>(&mut self, cursor: &mut Cursor, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let Some(head) = bytes.first_chunk::<FILE_HEADER_BYTES>() else {
            return Ok(Step::NeedMore(FILE_HEADER_BYTES));
        };
        let [m0, m1, m2, m3, v0, v1, v2, v3, .., s0, s1, s2, s3, l0, l1, l2, l3] = *head;
        let magic = [m0, m1, m2, m3];
        let known = of_magic(magic).ok_or(Damage::at_start(Reason::NotCapture(magic)))?;
        let (order, layout, _) = known;
        let head_bytes = FILE_HEADER_BYTES + if layout == RecordLayout::Ixia { 4 } else { 0 };
        let Some(rest) = bytes.get(head_bytes..) else { return Ok(Step::NeedMore(head_bytes)) };
        let version = (order.u16([v0, v1]), order.u16([v2, v3]));
        let (snaplen, network) = (order.u32([s0, s1, s2, s3]), order.u32([l0, l1, l2, l3]));
        let captured_bytes_max = snaplen.clamp(CAPTURED_BYTES_USUAL, UNIT_BYTES_MAX);
        let form = Form::new(known, version, snaplen, network, captured_bytes_max)
            .ok_or(Damage::at_start(Reason::Version(version.0, version.1)))?;
        self.form = Some(form);
        cursor.offset = head_bytes as u64;
        *bytes = rest;
        let linktype = form.linktype;
        let tsresol = if form.ns_per_fraction == 1 { 9 } else { 6 };
        Ok(Step::Item(Item::Interface(Interface {
            linktype,
            snaplen,
            tsresol,
            fcs_len: form.fcs_len,
            options: RawOptions { bytes: &[], order },
            ..Interface::default()
        })))
    }
}

/// Judges a record of zeros at the front of `bytes`: an empty packet, or a hole, which is damage. `Some`: this number
/// of bytes is needed to decide.
#[cold]
fn zeros(cursor: &Cursor, bytes: &[u8]) -> Result<Option<usize>, Damage> {
    match layout::hole(bytes, cursor.no_more) {
        Ok(true) => Err(cursor.damage(Unit::RecordHead, Reason::Zeros)),
        Ok(false) => Ok(None),
        Err(needed) => Ok(Some(needed)),
    }
}

/// The reason to doubt a record, or the number of bytes needed to judge it.
enum Doubt {
    Because(Reason),
    NeedMore(usize),
}

/// True for a fraction of a second or more.
#[inline]
fn is_over(form: &Form, fraction: u32) -> bool {
    u64::from(fraction) * form.ns_per_fraction >= 1_000_000_000
}

/// The packet of a record in the standard layout.
#[inline]
fn frame<'a>(form: &Form, fields: [u32; 4], data: &'a [u8]) -> Frame<'a> {
    let [seconds, fraction, _, wire_len] = fields;
    let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * form.ns_per_fraction;
    let (linktype, options) = (form.linktype, RawOptions::default());
    Frame { data, time_ns, wire_len, interface: 0, linktype, flags: 0, dropcount: 0, options }
}

#[inline]
fn words(head: &[u8; RECORD_HEADER_BYTES], order: ByteOrder) -> [u32; 4] {
    let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *head;
    [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3]].map(|word| order.u32(word))
}
