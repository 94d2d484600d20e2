//! Bytes and their meaning: frames, tunnels, stamps, pcap, pcapng. No I/O, no clock, nothing unsafe.
//!
//! Every function here works on slices that the caller owns. Parsing never panics, whatever the bytes.

#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod client;
pub mod cut;
mod datagram;
pub mod decode;
pub mod filter;
pub mod fingerprint;
pub mod flow;
pub mod layers;
pub mod linktype;
pub mod mark;
pub mod pcap;
pub mod pcapng;
pub mod record;
pub mod rewrite;
pub mod split;
pub mod stamp;
pub mod synth;
pub mod tcpprep;
pub mod tunnel;
pub mod udp;
