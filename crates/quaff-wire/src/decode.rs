//! Reads capture files of either format from slices: what a file says, in the order it says it.
//!
//! The bytes arrive in pieces. [`Decoder::next`] takes what it can from the front of a slice and
//! gives one [`Item`], or says how many bytes must be there before it can go on. Frames borrow from
//! the slice: nothing is copied, and nothing is kept but a few words for each interface. Whatever
//! the bytes, it does not panic, and it never asks for more than [`UNIT_BYTES_MAX`] at once.

use crate::{pcap, pcapng};
use thiserror::Error;

/// The longest block or record that is read as a whole (Wireshark has the same limit).
/// Blocks that are only skipped may be longer.
pub const UNIT_BYTES_MAX: u32 = 16 << 20;

/// One thing that a capture file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A section begins, and the interfaces of the one before it are forgotten (pcapng only).
    Section(Section<'a>),
    /// An interface is described. A pcap file has one, which comes first.
    Interface(Interface<'a>),
    /// A packet.
    Frame(Frame<'a>),
    /// What the capturer counted (pcapng only).
    Statistics(Statistics),
    /// Bytes that make no sense were jumped over (only by a decoder that salvages).
    Jump(Jump),
}

/// Damage, and how far away from it the next thing was that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// Where sense ended, and why.
    pub damage: Damage,
    /// Bytes from there to where it begins again, or to the end of the file.
    pub bytes: u64,
}

/// The head of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section<'a> {
    /// `shb_userappl`: the program that wrote it.
    pub userappl: Option<&'a [u8]>,
}

/// The description of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its number in this section, from 0 in order of description.
    pub id: u32,
    /// LINKTYPE_ number (1 is Ethernet).
    pub linktype: u16,
    /// The most bytes kept of a packet; 0 is no limit.
    pub snaplen: u32,
    /// `if_name`.
    pub name: Option<&'a [u8]>,
    /// `if_filter`, without the byte that tells its kind.
    pub filter: Option<&'a [u8]>,
    /// `if_description`.
    pub description: Option<&'a [u8]>,
    /// `if_MACaddr`.
    pub mac: Option<[u8; 6]>,
    /// `if_speed`, bit/s.
    pub speed_bps: Option<u64>,
    /// `if_os`.
    pub os: Option<&'a [u8]>,
}

/// A packet as it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The bytes that were captured.
    pub data: &'a [u8],
    /// ns since 1970; 0 in a Simple Packet Block, which has no time.
    pub time_ns: u64,
    /// Bytes that it had on the wire.
    pub wire_len: u32,
    /// The interface that it was seen on, as numbered in this section.
    pub interface: u32,
    /// LINKTYPE_ number of that interface.
    pub linktype: u16,
    /// `epb_flags`, 0 where absent.
    pub flags: u32,
    /// `epb_dropcount`: packets lost since the one before it on this interface, 0 where absent.
    pub dropcount: u64,
}

/// Counters of one interface since the capture began; `None` where the file does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The interface, as numbered in this section.
    pub interface: u32,
    /// When they were read, ns since 1970.
    pub time_ns: u64,
    /// `isb_starttime`: when the capture began, ns since 1970.
    pub starttime_ns: Option<u64>,
    /// `isb_endtime`: when the capture ended, ns since 1970.
    pub endtime_ns: Option<u64>,
    /// `isb_ifrecv`: packets received by the interface.
    pub ifrecv: Option<u64>,
    /// `isb_ifdrop`: packets dropped by the interface.
    pub ifdrop: Option<u64>,
    /// `isb_filteraccept`: packets that the filter let pass.
    pub filteraccept: Option<u64>,
    /// `isb_osdrop`: packets dropped by the operating system.
    pub osdrop: Option<u64>,
    /// `isb_usrdeliv`: packets delivered to the user.
    pub usrdeliv: Option<u64>,
}

/// What one call of a decoder came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// The next thing in the file; its bytes are consumed.
    Item(Item<'a>),
    /// At least this many bytes must be there (those left in the slice included) to go on. It is
    /// never more than the unit at hand needs, so a caller that adds just so much wastes nothing.
    NeedMore(usize),
}

/// Where a capture file stops making sense, and why. All that came before it was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{unit} at offset {offset}: {reason}")]
pub struct Damage {
    /// Offset in the file of the first byte of the unit.
    pub offset: u64,
    /// What begins there.
    pub unit: Unit,
    /// What is wrong with it.
    pub reason: Reason,
}

/// The parts that capture files are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unit {
    /// The head of a file, before its format is known, or of a pcap file.
    #[error("file header")]
    FileHeader,
    /// A pcapng block of so many bytes, as it says itself.
    #[error("block of {0} bytes")]
    Block(u32),
    /// A pcapng block whose length is not there.
    #[error("block")]
    BlockHead,
    /// A pcap record with so many bytes of packet, as it says itself.
    #[error("record with {0} bytes of packet")]
    Record(u32),
    /// A pcap record whose length is not there.
    #[error("record")]
    RecordHead,
}

/// What can be wrong with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Reason {
    /// The first bytes are those of no capture file.
    #[error("this is neither pcap nor pcapng, it begins with {0:02x?}")]
    NotCapture([u8; 4]),
    /// The file has no bytes at all.
    #[error("the file is empty")]
    Empty,
    /// The file ends within the unit.
    #[error("the file ends after {0} bytes of it")]
    CutOff(u64),
    /// A version that nobody has written.
    #[error("version {0}.{1} is not known")]
    Version(u16, u16),
    /// The length of a block.
    #[error("length not a multiple of 4")]
    NotMultipleOf4,
    /// Less than its fixed fields need.
    #[error("too short, at least {0} bytes are needed")]
    TooShort(u32),
    /// More than [`UNIT_BYTES_MAX`], or than the file's snaplen allows.
    #[error("too long, at most {0} bytes are believed")]
    TooLong(u32),
    /// A record header of zeros, as a hole in a file has them.
    #[error("nothing but zeros")]
    Zeros,
    /// A record header that no packet has; only looked at when salvaging.
    #[error("its header makes no sense")]
    Header,
    /// A record whose length is odd, and behind which nothing makes sense; only when salvaging.
    #[error("what follows it makes no sense")]
    NextHeader,
    /// The length at the end of a block.
    #[error("the length at its end is {0}")]
    Trailer(u32),
    /// The byte-order magic of a section.
    #[error("byte-order magic {0:#010x} is not known")]
    ByteOrder(u32),
    /// The captured length of a packet.
    #[error("{0} captured bytes do not fit in it")]
    Captured(u32),
    /// A packet or a counter of an interface that was not described.
    #[error("it is of interface {id}, but the section describes only {described}")]
    Interface {
        /// The number that it gives.
        id: u32,
        /// How many were described before it.
        described: u32,
    },
    /// More interfaces than anybody has.
    #[error("a section may describe {0} interfaces, and this is one more")]
    Interfaces(u32),
    /// An option that does not fit, or whose length its kind forbids.
    #[error("option {code} cannot have {bytes} bytes here")]
    Option {
        /// The option's code.
        code: u16,
        /// The length that it gives.
        bytes: u16,
    },
}

/// The two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// draft-ietf-opsawg-pcap
    Pcap,
    /// draft-ietf-opsawg-pcapng
    Pcapng,
}

/// Where the search for something that makes sense has come to.
pub(crate) enum Find {
    /// It begins so many bytes on.
    At(usize),
    /// It does not begin in the first `at` bytes; `needed` have to be there behind them to go on.
    NotBefore { at: usize, needed: usize },
}

/// Reads a file of either format; the first bytes tell which.
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

/// A decoder that looks for the next thing that makes sense where others give up.
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

    /// One that does not give up at damage: it looks for the next record or block that others
    /// follow, tells by [`Item::Jump`] what it jumped over, and goes on. Only a file whose first
    /// bytes are those of no capture file is an error.
    ///
    /// It believes less than others do: in pcap a record whose header no packet has is damage, and
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

    /// Says that behind the bytes given last there are no more. Some of them may have waited for
    /// others that would have told what they are: [`Decoder::next`] is to be called again.
    pub fn no_more(&mut self) {
        self.no_more = true;
        match &mut self.state {
            State::Pcapng(decoder) => decoder.no_more(),
            State::Pcap(decoder) => decoder.no_more(),
            State::Unknown => {}
        }
    }

    /// To be called when there are no more bytes: `rest` is what is left in the slice.
    ///
    /// Says whether the file ends where a file may end.
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
                // What is cut off could hold something that is whole.
                Err(damage) if self.no_more => damage,
                _ => return Ok(Step::NeedMore(needed)),
            },
            item => return item,
        };
        if bytes.is_empty() || !self.knows_where_it_is() {
            return Err(damage);
        }
        // What is damaged does not begin where it says it begins.
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

    /// Whether anything that follows could be told apart.
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

impl Damage {
    pub(crate) fn at_start(reason: Reason) -> Self {
        Self { offset: 0, unit: Unit::FileHeader, reason }
    }
}

/// The byte order of a file or section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    #[inline]
    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(crate) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Takes a word from the front of `bytes`, or leaves them as they are.
    #[inline]
    pub(crate) fn take_u16(self, bytes: &mut &[u8]) -> Option<u16> {
        let (word, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(self.u16(*word))
    }

    /// Takes a word from the front of `bytes`, or leaves them as they are.
    #[inline]
    pub(crate) fn take_u32(self, bytes: &mut &[u8]) -> Option<u32> {
        let (word, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(self.u32(*word))
    }
}
