//! The state of a sink that writes files: the current file, what each pending write is for, and the counts. The
//! other files of this module change it; nothing here writes.

use super::records::Records;
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use crate::write::descriptor::has_name;
use crate::write::finisher::{Finisher, FinisherDone};
use crate::write::folder::Folder;
use crate::write::header::{Described, Heading};
use crate::write::plan::FileLimit;
use crate::write::repack::Repack;
use crate::write::set_aside::SetAside;
use crate::write::slots::Slots;
use crate::write::stdout::StdoutEnd;
use quaff_os::disk::Disk;
use quaff_os::{Buffer, Stop, Wakeup};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// One file in place, or a folder of files.
#[derive(Debug)]
pub struct Files {
    /// `None` for one file in place.
    pub(super) folder: Option<Folder>,
    pub(super) current: Current,
    pub(super) heading: Heading,
    pub(super) disk: Disk,
    /// The purpose of each pending write, oldest first, and the ends of files between them.
    pub(super) tags: VecDeque<Tag>,
    /// pcap on an aligned disk.
    pub(super) records: Option<Records>,
    pub(super) free_buffers: VecDeque<(usize, Buffer)>,
    pub(super) counts: Vec<Counts>,
    /// The counts of each lane's last written chunk.
    pub(super) written: Vec<Counts>,
    /// Unwritten chunks of files that failed, oldest first, and the chunk that is being taken. They go into the next
    /// file.
    pub(super) waiting: VecDeque<(usize, Chunk)>,
    /// Counts of lanes to be taken over after `waiting`.
    pub(super) noted: Vec<(usize, Counts)>,
    /// The current file takes nothing more, because of a failure.
    pub(super) broken: bool,
    pub(super) failures: Failures,
    pub(super) limit: Limit,
    pub(super) regular_sync: RegularSync,
    pub(super) sharing: Sharing,
    /// The file with the failed write, and its valid length. Files after it hold nothing.
    pub(super) damaged: Option<(Arc<File>, u64)>,
    /// The file in place could not be synced, and the error.
    pub(super) sync_failure: Option<(PathBuf, io::Error)>,
    /// Steady time of the last check of the link count of the current file.
    pub(super) name_looked_ns: u64,
    /// For a file on stdout. Declared, and so dropped, after `disk`, which waits for its writes.
    pub(super) _stdout_end: Option<StdoutEnd>,
    /// The end of the current file is queued.
    pub(super) ended: bool,
    pub(super) slots: Slots,
    /// Steady time of the last completion, or of the first pending write.
    pub(super) progress_ns: u64,
    pub(super) tally: WriterTally,
    pub(super) wakeup: Wakeup,
    pub(super) stop: Stop,
    pub(super) gauges: Arc<WriterGauges>,
}

/// The parts of which [`Files`] is made.
pub struct Parts {
    pub heading: Heading,
    pub disk: Disk,
    /// Needed for pcap with aligned writes.
    pub repack: Option<Repack>,
    pub slots: Slots,
    /// Signalled by completed writes.
    pub wakeup: Wakeup,
    /// Raised when the output fails.
    pub stop: Stop,
    pub gauges: Arc<WriterGauges>,
}

/// The file that is being written.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    /// Bytes submitted.
    pub(super) offset: u64,
    /// Space for a file in place; none in a folder, which preallocates itself.
    pub(super) set_aside: SetAside,
    pub(super) packets: u64,
    /// The interfaces and names described in the file.
    pub(super) described: Described,
    /// The file had a name at its start: stdout may be a file without one.
    pub(super) had_name: bool,
    /// Bytes that the folder wrote before the file had a name.
    pub(super) begun: u64,
    /// Bytes written, by completed writes.
    pub(super) written: u64,
    /// The part of `written` that a sync has begun for, and the part that syncs have completed for.
    pub(super) sync_begun: u64,
    pub(super) synced: u64,
    /// A sync has failed: the next chunk goes into the next file.
    pub(super) is_suspect: bool,
}

impl Current {
    /// An empty file.
    pub(super) fn new(file: Arc<File>, path: PathBuf) -> Self {
        Self {
            had_name: has_name(&file),
            file,
            path,
            offset: 0,
            set_aside: SetAside::default(),
            packets: 0,
            described: Described::default(),
            begun: 0,
            written: 0,
            sync_begun: 0,
            synced: 0,
            is_suspect: false,
        }
    }

    /// A file of a folder that begins with `first`.
    pub(super) fn begun(file: Arc<File>, path: PathBuf, first: &[u8], described: Described) -> Self {
        let begun = first.len() as u64;
        let current = Self::new(file, path);
        Self { offset: begun, written: begun, begun, set_aside: SetAside::none(), described, ..current }
    }
}

#[derive(Debug)]
pub(super) enum Tag {
    /// A chunk in the lane's own buffer.
    Chunk(ChunkTag),
    /// Blocks written by the sink itself: section header, interfaces, counters.
    FileBlocks,
    /// A buffer of [`Repack`].
    Repacked,
    /// No write: all writes of the file have been submitted; its length is `bytes`, of which `synced` are on disk.
    End { file: Arc<File>, path: PathBuf, packets: u64, bytes: u64, begun: u64, synced: u64 },
}

/// A [`Chunk`] without its buffer.
#[derive(Debug)]
pub(super) struct ChunkTag {
    pub(super) lane: usize,
    pub(super) packets: u64,
    pub(super) slot: u64,
    pub(super) first_ns: u64,
    pub(super) counts: Counts,
    pub(super) interfaces: usize,
    pub(super) before: Option<Arc<Counts>>,
}

/// The failures of an output.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Failures since the last successful write.
    pub(super) in_a_row: u32,
    /// Failed syncs, and files without a final name, since the last success.
    pub(super) syncs_in_a_row: u32,
    /// The output has ended: later packets are lost.
    pub(super) is_final: bool,
    /// The last failure was a full disk.
    pub(super) is_full: bool,
    /// Path of the last failure.
    pub(super) path: PathBuf,
}

/// The limits of an output, and the sums that are compared with them.
#[derive(Debug, Default)]
pub(super) struct Limit {
    pub(super) most: FileLimit,
    /// Files begun, and bytes of those that have ended.
    pub(super) files: u64,
    pub(super) ended_bytes: u64,
    /// Nothing more is written.
    pub(super) is_reached: bool,
}

/// The interval, and the sync in flight.
#[derive(Debug, Default)]
pub(super) struct RegularSync {
    /// Least time between the beginnings of two syncs, ns; `None` without regular syncs.
    pub(super) interval_ns: Option<u64>,
    /// Steady time of the beginning of the last one.
    pub(super) begun_ns: u64,
    pub(super) is_running: bool,
    /// For one file in place; a folder has a thread of its own.
    pub(super) in_place: Option<InPlace>,
}

#[derive(Debug)]
pub(super) struct InPlace {
    pub(super) finisher: Finisher,
    pub(super) done: Receiver<FinisherDone>,
}

/// The state of a folder among several.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Chunks that are not written, oldest first, while another folder can take them.
    pub(super) handed_back: Option<Vec<(usize, Chunk)>>,
    /// Lanes whose counters the next file leaves out. The last file, which has not ended yet, has them.
    pub(super) leaving: BTreeSet<usize>,
}

/// The result of a folder that has ended.
#[derive(Debug, Default)]
pub(in crate::write) struct HandedBack {
    /// Unwritten chunks with their lanes, oldest first.
    pub chunks: Vec<(usize, Chunk)>,
    /// The counts of each lane's last written chunk.
    pub written: Vec<Counts>,
}
