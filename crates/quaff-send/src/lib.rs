//! Transmission: frames from files or made up leave an interface, or arrive on one, each when it is due.
//!
//! [`run`] sends stamped frames of one template at an even pace; [`replay`] sends the frames of any [`Feed`],
//! among them the made-up traffic of [`synth`]. Frames are injected by a BPF program that keeps the pace in the
//! kernel, or sent from user space through a [`TxBackend`]. One thread sends; the caller's thread watches. Nothing
//! here prints or reads arguments.

#![forbid(unsafe_code)]

mod arena;
mod backend;
mod bpf_pace;
mod confirm;
mod dual;
mod error;
mod feed;
mod files;
mod generate;
mod histogram;
mod link;
mod pacer;
mod pump;
mod ranges;
pub mod replay;
mod rewriting;
mod schedule;
mod state;
mod supervise;
pub mod synth;
mod tally;
mod transmitter;

pub use arena::{Arena, FrameMeta};
pub use backend::{BackendReport, TxBackend};
pub use confirm::Witness;
pub use dual::DualFeed;
pub use error::{PlanError, SendError};
pub use feed::{Feed, ReadAhead};
pub use files::{FileFeed, FilePlan};
pub use generate::{Length, Pace, SendPlan, SendReport, Via, run};
pub use link::usable_link;
pub use pacer::wait_until;
pub use ranges::Ranges;
pub use rewriting::{RewritePlan, Rewriting, SidesPlan};
pub use schedule::{Deadline, LATE_NS, LatePolicy, Layer, Rate, Ratio, Schedule};
pub use state::{Lateness, Snapshot};
pub use supervise::Control;
pub use tally::{FeedTally, RewriteTally};
pub use transmitter::{Next, Obstacle, Transmitter, TxCall};
