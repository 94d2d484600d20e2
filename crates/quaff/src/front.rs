//! The front of a lane: the work on packets of files that needs nothing of the packets before them, which a thread may
//! do ahead of the lane on another core. The lane does the rest, in the order of the packets.
//!
//! ```text
//!   thread:  read a part → walk → filter → front ─┐
//!   thread:  read a part → walk → filter → front ─┼→ lane, part by part: the other stages → output
//!   lane:    read a part → walk → filter → front ─┘
//! ```
//!
//! A front never changes a result: without one, and for packets that need the state of the file, the lane does all the
//! work itself.

use crate::batch::{Batch, Frame, Memory};
use crate::filter::FrameFilter;
use crate::stage::{Filter, Stage};
use crate::tally::LaneTally;
use quaff_file::Interfaces;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// The result of a front, of a type that the front and its output know.
pub(crate) type Ready = Box<dyn Any + Send>;

/// The front of an output, on one thread.
pub(crate) trait Front: Send {
    /// Reads the frames of a part. The result replaces that of an earlier part in `ready`, if there is one.
    fn read(&mut self, memory: Memory<'_>, frames: &[Frame], ready: &mut Option<Ready>);
}

/// Makes a front for each thread.
pub(crate) type MakeFront = Arc<dyn Fn() -> Box<dyn Front> + Send + Sync>;

/// The work of threads on a lane's packets.
#[derive(Clone, Default)]
pub(crate) struct FrontPlan {
    /// The first stage of the lane, if that is a filter.
    pub(crate) filter: Option<(FrameFilter, Interfaces)>,
    pub(crate) output: Option<MakeFront>,
}

/// The front of a lane whose source is open, once its stages and its output are known.
pub(crate) type FrontPlace = Arc<OnceLock<FrontPlan>>;

/// The work of one thread.
pub(crate) struct ThreadFront {
    filter: Option<Filter>,
    output: Option<Box<dyn Front>>,
}

impl FrontPlan {
    pub(crate) fn thread(&self) -> ThreadFront {
        let filter = self.filter.clone().map(|(filter, interfaces)| Filter::new(filter, interfaces));
        ThreadFront { filter, output: self.output.as_ref().map(|make| make()) }
    }
}

impl ThreadFront {
    /// Removes frames that the lane does not want, and reads the others; returns the number of those removed.
    pub(crate) fn pass(&mut self, bytes: &[u8], frames: &mut Vec<Frame>, ready: &mut Option<Ready>) -> u64 {
        let mut tally = LaneTally::default();
        if let Some(filter) = &mut self.filter {
            let (mut scratch, mut ids) = (Vec::new(), Vec::new());
            let (scratch, ids) = (&mut scratch, &mut ids);
            filter.pass(&mut Batch { bytes, scratch, frames, ids, now_ns: 0, is_last: false }, &mut tally);
        }
        if let Some(output) = &mut self.output {
            output.read(Memory { bytes, ..Memory::default() }, frames, ready);
        }
        tally.terms.filtered
    }
}

impl std::fmt::Debug for FrontPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FrontPlan")
    }
}
