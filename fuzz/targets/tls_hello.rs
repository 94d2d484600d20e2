//! Any bytes as a handshake message, and as records in pieces: no panic, the same hello however the bytes come, and
//! fingerprints have their form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::Sender;
use quaff_stream::application::tls::{HelloReader, TlsHello};

fn check(hello: &TlsHello) {
    assert_eq!(hello.ja4.is_some(), hello.is_client);
    if let Some(ja4) = &hello.ja4 {
        let parts: Vec<usize> = ja4.split('_').map(str::len).collect();
        assert_eq!(parts, [10, 12, 12], "{ja4}");
        assert!(ja4.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    }
    assert!(hello.server_name.iter().chain(&hello.alpn).all(|text| text.bytes().all(|byte| byte.is_ascii_graphic())));
}

fn read(stream: &[u8], piece: usize) -> Vec<TlsHello> {
    let (mut reader, mut found) = (HelloReader::default(), Vec::new());
    for bytes in stream.chunks(piece) {
        reader.data(Sender::B, bytes, &mut |_, hello| {
            check(hello);
            found.push(hello.clone());
        });
    }
    found
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(hello) = TlsHello::read(bytes, 'q') {
        check(&hello);
    }
    let Some((piece, stream)) = bytes.split_first() else { return };
    let found = read(stream, usize::from(*piece) + 1);
    assert!(found.len() <= 1 && found == read(stream, stream.len().max(1)));
});
