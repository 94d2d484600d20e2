//! Cores: what they share, how fast they exchange data, and which ones a capture should use.

mod advice;
mod measure;
mod topology;

pub use advice::{Advice, advise};
pub use measure::{Pair, measure};
pub use quaff_os::nic::{Irq, Nic};
pub use topology::{Core, Sharing, Topology};
