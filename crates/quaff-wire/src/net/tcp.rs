//! TCP (RFC 9293): header length, flags, and the window scale option.

/// Protocol number (IANA).
pub const TCP: u8 = 6;
/// Length of a header without options.
pub(crate) const TCP_BYTES: usize = 20;
/// Offset of the flags in the header.
pub(crate) const FLAGS_OFFSET: usize = 13;
/// Offset of the checksum in the header.
pub(crate) const CHECKSUM_OFFSET: usize = 16;
/// Flag of the last segment of a sender (RFC 9293, section 3.1).
pub const FIN: u8 = 0x01;
/// Flag of the first segment of a sender.
pub const SYN: u8 = 0x02;
/// Flag of a reset.
pub const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
/// Flag of a segment whose acknowledgment counts.
pub const ACK: u8 = 0x10;

/// Option kinds (RFC 9293 section 3.2, RFC 7323).
const END_OF_LIST: u8 = 0;
const NO_OPERATION: u8 = 1;
const WINDOW_SCALE: u8 = 3;

/// The window scale in `options`, which may be truncated or damaged.
pub(crate) fn window_scale(mut options: &[u8]) -> Option<u8> {
    loop {
        options = match *options {
            [] | [END_OF_LIST, ..] => return None,
            [NO_OPERATION, ref rest @ ..] => rest,
            [WINDOW_SCALE, 3, shift, ..] => return Some(shift),
            [_, bytes, ..] if bytes >= 2 => options.get(usize::from(bytes)..)?,
            _ => return None,
        };
    }
}
