//! Hellos in records of any size, and arbitrary bytes.

use super::*;
use crate::event::Sender::{A, B};
use proptest::prelude::*;

fn sized(bytes: &[u8]) -> Vec<u8> {
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
fn client_hello() -> Vec<u8> {
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

fn server_hello() -> Vec<u8> {
    let extensions = [(SUPPORTED_VERSIONS, vec![3, 4]), (ALPN, sized(b"\x02h2"))];
    message(2, 0x0303, &[0x13, 1], &[0], &extensions)
}

/// The bytes of a stream, in records of at most `bytes` bytes.
fn records(message: &[u8], bytes: usize) -> Vec<u8> {
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

#[test]
fn another_message_is_not_read_on() {
    let mut other = HelloReader::default();
    let mut none = |_: Sender, _: &TlsHello| panic!("no hello");
    other.data(A, b"GET / HTTP/1.1\r\n", &mut none);
    other.data(B, &records(&[11, 0, 0, 0], 16384), &mut none);
    assert!(other.is_over());
    let mut long = HelloReader::default();
    long.data(A, &records(&[1, 1, 0, 0, 3, 3], 16384), &mut none);
    long.gap(B);
    assert!(long.is_over(), "one of 64 KiB");
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
