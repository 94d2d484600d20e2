//! Reassembly: IP fragments become datagrams, TCP segments become streams, and each byte is accounted for.
//!
//! | module | task |
//! |---|---|
//! | [`fragment`] | datagrams from fragments |
//! | [`conversation`] | both directions of a TCP connection; `half` is one of them |
//! | [`event`] | segments as they come, events as readers see them |
//! | [`plan`], [`policy`] | limits and rules; whose byte wins in an overlap, by subnet |
//! | [`tally`], [`evidence`] | counters with an identity; different versions of bytes, kept within a limit |
//! | [`tracker`] | packets become connections: their table, their begin and end |
//! | [`application`] | lines, messages of HTTP and DNS, and hellos of TLS in streams and datagrams |
//! | [`loss`] | capture loss, from the sequence numbers and acknowledgments of connections; it keeps no bytes |
//! | [`proof`] | all evidence of a capture: TCP by [`loss`], numbers that senders give their packets, copies |
//! | `held`, `memory` | bytes that wait, and the pages of a lane |
//! | `key` | the two ends of a connection |
//!
//! No I/O, no clock, nothing unsafe: time is packet time, in ns. State is that of a lane, which shares only a limit on
//! memory with others. Headers are read by `quaff-wire`; [`tracker`] has a table of connections for those who have
//! none, and [`loss`] one of its own, whose records are smaller.

#![forbid(unsafe_code)]

pub mod application;
pub mod conversation;
pub mod event;
pub mod evidence;
pub mod fragment;
mod half;
mod held;
mod key;
pub mod loss;
mod memory;
pub mod plan;
pub mod policy;
pub mod proof;
pub mod tally;
pub mod tracker;

pub use conversation::{Conversation, StreamLane};
pub use event::{Cap, EndReason, Event, GapCause, Segment, Sender, StreamSink};
pub use held::Difference;
pub use loss::{LossMeter, LossReport};
pub use memory::SharedMemory;
pub use plan::StreamPlan;
pub use proof::{ProofMeter, ProofReport};
