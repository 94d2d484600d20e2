//! Sinks: where chunks go.
//!
//! | room | what it does |
//! |---|---|
//! | [`header`] | the first and last blocks of a file |
//! | [`stream`] | stdout, pipes, devices |
//! | [`file`] | files on disk: one in place, or one after the other |
//! | [`folder`] | which file comes next in a folder, and which have to go |
//! | [`repack`] | pcap for aligned writes, since pcap cannot be padded |
//! | [`names`] | names of rotated files, and which names are ours |
//! | [`shelf`] | finished files, and which of them have to go |
//! | [`keeper`] | opens the next file ahead and finishes the last one, off the path |
//! | [`after`] | runs a command of the user's on each finished file |
//! | [`tee`] | files on disk, and a copy for who looks on, which never holds them up |
//! | [`onlooker`] | that copy: what its reader takes in time, the rest counted |
//! | [`transmit`] | out of an interface, onto the wire |

pub mod after;
pub mod file;
pub mod folder;
pub mod header;
pub mod keeper;
pub mod names;
pub mod onlooker;
pub mod repack;
pub mod shelf;
pub mod stream;
pub mod tee;
pub mod transmit;

use crate::Result;
use crate::chunk::Chunk;
use crate::tally::{Counts, WriterTally};
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
