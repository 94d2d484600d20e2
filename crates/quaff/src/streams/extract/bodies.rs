//! Bodies of HTTP, each in a file of its own beside the streams, and their lines in the index.
//!
//! A file has the bytes of the body without the frames of chunks, encoded as they were sent; a gap is written as
//! nothing. Untrusted text is printable ASCII in the index: other bytes are `%XX`.

use super::files::{Files, Owner, StreamFile};
use super::objects::{Body, Object, Objects};
use crate::Error;
use crate::output::BodyTally;
use quaff_stream::application::http::{HttpEvent, HttpMessage, HttpReader, RequestLine};
use quaff_stream::{EndReason, Sender};
use serde::Serialize;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Gaps, differences and bodies of a stream that are listed.
pub(super) const LISTED_MAX: usize = 1000;

/// Bytes of an untrusted text that the index keeps.
const TEXT_BYTES_MAX: usize = 1024;
/// Sides of a connection: the owners of the files of bodies come after those of streams.
pub(super) const SIDES: usize = 2;

/// The bodies of a connection.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    reader: HttpReader,
    pub(super) sides: [BodySide; SIDES],
}

/// The bodies that one side sent.
#[derive(Debug, Default)]
pub(super) struct BodySide {
    /// The file of the message that has not ended.
    pub(super) file: StreamFile,
    /// The number of that message.
    pub(super) message: u64,
    /// The limit of files was reached in this message.
    is_refused: bool,
    pub(super) lines: Vec<BodyLine>,
    /// Bodies that the index does not list.
    pub(super) unlisted: u64,
}

/// The entry of a body in the index.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct BodyLine {
    message: u64,
    file: String,
    bytes: u64,
    lost_bytes: u64,
    whole: bool,
    status: Option<u16>,
    method: String,
    host: String,
    target: String,
    content_type: String,
    content_encoding: String,
    /// With the file of the object in the place of the body's, if objects are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Object>,
}

/// The state that connections share while bodies are written.
pub(super) struct BodyWriter<'a> {
    pub(super) files: &'a mut Files,
    pub(super) tally: &'a mut BodyTally,
    pub(super) objects: Option<&'a mut Objects>,
    /// Files that may still be made.
    pub(super) room: u64,
    pub(super) place: u32,
    /// Number of the connection.
    pub(super) number: u64,
    pub(super) ends: [SocketAddr; SIDES],
    /// The names of both streams.
    pub(super) names: &'a dyn Fn(Sender) -> String,
    /// Bytes that are left for lists, and bytes of new lines.
    pub(super) list_room: usize,
    pub(super) list_bytes: usize,
    pub(super) failure: Option<Error>,
}

/// The next step of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum BodyStep<'a> {
    Data(&'a [u8]),
    Gap(u64),
    End(EndReason),
}

impl Bodies {
    /// Takes the next step of a stream.
    pub(super) fn take(&mut self, sender: Sender, step: BodyStep, writer: &mut BodyWriter) {
        let Self { reader, sides } = self;
        let sink = &mut |sender: Sender, event: HttpEvent<'_>| {
            writer.event(sender, &mut sides[sender.index()], event);
        };
        match step {
            BodyStep::Data(bytes) => reader.data(sender, bytes, sink),
            BodyStep::Gap(lost_bytes) => reader.gap(sender, lost_bytes, sink),
            BodyStep::End(reason) => reader.end(sender, reason, sink),
        }
    }

    /// Memory of the lists of both sides, bytes.
    pub(super) fn list_bytes(&self) -> usize {
        self.sides.iter().flat_map(|side| &side.lines).map(BodyLine::memory_bytes).sum()
    }
}

impl BodyWriter<'_> {
    fn event(&mut self, sender: Sender, side: &mut BodySide, event: HttpEvent<'_>) {
        match event {
            HttpEvent::Head(message) => (side.message, side.is_refused) = (message.number, false),
            HttpEvent::Body(_, bytes) => self.put(sender, side, bytes),
            HttpEvent::Gap(..) => {}
            HttpEvent::End(message) => self.end(sender, side, message),
        }
    }

    fn put(&mut self, sender: Sender, side: &mut BodySide, bytes: &[u8]) {
        if side.file.bytes == 0 && !side.is_refused {
            side.is_refused = self.room == 0;
            self.tally.refused += u64::from(side.is_refused);
            if !side.is_refused {
                self.room -= 1;
                self.tally.files += 1;
            }
        }
        if side.is_refused || self.failure.is_some() {
            return;
        }
        self.tally.bytes += bytes.len() as u64;
        let (owner, name) = (self.owner(sender), || body_name(&(self.names)(sender), side.message));
        if let Err(error) = self.files.put(owner, &mut side.file, bytes, name) {
            self.failure = Some(error);
        }
    }

    fn end(&mut self, sender: Sender, side: &mut BodySide, message: &HttpMessage) {
        self.tally.cut += u64::from(message.body_bytes > 0 && !message.is_whole);
        if side.file.bytes == 0 {
            return;
        }
        let (owner, name) = (self.owner(sender), body_name(&(self.names)(sender), side.message));
        if let Err(error) = self.files.end(owner, &mut side.file, || name.clone()) {
            self.failure.get_or_insert(error);
        }
        side.file = StreamFile::default();
        let mut line = BodyLine::new(name, message);
        let server = if message.head.status().is_some() { sender } else { sender.other() };
        self.make_object(&mut line, server);
        let bytes = line.memory_bytes();
        if side.lines.len() < LISTED_MAX && self.list_bytes + bytes <= self.list_room {
            self.list_bytes += bytes;
            side.lines.push(line);
        } else {
            side.unlisted += 1;
        }
    }

    /// Makes an object of a body, if objects are requested.
    fn make_object(&mut self, line: &mut BodyLine, server: Sender) {
        let Some(objects) = self.objects.as_mut().filter(|_| self.failure.is_none()) else { return };
        let server = self.ends[server.index()].to_string();
        let made = objects.make(self.files.folder(), &line.body(self.number, &server));
        match made {
            Ok(object) => {
                line.file.clone_from(&object.file);
                line.object = Some(object);
            }
            Err(error) => self.failure = Some(error),
        }
    }

    fn owner(&self, sender: Sender) -> Owner {
        Owner { place: self.place, side: SIDES + sender.index(), number: self.number }
    }
}

impl BodyLine {
    fn new(file: String, message: &HttpMessage) -> Self {
        let head = &message.head;
        let own = RequestLine {
            number: message.number,
            method: head.method().to_vec(),
            target: head.target().to_vec(),
            host: head.field("host").unwrap_or_default().to_vec(),
        };
        let request = if head.status().is_none() { own } else { message.request.clone().unwrap_or_default() };
        let field = |name| shown(head.field(name).unwrap_or_default());
        Self {
            message: message.number,
            file,
            bytes: message.body_bytes,
            lost_bytes: message.lost_bytes,
            whole: message.is_whole,
            status: head.status(),
            method: shown(&request.method),
            host: shown(&request.host),
            target: shown(&request.target),
            content_type: field("content-type"),
            content_encoding: field("content-encoding"),
            object: None,
        }
    }

    /// The body of which an object is made, of a connection and with this server.
    fn body<'a>(&'a self, connection: u64, server: &'a str) -> Body<'a> {
        let Self { file, bytes, whole, status, method, host, target, content_type, content_encoding, .. } =
            self;
        Body {
            file,
            bytes: *bytes,
            is_whole: *whole,
            coding: content_encoding,
            content_type,
            connection,
            method,
            host: if host.is_empty() { server } else { host },
            target,
            status: *status,
        }
    }

    fn memory_bytes(&self) -> usize {
        let texts =
            [&self.file, &self.method, &self.host, &self.target, &self.content_type, &self.content_encoding];
        let of_object =
            self.object.as_ref().map_or(0, |object| object.file.capacity() + object.sha256.capacity());
        size_of::<Self>() + texts.iter().map(|text| text.capacity()).sum::<usize>() + of_object
    }
}

/// The name of the file of a body: that of its stream, and the number of its message in it.
pub(super) fn body_name(stream: &str, message: u64) -> String {
    format!("{stream}.http-{message:06}")
}

/// Returns untrusted text as printable ASCII.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in &bytes[..bytes.len().min(TEXT_BYTES_MAX)] {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => write!(text, "%{byte:02X}").expect("a String takes all"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_ascii() {
        assert_eq!(
            body_name("010.000.000.001.00080-010.000.000.002.00001", 12),
            "010.000.000.001.00080-010.000.000.002.00001.http-000012"
        );
        assert_eq!(shown(b"/\xc3\xa4 \x1b[\x7f"), "/%C3%A4 %1B[%7F");
        assert_eq!(shown(&[b'a'; 5000]).len(), TEXT_BYTES_MAX);
    }
}
