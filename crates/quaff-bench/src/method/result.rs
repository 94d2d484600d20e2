//! The figures of one run, as plain data: a part of `result.json`.

use quaff_lab::topology::{CoreUse, LineCounts};
use serde::{Deserialize, Serialize};

/// The figures of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number of the round, from 1.
    pub round: u32,
    /// Number of frames that the plan requests.
    pub intended: u64,
    /// Frames that arrived at the receiving interface, or on the line.
    pub offered: u64,
    /// Frames counted in the file (or as in `counted_by`); the mean of several capturers.
    pub captured: Option<u64>,
    /// The place where frames were counted: `file`, `pipe`, `lines` (on a screen) or `tool`.
    pub counted_by: String,
    /// Drops that the tool reports; `None`: it reports none.
    pub tool_drops: Option<u64>,
    /// Lost frames / offered frames, 0 to 1; `None` if there was nothing to capture or the run failed.
    pub loss: Option<f64>,
    /// Time from the first to the last frame, s.
    pub seconds: f64,
    /// User CPU time of the capturer's processes from the first frame on, s.
    pub cpu_user_s: f64,
    /// System CPU time of the same, s.
    pub cpu_system_s: f64,
    /// CPU time before the first frame, s.
    pub cpu_startup_s: f64,
    /// Use of each core while frames arrived.
    pub cores: Vec<CoreUse>,
    /// The same every 0.5 s, with the share of the capturer (PAM 2007's cpusage).
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// Packets dispatched to each lane, received or lost there; empty with one lane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<u64>,
    /// Bytes written.
    pub bytes: u64,
    /// Bytes and flows of a mix or a replayed capture that one capturer wrote to disk; otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
    /// Time from the first to the last change of the files' size, s.
    #[serde(default)]
    pub writing_s: f64,
    /// True if the loss that the file records equals the counted loss; `None` if it records none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounted: Option<bool>,
    /// Loss of each capturer if there are several, 0 to 1.
    #[serde(default)]
    pub each_loss: Vec<f64>,
    /// Frames of `offered` that were lost before the capturer's socket: at the mirror port of a line, on the interface
    /// or in the kernel's queue (softnet). Frames that did not reach the interface are `sent` − `offered`.
    #[serde(default)]
    pub receiver_drops: u64,
    /// Frames that the sending kernel accepted; 0 in older results.
    #[serde(default)]
    pub sent: u64,
    /// Frames from other senders that arrived at the interface.
    #[serde(default)]
    pub others: u64,
    /// Counters of a line; `None` for other topologies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<LineCounts>,
    /// The capturer's command line, with DIR for the output directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Why the run failed.
    pub failed: Option<String>,
    /// True if the capturer did not cause the failure: the generator failed, or the disk was full.
    #[serde(default)]
    pub failed_outside: bool,
}

/// Bytes, without FCS, and flows (each direction of addresses, ports and protocol) of the sent frames, and of those in
/// the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub sent_bytes: u64,
    pub captured_bytes: u64,
    pub sent_flows: u64,
    pub captured_flows: u64,
}

impl Run {
    /// Frames offered that are not in the file; all of them if they could not be counted.
    pub fn lost(&self) -> u64 {
        self.offered.saturating_sub(self.captured.unwrap_or(0))
    }

    /// Frames offered per second.
    pub fn offered_pps(&self) -> f64 {
        self.offered as f64 / self.seconds.max(1e-9)
    }
}

/// One sampling interval of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, s after the first frame.
    pub at_s: f64,
    pub cores: Vec<CoreUse>,
    /// CPU use of the capturer's processes, 1 = one core; `None` without a capturer.
    pub capturer: Option<f64>,
}

impl Sample {
    /// Share of time that all cores together were busy, 0 to 1.
    pub fn busy(&self) -> f64 {
        let idle: f64 = self.cores.iter().map(|core| core.idle).sum();
        1.0 - idle / self.cores.len().max(1) as f64
    }
}
