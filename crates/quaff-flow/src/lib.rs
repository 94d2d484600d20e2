//! Flow metering: packets become flow records, and each packet is accounted for. No I/O, no clock, nothing unsafe.
//!
//! | module | task |
//! |---|---|
//! | [`record`] | one piece of a flow, as exports receive it, and the sink that takes it |
//! | [`plan`] | keys, timeouts, limits, sampling, and the extras to compute |
//! | [`ledger`] | the counters of a meter, and their identity |
//! | [`packet`] | one packet as a meter takes it, and the clock of its lane |
//!
//! Time is packet time, in ns since 1970. A lane has one meter, which shares nothing with those of other lanes.

#![forbid(unsafe_code)]

pub mod ledger;
pub mod packet;
pub mod plan;
pub mod record;
