//! HTTP/1.x requests and responses in both directions of a connection (RFC 9112).
//!
//! | module | task |
//! |---|---|
//! | `head` | start line, header fields, and the body length that they declare |
//! | `message` | messages as events, and the requests that wait for a response |
//! | `half` | one side: heads, bodies, chunks, and the search for the next message after a gap |
//!
//! A response belongs to the oldest unanswered request. A gap inside a body of known length belongs to the body; after
//! any other gap the next start line is searched, and all requests but the last count as answered: a client that does
//! not pipeline waits for each response. Bodies are passed on as they arrive, without chunk framing; content encodings
//! are left as they are. Headers of proxies before the first message are skipped, and HTTP in a tunnel of CONNECT is
//! read; nothing is read after Upgrade.

mod half;
mod head;
mod message;

pub use head::HttpHead;
pub use message::{HttpEvent, HttpMessage, HttpSink, HttpTally, RequestLine};

use crate::event::{EndReason, Sender};
use half::Half;
use message::Pending;

/// The reader of a connection. It buffers at most some 160 KiB of heads per side.
#[derive(Debug, Default)]
pub struct HttpReader {
    halves: [Half; 2],
    /// Unanswered requests of each side.
    pending: [Pending; 2],
    tally: HttpTally,
}

impl HttpReader {
    /// Processes the next bytes of a side.
    pub fn data(&mut self, sender: Sender, bytes: &[u8], sink: HttpSink<'_>) {
        self.tally.seen_bytes += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.step(sender, rest, sink);
        }
    }

    /// Notes that `lost_bytes` bytes of a side are missing.
    pub fn gap(&mut self, sender: Sender, lost_bytes: u64, sink: HttpSink<'_>) {
        self.with(sender, sink).gap(lost_bytes);
    }

    /// Notes the end of a side. Only a FIN is the end of a body that lasts until the connection closes: after a reset,
    /// or where the capture ends first, bytes may be missing (RFC 9112, section 8).
    pub fn end(&mut self, sender: Sender, reason: EndReason, sink: HttpSink<'_>) {
        self.with(sender, sink).end(reason == EndReason::Fin);
    }

    /// The counters of both directions so far.
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
        if let Some(tunnel) = cx.tunnel {
            self.tally.tunnels += 2;
            self.with(sender.other(), sink).end(false);
            self.pending = Default::default();
            self.halves.iter_mut().for_each(|half| half.begin_tunnel(tunnel));
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
            tunnel: None,
        }
    }
}

#[cfg(test)]
mod tests;
