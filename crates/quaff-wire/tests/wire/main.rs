//! Formats, filters, tunnels and changes of frames.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod cut;
mod decode;
#[path = "../files/mod.rs"]
mod files;
mod filter;
mod filter_tunnels;
mod layouts;
mod oracle;
#[path = "../relocated/mod.rs"]
mod relocated;
mod rewrite;
mod roundtrip;
mod salvage;
mod tags;
mod tunnel;
mod tunnel_bad;
#[path = "../tunnels/mod.rs"]
mod tunnels;
