//! Hellos in records of any size, and arbitrary bytes.

use super::*;
use crate::event::Sender::{A, B};
use proptest::prelude::*;

pub(super) fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn numbers(list: &[u16]) -> Vec<u8> {
    list.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// A message from its handshake header on.
fn message(
    kind: u8,
    version: u16,
    ciphers: &[u8],
    compression: &[u8],
    extensions: &[(u16, Vec<u8>)],
) -> Vec<u8> {
    let extensions: Vec<u8> =
        extensions.iter().flat_map(|(kind, data)| [&kind.to_be_bytes()[..], &sized(data)].concat()).collect();
    let body = [&version.to_be_bytes()[..], &[7; 32], &[2, 1, 2], ciphers, compression, &sized(&extensions)]
        .concat();
    [&[kind, 0][..], &sized(&body)].concat()
}

/// The ClientHello of JA4's example, in its order, with GREASE values.
pub(super) fn client_hello() -> Vec<u8> {
    let ciphers = [
        0x4a4a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x9c,
        0x9d, 0x2f, 0x35,
    ];
    let algorithms = [0x403, 0x804, 0x401, 0x503, 0x805, 0x501, 0x806, 0x601];
    let versions = [0x7a7a, 0x0304, 0x0303];
    let alpn = b"\x02\x1a\x1a\x02h2\x08http/1.1";
    let kinds: [u16; 18] = [
        0x0a0a, 0x1b, 0, 0x33, 0x10, 0x4469, 0x17, 0x2d, 0xd, 5, 0x23, 0x12, 0x2b, 0xff01, 0xb, 0xa, 0x15,
        0xfafa,
    ];
    let extensions = kinds.map(|kind| {
        let data = match kind {
            SERVER_NAME => sized(&[&[0], &sized(b"a.example")[..]].concat()),
            ALPN => sized(alpn),
            SIGNATURE_ALGORITHMS => sized(&numbers(&algorithms)),
            SUPPORTED_VERSIONS => [&[6][..], &numbers(&versions)].concat(),
            _ => vec![0],
        };
        (kind, data)
    });
    message(1, 0x0303, &sized(&numbers(&ciphers)), &[1, 0], &extensions)
}

pub(super) fn server_hello() -> Vec<u8> {
    let extensions = [(SUPPORTED_VERSIONS, vec![3, 4]), (ALPN, sized(b"\x02h2"))];
    message(2, 0x0303, &[0x13, 1], &[0], &extensions)
}

/// The bytes of a stream, in records of at most `bytes` bytes.
pub(super) fn records(message: &[u8], bytes: usize) -> Vec<u8> {
    message.chunks(bytes).flat_map(|part| [&[22, 3, 1][..], &sized(part)].concat()).collect()
}

fn read(pieces: &[(Sender, &[u8])]) -> Vec<(Sender, TlsHello)> {
    let (mut reader, mut found) = (HelloReader::default(), Vec::new());
    for (sender, bytes) in pieces {
        reader.data(*sender, bytes, &mut |sender, hello| found.push((sender, hello.clone())));
    }
    found
}

#[test]
fn both_hellos_are_read_with_the_fingerprint_of_the_client() {
    let (client, server) = (records(&client_hello(), 16384), records(&server_hello(), 16384));
    let found = read(&[(A, &client), (B, &server), (A, &client)]);
    let [(A, client), (B, server)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(client.ja4.as_deref(), Some("t13d1516h2_8daaf6152771_e5627efa2ab1"));
    assert_eq!((client.version, client.server_name.as_deref()), (0x0304, Some("a.example")));
    assert_eq!(
        (client.alpn.as_slice(), client.ciphers.len()),
        (&["h2".to_owned(), "http/1.1".to_owned()][..], 16)
    );
    assert!(client.is_client && !server.is_client && server.ja4.is_none());
    assert_eq!(
        (server.version, &server.ciphers[..], server.alpn.join(",")),
        (0x0304, &[0x1301][..], "h2".to_owned())
    );
    assert_eq!([version_name(server.version), version_name(2)], ["TLS 1.3", "unknown"]);
    assert!(TlsHello::read(&client_hello(), 'q').unwrap().ja4.unwrap().starts_with("q13d"));
}

#[test]
fn records_and_segments_are_cut_anywhere() {
    let hello = client_hello();
    let whole = read(&[(A, &records(&hello, 16384))]);
    for bytes in [1, 3, 100] {
        for piece in [1, 7, 64, 4096] {
            let stream = records(&hello, bytes);
            let pieces: Vec<(Sender, &[u8])> = stream.chunks(piece).map(|piece| (A, piece)).collect();
            assert_eq!(read(&pieces), whole, "records of {bytes}, pieces of {piece}");
        }
    }
}

/// Exchanges before TLS, of the client and of the server in turn.
fn exchanges() -> Vec<(&'static str, Vec<&'static [u8]>)> {
    vec![
        (
            "SMTP",
            vec![
                b"",
                b"220 a ESMTP\r\n",
                b"EHLO b\r\n",
                b"250-a\r\n250 STARTTLS\r\n",
                b"STARTTLS\r\n",
                b"220 go\r\n",
            ],
        ),
        ("IMAP", vec![b"", b"* OK IMAP4\r\n", b"a1 STARTTLS\r\n", b"a1 OK go\r\n"]),
        ("POP3", vec![b"", b"+OK\r\n", b"STLS\r\n", b"+OK\r\n"]),
        ("FTP", vec![b"", b"220 x\r\n", b"AUTH TLS\r\n", b"234 go\r\n"]),
        (
            "LDAP",
            vec![
                b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037",
                b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\0\x04\0\x04\0",
            ],
        ),
        ("PostgreSQL", vec![&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f], b"S"]),
        (
            "PostgreSQL, GSS first",
            vec![&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x30], b"N", &[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f], b"S"],
        ),
        (
            "CONNECT",
            vec![b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"],
        ),
        (
            "CONNECT, refused first",
            vec![
                b"CONNECT a:443 HTTP/1.1\r\n\r\n",
                b"HTTP/1.1 407 no\r\nContent-Length: 3\r\n\r\n\0\x01\xff",
                b"CONNECT a:443 HTTP/1.1\r\n\r\n",
                b"HTTP/1.1 200 OK\r\n\r\n",
            ],
        ),
        ("SOCKS 4", vec![b"\x04\x01\x01\xbb\xc0\0\x02\x01\0", b"\0\x5a\x01\xbb\xc0\0\x02\x01"]),
        (
            "SOCKS 5",
            vec![
                b"\x05\x02\0\x02",
                b"\x05\0",
                b"\x05\x01\0\x03\x09a.example\x01\xbb",
                b"\x05\0\0\x01\xc0\0\x02\x01\x01\xbb",
            ],
        ),
        ("PROXY 1", vec![b"PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n"]),
        ("PROXY 2", vec![b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c............"]),
        ("an unknown one", vec![&[0xff, 0, 1, 2], &[0xfe, 0]]),
    ]
}

#[test]
fn tls_after_another_protocol_is_found() {
    let (client, server) = (records(&client_hello(), 16384), records(&server_hello(), 16384));
    for (name, parts) in exchanges() {
        let turns = parts.iter().enumerate().map(|(at, bytes)| (if at % 2 == 0 { A } else { B }, *bytes));
        let ends = [(A, &client[..]), (B, &server[..])];
        let steps: Vec<(Sender, &[u8])> = turns.chain(ends).collect();
        let expected = read(&ends);
        assert_eq!((expected.len(), read(&steps)), (2, expected.clone()), "{name}");
        if name == "an unknown one" {
            continue;
        }
        // The other side was not captured, and the bytes come one by one.
        for (side, hello) in [(A, &expected[0]), (B, &expected[1])] {
            let own: Vec<u8> =
                steps.iter().filter(|(of, _)| *of == side).flat_map(|(_, bytes)| bytes.to_vec()).collect();
            if name == "CONNECT, refused first" && side == B {
                continue;
            }
            assert_eq!(read(&[(side, &own)]), std::slice::from_ref(hello), "{name}, alone");
            let single: Vec<(Sender, &[u8])> = own.chunks(1).map(|byte| (side, byte)).collect();
            assert_eq!(read(&single), std::slice::from_ref(hello), "{name}, byte by byte");
        }
    }
}

#[test]
fn a_retry_is_followed_by_another_hello_of_each_side() {
    let mut retry = server_hello();
    retry[RANDOM_AT..RANDOM_AT + 32].copy_from_slice(&RETRY_RANDOM);
    let [client, retry, server] =
        [client_hello(), retry, server_hello()].map(|message| records(&message, 100));
    let change = [20, 3, 3, 0, 1, 1];
    let early = [&[23, 3, 3, 1, 0][..], &[9; 256]].concat();
    let second = [&change[..], &client].concat();
    let last = [&change[..], &server].concat();
    let steps = [(A, &client[..]), (A, &early[..]), (B, &retry[..]), (A, &second[..]), (B, &last[..])];
    let found = read(&steps);
    let kinds: Vec<_> = found.iter().map(|(side, hello)| (*side, hello.is_client, hello.is_retry)).collect();
    assert_eq!(kinds, [(A, true, false), (B, false, true), (A, true, false), (B, false, false)]);
    // One direction alone.
    let clients = [&client[..], &second].concat();
    assert_eq!(read(&[(A, &clients)]).len(), 2);
    let mut reader = HelloReader::default();
    for (side, bytes) in [(A, &client), (B, &server)] {
        reader.data(side, bytes, &mut |_, _| ());
    }
    assert!(reader.is_over(), "without a retry nothing follows");
}

#[test]
fn another_message_is_not_read_on() {
    let mut other = HelloReader::default();
    let mut none = |_: Sender, _: &TlsHello| panic!("no hello");
    other.data(A, &records(&[1, 1, 0, 0, 3, 3], 16384), &mut none);
    other.data(B, &records(&[11, 0, 0, 0], 16384), &mut none);
    assert!(other.is_over(), "one of 64 KiB, and a certificate");
    let mut long = HelloReader::default();
    for _ in 0..40 {
        long.data(A, &b"GET / HTTP/1.1\r\n".repeat(64), &mut none);
        long.data(B, &[0xff; 1024], &mut none);
    }
    assert!(long.is_over(), "what is searched has a limit");
    let mut cut = HelloReader::default();
    for side in [A, B] {
        cut.data(side, &records(&client_hello(), 100)[..50], &mut none);
        cut.gap(side);
    }
    assert!(cut.is_over());
}

proptest! {
    #[test]
    fn any_bytes_are_read(at in 0usize..300, byte: u8, cut in 0usize..300, noise in prop::collection::vec(any::<u8>(), 0..300)) {
        for mut stream in [client_hello(), server_hello(), noise] {
            let _ = TlsHello::read(&stream, 't');
            if let Some(place) = stream.get_mut(at) {
                *place = byte;
            }
            let stream = records(&stream[..cut.min(stream.len())], 100);
            let pieces: Vec<(Sender, &[u8])> = stream.chunks(50).map(|piece| (B, piece)).collect();
            let _ = read(&pieces);
        }
    }
}
