//! Captures of real packets: lanes, losses, filters, interfaces that change.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod below_tap;
mod buffer;
mod capture;
mod capture_changes;
mod capture_fanout;
mod capture_fanout_same;
mod capture_faults;
mod capture_lanes;
mod capture_rotation;
mod capture_start;
mod capture_sync;
mod capture_xdp;
mod compress;
mod decap;
mod drop_places;
mod duplicates;
mod filters;
mod hotplug;
mod inner;
mod interfaces;
mod kernel_loss;
mod ordered;
mod random_loss;
#[path = "../stamped/mod.rs"]
mod stamped;
#[path = "../support/mod.rs"]
mod support;
mod verify_live;
