//! Any bytes as a handshake message, as messages that may precede TLS, and as records in pieces: no panic, the same
//! hellos however the bytes come, and fingerprints have their form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::Sender;
use quaff_stream::application::tls::{HelloReader, TlsHello};
use quaff_wire::application::preface::{MESSAGE_BYTES_MAX, before_tls_bytes, proxy_bytes};

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
    for length in [proxy_bytes(bytes), before_tls_bytes(bytes)].into_iter().flatten() {
        assert!(length <= bytes.len() && (length > 0 || bytes.len() < MESSAGE_BYTES_MAX));
    }
    let Some((piece, stream)) = bytes.split_first() else { return };
    let found = read(stream, usize::from(*piece) + 1);
    assert!(found.len() <= 2 && found == read(stream, stream.len().max(1)));
});
