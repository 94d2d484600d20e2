//! Reading capture files of any program: pcap and pcapng, compressed or not, damaged or still growing.
//!
//! A thread reads ahead and decompresses; the decoder walks over the bytes without copying packets.
//! This module never writes files.

mod ahead;
mod capture_file;
mod decompress;
mod input;
mod options;
mod watch;

pub use ahead::{BUFFER_BYTES, BUFFERS};
pub use capture_file::{Advance, CaptureFile, Error, SkippedBytes};
pub(crate) use capture_file::{correction_notes, time_notes};
pub use decompress::{Compression, Corruption, Decompressor, Failure, MAGIC_BYTES};
pub use options::Options;
