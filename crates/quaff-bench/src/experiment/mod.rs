//! The parts that benches and service tests share: the header of a report and its life cycle, plans as TOML with
//! presets and checks, and the facts of a machine. It measures nothing itself.

mod check;
mod events;
mod machine;
mod plan;
mod report;

pub use events::Events;
pub use machine::Machine;
pub use plan::{Method, PlanError, PlanFile, Source, SourceRow};
pub use report::{Report, TrialRow};

pub(crate) use check::{check_count, check_seconds, check_seed, check_sizes, check_width, ensure, is_share};
pub(crate) use plan::{Preset, number};
pub(crate) use report::FORMAT;
