//! ICMP (RFC 792) and ICMPv6 (RFC 4443): errors, which quote a packet, and echoes.

/// Protocol number (IANA).
pub const ICMP: u8 = 1;
/// Protocol number (IANA).
pub const ICMPV6: u8 = 58;
/// Offset of the checksum in the header.
pub(crate) const CHECKSUM_OFFSET: usize = 2;
/// Length of the header before the packet that an error quotes.
pub(crate) const HEADER_BYTES: usize = 8;

/// True for a message type that quotes the packet that caused it.
pub(crate) fn is_error(protocol: u8, message: u8) -> bool {
    match protocol {
        ICMP => matches!(message, 3 | 4 | 5 | 11 | 12),
        ICMPV6 => (1..=4).contains(&message),
        _ => false,
    }
}

/// Returns `Some(false)` for an echo request, `Some(true)` for an echo reply.
pub(crate) fn is_echo_reply(protocol: u8, message: u8) -> Option<bool> {
    match (protocol, message) {
        (ICMP, 8) | (ICMPV6, 128) => Some(false),
        (ICMP, 0) | (ICMPV6, 129) => Some(true),
        _ => None,
    }
}
