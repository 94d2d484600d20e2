//! A site: the place where a capturer runs and frames arrive, and the counts of these frames.

use super::core_use::{CoreUse, Sampled};
use crate::traffic::Traffic;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);

/// Called at each interval with the stage of the run; returning `false` ends the run.
pub type Watch<'a> = &'a mut dyn FnMut(Stage) -> bool;

/// The stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The capturer is starting.
    Starting,
    /// Frames are being sent.
    Sending,
    /// The last frame has arrived; files are still growing.
    Settling,
    /// The capturer is stopping.
    Stopping,
    /// Frames in the file are being counted.
    Counting,
}

/// A place where capturers are measured: a lab, or interfaces of this machine.
pub trait Site {
    /// The interface to capture from.
    fn interface(&self) -> &str;

    /// The second port of a line in which the capturer forwards; `None` if it only listens.
    fn other(&self) -> Option<&str> {
        None
    }

    /// A command that runs in the namespace of that interface.
    fn command(&self, program: &Path) -> Result<Command>;

    /// Facts by name and value: driver, offloads, rings.
    fn facts(&self) -> BTreeMap<String, String>;

    /// Sends `traffic` from `core`. Returns once the last frame has arrived and the senders have ended. Calls `look`
    /// repeatedly in the meantime.
    ///
    /// # Errors
    /// A sender fails, or the watch ends the run.
    fn send(&self, traffic: &Traffic, core: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent>;
}

/// The result of sending.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sent {
    /// Number of frames to send.
    pub intended: u64,
    /// Frames accepted by the sending kernel.
    pub sent: u64,
    /// Frames per pass of a replayed capture that cannot be sent: too large or too short.
    pub skipped: u64,
    /// Bytes of the sent frames, without FCS, and their flows: each direction of addresses, ports and protocol. `None`
    /// if the kernel generated them, which does not count bytes.
    pub bytes: Option<u64>,
    pub flows: Option<u64>,
    /// Frames that reached the receiving interface or entered the line, and were offered to capturers.
    pub offered: u64,
    /// Time from the first to the last frame, s.
    pub seconds: f64,
    /// Offered frames that the mirror port, the interface or the kernel's backlog dropped before the capturer's socket.
    pub receiver_drops: u64,
    /// Counters of a line; `None` for other topologies.
    pub line: Option<LineCounts>,
    /// Frames from other senders.
    pub others: u64,
    /// The load of each core while frames arrived; empty if that time was too short.
    pub cores: Vec<CoreUse>,
    /// The same for each interval of 0.5 s.
    pub samples: Vec<Sampled>,
}

/// Counters of a line, independent of what is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCounts {
    /// Frames that reached the other end.
    pub delivered: u64,
    /// Copies that the mirror port dropped; `None` without one.
    pub mirror_dropped: Option<u64>,
}

impl Stage {
    /// The capturer's action, as the predicate of a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Starting => "starts",
            Self::Sending => "captures",
            Self::Settling => "writes its remaining packets",
            Self::Stopping => "ends",
            Self::Counting => "has ended; counting the frames in its file",
        }
    }
}

/// Reports the stage, and waits for one polling interval.
pub fn pause(watch: Watch<'_>, stage: Stage) -> Result<()> {
    if !watch(stage) {
        return Err(Error::Interrupted);
    }
    std::thread::sleep(LOOK);
    Ok(())
}
