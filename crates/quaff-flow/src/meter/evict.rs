//! Room at the limit: a flow that was idle for long leaves early.

use super::Meter;
use crate::record::{EndReason, FlowSink};
use crate::rules::Due;

/// Flows that are passed over before one has to leave that is not idle.
const LOOKS: u32 = 64;

impl Meter {
    /// Ends one flow. A hand goes round all records and passes those that had packets since it came by: the one that
    /// leaves had none for a whole round. A record that became free is the next to be taken, so flows of one packet
    /// leave in the order in which they came.
    #[cold]
    pub(super) fn make_room(&mut self, sink: &mut dyn FlowSink) {
        for look in 0..=LOOKS {
            let flow = self.hand;
            self.hand = self.table.pool.after(flow);
            let hot = self.table.pool.hot_mut(flow);
            if look < LOOKS && std::mem::take(&mut hot.is_active) {
                continue;
            }
            let reason = Due::of(hot, &self.plan).reason_at(self.now.ns, EndReason::LackOfResources);
            self.wheel.remove(flow, &mut self.table.pool);
            self.emit(flow, reason, sink);
            return self.remove(flow);
        }
    }
}
