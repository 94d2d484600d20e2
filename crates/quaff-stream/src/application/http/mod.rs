//! Requests and responses of HTTP/1.x in what both sides of a connection sent (RFC 9112).
//!
//! | module | task |
//! |---|---|
//! | `head` | start line, header, and the length of the body that they announce |
//! | `half` | one side: heads, bodies, chunks, and the search for a message after a gap |
//!
//! A response belongs to the oldest request that has none. A gap within a body whose length is known is one of the
//! body; after any other one the next start line is searched, and the requests before the last one are taken as
//! answered: a client that does not pipeline waits for each response. Bodies are passed on as they come, without the
//! frames of chunks; encodings of their content are left. After CONNECT and Upgrade nothing is read.

mod half;
mod head;

pub use head::HttpHead;

use crate::event::Sender;
use half::Half;
use std::collections::VecDeque;

/// Requests of a connection that wait for their responses, and the bytes of their lines.
const PENDING_MAX: usize = 256;
const PENDING_BYTES_MAX: usize = 64 << 10;

/// A message, with what is known of it so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpMessage {
    /// Among the messages of its sender, from 1 on.
    pub number: u64,
    pub head: HttpHead,
    /// Bytes of the body that came, without the frames of chunks.
    pub body_bytes: u64,
    /// Bytes of the body that are missing, as far as that is known.
    pub lost_bytes: u64,
    /// The body has come to its last byte.
    pub is_whole: bool,
    /// The request of a response, if it is known.
    pub request: Option<RequestLine>,
}

/// The request that a response answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestLine {
    /// As that of its message.
    pub number: u64,
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub host: Vec<u8>,
}

/// A part of a message. A message has one `Head`, then parts of its body, then one `End`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpEvent<'a> {
    Head(&'a HttpMessage),
    /// The next bytes of the body.
    Body(&'a HttpMessage, &'a [u8]),
    /// So many bytes of the body are missing here, or more if its end is missing too.
    Gap(&'a HttpMessage, u64),
    End(&'a HttpMessage),
}

/// The function that takes what is found in the bytes of a side.
pub type HttpSink<'a> = &'a mut dyn FnMut(Sender, HttpEvent<'_>);

/// Counters of a connection, or of many. Each byte has one fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpTally {
    pub requests: u64,
    pub responses: u64,
    /// Responses without a known request.
    pub unpaired: u64,
    /// Messages that broke off, or whose frames make no sense.
    pub malformed: u64,
    /// Messages whose head was too long.
    pub oversized: u64,
    /// Searches for a message that found one.
    pub resumed: u64,
    /// Sides that are not HTTP, or in which no message was found again.
    pub abandoned: u64,
    /// Sides that something else is spoken on after CONNECT or Upgrade.
    pub tunnels: u64,
    pub seen_bytes: u64,
    pub head_bytes: u64,
    pub body_bytes: u64,
    /// Sizes and ends of chunks, trailers.
    pub frame_bytes: u64,
    /// Bytes that are no part of a message.
    pub skipped_bytes: u64,
}

impl HttpTally {
    /// Returns true if each byte that was seen has a fate.
    pub fn is_balanced(&self) -> bool {
        self.seen_bytes == self.head_bytes + self.body_bytes + self.frame_bytes + self.skipped_bytes
    }

    /// Adds the counters of another connection.
    pub fn add(&mut self, other: &Self) {
        let Self { requests, responses, unpaired, malformed, oversized, resumed, abandoned, tunnels, .. } =
            *other;
        self.requests += requests;
        self.responses += responses;
        self.unpaired += unpaired;
        self.malformed += malformed;
        self.oversized += oversized;
        self.resumed += resumed;
        self.abandoned += abandoned;
        self.tunnels += tunnels;
        self.seen_bytes += other.seen_bytes;
        self.head_bytes += other.head_bytes;
        self.body_bytes += other.body_bytes;
        self.frame_bytes += other.frame_bytes;
        self.skipped_bytes += other.skipped_bytes;
    }
}

/// The requests of a side that have no response.
#[derive(Debug, Default)]
struct Pending {
    requests: VecDeque<RequestLine>,
    bytes: usize,
    /// There were too many: which response belongs to which is not known any more.
    is_lost: bool,
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
    fn push(&mut self, message: &HttpMessage) {
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

    /// The request of the next response; after an interim one it stays.
    fn answered(&mut self, is_interim: bool) -> Option<RequestLine> {
        if is_interim {
            return self.requests.front().cloned();
        }
        let request = self.requests.pop_front()?;
        self.bytes -= request.bytes();
        Some(request)
    }

    /// Responses are missing: all but the last request have had theirs.
    fn keep_last(&mut self) {
        while self.requests.len() > 1 {
            let _ = self.answered(false);
        }
    }
}

/// The reader of a connection. Some 160 KiB of heads wait for each side at most.
#[derive(Debug, Default)]
pub struct HttpReader {
    halves: [Half; 2],
    /// Requests of each side.
    pending: [Pending; 2],
    tally: HttpTally,
}

impl HttpReader {
    /// Takes the next bytes of a side.
    pub fn data(&mut self, sender: Sender, bytes: &[u8], sink: HttpSink<'_>) {
        self.tally.seen_bytes += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.step(sender, rest, sink);
        }
    }

    /// So many bytes of a side are missing.
    pub fn gap(&mut self, sender: Sender, lost_bytes: u64, sink: HttpSink<'_>) {
        self.with(sender, sink).gap(lost_bytes);
    }

    /// A side has ended.
    pub fn end(&mut self, sender: Sender, sink: HttpSink<'_>) {
        self.with(sender, sink).end();
    }

    /// The counters.
    pub fn tally(&self) -> &HttpTally {
        &self.tally
    }

    /// Returns true if no more messages will be found.
    pub fn is_over(&self) -> bool {
        self.halves.iter().all(Half::is_over)
    }

    fn step<'b>(&mut self, sender: Sender, bytes: &'b [u8], sink: HttpSink<'_>) -> &'b [u8] {
        let mut cx = self.with(sender, &mut *sink);
        let rest = cx.step(bytes);
        if cx.begins_tunnel {
            self.tally.tunnels += 2;
            self.with(sender.other(), sink).end();
            self.halves.iter_mut().for_each(Half::begin_tunnel);
        }
        rest
    }

    fn with<'a, 's>(&'a mut self, sender: Sender, sink: HttpSink<'s>) -> half::Context<'a, 's> {
        half::Context {
            half: &mut self.halves[sender.index()],
            pending: &mut self.pending,
            tally: &mut self.tally,
            sender,
            sink,
            begins_tunnel: false,
        }
    }
}

#[cfg(test)]
mod tests;
