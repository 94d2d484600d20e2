//! Where a capturer runs and frames arrive; and what is known of them when they have.

use super::core_use::CoreUse;
use crate::traffic::Traffic;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval between two readings.
pub const LOOK: Duration = Duration::from_millis(20);

/// Told at each look what goes on; `false` ends the run.
pub type Watch<'a> = &'a mut dyn FnMut(Stage) -> bool;

/// What goes on in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The capturer is started.
    Starting,
    /// Frames arrive.
    Sending,
    /// The last frame has arrived; files still grow.
    Settling,
    /// The capturer ends.
    Stopping,
    /// Frames are counted in the file.
    Counting,
}

/// A place in which capturers are measured: a bed of the lab, or interfaces of this machine.
pub trait Site {
    /// The interface to capture from.
    fn interface(&self) -> &str;

    /// A command that will run where that interface is.
    fn command(&self, program: &Path) -> Result<Command>;

    /// What there is to know of it: driver, offloads, rings, by name and value.
    fn facts(&self) -> BTreeMap<String, String>;

    /// Has `traffic` arrive there, sent from `core`. Returns when the last frame has, and who sent has ended.
    /// `look` is called all the while.
    ///
    /// # Errors
    /// The sender fails, or the watch wants no more.
    fn send(&self, traffic: &Traffic, core: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent>;
}

/// Each core between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// From here.
    pub from: Instant,
    /// To here.
    pub to: Instant,
    /// Meanwhile.
    pub cores: Vec<CoreUse>,
}

/// What came of sending.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sent {
    /// Frames that were to be sent.
    pub intended: u64,
    /// Frames handed to the kernel that sends.
    pub sent: u64,
    /// Frames that came to the receiving interface: what capturers were offered.
    pub offered: u64,
    /// From the first to the last, s.
    pub seconds: f64,
    /// Of those offered, lost before a capturer's socket: at the interface for want of room, in the kernel's
    /// queue.
    pub receiver_drops: u64,
    /// Frames that came beside those that were sent: others'.
    pub others: u64,
    /// Each core, while frames came; empty when that was too short to tell.
    pub cores: Vec<CoreUse>,
    /// The same for each 0.5 s.
    pub samples: Vec<Sampled>,
}

impl Stage {
    /// What a capturer does meanwhile, in words behind its name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Starting => "starts",
            Self::Sending => "captures",
            Self::Settling => "writes what it still has",
            Self::Stopping => "ends",
            Self::Counting => "has ended; counting the frames in its file",
        }
    }
}

/// Says what goes on, and waits a moment.
pub fn pause(watch: Watch<'_>, stage: Stage) -> Result<()> {
    if !watch(stage) {
        return Err(Error::Interrupted);
    }
    std::thread::sleep(LOOK);
    Ok(())
}
