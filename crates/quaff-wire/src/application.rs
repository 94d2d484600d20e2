//! Fields of application protocols that several readers need: flow metering, which has the first bytes of a
//! conversation, and the readers of whole streams.
//!
//! | module | task |
//! |---|---|
//! | [`dns`] | the labels of a name, compressed or not |
//! | [`http`] | a header line |
//! | [`preface`] | messages before another protocol: of proxies, and before TLS |
//! | [`tls`] | ClientHello and ServerHello |
//!
//! Nothing is stored or decrypted. Reading ends at a truncated field and never panics.

pub mod dns;
pub mod http;
pub mod preface;
pub mod tls;

/// Maximum length of a reported name (RFC 1035, section 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;

/// Reads fields in sequence; holds the remaining bytes.
#[derive(Debug, Clone, Copy)]
pub struct FieldReader<'a>(pub &'a [u8]);

impl<'a> FieldReader<'a> {
    /// The next `bytes` bytes.
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// A big-endian number of `bytes` bytes, at most 8.
    pub fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    /// A big-endian 16-bit number.
    pub fn short(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }

    /// The bytes after a length field of `length_bytes` bytes, as far as present.
    pub fn vector(&mut self, length_bytes: usize) -> Option<FieldReader<'a>> {
        let bytes = self.number(length_bytes)?;
        self.take(bytes.min(self.0.len())).map(FieldReader)
    }

    /// The bytes after a length field of `length_bytes` bytes, if all are present.
    pub fn whole_vector(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let bytes = self.number(length_bytes)?;
        self.take(bytes)
    }

    /// A variable-length integer (RFC 9000, section 16).
    pub fn variable(&mut self) -> Option<usize> {
        let bytes = 1_usize << (self.0.first()? >> 6);
        Some(self.number(bytes)? & (usize::MAX >> 2 >> (8 * (8 - bytes))))
    }
}

/// A name of printable ASCII characters without spaces.
pub fn name_text(bytes: &[u8]) -> Option<String> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    is_name.then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
}
