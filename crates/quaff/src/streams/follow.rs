//! One connection of several between the same ends, passed on as its bytes come.

use crate::output::{ReaderTally, StreamReader};
use quaff_stream::tracker::{Closed, ConnectionSink, Opened};
use quaff_stream::{Event, Sender};

/// The connection to follow, and its receiver.
pub struct FollowPlan {
    /// Number of the connection among those between the ends of the plan, by first packet, from 1.
    pub nth: u64,
    pub sink: Box<dyn ConnectionSink + Send>,
}

/// The reader that passes one connection on.
pub(super) struct Follow {
    plan: FollowPlan,
    /// The connection's slot in the table, while it lasts.
    place: Option<u32>,
    tally: ReaderTally,
}

impl Follow {
    pub(super) fn new(plan: FollowPlan) -> Self {
        Self { plan, place: None, tally: ReaderTally::default() }
    }
}

impl ConnectionSink for Follow {
    fn begin(&mut self, place: u32, opened: &Opened) {
        self.tally.connections += 1;
        if self.tally.connections == self.plan.nth {
            self.place = Some(place);
            self.plan.sink.begin(place, opened);
        }
    }

    fn event(&mut self, place: u32, sender: Sender, time_ns: u64, event: Event) {
        let bytes = match event {
            Event::Data { bytes, .. } => bytes.len() as u64,
            Event::Urgent { .. } => 1,
            _ => 0,
        };
        if self.place == Some(place) {
            self.tally.bytes += bytes;
            self.plan.sink.event(place, sender, time_ns, event);
        } else {
            self.tally.skipped_bytes += bytes;
        }
    }

    fn end(&mut self, place: u32, closed: &Closed) {
        if self.place == Some(place) {
            self.place = None;
            self.plan.sink.end(place, closed);
        }
    }
}

impl StreamReader for Follow {
    fn finish(&mut self) -> ReaderTally {
        self.tally.clone()
    }
}
