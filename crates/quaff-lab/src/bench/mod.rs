//! The bench: capturers measured by the book, one case after the other, and a report of all of it.
//!
//! ```text
//!    plan ──▶ null calibration ──▶ round 1: every rival on every case, in turns ──▶ … ──▶ report
//!    (data)   (nobody listens)     round 2: the same, …                            (data)
//! ```
//!
//! A [`plan::Plan`] says what to run, a [`result::Report`] what came of it; both are plain data. What is
//! measured of one run is counted by us: what was offered at the receiving interface, what was captured in
//! the file. What a tool says of itself stands beside it as its own word.

pub mod find;
pub mod plan;
pub mod preset;
pub mod result;
pub mod summary;
