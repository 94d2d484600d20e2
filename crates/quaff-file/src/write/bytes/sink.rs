//! The trait of outputs for any bytes: a sink takes filled buffers and returns them when they are written.

use crate::Result;
use quaff_os::Buffer;

/// A buffer with bytes of the stream.
#[derive(Debug)]
pub struct FilledBuffer {
    pub buffer: Buffer,
    /// Bytes used.
    pub len: usize,
    /// Bytes at the start that repeat the end of the previous buffer: the part that did not fill a block.
    pub repeated: usize,
}

/// The output of a stream of bytes. It sets the gauge of written bytes, and signals the wakeup that it was opened with
/// when there is something to do.
pub trait ByteSink: Send {
    /// Writes a buffer, which [`ByteSink::reap`] returns later.
    fn put(&mut self, filled: FilledBuffer) -> Result<()>;

    /// A buffer that is free again, if any.
    fn reap(&mut self) -> Result<Option<Buffer>>;

    /// Flushes when no bytes arrive. `false` when the reader of the output has closed it.
    fn idle(&mut self) -> Result<bool>;

    /// Ends the output.
    fn finish(&mut self) -> Result<()>;

    /// After a failure: discards pending writes and leaves the output consistent.
    fn abandon(&mut self) {}

    /// Alignment of writes, bytes: the rest of a buffer is repeated in the next one.
    fn align(&self) -> usize {
        1
    }

    /// The method of writing, for the report.
    fn describe(&self) -> String;

    /// The files written so far.
    fn series(&self) -> SeriesTally {
        SeriesTally::default()
    }
}

/// The files of a folder; empty for stdout.
#[derive(Debug, Default)]
pub struct SeriesTally {
    pub files: u64,
    /// The detected format: `pcapng`, `pcap` or `bin`.
    pub kind: Option<&'static str>,
    /// A warning for the user.
    pub note: Option<String>,
}
