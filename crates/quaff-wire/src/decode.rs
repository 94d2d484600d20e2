//! Decodes capture files of either format from slices, in file order.
//!
//! The bytes arrive in parts. [`Decoder::next`] takes one [`Item`] from the front of a slice, or returns the number of
//! bytes needed to continue. Frames borrow from the slice: nothing is copied, and only a few words per interface are
//! stored. It never panics on any input, and never requests more than 16 MiB at once.

pub use crate::item::{
    Corrections, Damage, Format, Frame, Interface, Item, Jump, RawNames, RawOptions, Section, Statistics,
    Step,
};
use crate::item::{Cursor, Find, Reason};
use crate::{pcap, pcapng};

/// Returns whether a file that begins so has the magic number of pcap or pcapng.
pub fn has_magic(head: &[u8]) -> bool {
    let is_known =
        |magic: &[u8; 4]| u32::from_le_bytes(*magic) == pcapng::SHB || pcap::of_magic(*magic).is_some();
    head.first_chunk().is_some_and(is_known)
}

/// Decodes a file of either format, which its first bytes determine. By default it stops at damage.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    cursor: Cursor,
    state: State,
    /// The damage whose end is searched for; used by a salvaging decoder only.
    damage: Option<Damage>,
}

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    Unknown,
    Pcap(pcap::Decoder),
    Pcapng(pcapng::Decoder),
}

impl Decoder {
    /// A decoder that continues after damage: it searches for the next record or block that others follow, and reports
    /// the skipped bytes as [`Item::Jump`]. Only a file whose first bytes match no capture format is an error.
    ///
    /// It decodes an undamaged file as the plain decoder does. A pcap record with an implausible header is damage only
    /// if the record lengths from there on lead to something that cannot be a record.
    pub fn salvaging() -> Self {
        Self { cursor: Cursor { is_strict: true, ..Cursor::default() }, ..Self::default() }
    }

    /// Takes the next item from the front of `bytes`, and advances `bytes` past it.
    ///
    /// After an error nothing more can be read; the call returns the same error again.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        if self.cursor.offset >= self.cursor.stop_at && !self.is_within_unit() {
            return Ok(Step::NeedMore(0));
        }
        if self.cursor.is_strict { self.next_salvaged(bytes) } else { self.step(bytes) }
    }

    /// Takes the packet at the front of `bytes` if it is a complete pcap record without peculiarities, as
    /// [`Decoder::next`] would, but faster. Otherwise it consumes nothing, and `next` must be called.
    #[inline]
    pub fn usual_frame<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
        match &self.state {
            State::Pcap(decoder) if self.cursor.offset < self.cursor.stop_at => {
                decoder.usual(&mut self.cursor, bytes)
            }
            _ => None,
        }
    }

    /// True if the next byte belongs to a block that is being skipped.
    pub fn is_within_unit(&self) -> bool {
        matches!(&self.state, State::Pcapng(decoder) if decoder.is_skipping())
    }

    /// Announces that the last call had the final bytes. Some of them may have waited for more to be recognised: call
    /// [`Decoder::next`] again.
    pub fn no_more(&mut self) {
        self.cursor.no_more = true;
    }

    /// Stops before units that start at `offset` or later: there [`Decoder::next`] returns `NeedMore(0)`.
    pub fn stop_at(&mut self, offset: u64) {
        self.cursor.stop_at = offset;
    }

    /// Continues at `offset`, where a unit of the same section starts.
    pub fn move_to(&mut self, offset: u64) {
        (self.cursor.offset, self.cursor.no_more) = (offset, false);
        if let State::Pcapng(decoder) = &mut self.state {
            decoder.begin_block();
        }
    }

    /// Moves to the first plausible unit in `bytes`, which start at `offset` of the file, and returns the number of
    /// bytes before it; `None` if there is none.
    ///
    /// It is a guess: a packet may contain something that looks like a unit. A caller that decodes a file from several
    /// places must check that decoding the bytes before this place ends exactly there.
    pub fn guess_unit(&mut self, offset: u64, bytes: &[u8]) -> Option<usize> {
        self.move_to(offset);
        // A unit that ends after `bytes` does not count, so that the search continues.
        let cursor = Cursor { no_more: true, ..self.cursor.clone() };
        let found = match &mut self.state {
            State::Pcap(decoder) => decoder.find(&cursor, bytes)?,
            State::Pcapng(decoder) => decoder.find(&cursor, bytes),
            State::Unknown => return None,
        };
        let Find::At(at) = found else { return None };
        self.cursor.offset += at as u64;
        Some(at)
    }

    /// Checks that the file may end here; `rest` is the rest of the slice.
    pub fn end(&self, rest: &[u8]) -> Result<(), Damage> {
        match &self.state {
            State::Pcap(decoder) => decoder.end(&self.cursor, rest),
            State::Pcapng(decoder) => decoder.end(&self.cursor, rest),
            State::Unknown if rest.is_empty() => Err(Damage::at_start(Reason::Empty)),
            State::Unknown => Err(Damage::at_start(Reason::CutOff(rest.len() as u64))),
        }
    }

    /// As [`Decoder::end`], of a file that is being written: a part of its last unit may be there. Returns the number
    /// of its bytes. A unit in which another one begins has a damaged length, and more may be lost than that.
    pub fn end_unfinished(&self, rest: &[u8]) -> Result<u64, Damage> {
        let Err(damage) = self.end(rest) else { return Ok(0) };
        let after = rest.get(1..).unwrap_or_default();
        let is_last = damage.is_cut() && self.clone().guess_unit(self.cursor.offset + 1, after).is_none();
        if is_last { Ok(rest.len() as u64) } else { Err(damage) }
    }

    /// File offset of the next byte to consume.
    pub fn offset(&self) -> u64 {
        self.cursor.offset
    }

    /// The packets whose headers were corrected so far. A caller that decodes a file from several places adds them up.
    pub fn corrections(&mut self) -> &mut Corrections {
        &mut self.cursor.corrected
    }

    /// The format, once the first bytes have been read.
    pub fn format(&self) -> Option<Format> {
        match &self.state {
            State::Unknown => None,
            State::Pcap(_) => Some(Format::Pcap),
            State::Pcapng(_) => Some(Format::Pcapng),
        }
    }

    /// The record layout of a pcap file, once it is known.
    pub fn layout(&self) -> Option<pcap::RecordLayout> {
        match &self.state {
            State::Pcap(decoder) => decoder.layout(),
            _ => None,
        }
    }

    #[cold]
    fn begin<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let Some(magic) = bytes.first_chunk::<4>() else { return Ok(Step::NeedMore(4)) };
        self.state = if u32::from_le_bytes(*magic) == pcapng::SHB {
            State::Pcapng(pcapng::Decoder::default())
        } else if pcap::of_magic(*magic).is_some() {
            State::Pcap(pcap::Decoder::default())
        } else {
            return Err(Damage::at_start(Reason::NotCapture(*magic)));
        };
        self.step(bytes)
    }

    #[inline]
    fn step<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        match &mut self.state {
            State::Pcapng(decoder) => decoder.next(&mut self.cursor, bytes),
            State::Pcap(decoder) => decoder.next(&mut self.cursor, bytes),
            State::Unknown => self.begin(bytes),
        }
    }

    fn next_salvaged<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        if let Some(damage) = self.damage {
            return self.search(damage, bytes);
        }
        let damage = match self.step(bytes) {
            Err(damage) => damage,
            Ok(Step::NeedMore(needed)) => match self.end(bytes) {
                // A truncated unit may contain a complete one.
                Err(damage) if self.cursor.no_more => damage,
                _ => return Ok(Step::NeedMore(needed)),
            },
            item => return item,
        };
        let has_header = match &mut self.state {
            State::Pcap(decoder) => decoder.has_header(),
            State::Pcapng(decoder) => {
                decoder.begin_block();
                true
            }
            State::Unknown => false,
        };
        if bytes.is_empty() && has_header && damage.offset < self.cursor.offset {
            // Everything was skipped, as a block.
            return Ok(Step::Item(Item::Jump(self.jumped(damage))));
        }
        if bytes.is_empty() || !has_header {
            return Err(damage);
        }
        // The first byte of damage cannot start a unit.
        self.jump(bytes, 1);
        self.damage = Some(damage);
        self.search(damage, bytes)
    }

    /// Searches `bytes` for the end of the damage.
    fn search<'a>(&mut self, damage: Damage, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let found = match &mut self.state {
            State::Pcap(decoder) => decoder.find(&self.cursor, bytes),
            State::Pcapng(decoder) => Some(decoder.find(&self.cursor, bytes)),
            State::Unknown => None,
        };
        match found {
            Some(Find::At(at)) => self.jump(bytes, at),
            Some(Find::NotBefore { at, needed }) if !self.cursor.no_more => {
                self.jump(bytes, at);
                return Ok(Step::NeedMore(needed));
            }
            _ => self.jump(bytes, bytes.len()),
        }
        self.damage = None;
        Ok(Step::Item(Item::Jump(self.jumped(damage))))
    }

    /// The bytes between `damage` and here.
    fn jumped(&self, damage: Damage) -> Jump {
        Jump { damage, bytes: self.cursor.offset - damage.offset }
    }

    fn jump(&mut self, bytes: &mut &[u8], count: usize) {
        *bytes = &bytes[count..];
        self.cursor.offset += count as u64;
    }
}
