//! The body of which an object is made, and the entry of the object in the index.

use serde::Serialize;

/// The body of a message, with what names it. Its texts are printable ASCII.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body<'a> {
    /// The file of the body as it was sent, and its size.
    pub(crate) file: &'a str,
    pub(crate) bytes: u64,
    /// No byte of it is missing.
    pub(crate) is_whole: bool,
    pub(crate) coding: &'a str,
    pub(crate) content_type: &'a str,
    /// Number of the connection.
    pub(crate) connection: u64,
    /// Of the request, or of the request that the response answers.
    pub(crate) method: &'a str,
    /// The host that was asked for; without one the address of the server.
    pub(crate) host: &'a str,
    pub(crate) target: &'a str,
    pub(crate) status: Option<u16>,
}

impl Body<'_> {
    /// The URL. A target that is not a path is one, as proxies get it.
    pub(super) fn url(&self) -> String {
        if self.target.is_empty() || self.target.starts_with('/') {
            format!("http://{}{}", self.host, self.target)
        } else {
            self.target.to_owned()
        }
    }
}

/// The reason why an object lacks bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub(crate) enum Lack {
    /// Bytes of the body are not in the capture.
    Missing,
    /// The content coding is damaged, or ends too early.
    Damaged,
    /// Decoded, it has more bytes than the limit.
    Limit,
}

impl From<Lack> for &'static str {
    fn from(lack: Lack) -> Self {
        match lack {
            Lack::Missing => "missing",
            Lack::Damaged => "damaged",
            Lack::Limit => "limit",
        }
    }
}

/// An object, as the index has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Object {
    #[serde(skip)]
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// By the first bytes.
    pub(crate) kind: &'static str,
    /// Of the file, in hexadecimal digits.
    pub(crate) sha256: String,
    pub(crate) partial: Option<Lack>,
    /// No content coding is left.
    pub(crate) decoded: bool,
}

impl Object {
    /// The reason why it lacks bytes, or nothing.
    pub(super) fn lack(&self) -> &'static str {
        self.partial.map_or("", Into::into)
    }
}
