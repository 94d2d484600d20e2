//! The contents of a capture file as data: items, and the damage that ends them. Both decoders produce these types;
//! nothing is decoded here.

use crate::linktype;
use thiserror::Error;

/// Maximum length of a block or record that is read as a whole, as in Wireshark. Skipped blocks may be longer.
pub(crate) const UNIT_BYTES_MAX: u32 = 16 << 20;
/// Maximum length of a unit of which a recorder may have written a part: twice a packet of the largest snaplen, so that
/// there is room for its options. Blocks up to it are read as a whole, also those that are skipped.
pub(crate) const UNFINISHED_BYTES_MAX: u32 = 512 << 10;

/// One item of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// The start of a section (pcapng only); interfaces of the previous one are no longer valid.
    Section(Section<'a>),
    /// The description of an interface. A pcap file has one, which comes first.
    Interface(Interface<'a>),
    /// A packet.
    Frame(Frame<'a>),
    /// Counters of the capturing program (pcapng only).
    Statistics(Statistics),
    /// Names of addresses (pcapng only).
    Names(RawNames<'a>),
    /// Skipped damaged bytes (only from a salvaging decoder).
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

/// The description of a section by its writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Section<'a> {
    /// `shb_hardware`.
    pub hardware: Option<&'a [u8]>,
    /// `shb_os`.
    pub os: Option<&'a [u8]>,
    /// `shb_userappl`: the writing program.
    pub userappl: Option<&'a [u8]>,
    /// The first `opt_comment`.
    pub comment: Option<&'a [u8]>,
    /// All options of the block.
    pub options: RawOptions<'a>,
}

/// The description of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Number in this section, from 0 in order of description. Number 0 starts a section, even if salvaging skipped its
    /// damaged header.
    pub id: u32,
    /// LINKTYPE_ number (1 is Ethernet).
    pub linktype: u16,
    /// Maximum number of bytes kept of a packet; 0: no limit.
    pub snaplen: u32,
    /// Timestamp resolution as in `if_tsresol`: a negative power of 10, or of 2 if the highest bit is set.
    pub tsresol: u8,
    pub name: Option<&'a [u8]>,
    /// `if_filter`, without the byte that gives its kind.
    pub filter: Option<&'a [u8]>,
    pub description: Option<&'a [u8]>,
    /// `if_MACaddr`.
    pub mac: Option<[u8; 6]>,
    /// `if_speed`, bit/s.
    pub speed_bps: Option<u64>,
    pub os: Option<&'a [u8]>,
    /// `if_fcslen`, or the value in a pcap file's link type: length of the frame check sequence, bits. Some programs
    /// write bytes.
    pub fcs_len: Option<u8>,
    /// All options of the block.
    pub options: RawOptions<'a>,
}

impl Interface<'_> {
    /// The link type under which its packets are written: platforms have numbers of their own for bare IP, and the
    /// header of a BSD loopback has the byte order of its file.
    pub fn linktype_to_write(&self) -> u16 {
        linktype::to_write(self.linktype, self.options.order == ByteOrder::Big)
    }
}

/// Packets whose headers in a file were corrected while they were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Corrections {
    /// The original length was below the captured one, which it became.
    pub lengths: u64,
    /// The fraction of the second was a second or more. It was added as it is.
    pub fractions: u64,
    /// Times before 1970, which became [`EARLIEST_NS`].
    pub early: u64,
    /// Times after 2554, which became the last one.
    pub late: u64,
}

/// The first time that is not taken for none, ns since 1970.
pub(crate) const EARLIEST_NS: u64 = 1;

impl Corrections {
    /// Adds those of other packets.
    pub fn add(&mut self, other: Self) {
        self.lengths += other.lengths;
        self.fractions += other.fractions;
        self.early += other.early;
        self.late += other.late;
    }

    /// The original length of a packet with so many captured bytes.
    #[inline]
    pub(crate) fn wire_len(&mut self, wire_len: u32, captured: usize) -> u32 {
        if (wire_len as usize) < captured { self.raised(captured) } else { wire_len }
    }

    #[cold]
    fn raised(&mut self, captured: usize) -> u32 {
        self.lengths += 1;
        captured as u32
    }

    /// Times before 1970 and after 2554 become the nearer limit.
    #[cold]
    pub(crate) fn time_ns(&mut self, ns: i128) -> u64 {
        match u64::try_from(ns) {
            Err(_) if ns < 0 => {
                self.early += 1;
                EARLIEST_NS
            }
            Ok(u64::MAX) | Err(_) => {
                self.late += 1;
                u64::MAX
            }
            Ok(ns) => ns,
        }
    }
}

/// The options of a block as they are in the file, for copying.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawOptions<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) order: ByteOrder,
}

impl RawOptions<'_> {
    /// True if there are no options.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A Name Resolution Block as it is in the file, for copying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawNames<'a> {
    /// The records, followed by the options.
    pub(crate) bytes: &'a [u8],
    pub(crate) order: ByteOrder,
}

/// A captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The captured bytes.
    pub data: &'a [u8],
    /// Timestamp, ns since 1970; 0 for a Simple Packet Block, which has none.
    pub time_ns: u64,
    /// Length on the wire, bytes.
    pub wire_len: u32,
    /// The interface that captured it, numbered in this section.
    pub interface: u32,
    /// LINKTYPE_ number of that interface.
    pub linktype: u16,
    /// `epb_flags`, 0 if absent.
    pub flags: u32,
    /// `epb_dropcount`: packets lost since the previous one on this interface, 0 if absent.
    pub dropcount: u64,
    /// All other options of the packet: comments, hashes, numbers. Nearly always empty.
    pub options: RawOptions<'a>,
}

/// Counters of one interface since the start of the capture; `None` if absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The interface, numbered in this section.
    pub interface: u32,
    /// Time at which they were read, ns since 1970.
    pub time_ns: u64,
    /// `isb_starttime`: start of the capture, ns since 1970.
    pub starttime_ns: Option<u64>,
    /// `isb_endtime`: end of the capture, ns since 1970.
    pub endtime_ns: Option<u64>,
    /// `isb_ifrecv`: packets received by the interface.
    pub ifrecv: Option<u64>,
    /// `isb_ifdrop`: packets dropped by the interface.
    pub ifdrop: Option<u64>,
    /// `isb_filteraccept`: packets that the filter accepted.
    pub filteraccept: Option<u64>,
    /// `isb_osdrop`: packets dropped by the operating system.
    pub osdrop: Option<u64>,
    /// `isb_usrdeliv`: packets delivered to the user.
    pub usrdeliv: Option<u64>,
}

/// The result of a call to a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// The next item of the file; its bytes are consumed.
    Item(Item<'a>),
    /// At least this many bytes are needed, including those left in the slice. It is never more than the current unit
    /// needs, so a caller may provide exactly that.
    NeedMore(usize),
}

/// Damage in a capture file. All items before it were returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{unit} at offset {offset}: {reason}")]
pub struct Damage {
    /// File offset of the first byte of the damaged unit.
    pub offset: u64,
    pub(crate) unit: Unit,
    pub(crate) reason: Reason,
}

/// The units of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Unit {
    /// The file header, of unknown format or of pcap.
    #[error("file header")]
    FileHeader,
    /// A pcapng block with its declared length.
    #[error("block of {0} bytes")]
    Block(u32),
    /// A pcapng block with a truncated length.
    #[error("block")]
    BlockHead,
    /// A pcap record with its declared captured length.
    #[error("record with {0} bytes of packet")]
    Record(u32),
    /// A pcap record with a truncated length.
    #[error("record")]
    RecordHead,
}

/// Why a unit is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Reason {
    /// The first bytes match no capture format.
    #[error("this is neither pcap nor pcapng, it begins with {0:02x?}")]
    NotCapture([u8; 4]),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file ends inside the unit.
    #[error("the file ends after {0} bytes of it")]
    CutOff(u64),
    /// An unknown version.
    #[error("version {0}.{1} is not known")]
    Version(u16, u16),
    /// The length of a block is not a multiple of 4.
    #[error("length not a multiple of 4")]
    NotMultipleOf4,
    /// The length is less than the fixed fields need.
    #[error("too short, at least {0} bytes are needed")]
    TooShort(u32),
    /// The length exceeds [`UNIT_BYTES_MAX`], or the file's snaplen.
    #[error("too long, the limit is {0} bytes")]
    TooLong(u32),
    /// Zeros, as in a hole of a file.
    #[error("nothing but zeros")]
    Zeros,
    /// An implausible record header, followed by damage; only when salvaging.
    #[error("its header is not plausible")]
    Header,
    /// A record of odd length that no plausible unit follows; only when salvaging.
    #[error("no plausible record follows it")]
    NextHeader,
    /// The length at the end of a block differs.
    #[error("the length at its end is {0}")]
    Trailer(u32),
    /// The byte-order magic of a section is invalid.
    #[error("byte-order magic {0:#010x} is not known")]
    ByteOrder(u32),
    /// The captured length of a packet is invalid.
    #[error("{0} captured bytes do not fit in it")]
    Captured(u32),
    /// A packet or statistics of an undescribed interface.
    #[error("it is of interface {id}, but the section describes only {described}")]
    Interface {
        id: u32,
        /// Number of interfaces described before it.
        described: u32,
    },
    /// A section has too many interfaces.
    #[error("a section may describe {0} interfaces, and this is one more")]
    Interfaces(u32),
    /// An option that exceeds its block, or has an invalid length.
    #[error("option {code} cannot have {bytes} bytes here")]
    Option {
        code: u16,
        /// Its declared length.
        bytes: u16,
    },
}

/// The capture formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// draft-ietf-opsawg-pcap
    Pcap,
    /// draft-ietf-opsawg-pcapng
    Pcapng,
}

/// The progress of the search for the next plausible unit.
pub(crate) enum Find {
    /// It starts after this number of bytes.
    At(usize),
    /// It does not start in the first `at` bytes; `needed` bytes after them are required to continue.
    NotBefore { at: usize, needed: usize },
}

impl Damage {
    pub(crate) fn at_start(reason: Reason) -> Self {
        Self { offset: 0, unit: Unit::FileHeader, reason }
    }

    /// Returns whether the file ends inside a unit that is no longer than those of a recorder.
    pub fn is_cut(&self) -> bool {
        let is_usual = match self.unit {
            Unit::Block(bytes) | Unit::Record(bytes) => bytes <= UNFINISHED_BYTES_MAX,
            Unit::FileHeader | Unit::BlockHead | Unit::RecordHead => true,
        };
        is_usual && matches!(self.reason, Reason::CutOff(_))
    }
}

/// The position of a decoder in its file.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    /// File offset of the next byte to consume.
    pub(crate) offset: u64,
    /// No unit that starts at this offset or later is decoded.
    pub(crate) stop_at: u64,
    /// True if no bytes follow those in the slice.
    pub(crate) no_more: bool,
    /// Doubt a pcap record with an implausible header, and trust the length of a pcapng block only if the whole block
    /// is present, so that the first damaged byte is found.
    pub(crate) is_strict: bool,
    pub(crate) corrected: Corrections,
}

impl Default for Cursor {
    fn default() -> Self {
        let corrected = Corrections::default();
        Self { offset: 0, stop_at: u64::MAX, no_more: false, is_strict: false, corrected }
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
    /// The machine's byte order.
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

    /// Takes a word from the front of `bytes`; leaves them unchanged if they are too short.
    #[inline]
    pub(crate) fn take_u16(self, bytes: &mut &[u8]) -> Option<u16> {
        let (word, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(self.u16(*word))
    }

    /// Takes a word from the front of `bytes`; leaves them unchanged if they are too short.
    #[inline]
    pub(crate) fn take_u32(self, bytes: &mut &[u8]) -> Option<u32> {
        let (word, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(self.u32(*word))
    }
}
