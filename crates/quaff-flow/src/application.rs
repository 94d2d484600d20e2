//! The application of a conversation by the first bytes of its payload: TLS, HTTP, DNS, QUIC, SSH.
//!
//! Bytes are those in the order of their arrival, cut at the plan's limit; what does not parse has no name. QUIC is
//! recognised, but its server name is encrypted.

use crate::record::Application;
use quaff_wire::net::{TCP, UDP};

/// Bytes of payload that are kept for this: a ClientHello of today, whose key share of X25519MLKEM768 has 1,216 bytes.
pub(crate) const PAYLOAD_BYTES: usize = 2048;
/// The longest name that is reported (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 255;
const DNS_PORTS: [u16; 2] = [53, 5353];

/// Reads fields one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// A big-endian number of so many bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    /// The bytes behind a length of so many bytes, as far as they are there.
    fn vector(&mut self, length_bytes: usize) -> Option<Reader<'a>> {
        let bytes = self.number(length_bytes)?;
        self.take(bytes.min(self.0.len())).map(Reader)
    }
}

/// Names the application of a conversation: `forward` is what its source sent.
pub(crate) fn application(
    protocol: u8,
    ports: [u16; 2],
    forward: &[u8],
    reverse: &[u8],
) -> Option<Application> {
    let found = |name, server_name| Some(Application { name, server_name });
    let is_dns = ports.iter().any(|port| DNS_PORTS.contains(port));
    match protocol {
        TCP if forward.starts_with(b"SSH-") || reverse.starts_with(b"SSH-") => found("ssh", None),
        TCP if is_tls(forward) || is_tls(reverse) => found("tls", tls_name(forward)),
        TCP if is_http(forward) || reverse.starts_with(b"HTTP/1.") => found("http", http_host(forward)),
        TCP if is_dns => {
            let name = [forward, reverse].into_iter().find_map(|bytes| dns_name(bytes.get(2..)?));
            name.and_then(|name| found("dns", Some(name)))
        }
        UDP if is_dns => {
            [forward, reverse].into_iter().find_map(dns_name).and_then(|name| found("dns", Some(name)))
        }
        UDP if is_quic(forward) || is_quic(reverse) => found("quic", None),
        _ => None,
    }
}

/// A record of the handshake, of TLS 1.0 to 1.3 (RFC 8446, section 5.1).
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [22, 3, 0..=4, _, _, 1 | 2, ..])
}

/// The server name of a ClientHello (RFC 8446, section 4.1.2; RFC 6066, section 3).
fn tls_name(bytes: &[u8]) -> Option<String> {
    const SERVER_NAME: usize = 0;
    let mut record = Reader(bytes);
    record.take(5)?;
    let kind = record.number(1)?;
    let mut hello = record.vector(3).filter(|_| kind == 1)?;
    hello.take(2 + 32)?;
    hello.vector(1)?;
    hello.vector(2)?;
    hello.vector(1)?;
    let mut extensions = hello.vector(2)?;
    loop {
        let (kind, mut data) = (extensions.number(2)?, extensions.vector(2)?);
        if kind == SERVER_NAME {
            let mut names = data.vector(2)?;
            let kind = names.number(1)?;
            let bytes = names.number(2)?;
            return text(names.take(bytes).filter(|_| kind == 0)?);
        }
    }
}

fn is_http(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 8] =
        [b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"PATCH "];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

/// The host that a request names (RFC 9112, section 3.2).
fn http_host(bytes: &[u8]) -> Option<String> {
    let lines = bytes.split(|byte| *byte == b'\n').skip(1).take_while(|line| !line.trim_ascii().is_empty());
    let host = lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        // A line that the limit cut has no end: its host may be cut too.
        let is_whole = line.ends_with(b"\r");
        (is_whole && name.eq_ignore_ascii_case(b"host")).then(|| value[1..].trim_ascii())
    });
    host.take(1).find_map(text)
}

/// The name of the first question (RFC 1035, section 4.1).
fn dns_name(bytes: &[u8]) -> Option<String> {
    let mut message = Reader(bytes);
    message.take(2)?;
    let flags = message.number(2)?;
    let questions = message.number(2)?;
    // Operation code: query or update. One question is all that anything sends.
    if !matches!(flags >> 11 & 15, 0 | 5) || questions != 1 {
        return None;
    }
    message.take(6)?;
    let mut name = String::new();
    loop {
        match message.number(1)? {
            0 => return (!name.is_empty()).then_some(name),
            bytes @ 1..=63 => {
                let label = text(message.take(bytes)?)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(&label);
            }
            _ => return None,
        }
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
    }
}

/// A long header of QUIC 1 or 2 (RFC 9000, section 17.2; RFC 9369) with connection ids of possible lengths.
fn is_quic(bytes: &[u8]) -> bool {
    const VERSIONS: [[u8; 4]; 2] = [[0, 0, 0, 1], [0x6b, 0x33, 0x43, 0xcf]];
    let Some((header, _)) = bytes.split_first_chunk::<6>() else { return false };
    header[0] & 0xc0 == 0xc0 && VERSIONS.iter().any(|version| header[1..5] == *version) && header[5] <= 20
}

/// A name of printable ASCII characters.
fn text(bytes: &[u8]) -> Option<String> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    is_name.then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(protocol: u8, ports: [u16; 2], forward: &[u8]) -> Option<(&'static str, Option<String>)> {
        application(protocol, ports, forward, &[]).map(|found| (found.name, found.server_name))
    }

    fn sized(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
    }

    fn client_hello(name: &str) -> Vec<u8> {
        let server_name = sized(&[&[0], &sized(name.as_bytes())[..]].concat());
        let extensions = [&[0, 43][..], &sized(&[2, 3, 4]), &[0, 0], &sized(&server_name)].concat();
        let mut hello = vec![3, 3];
        hello.extend([9; 32]);
        hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
        hello.extend(sized(&extensions));
        let message = [&[1, 0][..], &sized(&hello)].concat();
        [&[22, 3, 1][..], &sized(&message)].concat()
    }

    fn question(name: &str) -> Vec<u8> {
        let mut bytes = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.extend([0, 0, 1, 0, 1]);
        bytes
    }

    #[test]
    fn names_are_read_off_the_first_bytes() {
        let host = |name: &str| Some(name.to_owned());
        assert_eq!(named(TCP, [5, 443], &client_hello("a.example")), Some(("tls", host("a.example"))));
        assert_eq!(named(UDP, [5, 53], &question("b.example")), Some(("dns", host("b.example"))));
        assert_eq!(named(UDP, [5, 54], &question("b.example")), None);
        assert_eq!(named(TCP, [5, 53], &sized(&question("b.example"))), Some(("dns", host("b.example"))));
        let request = b"GET / HTTP/1.1\r\nA: b\r\nHOST: c.example:80\r\n\r\nHost: d";
        assert_eq!(named(TCP, [5, 80], request), Some(("http", host("c.example:80"))));
        assert_eq!(named(TCP, [5, 80], &request[..30]), Some(("http", None)), "the host is cut");
        assert_eq!(named(UDP, [5, 443], &[0xc3, 0, 0, 0, 1, 8, 1, 2]), Some(("quic", None)));
        assert_eq!(named(TCP, [5, 22], b"SSH-2.0-x\r\n"), Some(("ssh", None)));
        assert_eq!(named(TCP, [5, 443], &client_hello("a\x1b[2J")), Some(("tls", None)), "not a name");
    }

    proptest! {
        #[test]
        fn cut_and_damaged_bytes_have_no_name_of_their_own(cut in 0usize..120, at in 0usize..120, byte: u8, junk in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut hello = client_hello("a.example");
            if let Some(place) = hello.get_mut(at) {
                *place = byte;
            }
            let cut = cut.min(hello.len());
            let _ = named(TCP, [5, 443], &hello[..cut]);
            let found = named(TCP, [5, 443], &client_hello("a.example")[..cut]).and_then(|(_, name)| name);
            prop_assert!(found.is_none_or(|name| name == "a.example"));
            for ports in [[1, 53], [1, 80]] {
                let _ = (named(TCP, ports, &junk), named(UDP, ports, &junk));
            }
        }
    }
}
