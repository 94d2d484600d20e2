//! Outputs at the end of a lane.
//!
//! | module | task |
//! |---|---|
//! | [`backlog`] | the age of packets that wait because no buffer is free |
//! | [`meter`] | meters their flows |
//! | [`packer`] | packs them into chunks of a capture file |
//! | [`reassembly`] | reassembles their TCP connections |
//! | [`scripts`] | runs scripts on them |
//! | [`spread`] | packs them for the members of a split |
//! | [`transmit`] | sends chunks from an interface |
//!
//! An output runs on its lane's thread and shares nothing with other lanes; it never blocks and never waits for a disk,
//! but for [`reassembly`], which is for files only, and for [`scripts`] of files.

mod backlog;
mod meter;
mod packer;
mod reassembly;
mod scripts;
mod spread;
mod transmit;

#[cfg(test)]
pub(crate) use meter::tests::record;
pub(crate) use meter::{Meter, MeterEnd, Records, RecordsInlet};
pub(crate) use packer::{PackPlan, Packer};
pub use reassembly::{BodyTally, ObjectTally};
pub(crate) use reassembly::{ReaderTally, Reassembly, ReassemblyEnd, StreamReader};
pub(crate) use scripts::{RecordSink, RecordTally, Recorded, Scripts, ScriptsEnd};
pub(crate) use spread::Spread;
pub(crate) use transmit::Transmit;

use crate::batch::{Frame, Memory};
use crate::front::Ready;
use quaff_file::tally::Counts;
use std::iter::Sum;

/// The two clocks of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// CLOCK_MONOTONIC, ns.
    pub steady_ns: u64,
    /// Time at the origin of the packets, ns since 1970: of this machine, or of the last packet of a file.
    pub wall_ns: u64,
}

/// An arrival at a lane, beside its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub now: Now,
    /// The source will soon have to drop packets.
    pub is_late: bool,
    /// Packets that the kernel dropped before these frames, and that no call before has had.
    pub dropped: u64,
    /// The number of the blocks of names that precede these frames; only files have some.
    pub names: usize,
}

impl Arrival {
    /// Nothing but a time.
    pub fn at(now: Now) -> Self {
        Self { now, is_late: false, dropped: 0, names: 0 }
    }
}

/// A moment at which no frame is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    pub now: Now,
    /// The source had no packets within its wait.
    pub is_idle: bool,
    /// No packet before this time follows those that were taken, ns since 1970; `None` while a stage holds some back.
    pub passed_ns: Option<u64>,
}

/// The counters of an output, so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputTally {
    /// Packets taken.
    pub taken: u64,
    /// Packets lost because there was no room.
    pub lost: u64,
    /// The most buffers that the output can use at a time, and that it has used.
    pub pool_buffers: u64,
    pub high_buffers: u64,
}

impl Sum for OutputTally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, of| Self {
            taken: sum.taken + of.taken,
            lost: sum.lost + of.lost,
            pool_buffers: sum.pool_buffers + of.pool_buffers,
            high_buffers: sum.high_buffers + of.high_buffers,
        })
    }
}

/// Takes the packets of one lane. Every packet that reaches it ends in [`OutputTally::taken`] or
/// [`OutputTally::lost`].
///
/// All calls are made by the lane's thread, per batch and never per packet, in this order:
///
/// ```text
///   for each batch:  take, and again for the frames it left    (or lose, when the source is nearly full, or the
///                    with tick between two attempts             receiver is gone, or the source cannot be closed)
///   then, and without a batch at least once a second, or when patience_ns is over:  tick
///   at the end:      take without frames, if packets were dropped after the last batch; finish; tally
/// ```
///
/// No call returns an error. An output that fails counts what it loses, or raises the stop of the run; it is called
/// until the end all the same. After an error of the source the frames taken before are still to be written: `finish`
/// and `tally` follow, and no further batch. After a panic nothing follows.
pub trait Output: Send {
    /// Takes the frames for which there is room, and returns their number. The others must be at the end of
    /// `frames` then: they are offered again, or reported to [`Output::lose`]. There may be no frames.
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], arrival: Arrival) -> usize;

    /// As [`Output::take`], with what the output's front has read in the frames of a whole part of a file.
    fn take_ready(
        &mut self,
        _ready: &mut Ready,
        memory: Memory<'_>,
        frames: &mut [Frame],
        arrival: Arrival,
    ) -> usize {
        self.take(memory, frames, arrival)
    }

    /// The most frames that it is to take at once, when each of them may take long.
    fn frames_at_once(&self) -> usize {
        usize::MAX
    }

    /// Counts frames for which there was no room until the kernel's ring was nearly full.
    fn lose(&mut self, _frames: &[Frame]) {}

    /// Does periodic work; `count` adds the counts of source and stages.
    fn tick(&mut self, _pause: Pause, _count: &dyn Fn(&mut Counts)) {}

    /// Time until periodic work is due, ns.
    fn patience_ns(&self, _now: Now) -> u64 {
        u64::MAX
    }

    /// Ends the output.
    fn finish(&mut self, _wall_ns: u64, _count: &dyn Fn(&mut Counts)) {}

    /// The counters, for a status line and at the end.
    fn tally(&self) -> OutputTally;

    /// Returns whether the receiver beyond the output is gone, so that waiting for room is useless.
    fn is_closed(&self) -> bool {
        false
    }
}

/// Counts and discards packets: the output of a dry run.
#[derive(Debug, Default)]
pub(crate) struct Discard {
    taken: u64,
}

impl Output for Discard {
    fn take(&mut self, _: Memory<'_>, frames: &mut [Frame], _: Arrival) -> usize {
        self.taken += frames.len() as u64;
        frames.len()
    }

    fn tally(&self) -> OutputTally {
        OutputTally { taken: self.taken, ..OutputTally::default() }
    }
}
