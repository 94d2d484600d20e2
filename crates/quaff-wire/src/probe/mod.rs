//! Frames that quaff sends to itself: a probe header in a UDP datagram, in two layouts.
//!
//! [`ProbeHeader`] is written by `generate` and read by `verify`; [`trial`] has the shorter one of service tests. Both
//! are written into frames that are built once, and recognised by [`classify`]. No clock, no counters: callers define
//! loss and delay.

mod classify;
mod frame;
mod header;
mod outer;
mod trial;

pub use classify::{Classified, PAYLOAD_OFFSET, ProbeLayout};
pub use frame::{MIRROR_BYTES, ProbeFrame};
pub use header::{BOUNDED, LAST, LATE_NS_MAX, ProbeHeader, classify};
pub(crate) use header::{HEADER_BYTES, MAGIC, PORT};
pub(crate) use outer::TAGS_MAX;
pub use outer::{FRAME_BYTES_MAX, OuterHeaders, ProbeFrameError};
pub use trial::TrialHeader;

#[cfg(test)]
mod tests;
