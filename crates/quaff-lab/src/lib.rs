//! Network namespaces to try quaff in, and the methods that measure it beside its rivals.
//!
//! ```text
//!    NAME-tx                          NAME-rx
//!   ┌───────────────┐    veth pair   ┌───────────────┐
//!   │ tx0 198.18.0.1├────────────────┤ 198.18.0.2 rx0│
//!   └───────────────┘                └───────────────┘
//! ```

#![forbid(unsafe_code)]

pub mod bed;
pub mod bench;
mod error;
pub mod forwarder;
pub mod lab;
pub mod method;
pub mod probe;
mod registry;
pub mod report;
pub mod rival;
pub mod running;
pub mod search;
pub mod service;
pub mod slow;
pub mod stats;
pub mod testing;
pub mod words;

pub use error::{Error, Result};
pub use lab::{Lab, LabInfo, LabPlan};
pub use running::Running;
