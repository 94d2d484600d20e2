//! Reading capture files: pcap and pcapng, compressed or not, damaged or still growing.
//!
//! A thread reads ahead and decompresses; the decoder walks over the bytes without copying packets.
//! This room never writes.

mod ahead;
mod capture_file;
mod input;
pub mod unpack;

pub use capture_file::{Advance, CaptureFile, Error, Jumps, Options};
