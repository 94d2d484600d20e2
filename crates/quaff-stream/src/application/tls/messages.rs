//! Handshake messages in the clear, put together from the records of one side.
//!
//! After a change of cipher, missing bytes or a start in the middle, records count as encrypted until one consists of
//! whole messages: their types are known, and their lengths lead to its very end.

use super::TlsHello;
use super::names::{self, Name, handshake_type};
use quaff_wire::application::FieldReader;
use quaff_wire::application::tls::{CLIENT_HELLO, HANDSHAKE_BYTES, SERVER_HELLO};
use serde::Serialize;

/// Maximum length of a message that is put together, bytes; a longer one is skipped.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Certificates of a message whose lengths are listed.
const LISTED_CERTIFICATES: usize = 16;
/// Message type Certificate (RFC 5246, section 7.4.2). That of TLS 1.3 is encrypted.
const CERTIFICATE: u8 = 11;

/// A handshake message, and its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HandshakeMessage {
    /// `client_hello`, `certificate`, …
    pub name: Name,
    /// Length without the header.
    pub bytes: usize,
    /// True for a message of more than 64 KiB, of which the header was read.
    #[serde(rename = "skipped", skip_serializing_if = "std::ops::Not::not")]
    pub is_skipped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// ALPN protocols that the client offers, or the one that the server chose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<String>,
    /// Versions that a client offers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Name>,
    /// The version that a server chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Name>,
    /// The cipher suite that a server chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher_suite: Option<Name>,
    /// Number of certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<usize>,
    /// Lengths of the first certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_bytes: Vec<usize>,
}

impl HandshakeMessage {
    fn named(kind: u8, bytes: usize) -> Self {
        Self { name: names::message(kind), bytes, ..Self::default() }
    }

    fn add_hello(&mut self, hello: TlsHello) {
        if hello.is_client {
            let offered = if hello.versions.is_empty() { vec![hello.version] } else { hello.versions };
            self.versions = offered.into_iter().map(names::version).collect();
        } else {
            self.version = Some(names::version(hello.version));
            self.cipher_suite = hello.ciphers.first().map(|number| names::cipher_suite(*number));
        }
        if hello.is_retry {
            self.name = "hello_retry_request".into();
        }
        (self.server_name, self.alpn) = (hello.server_name, hello.alpn);
    }

    fn add_certificates(&mut self, body: &[u8]) {
        let mut list = FieldReader(FieldReader(body).whole_vector(3).unwrap_or_default());
        let mut count = 0;
        while let Some(certificate) = list.whole_vector(3) {
            count += 1;
            if count <= LISTED_CERTIFICATES {
                self.certificate_bytes.push(certificate.len());
            }
        }
        self.certificates = Some(count);
    }
}

/// The messages that end in a record.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) ended: Vec<HandshakeMessage>,
    /// The one that continues in the next record.
    pub(super) open: Option<Name>,
    /// The version that a server chose.
    pub(super) chosen: Option<u16>,
}

/// The handshake messages of one side.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    /// The message that is not complete, from its header on.
    message: Vec<u8>,
    /// The type of a message that is too long, and its remaining bytes.
    skipped: Option<(u8, usize)>,
    /// Messages were read: the next ones are in the clear too.
    is_clear: bool,
    /// A cipher was changed, or bytes are missing.
    is_changed: bool,
}

impl Handshakes {
    /// Notes a change of cipher, or missing bytes.
    pub(super) fn reset(&mut self) {
        *self = Self { is_changed: true, ..Self::default() };
    }

    /// True after a change of cipher or missing bytes, unless a message was read since.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed && !self.is_clear
    }

    /// Reads the content of a record; `None` if it is encrypted.
    pub(super) fn read(&mut self, body: &[u8]) -> Option<Messages> {
        if !self.is_readable(body) {
            return None;
        }
        let (mut rest, mut found) = (body, Messages::default());
        while !rest.is_empty() {
            rest = match self.skipped {
                Some((kind, left)) => self.skip(kind, left, rest),
                None => self.take(rest, &mut found),
            };
        }
        let open = self.skipped.map(|(kind, _)| kind).or(self.message.first().copied());
        found.open = open.map(names::message);
        Some(found)
    }

    fn is_readable(&self, body: &[u8]) -> bool {
        let begins_hello = matches!(body, [CLIENT_HELLO | SERVER_HELLO])
            || matches!(body, [CLIENT_HELLO | SERVER_HELLO, 0, ..]);
        let is_open = self.skipped.is_some() || !self.message.is_empty();
        is_open || self.is_clear || !self.is_changed && begins_hello || fills(body)
    }

    /// Skips bytes of a message that is too long, and returns the rest.
    fn skip<'a>(&mut self, kind: u8, left: usize, bytes: &'a [u8]) -> &'a [u8] {
        let (skipped, rest) = bytes.split_at(bytes.len().min(left));
        self.skipped = Some((kind, left - skipped.len())).filter(|(_, left)| *left > 0);
        rest
    }

    /// Takes bytes of one message, and returns the rest.
    fn take<'a>(&mut self, bytes: &'a [u8], found: &mut Messages) -> &'a [u8] {
        let rest = self.fill(bytes, HANDSHAKE_BYTES);
        let Some(&[kind, high, middle, low]) = self.message.first_chunk::<HANDSHAKE_BYTES>() else {
            return rest;
        };
        let length = [high, middle, low].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        if length > MESSAGE_BYTES_MAX {
            found.ended.push(HandshakeMessage { is_skipped: true, ..HandshakeMessage::named(kind, length) });
            self.message.clear();
            self.skipped = Some((kind, length));
            return rest;
        }
        let rest = self.fill(rest, HANDSHAKE_BYTES + length);
        if self.message.len() == HANDSHAKE_BYTES + length {
            self.end_message(kind, length, found);
        }
        rest
    }

    /// Adds bytes to the message up to `length`, and returns the rest.
    fn fill<'a>(&mut self, bytes: &'a [u8], length: usize) -> &'a [u8] {
        let missing = length.saturating_sub(self.message.len());
        let (taken, rest) = bytes.split_at(bytes.len().min(missing));
        self.message.extend_from_slice(taken);
        rest
    }

    /// Reads the message, which is complete.
    fn end_message(&mut self, kind: u8, length: usize, found: &mut Messages) {
        let mut message = HandshakeMessage::named(kind, length);
        if let Some(hello) = TlsHello::read(&self.message, 't') {
            found.chosen = (!hello.is_client).then_some(hello.version).or(found.chosen);
            message.add_hello(hello);
        } else if kind == CERTIFICATE {
            message.add_certificates(&self.message[HANDSHAKE_BYTES..]);
        }
        found.ended.push(message);
        self.message.clear();
        self.is_clear = true;
    }
}

/// True if a record consists of whole messages of known types. A HelloRequest, four zeros, is also what many nonces
/// begin with.
fn fills(body: &[u8]) -> bool {
    let mut rest = FieldReader(body);
    while !rest.0.is_empty() {
        let is_known = rest.take(1).is_some_and(|kind| kind[0] > 0 && handshake_type(kind[0]).is_some());
        if !is_known || rest.whole_vector(3).is_none() {
            return false;
        }
    }
    true
}
