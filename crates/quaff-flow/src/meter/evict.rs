//! Room at the limit: the flow that was idle for longest leaves early.

use super::Meter;
use crate::record::{EndReason, FlowSink};
use crate::rules::Due;
use crate::wheel::tick_of;

/// Entries of the wheel that are looked at before one has to leave that is not idle.
const LOOKS: u32 = 64;

impl Meter {
    /// Ends one flow. The wheel files flows by due time, so the first entry of its first slot is the oldest to within
    /// a slot (256 ms at an idle timeout of 30 s). An entry that was active since it was filed is filed anew, and one
    /// whose piece is due before its flow is idle waits at the end of its slot.
    #[cold]
    pub(super) fn make_room(&mut self, sink: &mut dyn FlowSink) {
        for look in 0..=LOOKS {
            let Some((flow, slot_end_ns)) = self.wheel.earliest() else { return };
            self.wheel.remove(flow, &mut self.table.pool);
            let due = Due::of(self.table.pool.hot(flow), &self.plan);
            let is_active_since = tick_of(due.ns()) > tick_of(slot_end_ns);
            if look < LOOKS && (is_active_since || !due.is_idle_first()) {
                self.wheel.file(flow, due.ns(), &mut self.table.pool);
                continue;
            }
            let reason = due.reason_at(self.now.ns, EndReason::LackOfResources);
            self.emit(flow, reason, sink);
            self.remove(flow);
            return;
        }
    }
}
