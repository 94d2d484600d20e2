//! Writing capture files: sinks for the chunks of lanes.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | format, output, rotation and retention as plain data |
//! | [`target`] | an output, opened and examined before it becomes a sink |
//! | [`bytes`] | outputs of any bytes: stdout, or a folder of files |
//! | [`compress`] | a sink that compresses, on threads of its own |
//! | [`chunk`] | chunks of a file, as lanes send them |
//! | [`descriptor`] | the kind of a descriptor, the capacity of a pipe, and whether it has a reader |
//! | [`header`] | the first and last blocks of a file |
//! | [`stream`] | stdout, pipes, devices |
//! | [`ordered`] | the same with the packets of all lanes by time |
//! | [`file`] | files on disk: one in place, or a rotation |
//! | [`folder`] | the files of a rotation: the next one, and the removal of old ones |
//! | [`folders`] | several folders: lanes are distributed to them |
//! | [`folder_lock`] | one capture at a time in a folder, and its position in numbers that restart |
//! | [`folder_writer`] | the thread that writes one of several folders |
//! | [`repack`] | pcap for aligned writes, since pcap cannot be padded |
//! | [`name_template`] | names of rotated files |
//! | [`retention`] | finished files, and the rules by which they are removed |
//! | [`set_aside`] | preallocation, which follows what is free |
//! | [`slots`] | rotation by time: the slot of a time, through daylight saving and steps of the clock |
//! | [`suffix`] | the format and the compression by a file's name |
//! | [`file_opener`] | the thread that opens the next file ahead |
//! | [`finisher`] | the thread that syncs files, and finishes the last one |
//! | [`post_rotate`] | runs a command of the user for each finished file |
//! | [`tee`] | a sink with a live copy |
//! | [`live_copy`] | the live copy: a pipe whose slow reader misses packets |
//!
//! This module never reads packets and never decides which packets are written.

mod bytes;
mod chunk;
mod compress;
mod descriptor;
mod file;
mod file_opener;
mod finisher;
mod folder;
mod folder_lock;
mod folder_writer;
mod folders;
mod format;
mod header;
mod live_copy;
mod name_template;
mod ordered;
mod plan;
mod post_rotate;
mod repack;
mod retention;
mod set_aside;
mod slots;
mod stdout;
mod stream;
mod suffix;
mod target;
mod tee;

pub use bytes::{ByteSink, FilledBuffer, SeriesTally, open_bytes};
pub use chunk::{Chunk, LaneMessage, Part};
pub use compress::{Codec, CompressedWriter};
pub use descriptor::{FdKind, enlarge, fd_kind};
pub use file::{Files, Parts};
pub use folder::Folder;
pub use folder_lock::Turns;
pub use format::Format;
pub use header::Heading;
pub use plan::{CompressPlan, DirPlan, FileLimit, Output, Pipe, ROTATE_BYTES_MIN, Retention};
pub use repack::Repack;
pub use slots::Slots;
pub use stream::Patience;
pub use suffix::Suffix;
pub use target::Target;

use crate::Result;
use crate::tally::{Counts, WriterTally};
use quaff_os::{Buffer, Gauge};
use std::time::Duration;

/// Takes chunks in order and writes them.
///
/// After a failure of the output a sink counts the packets as lost and raises the stop; it returns an error
/// only when the run cannot end in order.
pub trait Sink: Send {
    /// Takes a chunk of `lane`.
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()>;

    /// Takes the newest counts of `lane`.
    fn note(&mut self, lane: usize, counts: Counts);

    /// Notes that no packet of `lane` before `until_ns`, ns since 1970, follows.
    fn mark(&mut self, _lane: usize, _until_ns: u64) {}

    /// Begins the rotation slot `slot`.
    fn begin_slot(&mut self, slot: u64) -> Result<()>;

    /// Does what is due; called often.
    fn tick(&mut self) -> Result<()>;

    /// Returns a buffer that was written or abandoned, with the number of its lane.
    fn reap(&mut self) -> Result<Option<(usize, Buffer)>>;

    /// Returns the number of buffers not returned yet.
    fn pending(&self) -> usize;

    /// Returns whether chunks of all lanes go into the same file.
    fn mixes_lanes(&self) -> bool {
        true
    }

    /// Returns the longest time between two calls of `tick`.
    fn max_wait(&self) -> Duration;

    /// Ends the output; returns after the last write.
    fn finish(&mut self) -> Result<WriterTally>;
}

/// Counters of the writer that other threads read.
#[derive(Debug, Default)]
pub struct WriterGauges {
    /// Packets written.
    pub written: Gauge,
    /// Bytes written.
    pub bytes: Gauge,
    /// Packets that could not be written.
    pub lost: Gauge,
    /// Packets that the reader of the live copy missed.
    pub copy_lost: Gauge,
    /// Writes that the disk has answered, also with an error.
    pub answers: Gauge,
    /// The descriptor of the file that is being written, plus one, if another process has removed it; otherwise 0.
    pub removed_file: Gauge,
    /// [`Self::WRITING`], [`Self::SYNCING`] or [`Self::ON_DISK`].
    pub phase: Gauge,
}

impl WriterGauges {
    /// Packets are written, or may be waiting for that.
    pub const WRITING: u64 = 0;
    /// All packets are written; files are synced and named.
    pub const SYNCING: u64 = 1;
    /// All files are complete. Commands of the user, and the reader of a live copy, may still be waited for.
    pub const ON_DISK: u64 = 2;
}
