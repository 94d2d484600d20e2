//! Outputs of the engine's own: frames out of an interface.

pub mod transmit;
