//! The place of a fragment of either IP version in its datagram.

/// The position of a fragment in its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Identification, equal in all fragments of a datagram.
    pub id: u32,
    /// Offset of its payload within the datagram's payload.
    pub offset_bytes: u16,
    /// More Fragments flag: set in all fragments but the last one.
    pub more: bool,
}
