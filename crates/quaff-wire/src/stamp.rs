//! The stamp in each generated frame, by which `verify` knows it again.
//!
//! A generated frame is Ethernet, IPv4, UDP; the stamp is the first [`STAMP_BYTES`] bytes of the
//! UDP payload, so that it fits the smallest frame (64 B without FCS = 14 + 20 + 8 + 22):
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 2 | magic, [`MAGIC`] |
//! | 2 | 8 | sequence number, from 0 |
//! | 10 | 8 | intended send time, ns since 1970 (UTC) |
//! | 18 | 4 | bit 31 [`LAST`], bit 30 [`BOUNDED`], bits 0-29: how much later than intended it was sent, ns (saturates at 1.07 s) |
//!
//! All integers are in network order. The stream id is the UDP source port, the destination port is
//! [`PORT`]; the checksum over stamp and stream id is the UDP checksum (RFC 768), which is never
//! zero here. Behind the stamp payload byte `i` has the value `i mod 256`, so that the checksum of
//! a frame that was cut by a snaplen can still be verified.

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 22;
/// The first two bytes of the UDP payload: "qu".
pub const MAGIC: u16 = 0x7175;
/// The UDP destination port of generated frames.
pub const PORT: u16 = 29045;
/// Where the stamp begins in an untagged frame: Ethernet 14, IPv4 20, UDP 8.
pub const STAMP_OFFSET: usize = 42;
/// The smallest frame that holds a stamp, without FCS.
pub const FRAME_BYTES_MIN: usize = STAMP_OFFSET + STAMP_BYTES;
/// Set on the last frame of a stream whose length was known from the start.
pub const LAST: u32 = 1 << 31;
/// Set on every frame of a stream whose length was known from the start.
pub const BOUNDED: u32 = 1 << 30;
/// The largest lateness that a stamp can tell, ns.
pub const LATE_NS_MAX: u32 = BOUNDED - 1;
