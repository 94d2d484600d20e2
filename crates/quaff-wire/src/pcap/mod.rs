//! The pcap file format (draft-ietf-opsawg-pcap): constants for decoder and encoder.

mod decode;
mod encode;
mod layout;

pub(crate) use decode::Decoder;
pub use encode::{Resolution, append_record, file_header, record, record_bytes, set_fcs_len};
pub use layout::RecordLayout;
pub(crate) use layout::of_magic;

/// First word of a file with timestamps in µs, in the file's byte order.
pub(crate) const MAGIC_MICROSECONDS: u32 = 0xA1B2_C3D4;
/// First word of a file with timestamps in ns, in the file's byte order.
pub(crate) const MAGIC_NANOSECONDS: u32 = 0xA1B2_3C4D;
/// First word of a file with the longer record headers of Alexey Kuznetzov's patches (1999).
pub(crate) const MAGIC_KUZNETZOV: u32 = 0xA1B2_CD34;
/// First word of an Ixia hardware capture, in ns.
pub(crate) const MAGIC_IXIA_HARDWARE: u32 = 0x1C00_01AC;
/// First word of an Ixia software capture, in µs.
pub(crate) const MAGIC_IXIA_SOFTWARE: u32 = 0x1C00_01AB;
/// Major version that all programs write.
pub(crate) const VERSION_MAJOR: u16 = 2;
/// Minor version that all programs write.
pub(crate) const VERSION_MINOR: u16 = 4;
/// Length of the file header.
pub(crate) const FILE_HEADER_BYTES: usize = 24;
/// Length of a record header.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
