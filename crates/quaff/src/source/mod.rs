//! Sources of batches.
//!
//! [`open`] turns a plan into sources; [`afpacket`] is a lane of a live interface, [`xdp`] one that receives past the
//! stack, [`group`] what the lanes of an interface share, [`live_link`] the state of their interface, [`files`] are
//! capture files one after another, [`merge`] the same by time.

mod afpacket;
mod files;
mod group;
mod link;
mod live_link;
mod merge;
mod names;
mod open;
mod spare;
mod watch;
mod xdp;

pub use afpacket::{AfPacket, Opening};
pub use group::Group;
pub(crate) use link::os_name;
pub use live_link::Links;
pub use names::{interfaces_named, interfaces_now, literal};
pub(crate) use open::{Declaration, LaneSource, Prepared, Sources};
pub use watch::Missed;
pub(crate) use watch::Watch;

use crate::Result;
use crate::batch::Frame;
use crate::front::Ready;
use crate::tally::{InputTally, LaneTally};
use quaff_file::tally::Counts;
use quaff_wire::pcapng::PacketOptions;
use std::time::Duration;

/// The result of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// Frames.
    Batch,
    /// No frames within the wait.
    Idle,
    /// No more frames.
    End,
}

/// A source of batches. The bytes of a batch belong to the source and are borrowed until
/// they are released: in order, one batch at a time.
///
/// It is opened and called by its lane's thread, in this order:
///
/// ```text
///   until End:            pull
///   after a Batch:        bytes, options, take_dropped, names, while it is passed on; release
///   after Batch or Idle:  count, wall_ns, is_nearly_full, at any time
///   after the stop:       close, before each pull; pull until End
///   at last:              take_dropped, count, finish
/// ```
///
/// After an error of `pull` or `close` no batch follows, and none is released: the counters are still read, and the
/// error ends the run; `finish` is not called then.
pub trait Source: Send {
    /// Waits at most `wait` for a batch, and describes its frames.
    fn pull(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull>;

    /// The bytes of the batch pulled last.
    fn bytes(&self) -> &[u8];

    /// The options of its frames, by number; only frames of files have some.
    fn options(&self) -> &[PacketOptions] {
        &[]
    }

    /// The work that threads have done on the batch pulled last; only batches of files have some. Its result is
    /// returned by [`Source::return_ready`] before the batch is released.
    fn take_ahead(&mut self) -> Option<Ahead> {
        None
    }

    /// Takes back the memory of a front's result.
    fn return_ready(&mut self, _ready: Ready) {}

    /// Releases the batch. The bytes of files need none: the next pull reuses them.
    fn release(&mut self) {}

    /// Returns whether the source will soon have to drop packets unless batches are released; a file waits.
    fn is_nearly_full(&self) -> bool {
        false
    }

    /// Stops receiving. Packets received before can still be pulled; then follows `End`.
    fn close(&mut self) -> Result<()>;

    /// The present time at the origin of the packets, ns since 1970.
    fn wall_ns(&self) -> u64 {
        quaff_os::clock::wall_ns()
    }

    /// Packets dropped by the kernel just before the batch pulled last, and not reported before.
    fn take_dropped(&mut self) -> u64;

    /// The number of the blocks of names that precede the batch pulled last; only files have some.
    fn names(&self) -> usize {
        0
    }

    /// Updates the interface's part of a lane's counts.
    fn count(&self, counts: &mut Counts);

    /// Ends the source and returns its counts; an error when they contradict each other.
    fn finish(self: Box<Self>) -> Result<SourceTally>;
}

/// The work that threads have done on a batch.
#[derive(Default)]
pub struct Ahead {
    /// Frames that the filter, the first stage of the lane, has removed.
    pub(crate) filtered: u64,
    /// The result of the output's front, if that has one.
    pub(crate) ready: Option<Ready>,
}

/// The counters of a source.
#[derive(Debug, Default)]
pub struct SourceTally {
    /// Only the fields of a source are set.
    pub lane: LaneTally,
    /// Of capture files.
    pub input: Option<InputTally>,
}
