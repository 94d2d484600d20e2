//! Outputs of captured packets: files on disks that fail, pipes, live copies, splits, and a tap's forwarding.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod extcap;
mod output;
mod owner;
mod pipe;
mod planted;
mod small_disk;
mod split;
mod split_stall;
mod stuck_disk;
#[path = "../support/mod.rs"]
mod support;
mod tap;
mod tap_load;
mod tee;
#[path = "../traffic/mod.rs"]
mod traffic;
mod write_faults;
