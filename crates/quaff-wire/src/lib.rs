//! Formats and protocols: headers, tunnels, flows, applications, probes, pcap, pcapng. No I/O, no clock, no unsafe
//! code.
//!
//! All functions work on slices of the caller. Parsing never panics on any input.

#![forbid(unsafe_code)]

pub mod application;
mod base64;
pub mod checksum;
mod client;
pub mod cooked;
pub mod cut;
pub mod decode;
pub mod filter;
pub mod fingerprint;
pub mod flow;
pub mod format;
pub mod hierarchy;
mod item;
pub mod linktype;
pub mod net;
mod parse;
pub mod pcap;
pub mod pcapng;
pub mod printable;
pub mod probe;
mod record;
pub mod rewrite;
pub mod split;
mod sums;
pub mod synth;
pub mod tcpprep;
pub mod tunnel;

pub use base64::base64;
pub use client::{RoleClassifier, RoleRule};
pub use parse::ParseError;
pub use record::{Append, INBOUND, OUTBOUND, Record};
