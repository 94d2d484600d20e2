//! TCP (RFC 9293): the header's size and its flags.

/// Protocol number (IANA).
pub const TCP: u8 = 6;
/// Bytes of a header without options.
pub(crate) const TCP_BYTES: usize = 20;
/// Offset of the flags in the header.
pub(crate) const FLAGS_OFFSET: usize = 13;
/// Offset of the checksum in the header.
pub(crate) const CHECKSUM_OFFSET: usize = 16;
pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
