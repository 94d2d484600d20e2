//! Application readers: turn bytes of streams and datagrams into lines, HTTP and DNS messages, TLS hellos and records.
//!
//! | module | task |
//! |---|---|
//! | [`lines`] | lines of text, without telnet commands |
//! | [`http`] | requests and responses of HTTP/1.x, paired, with their bodies |
//! | [`dns`] | messages over UDP and TCP |
//! | [`tls`] | ClientHello and ServerHello; [`tls::records`]: all records |
//! | `ja4` | the fingerprint of a ClientHello |
//!
//! A reader belongs to one connection and receives both directions in order, with gaps for missing bytes. Its memory is
//! limited, it never panics, and it passes what it finds to a function. What it cannot parse it counts and skips.
//! Fields that flow metering also reads are those of `quaff_wire::application`.

pub mod dns;
pub mod http;
mod ja4;
pub mod lines;
pub mod tls;
