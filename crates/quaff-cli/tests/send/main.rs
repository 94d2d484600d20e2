//! Senders of packets: made streams and replayed captures.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod generate;
mod generate_file;
mod generate_made;
mod replay;
mod replay_rewrite;
mod rewrite_oracle;
#[path = "../support/mod.rs"]
mod support;
mod tcpreplay;
#[path = "../traffic/mod.rs"]
mod traffic;
mod ways;
