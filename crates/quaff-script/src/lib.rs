//! Lua scripts on packets, flows and streams: only what a script requests is computed.
//!
//! ```text
//!   packet → filters → on("packet")
//!     └─→ flows → reassembly → on("data"), on("line") … → list, histogram, alert, save
//! ```
//!
//! | module | task |
//! |---|---|
//! | [`engine`](Engine), [`end`](EngineEnd) | from packets to calls; the results |
//! | `script`, `budget`, `pace` | one script, its Lua state, its limits |
//! | `collector` | the garbage of a script |
//! | `trigger`, `stream` | what scripts declare; first bytes and matches of a direction |
//! | `application` | HTTP, DNS and TLS messages as tables |
//! | [`DEFAULT`] | the default set of scripts |
//! | `packet`, `flow`, `shape` | the objects and tables that scripts see |
//! | `table` | flows without reassembly |
//! | `record`, `save` | rows, and packets of flows, until the caller takes them |
//! | `histogram` | counts at the end, of one or several lanes |
//! | `pattern`, `text`, `prelude.lua` | Lua's library with bounded work |
//!
//! No I/O: the caller takes rows and packets as bytes. The clock is read for budgets only. Like Lua, an engine belongs
//! to one thread.

#![forbid(unsafe_code)]

mod application;
mod budget;
mod collector;
mod default;
mod end;
mod engine;
mod flow;
mod histogram;
mod pace;
mod packet;
mod pattern;
mod record;
mod save;
mod script;
mod shape;
mod stream;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod trigger;

pub use budget::Exceeded;
pub use default::DEFAULT;
pub use end::{EngineEnd, Tracked};
pub use engine::Engine;
pub use histogram::Histograms;
pub use packet::Packet;
pub use record::{Formats, Recorder, RecorderKind, Rows};
pub use save::SavedPiece;
pub use tally::{Failure, ScriptTally};

use quaff_stream::tracker::TrackPlan;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a script, bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// The text of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Name in messages and files: letters, digits, `-`, `_` and `.`.
    pub name: String,
    pub text: String,
    /// Values for the function `argument`.
    pub arguments: BTreeMap<String, String>,
}

impl Source {
    /// The name without its suffix.
    pub fn stem(&self) -> &str {
        self.name.strip_suffix(".lua").unwrap_or(&self.name)
    }
}

/// The budget of each script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU time per call.
    pub call_time: Duration,
    /// Memory of its Lua state, bytes.
    pub memory_bytes: usize,
    /// Share of the lane's time that all scripts together may use while packets are waiting for the lane; `None` for
    /// files, which wait for the scripts.
    pub lane_percent: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { call_time: Duration::from_secs(1), memory_bytes: 64 << 20, lane_percent: None }
    }
}

/// A packet filter, such as a tcpdump expression.
pub trait Test {
    /// Returns true for a packet that passes.
    fn wants(&mut self, packet: &Packet) -> bool;
}

/// Compiles a tcpdump expression; the error is a sentence.
pub type Compile = Arc<dyn Fn(&str) -> Result<Box<dyn Test>, String> + Send + Sync>;

/// Scripts and their limits.
#[derive(Clone)]
pub struct EnginePlan {
    pub scripts: Vec<Source>,
    pub limits: Limits,
    /// Settings of the reassembly, if a script needs it.
    pub track: TrackPlan,
    pub formats: Formats,
    /// True if scripts may save packets.
    pub can_save: bool,
    pub compile: Compile,
}
