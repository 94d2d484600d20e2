//! Reading capture files of any program: pcap and pcapng, compressed or not, damaged or still growing.
//!
//! Threads read ahead and decompress; the decoder walks over the bytes without copying packets.
//! This module never writes files.

mod ahead;
mod capture_file;
mod crew;
mod decompress;
mod input;
mod look;
mod options;
mod part;
mod unfinished;
mod unpack;
mod watch;

pub use ahead::{BUFFER_BYTES, BUFFERS};
pub use capture_file::{Advance, CaptureFile, Error, SkippedBytes};
pub(crate) use capture_file::{TakeSeen, correction_notes, time_notes};
pub use decompress::{Compression, Corruption, Decompressor, Failure, MAGIC_BYTES};
pub use look::{Look, MakeLook, Seen};
pub use options::Options;
pub(crate) use unfinished::unfinished_note;
pub use unfinished::{GONE, finished, is_gone};

/// Threads that share a file with the decoder, at most.
const HELPERS_MAX: usize = 15;
