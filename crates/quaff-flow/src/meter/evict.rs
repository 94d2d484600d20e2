//! Makes room at the limit: a flow that was idle for long ends early.

use super::Meter;
use crate::record::{EndReason, FlowSink};
use crate::rules::Due;

/// Maximum flows that are skipped before one of them has to leave.
const LOOKS: u32 = 64;

impl Meter {
    /// Ends one flow, found by going round all records from `hand` on (the clock algorithm). Records that had packets
    /// since the last round are skipped: the flow that leaves had none for a whole round, or, after [`LOOKS`] records,
    /// its last packet is the oldest of all skipped ones. A record that was freed is the next to be used, so flows of
    /// one packet leave in the order in which they came.
    #[cold]
    pub(super) fn make_room(&mut self, sink: &mut dyn FlowSink) {
        let (mut oldest, mut oldest_ns) = (self.hand, u64::MAX);
        for _ in 0..LOOKS {
            let flow = self.hand;
            self.hand = self.table.pool.after(flow);
            let hot = self.table.pool.hot_mut(flow);
            if !hot.state.take_active() {
                oldest = flow;
                break;
            }
            if hot.last_ns() < oldest_ns {
                (oldest, oldest_ns) = (flow, hot.last_ns());
            }
        }
        let due = Due::of(self.table.pool.hot(oldest), &self.plan);
        self.wheel.remove(oldest, &mut self.table.pool);
        self.emit(oldest, due.reason_at(self.now.ns, EndReason::LackOfResources), sink);
        self.remove(oldest);
    }
}
