//! The pcap file format (draft-ietf-opsawg-pcap): its constants, shared by reader and writer.

mod decode;
mod encode;
mod layout;

pub(crate) use decode::Decoder;
pub use encode::{Resolution, append_record, file_header, record, record_bytes, set_fcs_len};
pub use layout::RecordLayout;
pub(crate) use layout::of_magic;

/// First word of a file whose times are in microseconds, in the byte order of the file.
pub(crate) const MAGIC_MICROSECONDS: u32 = 0xA1B2_C3D4;
/// First word of a file whose times are in nanoseconds, in the byte order of the file.
pub(crate) const MAGIC_NANOSECONDS: u32 = 0xA1B2_3C4D;
/// First word of a file whose record headers Alexey Kuznetzov's patches made longer (1999).
pub(crate) const MAGIC_KUZNETZOV: u32 = 0xA1B2_CD34;
/// First word of a hardware capture of Ixia's, in ns.
pub(crate) const MAGIC_IXIA_HARDWARE: u32 = 0x1C00_01AC;
/// First word of a software capture of Ixia's, in µs.
pub(crate) const MAGIC_IXIA_SOFTWARE: u32 = 0x1C00_01AB;
/// The version that all programs write: 2.4.
pub(crate) const VERSION_MAJOR: u16 = 2;
/// The version that all programs write: 2.4.
pub(crate) const VERSION_MINOR: u16 = 4;
/// Bytes of the file header.
pub(crate) const FILE_HEADER_BYTES: usize = 24;
/// Bytes of the header before each packet.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
