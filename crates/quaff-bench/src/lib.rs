//! Experiments: benches of capturers and of flow meters, service tests of paths, and their common parts: measured runs,
//! searches, statistics and reports. Labs and tools under test are in `quaff-lab`.

#![forbid(unsafe_code)]

pub mod bench;
pub mod experiment;
pub mod flow;
pub mod method;
pub mod recvfrom_sniffer;
pub mod report;
mod search;
pub mod service;
pub mod stats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trial;

pub use quaff_lab::{Error, Result};
