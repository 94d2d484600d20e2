//! Network namespaces, their topologies and traffic, and the tools that are measured in them.
//!
//! ```text
//!    NAME-tx                          NAME-rx
//!   ┌───────────────┐    veth pair   ┌───────────────┐
//!   │ tx0 198.18.0.1├────────────────┤ 198.18.0.2 rx0│
//!   └───────────────┘                └───────────────┘
//! ```
//!
//! Nothing is measured or judged here: experiments are in `quaff-bench`.

#![forbid(unsafe_code)]

mod child_process;
mod error;
mod interface;
mod lab;
mod owner;
mod probe;
mod process_mark;
mod registry;
pub mod tool;
pub mod topology;
pub mod traffic;

pub use child_process::{ChildProcess, Finished};
pub use error::{Error, Result};
pub use interface::facts as interface_facts;
pub use lab::{FAR, Lab, LabEnd, LabInfo, LabPlan, Layout, MIDDLE_IFS, MTU_MAX, ROUTED, RX, TX};
pub use probe::{Permit, probe};
pub use process_mark::ProcessMark;
