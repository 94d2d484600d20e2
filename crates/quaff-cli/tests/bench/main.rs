//! Measurements: of other programs, of a path, of promises.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod bench;
mod bench_beds;
mod bench_find;
mod bench_flow;
mod bench_lab;
mod measure;
mod rivals;
mod service;
#[path = "../support/mod.rs"]
mod support;
