//! One side of an HTTP connection: turns bytes in order into heads and bodies.

use super::head::{Framing, HEAD_BYTES_MAX, HttpHead, chunk_bytes};
use super::message::{HttpEvent, HttpMessage, HttpSink, HttpTally, Pending};
use crate::event::Sender;

/// Maximum length of a head's line, bytes.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Bytes after which the search for a start line is abandoned.
const SEARCH_BYTES_MAX: u64 = 256 << 10;

/// The parser state of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// Expects a start line.
    #[default]
    Start,
    Fields,
    /// Remaining bytes of a body.
    Length(u64),
    UntilEnd,
    ChunkSize,
    Chunk(u64),
    /// Expects the line end after a chunk.
    ChunkEnd,
    /// Reads trailers, of which this number of bytes has arrived.
    Trailers(usize),
    /// Searches for a start line; holds the number of skipped bytes.
    Search(u64),
    /// Another protocol is spoken.
    Tunnel,
    Abandoned,
}

/// The state of a side.
#[derive(Debug, Default)]
pub(super) struct Half {
    phase: Phase,
    /// An incomplete line.
    line: Vec<u8>,
    line_is_long: bool,
    /// The message from its start line to the end of its body.
    message: Option<Box<HttpMessage>>,
    /// Number of messages with a complete head.
    messages: u64,
}

/// A side, and the state that it shares with the other one.
pub(super) struct Context<'a, 's> {
    pub(super) half: &'a mut Half,
    pub(super) pending: &'a mut [Pending; 2],
    pub(super) tally: &'a mut HttpTally,
    pub(super) sender: Sender,
    pub(super) sink: HttpSink<'s>,
    /// True if both sides are a tunnel from here on.
    pub(super) begins_tunnel: bool,
}

impl Half {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Tunnel | Phase::Abandoned)
    }

    pub(super) fn begin_tunnel(&mut self) {
        *self = Self { phase: Phase::Tunnel, messages: self.messages, ..Self::default() };
    }

    /// Adds bytes up to the end of a line; returns the bytes used, and the rest if the line is complete.
    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> (usize, Option<&'b [u8]>) {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(bytes.len());
        let room = LINE_BYTES_MAX - self.line.len();
        self.line_is_long |= taken > room;
        self.line.extend_from_slice(&bytes[..taken.min(room)]);
        match end {
            Some(end) => (end + 1, Some(&bytes[end + 1..])),
            None => (taken, None),
        }
    }
}

impl Context<'_, '_> {
    /// Processes one line or one part of a body, and returns the rest.
    pub(super) fn step<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        match self.half.phase {
            Phase::Length(left) | Phase::Chunk(left) => {
                let (taken, rest) =
                    bytes.split_at(bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
                self.body(taken);
                self.advance(left, taken.len() as u64);
                rest
            }
            Phase::UntilEnd => {
                self.body(bytes);
                &[]
            }
            Phase::Tunnel | Phase::Abandoned => {
                self.tally.skipped_bytes += bytes.len() as u64;
                &[]
            }
            _ => self.step_line(bytes),
        }
    }

    fn step_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (taken, rest) = self.half.take_line(bytes);
        match &mut self.half.phase {
            Phase::Search(skipped) => {
                *skipped += taken as u64;
                self.tally.skipped_bytes += taken as u64;
            }
            Phase::Start | Phase::Fields => self.tally.head_bytes += taken as u64,
            _ => self.tally.frame_bytes += taken as u64,
        }
        if rest.is_some() {
            let line = std::mem::take(&mut self.half.line);
            let is_long = std::mem::take(&mut self.half.line_is_long);
            self.line(line.strip_suffix(b"\r").unwrap_or(&line), is_long);
            self.half.line = line;
            self.half.line.clear();
        }
        if matches!(self.half.phase, Phase::Search(skipped) if skipped > SEARCH_BYTES_MAX) {
            self.abandon();
        }
        rest.unwrap_or_default()
    }

    fn line(&mut self, line: &[u8], is_long: bool) {
        match self.half.phase {
            Phase::Search(_) => self.search(line, is_long),
            _ if is_long => {
                let is_message = self.half.phase != Phase::Start || self.half.messages > 0;
                self.tally.oversized += u64::from(is_message);
                self.break_off();
            }
            Phase::Start => self.start(line),
            Phase::Fields if line.is_empty() => self.end_head(),
            Phase::Fields => {
                let added = self.half.message.as_mut().map(|message| message.head.add(line));
                if added.is_some_and(|added| added.is_err()) {
                    self.tally.oversized += 1;
                    self.break_off();
                }
            }
            Phase::ChunkSize => match chunk_bytes(line) {
                Some(0) => self.half.phase = Phase::Trailers(0),
                Some(bytes) => self.half.phase = Phase::Chunk(bytes),
                None => self.fail(),
            },
            Phase::ChunkEnd if line.is_empty() => self.half.phase = Phase::ChunkSize,
            Phase::ChunkEnd => self.fail(),
            Phase::Trailers(_) if line.is_empty() => self.end_body(),
            Phase::Trailers(bytes) if bytes > HEAD_BYTES_MAX => self.fail(),
            Phase::Trailers(bytes) => self.half.phase = Phase::Trailers(bytes + line.len() + 1),
            _ => {}
        }
    }

    /// Processes a start line. Empty lines before it are skipped (RFC 9112, section 2.2).
    fn start(&mut self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        match HttpHead::start(line, false) {
            Some(head) => self.begin(head),
            None => {
                // The first line of a side that is not HTTP is not damage.
                self.tally.malformed += u64::from(self.half.messages > 0);
                self.half.phase = Phase::Search(0);
            }
        }
    }

    fn search(&mut self, line: &[u8], is_long: bool) {
        let Some(head) = HttpHead::start(line, true).filter(|_| !is_long) else { return };
        self.tally.resumed += 1;
        if head.status().is_some() {
            self.pending[self.sender.other().index()].keep_last();
        }
        self.begin(head);
    }

    fn begin(&mut self, head: HttpHead) {
        let number = self.half.messages + 1;
        let message =
            HttpMessage { number, head, body_bytes: 0, lost_bytes: 0, is_whole: false, request: None };
        self.half.message = Some(Box::new(message));
        self.half.phase = Phase::Fields;
    }

    /// Completes the head: finds the request of a response, and the length of the body.
    fn end_head(&mut self) {
        let Some(mut message) = self.half.message.take() else { return };
        self.half.messages += 1;
        let mut framing = message.head.framing();
        match message.head.status() {
            None => {
                self.tally.requests += 1;
                self.pending[self.sender.index()].push(&message);
                if message.head.method() == b"CONNECT" {
                    framing = Some(Framing::Length(0));
                }
            }
            Some(status) => {
                self.tally.responses += 1;
                let is_interim = (100..200).contains(&status) && status != 101;
                message.request = self.pending[self.sender.other().index()].answered(is_interim);
                self.tally.unpaired += u64::from(message.request.is_none());
                let method = message.request.as_ref().map_or(&[][..], |request| &request.method);
                self.begins_tunnel = status == 101 || method == b"CONNECT" && (200..300).contains(&status);
                let has_body = !(status < 200 || matches!(status, 204 | 304) || method == b"HEAD");
                if !has_body || self.begins_tunnel {
                    framing = Some(Framing::Length(0));
                }
            }
        }
        (self.sink)(self.sender, HttpEvent::Head(&message));
        self.half.message = Some(message);
        match framing {
            Some(Framing::Length(0)) => self.end_body(),
            Some(Framing::Length(bytes)) => self.half.phase = Phase::Length(bytes),
            Some(Framing::Chunked) => self.half.phase = Phase::ChunkSize,
            Some(Framing::UntilEnd) => self.half.phase = Phase::UntilEnd,
            None => {
                self.half.phase = Phase::UntilEnd;
                self.fail();
            }
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        self.tally.body_bytes += bytes.len() as u64;
        if let Some(message) = self.half.message.as_mut().filter(|_| !bytes.is_empty()) {
            message.body_bytes += bytes.len() as u64;
            (self.sink)(self.sender, HttpEvent::Body(message, bytes));
        }
    }

    /// Subtracts bytes that arrived, or are missing, from the `left` bytes of a body.
    fn advance(&mut self, left: u64, bytes: u64) {
        let is_chunk = matches!(self.half.phase, Phase::Chunk(_));
        match (left - bytes, is_chunk) {
            (0, true) => self.half.phase = Phase::ChunkEnd,
            (0, false) => self.end_body(),
            (left, true) => self.half.phase = Phase::Chunk(left),
            (left, false) => self.half.phase = Phase::Length(left),
        }
    }

    /// Ends a body after its last byte, or after a gap in its place.
    fn end_body(&mut self) {
        self.half.phase = Phase::Start;
        if let Some(mut message) = self.half.message.take() {
            message.is_whole = message.lost_bytes == 0;
            (self.sink)(self.sender, HttpEvent::End(&message));
        }
    }

    /// Handles invalid framing of a message.
    fn fail(&mut self) {
        self.tally.malformed += 1;
        self.break_off();
    }

    /// Ends a message early, and searches for the next one.
    fn break_off(&mut self) {
        let has_head = self.has_head();
        self.half.phase = Phase::Search(0);
        self.half.line.clear();
        self.half.line_is_long = false;
        if let Some(message) = self.half.message.take().filter(|_| has_head) {
            (self.sink)(self.sender, HttpEvent::End(&message));
        }
    }

    /// True inside a message whose head was passed on.
    fn has_head(&self) -> bool {
        self.half.message.is_some() && self.half.phase != Phase::Fields
    }

    fn abandon(&mut self) {
        self.tally.abandoned += 1;
        *self.half = Half { phase: Phase::Abandoned, messages: self.half.messages, ..Half::default() };
    }

    pub(super) fn gap(&mut self, lost_bytes: u64) {
        match self.half.phase {
            Phase::Length(left) | Phase::Chunk(left) => {
                self.lose(lost_bytes.min(left));
                match lost_bytes <= left {
                    true => self.advance(left, lost_bytes),
                    false => self.break_off(),
                }
            }
            Phase::UntilEnd => self.lose(lost_bytes),
            Phase::Tunnel | Phase::Abandoned => {}
            Phase::Search(_) => {
                self.half.line.clear();
                self.half.line_is_long = false;
            }
            _ => {
                self.tally.malformed += u64::from(self.half.phase != Phase::Start);
                self.break_off();
            }
        }
    }

    fn lose(&mut self, bytes: u64) {
        if let Some(message) = self.half.message.as_mut() {
            message.lost_bytes = message.lost_bytes.saturating_add(bytes);
            (self.sink)(self.sender, HttpEvent::Gap(message, bytes));
        }
    }

    pub(super) fn end(&mut self) {
        match self.half.phase {
            Phase::UntilEnd => self.end_body(),
            Phase::Tunnel | Phase::Abandoned => return,
            Phase::Start | Phase::Search(_) => {}
            _ => {
                self.tally.malformed += 1;
                self.break_off();
            }
        }
        *self.half = Half { phase: Phase::Abandoned, messages: self.half.messages, ..Half::default() };
    }
}
