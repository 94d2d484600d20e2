//! Recognizes the application of a flow by the first bytes of its payload: TLS, HTTP, DNS, QUIC, SSH, IMAP, POP, SMTP,
//! FTP, and what runs over TLS and QUIC by the protocols that the client offers.
//!
//! | module | task |
//! |---|---|
//! | [`alpn`] | applications by ALPN protocol id |
//! | [`greeting`] | protocols that begin with a line of the server |
//! | [`quic`] | the ClientHello in QUIC Initial packets |
//! | [`recognizer`] | one conversation, for readers that meter no flows |
//!
//! `quaff-wire` parses TLS, HTTP and DNS.
//!
//! The bytes are in the order of arrival, truncated at the plan's limit; what does not parse has no name. Nothing is
//! decrypted, except packets whose keys are public by RFC.

mod alpn;
mod greeting;
mod quic;
mod recognizer;

pub(crate) use quic::{Decrypter, QuicClient};
pub use recognizer::{QuicBudget, Recognizer};

use crate::record::Application;
use quaff_wire::application::{FieldReader, dns, http, name_text, preface, tls};
use quaff_wire::net::{TCP, UDP};
use std::net::IpAddr;
use std::sync::Arc;

/// Payload bytes kept per direction: enough for a ClientHello with a key share of X25519MLKEM768 (1,216 bytes).
pub(crate) const PAYLOAD_BYTES: usize = 2048;
/// The state of a flow of QUIC fits in the memory that two directions of other applications have.
const _: () = assert!(size_of::<QuicClient>() + quic::CRYPTO_BYTES + 2 * 16 <= 2 * PAYLOAD_BYTES);
const DNS_PORTS: [u16; 2] = [53, 5353];
/// Addresses in DNS answers that a record has at most: an answer rarely has more than eight, of two types.
const ADDRESSES_MAX: usize = 16;
/// Protocols that are recognized by their first bytes.
const PROTOCOLS: [&str; 9] = ["tls", "quic", "dns", "http", "ssh", "imap", "pop", "smtp", "ftp"];

impl Application {
    /// The application with this name, in a flow of this IP protocol; `None` for an unknown name.
    pub fn of_name(name: &str, ip_protocol: u8) -> Option<Self> {
        if let Some(protocol) = PROTOCOLS.into_iter().find(|known| *known == name) {
            return Some(Self::new(protocol));
        }
        let name = alpn::names().find(|known| *known == name)?;
        Some(Self { name, ..Self::new(if ip_protocol == UDP { "quic" } else { "tls" }) })
    }

    fn new(protocol: &'static str) -> Self {
        Self { protocol, name: protocol, server_name: None, alpn: None }
    }

    fn named(protocol: &'static str, server_name: Option<String>) -> Self {
        Self { server_name, ..Self::new(protocol) }
    }

    /// The application over TLS or QUIC between these ports; `hello` starts at the handshake header of the ClientHello.
    fn encrypted(protocol: &'static str, ports: [u16; 2], hello: &[u8]) -> Self {
        let Some(hello) = tls::HelloFields::read(hello).filter(|hello| hello.is_client) else {
            return Self::new(protocol);
        };
        let (mut server_name, mut ids) = (None, Vec::new());
        for (kind, data) in hello.extensions {
            match kind {
                tls::SERVER_NAME => server_name = tls::server_name(data),
                tls::ALPN => ids = tls::alpn(data),
                _ => {}
            }
        }
        let name = alpn::application(&ids, ports).unwrap_or(protocol);
        let alpn = (!ids.is_empty()).then(|| ids.join(","));
        Self { protocol, name, server_name, alpn }
    }
}

/// Recognizes the application of a flow; `forward` was sent by its source.
pub(crate) fn application(
    protocol: u8,
    ports: [u16; 2],
    forward: &[u8],
    reverse: &[u8],
) -> Option<Application> {
    let found = |protocol, server_name| Some(Application::named(protocol, server_name));
    let is_dns = ports.iter().any(|port| DNS_PORTS.contains(port));
    let [forward, reverse] =
        [forward, reverse].map(|bytes| if protocol == TCP { inside(bytes) } else { bytes });
    match protocol {
        TCP if forward.starts_with(b"SSH-") || reverse.starts_with(b"SSH-") => found("ssh", None),
        TCP if is_tls(forward) || is_tls(reverse) => {
            // If the source is uncertain, the ClientHello may be in the other direction.
            let handshakes = [forward, reverse].map(tls::handshake);
            let hello = handshakes.iter().find(|bytes| bytes.first() == Some(&tls::CLIENT_HELLO));
            Some(Application::encrypted("tls", ports, hello.map_or(&[], Vec::as_slice)))
        }
        TCP if is_http(forward) || is_http(reverse) => found("http", http_host(forward)),
        TCP if is_dns => {
            let name = [forward, reverse].into_iter().find_map(|bytes| dns_name(bytes.get(2..)?));
            name.and_then(|name| found("dns", Some(name)))
        }
        TCP => greeting::protocol(forward, reverse).and_then(|protocol| found(protocol, None)),
        UDP if is_dns => {
            [forward, reverse].into_iter().find_map(dns_name).and_then(|name| found("dns", Some(name)))
        }
        UDP if quic::is_long(forward) || quic::is_long(reverse) => found("quic", None),
        _ => None,
    }
}

/// The bytes from TLS on, where messages that may precede it are before; otherwise HTTP or SSH after the header of a
/// proxy, or in a tunnel; otherwise all.
fn inside(bytes: &[u8]) -> &[u8] {
    let after = |length: fn(&[u8]) -> Option<usize>, is_it: fn(&[u8]) -> bool| {
        let mut rest = bytes;
        while !is_it(rest) {
            rest = &rest[length(rest).filter(|length| *length > 0)?..];
        }
        Some(rest)
    };
    after(preface::before_tls_bytes, is_tls)
        .or_else(|| after(preface::proxy_bytes, is_clear))
        .map_or(bytes, tunneled)
}

/// The bytes after the head of CONNECT, if they are HTTP or SSH; otherwise all.
fn tunneled(bytes: &[u8]) -> &[u8] {
    const END: &[u8] = b"\r\n\r\n";
    let end = bytes.starts_with(b"CONNECT ").then(|| bytes.windows(END.len()).position(|four| four == END));
    let inner = end.flatten().map(|end| &bytes[end + END.len()..]);
    inner.filter(|inner| is_clear(inner)).map_or(bytes, inside)
}

fn is_clear(bytes: &[u8]) -> bool {
    is_http(bytes) || bytes.starts_with(b"SSH-")
}

/// True for a handshake record of TLS 1.0 to 1.3 (RFC 8446, section 5.1).
pub(crate) fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [22, 3, 0..=4, _, _, 1 | 2, ..])
}

fn is_http(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 8] =
        [b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"PATCH "];
    METHODS.iter().any(|method| bytes.starts_with(method)) || bytes.starts_with(b"HTTP/")
}

/// The Host of a request (RFC 9112, section 3.2).
fn http_host(bytes: &[u8]) -> Option<String> {
    let lines = bytes.split(|byte| *byte == b'\n').skip(1).take_while(|line| !line.trim_ascii().is_empty());
    let host = lines.filter_map(|line| {
        // A line without an end was truncated by the limit, and its host may be, too.
        let (name, value) = http::field(line).filter(|_| line.ends_with(b"\r"))?;
        name.eq_ignore_ascii_case(b"host").then_some(value)
    });
    host.take(1).find_map(name_text)
}

/// The name of the first question (RFC 1035, section 4.1).
fn dns_name(bytes: &[u8]) -> Option<String> {
    let mut message = FieldReader(bytes);
    message.take(2)?;
    let flags = message.number(2)?;
    let questions = message.number(2)?;
    // Opcode: query or update. Nothing sends more than one question.
    if !matches!(flags >> 11 & 15, 0 | 5) || questions != 1 {
        return None;
    }
    let mut labels = Some(Vec::new());
    dns::name(bytes, dns::HEADER_BYTES, |label| {
        let text = name_text(label);
        labels = labels.take().and_then(|mut labels: Vec<String>| {
            labels.push(text?);
            Some(labels)
        });
    })?;
    labels.map(|labels| labels.join(".")).filter(|name| !name.is_empty())
}

/// The addresses in the answers of a conversation of DNS, with the names that were asked for. Datagrams follow each
/// other without a length: the next message begins where one ends.
pub(crate) fn dns_addresses(protocol: u8, payloads: [&[u8]; 2]) -> Vec<(IpAddr, Arc<str>)> {
    let mut all: Vec<(IpAddr, Arc<str>)> = Vec::new();
    let mut add = |name: &str, address: IpAddr| {
        if all.len() < ADDRESSES_MAX {
            // The addresses of a name share its text.
            let known = all.last().filter(|(_, last)| **last == *name).map(|(_, last)| Arc::clone(last));
            all.push((address, known.unwrap_or_else(|| Arc::from(name))));
        }
    };
    for payload in payloads {
        let mut rest = FieldReader(payload);
        if protocol == TCP {
            while let Some(message) = rest.whole_vector(2) {
                dns::addresses(message, &mut add);
            }
            continue;
        }
        while let Some(bytes) = dns::addresses(rest.0, &mut add) {
            rest.take(bytes);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A ClientHello from its handshake header on, with `extensions` after another one.
    pub(super) fn client_hello_with(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut all = [&[0, 43][..], &sized(&[2, 3, 4])].concat();
        for (kind, data) in extensions {
            all.extend(kind.to_be_bytes());
            all.extend(sized(data));
        }
        let mut hello = vec![3, 3];
        hello.extend([9; 32]);
        hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
        hello.extend(sized(&all));
        [&[1, 0][..], &sized(&hello)].concat()
    }

    pub(super) fn server_name(name: &str) -> (u16, Vec<u8>) {
        (0, sized(&[&[0], &sized(name.as_bytes())[..]].concat()))
    }

    pub(super) fn alpn(ids: &[&[u8]]) -> (u16, Vec<u8>) {
        (16, sized(&ids.iter().flat_map(|id| [&[id.len() as u8], *id].concat()).collect::<Vec<u8>>()))
    }

    fn named(protocol: u8, ports: [u16; 2], forward: &[u8]) -> Option<(&'static str, Option<String>)> {
        application(protocol, ports, forward, &[]).map(|found| (found.protocol, found.server_name))
    }

    fn sized(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
    }

    fn record(hello: &[u8]) -> Vec<u8> {
        [&[22, 3, 1][..], &sized(hello)].concat()
    }

    fn client_hello(name: &str) -> Vec<u8> {
        record(&client_hello_with(&[server_name(name)]))
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

    /// A response with one address of each question.
    fn answer(name: &str, address: [u8; 4]) -> Vec<u8> {
        let mut bytes = question(name);
        (bytes[2], bytes[7]) = (0x81, 1);
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4]);
        bytes.extend(address);
        bytes
    }

    #[test]
    fn addresses_are_those_of_all_answers_up_to_a_limit() {
        let answers = [answer("a.example", [192, 0, 2, 1]), answer("b.example", [192, 0, 2, 2])];
        let texts = |protocol: u8, payloads: [&[u8]; 2]| {
            let all = dns_addresses(protocol, payloads).into_iter();
            all.map(|(address, name)| format!("{address} {name}")).collect::<Vec<_>>()
        };
        let expected = ["192.0.2.1 a.example", "192.0.2.2 b.example"];
        let questions = [question("a.example"), question("b.example")];
        assert_eq!(texts(UDP, [&questions.concat(), &answers.concat()]), expected);
        let sized: Vec<u8> = answers.iter().flat_map(|answer| sized(answer)).collect();
        assert_eq!(texts(TCP, [&[], &sized]), expected);
        assert_eq!(texts(UDP, [&answers.concat()[..60], &[]]), expected[..1], "the second one is cut");
        assert_eq!(texts(UDP, [&answers[0].repeat(100), &[]]).len(), ADDRESSES_MAX);
    }

    #[test]
    fn protocols_that_the_client_offers_are_listed_and_name_what_the_port_does_not() {
        let of = |ports, ids: &[&[u8]]| {
            let hello = record(&client_hello_with(&[alpn(ids), server_name("a.example")]));
            let found = application(TCP, ports, &hello, &[]).unwrap();
            assert_eq!(
                (found.protocol, found.server_name.as_deref()),
                ("tls", Some("a.example")),
                "after it"
            );
            (found.name, found.alpn)
        };
        let list = |text: &str| Some(text.to_owned());
        assert_eq!(of([5, 443], &[b"h2", b"http/1.1"]), ("tls", list("h2,http/1.1")));
        assert_eq!(of([5, 8443], &[b"h2", b"http/1.1"]), ("https", list("h2,http/1.1")));
        assert_eq!(of([5, 443], &[b"\x0a\x0a", b"dot"]), ("dot", list("dot")), "the first one is GREASE");
        assert_eq!(of([5, 853], &[b"dot"]), ("tls", list("dot")));
        assert_eq!(of([5, 443], &[b"unheard-of", b"a,b"]), ("tls", list("unheard-of")));
        assert_eq!(of([5, 443], &[b"\x1b[2J"]), ("tls", None));
        let cut = record(&client_hello_with(&[server_name("a.example"), alpn(&[b"h2", b"http/1.1"])]));
        let found = application(TCP, [5, 8443], &cut[..cut.len() - 3], &[]).unwrap();
        assert_eq!(
            (found.name, found.alpn, found.server_name),
            ("tls", None, list("a.example")),
            "half of a list"
        );
    }

    /// A sender may fragment it anywhere (RFC 8446, section 5.1), also inside a name.
    #[test]
    fn a_hello_in_several_records_is_read() {
        let hello = client_hello_with(&[server_name("a.example"), alpn(&[b"dot"])]);
        let found = |stream: &[u8]| application(TCP, [5, 443], stream, &[]);
        let whole = found(&record(&hello));
        assert_eq!(whole.as_ref().map(|found| found.name), Some("dot"));
        for cut in 1..hello.len() {
            let records = [record(&hello[..cut]), record(&[]), record(&hello[cut..])].concat();
            assert_eq!(found(&records), whole, "cut at {cut}");
        }
    }

    #[test]
    fn an_application_after_a_change_of_protocol_is_named() {
        let host = |name: &str| Some(name.to_owned());
        let hello = client_hello("a.example");
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec();
        let ldap = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
        let any: [&[u8]; 5] = [
            b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c............",
            b"\x04\x01\x01\xbb\xc0\0\x02\x01\0",
            b"\x05\x01\0\x05\x01\0\x03\x07proxied\x01\xbb",
            b"CONNECT other:443 HTTP/1.1\r\nHost: other\r\n\r\n",
        ];
        let to_tls: [&[u8]; 6] = [
            b"EHLO b\r\nSTARTTLS\r\n",
            b"a1 STARTTLS\r\n",
            b"STLS\r\n",
            b"AUTH TLS\r\n",
            &ldap[..],
            &[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f],
        ];
        for before in any.iter().chain(&to_tls) {
            let stream = [before, &hello[..]].concat();
            assert_eq!(named(TCP, [5, 25], &stream), Some(("tls", host("a.example"))), "{before:?}");
            // Where the source is uncertain it is in the other direction.
            let found = application(TCP, [5, 25], &[], &stream);
            assert_eq!(found.and_then(|found| found.server_name), host("a.example"), "{before:?}");
        }
        for before in any {
            let stream = [before, &request[..]].concat();
            assert_eq!(named(TCP, [5, 80], &stream), Some(("http", host("a.example"))), "{before:?}");
            assert_eq!(
                named(TCP, [5, 80], &[before, b"SSH-2.0-x\r\n"].concat()),
                Some(("ssh", None)),
                "{before:?}"
            );
        }
        assert_eq!(named(TCP, [5, 8080], any[4]), Some(("http", host("other"))), "nothing follows");
        assert_eq!(named(TCP, [5, 25], to_tls[0]), None);
        // The length of a message of DNS looks like the answer of SOCKS.
        let question = question(&format!("{}.{}", "a".repeat(63), "b".repeat(8)));
        assert_eq!((question.len(), dns_name(&question).is_some()), (90, true));
        assert_eq!(named(TCP, [5, 53], &sized(&question)).map(|found| found.0), Some("dns"));
    }

    #[test]
    fn every_name_is_known() {
        let known = |name| Application::of_name(name, UDP).map(|found| (found.name, found.protocol));
        assert_eq!(known("quic"), Some(("quic", "quic")));
        assert_eq!(known("https"), Some(("https", "quic")));
        assert_eq!(known("unheard-of"), None);
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
