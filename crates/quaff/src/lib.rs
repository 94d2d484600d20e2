//! The pipe: source, stages, sink. A batch flows; a lane is one core's work; each packet ends in one tally.

#![forbid(unsafe_code)]

pub mod source;
pub mod verify;
