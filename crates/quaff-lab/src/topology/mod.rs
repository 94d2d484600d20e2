//! Topologies: the path of frames from a sender to a capturer. Each is a [`Site`].
//!
//! ```text
//!    direct   quaff generate --inject ──▶ rx0
//!    span     quaff generate -o tx0 ──▶ bridge ◀── quaff generate -o tx1; a port's mirror ──▶ rx0
//!    tap      the same through a wire that copies both directions ──▶ rx0
//!    line     quaff generate -o tx0 ──▶ a switch, or a tap ◀── quaff generate -o tx1; captured at tx1 (a port), at a
//!             mirror port of limited rate, or by the tap itself
//!    real     quaff generate -o eth1, here or by ssh ──▶ … ──▶ eth0
//! ```

mod arrivals;
mod core_use;
mod lab_site;
mod line_site;
mod mirror_port;
mod real;
mod sending;
mod site;

pub use core_use::{CoreUse, Sampled};
pub use lab_site::LabSite;
pub use line_site::{CapturePoint, LineSite};
pub use real::Real;
pub use site::{LineCounts, Sent, Site, Stage, Watch, pause};
