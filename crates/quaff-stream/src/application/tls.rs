//! ClientHello and ServerHello at the start of a connection, and the fingerprint of the client.
//!
//! Only the first message of each side is read; nothing is decrypted.

use super::ja4::{Ja4Fields, is_grease};
use crate::event::Sender;
use quaff_wire::application::tls::{
    self, ALPN, HANDSHAKE_BYTES, HelloFields, RECORD, SERVER_NAME, SIGNATURE_ALGORITHMS, SUPPORTED_VERSIONS,
};

/// Maximum length of a message, bytes: hellos with the largest post-quantum keys are shorter.
const HELLO_BYTES_MAX: usize = 32 << 10;
/// Length of a record header, bytes.
const RECORD_BYTES: usize = 5;

/// A ClientHello or ServerHello.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsHello {
    pub is_client: bool,
    /// Highest version that the client supports, or the version that the server chose.
    pub version: u16,
    pub server_name: Option<String>,
    /// ALPN protocols that the client offers, or the one that the server chose, which TLS 1.3 encrypts.
    pub alpn: Vec<String>,
    /// Cipher suites that the client offers, or the one that the server chose.
    pub ciphers: Vec<u16>,
    /// Extension types, in order.
    pub extensions: Vec<u16>,
    pub signature_algorithms: Vec<u16>,
    /// The fingerprint of a client.
    pub ja4: Option<String>,
}

/// The name of a version, such as `TLS 1.3`; `unknown` for unknown versions.
pub fn version_name(version: u16) -> &'static str {
    match version {
        0x0304 => "TLS 1.3",
        0x0303 => "TLS 1.2",
        0x0302 => "TLS 1.1",
        0x0301 => "TLS 1.0",
        0x0300 => "SSL 3.0",
        _ => "unknown",
    }
}

impl TlsHello {
    /// Reads a message from its handshake header on; `None` for other messages. `transport` is JA4's: `t` for TCP, `q`
    /// for QUIC.
    pub fn read(message: &[u8], transport: char) -> Option<Self> {
        let fields = HelloFields::read(message)?;
        let mut hello = Self {
            is_client: fields.is_client,
            version: fields.version,
            ciphers: tls::numbers(fields.ciphers).collect(),
            ..Self::default()
        };
        let mut first_alpn = None;
        for (kind, data) in fields.extensions {
            hello.extensions.push(kind);
            match kind {
                SERVER_NAME => hello.server_name = tls::server_name(data),
                ALPN => {
                    hello.alpn = tls::alpn(data);
                    first_alpn = first_id(data);
                }
                SIGNATURE_ALGORITHMS => hello.signature_algorithms = tls::numbers(list(data, 2)).collect(),
                SUPPORTED_VERSIONS if fields.is_client => {
                    let versions = tls::numbers(list(data, 1)).filter(|version| !is_grease(*version));
                    hello.version = versions.max().unwrap_or(hello.version);
                }
                SUPPORTED_VERSIONS => hello.version = tls::numbers(data).next().unwrap_or(hello.version),
                _ => {}
            }
        }
        hello.ja4 = fields.is_client.then(|| hello.ja4(first_alpn, transport));
        Some(hello)
    }

    fn ja4(&self, first_alpn: Option<&[u8]>, transport: char) -> String {
        let fields = Ja4Fields {
            version: self.version,
            has_server_name: self.extensions.contains(&SERVER_NAME),
            first_alpn,
            ciphers: &self.ciphers,
            extensions: &self.extensions,
            signature_algorithms: &self.signature_algorithms,
        };
        fields.text(transport)
    }
}

/// The first protocol id that is not a GREASE value.
fn first_id(data: &[u8]) -> Option<&[u8]> {
    let is_real = |id: &&[u8]| !<[u8; 2]>::try_from(*id).is_ok_and(|id| is_grease(u16::from_be_bytes(id)));
    tls::protocol_ids(data)?.find(is_real)
}

/// The bytes after a length field of `length_bytes` bytes.
fn list(data: &[u8], length_bytes: usize) -> &[u8] {
    quaff_wire::application::FieldReader(data).whole_vector(length_bytes).unwrap_or_default()
}

/// The hellos of a TCP connection. Buffers at most 32 KiB per side until its first message is complete.
#[derive(Debug, Default)]
pub struct HelloReader {
    halves: [HelloHalf; 2],
}

/// The state of one side.
#[derive(Debug, Default)]
struct HelloHalf {
    /// An incomplete record header, and the remaining bytes of a record.
    header: Vec<u8>,
    record_bytes: usize,
    message: Vec<u8>,
    is_over: bool,
}

impl HelloReader {
    /// Processes the next bytes.
    pub fn data(&mut self, sender: Sender, bytes: &[u8], sink: &mut dyn FnMut(Sender, &TlsHello)) {
        let half = &mut self.halves[sender.index()];
        let mut rest = bytes;
        while !half.is_over && !rest.is_empty() {
            rest = half.take(rest);
            if let Some(hello) = half.hello() {
                half.stop();
                sink(sender, &hello);
            }
        }
    }

    /// Notes that bytes of this side are missing.
    pub fn gap(&mut self, sender: Sender) {
        self.halves[sender.index()].stop();
    }

    /// True if both sides have been read, or are not TLS.
    pub fn is_over(&self) -> bool {
        self.halves.iter().all(|half| half.is_over)
    }
}

impl HelloHalf {
    fn stop(&mut self) {
        *self = Self { is_over: true, ..Self::default() };
    }

    /// Processes one header or the bytes of one record, and returns the rest.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.record_bytes > 0 {
            let (taken, rest) = bytes.split_at(bytes.len().min(self.record_bytes));
            self.record_bytes -= taken.len();
            self.message.extend_from_slice(taken);
            return rest;
        }
        let (taken, rest) = bytes.split_at(bytes.len().min(RECORD_BYTES - self.header.len()));
        self.header.extend_from_slice(taken);
        let begin = &self.header[..self.header.len().min(RECORD.len())];
        if !RECORD.starts_with(begin) || self.header.get(2).is_some_and(|minor| *minor > 4) {
            self.stop();
        } else if let [.., high, low] = self.header[..]
            && self.header.len() == RECORD_BYTES
        {
            self.record_bytes = usize::from(u16::from_be_bytes([high, low]));
            self.header.clear();
        }
        rest
    }

    /// The message, if it is complete.
    fn hello(&mut self) -> Option<TlsHello> {
        let header = self.message.first_chunk::<HANDSHAKE_BYTES>()?;
        let length = header[1..].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let is_hello = matches!(header[0], tls::CLIENT_HELLO | tls::SERVER_HELLO);
        if !is_hello || length > HELLO_BYTES_MAX {
            self.stop();
            return None;
        }
        if self.message.len() < HANDSHAKE_BYTES + length {
            return None;
        }
        TlsHello::read(&self.message[..HANDSHAKE_BYTES + length], 't')
    }
}

#[cfg(test)]
mod tests;
