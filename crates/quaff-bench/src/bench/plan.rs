//! What a bench is to run, as plain data: workloads, settings, capturers, order. Nothing is run here.

mod check;
mod cost;
mod read;
mod words;

pub use cost::Cost;
pub use read::{PlanError, read};
pub(crate) use read::{parsed, text_of};

pub(super) use read::from_toml;

use quaff_lab::tool::Setting;
use quaff_lab::traffic::{Content, Size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is called: the preset's name, or `custom`.
    pub name: String,
    /// A heading for its report.
    pub title: String,
    /// What it was taken from, with that one's own numbers.
    #[serde(default)]
    pub source: Option<Source>,
    /// Where the frames go.
    #[serde(default)]
    pub bed: Topology,
    /// Names of those that are measured, in the order of the tables.
    pub rivals: Vec<String>,
    /// How often each case is run.
    #[serde(default = "runs_default")]
    pub runs: u32,
    /// The order within a round is drawn from it.
    #[serde(default)]
    pub seed: u64,
    /// The cases: each of these with each of the rivals.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// What is to be found by searches, after the cases.
    #[serde(default)]
    pub finds: Vec<Find>,
    /// What a reader has to know of it: what cannot be run yet, what stands in for what. One sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Workloads that belong on one picture, under one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// What sets it apart from the others: "2 cores", "1 MiB of buffer". Empty for the only one.
    #[serde(default)]
    pub series: String,
    /// Sizes of frames.
    pub sizes: Vec<Size>,
    /// How fast they come.
    pub rates: Vec<Rate>,
    /// How many, or how long.
    pub amount: Amount,
    /// What is behind the headers of made-up frames.
    #[serde(default)]
    pub content: Content,
    /// The frames arrive inside ERSPAN, as from a mirror port.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirrored: bool,
    /// What is the same for all of them.
    #[serde(default)]
    pub setting: Setting,
    /// Only these rivals; empty for all of the plan's.
    #[serde(default)]
    pub rivals: Vec<String>,
}

/// Something that takes many trials to find, for each of the sizes and each of the rivals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// What.
    pub what: Wanted,
    /// How the highest rate is searched.
    #[serde(default)]
    pub method: Method,
    /// Sizes of frames.
    pub sizes: Vec<Size>,
    /// What is the same for all of them.
    #[serde(default)]
    pub setting: Setting,
    /// Only these rivals; empty for all of the plan's.
    #[serde(default)]
    pub rivals: Vec<String>,
    /// How long the trials are that a result rests on, s; a burst is at most this long. A buffer hides for a
    /// while that a rate is too high: the longer, the less of it.
    #[serde(default = "find_seconds_default")]
    pub seconds: f64,
    /// Loss that is still taken for none, 0 to 1.
    #[serde(default)]
    pub goal_loss: f64,
    /// (upper − lower) / upper at which a search is done; a curve descends by this share of the highest rate.
    #[serde(default = "find_width_default")]
    pub width: f64,
    /// Independent searches for the highest rate; repetitions of a burst; runs of each rate of a curve. `None`: 2,
    /// 5 and 1.
    #[serde(default)]
    pub repeats: Option<u32>,
}

/// What is to be found.
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

/// How the highest rate is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// RFC 9971: short trials first, and a rate is refused by two lossy trials, not by one.
    #[default]
    Mlr,
    /// RFC 2544 §26.1: one lossy trial refuses a rate.
    Rfc2544,
}

/// How fast frames come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// As fast as they can be sent.
    Max,
    /// Frames/s.
    Pps(u64),
    /// Mbit/s of frames without FCS (layer 2).
    Mbps(f64),
    /// Percent of a link's rate, layer 1: with preamble, FCS and gap.
    Util {
        /// 0 to 100 and above.
        percent: f64,
        /// The link, Mbit/s.
        link_mbps: f64,
    },
}

/// How many frames, or how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Frames.
    Frames(u64),
    /// s; at [`Rate::Max`] as many frames as the null calibration sent in that time.
    Seconds(f64),
}

/// How frames get from the sender to the capturer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Straight onto the capturer's interface.
    #[default]
    Direct,
    /// Two endpoints through a bridge; a mirror of the port feeds the capturer.
    Span,
    /// Two endpoints through a forwarder that copies both directions.
    Tap,
    /// Real interfaces of this machine, or of another one that ssh reaches.
    Real {
        /// The interface that sends.
        send_on: String,
        /// Interfaces that receive, each measured in its turn.
        receive_on: Vec<String>,
        /// `user@host` of the sender, with the same quaff in its PATH; `None`: this machine.
        sender: Option<String>,
    },
}

/// What a plan was taken from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Title, who, when.
    pub title: String,
    /// What was measured there, on what, in a sentence or two.
    pub what: String,
    /// Its own numbers.
    #[serde(default)]
    pub rows: Vec<SourceRow>,
}

/// One number of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRow {
    /// What was under test.
    pub rival: String,
    /// Bytes of frames with FCS as there, when it is one.
    #[serde(default)]
    pub size: Option<u32>,
    /// The rate there, in its words: "1 Gbit/s", "18 Mbit/s".
    #[serde(default)]
    pub rate: String,
    /// Lost of offered, 0 to 1.
    #[serde(default)]
    pub loss: Option<f64>,
    /// Other figures by their names, in the source's units: "received %", "CPU %".
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
}

fn runs_default() -> u32 {
    5
}

fn find_seconds_default() -> f64 {
    3.0
}

fn find_width_default() -> f64 {
    0.05
}
