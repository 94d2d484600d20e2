//! `quaff streams follow FILE END`: one end names no connection, so its conversations are listed to choose from. It
//! prints no payload.

use super::target;
use crate::show::{self, name};
use quaff::streams::{RowSink, StreamRow};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// The most conversations that are listed; the others are counted.
const LISTED_MAX: usize = 20;

/// An address with a port, or with all of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OneEnd {
    Host(IpAddr),
    Port(SocketAddr),
}

impl OneEnd {
    /// Reads `10.0.0.1`, `10.0.0.1:80`, `[fd00::1]:80` or `10.0.0.1.80`, after `tcp` or `udp` too.
    pub(super) fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let word = match &words[..] {
            [word] | ["tcp" | "udp", word] => *word,
            _ => return None,
        };
        let host = || word.parse().map(Self::Host).ok();
        host().or_else(|| target::end(word).map(Self::Port).ok())
    }

    fn is(self, address: IpAddr, port: u16) -> bool {
        match self {
            Self::Host(host) => host == address,
            Self::Port(end) => end == SocketAddr::new(address, port),
        }
    }
}

impl fmt::Display for OneEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "{host}"),
            Self::Port(end) => write!(f, "{end}"),
        }
    }
}

/// The conversations of an end, collected from the rows of a list. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Candidates {
    end: OneEnd,
    found: Arc<Mutex<Found>>,
}

#[derive(Debug, Default)]
struct Found {
    /// The first ones, a line each.
    lines: Vec<String>,
    count: u64,
}

impl Candidates {
    pub(super) fn new(end: OneEnd) -> Self {
        Self { end, found: Arc::default() }
    }

    /// The words after the last row.
    pub(super) fn words(&self) -> String {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.count == 0 {
            return format!(
                "no TCP connection or UDP conversation has the end {}: see 'quaff streams list'",
                self.end
            );
        }
        let count = show::number_of(found.count, "conversation");
        let mut text =
            format!("{} is an end of {count}: choose one by its number, or name both ends", self.end);
        for line in &found.lines {
            text += &format!("\n{line}");
        }
        let rest = found.count - found.lines.len() as u64;
        if rest > 0 {
            text += &format!("\nand {} more: see 'quaff streams list'", show::count(rest));
        }
        text
    }
}

impl RowSink for Candidates {
    fn row(&mut self, row: &StreamRow) -> bool {
        let ends = [(row.client, row.client_port), (row.server, row.server_port)];
        if ends.into_iter().any(|(address, port)| self.end.is(address, port)) {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.count += 1;
            if found.lines.len() < LISTED_MAX {
                found.lines.push(line(row));
            }
        }
        true
    }
}

/// `12  tcp 10.0.0.1:4711 → 10.0.0.2:80  1.00 KiB, 3.00 KiB  http a.example`.
fn line(row: &StreamRow) -> String {
    let [client, server] = [(row.client, row.client_port), (row.server, row.server_port)]
        .map(|(it, port)| SocketAddr::new(it, port));
    let bytes = [row.from_client.bytes, row.from_server.bytes].map(show::bytes).join(", ");
    let what: Vec<&str> = [row.application, row.host.as_deref()].into_iter().flatten().collect();
    let text =
        format!("{:>6}  {} {client} → {server}  {bytes}  {}", row.id, row.protocol, name(&what.join(" ")));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff::streams::StreamSide;

    fn row(number: u64, server: &str) -> StreamRow {
        let server: SocketAddr = server.parse().expect("an end");
        StreamRow {
            id: number.to_string(),
            number,
            protocol: "tcp",
            client: [10, 0, 0, 1].into(),
            client_port: 4711,
            server: server.ip(),
            server_port: server.port(),
            first_ns: 0,
            last_ns: 0,
            application: Some("http"),
            host: Some("a\u{1b}".into()),
            opened: None,
            closed: "input_ended",
            ended: "open",
            from_client: StreamSide { bytes: 1024, ..StreamSide::default() },
            from_server: StreamSide::default(),
        }
    }

    #[test]
    fn one_end_is_an_address_with_or_without_a_port() {
        for (text, expected) in [
            ("10.0.0.2", Some("10.0.0.2")),
            ("tcp 10.0.0.2:80", Some("10.0.0.2:80")),
            ("10.0.0.2.80", Some("10.0.0.2:80")),
            ("fd00::1", Some("fd00::1")),
            ("[fd00::1]:80", Some("[fd00::1]:80")),
            ("12", None),
            ("u3", None),
            ("10.0.0.1:1 10.0.0.2:80", None),
            ("example", None),
            ("", None),
        ] {
            let found = OneEnd::read(text).map(|end| end.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_conversations_of_an_end_are_listed_up_to_a_limit() {
        let of = |end: &str| Candidates::new(OneEnd::read(end).expect("an end"));
        let (mut candidates, none) = (of("10.0.0.2:80"), of("10.0.0.9"));
        candidates.clone().row(&row(1, "10.0.0.3:80"));
        for number in 2..25 {
            assert!(candidates.row(&row(number, "10.0.0.2:80")));
        }
        let text = candidates.words();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("10.0.0.2:80 is an end of 23 conversations"), "{text}");
        assert_eq!(lines[1], "     2  tcp 10.0.0.1:4711 → 10.0.0.2:80  1.00 KiB, 0 B  http a\u{fffd}");
        assert_eq!((lines.len(), lines[21]), (22, "and 3 more: see 'quaff streams list'"));
        assert!(none.words().contains("no TCP connection"), "{}", none.words());
    }
}
