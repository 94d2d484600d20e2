//! The head of a message: start line and header fields (RFC 9112, sections 2 to 6).

use quaff_wire::application::http;

/// Maximum length of a head without line ends, bytes.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of header fields.
const FIELDS_MAX: usize = 256;
/// Maximum length of an unregistered method, bytes.
const METHOD_BYTES_MAX: usize = 32;
/// Registered methods (IANA, HTTP methods), by which the search for a start line recognises a request.
const METHODS: [&[u8]; 16] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"CONNECT",
    b"PATCH",
    b"TRACE",
    b"PROPFIND",
    b"PROPPATCH",
    b"REPORT",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"SUBSCRIBE",
];

/// The start line and the headers of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpHead {
    /// `None` for a request.
    status: Option<u16>,
    /// The digit after `HTTP/1.`.
    minor: u8,
    /// Parts of the start line, then names and values of the fields, concatenated.
    bytes: Vec<u8>,
    /// End of the method in `bytes`; 0 in a response.
    method_end: u32,
    /// End of the target, or of the reason.
    start_end: u32,
    /// Start of the name, start of the value, end of the value.
    fields: Vec<[u32; 3]>,
}

/// A head that exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The rule for the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilEnd,
}

impl HttpHead {
    /// Parses a start line. `is_known`: a request must have a registered method.
    pub(super) fn start(line: &[u8], is_known: bool) -> Option<Self> {
        if let Some(rest) = line.strip_prefix(b"HTTP/1.") {
            let (minor, rest) = rest.split_first_chunk::<2>()?;
            let status = rest.get(..3).filter(|status| status.iter().all(u8::is_ascii_digit))?;
            let reason = rest.get(4..).unwrap_or_default().trim_ascii();
            let is_one =
                minor[0].is_ascii_digit() && minor[1] == b' ' && matches!(rest.get(3), None | Some(b' '));
            let status = status.iter().fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
            return is_one.then(|| Self::new(Some(status), minor[0] - b'0', &[], reason));
        }
        let (line, version) = split_at_last_space(line.trim_ascii_end())?;
        let [minor] =
            version.strip_prefix(b"HTTP/1.").filter(|minor| minor.iter().all(u8::is_ascii_digit))?
        else {
            return None;
        };
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (method, target) = (&line[..space], line[space..].trim_ascii());
        let is_method = match is_known {
            true => METHODS.contains(&method),
            false => {
                (1..=METHOD_BYTES_MAX).contains(&method.len()) && method.iter().all(|byte| is_token(*byte))
            }
        };
        (is_method && !target.is_empty()).then(|| Self::new(None, minor - b'0', method, target))
    }

    fn new(status: Option<u16>, minor: u8, method: &[u8], rest: &[u8]) -> Self {
        let bytes = [method, rest].concat();
        let (method_end, start_end) = (method.len() as u32, bytes.len() as u32);
        Self { status, minor, bytes, method_end, start_end, fields: Vec::new() }
    }

    /// Adds a header line. A line that starts with a space continues the previous value; a line without a colon is
    /// ignored.
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), TooLong> {
        if self.fields.len() >= FIELDS_MAX || self.bytes.len() + line.len() > HEAD_BYTES_MAX {
            return Err(TooLong);
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let Some([_, _, end]) = self.fields.last_mut() {
                self.bytes.push(b' ');
                self.bytes.extend_from_slice(line.trim_ascii());
                *end = self.bytes.len() as u32;
            }
            return Ok(());
        }
        let Some((name, value)) = http::field(line) else { return Ok(()) };
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name.trim_ascii_end());
        let middle = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.fields.push([begin, middle, self.bytes.len() as u32]);
        Ok(())
    }

    /// The status of a response; `None` for a request.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The minor version: 1 for HTTP/1.1.
    pub fn minor_version(&self) -> u8 {
        self.minor
    }

    /// The method of a request; empty for a response.
    pub fn method(&self) -> &[u8] {
        &self.bytes[..self.method_end as usize]
    }

    /// The target of a request, as sent; empty for a response.
    pub fn target(&self) -> &[u8] {
        if self.status.is_some() { &[] } else { self.after_method() }
    }

    /// The reason of a response; empty for a request.
    pub fn reason(&self) -> &[u8] {
        if self.status.is_some() { self.after_method() } else { &[] }
    }

    fn after_method(&self) -> &[u8] {
        &self.bytes[self.method_end as usize..self.start_end as usize]
    }

    /// Names and values of the fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|[begin, middle, end]| {
            let [begin, middle, end] = [begin, middle, end].map(|at| *at as usize);
            (&self.bytes[begin..middle], &self.bytes[middle..end])
        })
    }

    /// The value of the first field with this name, case-insensitive.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|field| field.0.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_its = move |field: &(&[u8], &[u8])| field.0.eq_ignore_ascii_case(name.as_bytes());
        self.fields().filter(is_its).map(|(_, value)| value)
    }

    /// The body's length according to the header (RFC 9112, section 6.3); `None` if it is invalid.
    pub(super) fn framing(&self) -> Option<Framing> {
        if let Some(codings) = self.values("transfer-encoding").last() {
            let last = codings.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
            let is_chunked = last.eq_ignore_ascii_case(b"chunked");
            // A request cannot be delimited by the end of the connection.
            let is_response = self.status.is_some();
            return if is_chunked {
                Some(Framing::Chunked)
            } else {
                is_response.then_some(Framing::UntilEnd)
            };
        }
        let mut length = None;
        let values = self.values("content-length").flat_map(|value| value.split(|byte| *byte == b','));
        for value in values {
            let value = number(value.trim_ascii(), 10)?;
            if *length.get_or_insert(value) != value {
                return None;
            }
        }
        let default = if self.status.is_some() { Framing::UntilEnd } else { Framing::Length(0) };
        Some(length.map_or(default, Framing::Length))
    }
}

/// Parses the size line of a chunk (RFC 9112, section 7.1).
pub(super) fn chunk_bytes(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?;
    number(size.trim_ascii(), 16)
}

/// Parses a number that consists of digits only.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    is_number.then(|| u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok())?
}

fn split_at_last_space(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().rposition(|byte| *byte == b' ')?;
    Some((&line[..space], &line[space + 1..]))
}

/// True for a character of a method (token, RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
