//! Sinks: where chunks go.
//!
//! | room | what it does |
//! |---|---|
//! | [`plan`] | what to write where, as plain data |
//! | [`target`] | an output, opened and examined before it becomes a sink |
//! | [`chunk`] | pieces of a file, as lanes hand them over |
//! | [`header`] | the first and last blocks of a file |
//! | [`stream`] | stdout, pipes, devices |
//! | [`file`] | files on disk: one in place, or one after the other |
//! | [`folder`] | which file comes next in a folder, and which have to go |
//! | [`repack`] | pcap for aligned writes, since pcap cannot be padded |
//! | [`name_template`] | names of rotated files, and which names are ours |
//! | [`retention`] | finished files, and which of them have to go |
//! | [`file_opener`] | opens the next file ahead and finishes the last one, off the path |
//! | [`post_rotate`] | runs a command of the user's on each finished file |
//! | [`tee`] | files on disk, and a copy for who looks on, which never holds them up |
//! | [`live_copy`] | that copy: what its reader takes in time, the rest counted |

pub mod chunk;
pub mod file;
mod file_opener;
pub mod folder;
pub mod header;
mod live_copy;
pub mod name_template;
pub mod plan;
mod post_rotate;
pub mod repack;
mod retention;
pub mod stream;
pub mod target;
mod tee;

use crate::Result;
use crate::tally::{Counts, WriterTally};
use crate::write::chunk::Chunk;
use quaff_os::gauge::Gauge;
use quaff_os::mem::Buffer;
use std::time::Duration;

/// Takes chunks, in order. What goes wrong with the output is the sink's to deal with: it counts
/// what is lost and raises the stop. Errors are for what nobody can go on from.
pub trait Sink: Send {
    /// Takes a chunk of a lane.
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()>;

    /// Hears what a lane has counted.
    fn note(&mut self, lane: usize, counts: Counts);

    /// Goes on to the next rotation slot.
    fn turn(&mut self, slot: u64) -> Result<()>;

    /// Does what is due. Called often.
    fn tick(&mut self) -> Result<()>;

    /// A buffer that has been written (or given up), and the lane that it belongs to.
    fn reap(&mut self) -> Result<Option<(usize, Buffer)>>;

    /// Writes that have not ended.
    fn pending(&self) -> usize;

    /// How long `tick` can wait when nothing happens.
    fn patience(&self) -> Duration;

    /// Ends the output.
    fn finish(&mut self) -> Result<WriterTally>;
}

/// The gauges of the writer.
#[derive(Debug, Default)]
pub struct WriterGauges {
    /// Packets in the output.
    pub written: Gauge,
    /// Bytes in the output.
    pub bytes: Gauge,
    /// Packets that could not be written.
    pub lost: Gauge,
    /// Packets that a copy for who looks on lacks, since its reader was too slow.
    pub copy_lost: Gauge,
}
