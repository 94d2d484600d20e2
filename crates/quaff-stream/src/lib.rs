//! Reassembly: turns IP fragments into datagrams and TCP segments into streams, and accounts for every byte.
//!
//! | module | task |
//! |---|---|
//! | [`fragment`] | datagrams from fragments; [`datagram`]: from packets with headers |
//! | [`conversation`] | both directions of a TCP connection; `half` is one of them |
//! | [`event`] | segments as input, stream events as output |
//! | [`plan`], [`policy`] | limits and rules; which byte wins in an overlap, by subnet |
//! | [`tally`], [`evidence`] | counters with an identity; different versions of bytes, kept within a limit |
//! | [`tracker`] | finds the connection of each packet; starts and ends connections |
//! | [`application`] | lines, HTTP and DNS messages, TLS hellos and records in streams and datagrams |
//! | [`loss`] | capture loss from sequence numbers and acknowledgments; keeps no bytes |
//! | [`proof`] | all evidence of a capture: TCP by [`loss`], sequence numbers of other protocols, copies |
//! | `attempt` | a SYN or SYN-ACK that may begin another connection |
//! | `held`, `memory` | held bytes, and the pages of a lane |
//! | `key` | the two endpoints of a connection |
//!
//! No I/O, no clock, no unsafe code: time is packet time, in ns. State belongs to a lane, which shares only a memory
//! limit with other lanes. `quaff-wire` reads headers; [`tracker`] has a table of connections for callers without one,
//! and [`loss`] a table of its own with smaller records.

#![forbid(unsafe_code)]

pub mod application;
mod attempt;
pub mod conversation;
pub mod datagram;
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
pub use event::{Cap, EndReason, Event, GapCause, Presence, Segment, Sender, StreamSink};
pub use held::Difference;
pub use loss::{LossMeter, LossReport};
pub use memory::SharedMemory;
pub use plan::StreamPlan;
pub use proof::{ProofBatch, ProofMeter, ProofReader, ProofReport};
