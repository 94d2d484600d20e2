//! Messages of HTTP as events, their counters, and the requests that wait for a response.

use super::head::HttpHead;
use crate::event::Sender;
use quaff_wire::add_each;
use std::collections::VecDeque;

/// Limits of unanswered requests of a connection: number, and bytes of their request lines.
pub(super) const PENDING_MAX: usize = 256;
const PENDING_BYTES_MAX: usize = 64 << 10;

/// A message, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpMessage {
    /// Number among the messages of its sender, from 1.
    pub number: u64,
    pub head: HttpHead,
    /// Bytes of the body that arrived, without chunk framing.
    pub body_bytes: u64,
    /// Missing bytes of the body, as far as known.
    pub lost_bytes: u64,
    /// True once the last byte of the body has arrived.
    pub is_whole: bool,
    /// True if fields or lines of the head exceeded a limit: their ends are missing.
    pub is_head_cut: bool,
    /// The request of a response, if known.
    pub request: Option<RequestLine>,
}

/// The request that a response answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestLine {
    /// Number of the request, as in its message.
    pub number: u64,
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub host: Vec<u8>,
}

/// A part of a message: one `Head`, then parts of its body, then one `End`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpEvent<'a> {
    Head(&'a HttpMessage),
    /// The next bytes of the body.
    Body(&'a HttpMessage, &'a [u8]),
    /// Number of missing bytes of the body at this place; more if its end is missing, too.
    Gap(&'a HttpMessage, u64),
    End(&'a HttpMessage),
}

/// Receives the events of a side.
pub type HttpSink<'a> = &'a mut dyn FnMut(Sender, HttpEvent<'_>);

/// Counters of one connection or of many. Each byte is counted exactly once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpTally {
    pub requests: u64,
    pub responses: u64,
    /// Responses without a known request.
    pub unpaired: u64,
    /// Messages that were broken off, or have invalid framing.
    pub malformed: u64,
    /// Messages with a head above a limit, of which parts were dropped.
    pub oversized: u64,
    /// Searches that found a message.
    pub resumed: u64,
    /// Sides that are not HTTP, or on which no further message was found.
    pub abandoned: u64,
    /// Sides that began a tunnel after CONNECT, or switched to another protocol after Upgrade.
    pub tunnels: u64,
    pub seen_bytes: u64,
    pub head_bytes: u64,
    pub body_bytes: u64,
    /// Chunk sizes, chunk ends and trailers.
    pub frame_bytes: u64,
    /// Bytes outside of any message.
    pub skipped_bytes: u64,
}

impl HttpTally {
    /// True if every byte is counted exactly once.
    pub fn is_balanced(&self) -> bool {
        self.seen_bytes == self.head_bytes + self.body_bytes + self.frame_bytes + self.skipped_bytes
    }

    /// Adds the counters of another connection.
    pub fn add(&mut self, other: &Self) {
        add_each!(self, other;
            requests, responses, unpaired, malformed, oversized, resumed, abandoned, tunnels, seen_bytes,
            head_bytes, body_bytes, frame_bytes, skipped_bytes
        );
    }
}

/// The unanswered requests of a side.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) requests: VecDeque<RequestLine>,
    pub(super) bytes: usize,
    /// True after an overflow: responses can no longer be assigned to requests.
    pub(super) is_lost: bool,
}

impl RequestLine {
    fn new(message: &HttpMessage) -> Self {
        let head = &message.head;
        let host = head.field("host").unwrap_or_default();
        Self {
            number: message.number,
            method: head.method().to_vec(),
            target: head.target().to_vec(),
            host: host.to_vec(),
        }
    }

    fn bytes(&self) -> usize {
        self.method.len() + self.target.len() + self.host.len()
    }
}

impl Pending {
    pub(super) fn push(&mut self, message: &HttpMessage) {
        if self.is_lost {
            return;
        }
        let request = RequestLine::new(message);
        self.bytes += request.bytes();
        self.requests.push_back(request);
        if self.requests.len() > PENDING_MAX || self.bytes > PENDING_BYTES_MAX && self.requests.len() > 1 {
            *self = Self { is_lost: true, ..Self::default() };
        }
    }

    /// The request of the next response; an interim response does not consume it.
    pub(super) fn answered(&mut self, is_interim: bool) -> Option<RequestLine> {
        if is_interim {
            return self.requests.front().cloned();
        }
        let request = self.requests.pop_front()?;
        self.bytes -= request.bytes();
        Some(request)
    }

    /// Responses are missing: all requests but the last one count as answered.
    pub(super) fn keep_last(&mut self) {
        while self.requests.len() > 1 {
            let _ = self.answered(false);
        }
    }
}
