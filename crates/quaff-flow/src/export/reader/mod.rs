//! Reads messages of IPFIX (RFC 7011) back into records: the files of `quaff flows --ipfix` (RFC 5655), and what other
//! exporters wrote with the same elements.
//!
//! The bytes may be anything: each length is checked before it is used, templates have limits, a mistake is an error
//! with its place, and a message is taken whole or not at all. I/O is the caller's.
//!
//! | module | contents |
//! |---|---|
//! | `bytes` | bytes with their place in the file |
//! | `layout` | templates: the fields of a record, and the properties that it lacks |
//! | `draft` | the values of a record, in any order |
//! | `totals` | the counters of a file, and those that it records of itself |
//! | `messages` | messages and sets |

mod bytes;
mod draft;
mod layout;
mod messages;
#[cfg(test)]
mod tests;
mod totals;

pub use bytes::IpfixError;
pub use messages::{IPFIX_HEADER_BYTES, IpfixBatch, IpfixReader, is_ipfix};
pub use totals::IpfixTotals;
