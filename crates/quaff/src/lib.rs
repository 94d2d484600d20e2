//! The pipe: source, stages, sink. A batch flows; a lane is one core's work; each packet ends in one tally.

#![forbid(unsafe_code)]

pub mod batch;
pub mod capture;
pub mod chunk;
pub mod error;
pub mod gauge;
pub mod lane;
pub mod pack;
pub mod plan;
pub mod sink;
pub mod source;
pub mod stage;
pub mod stop;
pub mod tally;

pub use error::{Error, Result};
pub mod send;
