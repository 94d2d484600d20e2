//! Flow metering: packets become flow records, and each packet is counted; records go to collectors and files. No
//! unsafe code. Only [`collector`] does I/O and reads a clock.
//!
//! | module | task |
//! |---|---|
//! | [`record`] | one piece of a flow, as exports receive it, and the trait of sinks |
//! | [`plan`] | keys, timeouts, limits, sampling, and the extras to compute |
//! | [`ledger`] | the counters of a meter, and their identity |
//! | [`packet`] | one packet for a meter, and the clock of its lane |
//! | [`meter`] | the meter of a lane, and a description of the rules |
//! | [`reader`] | the headers of packets, read ahead of the meter |
//! | [`table`], [`wheel`], [`key`] | flows by key, flows by due time, the keyed hash |
//! | [`rules`], [`fragments`], [`extras`], [`application`], [`sampling`] | parts of the meter |
//! | [`choice`] | records that are wanted, by an expression and a span of time |
//! | [`summary`] | sums of records by host, port, application and others, and over time |
//! | [`export`] | records as NetFlow, IPFIX, files and text |
//! | [`collector`] | collectors and files: threads, sockets, the spool |
//!
//! Time is packet time, in ns since 1970. A lane has one meter, which shares nothing with those of other lanes.

#![forbid(unsafe_code)]

mod application;
pub mod choice;
pub mod collector;
pub mod export;
mod extras;
mod fragments;
mod headers;
mod key;
pub mod ledger;
pub mod meter;
pub mod packet;
pub mod plan;
pub mod reader;
pub mod record;
mod rules;
mod sampling;
pub mod summary;
mod table;
mod wheel;

pub use application::{QuicBudget, Recognizer};
pub use meter::Meter;
