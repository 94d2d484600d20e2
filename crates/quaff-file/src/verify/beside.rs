//! Counters of the same packets beside a verification, so that one pass over the files is enough for both. Threads
//! count the parts that they look at, and the parts are taken in the order of the packets. It knows no counter.

use quaff_wire::decode::Frame;
use std::fmt::Debug;

/// Takes the counts of parts, in the order of their packets.
pub trait Beside: Debug + Default + 'static {
    type Part: Part;

    /// Takes the counts of a part, and leaves it empty.
    fn take(&mut self, part: &mut Self::Part);
}

/// Counts of packets that follow one another, on one thread.
pub trait Part: Debug + Default + Send + 'static {
    /// Counts a packet. Its interface is numbered in its section; `time_ns` is `None` for a packet without a time.
    fn packet(&mut self, frame: &Frame<'_>, time_ns: Option<u64>);

    /// Returns true if the counts should be taken before they get larger.
    fn is_full(&self) -> bool;

    /// Removes the counts, and keeps the memory.
    fn clear(&mut self);
}

/// No counters.
impl Beside for () {
    type Part = ();

    fn take(&mut self, (): &mut ()) {}
}

impl Part for () {
    #[inline(always)]
    fn packet(&mut self, _: &Frame<'_>, _: Option<u64>) {}

    #[inline(always)]
    fn is_full(&self) -> bool {
        false
    }

    fn clear(&mut self) {}
}
