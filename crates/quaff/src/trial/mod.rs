//! A trial (RFC 2544 §23): frames of several streams at once from one interface to another, and what became of
//! each of them, by sequence number and by time.
//!
//! ```text
//!   sender (a core)                        path                        meter (a core)
//!   streams, each with its pace ──→ from ═══════════════ to ──→ kernel ring ──→ a tally for each stream
//!        stamp: stream, number, time sent              time received: the kernel's, or the card's
//! ```
//!
//! A path of both directions is two of these at the same time. What a trial means, and which trials to make, is
//! nothing of this room; it prints nothing.

pub mod plan;
pub mod report;
