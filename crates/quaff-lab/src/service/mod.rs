//! Service tests: RFC 2544 and ITU-T Y.1564 for a path between two interfaces, and a report of all of it.
//!
//! ```text
//!    plan ──▶ null calibration ──▶ tests, each of many trials (quaff::trial) ──▶ report
//!    (data)   (a bare link)        throughput, latency, …, configuration, performance   (data)
//! ```

pub mod plan;
pub mod result;
