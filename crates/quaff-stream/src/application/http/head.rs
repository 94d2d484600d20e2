//! The head of a message: start line and header fields (RFC 9112, sections 2 to 6).

use quaff_wire::application::http;

/// Maximum length of a head without line ends, bytes.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of header fields.
const FIELDS_MAX: usize = 256;
/// Fields without which the length of the body is unknown. They are kept beyond these limits, up to others.
const FRAMING: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
const FRAMING_MAX: usize = 16;
const FRAMING_BYTES_MAX: usize = 16 << 10;
/// Maximum length of a version, bytes.
const VERSION_BYTES_MAX: usize = 16;
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
    /// The text after `HTTP/`.
    version: String,
    /// Parts of the start line, then names and values of the fields, concatenated.
    bytes: Vec<u8>,
    /// End of the method in `bytes`; 0 in a response.
    method_end: u32,
    /// End of the target, or of the reason.
    start_end: u32,
    /// Start of the name, start of the value, end of the value.
    fields: Vec<[u32; 3]>,
    /// True if a part was dropped because a limit was exceeded.
    is_cut: bool,
    /// True if the last field was dropped, and with it the lines that continue it.
    is_last_dropped: bool,
    /// True if a field that determines the length of the body was dropped.
    is_unframed: bool,
}

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
        if let Some(rest) = line.strip_prefix(b"HTTP/") {
            let space = rest.iter().position(|byte| *byte == b' ')?;
            let version = version(&rest[..space])?;
            let rest = rest[space..].trim_ascii_start();
            let status = rest.get(..3).filter(|status| status.iter().all(u8::is_ascii_digit))?;
            let reason = rest.get(4..).unwrap_or_default().trim_ascii();
            let is_end = matches!(rest.get(3), None | Some(b' '));
            let status = status.iter().fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
            return is_end.then(|| Self::new(Some(status), version, &[], reason));
        }
        let (line, last) = split_at_last_space(line.trim_ascii_end())?;
        let version = version(last.strip_prefix(b"HTTP/")?)?;
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (method, target) = (&line[..space], line[space..].trim_ascii());
        let is_method = match is_known {
            true => METHODS.contains(&method),
            // The preface of HTTP/2 (RFC 9113, section 3.4) looks like a request.
            false => {
                (1..=METHOD_BYTES_MAX).contains(&method.len())
                    && method.iter().all(|byte| is_token(*byte))
                    && method != b"PRI"
            }
        };
        (is_method && !target.is_empty()).then(|| Self::new(None, version, method, target))
    }

    /// Parses a start line of which only the beginning and the last bytes were kept.
    pub(super) fn start_of_cut(begin: &[u8], end: &[u8], is_known: bool) -> Option<Self> {
        let mut head = match begin.starts_with(b"HTTP/") {
            true => Self::start(begin, is_known),
            false => {
                let (_, version) = split_at_last_space(end.trim_ascii_end())?;
                Self::start(&[begin, b" ", version].concat(), is_known)
            }
        }?;
        head.is_cut = true;
        Some(head)
    }

    fn new(status: Option<u16>, version: String, method: &[u8], rest: &[u8]) -> Self {
        let bytes = [method, rest].concat();
        let (method_end, start_end) = (method.len() as u32, bytes.len() as u32);
        Self {
            status,
            version,
            bytes,
            method_end,
            start_end,
            fields: Vec::new(),
            is_cut: false,
            is_last_dropped: false,
            is_unframed: false,
        }
    }

    /// Adds a header line, or its beginning if `is_cut`. A line that starts with a space continues the previous value;
    /// a line without a colon is ignored; a field beyond the limits is dropped.
    pub(super) fn add(&mut self, line: &[u8], is_cut: bool) {
        self.is_cut |= is_cut;
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            self.continue_field(line.trim_ascii());
            return;
        }
        let Some((name, value)) = http::field(line) else { return };
        let name = name.trim_ascii_end();
        let frames = is_framing(name);
        let more = if frames { (FRAMING_MAX, FRAMING_BYTES_MAX) } else { (0, 0) };
        let is_dropped = self.fields.len() >= FIELDS_MAX + more.0
            || self.bytes.len() + line.len() > HEAD_BYTES_MAX + more.1;
        self.is_last_dropped = is_dropped;
        self.is_cut |= is_dropped;
        self.is_unframed |= frames && (is_dropped || is_cut);
        if is_dropped {
            return;
        }
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        let middle = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.fields.push([begin, middle, self.bytes.len() as u32]);
    }

    fn continue_field(&mut self, text: &[u8]) {
        let Some([begin, middle, end]) = self.fields.last_mut().filter(|_| !self.is_last_dropped) else {
            return;
        };
        if self.bytes.len() + text.len() >= HEAD_BYTES_MAX {
            let name = &self.bytes[*begin as usize..*middle as usize];
            self.is_unframed |= is_framing(name);
            self.is_cut = true;
            return;
        }
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(text);
        *end = self.bytes.len() as u32;
    }

    /// True if a part was dropped because a limit was exceeded.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The status of a response; `None` for a request.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The version as sent, such as `1.1`.
    pub fn version(&self) -> &str {
        &self.version
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

    /// The body's length according to the header (RFC 9112, section 6.3); `None` if it is invalid or unknown.
    pub(super) fn framing(&self) -> Option<Framing> {
        if self.is_unframed {
            return None;
        }
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

fn is_framing(name: &[u8]) -> bool {
    FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing))
}

/// Parses the text after `HTTP/`: numbers with dots in between, such as `1.1`, also one that no RFC defines.
fn version(text: &[u8]) -> Option<String> {
    let is_number = |number: &[u8]| !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let is_version = text.len() <= VERSION_BYTES_MAX && text.split(|byte| *byte == b'.').all(is_number);
    is_version.then(|| text.iter().map(|byte| char::from(*byte)).collect())
}

fn split_at_last_space(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().rposition(|byte| *byte == b' ')?;
    Some((&line[..space], &line[space + 1..]))
}

/// True for a character of a method (token, RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
