//! The plan of a replay, as plain data.

use crate::backend::TxBackend;
use crate::schedule::{LatePolicy, Rate};
use serde::Serialize;
use std::time::Duration;

/// The transmit path of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayVia {
    /// Sent from the interface by the fastest backend that works: see [`super::replay()`].
    Auto,
    /// Injected into the receive path of the interface, as if from the wire.
    Inject,
    /// Sent from the interface by its driver from an XDP program, bypassing the stack.
    XdpRedirect,
    /// Sent from the interface by a backend in user space.
    #[serde(untagged)]
    User(TxBackend),
}

/// The plan of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayPlan {
    pub via: ReplayVia,
    pub interface: String,
    /// The interface for frames whose [`crate::FrameMeta::out`] is 1; user-space backends only.
    pub interface2: Option<String>,
    pub rate: Rate,
    /// Longest gap between frames of the captured rate; longer ones are shortened.
    pub gap_max: Option<Duration>,
    /// Number of passes; `None` repeats until the watcher stops the run.
    pub loops: Option<u64>,
    /// Give each pass its own addresses.
    pub unique_ip: bool,
    /// Maximum number of frames.
    pub limit: Option<u64>,
    /// Send only frames that are due within this time of the first one.
    pub duration: Option<Duration>,
    pub late: LatePolicy,
    /// True if each frame waits for the watcher's [`Control::Step`].
    pub stepwise: bool,
    /// Core of the sending thread.
    pub core: Option<usize>,
    /// Memory for frames, bytes; input that exceeds it is streamed.
    pub memory_bytes: usize,
}
