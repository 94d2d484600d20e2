//! A row for each TCP connection and each UDP conversation, in the order of their first packets.
//!
//! | module | task |
//! |---|---|
//! | `row` | the contents of a row |
//! | `order` | rows that wait for earlier ones |
//!
//! The bytes are not kept, but the first ones of both sides, by which the application is recognized: all together up to
//! a limit, beyond which a conversation is named by what came before.

mod order;
mod row;

pub use row::{RowSink, StreamRow, StreamSide};

use crate::output::{ReaderTally, StreamReader};
use order::Order;
use quaff_flow::{QuicBudget, Recognizer};
use quaff_stream::tracker::{CloseReason, Closed, ConnectionSink, Opened, UdpPayload};
use quaff_stream::{Event, Sender};
use quaff_wire::net::{TCP, UDP};
use row::Listed;

/// Bytes kept of all conversations whose application is not known yet.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The destination of the rows.
pub struct ListPlan {
    pub rows: Box<dyn RowSink + Send>,
}

/// A conversation in the table.
struct Open {
    listed: Listed,
    recognizer: Option<Recognizer>,
    /// Bytes that the recognizer keeps, as they are counted.
    held_bytes: usize,
}

/// The reader that makes rows.
pub(super) struct List {
    rows: Box<dyn RowSink + Send>,
    /// By place: connections of TCP, conversations of UDP.
    open: [Vec<Option<Open>>; 2],
    order: Order<StreamRow>,
    budget: QuicBudget,
    held_bytes: usize,
    tally: ReaderTally,
}

/// Index of the conversations of a protocol.
const TCP_AT: usize = 0;
const UDP_AT: usize = 1;

impl List {
    pub(super) fn new(plan: ListPlan) -> Self {
        Self {
            rows: plan.rows,
            open: [Vec::new(), Vec::new()],
            order: Order::default(),
            budget: QuicBudget::default(),
            held_bytes: 0,
            tally: ReaderTally::default(),
        }
    }

    fn begin_at(&mut self, at: usize, place: u32, opened: &Opened) {
        let (all, place) = (&mut self.open[at], place as usize);
        if all.len() <= place {
            all.resize_with(place + 1, || None);
        }
        let protocol = if at == TCP_AT { TCP } else { UDP };
        let listed = Listed::new(self.order.begin(), protocol, opened);
        let recognizer = Some(Recognizer::new(protocol, listed.ports()));
        all[place] = Some(Open { listed, recognizer, held_bytes: 0 });
    }

    fn open(&mut self, at: usize, place: u32) -> Option<&mut Open> {
        self.open[at].get_mut(place as usize)?.as_mut()
    }

    /// Shows bytes of a side to the recognizer, and ends it when more change nothing or there is no room.
    fn recognize(&mut self, at: usize, place: u32, sender: Sender, time_ns: u64, bytes: &[u8]) {
        let Some(Some(open)) = self.open[at].get_mut(place as usize) else { return };
        let Some(recognizer) = &mut open.recognizer else { return };
        recognizer.add(open.listed.is_client(sender), bytes, time_ns, &mut self.budget);
        let held_bytes = recognizer.held_bytes();
        self.held_bytes = self.held_bytes - open.held_bytes + held_bytes;
        open.held_bytes = held_bytes;
        if recognizer.is_full() || self.held_bytes > HELD_BYTES_MAX {
            self.held_bytes -= open.name();
        }
    }

    /// Ends a conversation: its row follows those of earlier ones.
    fn end_with(&mut self, at: usize, place: u32, row: impl FnOnce(&Listed) -> StreamRow) {
        let Some(mut open) = self.open[at].get_mut(place as usize).and_then(Option::take) else { return };
        self.held_bytes -= open.name();
        self.tally.connections += 1;
        let rows = &mut self.rows;
        self.order.end(open.listed.order, row(&open.listed), |row| rows.row(&row));
    }
}

impl Open {
    /// Names the application by what has come. Returns the bytes that are no longer kept.
    fn name(&mut self) -> usize {
        if let Some(recognizer) = self.recognizer.take() {
            self.listed.application = recognizer.application();
        }
        std::mem::take(&mut self.held_bytes)
    }
}

impl ConnectionSink for List {
    fn begin(&mut self, place: u32, opened: &Opened) {
        self.begin_at(TCP_AT, place, opened);
    }

    fn event(&mut self, place: u32, sender: Sender, time_ns: u64, event: Event) {
        let Some(open) = self.open(TCP_AT, place) else { return };
        open.listed.note(sender, &event);
        match event {
            Event::Data { bytes, .. } => {
                self.tally.bytes += bytes.len() as u64;
                self.recognize(TCP_AT, place, sender, time_ns, bytes);
            }
            Event::Urgent { .. } => self.tally.bytes += 1,
            Event::Gap { .. } | Event::Difference(_) | Event::End { .. } => {}
        }
    }

    fn end(&mut self, place: u32, closed: &Closed) {
        self.end_with(TCP_AT, place, |listed| listed.tcp_row(closed));
    }

    fn begin_udp(&mut self, place: u32, opened: &Opened) {
        self.begin_at(UDP_AT, place, opened);
    }

    fn datagram(&mut self, place: u32, sender: Sender, time_ns: u64, payload: UdpPayload) {
        let Some(open) = self.open(UDP_AT, place) else { return };
        open.listed.note_datagram(sender, payload);
        self.tally.cut_bytes += payload.cut_bytes();
        self.recognize(UDP_AT, place, sender, time_ns, payload.bytes);
    }

    fn end_udp(&mut self, place: u32, last_ns: u64, reason: CloseReason) {
        self.end_with(UDP_AT, place, |listed| listed.udp_row(last_ns, reason));
    }
}

impl StreamReader for List {
    fn finish(&mut self) -> ReaderTally {
        let rows = &mut self.rows;
        self.order.finish(|row| rows.row(&row));
        self.rows.finish();
        debug_assert_eq!(self.held_bytes, 0);
        self.tally.clone()
    }
}
