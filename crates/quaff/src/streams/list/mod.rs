//! A row for each TCP connection and each UDP conversation, in the order of their first packets.
//!
//! | module | task |
//! |---|---|
//! | `row` | the contents of a row |
//! | `order` | rows that wait for earlier ones |
//! | `unnamed` | conversations whose application is not known yet |
//!
//! The bytes are not kept, but the first ones of both sides, by which the application is recognized: all together up to
//! a limit, beyond which the longest-held conversation is named by what came before.

mod order;
mod row;
mod unnamed;

pub use row::{RowSink, StreamRow, StreamSide};

use super::protocol::StreamProtocol;
use crate::output::{ReaderTally, StreamReader};
use order::Order;
use quaff_flow::{QuicBudget, Recognizer};
use quaff_os::{Reason, Stop};
use quaff_stream::tracker::{CloseReason, Closed, ConnectionSink, Opened, UdpPayload};
use quaff_stream::{Event, Sender};
use row::Listed;
use unnamed::{Holder, Unnamed};

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
    unnamed: Unnamed,
    /// Ends the run when no more rows are wanted.
    stop: Stop,
    tally: ReaderTally,
}

impl List {
    pub(super) fn new(plan: ListPlan, stop: Stop) -> Self {
        Self {
            rows: plan.rows,
            stop,
            open: [Vec::new(), Vec::new()],
            order: Order::default(),
            budget: QuicBudget::default(),
            unnamed: Unnamed::default(),
            tally: ReaderTally::default(),
        }
    }

    fn begin_at(&mut self, protocol: StreamProtocol, place: u32, opened: &Opened) {
        let (all, place) = (&mut self.open[protocol.index()], place as usize);
        if all.len() <= place {
            all.resize_with(place + 1, || None);
        }
        let listed = Listed::new(self.order.begin(), protocol, opened);
        let recognizer = Some(Recognizer::new(protocol.ip_number(), listed.ports()));
        all[place] = Some(Open { listed, recognizer, held_bytes: 0 });
    }

    fn open(&mut self, protocol: StreamProtocol, place: u32) -> Option<&mut Open> {
        self.open[protocol.index()].get_mut(place as usize)?.as_mut()
    }

    /// Shows bytes of a side to the recognizer.
    fn recognize(
        &mut self,
        protocol: StreamProtocol,
        place: u32,
        (sender, time_ns): (Sender, u64),
        bytes: &[u8],
    ) {
        let Some(Some(open)) = self.open[protocol.index()].get_mut(place as usize) else { return };
        let is_client = open.listed.is_client(sender);
        if let Some(recognizer) = &mut open.recognizer {
            recognizer.add(is_client, bytes, time_ns, &mut self.budget);
            self.settle(protocol, place);
        }
    }

    /// Shows no more bytes of a side to the recognizer.
    fn close(&mut self, protocol: StreamProtocol, place: u32, sender: Sender) {
        let Some(open) = self.open(protocol, place) else { return };
        let is_client = open.listed.is_client(sender);
        if let Some(recognizer) = &mut open.recognizer {
            recognizer.close(is_client);
            self.settle(protocol, place);
        }
    }

    /// Counts the bytes that a conversation holds; names it when more change nothing, and the longest-held ones when
    /// all hold too many.
    fn settle(&mut self, protocol: StreamProtocol, place: u32) {
        let Some(Some(open)) = self.open[protocol.index()].get_mut(place as usize) else { return };
        let (holder, before) = (open.holder(protocol, place), open.held_bytes);
        open.settle();
        self.unnamed.change(holder, before, open.held_bytes);
        while let Some(longest) = self.unnamed.pop_beyond_limit() {
            self.name(longest);
        }
        let open = &self.open;
        self.unnamed.tidy(|holder| {
            let at = open[holder.protocol.index()].get(holder.place as usize).and_then(Option::as_ref);
            at.is_some_and(|open| open.is_held_as(holder))
        });
    }

    /// Names a conversation by what has come, if it holds bytes.
    fn name(&mut self, holder: Holder) {
        let open = self.open[holder.protocol.index()].get_mut(holder.place as usize).and_then(Option::as_mut);
        if let Some(open) = open.filter(|open| open.is_held_as(&holder)) {
            let before = open.held_bytes;
            open.name();
            self.unnamed.change(holder, before, 0);
        }
    }

    /// Ends a conversation: its row follows those of earlier ones.
    fn end_with(&mut self, protocol: StreamProtocol, place: u32, row: impl FnOnce(&Listed) -> StreamRow) {
        let open = self.open[protocol.index()].get_mut(place as usize).and_then(Option::take);
        let Some(mut open) = open else { return };
        let (holder, before) = (open.holder(protocol, place), open.held_bytes);
        open.name();
        self.unnamed.change(holder, before, 0);
        self.tally.connections += 1;
        let (rows, stop) = (&mut self.rows, &self.stop);
        self.order.end(open.listed.order, row(&open.listed), |row| {
            if !rows.row(&row) {
                stop.raise(Reason::OutputClosed);
            }
        });
    }
}

impl Open {
    fn holder(&self, protocol: StreamProtocol, place: u32) -> Holder {
        Holder { protocol, place, order: self.listed.order }
    }

    /// Returns true if it is this conversation, and holds bytes.
    fn is_held_as(&self, holder: &Holder) -> bool {
        self.held_bytes > 0 && self.listed.order == holder.order
    }

    /// Names the application if more bytes change nothing; otherwise counts what is held.
    fn settle(&mut self) {
        match &self.recognizer {
            Some(recognizer) if !recognizer.is_full() => self.held_bytes = recognizer.held_bytes(),
            _ => self.name(),
        }
    }

    /// Names the application by what has come, and holds nothing.
    fn name(&mut self) {
        if let Some(recognizer) = self.recognizer.take() {
            self.listed.application = recognizer.application();
        }
        self.held_bytes = 0;
    }
}

impl ConnectionSink for List {
    fn begin(&mut self, place: u32, opened: &Opened) {
        self.begin_at(StreamProtocol::Tcp, place, opened);
    }

    fn client(&mut self, place: u32, client: Sender) {
        let Some(open) = self.open(StreamProtocol::Tcp, place) else { return };
        if open.listed.set_client(client)
            && let Some(recognizer) = &mut open.recognizer
        {
            recognizer.swap_sides();
        }
    }

    fn event(&mut self, place: u32, sender: Sender, time_ns: u64, event: Event) {
        const TCP: StreamProtocol = StreamProtocol::Tcp;
        let Some(open) = self.open(TCP, place) else { return };
        open.listed.note(sender, &event);
        match event {
            Event::Data { bytes, .. } => {
                self.tally.bytes += bytes.len() as u64;
                self.recognize(TCP, place, (sender, time_ns), bytes);
            }
            Event::Urgent { byte, .. } => {
                self.tally.bytes += 1;
                self.recognize(TCP, place, (sender, time_ns), &[byte]);
            }
            Event::Gap { .. } | Event::End { .. } => self.close(TCP, place, sender),
            Event::Difference(_) => {}
        }
    }

    fn end(&mut self, place: u32, closed: &Closed) {
        self.end_with(StreamProtocol::Tcp, place, |listed| listed.tcp_row(closed));
    }

    fn begin_udp(&mut self, place: u32, opened: &Opened) {
        self.begin_at(StreamProtocol::Udp, place, opened);
    }

    fn datagram(&mut self, place: u32, sender: Sender, time_ns: u64, payload: UdpPayload) {
        const UDP: StreamProtocol = StreamProtocol::Udp;
        let Some(open) = self.open(UDP, place) else { return };
        open.listed.note_datagram(sender, payload);
        self.tally.cut_bytes += payload.cut_bytes();
        self.recognize(UDP, place, (sender, time_ns), payload.bytes);
        if payload.cut_bytes() > 0 {
            self.close(UDP, place, sender);
        }
    }

    fn end_udp(&mut self, place: u32, last_ns: u64, reason: CloseReason) {
        self.end_with(StreamProtocol::Udp, place, |listed| listed.udp_row(last_ns, reason));
    }
}

impl StreamReader for List {
    fn finish(&mut self) -> ReaderTally {
        let (rows, mut is_wanted) = (&mut self.rows, true);
        self.order.finish(|row| is_wanted = is_wanted && rows.row(&row));
        self.rows.finish();
        debug_assert!(self.unnamed.is_empty(), "{:?}", self.unnamed);
        self.tally.clone()
    }
}
