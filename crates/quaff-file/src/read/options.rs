//! Options of reading, shared by the reading thread and the decoder.

use quaff_os::Stop;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for reading a capture file.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// After damage, search for the next plausible packet and continue.
    pub salvage: bool,
    /// At the end, wait for more until the file is renamed or removed, or the stop is raised.
    pub follow: bool,
    /// Once raised, reading ends. The bytes that a followed file has by then are still read.
    pub stop: Stop,
    /// Size of each of the buffers, at most [`BUFFERS`](super::BUFFERS), that a file is read into; `None` is the size
    /// that is fastest for one file. A compressed file has one more, and two more if threads decompress its frames.
    pub buffer_bytes: Option<usize>,
    /// Threads that read and look, or decompress frames, beside the decoder's; `None` is one for each other core, up to
    /// 3.
    pub helpers: Option<usize>,
    /// One thread decompresses the file: another file is open too, whose thread uses another core.
    pub is_beside_others: bool,
    /// Files that were found in folders, from which another process may remove or rename them: see
    /// [`CaptureFile::open_there`](super::CaptureFile::open_there).
    pub found: Arc<BTreeSet<PathBuf>>,
}
