//! One side of an HTTP connection: turns bytes in order into heads and bodies.

use super::head::{Framing, HEAD_BYTES_MAX, HttpHead, chunk_bytes};
use super::message::{HttpEvent, HttpMessage, HttpSink, HttpTally, Pending};
use crate::event::Sender;
use quaff_wire::application::preface::{MESSAGE_BYTES_MAX, proxy_bytes};

/// Maximum length of a line, bytes; of a longer one the beginning is kept, and the last bytes, where a request has its
/// version.
const LINE_BYTES_MAX: usize = 16 << 10;
const LINE_END_BYTES: usize = 32;
/// Bytes after which the search for a start line is abandoned.
const SEARCH_BYTES_MAX: u64 = 256 << 10;

/// The parser state of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// Expects a header of a proxy, or a start line.
    #[default]
    Preface,
    /// Expects a start line.
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

/// A change of protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// After CONNECT: HTTP may follow, or any other protocol.
    Connect,
    /// After Upgrade.
    Upgrade,
}

/// The state of a side.
#[derive(Debug, Default)]
pub(super) struct Half {
    phase: Phase,
    /// An incomplete line.
    line: Vec<u8>,
    /// The last bytes of a line above the limit.
    line_end: Vec<u8>,
    /// True before the first message in a tunnel of CONNECT.
    begins_inside: bool,
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
    /// The protocol changes here, on both sides.
    pub(super) tunnel: Option<Tunnel>,
}

impl Half {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Tunnel | Phase::Abandoned)
    }

    pub(super) fn begin_tunnel(&mut self, tunnel: Tunnel) {
        let begins_inside = tunnel == Tunnel::Connect;
        let phase = if begins_inside { Phase::Preface } else { Phase::Tunnel };
        *self = Self { phase, begins_inside, messages: self.messages, ..Self::default() };
    }

    /// Adds bytes up to the end of a line; returns the bytes used, and the rest if the line is complete.
    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> (usize, Option<&'b [u8]>) {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(bytes.len());
        let (kept, beyond) = bytes[..taken].split_at(taken.min(LINE_BYTES_MAX - self.line.len()));
        self.line.extend_from_slice(kept);
        if !beyond.is_empty() {
            self.line_end.extend_from_slice(&beyond[beyond.len().saturating_sub(LINE_END_BYTES)..]);
            let excess = self.line_end.len().saturating_sub(LINE_END_BYTES);
            self.line_end.drain(..excess);
        }
        match end {
            Some(end) => (end + 1, Some(&bytes[end + 1..])),
            None => (taken, None),
        }
    }

    fn clear_line(&mut self) {
        self.line.clear();
        self.line_end.clear();
    }
}

/// A line without its end.
#[derive(Debug, Clone, Copy)]
struct HeadLine<'a> {
    text: &'a [u8],
    /// The last bytes of a line above the limit, otherwise empty.
    end: &'a [u8],
}

impl HeadLine<'_> {
    fn is_cut(&self) -> bool {
        !matches!(self.end, [] | [b'\r'])
    }

    /// The head that starts with this line.
    fn head(&self, is_known: bool) -> Option<HttpHead> {
        match self.is_cut() {
            true => HttpHead::start_of_cut(self.text, self.end, is_known),
            false => HttpHead::start(self.text, is_known),
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
            Phase::Preface => self.step_preface(bytes),
            _ => self.step_line(bytes),
        }
    }

    /// Skips a header of a proxy. Bytes that may be part of one are held in the line, and count as skipped meanwhile.
    fn step_preface<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let held = self.half.line.len();
        let added = bytes.len().min(MESSAGE_BYTES_MAX.saturating_sub(held));
        if held > 0 {
            self.half.line.extend_from_slice(&bytes[..added]);
        }
        let known = if held > 0 { &self.half.line[..] } else { bytes };
        match proxy_bytes(known) {
            Some(0) => {
                self.half.line.extend_from_slice(if held > 0 { &[] } else { &bytes[..added] });
                self.tally.skipped_bytes += bytes.len() as u64;
                &[]
            }
            Some(length) => {
                self.half.line.clear();
                self.tally.skipped_bytes += (length - held) as u64;
                &bytes[length - held..]
            }
            None => {
                let is_message = known[0].is_ascii_uppercase();
                let is_other = self.half.begins_inside && !is_message;
                self.half.phase = if is_other { Phase::Tunnel } else { Phase::Start };
                let mut line = std::mem::take(&mut self.half.line);
                line.truncate(held);
                self.tally.skipped_bytes -= held as u64;
                let mut rest = &line[..];
                while !rest.is_empty() {
                    rest = self.step(rest);
                }
                bytes
            }
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
            let (text, end) = (std::mem::take(&mut self.half.line), std::mem::take(&mut self.half.line_end));
            self.line(HeadLine { text: text.strip_suffix(b"\r").unwrap_or(&text), end: &end });
            (self.half.line, self.half.line_end) = (text, end);
            self.half.clear_line();
        }
        if matches!(self.half.phase, Phase::Search(skipped) if skipped > SEARCH_BYTES_MAX) {
            self.abandon();
        }
        rest.unwrap_or_default()
    }

    fn line(&mut self, whole: HeadLine) {
        let line = whole.text;
        match self.half.phase {
            Phase::Search(_) => self.search(whole),
            Phase::Start => self.start(whole),
            Phase::Fields if line.is_empty() => self.end_head(),
            Phase::Fields => {
                if let Some(message) = &mut self.half.message {
                    message.head.add(line, whole.is_cut());
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
    fn start(&mut self, line: HeadLine) {
        if line.text.is_empty() {
            return;
        }
        match line.head(false) {
            Some(head) => self.begin(head),
            None if self.half.begins_inside => self.half.phase = Phase::Tunnel,
            None => {
                // The first line of a side that is not HTTP is not damage.
                self.tally.malformed += u64::from(self.half.messages > 0);
                self.half.phase = Phase::Search(0);
            }
        }
    }

    fn search(&mut self, line: HeadLine) {
        let Some(head) = line.head(true) else { return };
        self.tally.resumed += 1;
        if head.status().is_some() {
            self.pending[self.sender.other().index()].keep_last();
        }
        self.begin(head);
    }

    fn begin(&mut self, head: HttpHead) {
        let number = self.half.messages + 1;
        let message = HttpMessage {
            number,
            head,
            body_bytes: 0,
            lost_bytes: 0,
            is_whole: false,
            is_head_cut: false,
            request: None,
        };
        self.half.begins_inside = false;
        self.half.message = Some(Box::new(message));
        self.half.phase = Phase::Fields;
    }

    /// Completes the head: finds the request of a response, and the length of the body.
    fn end_head(&mut self) {
        let Some(mut message) = self.half.message.take() else { return };
        self.half.messages += 1;
        message.is_head_cut = message.head.is_cut();
        self.tally.oversized += u64::from(message.is_head_cut);
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
                let is_connected = method == b"CONNECT" && (200..300).contains(&status);
                self.tunnel = match status {
                    101 => Some(Tunnel::Upgrade),
                    _ => is_connected.then_some(Tunnel::Connect),
                };
                let has_body = !(status < 200 || matches!(status, 204 | 304) || method == b"HEAD");
                if !has_body || self.tunnel.is_some() {
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
        self.half.clear_line();
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
            Phase::Search(_) => self.half.clear_line(),
            _ => {
                self.tally.malformed += u64::from(!matches!(self.half.phase, Phase::Preface | Phase::Start));
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

    /// Ends the side; `is_orderly`: with a FIN.
    pub(super) fn end(&mut self, is_orderly: bool) {
        match self.half.phase {
            Phase::UntilEnd if is_orderly => self.end_body(),
            Phase::UntilEnd => self.break_off(),
            Phase::Tunnel | Phase::Abandoned => return,
            Phase::Preface | Phase::Start | Phase::Search(_) => {}
            _ => {
                self.tally.malformed += 1;
                self.break_off();
            }
        }
        *self.half = Half { phase: Phase::Abandoned, messages: self.half.messages, ..Half::default() };
    }
}
