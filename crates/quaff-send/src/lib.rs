//! Transmission: sends frames of files or synthetic frames from an interface, or injects them, each when it is due.
//!
//! [`generate()`] sends probe frames of one template at a constant rate; [`replay()`] sends the frames of any [`Feed`],
//! including the synthetic traffic of a [`Maker`]. Frames are injected by a BPF program that keeps the pace in the
//! kernel, or sent from user space through a [`TxBackend`]. One thread sends; the caller's thread watches. Nothing here
//! prints, reads arguments or receives.

#![forbid(unsafe_code)]

mod arena;
mod backend;
mod bpf_live;
mod confirm;
mod dual;
mod error;
mod feed;
mod file_records;
mod files;
mod generate;
mod histogram;
mod link;
mod pacer;
mod pump;
mod ranges;
mod replay;
mod rewriting;
mod schedule;
mod state;
mod supervise;
mod synth;
mod tally;
mod transmitter;

pub use arena::{Arena, FrameMeta};
pub use backend::{BackendReport, TxBackend};
pub use confirm::{SendDrops, Witness};
pub use dual::merge;
pub use error::{PlanError, SendError};
pub use feed::Feed;
pub use files::FilePlan;
pub use generate::{Length, SendPlan, SendReport, generate};
pub use link::usable_link;
pub use pacer::wait_until;
pub use ranges::Ranges;
pub use replay::{InterfaceCount, ReplayPlan, ReplayReport, ReplayVia, Skipped, replay};
pub use replay::{ToFilePlan, ToFileReport, replay_to_file};
pub use rewriting::{RewritePlan, SidesPlan};
pub use schedule::{LatePolicy, Layer, Rate, Ratio};
pub use state::{Lateness, Snapshot};
pub use supervise::Control;
pub use synth::{ArrivalPattern, Maker, OfferedRate, WriteReport, learn_sizes};
pub use tally::{FeedTally, RewriteTally};
pub use transmitter::{Next, Obstacle, Transmitter, TxCall};
