//! Service tests: RFC 2544 and ITU-T Y.1564 for a path between two interfaces, and one report.
//!
//! ```text
//!    plan ──▶ null calibration ──▶ tests, each of many trials (crate::trial) ──▶ report
//!    (data)   (a bare link)        throughput, latency, …, configuration, performance   (data)
//! ```
//!
//! A `Prober` runs the trials: a session on real interfaces, or a simulated path in tests. Methods do not know
//! namespaces or threads; they request streams and judge the tallies. Frames that the tester could not send or receive
//! are never counted as loss of the path: they are noted and not judged.

mod availability;
mod events;
mod figures;
mod frames;
mod line_tap;
mod look;
mod null;
mod overall;
pub mod plan;
mod prober;
pub mod result;
mod rfc2544;
mod run;
mod session;
#[cfg(test)]
mod sim;
mod test_context;
#[cfg(test)]
mod through;
mod verdict;
mod y1564;

pub use events::{Events, Line, Now};
pub use run::Context;
pub use session::run;

pub(crate) use frames::way_words;
pub(crate) use overall::overall;
