//! The plan of a bench, as plain data: workloads, settings, capturers, order; and its presets. Nothing is run here.

mod check;
mod cost;
mod rate;
#[cfg(test)]
mod tests;

pub use crate::experiment::{Method, Source, SourceRow};
pub use rate::Rate;

use crate::experiment::{PlanFile, Preset, number};
use quaff_lab::tool::Setting;
use quaff_lab::traffic::{Content, Size};
use serde::{Deserialize, Serialize};

/// All that a bench measures and how, as a preset or a file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name of the preset, or `custom`.
    pub name: String,
    /// The heading of the report.
    pub title: String,
    pub source: Option<Source>,
    #[serde(default)]
    pub bed: Topology,
    /// Names of the capturers, in the order of the tables.
    pub rivals: Vec<String>,
    /// Number of runs of each case.
    #[serde(default = "number::<5, _>")]
    pub runs: u32,
    /// Random seed of the order within a round.
    #[serde(default)]
    pub seed: u64,
    /// The cases: each sweep with each of its capturers.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// Searches, run after the cases.
    #[serde(default)]
    pub finds: Vec<Find>,
    /// Programs that read a capture file to its end, run after the searches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
    /// Notes for the reader: parts of a source that are missing or replaced, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The workloads of one chart, with one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// A label that distinguishes it from other sweeps: "2 cores", "1 MiB of buffer". Empty for the only one.
    #[serde(default)]
    pub series: String,
    pub sizes: Vec<Size>,
    pub rates: Vec<Rate>,
    pub amount: Amount,
    /// The payload of generated frames.
    #[serde(default)]
    pub content: Content,
    /// True if frames arrive inside ERSPAN, as from a mirror port.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirrored: bool,
    /// Number of generated flows, sent in turn.
    #[serde(default = "number::<1, _>", skip_serializing_if = "is_one")]
    pub flows: u32,
    #[serde(default)]
    pub setting: Setting,
    /// The capturers of this sweep; empty means all of the plan.
    #[serde(default)]
    pub rivals: Vec<String>,
}

/// A search over many trials, for each size and capturer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    pub what: Wanted,
    /// Method of a search for the highest rate.
    #[serde(default)]
    pub method: Method,
    pub sizes: Vec<Size>,
    #[serde(default)]
    pub setting: Setting,
    /// The capturers of this search; empty means all of the plan.
    #[serde(default)]
    pub rivals: Vec<String>,
    /// Duration of a full-length trial and of the longest burst, s. A buffer hides for a while that a rate is too high;
    /// longer trials reveal more.
    #[serde(default = "number::<3, _>")]
    pub seconds: f64,
    /// Largest loss ratio that counts as no loss.
    #[serde(default)]
    pub goal_loss: f64,
    /// (upper − lower) / upper at which a search ends; the step of a loss curve as a share of the highest rate.
    #[serde(default = "find_width_default")]
    pub width: f64,
    /// Independent searches for the highest rate; repetitions of a burst; runs at each rate of a curve. `None`: 2, 5
    /// and 1.
    pub repeats: Option<u32>,
}

/// Programs that read the same capture file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The common task as a label: "sessions put together".
    pub series: String,
    /// Names of the readers, in the order of the table.
    pub readers: Vec<String>,
    /// A capture; `None`: generated TCP connections.
    pub replay: Option<String>,
    /// Passes through the capture in the file, each with its own addresses.
    #[serde(default = "number::<40, _>")]
    pub loops: u32,
}

/// The figure that a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// The highest rate without loss.
    Max,
    /// The longest burst without loss (RFC 2544 §26.4, RFC 9004).
    Burst,
    /// The loss at each rate, from the highest down (RFC 2544 §26.3).
    Curve,
}

/// The length of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Frames(u64),
    /// Duration, s; at [`Rate::Max`] as many frames as the null calibration sent in that time.
    Seconds(f64),
}

/// The path from the sender to the capturer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// A direct link.
    #[default]
    Direct,
    /// Two endpoints through a bridge; a mirror of the port feeds the capturer.
    Span,
    /// Two endpoints through a forwarder that copies both directions.
    Tap,
    /// A line between two endpoints, captured at each of its points in turn: the port of an endpoint, the mirror port
    /// of a switch, a tap that is itself the capturer.
    Line {
        /// Rate of the mirror port, Mbit/s.
        mirror_mbps: u32,
    },
    /// Physical interfaces of this machine; the sender may be another machine, reached over ssh.
    Real {
        send_on: String,
        /// Receiving interfaces, each measured in turn.
        receive_on: Vec<String>,
        /// `user@host` of the sender, with the same quaff in its PATH; `None`: this machine.
        sender: Option<String>,
    },
}

impl PlanFile for Plan {
    const PRESETS: &'static [Preset] = &[
        ("quick", include_str!("../../presets/quick.toml"), None),
        ("back-to-back", include_str!("../../presets/back-to-back.toml"), None),
        ("whitepaper", include_str!("../../presets/whitepaper.toml"), None),
        ("port-span-tap", include_str!("../../presets/port-span-tap.toml"), None),
        ("lanes", include_str!("../../presets/lanes.toml"), None),
        ("pam2007", include_str!("../../presets/pam2007.toml"), None),
        ("nfr1999", include_str!("../../presets/nfr1999.toml"), None),
        ("capture-device", include_str!("../../presets/capture-device.toml"), None),
    ];

    /// The captures of `quaff bench promises`; and the load of `quaff bench flow` in front of capturers, which formerly
    /// had the name.
    const UNLISTED: &'static [Preset] = &[
        ("promises", include_str!("../../presets/promises.toml"), None),
        ("flow-appliance", include_str!("../../presets/flow-appliance.toml"), None),
    ];

    fn name(&self) -> &str {
        &self.name
    }

    fn validate(&self) -> Result<(), String> {
        self.check_all()
    }
}

fn is_one(flows: &u32) -> bool {
    *flows == 1
}

fn find_width_default() -> f64 {
    0.05
}
