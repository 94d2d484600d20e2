//! The library without the command line.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod inner;
mod pipe_bytes;
#[path = "../../../quaff-wire/tests/relocated/mod.rs"]
mod programs;
