//! A row for each TCP connection and each UDP conversation, in the order of their first packets.
//!
//! | module | task |
//! |---|---|
//! | `row` | the contents of a row |
//! | `search` | the search for a pattern in streams |
//! | `order` | rows that wait for earlier ones |
//! | `unnamed` | conversations whose application is not known yet |
//!
//! The bytes are not kept, but the first ones of both sides, by which the application is recognized: all together up to
//! a limit, beyond which the longest-held conversation is named by what came before. With a pattern, only the rows of
//! conversations that match it are passed on; their numbers are those of all.

mod order;
mod row;
mod search;
mod unnamed;

pub use row::{RowSink, StreamMatch, StreamRow, StreamSide};

use super::protocol::StreamProtocol;
use crate::output::{ReaderTally, StreamReader};
use crate::pattern::Pattern;
use crate::{Error, Result};
use order::Order;
use quaff_flow::{QuicBudget, Recognizer};
use quaff_os::{Reason, Stop};
use quaff_stream::tracker::{CloseReason, Closed, ConnectionSink, Opened, UdpPayload};
use quaff_stream::{Event, Sender};
use row::Listed;
use search::{Searched, Searcher};
use unnamed::{Holder, Unnamed};

/// The destination of the rows.
pub struct ListPlan {
    pub rows: Box<dyn RowSink + Send>,
    /// Rows are those of conversations in which a side matches: TCP across segments, UDP in a datagram.
    pub pattern: Option<Pattern>,
}

/// A conversation in the table.
struct Open {
    listed: Listed,
    recognizer: Option<Recognizer>,
    /// Bytes that the recognizer keeps, as they are counted.
    held_bytes: usize,
    /// The search in the streams of A and B; none of UDP, or without a pattern.
    searched: Option<Box<[Searched; 2]>>,
}

/// The reader that makes rows.
pub(super) struct List {
    rows: Box<dyn RowSink + Send>,
    /// By place: connections of TCP, conversations of UDP.
    open: [Vec<Option<Open>>; 2],
    /// Without the row of a conversation that does not match.
    order: Order<Option<StreamRow>>,
    searcher: Option<Searcher>,
    budget: QuicBudget,
    unnamed: Unnamed,
    /// Ends the run when no more rows are wanted.
    stop: Stop,
    tally: ReaderTally,
}

impl List {
    pub(super) fn new(plan: ListPlan, stop: Stop) -> Result<Self> {
        let searcher = plan.pattern.map(Searcher::new).transpose().map_err(Error::Plan)?;
        Ok(Self {
            rows: plan.rows,
            stop,
            open: [Vec::new(), Vec::new()],
            order: Order::default(),
            searcher,
            budget: QuicBudget::default(),
            unnamed: Unnamed::default(),
            tally: ReaderTally::default(),
        })
    }

    fn begin_at(&mut self, protocol: StreamProtocol, place: u32, opened: &Opened) {
        let (all, place) = (&mut self.open[protocol.index()], place as usize);
        if all.len() <= place {
            all.resize_with(place + 1, || None);
        }
        let listed = Listed::new(self.order.begin(), protocol, opened);
        let recognizer = Some(Recognizer::new(protocol.ip_number(), listed.ports()));
        let is_searched = self.searcher.is_some() && protocol == StreamProtocol::Tcp;
        let searched = is_searched.then(Box::default);
        all[place] = Some(Open { listed, recognizer, held_bytes: 0, searched });
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

    /// Searches a side of a connection, if there is a pattern.
    fn search(&mut self, place: u32, sender: Sender, search: impl FnOnce(&mut Searcher, &mut Searched)) {
        let open = self.open[StreamProtocol::Tcp.index()].get_mut(place as usize).and_then(Option::as_mut);
        let searched = open.and_then(|open| open.searched.as_mut());
        if let (Some(searcher), Some(searched)) = (&mut self.searcher, searched) {
            search(searcher, &mut searched[sender.index()]);
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
        if let Some(searcher) = &mut self.searcher {
            open.end_search(searcher);
        }
        let is_listed = self.searcher.is_none() || open.listed.has_match();
        self.tally.listed += u64::from(is_listed);
        let (rows, stop) = (&mut self.rows, &self.stop);
        self.order.end(open.listed.order, is_listed.then(|| row(&open.listed)), |row| {
            if row.is_some_and(|row| !rows.row(&row)) {
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

    /// Ends the search in both streams.
    fn end_search(&mut self, searcher: &mut Searcher) {
        let Some(mut searched) = self.searched.take() else { return };
        for sender in [Sender::A, Sender::B] {
            self.listed.search(sender, || searcher.finish(&mut searched[sender.index()]));
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
            Event::Data { offset, bytes } => {
                self.tally.bytes += bytes.len() as u64;
                self.recognize(TCP, place, (sender, time_ns), bytes);
                self.search(place, sender, |searcher, stream| searcher.add(stream, offset, bytes));
            }
            Event::Urgent { offset, byte } => {
                self.tally.bytes += 1;
                self.recognize(TCP, place, (sender, time_ns), &[byte]);
                self.search(place, sender, |searcher, stream| searcher.add(stream, offset, &[byte]));
            }
            Event::Gap { offset, lost_bytes, .. } => {
                self.close(TCP, place, sender);
                self.search(place, sender, |searcher, stream| searcher.gap(stream, offset + lost_bytes));
            }
            Event::End { .. } => self.close(TCP, place, sender),
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
        let Some(Some(open)) = self.open[UDP.index()].get_mut(place as usize) else { return };
        open.listed.note_datagram(sender, payload);
        if let Some(searcher) = &self.searcher {
            open.listed.search(sender, || searcher.find_in_datagram(payload.bytes));
        }
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
        self.order.finish(|row| is_wanted = is_wanted && row.is_none_or(|row| rows.row(&row)));
        self.rows.finish();
        self.tally.searched_in_part = self.searcher.as_ref().map_or(0, Searcher::searched_in_part);
        debug_assert!(self.unnamed.is_empty(), "{:?}", self.unnamed);
        self.tally.clone()
    }
}
