//! The content of a capture file as data: items, and the damage that ends them. Both decoders produce these types;
//! nothing here reads.

use thiserror::Error;

/// The longest block or record that is read as a whole (Wireshark has the same limit).
/// Blocks that are only skipped may be longer.
pub(crate) const UNIT_BYTES_MAX: u32 = 16 << 20;

/// One item of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A section begins, and the interfaces of the one before it are forgotten (pcapng only).
    Section(Section<'a>),
    /// An interface is described. A pcap file has one, which comes first.
    Interface(Interface<'a>),
    /// A packet.
    Frame(Frame<'a>),
    /// Counters of the capturing program (pcapng only).
    Statistics(Statistics),
    /// Names of addresses (pcapng only).
    Names(RawNames<'a>),
    /// Damaged bytes were skipped (only by a salvaging decoder).
    Jump(Jump),
}

/// Damage, and the distance to the next plausible unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// The first damage.
    pub damage: Damage,
    /// Bytes from there to the next plausible unit, or to the end of the file.
    pub bytes: u64,
}

/// The origin of a section, as its writer describes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Section<'a> {
    /// `shb_hardware`: the machine.
    pub hardware: Option<&'a [u8]>,
    /// `shb_os`.
    pub os: Option<&'a [u8]>,
    /// `shb_userappl`: the program.
    pub userappl: Option<&'a [u8]>,
    /// The first `opt_comment`.
    pub comment: Option<&'a [u8]>,
    /// All options of the block.
    pub options: RawOptions<'a>,
}

/// The description of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its number in this section, from 0 in order of description. With number 0 a section begins, also where salvaging
    /// has skipped its damaged header.
    pub id: u32,
    /// LINKTYPE_ number (1 is Ethernet).
    pub linktype: u16,
    /// The most bytes kept of a packet; 0 is no limit.
    pub snaplen: u32,
    /// Resolution of its times as `if_tsresol` has it: a negative power of 10, or of 2 with the highest bit set.
    pub tsresol: u8,
    pub name: Option<&'a [u8]>,
    /// `if_filter`, without the byte for its kind.
    pub filter: Option<&'a [u8]>,
    pub description: Option<&'a [u8]>,
    /// `if_MACaddr`.
    pub mac: Option<[u8; 6]>,
    /// `if_speed`, bit/s.
    pub speed_bps: Option<u64>,
    pub os: Option<&'a [u8]>,
    /// `if_fcslen`, or what the link type of a pcap file says: length of the frame check sequence, bits. Some programs
    /// mean bytes.
    pub fcs_len: Option<u8>,
    /// All options of the block.
    pub options: RawOptions<'a>,
}

/// The options of a block as they stand in the file, for a copy of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawOptions<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) order: ByteOrder,
}

impl RawOptions<'_> {
    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A Name Resolution Block as it stands in the file, for a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawNames<'a> {
    /// The records, and the options after them.
    pub(crate) bytes: &'a [u8],
    pub(crate) order: ByteOrder,
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
    /// The options of the packet, if there are others than these two: comments, hashes, numbers. Nearly always empty.
    pub options: RawOptions<'a>,
}

/// Counters of one interface since the capture began; `None` where the file has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The interface, as numbered in this section.
    pub interface: u32,
    /// Time at which they were read, ns since 1970.
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

/// The result of one call of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// The next thing in the file; its bytes are consumed.
    Item(Item<'a>),
    /// At least this many bytes must be there (those left in the slice included) to continue. It is
    /// never more than the unit at hand needs, so a caller that adds just so much wastes nothing.
    NeedMore(usize),
}

/// Damage in a capture file. All items before it were delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{unit} at offset {offset}: {reason}")]
pub struct Damage {
    /// Offset in the file of the first byte of the unit.
    pub offset: u64,
    pub(crate) unit: Unit,
    pub(crate) reason: Reason,
}

/// The parts that capture files are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Unit {
    /// The head of a file, before its format is known, or of a pcap file.
    #[error("file header")]
    FileHeader,
    /// A pcapng block, with the length that it gives.
    #[error("block of {0} bytes")]
    Block(u32),
    /// A pcapng block whose length is cut off.
    #[error("block")]
    BlockHead,
    /// A pcap record, with the captured length that it gives.
    #[error("record with {0} bytes of packet")]
    Record(u32),
    /// A pcap record whose length is cut off.
    #[error("record")]
    RecordHead,
}

/// The reasons for damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Reason {
    /// The first bytes are those of no capture file.
    #[error("this is neither pcap nor pcapng, it begins with {0:02x?}")]
    NotCapture([u8; 4]),
    /// The file has no bytes at all.
    #[error("the file is empty")]
    Empty,
    /// The file ends within the unit.
    #[error("the file ends after {0} bytes of it")]
    CutOff(u64),
    /// A version that no program is known to write.
    #[error("version {0}.{1} is not known")]
    Version(u16, u16),
    /// The length of a block.
    #[error("length not a multiple of 4")]
    NotMultipleOf4,
    /// Less than its fixed fields need.
    #[error("too short, at least {0} bytes are needed")]
    TooShort(u32),
    /// More than [`UNIT_BYTES_MAX`], or than the file's snaplen allows.
    #[error("too long, the limit is {0} bytes")]
    TooLong(u32),
    /// Zeros, as a hole in a file has them.
    #[error("nothing but zeros")]
    Zeros,
    /// A record header that no packet has, before damage; only when salvaging.
    #[error("its header is not plausible")]
    Header,
    /// A record of odd length that no plausible unit follows; only when salvaging.
    #[error("no plausible record follows it")]
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
        id: u32,
        /// Number of interfaces described before it.
        described: u32,
    },
    /// More interfaces than a section may have.
    #[error("a section may describe {0} interfaces, and this is one more")]
    Interfaces(u32),
    /// An option that does not fit, or whose length its kind forbids.
    #[error("option {code} cannot have {bytes} bytes here")]
    Option {
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

/// The progress of a search for the next plausible unit.
pub(crate) enum Find {
    /// It begins after so many bytes.
    At(usize),
    /// It does not begin in the first `at` bytes; `needed` have to be there after them to continue.
    NotBefore { at: usize, needed: usize },
}

impl Damage {
    pub(crate) fn at_start(reason: Reason) -> Self {
        Self { offset: 0, unit: Unit::FileHeader, reason }
    }
}

/// The position of a decoder in its file.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    /// Offset of the next byte to be consumed.
    pub(crate) offset: u64,
    /// No unit is decoded that begins at this offset or after it.
    pub(crate) stop_at: u64,
    /// No bytes follow those in the slice.
    pub(crate) no_more: bool,
    /// Doubt a pcap record whose header is not plausible, and believe the length of a pcapng block only if all of it is
    /// there, so that the first damaged byte is known.
    pub(crate) is_strict: bool,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { offset: 0, stop_at: u64::MAX, no_more: false, is_strict: false }
    }
}

impl Cursor {
    pub(crate) fn damage(&self, unit: Unit, reason: Reason) -> Damage {
        Damage { offset: self.offset, unit, reason }
    }
}

/// The byte order of a file or section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    #[default]
    Little,
    Big,
}

impl ByteOrder {
    /// That of this machine.
    pub(crate) const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

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
