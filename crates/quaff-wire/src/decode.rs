//! Reads capture files of either format from slices, in the order of the file.
//!
//! The bytes arrive in parts. [`Decoder::next`] takes what it can from the front of a slice and
//! gives one [`Item`], or the number of bytes that must be there to continue. Frames borrow from
//! the slice: nothing is copied, and nothing is kept but a few words for each interface. Whatever
//! the bytes, it does not panic, and it never asks for more than [`UNIT_BYTES_MAX`] at once.

use crate::item::Find;
pub use crate::item::{
    Damage, Format, Frame, Interface, Item, Jump, Reason, Section, Statistics, Step, UNIT_BYTES_MAX, Unit,
};
use crate::{pcap, pcapng};

/// Reads a file of either format; the first bytes decide.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    salvage: Option<Salvage>,
    no_more: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unknown,
    Pcap(pcap::decode::Decoder),
    Pcapng(pcapng::decode::Decoder),
}

/// A decoder that searches for the next plausible unit after damage.
#[derive(Debug, Default)]
struct Salvage {
    /// The damage that it is looking for an end of.
    from: Option<Damage>,
}

impl Decoder {
    /// A decoder at the first byte of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that continues after damage: it searches for the next record or block that others
    /// follow, and reports by [`Item::Jump`] what it skipped. Only a file whose first
    /// bytes are those of no capture file is an error.
    ///
    /// It is stricter than the other: in pcap a record whose header no packet has is damage, and
    /// in pcapng a block of which not all is there, or longer than [`UNIT_BYTES_MAX`].
    pub fn salvaging() -> Self {
        Self { salvage: Some(Salvage::default()), ..Self::default() }
    }

    /// Takes the next item from the front of `bytes`, which moves on by what was consumed.
    ///
    /// After an error nothing more can be read; the same call gives the same error.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        if self.salvage.is_some() {
            return self.next_salvaged(bytes);
        }
        match &mut self.state {
            State::Pcapng(decoder) => decoder.next(bytes),
            State::Pcap(decoder) => decoder.next(bytes),
            State::Unknown => self.begin(bytes),
        }
    }

    /// Announces that there are no bytes after those given last. Some of them may have waited for
    /// others to be recognised: [`Decoder::next`] is to be called again.
    pub fn no_more(&mut self) {
        self.no_more = true;
        match &mut self.state {
            State::Pcapng(decoder) => decoder.no_more(),
            State::Pcap(decoder) => decoder.no_more(),
            State::Unknown => {}
        }
    }

    /// To be called after the last byte: `rest` is the rest of the slice.
    ///
    /// Returns an error unless a file may end there.
    pub fn end(&self, rest: &[u8]) -> Result<(), Damage> {
        match &self.state {
            State::Pcap(decoder) => decoder.end(rest),
            State::Pcapng(decoder) => decoder.end(rest),
            State::Unknown if rest.is_empty() => Err(Damage::at_start(Reason::Empty)),
            State::Unknown => Err(Damage::at_start(Reason::CutOff(rest.len() as u64))),
        }
    }

    /// Offset in the file of the next byte to be consumed.
    pub fn offset(&self) -> u64 {
        match &self.state {
            State::Unknown => 0,
            State::Pcap(decoder) => decoder.offset(),
            State::Pcapng(decoder) => decoder.offset(),
        }
    }

    /// The format, once the first bytes were seen.
    pub fn format(&self) -> Option<Format> {
        match &self.state {
            State::Unknown => None,
            State::Pcap(_) => Some(Format::Pcap),
            State::Pcapng(_) => Some(Format::Pcapng),
        }
    }

    /// The layout of a pcap file's records, once it is known.
    pub fn layout(&self) -> Option<pcap::RecordLayout> {
        match &self.state {
            State::Pcap(decoder) => decoder.layout(),
            _ => None,
        }
    }

    #[cold]
    fn begin<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        let Some(magic) = bytes.first_chunk::<4>() else { return Ok(Step::NeedMore(4)) };
        let is_strict = self.salvage.is_some();
        if u32::from_le_bytes(*magic) == pcapng::SHB {
            let (new, strict) = (pcapng::decode::Decoder::new, pcapng::decode::Decoder::strict);
            self.state = State::Pcapng(if is_strict { strict() } else { new() });
        } else if pcap::decode::is_magic(*magic) {
            let (new, strict) = (pcap::decode::Decoder::new, pcap::decode::Decoder::strict);
            self.state = State::Pcap(if is_strict { strict() } else { new() });
        } else {
            return Err(Damage::at_start(Reason::NotCapture(*magic)));
        }
        if self.no_more {
            self.no_more();
        }
        self.step(bytes)
    }

    fn step<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        match &mut self.state {
            State::Pcapng(decoder) => decoder.next(bytes),
            State::Pcap(decoder) => decoder.next(bytes),
            State::Unknown => self.begin(bytes),
        }
    }

    fn next_salvaged<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        if let Some(damage) = self.salvage.as_ref().and_then(|salvage| salvage.from) {
            return self.search(damage, bytes);
        }
        let damage = match self.step(bytes) {
            Err(damage) => damage,
            Ok(Step::NeedMore(needed)) => match self.end(bytes) {
                // The bytes of a unit that is cut off could hold a whole one.
                Err(damage) if self.no_more => damage,
                _ => return Ok(Step::NeedMore(needed)),
            },
            item => return item,
        };
        if bytes.is_empty() || !self.knows_where_it_is() {
            return Err(damage);
        }
        // The first byte of damage is no beginning of a unit.
        self.jump(bytes, 1);
        self.salvage = Some(Salvage { from: Some(damage) });
        self.search(damage, bytes)
    }

    /// Looks for the end of the damage in `bytes`.
    fn search<'a>(&mut self, damage: Damage, bytes: &mut &'a [u8]) -> Result<Step<'a>, Damage> {
        match self.find(bytes) {
            Some(Find::At(at)) => self.jump(bytes, at),
            Some(Find::NotBefore { at, needed }) if !self.no_more => {
                self.jump(bytes, at);
                return Ok(Step::NeedMore(needed));
            }
            _ => self.jump(bytes, bytes.len()),
        }
        self.salvage = Some(Salvage::default());
        let jump = Jump { damage, bytes: self.offset() - damage.offset };
        Ok(Step::Item(Item::Jump(jump)))
    }

    /// Returns true if units that follow could be recognised.
    fn knows_where_it_is(&self) -> bool {
        match &self.state {
            State::Pcap(decoder) => decoder.has_header(),
            State::Pcapng(_) => true,
            State::Unknown => false,
        }
    }

    fn find(&mut self, bytes: &[u8]) -> Option<Find> {
        match &mut self.state {
            State::Pcap(decoder) => decoder.find(bytes),
            State::Pcapng(decoder) => Some(decoder.find(bytes)),
            State::Unknown => None,
        }
    }

    fn jump(&mut self, bytes: &mut &[u8], count: usize) {
        *bytes = &bytes[count..];
        match &mut self.state {
            State::Pcap(decoder) => decoder.jump(count as u64),
            State::Pcapng(decoder) => decoder.jump(count as u64),
            State::Unknown => {}
        }
    }
}
