//! What a trial is to send, as plain data.

use serde::{Deserialize, Serialize};

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialPlan {
    /// One, or both of them at the same time.
    pub directions: Vec<Direction>,
    /// How long frames are waited for after the last one was sent, s (RFC 2544 §23 d: 2).
    pub residual_s: f64,
    /// Write down the tally of each second. Without it a trial of a day takes no more memory than one of a second.
    pub is_by_second: bool,
}

/// An interface, here or in a named network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct End {
    /// The namespace as `ip netns` names it; `None`: that of the process.
    #[serde(default)]
    pub netns: Option<String>,
    /// The interface.
    pub interface: String,
}

/// From one end to the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Where frames are sent.
    pub from: End,
    /// Where they are to arrive.
    pub to: End,
    /// What is sent, all at once. Ids differ, also from those of the other direction.
    pub streams: Vec<StreamPlan>,
    /// The core that sends; `None`: any.
    pub tx_core: Option<usize>,
    /// The core that receives; `None`: any.
    pub rx_core: Option<usize>,
}

/// Frames that belong together: a service, or a share of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamPlan {
    /// Its id, the stamp's.
    pub id: u16,
    /// Bytes of a frame without FCS, 64 or more so that a stamp fits (68 with a tag); several: in turns.
    pub sizes: Vec<u32>,
    /// One after the other.
    pub phases: Vec<Phase>,
    /// 802.1Q: VLAN id and priority.
    #[serde(default)]
    pub vlan: Option<(u16, u8)>,
    /// Differentiated services code point, 0 to 63.
    #[serde(default)]
    pub dscp: u8,
}

/// A while at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// How much is sent.
    pub length: Length,
    /// Frames/s; `None`: as fast as possible. 0: nothing is sent for so long.
    pub pps: Option<f64>,
}

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// For so long, s.
    Seconds(f64),
    /// So many frames.
    Frames(u64),
}
