//! ClientHello and ServerHello of a connection, and the fingerprint of the client.
//!
//! TLS starts with the connection, or after a change of protocol: after a message that may precede it, or where one
//! side answers the other (STARTTLS, CONNECT, SOCKS and others, see [`preface`](quaff_wire::application::preface)).
//! After a HelloRetryRequest there is another hello of each side. Nothing is decrypted. [`records`] reads all records.

mod messages;
mod names;
pub mod records;

use super::ja4::{Ja4Fields, is_grease};
use crate::event::Sender;
use quaff_wire::application::preface::{MESSAGE_BYTES_MAX, before_tls_bytes};
use quaff_wire::application::tls::{
    self, ALPN, HANDSHAKE_BYTES, HelloFields, RECORD, SERVER_NAME, SIGNATURE_ALGORITHMS, SUPPORTED_VERSIONS,
};

/// Maximum length of a message, bytes: hellos with the largest post-quantum keys are shorter.
const HELLO_BYTES_MAX: usize = 32 << 10;
/// Length of a record header, bytes.
const RECORD_BYTES: usize = 5;
/// Types of records, and that of handshakes.
const RECORDS: [u8; 4] = [20, 21, HANDSHAKE, 23];
const HANDSHAKE: u8 = 22;
/// Bytes of a side that are skipped before its first hello, and between two.
const SKIPPED_BYTES_MAX: usize = 32 << 10;
/// The random of a ServerHello that is a HelloRetryRequest (RFC 8446, section 4.1.3), and its offset in the message.
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
const RANDOM_AT: usize = HANDSHAKE_BYTES + 2;

/// A ClientHello or ServerHello.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsHello {
    pub is_client: bool,
    /// True for a HelloRetryRequest: another hello of each side follows.
    pub is_retry: bool,
    /// Highest version that the client supports, or the version that the server chose.
    pub version: u16,
    /// Versions that the client offers in supported_versions, without GREASE values; empty without that extension.
    pub versions: Vec<u16>,
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
            is_retry: !fields.is_client
                && message.get(RANDOM_AT..).is_some_and(|from| from.starts_with(&RETRY_RANDOM)),
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
                    hello.versions = versions.collect();
                    hello.version = hello.versions.iter().copied().max().unwrap_or(hello.version);
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

/// The hellos of a TCP connection. Buffers at most 32 KiB per side, and one record or message.
#[derive(Debug, Default)]
pub struct HelloReader {
    halves: [HelloHalf; 2],
    /// The side that sent the last bytes.
    last: Option<Sender>,
}

/// The state of one side.
#[derive(Debug, Default)]
struct HelloHalf {
    phase: Phase,
    /// An incomplete message before TLS, or an incomplete record header.
    waiting: Vec<u8>,
    /// The remaining bytes of a record, and whether it is no handshake.
    record_bytes: usize,
    is_other_record: bool,
    /// Handshake messages without their records.
    message: Vec<u8>,
    hellos: u8,
    skipped_bytes: usize,
}

/// The parser state of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// Expects TLS, or a message that may precede it.
    #[default]
    Preface,
    /// Another protocol, until the side answers the other one again.
    Other,
    Records,
    Over,
}

impl HelloReader {
    /// Processes the next bytes.
    pub fn data(&mut self, sender: Sender, bytes: &[u8], sink: &mut dyn FnMut(Sender, &TlsHello)) {
        if bytes.is_empty() {
            return;
        }
        let half = &mut self.halves[sender.index()];
        if self.last.replace(sender) != Some(sender) {
            half.begin_turn(bytes);
        }
        let (mut rest, mut is_final) = (bytes, false);
        while half.phase != Phase::Over && !rest.is_empty() {
            rest = half.take(rest);
            while let Some(hello) = half.hello() {
                is_final |= !hello.is_client && !hello.is_retry;
                sink(sender, &hello);
            }
        }
        let other = &mut self.halves[sender.other().index()];
        if is_final && other.hellos > 0 {
            other.stop();
        }
    }

    /// Notes that bytes of this side are missing.
    pub fn gap(&mut self, sender: Sender) {
        let half = &mut self.halves[sender.index()];
        match half.phase {
            Phase::Preface | Phase::Other => half.begin_other(),
            Phase::Records | Phase::Over => half.stop(),
        }
    }

    /// True if both sides have been read, or are not TLS.
    pub fn is_over(&self) -> bool {
        self.halves.iter().all(|half| half.phase == Phase::Over)
    }
}

/// True if a handshake record with a hello starts here.
fn begins_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE, 3, 0..=4, _, _, tls::CLIENT_HELLO | tls::SERVER_HELLO, ..])
}

impl HelloHalf {
    fn stop(&mut self) {
        *self = Self { phase: Phase::Over, ..Self::default() };
    }

    fn begin_other(&mut self) {
        self.phase = Phase::Other;
        self.waiting = Vec::new();
    }

    /// The side answers the other one with these bytes: TLS may begin here whatever came before.
    fn begin_turn(&mut self, bytes: &[u8]) {
        let is_before = matches!(self.phase, Phase::Preface | Phase::Other);
        if is_before && (self.phase == Phase::Other || begins_hello(bytes)) {
            self.phase = Phase::Preface;
            self.waiting.clear();
        }
    }

    /// Processes the next message or a part of it, and returns the rest.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let rest = match self.phase {
            Phase::Records => return self.take_record(bytes),
            Phase::Preface => self.take_preface(bytes),
            Phase::Other | Phase::Over => {
                self.skipped_bytes += bytes.len();
                &[]
            }
        };
        if self.skipped_bytes > SKIPPED_BYTES_MAX {
            self.stop();
        }
        rest
    }

    fn take_preface<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let held = self.waiting.len();
        let added = &bytes[..bytes.len().min(MESSAGE_BYTES_MAX.saturating_sub(held))];
        if held > 0 {
            self.waiting.extend_from_slice(added);
        }
        let known = if held > 0 { &self.waiting[..] } else { added };
        let is_record = known[..known.len().min(RECORD.len())] == RECORD[..known.len().min(RECORD.len())];
        match before_tls_bytes(known) {
            _ if is_record && known.len() > RECORD.len() => {
                let mut waiting = std::mem::take(&mut self.waiting);
                waiting.truncate(held);
                self.phase = Phase::Records;
                let mut rest = &waiting[..];
                while self.phase == Phase::Records && !rest.is_empty() {
                    rest = self.take_record(rest);
                }
                bytes
            }
            Some(length) if length > 0 && !is_record => {
                self.skipped_bytes += length;
                self.waiting.truncate(held);
                // It may be shorter than what was held for another message.
                self.waiting.drain(..length.min(held));
                &bytes[length.saturating_sub(held)..]
            }
            None if !is_record => {
                self.skipped_bytes += held;
                self.begin_other();
                bytes
            }
            _ => {
                if held == 0 {
                    self.waiting.extend_from_slice(added);
                }
                &[]
            }
        }
    }

    /// Processes one header or the bytes of one record.
    fn take_record<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.record_bytes > 0 {
            let (taken, rest) = bytes.split_at(bytes.len().min(self.record_bytes));
            self.record_bytes -= taken.len();
            if self.is_other_record {
                self.skipped_bytes += taken.len();
            } else {
                self.message.extend_from_slice(taken);
            }
            if self.skipped_bytes > SKIPPED_BYTES_MAX {
                self.stop();
            }
            return rest;
        }
        let (taken, rest) = bytes.split_at(bytes.len().min(RECORD_BYTES - self.waiting.len()));
        self.waiting.extend_from_slice(taken);
        // Between two hellos there may be a change of cipher, and data that the client sent too early.
        let is_expected = |kind: u8| kind == HANDSHAKE || self.hellos > 0 && RECORDS.contains(&kind);
        let is_record = self.waiting.first().is_none_or(|kind| is_expected(*kind))
            && self.waiting.get(1).is_none_or(|major| *major == RECORD[1])
            && self.waiting.get(2).is_none_or(|minor| *minor <= 4);
        if !is_record {
            self.stop();
        } else if let [kind, .., high, low] = self.waiting[..]
            && self.waiting.len() == RECORD_BYTES
        {
            self.record_bytes = usize::from(u16::from_be_bytes([high, low]));
            self.is_other_record = kind != HANDSHAKE;
            self.waiting.clear();
        }
        rest
    }

    /// Removes and reads the message, if it is complete.
    fn hello(&mut self) -> Option<TlsHello> {
        let header = self.message.first_chunk::<HANDSHAKE_BYTES>()?;
        let length = header[1..].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let is_hello = matches!(header[0], tls::CLIENT_HELLO | tls::SERVER_HELLO);
        if !is_hello || length > HELLO_BYTES_MAX {
            self.stop();
            return None;
        }
        let hello = TlsHello::read(self.message.get(..HANDSHAKE_BYTES + length)?, 't')?;
        self.message.drain(..HANDSHAKE_BYTES + length);
        self.hellos += 1;
        if self.hellos > 1 || !hello.is_client && !hello.is_retry {
            self.stop();
        }
        Some(hello)
    }
}

#[cfg(test)]
mod tests;
