//! The pcapng file format (draft-ietf-opsawg-pcapng): constants for decoder and encoder.
//!
//! The names are those of the draft. A file has one or more sections; a section is a Section Header Block, followed by
//! interface descriptions, packets and statistics in any order. A block starts with its type and length, and ends with
//! its length.

mod copy;
mod decode;
mod encode;
mod option;
mod search;
mod time;

pub use copy::{PacketOptions, comment_option, comments, interface_options, names};
pub(crate) use decode::{Decoder, byte_order};
pub use encode::{
    Interface, PACKET_ID_BYTES, PADDING_BYTES_MIN, Section, Statistics, append_epb, append_epb_with,
    append_epb_with_id, epb, epb_bytes, idb, isb, padding, padding_bytes, shb,
};

/// Section Header Block; the value is a palindrome in both byte orders.
pub(crate) const SHB: u32 = 0x0A0D_0D0A;
/// Interface Description Block.
pub(crate) const IDB: u32 = 0x0000_0001;
/// Packet Block, obsolete since 2004; still read.
pub(crate) const PB: u32 = 0x0000_0002;
/// Simple Packet Block.
pub(crate) const SPB: u32 = 0x0000_0003;
/// Name Resolution Block.
pub(crate) const NRB: u32 = 0x0000_0004;
/// Interface Statistics Block.
pub(crate) const ISB: u32 = 0x0000_0005;
/// Enhanced Packet Block.
pub(crate) const EPB: u32 = 0x0000_0006;
/// systemd Journal Export Block.
pub(crate) const JOURNAL: u32 = 0x0000_0009;
/// Decryption Secrets Block.
pub(crate) const DSB: u32 = 0x0000_000A;
/// Custom Block that tools may copy to other files.
pub(crate) const CB: u32 = 0x0000_0BAD;
/// Custom Block that tools must not copy.
pub(crate) const CB_NO_COPY: u32 = 0x4000_0BAD;

/// First field of a section, in the section's byte order.
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
/// Format version 1.0 (1.2 is the same format).
pub(crate) const VERSION_MAJOR: u16 = 1;
/// Length of block type and both total lengths.
pub(crate) const BLOCK_BYTES_MIN: u32 = 12;

/// End of the options.
pub(crate) const OPT_ENDOFOPT: u16 = 0;
/// UTF-8 comment on its block.
pub(crate) const OPT_COMMENT: u16 = 1;

/// SHB: hardware that created the section.
pub(crate) const SHB_HARDWARE: u16 = 2;
/// SHB: operating system that created the section.
pub(crate) const SHB_OS: u16 = 3;
/// SHB: program that created the section.
pub(crate) const SHB_USERAPPL: u16 = 4;

/// IDB: name of the interface.
pub(crate) const IF_NAME: u16 = 2;
/// IDB: description of the interface.
pub(crate) const IF_DESCRIPTION: u16 = 3;
/// IDB: hardware address, 6 bytes.
pub(crate) const IF_MACADDR: u16 = 6;
/// IDB: speed in bits per second, 64 bits.
pub(crate) const IF_SPEED: u16 = 8;
/// IDB: timestamp resolution, 1 byte, see [`time::TimeScale`].
pub(crate) const IF_TSRESOL: u16 = 9;
/// IDB: capture filter: one byte for its kind, then the filter.
pub(crate) const IF_FILTER: u16 = 11;
/// Filter kind of a libpcap expression.
pub(crate) const FILTER_TEXT: u8 = 0;
/// IDB: operating system of the machine that has the interface.
pub(crate) const IF_OS: u16 = 12;
/// IDB: length of the packets' frame check sequence, 1 byte.
pub(crate) const IF_FCSLEN: u16 = 13;
/// IDB: seconds to add to each timestamp, signed 64 bits.
pub(crate) const IF_TSOFFSET: u16 = 14;

/// EPB: link-layer flags, 32 bits: direction in bits 0-1.
pub(crate) const EPB_FLAGS: u16 = 2;
/// EPB: packets lost between this packet and the previous one on the interface, 64 bits.
pub(crate) const EPB_DROPCOUNT: u16 = 4;
/// EPB: identifies a packet across interfaces, 64 bits.
pub(crate) const EPB_PACKETID: u16 = 5;
/// PB: the same flags as [`EPB_FLAGS`].
pub(crate) const PACK_FLAGS: u16 = 2;

/// ISB: start of the capture, high and low half of a 64-bit timestamp.
pub(crate) const ISB_STARTTIME: u16 = 2;
/// ISB: end of the capture.
pub(crate) const ISB_ENDTIME: u16 = 3;
/// ISB: packets received by the interface since the start of the capture, 64 bits, like the following.
pub(crate) const ISB_IFRECV: u16 = 4;
/// ISB: packets dropped by the interface for lack of resources.
pub(crate) const ISB_IFDROP: u16 = 5;
/// ISB: packets that the filter accepted.
pub(crate) const ISB_FILTERACCEPT: u16 = 6;
/// ISB: packets dropped by the operating system.
pub(crate) const ISB_OSDROP: u16 = 7;
/// ISB: packets delivered to the user.
pub(crate) const ISB_USRDELIV: u16 = 8;
