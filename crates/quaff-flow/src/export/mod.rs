//! Export: flow records as messages of NetFlow v5, NetFlow v9 and IPFIX, as IPFIX files, and as text.
//!
//! | module | contents |
//! |---|---|
//! | `element` | the registry of information elements: numbers, both names, types |
//! | `template` | the template language, compiled into copy plans |
//! | `value` | the values of a record, read in one place for all formats |
//! | `encode` | one field as bytes |
//! | `image` | records of fixed length as lists of stores |
//! | `message` | packing into sets and messages; the sequence of a session |
//! | `time_base` | the base of 32-bit times |
//! | `v5`, `v9`, `ipfix` | the wire formats |
//! | `options` | the records that describe the exporter |
//! | `encoder` | records encoded as messages |
//! | `routes`, `mmdb` | AS numbers of addresses, from a file |
//! | `file` | IPFIX files (RFC 5655) |
//! | `reader` | messages of IPFIX back into records |
//! | `text` | JSON lines, CSV, Zeek's conn.log |
//!
//! `docs/flow-export.md` describes the formats for users. All modules only compute bytes, without sockets and clocks;
//! [`crate::collector`] sends them.

mod element;
mod encode;
mod encoder;
mod file;
mod image;
mod ipfix;
mod message;
mod mmdb;
mod options;
mod reader;
#[cfg(test)]
pub(crate) mod roundtrip;
mod routes;
#[cfg(test)]
pub(crate) mod samples;
mod template;
mod text;
mod time_base;
mod v5;
mod v9;
mod value;

pub use element::{DataType, Element};
pub use encoder::{BiflowPolicy, Encoder, EncoderPlan, TEMPLATE_ID, Unencoded};
pub(crate) use file::FileEncoder;
pub use message::{Carried, Message, Session, Version};
pub use options::{Statistics, Timeouts};
pub use reader::{IPFIX_HEADER_BYTES, IpfixBatch, IpfixError, IpfixReader, IpfixTotals, is_ipfix};
pub use routes::AsTable;
pub use template::{DEFAULT_FILE, DEFAULT_IPFIX, DEFAULT_V9, Dialect, Template, TemplateError, UnknownName};
pub use text::{Names, TextEncoder, TextFormat, date_utc};
pub use value::{Interface, NextHops, Route, Routes, SamplingView, Scene};

pub(crate) use ipfix::withdrawal;
