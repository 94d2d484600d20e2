//! Room at the limit: the flow that was idle for longest leaves early.

use super::Meter;
use crate::record::{EndReason, FlowSink};
use crate::rules::Due;
use crate::wheel::{next_entry, tick_of};

/// Entries of the wheel that are looked at before one has to leave that is not idle.
const LOOKS: u32 = 64;

impl Meter {
    /// Ends one flow. The wheel files flows by due time, and in a slot by the time of filing: the first entry is the
    /// oldest, unless it was active since it was filed. Then its due time is in a later slot, or its last packet came
    /// after that of the next entry, and it is filed anew. One whose piece is due before its flow is idle waits at the
    /// end of its slot.
    #[cold]
    pub(super) fn make_room(&mut self, sink: &mut dyn FlowSink) {
        for look in 0..=LOOKS {
            let Some((flow, slot_end_ns)) = self.wheel.earliest() else { return };
            let (pool, hot) = (&self.table.pool, self.table.pool.hot(flow));
            let due = Due::of(hot, &self.plan);
            let is_newer = next_entry(hot.link).is_some_and(|next| pool.hot(next).last_ns() < hot.last_ns());
            let is_active_since = is_newer || tick_of(due.ns()) > tick_of(slot_end_ns);
            self.wheel.remove(flow, &mut self.table.pool);
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
