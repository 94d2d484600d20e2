//! Readers of applications: bytes of streams and datagrams become lines, messages of HTTP and DNS, and hellos of TLS.
//!
//! | module | task |
//! |---|---|
//! | [`lines`] | lines of text, without the commands of telnet |
//! | [`http`] | requests and responses of HTTP/1.x, paired, with their bodies |
//! | [`dns`] | messages, of UDP and of TCP |
//! | [`tls`] | ClientHello and ServerHello |
//! | `ja4` | the fingerprint of a ClientHello |
//!
//! A reader belongs to one connection and takes what both sides sent, in order, with gaps where bytes are missing. It
//! has an upper limit on memory, never panics, and passes what it finds to a function. What it cannot follow it counts
//! and skips. Fields that flow metering reads too are those of `quaff_wire::application`.

pub mod dns;
pub mod http;
mod ja4;
pub mod lines;
pub mod tls;
