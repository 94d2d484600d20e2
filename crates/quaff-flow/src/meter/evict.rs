//! Room at the limit: a flow that was idle for long leaves early.

use super::Meter;
use crate::record::{EndReason, FlowSink};
use crate::rules::Due;

/// Flows that are passed over before one of them has to leave.
const LOOKS: u32 = 64;

impl Meter {
    /// Ends one flow. A hand goes round all records and passes those that had packets since it came by: the one that
    /// leaves had none for a whole round, or, where none is found soon, it is the one of those passed whose last packet
    /// is the oldest. A record that became free is the next to be taken, so flows of one packet leave in the order in
    /// which they came.
    #[cold]
    pub(super) fn make_room(&mut self, sink: &mut dyn FlowSink) {
        let (mut oldest, mut oldest_ns) = (self.hand, u64::MAX);
        for _ in 0..LOOKS {
            let flow = self.hand;
            self.hand = self.table.pool.after(flow);
            let hot = self.table.pool.hot_mut(flow);
            if !hot.standing.take_active() {
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
