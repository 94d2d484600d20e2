//! ClientHello and ServerHello, as far as present (RFC 8446, sections 4.1.2 and 4.1.3, and its predecessors).

use super::{FieldReader, NAME_BYTES_MAX, name_text};

/// The first bytes of a handshake record: its type, and the first half of its version (RFC 8446, section 5.1).
pub const RECORD: [u8; 2] = [22, 3];
/// Message type ClientHello (RFC 8446, section 4).
pub const CLIENT_HELLO: u8 = 1;
/// Message type ServerHello.
pub const SERVER_HELLO: u8 = 2;
/// Length of a handshake header: type, and length in three bytes.
pub const HANDSHAKE_BYTES: usize = 4;
/// Extension server_name (RFC 6066, section 3).
pub const SERVER_NAME: u16 = 0;
/// Extension signature_algorithms (RFC 8446, section 4.2.3).
pub const SIGNATURE_ALGORITHMS: u16 = 13;
/// Extension application_layer_protocol_negotiation (RFC 7301, section 3.1).
pub const ALPN: u16 = 16;
/// Extension supported_versions (RFC 8446, section 4.2.1).
pub const SUPPORTED_VERSIONS: u16 = 43;

/// A ClientHello or a ServerHello. Fields after a truncation are empty.
#[derive(Debug, Clone, Copy)]
pub struct HelloFields<'a> {
    pub is_client: bool,
    /// The version field of the message, which the supported_versions extension overrides.
    pub version: u16,
    /// Cipher suites that the client offers, or the one that the server chose: two bytes each.
    pub ciphers: &'a [u8],
    pub extensions: Extensions<'a>,
}

impl<'a> HelloFields<'a> {
    /// Reads a message from its handshake header on; `None` for other messages.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut message = FieldReader(bytes);
        let kind = message.take(1)?[0];
        let hello = message.vector(3).filter(|_| matches!(kind, CLIENT_HELLO | SERVER_HELLO))?;
        let extensions = Extensions(FieldReader(&[]));
        let mut found = Self { is_client: kind == CLIENT_HELLO, version: 0, ciphers: &[], extensions };
        // A truncation ends the reading; the fields before it are kept.
        let _ = found.read_fields(hello);
        Some(found)
    }

    fn read_fields(&mut self, mut hello: FieldReader<'a>) -> Option<()> {
        self.version = hello.short()?;
        hello.take(32)?;
        hello.vector(1)?;
        if self.is_client {
            self.ciphers = hello.vector(2)?.0;
            hello.vector(1)?;
        } else {
            self.ciphers = hello.take(2)?;
            hello.take(1)?;
        }
        self.extensions = Extensions(hello.vector(2)?);
        Some(())
    }
}

/// The extensions of a message as type and data, up to a truncated one.
#[derive(Debug, Clone, Copy)]
pub struct Extensions<'a>(FieldReader<'a>);

impl<'a> Iterator for Extensions<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.short()?, self.0.whole_vector(2)?))
    }
}

/// The messages in the first records of a stream, as far as present: a message may span records.
pub fn handshake(stream: &[u8]) -> Vec<u8> {
    let (mut stream, mut messages) = (FieldReader(stream), Vec::new());
    while stream.0.starts_with(&RECORD) {
        let Some(record) = stream.take(3).and_then(|_| stream.vector(2)) else { break };
        messages.extend_from_slice(record.0);
    }
    messages
}

/// The 16-bit numbers of a list.
pub fn numbers(list: &[u8]) -> impl Iterator<Item = u16> + '_ {
    list.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// The host name in the data of [`SERVER_NAME`].
pub fn server_name(data: &[u8]) -> Option<String> {
    let mut names = FieldReader(data).vector(2)?;
    let kind = names.number(1)?;
    let name = names.whole_vector(2)?;
    name_text(name).filter(|_| kind == 0)
}

/// The protocol ids in the data of [`ALPN`], of any bytes; `None` if the list is truncated.
pub fn protocol_ids(data: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let mut list = FieldReader(FieldReader(data).whole_vector(2)?);
    Some(std::iter::from_fn(move || list.whole_vector(1)))
}

/// The textual protocol ids in order of preference, without GREASE values (RFC 8701) and ids with a comma, which
/// separates ids.
pub fn alpn(data: &[u8]) -> Vec<String> {
    let (mut ids, mut bytes) = (Vec::new(), 0);
    let texts = protocol_ids(data).into_iter().flatten().filter_map(name_text);
    for id in texts.filter(|id| !id.contains(',')) {
        bytes += id.len() + 1;
        if bytes > NAME_BYTES_MAX {
            break;
        }
        ids.push(id);
    }
    ids
}
