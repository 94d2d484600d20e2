//! The command as a whole: its words, its documents, its installation, its confinement, its machine.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod command_line;
mod daily;
mod demo;
mod docs;
mod doctor;
mod dry_run;
mod example;
mod figures;
mod gulp;
mod help;
mod install;
mod json;
mod lab;
mod limits;
mod permits;
mod quiet;
mod sandbox;
mod screens;
#[path = "../stamped/mod.rs"]
mod stamped;
#[path = "../support/mod.rs"]
mod support;
mod times;
#[path = "../traffic/mod.rs"]
mod traffic;
