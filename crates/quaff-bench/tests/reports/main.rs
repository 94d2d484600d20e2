//! Reports as a reader sees them.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod any_report;
mod flow_report;
mod report;
mod service_report;
